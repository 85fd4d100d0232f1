"""Schemas between Spark and a topic: projections, copies and differences, field by field."""

import dataclasses
import json

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.machines.commands import TopicInfo
from raftlog.machines.evolution import ADD, SET_TYPE, ColumnChange, evolved
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import RESERVED_NAMES, Field, Schema
from raftlog.spark.column_names import matched
from raftlog.spark.metadata_columns import (
    METADATA,
    METADATA_NAMES,
    check_reserved,
    without_metadata,
)
from raftlog.spark.reader import conform
from raftlog.spark.schema import (
    Merge,
    check_projection,
    check_writable,
    creation_text,
    merge_of,
    topic_struct,
)

COLUMNS = StructType(
    [
        StructField("a", IntegerType(), False),
        StructField("b", StringType()),
        StructField("c", ArrayType(LongType(), False)),
        StructField("d", MapType(StringType(), DecimalType(10, 2))),
        StructField("e", StructType([StructField("x", TimestampType())])),
    ]
)

GATE = StructField("gate", StringType())
FLIGHTS = StructType([StructField("id", IntegerType(), False), StructField("delay", LongType())])


def topic(columns=COLUMNS, name="t"):
    fields = tuple(
        Field(
            id=number,
            name=field.name,
            type=field.dataType.json(),
            nullable=field.nullable,
        )
        for number, field in enumerate(columns.fields, 1)
    )
    return TopicInfo(
        name=name,
        incarnation="i",
        group=1,
        schema=Schema(version=1, fields=fields),
        voters=(1,),
        created_us=0,
        rules=RULES_LATEST,
    )


def difference(check, *given):
    with pytest.raises(SchemaMismatch) as raised:
        check(*given)
    return raised.value.difference


def test_a_topics_schema_is_sparks_schema_again():
    assert topic_struct(topic(), include_metadata=False) == COLUMNS
    names = topic_struct(topic(), include_metadata=True).names
    assert names == [*COLUMNS.names, *METADATA_NAMES]


def test_the_reserved_names_are_those_of_the_topic_machine():
    assert METADATA_NAMES == RESERVED_NAMES


def test_a_projection_takes_any_order_and_metadata_columns():
    check_projection(StructType().add("_offset", "long").add("b", "string"), topic())
    check_projection(StructType().add("c", ArrayType(LongType(), True)), topic())
    check_projection(StructType([StructField("a", IntegerType(), False)]), topic())


def test_a_projection_that_does_not_fit_is_explained_field_by_field():
    wanted = StructType(
        [
            StructField("aa", IntegerType()),
            StructField("b", IntegerType()),
            StructField("_ofset", LongType()),
            StructField("d", MapType(StringType(), DecimalType(10, 2)), False),
        ]
    )
    lines = difference(check_projection, wanted, topic()).splitlines()
    assert lines[1:] == [
        "  b: asked for as int, is string",
        "  _ofset: asked for, not in the topic (did you mean _offset?)",
        "  d: asked for as NOT NULL, may be null",
    ]
    assert lines[0].startswith("  aa: asked for, not in the topic")
    assert "b: named twice" in difference(
        check_projection, StructType().add("b", "string").add("b", "string"), topic()
    )
    with pytest.raises(InvalidOption):
        check_projection(StructType(), topic())
    with pytest.raises(SchemaMismatch) as caught:
        check_projection(wanted, topic())
    assert ".schema(...)" in caught.value.remedy
    assert "the topic was altered after load()" in caught.value.remedy


def test_a_column_without_a_name_is_shown_as_an_empty_text() -> None:
    unnamed = StructType().add("", "string").add("", "string")
    lines = difference(check_writable, unnamed, topic()).splitlines()
    assert "  '': named twice" in lines
    assert "  '': string in the DataFrame, missing in the topic" in lines


def test_an_array_with_nulls_is_not_read_as_one_without():
    with_nulls = topic(StructType().add("c", ArrayType(LongType(), True)))
    wanted = StructType().add("c", ArrayType(LongType(), False))
    assert "c: asked for as" in difference(check_projection, wanted, with_nulls)


def test_a_write_fits_by_name_in_any_order_nullability_and_with_metadata_columns():
    check_writable(StructType([*reversed(COLUMNS.fields), METADATA["_offset"]]), topic())
    loose = StructType([StructField(f.name, f.dataType, True) for f in COLUMNS.fields])
    check_writable(loose, topic())


def test_a_write_that_does_not_fit_is_explained_field_by_field():
    given = StructType().add("a", "long").add("b", "string").add("n", "integer")
    lines = difference(check_writable, given, topic()).splitlines()
    assert "  a: int in the topic, bigint in the DataFrame" in lines
    assert "  c: array<bigint> in the topic, missing in the DataFrame" in lines
    assert "  n: int in the DataFrame, missing in the topic" in lines
    assert not any(line.startswith("  b:") for line in lines)
    with pytest.raises(SchemaMismatch) as refused:
        check_writable(given, topic())
    assert "--drop" not in refused.value.remedy, "a column that differs may be a misspelled one"
    with pytest.raises(SchemaMismatch) as refused:
        check_writable(StructType(list(COLUMNS)[:-1]), topic())
    assert refused.value.remedy.endswith(f"raftlog topic alter {topic().name} --drop=e")


def test_a_first_write_makes_every_column_nullable_and_strips_reserved_names():
    given = StructType([*COLUMNS.fields, METADATA["_offset"]])
    made = StructType.fromJson(json.loads(creation_text(given)))
    assert made.names == COLUMNS.names
    assert all(field.nullable for field in made.fields)
    assert made["c"].dataType == ArrayType(LongType(), True)
    with pytest.raises(InvalidOption):
        creation_text(StructType([METADATA["_offset"]]))


def test_every_batch_is_made_to_fit_exactly_what_spark_planned():
    target = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("t", pa.timestamp("us", tz="UTC")),
            pa.field("c", pa.list_(pa.field("element", pa.int64()))),
        ]
    )
    batch = pa.record_batch(
        {
            "a": pa.array([1, 2], pa.int32()),
            "t": pa.array([0, None], pa.timestamp("us", tz="Europe/Berlin")),
            "c": pa.array([[1], None], pa.list_(pa.field("item", pa.int64()))),
        }
    )
    fitted = conform(batch, target)
    assert fitted.schema.equals(target)
    assert fitted.column("a").buffers()[1].address == batch.column("a").buffers()[1].address
    assert fitted.to_pydict()["c"] == [[1], None]


def renamed(field, name):
    return StructField(name, field.dataType, metadata=field.metadata)


def test_a_column_of_the_users_own_under_a_reserved_name_is_refused_not_dropped():
    check_reserved(METADATA, "copy")
    for mine in (
        StructField("_topic", StringType()),
        StructField("_Topic", StringType()),
        renamed(METADATA["_writer"], "_topic"),
        renamed(METADATA["_writer"], "_Topic"),
        StructField("_topic", StringType(), metadata={"raftlog.metadata": ["_topic"]}),
    ):
        given = StructType([StructField("id", LongType()), METADATA["_offset"], mine])
        with pytest.raises(SchemaMismatch, match=f"  {mine.name}: the name is reserved") as raised:
            check_reserved(given, "mine")
        assert f".drop('{mine.name}')" in raised.value.remedy
        assert "_offset" not in str(raised.value)


def test_a_metadata_column_is_left_out_in_any_case_and_kept_under_another_name():
    kept = renamed(METADATA["_topic"], "origin")
    given = StructType([renamed(METADATA["_offset"], "_OFFSET"), *FLIGHTS, kept])
    check_reserved(given, "copy")
    assert without_metadata(given).names == ["id", "delay", "origin"]
    made = StructType.fromJson(json.loads(creation_text(given)))
    assert made.names == ["id", "delay", "origin"]
    assert not made["origin"].metadata


def test_a_write_without_a_column_that_was_added_to_the_topic_goes_on():
    given = StructType(list(topic_struct(topic(), include_metadata=False)))
    schema = evolved(topic().schema, [ColumnChange(action=ADD, name="gate", type='"string"')])
    altered = dataclasses.replace(topic(), schema=schema)
    check_writable(given, altered)
    check_writable(topic_struct(altered, include_metadata=False), altered)
    with pytest.raises(SchemaMismatch, match="gate: string in the topic, bigint in the DataFrame"):
        check_writable(StructType([*given, StructField("gate", LongType())]), altered)


def test_what_a_write_adds_and_widens_is_told_apart_from_what_no_merge_helps():
    wider = StructType([StructField("ID", LongType()), StructField("id", LongType()), GATE])
    lines = difference(merge_of, wider, topic(FLIGHTS)).splitlines()
    assert lines == [
        "  ID: named twice, but for the case",
        "  id: named twice, but for the case",
        "  delay: bigint in the topic, missing in the DataFrame",
        "  ID: bigint in the DataFrame, missing in the topic",
    ]
    inner = StructType([StructField("x", LongType(), False)])
    given = StructType([StructField("id", LongType()), FLIGHTS["delay"], StructField("in", inner)])
    merge = merge_of(given, topic(FLIGHTS))
    assert merge.types == (StructField("id", LongType()),)
    assert merge.add == (StructField("in", StructType([StructField("x", LongType())])),)
    assert merge_of(FLIGHTS, topic(FLIGHTS)) == Merge(add=(), types=())


PLACE = StructType().add("x", "integer").add("y", ArrayType(StructType().add("z", "float")))
PLACES = StructType().add("at", PLACE).add("by", MapType(StringType(), PLACE))


def test_a_write_merges_fields_into_structs_wherever_they_are():
    z = StructType().add("new", "string", False).add("z", "double")
    place = StructType().add("more", StructType().add("n", "integer", False)).add("x", "byte")
    given = StructType().add("by", MapType(StringType(), place.add("y", ArrayType(z))))
    given.add("at", StructType().add("y", ArrayType(z)).add("x", "long"))
    with pytest.raises(SchemaMismatch) as raised:
        check_writable(given, topic(PLACES))
    told = "mergeSchema=true, which adds by.value.y.element.new, by.value.more, at.y.element.new "
    assert told + "and widens by.value.y.element.z, at.x, at.y.element.z; or" in raised.value.remedy
    merge = merge_of(given, topic(PLACES))
    wider = ArrayType(StructType().add("z", "double").add("new", "string"))
    more = StructType().add("n", "integer")
    assert not merge.add
    assert {field.name: field.dataType for field in merge.types} == {
        "at": StructType().add("x", "long").add("y", wider),
        "by": MapType(
            StringType(), StructType().add("x", "integer").add("y", wider).add("more", more)
        ),
    }


def test_what_no_merge_helps_is_told_by_the_path_of_the_part():
    place = StructType().add("X", "integer").add("y", ArrayType(StructType().add("z", "string")))
    given = StructType().add("at", place).add("by", MapType(LongType(), LongType()))
    for check in (check_writable, merge_of):
        assert difference(check, given, topic(PLACES)).splitlines() == [
            "  at.x: int in the topic, missing in the DataFrame",
            "  at.y.element.z: float in the topic, string in the DataFrame",
            "  at.X: int in the DataFrame, missing in the topic",
            "  by.key: string in the topic, bigint in the DataFrame",
            "  by.value: struct<x:int,y:array<struct<z:float>>> in the topic, bigint in the "
            "DataFrame",
        ]


def test_a_write_without_a_field_that_was_added_to_a_struct_goes_on():
    wider = StructType().add("at", StructType([*PLACE]).add("new", "string"))
    merge = merge_of(wider.add("by", PLACES["by"].dataType), topic(PLACES))
    change = ColumnChange(action=SET_TYPE, name="at", type=merge.types[0].dataType.json())
    schema = evolved(topic(PLACES).schema, [change])
    altered = dataclasses.replace(topic(), schema=schema)
    check_writable(PLACES, altered)
    lines = difference(check_writable, wider, topic(PLACES)).splitlines()
    assert lines == ["  at.new: string in the DataFrame, missing in the topic"]


def test_the_error_names_merge_schema_only_if_that_would_help():
    with pytest.raises(SchemaMismatch) as raised:
        check_writable(StructType([*FLIGHTS, GATE]), topic(FLIGHTS))
    assert "mergeSchema=true, which adds gate; or select" in raised.value.remedy
    with pytest.raises(SchemaMismatch) as raised:
        check_writable(StructType([FLIGHTS["id"], GATE]), topic(FLIGHTS))
    assert "mergeSchema" not in raised.value.remedy


def test_a_write_with_a_type_that_the_topic_has_wider_goes_on():
    narrow = StructType([FLIGHTS["id"], StructField("delay", IntegerType())])
    check_writable(narrow, topic(FLIGHTS))
    assert merge_of(narrow, topic(FLIGHTS)) == Merge(add=(), types=())


def test_names_that_differ_only_in_case_mean_one_column():
    assert matched(["ID", "delay", "gate"], ["id", "Delay"]) == ["id", "Delay", "gate"]
    assert matched(["ID", "id"], ["id"]) == ["ID", "id"], "the same name comes first"
    shouted = StructType([StructField("ID", IntegerType()), StructField("Delay", IntegerType())])
    check_writable(shouted, topic(FLIGHTS))
    assert merge_of(shouted, topic(FLIGHTS)) == Merge(add=(), types=())
    wider = StructType([StructField("ID", LongType()), FLIGHTS["delay"], GATE])
    assert merge_of(wider, topic(FLIGHTS)) == Merge(
        add=(GATE,), types=(StructField("id", LongType()),)
    )
    check_projection(StructType().add("DELAY", "long").add("_OFFSET", "long"), topic(FLIGHTS))
    assert "DELAY: named twice" in difference(
        check_projection, StructType().add("DELAY", "long").add("delay", "long"), topic(FLIGHTS)
    )


def test_a_topic_is_not_made_with_columns_that_differ_only_in_case():
    with pytest.raises(InvalidOption, match="a: named twice, but for the case"):
        creation_text(StructType().add("a", "long").add("A", "long"))
