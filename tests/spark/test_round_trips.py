"""What a Spark sink writes a Spark source reads with the same schema and values, of every type."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)

from raftlog.spark.schema import creation_text
from tests.spark.conftest import finish

LATER_TYPES = [
    "make_dt_interval(CAST(id AS int), 1, 2, 3.000004) AS whole",
    "CAST(INTERVAL '30' HOUR * (id - 1) AS interval hour) AS hours",
    "CAST(INTERVAL '90.000001' SECOND * id AS interval minute to second) AS seconds",
    "CAST('12:34:56.123456789' AS time(9)) AS nanos",
    "CAST('23:59:59.9999999' AS time(7)) AS finer",
    "CAST('12:34:56' AS time(0)) AS clock",
    "parse_json(concat('{\"a\":[', id, ',null]}')) AS v",
    "'Aa' COLLATE UNICODE_CI AS text",
    "array('ß' COLLATE de_AI, null) AS texts",
    "map('K' COLLATE UTF8_LCASE, CAST('01:02:03.4' AS time(1))) AS times",
    "named_struct('x', array(named_struct('y', 'b' COLLATE fr_CAN_CI_AI_RTRIM, "
    "'v', parse_json('1'), 'i', INTERVAL '1' DAY))) AS nested",
]
"""Columns of types that Spark has besides those of SQL."""

_PARTS = (
    *("whole", "hours", "seconds", "nanos", "finer", "clock", "v", "text", "texts", "times"),
    *("nested.x.i[0]", "nested.x.y[0]", "to_json(nested.x.v[0])"),
)

AS_TEXT = [f"CAST({part} AS string) AS c{number}" for number, part in enumerate(_PARTS)]
"""Python holds no nanoseconds, so Spark writes the values as text."""


@pytest.fixture(autouse=True)
def _with_times(lab):
    """Spark's times of day are behind a setting."""
    lab.spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    lab.spark.conf.unset("spark.sql.timeType.enabled")


def texts(data):
    return sorted(map(tuple, data.selectExpr(*AS_TEXT).collect()), key=str)


def later_rows(lab, count: int):
    rows = lab.spark.range(count).selectExpr(*LATER_TYPES)
    nulls = rows.selectExpr(*(f"IF(false, {name}, NULL) AS {name}" for name in rows.columns))
    return rows.unionAll(nulls.limit(1))


def loose(given: StructType) -> StructType:
    """The schema that a topic of such rows has."""
    return StructType.fromJson(json.loads(creation_text(given)))


def test_later_types_come_back_from_a_batch_and_from_a_stream(lab):
    """The first write creates the topic; a stream copies it; a time keeps its nanoseconds."""
    data = later_rows(lab, 3)
    lab.write(data)
    found = lab.read()
    assert found.schema == loose(data.schema)
    assert texts(found) == texts(data)
    assert ("12:34:56.123456789", "23:59:59.9999999") in {row[3:5] for row in texts(found)}
    copy = f"{lab.topic}-copy"
    finish(lab.sink(lab.read_stream(startingOffsets="earliest"), topic=copy).start())
    copied = lab.read(subscribe=copy)
    assert copied.schema == found.schema
    assert texts(copied) == texts(data)


def test_an_interval_of_hours_keeps_what_is_less_than_an_hour(lab):
    given = datetime.timedelta(hours=1, minutes=5, microseconds=7)
    lab.write(lab.spark.createDataFrame([(given,)], "a interval hour"))
    assert lab.read().collect() == [(given,)]


def test_a_collation_is_part_of_a_column_s_type_wherever_it_stands(lab):
    lab.write(lab.spark.sql("SELECT named_struct('x', 'a' COLLATE UNICODE_CI) AS s"))
    assert lab.read().where("s.x = 'A'").count() == 1
    with pytest.raises(AnalysisException, match=r"s\.x: string collate UNICODE_CI in the"):
        lab.write(lab.spark.sql("SELECT named_struct('x', 'a') AS s"))
    with pytest.raises(AnalysisException, match="s: asked for as struct<x:string>, is struct<x:st"):
        lab.read(schema="s struct<x: string>").collect()


def test_a_first_write_of_collated_strings_makes_a_topic_of_them_whoever_creates_it(lab):
    """The driver does for a batch, a task for a stream, and the commit for rows that name topics.
    The next write finds columns of its own types."""
    data = lab.spark.sql(
        "SELECT 'Aa' COLLATE UNICODE_CI AS text, 'b' AS plain, "
        "map('K' COLLATE UTF8_LCASE, array(named_struct('x', 'ß' COLLATE de_AI))) AS nested"
    )
    streamed, named = f"{lab.topic}-streamed", f"{lab.topic}-named"
    for _ in "12":
        lab.write(data)
        lab.write(data.selectExpr("*", f"'{named}' AS topic"), topic=None)
    finish(lab.sink(lab.read_stream(startingOffsets="earliest"), topic=streamed).start())
    lab.write(data, topic=streamed)
    for topic, count in ((lab.topic, 2), (named, 2), (streamed, 3)):
        fields = lab.client.describe_topic(topic).schema.fields
        assert [field.type for field in fields[:2]] == ['"string collate UNICODE_CI"', '"string"']
        assert '"string collate UTF8_LCASE"' in fields[2].type
        assert '"string collate de_AI"' in fields[2].type
        assert lab.read(subscribe=topic).where("text = 'aA'").count() == count


def test_what_no_python_source_passes_is_refused_on_the_driver_with_what_passes(lab):
    lab.create("y int")
    for kind in ("INTERVAL '1' YEAR", "array(INTERVAL '1-2' YEAR TO MONTH)", "NULL"):
        data = lab.spark.sql(f"SELECT {kind} AS y")
        for topic in (lab.topic, f"{lab.topic}-new"):
            with pytest.raises(AnalysisException, match="INTERVAL DAY TO SECOND and its parts"):
                lab.write(data, topic=topic)
    for kind in ("interval year", "interval"):
        with pytest.raises(AnalysisException, match="INTERVAL DAY TO SECOND and its parts"):
            lab.read(schema=f"y {kind}").collect()


# ---------------------------------------------------------------- any types, as Parquet has them


def integers(bits: int):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


WORDS = st.text(st.characters(codec="utf-8"), max_size=5)
WALL = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(9999, 12, 30))
INTERVALS = integers(64).map(lambda us: datetime.timedelta(microseconds=us))
DOCUMENTS = st.sampled_from(["null", "1", '"x"', '{"a":[1,{"b":null}]}', "[]"])
PLAIN = [
    (BooleanType(), st.booleans()),
    (ByteType(), integers(8)),
    (ShortType(), integers(16)),
    (IntegerType(), integers(32)),
    (LongType(), integers(64)),
    (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()),
    (
        DecimalType(38, 18),
        st.integers(-(10**38 - 1), 10**38 - 1).map(lambda n: Decimal(f"{n}E-18")),
    ),
    (StringType(), WORDS),
    (StringType("UNICODE_CI"), WORDS),
    (BinaryType(), st.binary(max_size=5).map(bytearray)),
    (DateType(), st.dates(datetime.date(1900, 1, 1))),
    (TimestampType(), WALL.map(lambda at: at.replace(tzinfo=datetime.UTC))),
    (TimestampNTZType(), WALL),
    (TimeType(6), st.times()),
    (DayTimeIntervalType(), INTERVALS),
    (DayTimeIntervalType(1, 1), INTERVALS),
    (VariantType(), DOCUMENTS.map(VariantVal.parseJson)),
]


def arrays(below):
    kind, values = below
    return ArrayType(kind), st.lists(st.none() | values, max_size=3)


def maps(below):
    kind, values = below
    return MapType(StringType(), kind), st.dictionaries(WORDS, st.none() | values, max_size=3)


def structs(parts):
    fields = [StructField(f"f{number}", kind) for number, (kind, _) in enumerate(parts)]
    return StructType(fields), st.tuples(*(st.none() | values for _, values in parts))


COLUMNS = st.recursive(
    st.sampled_from(PLAIN),
    lambda below: st.one_of(
        below.map(arrays), below.map(maps), st.lists(below, min_size=1, max_size=3).map(structs)
    ),
    max_leaves=4,
)


@st.composite
def tables(draw: st.DrawFn):
    """A schema, and rows of it."""
    schema, rows = structs(draw(st.lists(COLUMNS, min_size=1, max_size=6)))
    return schema, draw(st.lists(rows, max_size=5))


def check_as_parquet(lab, schema, rows) -> None:
    data = lab.spark.createDataFrame(rows, schema).repartition(2)
    name = uuid.uuid4().hex
    folder = str(lab.folder / name)
    data.write.parquet(folder)
    parquet = lab.spark.read.parquet(folder)
    lab.write(data, topic=name)
    found = lab.read(subscribe=name)
    assert found.schema == parquet.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, parquet.collect()))


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(tables())
def test_rows_of_any_types_come_back_as_from_parquet(lab, table):
    check_as_parquet(lab, *table)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(tables())
def test_rows_of_any_types_come_back_as_from_parquet_very_often(lab, table):
    check_as_parquet(lab, *table)
