"""A micro-batch takes what every limit allows, of every topic, and at least a record."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.machines.byte_index import ByteIndex, JoinedIndex
from raftlog.spark.limits import FINENESS, NONE, Limits, admitted, due, share

PIECES_MAX = 4


class Topics:
    """Topics whose extents have so many records and bytes each; splits as the log does."""

    def __init__(self, **extents: list[tuple[int, int]]) -> None:
        self.blocks = {
            topic: ByteIndex(
                [0, *accumulate(records for records, _ in sizes)],
                [0, *accumulate(byte_count for _, byte_count in sizes)],
            )
            for topic, sizes in extents.items()
        }
        self.asked = 0

    def waiting(self):
        return {topic: (0, index.offsets[-1]) for topic, index in self.blocks.items()}

    def sizes_of(self, topic, start, end):
        self.asked += 1
        return JoinedIndex([self.blocks[topic]]).split(start, end, PIECES_MAX)

    def bytes_of(self, topic, count):
        return self.blocks[topic].position_of(count)

    def admitted(self, **limits):
        return admitted(Limits(**limits), self.waiting(), self.sizes_of)


def test_without_limits_everything_is_taken_and_no_sizes_are_asked_for():
    topics = Topics(a=[(10, 100)], b=[(5, 50)])
    assert admitted(NONE, topics.waiting(), topics.sizes_of) == {"a": 10, "b": 5}
    assert topics.asked == 0


def test_a_limit_in_bytes_ends_near_them_however_much_waits():
    topics = Topics(a=[(10, 1000)] * 10_000)
    assert topics.admitted(bytes_max=25_000) == {"a": 250}
    assert topics.asked < 10


def test_within_one_extent_a_limit_in_bytes_counts_in_proportion():
    assert Topics(a=[(100, 1000)]).admitted(bytes_max=255) == {"a": 26}


def test_a_record_above_the_limit_comes_by_itself():
    assert Topics(a=[(1, 500), (1, 500)]).admitted(bytes_max=10) == {"a": 1}


def test_topics_share_a_limit_in_bytes_and_none_starves():
    topics = Topics(a=[(10, 1000)] * 90, b=[(10, 1000)] * 10, c=[(1, 2)], d=[])
    assert topics.admitted(bytes_max=10_000) == {"a": 90, "b": 10, "c": 1, "d": 0}


def test_the_smallest_of_the_maxima_wins():
    topics = Topics(a=[(10, 1000)] * 100)
    assert topics.admitted(records_max=7, bytes_max=50_000) == {"a": 7}
    assert topics.admitted(records_max=700, bytes_max=5_000) == {"a": 50}
    assert topics.admitted(records_max=5000, bytes_max=10**9) == {"a": 1000}


def test_a_batch_waits_for_its_minimum_until_the_delay_has_passed():
    limits = Limits(records_min=10, delay_max_s=60.0)
    few, enough = {"a": (0, 4), "b": (5, 9)}, {"a": (0, 4), "b": (5, 11)}
    assert not due(limits, few, 59.9)
    assert due(limits, few, 60.0)
    assert due(limits, enough, 0.0)
    assert due(limits, few, None), "the first batch of a run does not wait"
    assert due(limits.without_minimum(), few, 0.0)
    assert due(Limits(records_max=1), few, 0.0)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 50), min_size=1),
    st.none() | st.integers(1, 100),
)
@settings(max_examples=200, deadline=None)
def test_a_shared_limit_is_exact_and_takes_no_more_than_there_is(waiting, records_max):
    takes = share(waiting, records_max)
    assert sum(takes.values()) == min(sum(waiting.values()), records_max or 10**9)
    assert all(0 <= takes[topic] <= waiting[topic] for topic in waiting)


extents = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 300)), max_size=40)


@given(extents, extents, st.integers(1, 20_000), st.none() | st.integers(1, 300))
@settings(max_examples=200, deadline=None)
def test_what_is_taken_is_near_the_limit_in_bytes(one, other, bytes_max, records_max):
    topics = Topics(a=one, b=other)
    counts = {topic: end for topic, (_, end) in topics.waiting().items()}
    allowed = share(counts, records_max)
    takes = topics.admitted(bytes_max=bytes_max, records_max=records_max)
    assert all(takes[topic] <= allowed[topic] for topic in counts)
    assert all(takes[topic] for topic in counts if allowed[topic])
    if sum(topics.bytes_of(topic, count) for topic, count in allowed.items()) <= bytes_max:
        assert takes == allowed
        return
    for topic, index in topics.blocks.items():
        if takes[topic] > 1:
            without_last = index.position_of(takes[topic] - 1)
            assert without_last <= bytes_max + _largest(index) + bytes_max // FINENESS
    taken = sum(topics.bytes_of(topic, count) for topic, count in takes.items())
    slack = 2 * (max(map(_largest, topics.blocks.values())) + bytes_max // FINENESS + 1)
    assert bytes_max - slack <= taken <= bytes_max + slack


def _largest(index):
    return max((after - before for before, after in pairwise(index.positions)), default=0)
