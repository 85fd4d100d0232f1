"""Differences and casts: exact where a value fits, refused where it would change."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import SchemaMismatch
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.conform import conform, difference
from raftlog.records.metadata import METADATA_FIELDS
from tests.records.strategies import batches


def _batch(values: list, kind: pa.DataType, name: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name])


def _conformed(values: list, kind: pa.DataType, ddl: str) -> pa.Array:
    return conform(_batch(values, kind), schema_of(ddl), "t").column(0)


# ---------------------------------------------------------------- differences


def test_a_difference_says_everything_column_by_column():
    schema = schema_of("id BIGINT NOT NULL, name STRING, at TIMESTAMP, n INT")
    given_schema = pa.schema(
        [("id", pa.string()), ("at", pa.timestamp("us")), ("n", pa.null()), ("x", pa.uint64())]
    )
    assert difference(schema, given_schema) == "\n".join(
        [
            "  differs: id BIGINT NOT NULL; given STRING",
            "  missing: name STRING",
            "  differs: at TIMESTAMP; given TIMESTAMP_NTZ; give its values a time zone, "
            "with pandas by .dt.tz_localize('UTC')",
            "  extra:   x the Arrow type uint64",
        ]
    )


@pytest.mark.parametrize(
    ("given_type", "ddl"),
    [
        (pa.dictionary(pa.int8(), pa.timestamp("us")), "TIMESTAMP"),
        (pa.list_(pa.timestamp("us")), "ARRAY<TIMESTAMP>"),
        (pa.struct([("x", pa.timestamp("ns"))]), "STRUCT<x: TIMESTAMP>"),
    ],
    ids=str,
)
def test_a_time_without_a_zone_is_advised_to_get_one_wherever_it_is(given_type, ddl: str):
    told = difference(schema_of(f"a {ddl}"), pa.schema([("a", given_type)]))
    assert told is not None
    assert "TIMESTAMP; given TIMESTAMP_NTZ; give its values a time zone" in told


def test_a_column_that_may_be_null_may_be_missing_unless_another_has_its_place():
    schema = schema_of("id BIGINT, name STRING")
    assert conform(_batch([1], pa.int64(), "id"), schema, "t").to_pylist() == [
        {"id": 1, "name": None}
    ]
    misspelled = pa.schema([("id", pa.int64()), ("nmae", pa.string())])
    assert difference(schema, misspelled) == "  missing: name STRING\n  extra:   nmae STRING"


def test_order_zone_width_and_metadata_columns_make_no_difference():
    schema = schema_of("id BIGINT, at TIMESTAMP, name STRING")
    given_schema = pa.schema(
        [
            ("name", pa.dictionary(pa.int32(), pa.large_string())),
            METADATA_FIELDS["_offset"],
            ("at", pa.timestamp("ms", tz="America/New_York")),
            ("id", pa.int16()),
        ],
        metadata={"pandas": "{}"},
    )
    assert difference(schema, given_schema) is None


@pytest.mark.parametrize(
    ("given_type", "ddl", "same"),
    [
        (pa.int32(), "a BIGINT", True),
        (pa.int64(), "a INT", False),
        (pa.uint8(), "a INT", False),
        (pa.float32(), "a DOUBLE", True),
        (pa.float64(), "a FLOAT", False),
        (pa.int32(), "a DOUBLE", False),
        (pa.decimal128(5, 2), "a DECIMAL(7,3)", True),
        (pa.decimal128(5, 2), "a DECIMAL(5,3)", False),
        (pa.string(), "a BINARY", False),
        (pa.binary(), "a STRING", False),
        (pa.date32(), "a TIMESTAMP", False),
        (pa.list_(pa.int8()), "a ARRAY<INT>", True),
        (pa.list_(pa.string()), "a ARRAY<INT>", False),
        (pa.map_(pa.large_string(), pa.int8()), "a MAP<STRING, INT>", True),
        (pa.map_(pa.string(), pa.string()), "a MAP<STRING, INT>", False),
        (pa.struct([("x", pa.int8()), ("y", pa.string())]), "a STRUCT<x: INT, y: STRING>", True),
        (pa.struct([("y", pa.string()), ("x", pa.int8())]), "a STRUCT<x: INT, y: STRING>", True),
        (pa.struct([("x", pa.int8())]), "a STRUCT<x: INT, y: STRING>", False),
        (pa.struct([("x", pa.int8())] * 2), "a STRUCT<x: INT>", False),
    ],
    ids=str,
)
def test_a_type_fits_only_where_every_value_keeps_its_meaning(given_type, ddl: str, same: bool):
    found = difference(schema_of(ddl), pa.schema([pa.field("a", given_type)]))
    assert (found is None) == same


def test_a_column_of_somebody_s_own_under_a_reserved_name_is_a_difference():
    told = difference(
        schema_of("id BIGINT"), pa.schema([("id", pa.int64()), ("_term", pa.int64())])
    )
    assert told is not None
    assert told.startswith("  extra:   _term BIGINT; the name is reserved for metadata")


def test_a_column_given_twice_is_a_difference():
    given_schema = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    assert difference(schema_of("a BIGINT"), given_schema) == "  twice:   a"


def test_each_of_several_extra_columns_of_one_name_is_reported():
    given = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("b", pa.string())])
    told = difference(schema_of("a bigint"), given)
    assert told == "  extra:   b BIGINT\n  extra:   b STRING"


def test_nothing_but_nulls_differs_from_not_null():
    found = difference(schema_of("a BIGINT NOT NULL"), pa.schema([("a", pa.null())]))
    assert found == "  differs: a BIGINT NOT NULL; given nothing but nulls"


# ---------------------------------------------------------------- conforming


@pytest.mark.slow
@settings(max_examples=60)
@given(batches())
def test_a_canonical_batch_conforms_as_it_is(given_batch):
    schema, batch = given_batch
    found = conform(batch, schema, "t")
    assert found.schema.equals(arrow_schema(schema), check_metadata=True)
    assert found.equals(batch)


@pytest.mark.slow
@settings(max_examples=60)
@given(batches(), st.randoms())
def test_a_batch_of_loose_types_conforms_to_the_same_values(given_batch, random):
    schema, batch = given_batch
    columns = [(name, _loose(batch.column(name))) for name in batch.schema.names]
    fields = [(pa.field(name, column.type), column) for name, column in columns]
    fields.append((METADATA_FIELDS["_offset"], pa.array([0] * batch.num_rows, pa.int64())))
    random.shuffle(fields)
    given_batch = pa.RecordBatch.from_arrays(
        [column for _, column in fields], schema=pa.schema([field for field, _ in fields])
    )
    found = conform(given_batch, schema, "t")
    found.validate(full=True)
    assert found.equals(batch)
    assert found.schema == batch.schema


def _loose(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column.dictionary_encode()
    if pa.types.is_binary(column.type):
        return column.cast(pa.large_binary())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp("us", tz="Asia/Tokyo"))
    if pa.types.is_nested(column.type):
        return column.cast(_all_nullable(column.type))
    return column


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _all_nullable(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", _all_nullable(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _all_nullable(part.type)) for part in kind])
    return kind


def test_a_time_in_any_zone_stays_the_same_moment():
    noon = datetime.datetime(2013, 7, 1, 12, tzinfo=datetime.UTC)
    found = _conformed([noon], pa.timestamp("us", tz="America/New_York"), "a TIMESTAMP")
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.to_pylist() == [noon]


@pytest.mark.parametrize(
    ("values", "given_type", "ddl"),
    [
        ([1500], pa.timestamp("ns"), "a TIMESTAMP_NTZ"),
        ([2**60], pa.timestamp("s"), "a TIMESTAMP_NTZ"),
        ([1], pa.date64(), "a DATE"),
    ],
    ids=str,
)
def test_a_value_that_a_cast_would_change_is_a_mismatch(values, given_type, ddl: str):
    with pytest.raises(SchemaMismatch, match="  a: "):
        _conformed(values, given_type, ddl)


@pytest.mark.parametrize(
    ("values", "given_type", "ddl", "path"),
    [
        ([1, None], pa.int64(), "a BIGINT NOT NULL", "a"),
        (
            [{"x": 1}, {"x": None}],
            pa.struct([("x", pa.int32())]),
            "a STRUCT<x: INT NOT NULL>",
            "a.x",
        ),
        (
            [[{"x": None}]],
            pa.list_(pa.struct([("x", pa.int32())])),
            "a ARRAY<STRUCT<x: INT NOT NULL>>",
            "a.element.x",
        ),
        (
            [[("k", {"x": None})]],
            pa.map_(pa.string(), pa.struct([("x", pa.int32())])),
            "a MAP<STRING, STRUCT<x: INT NOT NULL>>",
            "a.value.x",
        ),
    ],
    ids=["column", "struct", "array", "map"],
)
def test_a_null_where_none_may_be_is_a_mismatch_that_names_the_part(values, given_type, ddl, path):
    with pytest.raises(SchemaMismatch, match=f"  {path}: a null"):
        _conformed(values, given_type, ddl)


@pytest.mark.parametrize(
    ("values", "ddl"),
    [
        ([{"x": 1}], "a STRUCT<x: INT NOT NULL>"),
        ([[{"x": 1}]], "a ARRAY<STRUCT<x: INT NOT NULL>>"),
        ([[("k", {"x": 1})]], "a MAP<STRING, STRUCT<x: INT NOT NULL>>"),
    ],
)
def test_parts_without_nulls_fit_where_none_may_be(values, ddl: str):
    wanted = arrow_schema(schema_of(ddl)).field("a").type
    found = _conformed(values, _all_nullable(wanted), ddl)
    assert found.type == wanted
    assert found.to_pylist() == values


def test_a_null_outside_the_slice_or_below_a_null_is_no_mismatch():
    schema = schema_of("a STRUCT<x: INT NOT NULL>, m MAP<STRING, STRUCT<y: INT NOT NULL>>")
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"x": None}, None, {"x": 1}], pa.struct([("x", pa.int32())])),
            pa.array(
                [[("k", {"y": None})], None, [("k", {"y": 2})]],
                pa.map_(pa.string(), pa.struct([("y", pa.int32())])),
            ),
        ],
        names=["a", "m"],
    )
    found = conform(batch.slice(1), schema, "t")
    assert found.column(0).to_pylist() == [None, {"x": 1}]
    assert found.column(1).to_pylist() == [None, [("k", {"y": 2})]]
    assert found.schema == arrow_schema(schema)
    with pytest.raises(SchemaMismatch):
        conform(batch.slice(0, 1), schema, "t")


def test_a_part_that_is_null_only_below_a_null_is_no_mismatch():
    # As Spark writes a null struct; Arrow's own cast refuses it.
    kind = pa.struct([pa.field("x", pa.int32())])
    nothing, one = pa.array([True, False]), pa.array([None, 1], pa.int32())
    column = pa.StructArray.from_arrays([one], fields=list(kind), mask=nothing)
    batch = pa.RecordBatch.from_arrays([column], names=["a"])
    found = conform(batch, schema_of("a STRUCT<x: INT NOT NULL>"), "t")
    assert found.column(0).to_pylist() == [None, {"x": 1}]
    assert not found.schema.field("a").type.field("x").nullable
    assert found.column(0).type == found.schema.field("a").type


def test_a_null_beside_the_slice_of_a_map_is_no_mismatch():
    values = [[("k", {"y": None})], [("k", {"y": 2})], [("k", {"y": None})]]
    schema = schema_of("a MAP<STRING, STRUCT<y: INT NOT NULL>>")
    # Arrow silently makes nulls of a type that forbids them.
    batch = _batch(values, arrow_schema(schema).field("a").type)
    assert conform(batch.slice(1, 1), schema, "t").column(0).to_pylist() == values[1:2]
    with pytest.raises(SchemaMismatch, match=r"a\.value\.y"):
        conform(batch.slice(2, 1), schema, "t")


def test_nulls_of_no_type_fit_a_nullable_column():
    assert _conformed([None, None], pa.null(), "a MAP<STRING, INT>").null_count == 2


def test_a_mismatch_names_the_topic_and_the_columns():
    with pytest.raises(SchemaMismatch) as caught:
        conform(_batch([1], pa.int64(), "b"), schema_of("a BIGINT"), "flights")
    assert "'flights'" in str(caught.value)
    assert "missing: a BIGINT" in str(caught.value)
    assert "extra:   b BIGINT" in str(caught.value)


def test_times_and_intervals_are_taken_in_any_unit_and_never_truncated():
    schema = schema_of("t TIME(3), d INTERVAL HOUR, v VARIANT")
    given_batch = pa.record_batch(
        {
            "t": pa.array([1], pa.time32("s")),
            "d": pa.array([3_900_000_007_000], pa.duration("ns")),
            "v": pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\0\0"}]),
        }
    )
    fitted = conform(given_batch, schema, "t")
    assert fitted.column("t").cast("int64").to_pylist() == [1_000_000_000]
    assert fitted.column("d").to_pylist() == [datetime.timedelta(seconds=3900, microseconds=7)]
    lossy = given_batch.set_column(1, "d", pa.array([1], pa.duration("ns")))
    with pytest.raises(SchemaMismatch, match="d: Casting from duration"):
        conform(lossy, schema, "t")
    incomplete = given_batch.set_column(2, "v", pa.array([{"value": b"", "metadata": None}]))
    with pytest.raises(SchemaMismatch, match="metadata: a null"):
        conform(incomplete, schema, "t")
