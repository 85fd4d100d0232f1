"""When each token was last used, to the hour: kept by each node in a file beside its tokens.

The file `<tokens_file>.used` is for operators only. No call waits for it, and a node that cannot
write it serves on. Nodes that share a folder share the file.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from raftlog.changing_files import only_writer, replace_whole

_WRITE_AGAIN_S = 60.0
"""The file is replaced this often at most. No setting: uses are kept to the hour."""
_HOUR_S = 3600
_FILE_BYTES_MAX = 16 << 20


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    used: dict[str, AwareDatetime] = {}


def uses_file(tokens_file: Path) -> Path:
    """Where the uses of these tokens are."""
    return tokens_file.with_name(f"{tokens_file.name}.used")


def read_uses(file: Path) -> dict[str, datetime]:
    """The hour in which each token was last used, by its id. A file that is missing or damaged has
    none."""
    try:
        with file.open("rb") as stream:
            return dict(_Content.model_validate_json(stream.read(_FILE_BYTES_MAX)).used)
    except (OSError, ValidationError):
        return {}


def latest(uses: Iterable[Mapping[str, datetime]]) -> dict[str, datetime]:
    """The last use of each token, of those that several nodes have seen."""
    found: dict[str, datetime] = {}
    for each in uses:
        for token, used in each.items():
            found[token] = max(used, found.get(token, used))
    return found


class TokenUses:
    """The uses that a node sees. Thread-safe."""

    def __init__(self, file: Path, known: Iterable[str], on_problem: Callable[[str], None]) -> None:
        """`known` are the ids of all tokens: uses of others are dropped. `on_problem` is called
        with the first problem in writing the file."""
        self._file = file
        self._known = frozenset(known)
        self._on_problem = on_problem
        self._hours: dict[str, int] = {}
        self._lock = threading.Lock()
        self._writer_waits = False
        self._written_s = -math.inf
        self._failed = False

    def note(self, token: str) -> None:
        """The token with this id is used now."""
        hour = int(time.time()) // _HOUR_S
        if self._hours.get(token) != hour:
            self._hours[token] = hour
            self.write_soon()

    def keep(self, known: Iterable[str]) -> None:
        """These are all tokens from now on: the file loses the uses of others."""
        self._known = frozenset(known)
        self.write_soon()

    def write_soon(self) -> None:
        """Write the file within a minute, on a thread of its own."""
        with self._lock:
            if self._writer_waits:
                return
            self._writer_waits = True
        pause_s = max(0.0, self._written_s + _WRITE_AGAIN_S - time.monotonic())
        writer = threading.Timer(pause_s, self._write)
        writer.daemon = True
        writer.start()

    def _write(self) -> None:
        with self._lock:
            self._written_s = time.monotonic()
            self._writer_waits = False
        try:
            with only_writer(self._file):
                self._write_now()
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._on_problem(f"{self._file}: {error.strerror}")

    def _write_now(self) -> None:
        before = read_uses(self._file)
        seen = {
            token: datetime.fromtimestamp(hour * _HOUR_S, UTC)
            for token, hour in self._hours.copy().items()
        }
        used = {
            token: hour for token, hour in latest((before, seen)).items() if token in self._known
        }
        if used != before:
            replace_whole(self._file, _Content(used=used).model_dump_json(indent=1).encode())
