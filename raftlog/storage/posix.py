"""The real file system, below one root folder (Linux: pwritev, fdatasync, fallocate, flock).

Any failure to write, sync, truncate or reserve raises `DiskFailed` and closes the file's way to
the disk for good: a later write or sync of the same file raises again without being tried,
because after one failed sync the kernel may report the next as a success without having written
the pages. Files are made 0600 and folders 0700.

A write or a new name for which there is no room raises `DiskFull` and may be tried again: the
kernel refused it before it took it, so no page can have been dropped.
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
    """See `contract.File`. `read_at` may be called from any thread at any time."""

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
        """See the contract. Bytes that the disk cannot give back raise `CorruptFile`."""
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
            # Space ahead is a matter of speed: on a full disk the next write may still fit.
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
    """What is left of the buffers once their first `written` bytes are out."""
    for at, buffer in enumerate(buffers):
        if written < len(buffer):
            rest = buffers[at:]
            if written:
                rest[0] = memoryview(buffer)[written:]
            return rest
        written -= len(buffer)
    return []


class PosixLock:
    """See `contract.Lock`: an flock, which the kernel drops when the process ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


class PosixFileSystem:
    """See `contract.FileSystem`. Making the object touches no disk."""

    __slots__ = ("_root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)

    def location(self, path: str) -> str:
        parts = path.split("/") if path else []
        assert all(part not in ("", ".", "..") for part in parts), f"{path!r} is no plain path"
        return os.path.join(self._root, *parts)

    def new_id(self) -> int:
        return int.from_bytes(os.urandom(8), "little")

    def lock(self, path: str) -> PosixLock:
        """See the contract. The file holds the holder's process id, for the error's sake."""
        place = self.location(path)
        try:
            fd = os.open(place, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise DiskFailed(file=place, problem=str(error)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise DataFolderLocked(folder=os.path.dirname(place), holder=holder) from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(fd)
            raise DiskFailed(file=place, problem=str(error)) from error
        return PosixLock(fd)

    def open(self, path: str, *, create: bool) -> PosixFile:
        place = self.location(path)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            return PosixFile(place, os.open(place, flags, _FILE_MODE))
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise _name_failure(place, error) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(self.location(path))

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(self.location(folder)))

    def make_folder(self, path: str) -> None:
        place = self.location(path)
        try:
            if path:
                os.mkdir(place, _FOLDER_MODE)
            else:
                _make_root(place)
        except FileExistsError:
            if not os.path.isdir(place):
                raise DiskFailed(file=place, problem="it is a file, not a folder") from None
        except OSError as error:
            raise _name_failure(place, error) from error

    def rename(self, source: str, target: str) -> None:
        assert os.path.dirname(source) == os.path.dirname(target), "one folder's sync covers both"
        place = self.location(target)
        try:
            os.rename(self.location(source), place)
        except OSError as error:
            raise _name_failure(place, error) from error

    def remove(self, path: str) -> None:
        assert path, "the root is not ours to remove"
        place = self.location(path)
        try:
            if os.path.isdir(place):
                shutil.rmtree(place)
            else:
                os.remove(place)
        except OSError as error:
            raise DiskFailed(file=place, problem=str(error)) from error

    def sync_folder(self, path: str) -> None:
        _sync_folder(self.location(path))


def _make_root(place: str) -> None:
    """Make the root and the parents it lacks, each name durable in its own parent."""
    missing = []
    while not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    for folder in reversed(missing):
        os.mkdir(folder, _FOLDER_MODE)
        _sync_folder(os.path.dirname(folder))


def _name_failure(place: str, error: OSError) -> DiskFailed | DiskFull:
    """Why a name could not be made: for want of room, or because the disk fails."""
    if error.errno in _NO_ROOM:
        return DiskFull(file=place)
    return DiskFailed(file=place, problem=str(error))


def _sync_folder(place: str) -> None:
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise DiskFailed(file=place, problem=str(error)) from error
