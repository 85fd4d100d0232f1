"""The canonical digest of a machine's state: the same state gives the same bytes on every node.

Every value is written with its kind and length, so that no two states share an encoding. Numbers
are little-endian on every processor.
"""

from __future__ import annotations

import hashlib
from array import array

from raftlog.machines.columns import pack

DIGEST_BYTES = 16


class StateDigest:
    """Collects values in the caller's order, which must be canonical (sorted, or in log order)."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def number(self, value: int) -> None:
        """A whole number of any size."""
        self._write(b"n", str(value).encode())

    def text(self, value: str) -> None:
        """A text, as UTF-8."""
        self._write(b"t", value.encode())

    def raw(self, value: bytes) -> None:
        """Bytes as they are."""
        self._write(b"b", value)

    def column(self, values: array[int]) -> None:
        """A packed column of 8-byte numbers."""
        self._write(b"c", pack(values))

    def finish(self) -> bytes:
        """`DIGEST_BYTES` bytes over everything written so far."""
        return self._hash.digest()

    def _write(self, kind: bytes, value: bytes) -> None:
        self._hash.update(kind + len(value).to_bytes(8, "little"))
        self._hash.update(value)
