"""An open file of the real file system (Linux: pwritev, fdatasync, fallocate).

After a failure to write, sync, truncate or reserve, the file raises `DiskFailed` for good: a later
write or sync raises again without being tried. After one failed sync the kernel may report the next
one as a success without having written the pages.

A write for which there is no room raises `DiskFull` and may be tried again: the kernel refused it
before it accepted any page, so it cannot have dropped one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from raftlog.errors import CorruptFile, DiskFailed, DiskFull

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
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
            if error.errno in NO_ROOM:
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
            if error.errno not in NO_ROOM:
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
