"""Ranges become tasks that cover them exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.spark.partitions import BYTES_PER_TASK_MIN, packed, pieces_wanted, split

MIB = BYTES_PER_TASK_MIN


def test_small_pieces_are_joined_unless_tasks_were_asked_for():
    assert split([0, 5, 10], [10, 10], pieces_min=None, records_max=None) == [(0, 10)]
    assert split([0, 5, 10], [MIB, MIB], pieces_min=None, records_max=None) == [(0, 5), (5, 10)]
    assert split([0, 5, 10], [10, 10], pieces_min=2, records_max=None) == [(0, 5), (5, 10)]
    assert split([0, 8], [10], pieces_min=4, records_max=None) == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_one_record_is_never_split():
    assert split([7, 8], [10 * MIB], pieces_min=4, records_max=None) == [(7, 8)]
    assert split([0, 2], [1], pieces_min=9, records_max=None) == [(0, 1), (1, 2)]


def test_a_records_limit_holds_in_every_piece():
    assert split([0, 10], [1], pieces_min=None, records_max=4) == [(0, 3), (3, 6), (6, 10)]


def test_tasks_are_shared_by_records():
    assert pieces_wanted([90, 10], 10) == [9, 1]
    assert pieces_wanted([1, 1, 1], 2) == [1, 1, 1]


def test_small_topics_share_a_task_within_every_limit():
    small = [(10, 1000)] * 5
    assert packed(small, tasks_min=1, records_max=None) == [range(5)]
    assert packed(small, tasks_min=1, records_max=25) == [range(2), range(2, 4), range(4, 5)]
    assert packed(small, tasks_min=2, records_max=None) == [range(n, n + 1) for n in range(5)]
    sizes = [(1, MIB), (1, 1), (1, MIB), (1, MIB // 2), (1, MIB // 2), (1, 1)]
    assert packed(sizes, tasks_min=2, records_max=None) == [
        range(1), range(1, 3), range(3, 5), range(5, 6)
    ]  # fmt: skip
    assert packed([(9, 1)], tasks_min=1, records_max=4) == [range(1)]
    assert packed([(1, 1)] * 65, tasks_min=1, records_max=None) == [
        range(32), range(32, 64), range(64, 65)
    ]  # fmt: skip
    assert packed([], tasks_min=1, records_max=None) == []


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3 * MIB)), min_size=1, max_size=8),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 9),
)
@settings(max_examples=200, deadline=None)
def test_pieces_cover_the_range_in_order_without_gap_or_overlap(parts, pieces_min, records_max):
    offsets = [3]
    for count, _ in parts:
        offsets.append(offsets[-1] + count)
    sizes = [size for _, size in parts]
    pieces = split(offsets, sizes, pieces_min=pieces_min, records_max=records_max)
    at = offsets[0]
    for start, end in pieces:
        assert start == at
        assert start < end
        assert records_max is None or end - start <= records_max
        at = end
    assert at == offsets[-1]
    if pieces_min is not None:
        assert len(pieces) >= min(pieces_min, offsets[-1] - offsets[0])
