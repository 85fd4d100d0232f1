"""Rows that name their topics: split by topic, in order, and refused where the name is none."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from raftlog.errors import InvalidOption, InvalidTopicName
from raftlog.spark.topic_column import by_topic, without_topic


def rows(topics: list[str | None]) -> pa.RecordBatch:
    """Rows (id, topic, tags) with the ids 0, 1, ..."""
    ids = range(len(topics))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pa.array(topics, pa.string()),
            pa.array([[str(number)] for number in ids], pa.list_(pa.string())),
        ],
        names=["id", "topic", "tags"],
    )


@pytest.mark.parametrize("seed", range(5))
def test_each_row_goes_to_its_topic_in_order_and_without_the_column(seed: int) -> None:
    topics = random.Random(seed).choices(["c", "a", "b.x"], k=200)
    parts = dict(by_topic(rows(topics), 1))
    assert set(parts) == set(topics)
    for name, part in parts.items():
        part.validate(full=True)
        assert part.schema.names == ["id", "tags"]
        assert part.column("id").to_pylist() == [
            number for number, topic in enumerate(topics) if topic == name
        ]
        assert part.column("tags").to_pylist() == [[str(n)] for n in part.column("id").to_pylist()]


def test_a_part_does_not_keep_the_batch_that_it_came_in() -> None:
    parts = dict(by_topic(rows(["a"] * 9_999 + ["b"]), 1))
    assert sum(buffer.size for buffer in parts["b"].column("id").buffers() if buffer) < 1_000


def test_rows_of_one_topic_are_not_copied() -> None:
    batch = rows(["a", "a"])
    ((name, part),) = by_topic(batch, 1)
    assert name == "a"
    assert part.column("id").buffers()[1].address == batch.column("id").buffers()[1].address


def test_a_batch_without_rows_has_no_topics() -> None:
    assert list(by_topic(rows([]), 1)) == []


def test_a_topic_s_name_that_is_not_utf_8_is_refused() -> None:
    batch = rows(["a", "b"])
    names = pa.array([b"a", b"\xc1"], pa.binary())
    text = pa.StringArray.from_buffers(2, *names.buffers()[1:])
    with pytest.raises(InvalidTopicName, match=r"\\xc1"):
        list(by_topic(batch.set_column(1, "topic", text), 1))


def test_a_row_without_a_topic_is_refused() -> None:
    with pytest.raises(InvalidOption, match="column 'topic' is null in 2 of 3 rows"):
        list(by_topic(rows(["a", None, None]), 1))


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "x" * 250, "straße"])
def test_a_name_that_no_topic_can_have_is_refused_with_the_name(name: str) -> None:
    with pytest.raises(InvalidTopicName) as raised:
        list(by_topic(rows(["a", name]), 1))
    assert raised.value.topic == name


def test_the_columns_that_are_written_are_the_others() -> None:
    number, topic = StructField("id", LongType()), StructField("topic", StringType())
    assert without_topic(StructType([topic, number])) == StructType([number])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([StructField("Topic", StringType())], "is missing"),
        ([StructField("topic", LongType())], "column 'topic' is bigint, which names no topic"),
        ([StructField("topic", StringType())] * 2, "two columns are called 'topic'"),
    ],
)
def test_rows_without_a_column_that_can_name_topics_need_the_option(
    fields: list[StructField], problem: str
) -> None:
    with pytest.raises(InvalidOption) as raised:
        without_topic(StructType(fields))
    assert raised.value.option == "topic"
    assert problem in str(raised.value)
    assert ".option('topic', 'flights')" in str(raised.value)
