"""Files of the real file system that are read and written past the page cache (Linux: O_DIRECT).

What is written once and seldom read, such as the history files of an image, is not worth its place
there: pages in use are given up for it, and to fill a fresh page takes a processor longer than the
disk takes to write it. What is read is what the disk has, which is what a check wants to know.

The kernel takes only whole blocks in aligned memory. Whatever else there is goes through the cache,
and the kernel keeps both ways coherent.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Sequence

from raftlog.storage.contract import DIRECT_BLOCK_BYTES
from raftlog.storage.posix_file import PosixFile, unread

_ALIGNED_BYTES = 1024 * 1024
"""What one call reads or writes at most: enough for a disk to be as fast as it can. No setting."""


class _Aligned(threading.local):
    """A thread's aligned memory. It is kept: fresh memory would cost what is to be saved."""

    def __init__(self) -> None:
        self.view = memoryview(mmap.mmap(-1, _ALIGNED_BYTES))


_aligned = _Aligned()


class DirectFile(PosixFile):
    """See `contract.FileSystem.open`. Any thread may call `read_at` at any time."""

    __slots__ = ("_direct_fd",)

    def __init__(self, path: str, fd: int, direct_fd: int) -> None:
        """`direct_fd` has the same file open with O_DIRECT. Both are closed with this object."""
        super().__init__(path, fd)
        self._direct_fd = direct_fd

    def read_at(self, position: int, length: int) -> bytes:
        assert position >= 0
        assert length >= 0
        end = position + length
        parts = []
        at = position - position % DIRECT_BLOCK_BYTES
        while at < end:
            room = _aligned.view[: _whole_blocks(end - at + DIRECT_BLOCK_BYTES - 1)]
            try:
                count = os.preadv(self._direct_fd, [room], at)
            except OSError as error:
                if error.errno == errno.EINVAL:  # blocks of this disk are larger
                    return super().read_at(position, length)
                raise unread(self.path, at, error) from error
            parts.append(bytes(room[max(position - at, 0) : min(count, end - at)]))
            at += count
            if count % DIRECT_BLOCK_BYTES or not count:  # the file ends
                break
        return b"".join(parts)

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        self._refuse_after_failure()
        data = b"".join(buffers)
        written = 0 if position % DIRECT_BLOCK_BYTES else self._write_blocks(position, data)
        super().write_at(position + written, [data[written:]])

    def _write_blocks(self, position: int, data: bytes) -> int:
        """Write the whole blocks of `data`, or as many as the disk takes this way. How many bytes
        that were."""
        whole = _whole_blocks(len(data))
        source = memoryview(data)
        written = 0
        while written < whole and not written % DIRECT_BLOCK_BYTES:
            room = _aligned.view[: whole - written]
            room[:] = source[written : written + len(room)]
            try:
                written += os.pwritev(self._direct_fd, [room], position + written)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    break
                raise self._failure(error) from error
        return written

    def close(self) -> None:
        super().close()
        os.close(self._direct_fd)


def _whole_blocks(length: int) -> int:
    return length - length % DIRECT_BLOCK_BYTES
