"""What every verb gets: the settings from all sources, and a client of the cluster they name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import tell
from raftlog.config import ClientSettings, Settings
from raftlog.config_ensemble import found_by

if TYPE_CHECKING:
    from raftlog.client.log_client import LogClient

DATA_FOLDER_DEFAULT = Path("raftlog-data")
"""Where `up`, `serve` and `down` look for a cluster's data by default."""

ServersOption = Annotated[
    str | None,
    typer.Option(
        "--servers",
        metavar="HOST:PORT,...",
        help="Nodes to ask first; short for --set client.bootstrap_servers=...",
        show_default=False,
    ),
]
"""Accepted before and after the verb. The one after it wins."""

_NAME_DIGITS = 16

FLAGS = ("--servers", "--zookeeper")
"""How a verb finds its cluster: one of these, or as the settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The global options of one command."""

    settings: Settings
    passed_on: tuple[str, ...]
    """The flags that give another `raftlog` process the same settings."""

    def with_token(self, file: Path) -> Session:
        """The same, with the token of this file."""
        client = self.settings.client.with_arguments(token=f"file:{file}")
        return replace(self, settings=self.settings.model_copy(update={"client": client}))

    def client_settings(self) -> ClientSettings:
        """The settings of a client, with the token of `raftlog login` if they name no other."""
        settings = self.settings.client
        if not settings.token and settings.tls_ca_file and token_file(settings).exists():
            return self.with_token(token_file(settings)).settings.client
        return settings

    def connect(self, patience_s: float | None = None) -> LogClient:
        """A client of the cluster that --servers or the settings name. It contacts no server yet.

        `patience_s`: the longest that a request of it may take, if the settings allow more.
        """
        from raftlog.client.connect import connect
        from raftlog.client.connection import LOGGER

        tell(LOGGER)
        settings = self.client_settings()
        if patience_s is not None:
            shorter_s = min(patience_s, settings.request_timeout_s)
            settings = settings.with_arguments(request_timeout_s=shorter_s)
        return connect(settings=settings)


def token_file(client: ClientSettings) -> Path:
    """Where `raftlog login` keeps the token for the cluster that these settings lead to."""
    found_at = ",".join(sorted(f"{client.bootstrap_servers},{client.zookeeper}".split(",")))
    name = hashlib.sha256(found_at.encode()).hexdigest()[:_NAME_DIGITS]
    return Path(typer.get_app_dir("raftlog")) / f"token-{name}"


def session_of(context: typer.Context, servers: str | None = None) -> Session:
    """The session that the global options made, with the verb's own --servers if it has one."""
    found = context.find_object(Session)
    assert found is not None, "the root command makes the session before any verb runs"
    if servers is None:
        return found
    settings = found.settings
    client = settings.client.model_copy(update=found_by(servers, None, FLAGS))
    return replace(found, settings=settings.model_copy(update={"client": client}))
