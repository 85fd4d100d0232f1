"""Where the bytes of consecutive records lie, block by block, and how a range of them is split.

A block is records that are stored together: an extent of the log, or a row group of a history file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from raftlog.core.types import Offset


class ByteIndex(NamedTuple):
    """Block i holds the records [offsets[i], offsets[i + 1]) in the bytes [positions[i],
    positions[i + 1]).

    So both columns are one longer than there are blocks. Offsets rise; a block may have no bytes.
    """

    offsets: Sequence[int]
    positions: Sequence[int]

    def position_of(self, offset: Offset) -> int:
        """Where the record at `offset` begins; within a block, in proportion to its records.

        `offset` lies within [offsets[0], offsets[-1]].
        """
        block = bisect_right(self.offsets, offset) - 1
        first, position = self.offsets[block], self.positions[block]
        if offset == first:
            return position
        size = self.positions[block + 1] - position
        return position + size * (offset - first) // (self.offsets[block + 1] - first)

    def split(
        self, start: Offset, end: Offset, pieces_max: int
    ) -> tuple[tuple[Offset, ...], tuple[int, ...]]:
        """Split [start, end) between blocks into at most `pieces_max` >= 1 pieces of about equal
        bytes.

        Returns rising offsets from start to end, and the bytes of each piece. A block that start or
        end divides counts in proportion. An empty range gives one offset and no piece. Its cost is
        that of a few searches for each piece, whatever the number of blocks.
        """
        assert pieces_max >= 1
        assert self.offsets[0] <= start <= end <= self.offsets[-1], (
            f"[{start}, {end}) is not within [{self.offsets[0]}, {self.offsets[-1]}]"
        )
        if start == end:
            return (start,), ()
        found = [start]
        first_byte = self.position_of(start)
        total = self.position_of(end) - first_byte
        last_block = bisect_left(self.offsets, end)
        pieces = min(pieces_max, last_block - bisect_right(self.offsets, start) + 1)
        for piece in range(1, pieces):
            target = first_byte + total * piece // pieces
            block = bisect_left(self.positions, target)
            if block >= last_block:
                break
            if self.offsets[block] > found[-1]:
                found.append(Offset(self.offsets[block]))
        found.append(end)
        sizes = (after - before for before, after in pairwise(map(self.position_of, found)))
        return tuple(found), tuple(sizes)


def joined(parts: Sequence[ByteIndex]) -> ByteIndex:
    """One index of the blocks of all parts; each part begins where the one before it ends.

    The positions of the last part stay as they are, because it is the long one where extents follow
    row groups. Those before it are shifted to end where the next part begins.
    """
    shifts = [0]
    for after, part in pairwise(reversed(parts)):
        assert part.offsets[-1] == after.offsets[0], (
            f"blocks up to {part.offsets[-1]} are followed by blocks from {after.offsets[0]}"
        )
        shifts.append(after.positions[0] + shifts[-1] - part.positions[-1])
    offsets, positions = array("q"), array("q")
    for part, shift in zip(parts, reversed(shifts), strict=True):
        del offsets[-1:], positions[-1:]
        offsets.extend(part.offsets)
        positions.extend([each + shift for each in part.positions] if shift else part.positions)
    return ByteIndex(offsets, positions)
