"""The real file system, below one root folder (Linux: flock, rename, O_DIRECT).

Files are created with mode 0600, folders with 0700. A new name for which there is no room raises
`DiskFull` and may be tried again.
"""

from __future__ import annotations

import fcntl
import os
import shutil

from raftlog.errors import CorruptFile, DataFolderLocked, DiskFailed, DiskFull
from raftlog.storage.direct import DirectFile
from raftlog.storage.posix_file import NO_ROOM, PosixFile

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class PosixLock:
    """See `contract.Lock`: an flock, which the kernel releases when the process ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


class PosixFileSystem:
    """See `contract.FileSystem`. Creating the object does not touch the disk."""

    __slots__ = ("_root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)

    def location(self, path: str) -> str:
        parts = path.split("/") if path else []
        assert all(part not in ("", ".", "..") for part in parts), f"{path!r} is not a plain path"
        return os.path.join(self._root, *parts)

    def new_id(self) -> int:
        return int.from_bytes(os.urandom(8), "little")

    def free_bytes(self) -> int:
        state = os.statvfs(self._root)
        return state.f_bavail * state.f_frsize

    def lock(self, path: str) -> PosixLock:
        """See the contract. The file contains the holder's process id, for the error."""
        location = self.location(path)
        try:
            fd = os.open(location, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise DiskFailed(file=location, problem=str(error)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise DataFolderLocked(folder=os.path.dirname(location), holder=holder) from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(fd)
            raise DiskFailed(file=location, problem=str(error)) from error
        return PosixLock(fd)

    def open(self, path: str, *, create: bool, direct: bool = False) -> PosixFile:
        location = self.location(path)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            fd = os.open(location, flags, _FILE_MODE)
        except (FileNotFoundError, FileExistsError):
            raise
        except IsADirectoryError as error:
            raise _folder_in_place(location) from error
        except OSError as error:
            raise _name_failure(location, error) from error
        return _direct(location, fd) if direct else PosixFile(location, fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(self.location(path))

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(self.location(folder)))

    def make_folder(self, path: str) -> None:
        location = self.location(path)
        try:
            if path:
                os.mkdir(location, _FOLDER_MODE)
            else:
                _make_root(location)
        except FileExistsError:
            if not os.path.isdir(location):
                raise DiskFailed(file=location, problem="it is a file, not a folder") from None
        except OSError as error:
            raise _name_failure(location, error) from error

    def rename(self, source: str, target: str) -> None:
        assert os.path.dirname(source) == os.path.dirname(target), "one folder's sync covers both"
        location = self.location(target)
        try:
            os.rename(self.location(source), location)
        except IsADirectoryError as error:
            raise _folder_in_place(location) from error
        except OSError as error:
            raise _name_failure(location, error) from error

    def remove(self, path: str) -> None:
        assert path, "the root must not be removed"
        location = self.location(path)
        try:
            if os.path.isdir(location):
                shutil.rmtree(location)
            else:
                os.remove(location)
        except OSError as error:
            raise DiskFailed(file=location, problem=str(error)) from error

    def sync_folder(self, path: str) -> None:
        _sync_folder(self.location(path))


def _direct(location: str, fd: int) -> PosixFile:
    """The same file past the page cache, if its file system can."""
    try:
        # By its descriptor: another file may have the name by now.
        direct_fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_DIRECT)
    except OSError:
        return PosixFile(location, fd)
    return DirectFile(location, fd, direct_fd)


def _make_root(location: str) -> None:
    """Create the root and its missing parents, each name durable in its own parent."""
    missing = []
    while not os.path.isdir(location):
        missing.append(location)
        location = os.path.dirname(location)
    for folder in reversed(missing):
        os.mkdir(folder, _FOLDER_MODE)
        _sync_folder(os.path.dirname(folder))


def _folder_in_place(location: str) -> CorruptFile:
    return CorruptFile(file=location, position=0, problem="a folder is in its place")


def _name_failure(location: str, error: OSError) -> DiskFailed | DiskFull:
    """The error for a name that could not be created: no room, or a failing disk."""
    if error.errno in NO_ROOM:
        return DiskFull(file=location)
    return DiskFailed(file=location, problem=str(error))


def _sync_folder(location: str) -> None:
    try:
        fd = os.open(location, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise DiskFailed(file=location, problem=str(error)) from error
