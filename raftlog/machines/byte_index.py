"""Where the bytes of consecutive records lie, block by block, and how a range of them is split.

A block is records that are stored together: an extent of the log, or a row group of a history file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from raftlog.core.types import Offset


class ByteIndex(NamedTuple):
    """Block i holds the records [offsets[i], offsets[i + 1]) in the bytes [positions[i],
    positions[i + 1]).

    So both columns are one longer than there are blocks. Offsets rise; a block may have no bytes.
    The columns are not copied: they may grow, and the blocks before `first` are of no interest.
    """

    offsets: Sequence[int]
    positions: Sequence[int]
    first: int = 0

    def position_of(self, offset: Offset) -> int:
        """Where the record at `offset` begins; within a block, in proportion to its records.

        `offset` lies within [offsets[first], offsets[-1]].
        """
        block = bisect_right(self.offsets, offset, self.first) - 1
        first, position = self.offsets[block], self.positions[block]
        if offset == first:
            return position
        size = self.positions[block + 1] - position
        return position + size * (offset - first) // (self.offsets[block + 1] - first)


class JoinedIndex:
    """One index of the blocks of all parts; each part begins where the one before it ends."""

    def __init__(self, parts: Sequence[ByteIndex]) -> None:
        for part, after in pairwise(parts):
            assert part.offsets[-1] == after.offsets[after.first], (
                f"blocks up to {part.offsets[-1]} are followed by blocks from "
                f"{after.offsets[after.first]}"
            )
        self._parts = parts
        self._starts = [part.offsets[part.first] for part in parts]
        sizes = (part.positions[-1] - part.positions[part.first] for part in parts[:-1])
        self._bytes_before = list(accumulate(sizes, initial=0))
        """The bytes of the parts before each."""

    def split(
        self, start: Offset, end: Offset, pieces_max: int
    ) -> tuple[tuple[Offset, ...], tuple[int, ...]]:
        """Split [start, end) between blocks into at most `pieces_max` >= 1 pieces of about equal
        bytes.

        Returns rising offsets from start to end, and the bytes of each piece. A block that start or
        end divides counts in proportion. An empty range gives one offset and no piece. Its cost is
        that of a search for each piece, whatever the number of blocks.
        """
        assert pieces_max >= 1
        assert self._starts[0] <= start <= end <= self._parts[-1].offsets[-1], (
            f"[{start}, {end}) is not within [{self._starts[0]}, {self._parts[-1].offsets[-1]}]"
        )
        if start == end:
            return (start,), ()
        found, positions = [start], [self._position_of(start)]
        end_byte = self._position_of(end)
        total = end_byte - positions[0]
        pieces = min(pieces_max, self._blocks_met(start, end))
        for target in (positions[0] + total * piece // pieces for piece in range(1, pieces)):
            offset, position = self._first_block_at(target)
            if offset >= end:
                break
            if offset > found[-1]:
                found.append(offset)
                positions.append(position)
        found.append(end)
        positions.append(end_byte)
        return tuple(found), tuple(after - before for before, after in pairwise(positions))

    def _position_of(self, offset: Offset) -> int:
        number = bisect_right(self._starts, offset) - 1
        part = self._parts[number]
        before = self._bytes_before[number] - part.positions[part.first]
        return part.position_of(offset) + before

    def _first_block_at(self, position: int) -> tuple[Offset, int]:
        """Where the first block begins that begins at this position or above: offset, position."""
        number = max(bisect_left(self._bytes_before, position) - 1, 0)
        part = self._parts[number]
        before = self._bytes_before[number] - part.positions[part.first]
        block = bisect_left(part.positions, position - before, part.first)
        return Offset(part.offsets[block]), part.positions[block] + before

    def _blocks_met(self, start: Offset, end: Offset) -> int:
        """How many blocks have records of [start, end), which is not empty."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end) - 1
        return sum(
            bisect_left(part.offsets, end, part.first)
            - max(bisect_right(part.offsets, start, part.first) - 1, part.first)
            - (number < last)
            for number, part in enumerate(self._parts[first : last + 1], first)
        )
