"""The real file system, below one root folder (Linux: flock, rename, O_DIRECT).

Files are created with mode 0600, folders with 0700. A new name for which there is no room raises
`DiskFull`, and what needs an open file where the process may have no more raises `LimitReached`.
Both may be tried again.

Once the folder is locked, one open file is kept in reserve: it is given up for as long as a folder
is synced, listed or removed. These come in the middle of a durable write, and need one for a moment
only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from raftlog.errors import CorruptFile, DataFolderLocked, DiskFailed, ResourceShortage
from raftlog.storage.direct import DirectFile
from raftlog.storage.posix_file import PosixFile, refusal

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_RESERVED = 4
"""Open files in reserve. Removing a folder takes three."""

T = TypeVar("T")


class PosixLock:
    """See `contract.Lock`: an flock, which the kernel releases when the process ends."""

    __slots__ = ("_fd", "_reserved")

    def __init__(self, fd: int, reserved: ReservedFiles) -> None:
        self._fd = fd
        self._reserved = reserved

    def release(self) -> None:
        self._reserved.give_up()
        os.close(self._fd)


class ReservedFiles:
    """A few open files, given up while something needs others and the process may have no more."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._lock = Lock()

    def take(self) -> None:
        """Open those that are missing, as far as there are any."""
        with suppress(OSError):
            while len(self._fds) < _RESERVED:
                self._fds.append(os.open(os.devnull, os.O_RDONLY))

    def give_up(self) -> None:
        """Close them."""
        while self._fds:
            os.close(self._fds.pop())

    def spend(self, work: Callable[[], T]) -> T:
        """Do the work, which opens files for a moment only; again with these, if there are no
        others. Any thread may call it."""
        try:
            return work()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        with self._lock:
            self.give_up()
            try:
                return work()
            finally:
                self.take()


class PosixFileSystem:
    """See `contract.FileSystem`. Creating the object does not touch the disk."""

    __slots__ = ("_reserved", "_root")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)
        self._reserved = ReservedFiles()

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
            raise _failure(location, error) from error
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
        self._reserved.take()
        return PosixLock(fd, self._reserved)

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
            raise _failure(location, error) from error
        return _direct(location, fd) if direct else PosixFile(location, fd)

    def exists(self, path: str) -> bool:
        location = self.location(path)
        try:
            os.stat(location)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # to take the file for missing would lose what is there
            raise _failure(location, error) from error
        return True

    def list(self, folder: str) -> list[str]:
        location = self.location(folder)
        try:
            return sorted(self._reserved.spend(lambda: os.listdir(location)))
        except FileNotFoundError as error:
            raise CorruptFile(file=location, position=0, problem="it is missing") from error
        except NotADirectoryError as error:
            raise _file_in_place(location) from error
        except OSError as error:
            shortage = refusal(location, error)
            if shortage is None:
                raise
            raise shortage from error

    def make_folder(self, path: str) -> None:
        location = self.location(path)
        try:
            if path:
                os.mkdir(location, _FOLDER_MODE)
            else:
                _make_root(location)
        except FileExistsError:
            if not os.path.isdir(location):
                raise _file_in_place(location) from None
        except OSError as error:
            raise _failure(location, error) from error

    def rename(self, source: str, target: str) -> None:
        assert os.path.dirname(source) == os.path.dirname(target), "one folder's sync covers both"
        location = self.location(target)
        try:
            os.rename(self.location(source), location)
        except IsADirectoryError as error:
            raise _folder_in_place(location) from error
        except OSError as error:
            raise _failure(location, error) from error

    def remove(self, path: str) -> None:
        assert path, "the root must not be removed"
        location = self.location(path)
        try:
            if os.path.isdir(location):
                self._reserved.spend(lambda: shutil.rmtree(location))
            else:
                os.remove(location)
        except OSError as error:
            raise _failure(location, error) from error

    def sync_folder(self, path: str) -> None:
        location = self.location(path)
        try:
            self._reserved.spend(lambda: _sync_folder(location))
        except OSError as error:
            raise _failure(location, error) from error


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


def _file_in_place(location: str) -> CorruptFile:
    return CorruptFile(file=location, position=0, problem="it is a file, not a folder")


def _failure(location: str, error: OSError) -> DiskFailed | ResourceShortage:
    """The error of an operation that failed: something is used up, or the disk fails."""
    return refusal(location, error) or DiskFailed(file=location, problem=str(error))


def _sync_folder(location: str) -> None:
    """Raises `DiskFailed` for the sync, `OSError` where the folder cannot be opened."""
    fd = os.open(location, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        raise DiskFailed(file=location, problem=str(error)) from error
    finally:
        os.close(fd)
