"""Topics with different columns are read as one: by name, null where one lacks a column."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from raftlog.errors import SchemaMismatch
from raftlog.machines.commands import TopicInfo
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema
from raftlog.spark.reader import conform
from raftlog.spark.schema import check_projection, topic_struct
from raftlog.spark.union import check_fits, check_leftover_fits, union


def topic(name: str, columns: StructType) -> TopicInfo:
    fields = tuple(
        Field(
            id=number,
            name=field.name,
            type=json.dumps(field.dataType.jsonValue(), sort_keys=True, separators=(",", ":")),
            nullable=field.nullable,
        )
        for number, field in enumerate(columns.fields, 1)
    )
    return TopicInfo(
        name=name,
        incarnation=f"i-{name}",
        group=1,
        schema=Schema(version=1, fields=fields),
        voters=(1,),
        created_us=0,
        rules=RULES_LATEST,
    )


WIDE = topic("wide", StructType().add("id", "long", False).add("s", "string", False))
OTHER = topic("other", StructType().add("n", "integer", False).add("id", "long", False))


def test_the_union_has_every_column_once_and_may_be_null_where_a_topic_lacks_it():
    columns = topic_struct(union([WIDE, OTHER]), include_metadata=False)
    wanted = StructType().add("id", "long", False).add("s", "string").add("n", "integer")
    assert columns == wanted
    assert topic_struct(union([WIDE]), include_metadata=False) == topic_struct(
        WIDE, include_metadata=False
    )
    check_projection(StructType().add("n", "integer").add("_topic", "string"), union([WIDE, OTHER]))


def test_a_column_may_be_null_if_it_may_be_in_one_topic():
    strict = topic("strict", StructType().add("id", "long", False))
    loose = topic("loose", StructType().add("id", "long"))
    for order in ([strict, loose], [loose, strict]):
        assert topic_struct(union(order), include_metadata=False)["id"].nullable


def test_columns_of_one_name_and_different_types_are_refused_line_by_line():
    odd = topic("odd", StructType().add("s", "binary").add("id", "integer").add("n", "long"))
    with pytest.raises(SchemaMismatch) as raised:
        union([WIDE, OTHER, odd])
    assert raised.value.difference.splitlines() == [
        "  s: string in wide, binary in odd",
        "  id: bigint in wide, int in odd",
        "  n: int in other, bigint in odd",
    ]


def test_parts_of_a_type_may_be_null_if_they_may_be_in_one_topic():
    def listed(nulls: bool) -> StructType:
        return StructType().add("a", ArrayType(LongType(), nulls))

    strict, loose = topic("strict", listed(False)), topic("loose", listed(True))
    for order in ([strict, loose], [loose, strict]):
        assert topic_struct(union(order), include_metadata=False) == listed(True)
    check_fits(listed(True), strict)
    with pytest.raises(SchemaMismatch, match="a: array<bigint> in the query"):
        check_fits(listed(False), loose)


def test_a_topic_that_comes_later_must_fit_the_columns_of_the_running_query():
    planned = StructType().add("id", "long", False).add("s", "string").add("_topic", "string")
    check_fits(planned, WIDE)
    check_fits(planned, OTHER)
    with pytest.raises(SchemaMismatch, match="id: NOT NULL in the query, missing in the topic"):
        check_fits(planned, topic("x", StructType().add("s", "string")))
    with pytest.raises(SchemaMismatch, match="id: NOT NULL in the query, may be null"):
        check_fits(planned, topic("x", StructType().add("id", "long")))
    with pytest.raises(SchemaMismatch, match="s: string in the query, bigint in the topic"):
        check_fits(planned, topic("x", StructType().add("id", "long", False).add("s", "long")))


def test_a_topic_that_is_no_longer_subscribed_is_read_as_a_part_of_a_union_or_as_a_projection():
    one = topic("one", StructType().add("id", "long").add("s", "string"))
    for planned in (
        StructType().add("s", "string").add("_offset", "long"),
        StructType().add("ID", "long").add("s", "string").add("n", "integer"),
        StructType().add("_topic", "string"),
    ):
        check_leftover_fits(planned, one)
    with pytest.raises(SchemaMismatch) as raised:
        check_leftover_fits(StructType().add("id", "long").add("n", "integer"), one)
    assert raised.value.difference.splitlines() == [
        "  n: in the query, missing in the topic",
        "  s: in the topic, missing in the query",
    ]
    assert "Subscribe to the topic again" in raised.value.remedy
    with pytest.raises(SchemaMismatch, match="id: int in the query, bigint in the topic"):
        check_leftover_fits(StructType().add("id", "integer"), one)


def test_a_batch_of_a_topic_without_a_column_has_nulls_in_its_place():
    target = pa.schema([("n", pa.int32()), pa.field("id", pa.int64(), nullable=False)])
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int64())})
    assert conform(batch, target).to_pydict() == {"n": [None, None], "id": [1, 2]}
    only_missing = conform(pa.record_batch({"_offset": [5, 6]}), pa.schema([("n", pa.int32())]))
    assert only_missing.to_pydict() == {"n": [None, None]}


def test_columns_whose_names_differ_only_in_case_are_one():
    shouted = topic("shouted", StructType().add("ID", "long").add("N", "integer"))
    columns = topic_struct(union([WIDE, shouted]), include_metadata=False)
    assert columns.names == ["id", "s", "N"]
    assert topic_struct(union([shouted, OTHER]), include_metadata=False).names == ["ID", "N"]
    check_fits(StructType().add("id", "long"), shouted)
    with pytest.raises(SchemaMismatch, match="n: bigint in wider, int in shouted"):
        union([topic("wider", StructType().add("n", "long")), shouted])
