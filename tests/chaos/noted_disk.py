"""A disk that notes, outside its data folder, what a power loss could take (`disk_notes`).

`NotedFileSystem` wraps the real one, below a `FaultyFileSystem`: a sync that a fault left out is
not noted either.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raftlog.storage.contract import File, FileSystem, Lock
from tests.chaos.disk_notes import DiskNotes


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFiles:
    """Where a process notes what it does to a disk. On the same file system as the data."""

    notes: Path
    """What a power loss could take."""
    aside: Path
    """Files whose removal or replacement a power loss could undo."""

    @classmethod
    def of(cls, cluster: Path, node: int) -> NoteFiles:
        """Those of a node of the cluster in this folder."""
        return cls._named(cluster, f"node-{node}")

    @classmethod
    def of_compaction(cls, cluster: Path, node: int) -> NoteFiles:
        """Those of the node's compaction process."""
        return cls._named(cluster, f"compaction-{node}")

    @classmethod
    def _named(cls, cluster: Path, name: str) -> NoteFiles:
        disks = cluster / "disks"
        return cls(notes=disks / f"{name}.notes", aside=disks / f"{name}.aside")


class NotedFile:
    """See `contract.File`: the real file, whose changes are noted."""

    def __init__(self, inner: File, inode: int, notes: DiskNotes) -> None:
        self._inner = inner
        self._inode = inode
        self._notes = notes

    @property
    def path(self) -> str:
        return self._inner.path

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, position: int, length: int) -> bytes:
        return self._inner.read_at(position, length)

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        self._note(position, sum(map(len, buffers)))
        self._inner.write_at(position, buffers)

    def sync(self) -> None:
        upto = self._notes.number
        self._inner.sync()
        self._notes.file_synced(self._inode, upto)

    def truncate(self, size: int) -> None:
        self._note(size, max(0, self.size() - size))
        self._inner.truncate(size)

    def reserve(self, size: int) -> None:
        if size > self.size():
            self._note(self.size(), 0)
            self._inner.reserve(size)

    def close(self) -> None:
        self._inner.close()

    def _note(self, position: int, length: int) -> None:
        size = self.size()
        before = self.read_at(position, min(length, size - position)) if position < size else b""
        self._notes.file_changes(
            self._inode, position, length, size_before=size, before=before.rstrip(b"\0")
        )


class NotedFileSystem:
    """See `contract.FileSystem`. Only one name is changed at a time."""

    def __init__(self, inner: FileSystem, files: NoteFiles) -> None:
        self._inner = inner
        self._aside = files.aside
        self._aside.mkdir(parents=True, exist_ok=True)
        self._names = threading.Lock()
        self._notes = DiskNotes(files.notes)

    def location(self, path: str) -> str:
        return self._inner.location(path)

    def new_id(self) -> int:
        return self._inner.new_id()

    def free_bytes(self) -> int:
        return self._inner.free_bytes()

    def lock(self, path: str) -> Lock:
        return self._inner.lock(path)

    def open(self, path: str, *, create: bool, direct: bool = False) -> NotedFile:
        if not create:
            return self._opened(path, self._inner.open(path, create=False, direct=direct))
        with self._names:
            if not self._inner.exists(path):
                self._notes.name_changes(*_split(path), kind="create")
            inner = self._inner.open(path, create=True, direct=direct)
            # The inode number of a removed file may have been given to this one.
            self._notes.file_synced(self._inode(path), self._notes.number)
            return self._opened(path, inner)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list(self, folder: str) -> list[str]:
        return self._inner.list(folder)

    def make_folder(self, path: str) -> None:
        with self._names:
            if path and not self._inner.exists(path):
                self._notes.name_changes(*_split(path), kind="create")
            self._inner.make_folder(path)

    def rename(self, source: str, target: str) -> None:
        with self._names:
            folder, name = _split(source)
            aside = self._keep(target) if self._inner.exists(target) else 0
            self._notes.name_changes(
                folder, name, kind="rename", target=_split(target)[1], aside=aside
            )
            self._inner.rename(source, target)

    def remove(self, path: str) -> None:
        with self._names:
            folder, name = _split(path)
            self._notes.name_changes(folder, name, kind="remove", aside=self._keep(path))
            self._inner.remove(path)

    def sync_folder(self, path: str) -> None:
        with self._names:
            upto = self._notes.number
            self._inner.sync_folder(path)
            for number in self._notes.folder_synced(path, upto):
                self._let_go(self._aside / str(number))

    def _let_go(self, aside: Path) -> None:
        """Drop what was kept aside. An inode that goes with it may be given to a file of another
        process, which nothing noted of this one concerns."""
        for path in [aside, *aside.rglob("*")]:
            if path.is_file() and path.stat().st_nlink == 1:
                self._notes.file_synced(path.stat().st_ino, self._notes.number)
        drop(aside)

    def _opened(self, path: str, inner: File) -> NotedFile:
        return NotedFile(inner, self._inode(path), self._notes)

    def _inode(self, path: str) -> int:
        return os.stat(self.location(path)).st_ino

    def _keep(self, path: str) -> int:
        """Keep what the name refers to by a hard link of our own. Returns the link's number."""
        number = self._notes.number + 1
        _link(Path(self.location(path)), self._aside / str(number))
        return number


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
