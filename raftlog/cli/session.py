"""What every verb gets: the settings from all sources, and how to reach the cluster with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from raftlog.config import Settings

if TYPE_CHECKING:
    from raftlog.client.log_client import LogClient

DATA_FOLDER_DEFAULT = Path("raftlog-data")
"""Where `up`, `serve` and `down` look for a cluster's data unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The global options of one command."""

    settings: Settings
    passed_on: tuple[str, ...]
    """The flags that give another `raftlog` process the same settings."""

    def connect(self) -> LogClient:
        """A client of the cluster that --servers or the settings name; contacts nobody yet."""
        from raftlog.client.log_client import connect

        return connect(settings=self.settings.client)


def session_of(context: typer.Context) -> Session:
    """The session that the global options made."""
    found = context.find_object(Session)
    assert found is not None, "the root command makes the session before any verb runs"
    return found
