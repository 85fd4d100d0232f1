"""A topic's types and Arrow's: exact both ways, or refused."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings

from raftlog.errors import InvalidOption
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, arrow_type, schema_from_arrow, schema_of
from raftlog.records.metadata import METADATA_FIELDS
from raftlog.records.schema_text import parse_json
from tests.records.spark_json import struct_json
from tests.records.strategies import SCHEMAS


@pytest.mark.slow
@settings(max_examples=60)
@given(SCHEMAS)
def test_a_schema_survives_arrow_but_for_what_arrow_cannot_say(schema: Schema):
    assert schema_from_arrow(arrow_schema(schema)) == parse_json(_as_arrow_says(schema))


def _as_arrow_says(schema: Schema) -> str:
    text = re.sub(r'"string collate \w+"', '"string"', struct_json(schema))
    text = re.sub(r'"time\(\d\)"', '"time(9)"', text)
    return re.sub(r'"interval [a-z ]+"', '"interval day to second"', text)


@settings(max_examples=40)
@given(SCHEMAS)
def test_the_arrow_schema_is_the_one_spark_asks_for(schema: Schema):
    types = pytest.importorskip("pyspark.sql.types")
    pandas_types = pytest.importorskip("pyspark.sql.pandas.types")
    spark = types.StructType.fromJson(json.loads(struct_json(schema)))
    assert pandas_types.to_arrow_schema(spark, timezone="UTC") == arrow_schema(schema)
    assert parse_json(spark.json()) == schema


@pytest.mark.parametrize(
    ("given_type", "ddl"),
    [
        (pa.large_string(), "a STRING"),
        (pa.string_view(), "a STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "a STRING"),
        (pa.large_binary(), "a BINARY"),
        (pa.binary(4), "a BINARY"),
        (pa.date64(), "a DATE"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "a TIMESTAMP"),
        (pa.timestamp("s"), "a TIMESTAMP_NTZ"),
        (pa.decimal256(38, 3), "a DECIMAL(38,3)"),
        (pa.large_list(pa.int32()), "a ARRAY<INT>"),
        (pa.list_(pa.int32(), 2), "a ARRAY<INT>"),
        (pa.time32("s"), "a TIME(0)"),
        (pa.time32("ms"), "a TIME(3)"),
        (pa.time64("us"), "a TIME(6)"),
        (pa.time64("ns"), "a TIME(9)"),
        (pa.duration("ns"), "a INTERVAL DAY TO SECOND"),
        (pa.duration("s"), "a INTERVAL DAY TO SECOND"),
        (arrow_type('"variant"'), "a VARIANT"),
        (
            pa.struct([pa.field(name, pa.binary(), False) for name in ("value", "metadata")]),
            "a STRUCT<value: BINARY NOT NULL, metadata: BINARY NOT NULL>",
        ),
    ],
    ids=str,
)
def test_arrow_types_become_the_canonical_type_that_holds_them(given_type, ddl: str):
    assert schema_of(pa.schema([pa.field("a", given_type)])) == schema_of(ddl)


@pytest.mark.parametrize(
    "given_type",
    [
        pa.uint64(),
        pa.float16(),
        pa.month_day_nano_interval(),
        pa.null(),
        pa.decimal256(50, 2),
        pa.list_(pa.uint64()),
        pa.struct([pa.field("b", pa.null())]),
    ],
    ids=str,
)
def test_arrow_types_without_a_lossless_counterpart_are_refused(given_type):
    with pytest.raises(InvalidOption, match="schema"):
        schema_of(pa.schema([pa.field("a", given_type)]))


def test_metadata_columns_that_were_read_are_left_out_of_a_schema_from_data():
    given_schema = pa.schema([pa.field("id", pa.int64()), METADATA_FIELDS["_offset"]])
    assert schema_of(given_schema) == schema_of("id BIGINT")


def test_a_column_of_somebody_s_own_under_a_reserved_name_is_refused():
    mine = pa.field("_offset", pa.int64())
    another = METADATA_FIELDS["_term"].with_name("_offset")
    for field in (mine, another):
        with pytest.raises(InvalidOption, match="'_offset', which is reserved"):
            schema_of(pa.schema([pa.field("id", pa.int64()), field]))


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(InvalidOption, match="'a' twice"):
        schema_of(pa.schema([("a", pa.int64()), ("a", pa.string())]))
