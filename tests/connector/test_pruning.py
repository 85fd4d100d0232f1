"""What a predicate leaves of a range, and how that becomes tasks. No cluster takes part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql.types import (
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from raftlog import RangeSizes
from raftlog.errors import InvalidOption
from raftlog.predicates.making import fitted, one_of
from raftlog.predicates.predicate import And, Compare, Constant, In, IsNull, Not, Or, Unknown
from raftlog.spark.filters import predicate_of
from raftlog.spark.offsets import TopicRange
from raftlog.spark.partitions import gathered
from raftlog.spark.pruning import (
    GAP_BYTES_MIN,
    Match,
    check_columns,
    holds_everywhere,
    matches,
    narrowed,
)

RANGE = TopicRange(topic="flights", incarnation="a", start=100, end=200)
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("real", DoubleType()),
        StructField("dec", DecimalType(10, 2)),
        StructField("text", StringType()),
    ]
)


def compare(column, operator, value):
    return Compare(column=column, operator=operator, value=value)


def test_offsets_and_timestamps_narrow_a_range():
    def find(timestamp_us):
        assert abs(timestamp_us) < 2**63, "what a node can be asked"
        return max(0, min(200, timestamp_us // 10))

    def left(*tests):
        rest = narrowed(And(parts=tests), RANGE, find)
        return rest and (rest.start, rest.end)

    assert left(compare("_offset", ">=", 150), compare("id", "=", 1)) == (150, 200)
    assert left(compare("_offset", "<", 150)) == (100, 150)
    assert left(compare("_timestamp", ">=", 1500), compare("_timestamp", "<=", 1609)) == (150, 161)
    assert left(compare("_offset", ">", 300)) is None
    assert left(compare("_timestamp", ">", 2**63 - 1)) is None
    assert left(compare("_timestamp", "<", -(2**63))) is None
    assert left(compare("_timestamp", ">=", -(2**63))) == (100, 200)
    assert left(compare("_timestamp", "<=", 2**63 - 1)) == (100, 200)
    assert left(compare("_topic", "=", "delays")) is None
    assert left(Unknown()) == (100, 200)


def test_a_predicate_of_offsets_that_all_have_asks_no_node():
    assert holds_everywhere(compare("_offset", ">=", 100), RANGE)
    assert not holds_everywhere(compare("_offset", ">=", 101), RANGE)
    assert not holds_everywhere(compare("id", ">=", 0), RANGE)


def test_pages_of_answers_are_joined_and_small_gaps_are_read():
    pages = {
        100: RangeSizes(offsets=(100, 110, 120, 130), body_bytes=(9, 5, 9), matches=(1, 0, 1)),
        130: RangeSizes(
            offsets=(130, 150, 160), body_bytes=(GAP_BYTES_MIN, 9), matches=(False, True)
        ),
        160: RangeSizes(offsets=(160, 200), body_bytes=(7,), matches=(False,)),
    }
    found = matches(Unknown(), RANGE, lambda start, end, where: pages[start])
    assert found == [Match(100, 130, 23), Match(150, 160, 9)]


def test_a_query_reads_the_columns_that_its_predicate_tests():
    with pytest.raises(InvalidOption, match="tests id, which"):
        check_columns(compare("id", "=", 1), ["text"], "raftlog.predicate")
    check_columns(compare("id", "=", 1), ["text", "id"], "raftlog.predicate")


MATCHES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(0, 3 << 20)), min_size=1
)


@given(MATCHES, st.integers(1, 5), st.none() | st.integers(1, 9), st.none() | st.integers(1, 7))
def test_tasks_have_every_matching_record_once_and_in_order(parts, pieces, least, records_max):
    found, place = [], 7
    for gap, count, size in parts:
        found.append(Match(place + gap, place + gap + count, size))
        place += gap + count
    tasks = gathered(found, pieces, pieces_min=least, records_max=records_max)
    ranges = [each for task in tasks for each in task]
    records = [offset for start, end in ranges for offset in range(start, end)]
    assert records == [offset for start, end, _ in found for offset in range(start, end)]
    assert all(start < end for start, end in ranges)
    if least is None and records_max is None:
        assert len(tasks) <= pieces
    if records_max is not None:
        assert all(sum(end - start for start, end in task) <= records_max for task in tasks)


@pytest.mark.parametrize(
    ("parts", "tasks"),
    [
        ((3, 3, 3, 3, 2), [6, 8]),
        ((1, 9, 1), [10, 1]),
        ((9, 1, 1), [9, 2]),
        ((2,), [2]),
    ],
)
def test_each_task_ends_where_it_comes_nearest_to_its_share(parts, tasks):
    found, place = [], 0
    for mib in parts:
        found.append(Match(place, place + mib, mib << 20))
        place += mib
    ranges = gathered(found, 2, pieces_min=None, records_max=None)
    assert [sum(end - start for start, end in task) for task in ranges] == tasks


def test_sparks_filters_become_predicates_as_far_as_bounds_can_tell():
    filters = [
        spark.EqualTo(("id",), 3),
        spark.Not(spark.IsNull(("text",))),
        spark.In(("id",), (2, None, 1)),
        spark.LessThan(("real",), float("nan")),
        spark.GreaterThan(("dec",), 1),
        spark.EqualTo(("id", "part"), 1),
        spark.EqualTo(("id",), True),
        spark.EqualNullSafe(("id",), None),
    ]
    assert predicate_of(filters, SCHEMA).parts == (
        compare("id", "=", 3),
        Not(part=IsNull(column="text")),
        Or(parts=(In(column="id", values=(1, 2)), Constant(value=None))),
        Unknown(),
        Unknown(),
        Unknown(),
        Unknown(),
        IsNull(column="id"),
    )


def test_what_is_too_large_for_a_node_is_left_out():
    many = And(parts=tuple(compare("id", "<", number) for number in range(1000)))
    assert len(fitted(many).parts) == 255
    found = one_of("id", list(range(5000)), has_null=False)
    assert found == Or(
        parts=(And(parts=(compare("id", ">=", 0), compare("id", "<=", 4999), Unknown())),)
    )
