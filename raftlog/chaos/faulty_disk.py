"""A disk that is slow, full, failing or lying on command, under a node that does not know it.

`FaultyFileSystem` wraps the real one (`storage.contract` is the interface of both). It reads its
faults from a small file that the harness replaces (`command`), and notes next to the data folder
what a power loss could take (`disk_notes`).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from raftlog.chaos.disk_notes import DiskNotes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFiles:
    """The files, in `folder`, by which the harness commands one node's disk and reads its notes."""

    folder: Path
    node: int

    @classmethod
    def of(cls, cluster: Path, node: int) -> DiskFiles:
        """The files for a node of the cluster in this folder."""
        return cls(folder=cluster / "disks", node=node)

    @property
    def command(self) -> Path:
        """The disk's faults from now on."""
        return self.folder / f"node-{self.node}.faults"

    @property
    def notes(self) -> Path:
        """The notes of what a power loss could take."""
        return self.folder / f"node-{self.node}.notes"

    @property
    def aside(self) -> Path:
        """Files whose removal or replacement a power loss could undo."""
        return self.folder / f"node-{self.node}.aside"


def command(files: DiskFiles, faults: DiskFaults) -> None:
    """Give the node's disk these faults from its next operation on."""
    files.folder.mkdir(parents=True, exist_ok=True)
    draft = files.command.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(faults)))
    draft.rename(files.command)


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
    """See `contract.File`: the real file with the disk's faults."""

    def __init__(self, inner: File, inode: int, fs: FaultyFileSystem) -> None:
        self._inner = inner
        self.inode = inode
        self._fs = fs
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
        length = sum(map(len, buffers))
        self._note(position, length)
        faults = self._fs.command.due("write", self.path)
        if faults.write_fails_after is not None:
            self._inner.write_at(position, [b"".join(buffers)[: length // 2]])
            raise self._failure()
        self._inner.write_at(position, buffers)

    def sync(self) -> None:
        self._refuse_after_failure()
        upto = self._fs.notes.number
        faults = self._fs.command.due("sync", self.path)
        _wait(faults.sync_delay_s)
        if faults.sync_fails_after is not None:
            raise self._failure()
        if not faults.syncs_lie:
            self._inner.sync()
            self._fs.notes.file_synced(self.inode, upto)

    def truncate(self, size: int) -> None:
        self._refuse_after_failure()
        self._note(size, max(0, self.size() - size))
        self._inner.truncate(size)

    def reserve(self, size: int) -> None:
        self._refuse_after_failure()
        if size > self.size():
            self._note(self.size(), 0)
            self._inner.reserve(size)

    def close(self) -> None:
        self._inner.close()

    def _note(self, position: int, length: int) -> None:
        size = self.size()
        before = self.read_at(position, min(length, size - position)) if position < size else b""
        self._fs.notes.file_changes(
            self.inode, position, length, size_before=size, before=before.rstrip(b"\0")
        )

    def _refuse_after_failure(self) -> None:
        if self._failed:
            raise DiskFailed(file=self.path, problem="an earlier write or sync of it failed")

    def _failure(self) -> DiskFailed:
        self._failed = True
        return _failure(self.path)


class FaultyFileSystem:
    """See `contract.FileSystem`. Only one name is changed at a time."""

    def __init__(self, inner: FileSystem, files: DiskFiles) -> None:
        self._inner = inner
        self._aside = files.aside
        self._aside.mkdir(parents=True, exist_ok=True)
        self._names = threading.Lock()
        self.command = _Command(files.command)
        self.notes = DiskNotes(files.notes)

    def location(self, path: str) -> str:
        return self._inner.location(path)

    def new_id(self) -> int:
        return self._inner.new_id()

    def lock(self, path: str) -> Lock:
        return self._inner.lock(path)

    def open(self, path: str, *, create: bool) -> FaultyFile:
        if not create:
            return self._opened(path, self._inner.open(path, create=False))
        with self._names:
            if not self._inner.exists(path):
                self.notes.name_changes(*_split(path), kind="create")
            file = self._opened(path, self._inner.open(path, create=True))
            # The inode number of a removed file may have been given to this one.
            self.notes.file_synced(file.inode, self.notes.number)
            return file

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list(self, folder: str) -> list[str]:
        return self._inner.list(folder)

    def make_folder(self, path: str) -> None:
        with self._names:
            if path and not self._inner.exists(path):
                self.notes.name_changes(*_split(path), kind="create")
            self._inner.make_folder(path)

    def rename(self, source: str, target: str) -> None:
        with self._names:
            folder, name = _split(source)
            aside = self._keep(target) if self._inner.exists(target) else 0
            self.notes.name_changes(
                folder, name, kind="rename", target=_split(target)[1], aside=aside
            )
            self._inner.rename(source, target)

    def remove(self, path: str) -> None:
        with self._names:
            folder, name = _split(path)
            self.notes.name_changes(folder, name, kind="remove", aside=self._keep(path))
            self._inner.remove(path)

    def sync_folder(self, path: str) -> None:
        with self._names:
            upto = self.notes.number
            faults = self.command.due("sync", self.location(path))
            _wait(faults.sync_delay_s)
            if faults.sync_fails_after is not None:
                raise _failure(self.location(path))
            if faults.syncs_lie:
                return
            self._inner.sync_folder(path)
            for number in self.notes.folder_synced(path, upto):
                drop(self._aside / str(number))

    def _opened(self, path: str, inner: File) -> FaultyFile:
        return FaultyFile(inner, os.stat(self.location(path)).st_ino, self)

    def _keep(self, path: str) -> int:
        """Keep what the name refers to by a hard link of our own. Returns the link's number."""
        number = self.notes.number + 1
        _link(Path(self.location(path)), self._aside / str(number))
        return number


def _wait(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)  # nobody ever sets it


def _failure(path: str) -> DiskFailed:
    return DiskFailed(file=path, problem=f"{OSError(errno.EIO, os.strerror(errno.EIO))} (injected)")


def _link(source: Path, target: Path) -> None:
    """Give a file, or every file of a folder, a second name."""
    drop(target)  # left by a process that was killed between its link and its note
    if source.is_dir():
        shutil.copytree(source, target, copy_function=os.link)
    else:
        os.link(source, target)


def drop(path: Path) -> None:
    """Remove a file, or a folder with everything in it, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name
