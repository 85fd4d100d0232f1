"""Where a topic's bytes lie along its offsets, in a few thousand numbers: a sparse index.

The byte position of an offset is the number of body bytes of all records before it, since the topic
began. A trim needs it where the extents themselves are no longer held, and every replica must
compute the same one. So this index depends only on what became visible and on what was trimmed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from raftlog.core.types import Offset
from raftlog.machines.byte_index import ByteIndex
from raftlog.machines.columns import pack, unpack
from raftlog.machines.digest import StateDigest

_SPACING_BYTES_MIN = 65_536
"""Positions are not closer than this: 16 bytes of memory for each 64 KiB of a small topic."""

_POSITIONS_MAX = 4_096
"""The most positions. One more removes every second one."""

_SPACINGS = _POSITIONS_MAX // 2
"""Positions are not closer than this part of the kept bytes, or large topics would thin the index
again and again."""


class BytePositions:
    """Byte positions of some offsets: of the log start, and from there on at intervals."""

    __slots__ = ("_bytes", "_offsets")

    def __init__(self) -> None:
        self._offsets = array("q", (0,))
        self._bytes = array("q", (0,))

    @classmethod
    def restore(cls, offsets: bytes, positions: bytes) -> BytePositions:
        """The index that `packed` gave these columns."""
        restored = cls()
        restored._offsets, restored._bytes = unpack(offsets), unpack(positions)
        return restored

    def packed(self) -> tuple[bytes, bytes]:
        """The offsets, of which the first is the log start, and their byte positions."""
        return pack(self._offsets), pack(self._bytes)

    @property
    def start(self) -> Offset:
        """The log start offset."""
        return Offset(self._offsets[0])

    @property
    def start_byte(self) -> int:
        """The byte position of the log start."""
        return self._bytes[0]

    def note(self, offset: int, byte: int) -> None:
        """Note that a new extent begins at `offset` and byte position `byte`, if that is far enough
        behind the last position."""
        positions = self._bytes
        distance = byte - positions[-1]
        if distance < _SPACING_BYTES_MIN or distance < (byte - positions[0]) // _SPACINGS:
            return
        self._offsets.append(offset)
        positions.append(byte)
        if len(positions) > _POSITIONS_MAX:
            self._offsets, self._bytes = self._offsets[::2], positions[::2]

    def byte_at(self, offset: Offset, mark: Offset, mark_byte: int) -> int:
        """The byte position of an offset in [start, mark]; `mark_byte` is that of `mark`.

        It is exact at the log start, at `mark` and at the noted offsets. Between two of them bytes
        count in proportion to records.
        """
        index = ByteIndex((*self._offsets, mark), (*self._bytes, mark_byte))
        return index.position_of(offset)

    def last_at(self, byte: int) -> Offset:
        """The last noted offset whose byte position is at or below `byte`; the log start if there
        is none."""
        return Offset(self._offsets[max(0, bisect_right(self._bytes, byte) - 1)])

    def trim(self, start: Offset, start_byte: int) -> None:
        """Move the log start up to `start`, whose byte position is `start_byte`."""
        assert start >= self.start, "the log start never retreats"
        passed = bisect_right(self._offsets, start)
        self._offsets[:passed] = array("q", (start,))
        self._bytes[:passed] = array("q", (start_byte,))

    def digest_into(self, digest: StateDigest) -> None:
        """Write the index into `digest`."""
        digest.column(self._offsets)
        digest.column(self._bytes)
