"""A range of records splits by bytes as a walk over its blocks, one by one, says."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.core.types import Offset
from raftlog.machines.byte_index import ByteIndex, joined

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
    found = index.split(Offset(start), Offset(end), pieces_max)
    assert found == naive_split(blocks, start, end, pieces_max)
    offsets, sizes = found
    assert len(sizes) == len(offsets) - 1 <= pieces_max
    assert list(offsets) == sorted(set(offsets))


@given(BLOCKS, st.data())
def test_joined_parts_are_the_index_of_their_blocks(
    blocks: list[Block], data: st.DataObject
) -> None:
    """Each part counts its bytes from where it likes; the last one's positions stay."""
    cuts = data.draw(st.lists(st.integers(0, len(blocks)), max_size=4))
    borders = [0, *sorted(cuts), len(blocks)]
    whole = index_of(blocks)
    parts = [
        index_of(
            blocks[first:last], start=whole.offsets[first], position=data.draw(st.integers(0, 50))
        )
        for first, last in pairwise(borders)
    ]
    found = joined(parts)
    assert list(found.offsets) == list(whole.offsets)
    shift = parts[-1].positions[-1] - whole.positions[-1]
    assert list(found.positions) == [each + shift for each in whole.positions]


def test_parts_with_a_gap_or_an_overlap_are_not_joined() -> None:
    for start in (2, 4):
        with pytest.raises(AssertionError, match="are followed by"):
            joined([index_of([(3, 10)]), index_of([(1, 1)], start=start)])


@pytest.mark.parametrize(("start", "end"), [(4, 6), (5, 9), (7, 6)])
def test_no_range_beyond_the_blocks_is_split(start: int, end: int) -> None:
    with pytest.raises(AssertionError, match="is not within"):
        index_of([(3, 10)], start=5).split(Offset(start), Offset(end), 2)
