"""CRC-32C (Castagnoli), which guards every byte from client to disk to reader. The only place."""

from __future__ import annotations

from typing import Protocol

import google_crc32c

from raftlog.errors import Internal

if google_crc32c.implementation != "c":
    raise Internal(
        what="google-crc32c runs in pure Python here, a thousand times too slow; "
        "install its wheel for this platform"
    )


class ArrowBuffer(Protocol):
    """A `pyarrow.Buffer`, for packages that must not import pyarrow."""

    @property
    def is_cpu(self) -> bool: ...

    def to_pybytes(self) -> bytes: ...


def crc32c(data: bytes | ArrowBuffer, crc: int = 0) -> int:
    """The CRC-32C of `data`, 0 to 2**32 - 1. The library does not take a memoryview.

    `crc` is the CRC of the bytes before, so that crc32c(a + b) == crc32c(b, crc32c(a)).
    """
    extended: int = google_crc32c.extend(crc, data)
    return extended


def chain(crc: int, link: int) -> int:
    """Extend a chained CRC by another CRC, taken as 4 little-endian bytes."""
    extended: int = google_crc32c.extend(crc, link.to_bytes(4, "little"))
    return extended
