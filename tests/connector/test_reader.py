"""Which version of a topic's schema a running query reads."""

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from raftlog.errors import SchemaMismatch
from raftlog.machines.commands import TopicInfo
from raftlog.machines.evolution import RENAME, ColumnChange, evolved
from raftlog.machines.rules import RULES_LATEST
from raftlog.records.arrow_types import schema_of
from raftlog.spark.declarations import Endpoint
from raftlog.spark.offsets import TopicRange
from raftlog.spark.options import source_options
from raftlog.spark.reader import RangeReader

PLANNED = StructType([StructField("id", LongType()), StructField("gate", StringType())])


def topic(incarnation, version):
    schema = schema_of("id bigint, gate string")
    if version == 2:
        schema = evolved(schema, [ColumnChange(action=RENAME, name="gate", to="stand")])
    return TopicInfo(
        name="flights",
        incarnation=incarnation,
        group=1,
        schema=schema,
        voters=(1,),
        created_us=0,
        rules=RULES_LATEST,
    )


def reader(topics, **given):
    options = source_options({"subscribe": "flights", **given}, Endpoint.STREAM_SOURCE)
    return RangeReader(options, PLANNED, topics)


def versions(ranges, incarnation):
    """The version of each piece's records."""
    wanted = TopicRange(topic="flights", incarnation=incarnation, start=0, end=1)
    return [piece.schema_version for task in ranges.plan([wanted], None) for piece in task.pieces]


def test_a_query_goes_on_with_the_columns_that_it_was_planned_with():
    ranges = reader([topic("a", 1)])
    ranges.meet(topic("a", 2))
    assert versions(ranges, "a") == [1]


def test_a_topic_that_comes_later_is_read_with_the_columns_that_it_comes_with():
    ranges = reader([topic("a", 1)])
    ranges.meet(topic("b", 2))
    ranges.meet(topic("b", 2))
    assert versions(ranges, "b") == [2]
    strict = StructType([StructField("id", LongType(), False)])
    with pytest.raises(SchemaMismatch, match="id: NOT NULL in the query, may be null"):
        RangeReader(ranges._options, strict, []).meet(topic("c", 2))


def test_a_query_that_wants_to_know_ends_when_a_topic_was_altered():
    ranges = reader([topic("a", 1)], schemaevolution="fail")
    ranges.meet(topic("a", 1))
    with pytest.raises(SchemaMismatch, match=r"(?s)version 2, and at 1 when.*Start the query"):
        ranges.meet(topic("a", 2))
