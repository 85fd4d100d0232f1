"""A file system in memory whose `crash` loses what was not synced, as a disk may.

For simulation and tests. Every file has two images, the one that a reader sees and the durable one,
and an ordered list of the changes since the last sync. `crash` lets each unsynced change survive
wholly, torn at a byte, as zeros where it had grown the file, or not at all. Of the unsynced name
changes of each folder a prefix survives, because file systems keep those in order. All of this is
drawn from the generator passed in, so one seed gives one disk.

A process that only dies loses nothing: drop the open files and open again without `crash`. A
sync that failed leaves its changes readable but never makes them durable, whatever is synced
later. Kernels do the same, which is why a failed sync is never tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from raftlog.errors import CorruptFile, DataFolderLocked, DiskFailed

Interrupt = Callable[[str, str], None]
"""Called with the operation's name and path before each change. It may raise `DiskFailed`, which
fails the operation, or anything else, which simulates the death of the process."""


class _Write(NamedTuple):
    position: int
    data: bytes


class _Resize(NamedTuple):
    size: int


class _Inode:
    __slots__ = ("changes", "durable", "image")

    def __init__(self) -> None:
        self.image = bytearray()
        self.durable = bytearray()
        self.changes: list[_Write | _Resize] = []

    def change(self, change: _Write | _Resize) -> None:
        _apply(self.image, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            _apply(self.durable, change)
        self.changes.clear()

    def crash(self, random: Random) -> None:
        for change in self.changes:
            for part in _surviving(change, len(self.durable), random):
                _apply(self.durable, part)
        self.changes.clear()
        self.image = bytearray(self.durable)

    def durable_copy(self) -> _Inode:
        other = _Inode()
        other.image = bytearray(self.durable)
        other.durable = bytearray(self.durable)
        return other


def _apply(image: bytearray, change: _Write | _Resize) -> None:
    match change:
        case _Write(position, data):
            if position > len(image):
                image.extend(bytes(position - len(image)))
            image[position : position + len(data)] = data
        case _Resize(size):
            if size < len(image):
                del image[size:]
            else:
                image.extend(bytes(size - len(image)))


def _surviving(change: _Write | _Resize, size: int, random: Random) -> list[_Write | _Resize]:
    """What a disk of `size` bytes may keep of one unsynced change after a power loss."""
    fate = random.randrange(4)
    if fate == 0:
        return []
    if fate == 1 or isinstance(change, _Resize):
        return [change]
    grown = _Resize(max(size, change.position + len(change.data)))
    if fate == 2:
        return [grown]
    kept = random.randrange(len(change.data) + 1)
    torn = _Write(change.position, change.data[:kept])
    return [grown, torn] if random.randrange(2) else [torn]


class _Folder:
    __slots__ = ("changes", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Folder] = {}
        self.durable: dict[str, _Inode | _Folder] = {}
        self.changes: list[dict[str, _Inode | _Folder | None]] = []
        """What is not synced, in order: by name, what it means after the change."""

    def change(self, change: dict[str, _Inode | _Folder | None]) -> None:
        self.changes.append(change)
        _rename(self.names, change)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes.clear()

    def crash(self, random: Random) -> None:
        """Keep changes up to one of them, or any that do not build upon a lost one: not every file
        system keeps them in their order."""
        kept_up_to = random.randrange(len(self.changes) + 1)
        in_order = random.randrange(2)
        lost: set[str] = set()
        for number, change in enumerate(self.changes):
            is_kept = number < kept_up_to if in_order else random.randrange(2)
            if is_kept and lost.isdisjoint(change):
                _rename(self.durable, change)
            else:
                lost |= change.keys()
        self.names = dict(self.durable)
        self.changes.clear()
        for _, node in sorted(self.names.items()):
            node.crash(random)

    def durable_copy(self, only: str | None = None) -> _Folder:
        other = _Folder()
        first, _, rest = ("", "", "") if only is None else only.partition("/")
        for name, node in self.durable.items():
            if isinstance(node, _Inode):
                other.durable[name] = node.durable_copy()
            elif only is None or name == first:
                other.durable[name] = node.durable_copy(rest or None)
        other.names = dict(other.durable)
        return other


def _rename(names: dict[str, _Inode | _Folder], change: dict[str, _Inode | _Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class MemoryFile:
    """See `contract.File`. Unusable once it is closed or its file system has crashed."""

    __slots__ = ("_closed", "_failed", "_fs", "_generation", "_inode", "_path")

    def __init__(self, fs: MemoryFileSystem, path: str, inode: _Inode) -> None:
        self._fs = fs
        self._generation = fs.generation
        self._path = path
        self._inode = inode
        self._closed = False
        self._failed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._live().image)

    def read_at(self, position: int, length: int) -> bytes:
        assert position >= 0
        assert length >= 0
        if self._path in self._fs.unreadable:
            raise CorruptFile(file=self._path, position=position, problem="bad sectors")
        return bytes(self._live().image[position : position + length])

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        inode = self._may_change("write")
        data = b"".join(buffers)
        if data:
            inode.change(_Write(position, data))

    def sync(self) -> None:
        self._may_change("sync").sync()

    def truncate(self, size: int) -> None:
        self._may_change("truncate").change(_Resize(size))

    def reserve(self, size: int) -> None:
        inode = self._may_change("reserve")
        if size > len(inode.image):
            inode.change(_Resize(size))

    def close(self) -> None:
        """Also after the power failed: what a dead process had open does no harm."""
        if not self._closed and self._generation == self._fs.generation:
            self._fs.open_files -= 1
        self._closed = True

    def _live(self) -> _Inode:
        assert not self._closed, f"{self._path} is closed"
        assert self._generation == self._fs.generation, f"{self._path} was open when power failed"
        return self._inode

    def _may_change(self, operation: str) -> _Inode:
        inode = self._live()
        if self._failed:
            raise DiskFailed(file=self._path, problem="an earlier write or sync of it failed")
        try:
            self._fs.interrupted(operation, self._path)
        except DiskFailed:
            self._failed = True
            inode.changes.clear()  # the pages are marked clean and never reach the disk
            raise
        return inode


class MemoryLock:
    """See `contract.Lock`."""

    __slots__ = ("_fs",)

    def __init__(self, fs: MemoryFileSystem) -> None:
        self._fs = fs

    def release(self) -> None:
        self._fs.unlock()


class MemoryFileSystem:
    """See `contract.FileSystem`. For one thread."""

    def __init__(self, random: Random, *, interrupt: Interrupt | None = None) -> None:
        self._random = random
        self._root = _Folder()
        self._locked = False
        self.generation = 0
        self.interrupt = interrupt
        self.room = 1 << 50
        """What `free_bytes` says. Nothing else depends on it."""
        self.unreadable: frozenset[str] = frozenset()
        """Files whose bytes the disk cannot read back."""
        self.open_files = 0

    def crash(self, random: Random | None = None) -> None:
        """Lose the power: keep what was synced and, by chance (of `random`, if given), parts of
        what was not.

        Open files and locks are gone. The interrupt, if any, stays.
        """
        self.generation += 1
        self.open_files = 0
        self._locked = False
        self._root.crash(random or self._random)

    def durable_copy(self, random: Random, *, only: str | None = None) -> MemoryFileSystem:
        """A separate file system that contains only what is durable in this one now. With `only`,
        a folder's path, all folders that do not lead to it are left out.

        That is the least that a power loss leaves. This one is not changed, and neither is the
        state of its generator.
        """
        other = MemoryFileSystem(random)
        other._root = self._root.durable_copy(only)
        return other

    def interrupted(self, operation: str, path: str) -> None:
        """Tell the interrupt, if there is one, which operation is about to happen."""
        if self.interrupt is not None:
            self.interrupt(operation, path)

    def location(self, path: str) -> str:
        return path

    def new_id(self) -> int:
        return self._random.getrandbits(64)

    def free_bytes(self) -> int:
        return self.room

    def lock(self, path: str) -> MemoryLock:
        if self._locked:
            raise DataFolderLocked(folder=path)
        self._locked = True
        return MemoryLock(self)

    def unlock(self) -> None:
        self._locked = False

    def open(self, path: str, *, create: bool, direct: bool = False) -> MemoryFile:
        folder, name = self._parent(path)
        if create:
            if name in folder.names:
                raise FileExistsError(path)
            self.interrupted("create", path)
            folder.change({name: _Inode()})
        node = folder.names.get(name)
        if node is None:
            raise FileNotFoundError(path)
        if isinstance(node, _Folder):
            raise CorruptFile(file=path, position=0, problem="a folder is in its place")
        self.open_files += 1
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        node: _Inode | _Folder | None = self._root
        for part in path.split("/") if path else ():
            node = node.names.get(part) if isinstance(node, _Folder) else None
        return node is not None

    def is_folder(self, path: str) -> bool:
        """Whether a path that exists is a folder."""
        folder, name = self._parent(path)
        return isinstance(folder.names[name], _Folder)

    def list(self, folder: str) -> list[str]:
        if not self.exists(folder):
            raise CorruptFile(file=folder, position=0, problem="it is missing")
        self._require_folder(folder)
        return sorted(self._folder(folder).names)

    def make_folder(self, path: str) -> None:
        if self.exists(path):
            self._require_folder(path)
            return
        folder, name = self._parent(path)
        self.interrupted("make_folder", path)
        folder.change({name: _Folder()})

    def rename(self, source: str, target: str) -> None:
        folder, name = self._parent(source)
        beside, new_name = self._parent(target)
        assert folder is beside, "a rename stays in one folder, so that one sync covers it"
        self.interrupted("rename", target)
        folder.change({name: None, new_name: folder.names[name]})

    def remove(self, path: str) -> None:
        folder, name = self._parent(path)
        node = folder.names[name]
        if isinstance(node, _Folder):
            for child in sorted(node.names):
                self.remove(f"{path}/{child}")
        self.interrupted("remove", path)
        folder.change({name: None})

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        self.interrupted("sync_folder", path)
        folder.sync()

    def _require_folder(self, path: str) -> None:
        if path and not self.is_folder(path):
            raise CorruptFile(file=path, position=0, problem="it is a file, not a folder")

    def _parent(self, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        assert name, "the root has no parent"
        return self._folder(folder), name

    def _folder(self, path: str) -> _Folder:
        folder = self._root
        for part in path.split("/") if path else ():
            node = folder.names.get(part)
            if not isinstance(node, _Folder):
                raise FileNotFoundError(path)
            folder = node
        return folder
