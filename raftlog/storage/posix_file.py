"""An open file of the real file system (Linux: pwritev, fdatasync, fallocate).

After a failure to write, sync, truncate or reserve, the file raises `DiskFailed` for good: a later
write or sync raises again without being tried. After one failed sync the kernel may report the next
one as a success without having written the pages.

A write for which there is no room raises `DiskFull`, and one for which the kernel has no memory
`LimitReached`. Both may be tried again: the kernel refused the bytes before it accepted any page of
them, so it cannot have dropped one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from raftlog.errors import (
    CorruptFile,
    DiskFailed,
    DiskFull,
    RaftlogError,
    ResourceShortage,
    shortage_of,
)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")


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
        except (OSError, MemoryError) as error:
            raise unread(self._path, position, error) from error
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
            raise self._failure(error) from error

    def sync(self) -> None:
        self._refuse_after_failure()
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._failed_for_good(error) from error

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
            failure = self._failure(error)
            if not isinstance(failure, ResourceShortage):
                raise failure from error

    def close(self) -> None:
        os.close(self._fd)

    def _refuse_after_failure(self) -> None:
        if self._failed:
            raise DiskFailed(file=self._path, problem="an earlier write or sync of it failed")

    def _failure(self, error: OSError) -> DiskFailed | ResourceShortage:
        return refusal(self._path, error) or self._failed_for_good(error)

    def _failed_for_good(self, error: OSError) -> DiskFailed:
        self._failed = True
        return DiskFailed(file=self._path, problem=str(error))


def refusal(path: str, error: OSError) -> ResourceShortage | None:
    """The error of an operation for which something is used up, and which may be tried again; None:
    the disk has failed. Not for a sync: what it was to write the kernel had accepted."""
    if error.errno in _NO_ROOM:
        return DiskFull(file=path)
    return shortage_of(error, path)


def unread(path: str, position: int, error: OSError | MemoryError) -> RaftlogError:
    """The error of a read that failed: there was no memory for it, or the bytes are damaged."""
    shortage = shortage_of(error, path)
    return shortage or CorruptFile(file=path, position=position, problem=str(error))


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
