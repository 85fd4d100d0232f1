"""A range of records splits by bytes as a walk over its blocks, one by one, says."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.core.types import Offset
from raftlog.machines.byte_index import ByteIndex, JoinedIndex

Block = tuple[int, int]
"""Records and bytes."""

BLOCKS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from((0, 0, 1, 7, 100, 5000))), min_size=1, max_size=30
)


def index_of(blocks: list[Block], start: int = 0, position: int = 0) -> ByteIndex:
    return ByteIndex(
        list(accumulate((count for count, _ in blocks), initial=start)),
        list(accumulate((size for _, size in blocks), initial=position)),
    )


def naive_position(blocks: list[Block], offset: int) -> int:
    """The bytes before the record at `offset`, counted block by block."""
    position = 0
    for count, size in blocks:
        taken = min(count, offset)
        position += int(Fraction(size * taken, count))
        offset -= taken
    return position


def naive_split(
    blocks: list[Block], start: int, end: int, pieces_max: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Walk over the borders of blocks. Cut at the first that reaches a piece's share of the bytes;
    a border that reaches several shares is one cut."""
    if start == end:
        return (start,), ()
    bytes_before = naive_position(blocks, start)
    total = naive_position(blocks, end) - bytes_before
    borders = list(accumulate((count for count, _ in blocks), initial=0))
    met = sum(first < end and start < last for first, last in pairwise(borders))
    pieces = min(pieces_max, met)
    shares = [bytes_before + total * piece // pieces for piece in range(1, pieces)]
    cuts = [start]
    for border in borders:
        reached = [share for share in shares if share <= naive_position(blocks, border)]
        if reached and border < end:
            shares = shares[len(reached) :]
            if border > start:
                cuts.append(border)
    cuts.append(end)
    positions = [naive_position(blocks, cut) for cut in cuts]
    return tuple(cuts), tuple(after - before for before, after in pairwise(positions))


@given(BLOCKS, st.data(), st.sampled_from((1, 2, 3, 5, 10, 10**9)))
def test_a_range_splits_as_a_walk_over_its_blocks_says(
    blocks: list[Block], data: st.DataObject, pieces_max: int
) -> None:
    index = index_of(blocks)
    start, end = sorted(data.draw(st.integers(0, index.offsets[-1])) for _ in range(2))
    assert index.position_of(Offset(start)) == naive_position(blocks, start)
    found = JoinedIndex([index]).split(Offset(start), Offset(end), pieces_max)
    assert found == naive_split(blocks, start, end, pieces_max)
    offsets, sizes = found
    assert len(sizes) == len(offsets) - 1 <= pieces_max
    assert list(offsets) == sorted(set(offsets))


@given(BLOCKS, st.data(), st.sampled_from((1, 2, 3, 5, 10, 10**9)))
def test_joined_parts_split_as_all_their_blocks(
    blocks: list[Block], data: st.DataObject, pieces_max: int
) -> None:
    """Each part counts its bytes from where it likes. The last one may go on beyond the range."""
    cuts = data.draw(st.lists(st.integers(0, len(blocks)), max_size=4))
    borders = [0, *sorted(cuts), len(blocks)]
    whole = index_of(blocks)
    parts = [
        index_of(
            blocks[first:last], start=whole.offsets[first], position=data.draw(st.integers(0, 50))
        )
        for first, last in pairwise(borders)
    ]
    start, end = sorted(data.draw(st.integers(0, whole.offsets[-1])) for _ in range(2))
    found = JoinedIndex(parts).split(Offset(start), Offset(end), pieces_max)
    assert found == naive_split(blocks, start, end, pieces_max)


@given(BLOCKS, BLOCKS, st.data())
def test_blocks_before_the_first_of_interest_count_for_nothing(
    blocks: list[Block], after: list[Block], data: st.DataObject
) -> None:
    """As where the log still has what is in history."""
    index = index_of(blocks + after)
    part = index._replace(first=len(blocks))
    history = index_of(blocks, position=data.draw(st.integers(0, 50)))
    start, end = sorted(data.draw(st.integers(0, index.offsets[-1])) for _ in range(2))
    found = JoinedIndex([history, part]).split(Offset(start), Offset(end), 5)
    assert found == naive_split(blocks + after, start, end, 5)
    with pytest.raises(AssertionError, match="is not within"):
        JoinedIndex([part]).split(Offset(0), Offset(1), 1)


class Reads(list[int]):
    """A column that counts what is read of it."""

    count = 0

    def __getitem__(self, key: Any) -> Any:
        Reads.count += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)


@pytest.mark.parametrize("parts", [1, 16])
def test_a_piece_costs_a_search_and_no_block_a_copy(parts: int) -> None:
    blocks, pieces = 1 << 14, 64
    size = blocks // parts
    Reads.count = 0
    joined = JoinedIndex(
        [
            ByteIndex(Reads(range(first, first + size + 1)), Reads(range(first, first + size + 1)))
            for first in range(0, blocks, size)
        ]
    )
    offsets, _ = joined.split(Offset(0), Offset(blocks), pieces)
    assert len(offsets) == pieces + 1
    assert Reads.count < 20 * pieces + 50 * parts


def test_parts_with_a_gap_or_an_overlap_are_not_joined() -> None:
    for start in (2, 4):
        with pytest.raises(AssertionError, match="are followed by"):
            JoinedIndex([index_of([(3, 10)]), index_of([(1, 1)], start=start)])


@pytest.mark.parametrize(("start", "end"), [(4, 6), (5, 9), (7, 6)])
def test_no_range_beyond_the_blocks_is_split(start: int, end: int) -> None:
    with pytest.raises(AssertionError, match="is not within"):
        JoinedIndex([index_of([(3, 10)], start=5)]).split(Offset(start), Offset(end), 2)
