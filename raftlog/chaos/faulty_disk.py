"""A disk that is slow, full, failing or lying on command, under a node that does not know it.

`FaultyFileSystem` wraps the real one (`storage.contract` is the interface of both). It reads its
faults from a small file that the harness replaces (`command`).
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from raftlog.errors import DiskFailed
from raftlog.storage.contract import File, FileSystem, Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFaults:
    """What a disk does wrong. Operations are counted from when the disk reads the command."""

    sync_delay_s: float = 0.0
    """How much longer every sync takes."""
    sync_fails_after: int | None = None
    """After this many syncs, one fails with EIO and later ones succeed. None: none fails."""
    write_fails_after: int | None = None
    """After this many writes, one fails with EIO when half of it is written. None: none fails."""
    syncs_lie: bool = False
    """Whether syncs report success and do nothing."""
    only: str = ""
    """Only files whose path contains this text have the faults; "" for all."""


NO_FAULTS = DiskFaults()


def faults_file(cluster: Path, node: int) -> Path:
    """The file by which the harness commands the disk of a node of the cluster in this folder."""
    return cluster / "disks" / f"node-{node}.faults"


def command(file: Path, faults: DiskFaults) -> None:
    """Give the disk that reads this file these faults from its next operation on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(faults)))
    draft.rename(file)


class _Command:
    """The present command, checked before each operation: one stat, unless it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._faults = NO_FAULTS
        self._lock = threading.Lock()
        self._counted = {"sync": 0, "write": 0}

    def due(self, operation: Literal["sync", "write"], path: str) -> DiskFaults:
        """The faults of this operation: `..._fails_after` is 0 if it must fail now, else None."""
        with self._lock:
            self._look()
            faults = self._faults
            if faults.only not in path:
                return NO_FAULTS
            done = self._counted[operation]
            self._counted[operation] = done + 1
        after = faults.sync_fails_after if operation == "sync" else faults.write_fails_after
        fails = 0 if after is not None and done == after else None
        return replace(faults, sync_fails_after=fails, write_fails_after=fails)

    def _look(self) -> None:
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            return
        seen = (stat.st_mtime_ns, stat.st_ino)
        if seen != self._seen:
            self._faults = DiskFaults(**json.loads(self._path.read_text()))
            self._seen = seen
            self._counted = {"sync": 0, "write": 0}


class FaultyFile:
    """See `contract.File`: the file within, with the disk's faults."""

    def __init__(self, inner: File, command: _Command) -> None:
        self._inner = inner
        self._command = command
        self._failed = False

    @property
    def path(self) -> str:
        return self._inner.path

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, position: int, length: int) -> bytes:
        return self._inner.read_at(position, length)

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        self._refuse_after_failure()
        faults = self._command.due("write", self.path)
        if faults.write_fails_after is not None:
            written = b"".join(buffers)
            self._inner.write_at(position, [written[: len(written) // 2]])
            raise self._failure()
        self._inner.write_at(position, buffers)

    def sync(self) -> None:
        self._refuse_after_failure()
        faults = self._command.due("sync", self.path)
        _wait(faults.sync_delay_s)
        if faults.sync_fails_after is not None:
            raise self._failure()
        if not faults.syncs_lie:
            self._inner.sync()

    def truncate(self, size: int) -> None:
        self._refuse_after_failure()
        self._inner.truncate(size)

    def reserve(self, size: int) -> None:
        self._refuse_after_failure()
        self._inner.reserve(size)

    def close(self) -> None:
        self._inner.close()

    def _refuse_after_failure(self) -> None:
        if self._failed:
            raise DiskFailed(file=self.path, problem="an earlier write or sync of it failed")

    def _failure(self) -> DiskFailed:
        self._failed = True
        return _failure(self.path)


class FaultyFileSystem:
    """See `contract.FileSystem`: the one within, with the disk's faults."""

    def __init__(self, inner: FileSystem, faults: Path) -> None:
        """`faults`: the file from which it takes its commands (`command`)."""
        self._inner = inner
        self._command = _Command(faults)

    def location(self, path: str) -> str:
        return self._inner.location(path)

    def new_id(self) -> int:
        return self._inner.new_id()

    def free_bytes(self) -> int:
        return self._inner.free_bytes()

    def lock(self, path: str) -> Lock:
        return self._inner.lock(path)

    def open(self, path: str, *, create: bool, direct: bool = False) -> FaultyFile:
        return FaultyFile(self._inner.open(path, create=create, direct=direct), self._command)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list(self, folder: str) -> list[str]:
        return self._inner.list(folder)

    def make_folder(self, path: str) -> None:
        self._inner.make_folder(path)

    def rename(self, source: str, target: str) -> None:
        self._inner.rename(source, target)

    def remove(self, path: str) -> None:
        self._inner.remove(path)

    def sync_folder(self, path: str) -> None:
        faults = self._command.due("sync", self.location(path))
        _wait(faults.sync_delay_s)
        if faults.sync_fails_after is not None:
            raise _failure(self.location(path))
        if not faults.syncs_lie:
            self._inner.sync_folder(path)


def _wait(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)  # it is never set


def _failure(path: str) -> DiskFailed:
    return DiskFailed(file=path, problem=f"{OSError(errno.EIO, os.strerror(errno.EIO))} (injected)")
