"""The real file system, below one root folder (Linux: pwritev, fdatasync, fallocate, flock).

After a failure to write, sync, truncate or reserve, the file raises `DiskFailed` for good: a later
write or sync raises again without being tried. After one failed sync the kernel may report the next
one as a success without having written the pages. Files are created with mode 0600, folders 0700.

A write or a new name for which there is no room raises `DiskFull` and may be tried again: the
kernel refused it before it accepted any page, so it cannot have dropped one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence

from raftlog.errors import CorruptFile, DataFolderLocked, DiskFailed, DiskFull

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class PosixFile:
    """See `contract.File`. Any thread may call `read_at` at any time."""

    __slots__ = ("_failed", "_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._failed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, length: int) -> bytes:
        """See the contract. Bytes that the disk cannot read back raise `CorruptFile`."""
        assert position >= 0
        assert length >= 0
        try:
            data = os.pread(self._fd, length, position)
            while len(data) < length:
                more = os.pread(self._fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise CorruptFile(file=self._path, position=position, problem=str(error)) from error
        return data

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        self._refuse_after_failure()
        pending: list[bytes | memoryview] = [buffer for buffer in buffers if buffer]
        try:
            while pending:
                written = os.pwritev(self._fd, pending[:_BUFFERS_MAX], position)
                position += written
                pending = _after(pending, written)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise DiskFull(file=self._path) from error
            raise self._failure(error) from error

    def sync(self) -> None:
        self._refuse_after_failure()
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._failure(error) from error

    def truncate(self, size: int) -> None:
        self._refuse_after_failure()
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._failure(error) from error

    def reserve(self, size: int) -> None:
        self._refuse_after_failure()
        present = self.size()
        if size <= present:
            return
        try:
            os.posix_fallocate(self._fd, present, size - present)
        except OSError as error:
            # Reserving only saves time: on a full disk the next write may still fit.
            if error.errno not in _NO_ROOM:
                raise self._failure(error) from error

    def close(self) -> None:
        os.close(self._fd)

    def _refuse_after_failure(self) -> None:
        if self._failed:
            raise DiskFailed(file=self._path, problem="an earlier write or sync of it failed")

    def _failure(self, error: OSError) -> DiskFailed:
        self._failed = True
        return DiskFailed(file=self._path, problem=str(error))


def _after(buffers: list[bytes | memoryview], written: int) -> list[bytes | memoryview]:
    """The rest of the buffers after their first `written` bytes."""
    for at, buffer in enumerate(buffers):
        if written < len(buffer):
            rest = buffers[at:]
            if written:
                rest[0] = memoryview(buffer)[written:]
            return rest
        written -= len(buffer)
    return []


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

    def open(self, path: str, *, create: bool) -> PosixFile:
        location = self.location(path)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            return PosixFile(location, os.open(location, flags, _FILE_MODE))
        except (FileNotFoundError, FileExistsError):
            raise
        except IsADirectoryError as error:
            raise _folder_in_place(location) from error
        except OSError as error:
            raise _name_failure(location, error) from error

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
    if error.errno in _NO_ROOM:
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
