"""Rows of Python's, NumPy's, pandas' and Spark's objects: stored as they are, or rejected."""

from __future__ import annotations

import datetime
import sys
from collections import namedtuple
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row

from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.records.arrow_types import is_frame, schema_of
from raftlog.records.conform import conform
from raftlog.records.rows import batch_from_rows, table_from_frame

UTC = datetime.UTC


def stored(ddl: str, *values: Any) -> list[Any]:
    """What is read of a column `a` of this type after these values were written."""
    batch = batch_from_rows([{"a": value} for value in values], schema_of(f"a {ddl}"), "t")
    found: list[Any] = batch.column(0).to_pylist()
    return found


def rejection(ddl: str, value: Any) -> str:
    with pytest.raises(SchemaMismatch) as caught:
        stored(ddl, value)
    return caught.value.difference


def test_rows_become_a_batch_and_a_missing_key_is_null():
    schema = schema_of("id BIGINT NOT NULL, name STRING, price DECIMAL(5,2), tags ARRAY<STRING>")
    rows = [{"id": 1, "name": "a", "price": Decimal("1.5")}, {"id": 2, "tags": ["x"]}]
    assert batch_from_rows(rows, schema, "t").to_pylist() == [
        {"id": 1, "name": "a", "price": Decimal("1.50"), "tags": None},
        {"id": 2, "name": None, "price": None, "tags": ["x"]},
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": 1, "nmae": "a"}, "extra:   nmae"),
        ({"id": 1, "_offset": 9}, "extra:   _offset; the name is reserved"),
        ({"id": "1"}, "id BIGINT"),
        ({"id": Decimal("1.5")}, "id BIGINT; given Decimal"),
        ({"id": 1.5}, "id BIGINT"),
        ({"id": 2**63}, "id BIGINT"),
        ({"name": "a"}, "id: a null"),
        ({"id": True}, "id BIGINT; given bool"),
        ({"id": 1, "name": 5}, "name STRING"),
        ({"id": 1, "day": datetime.datetime(2013, 1, 1, 5)}, "day DATE; given datetime"),
        ({"id": 1, "many": [{"x": 2.5}]}, "many.element.x INT; given float 2.5"),
        ({"id": 1, "at": {"x": 1, "y": 2}}, "extra:   at.y"),
        ({"id": 1, "many": [{"x": 1}, {"z": 2}]}, "extra:   many.element.z"),
        ({"id": 1, "by": {"k": {"z": 2}}}, "extra:   by.value.z"),
    ],
    ids=str,
)
def test_a_row_that_would_lose_something_is_a_mismatch(row: dict, problem: str):
    schema = schema_of(
        "id BIGINT NOT NULL, name STRING, at STRUCT<x: INT>, many ARRAY<STRUCT<x: INT>>,"
        "by MAP<STRING, STRUCT<x: INT>>, day DATE"
    )
    with pytest.raises(SchemaMismatch, match=problem):
        batch_from_rows([row], schema, "t")


def test_numbers_are_no_times_and_no_intervals():
    schema = schema_of("t TIME, d ARRAY<INTERVAL DAY>")
    row = {"t": datetime.time(1, 2, 3, 4), "d": [datetime.timedelta(days=1, microseconds=1)]}
    assert batch_from_rows([row], schema, "t").to_pylist() == [row]
    for wrong, line in (
        ({"t": 1.5}, r"t TIME\(6\); given float"),
        ({"t": 1}, r"t TIME\(6\); given int"),
        ({"d": [1.5]}, "d.element INTERVAL DAY; given float 1.5, in row 1, counted from 0"),
    ):
        with pytest.raises(SchemaMismatch, match=line):
            batch_from_rows([row, wrong], schema, "t")


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("float", 1e300, "would become inf"),
        ("float", -1e39, "would become -inf"),
        ("float", 10**40, "too large"),
        ("array<float>", [1.0, 1e300], "would become inf"),
        ("array<float>", [-(10**400)], "too large"),
        ("float", True, "given bool"),
        ("double", True, "given bool"),
        ("date", 5, "given int"),
        ("timestamp", 5, "given int"),
        ("timestamp_ntz", 5, "given int"),
        (
            "timestamp_ntz",
            datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC),
            "with a time zone",
        ),
    ],
)
def test_a_value_that_arrow_would_change_unsaid_is_a_mismatch(kind, value, problem) -> None:
    schema = schema_of(f"a {kind}")
    with pytest.raises(SchemaMismatch, match=problem):
        batch_from_rows([{"a": None}, {"a": value}], schema, "t")


def test_values_that_a_type_has_are_taken_whatever_they_are_made_of() -> None:
    schema = schema_of("f float, d double, day date, at timestamp, wall timestamp_ntz")
    row = {
        "f": np.float32(1.5),
        "d": float("-inf"),
        "day": datetime.date(2020, 1, 1),
        "at": datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC),
        "wall": datetime.datetime(2020, 1, 1, 5),
    }
    [read] = batch_from_rows([row], schema, "t").to_pylist()
    assert (read["f"], read["d"], read["day"]) == (1.5, float("-inf"), datetime.date(2020, 1, 1))
    assert read["at"] == datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC)
    assert read["wall"] == datetime.datetime(2020, 1, 1, 5)


# ---------------------------------------------------------------- of other libraries


@pytest.mark.parametrize("made", [np.array, pd.Series, pd.Index, tuple, list], ids=str)
def test_numbers_in_arrays_keep_their_fractions_or_are_rejected(made: Any) -> None:
    assert stored("ARRAY<DOUBLE>", made([1.5, 2.5])) == [[1.5, 2.5]]
    assert "given" in rejection("ARRAY<BIGINT>", made([1.5, 2.5]))
    assert "would become inf" in rejection("ARRAY<FLOAT>", made([1.0, 1e300]))


def test_the_records_of_a_data_frame_are_stored_as_they_are() -> None:
    frame = pd.DataFrame({"a": [np.array([1.5]), np.array([2.5, 3.5])]})
    rows = frame.to_dict("records")
    batch = batch_from_rows(rows, schema_of("a ARRAY<DOUBLE>"), "t")
    assert batch.column(0).to_pylist() == [[1.5], [2.5, 3.5]]


def test_a_data_frame_is_stored_without_its_row_labels_and_missing_values_are_null() -> None:
    frame = pd.DataFrame(
        {
            "price": [1.5, float("nan")],
            "text": pd.Series(["a", float("nan")], dtype=object),
            "id": pd.Series([1, None], dtype="Int64"),
            "kind": pd.Series(["x", "y"], dtype="category"),
            "at": pd.to_datetime(["2026-01-31T12:00+01:00", None]),
            "by": pd.Series([{"k": 1}, None], dtype=object),
        }
    )
    frame.index = pd.Index([7, 9])
    schema = schema_of(
        "id BIGINT, text STRING, price DOUBLE, kind STRING, at TIMESTAMP, by MAP<STRING, INT>, "
        "more INT"
    )
    (batch,) = table_from_frame(frame, schema, "t").to_batches()
    assert conform(batch, schema, "t").to_pylist() == [
        {
            "id": 1, "text": "a", "price": 1.5, "kind": "x", "by": [("k", 1)], "more": None,
            "at": datetime.datetime(2026, 1, 31, 11, tzinfo=UTC),
        },
        dict.fromkeys(("id", "text", "price", "at", "by", "more")) | {"kind": "y"},
    ]  # fmt: skip
    made = schema_of(frame.drop(columns="by"))
    assert [(field.name, field.type) for field in made.fields] == [
        ("price", '"double"'), ("text", '"string"'), ("id", '"long"'), ("kind", '"string"'),
        ("at", '"timestamp"'),
    ]  # fmt: skip


def test_an_index_with_a_name_is_a_column_of_the_data_frame() -> None:
    """Among them the keys of a `groupby`, which would be lost without it."""
    orders = pd.DataFrame({"at": [1, 1, 2], "by": ["x", "x", "y"], "price": [1.5, 2.0, 4.0]})
    sums = orders.groupby(["by", "at"]).sum()
    schema = schema_of(sums)
    assert [field.name for field in schema.fields] == ["by", "at", "price"]
    assert table_from_frame(sums, schema, "t").to_pylist() == [
        {"by": "x", "at": 1, "price": 3.5},
        {"by": "y", "at": 2, "price": 4.0},
    ]
    for kept in (sums.reset_index("by").rename_axis([None]), orders.set_index("by", drop=False)):
        assert "at" not in {*kept.index.names}
        assert table_from_frame(kept, schema, "t").column_names == list(kept.columns)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([5], "a STRING; given int"),
        (["a", 5], "a STRING; given int"),
        ([b"a"], "a STRING; given bytes"),
        (pd.Series([1]), "a STRING; given BIGINT"),
        (pd.Series([pd.Period("2026-01")]), "a STRING; given the Arrow type"),
    ],
)
def test_a_data_frame_with_another_value_is_a_mismatch(values: Any, problem: str) -> None:
    series = values if isinstance(values, pd.Series) else pd.Series(values, dtype=object)
    frame, schema = pd.DataFrame({"a": series}), schema_of("a STRING")

    def store() -> None:
        (batch,) = table_from_frame(frame, schema, "t").to_batches()
        conform(batch, schema, "t")

    with pytest.raises(SchemaMismatch, match=problem):
        store()


@pytest.mark.parametrize("kind", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
def test_integers_that_pandas_made_floats_for_those_that_are_missing_have_a_way_out(
    kind: str,
) -> None:
    frame, schema = pd.DataFrame({"a": [1, None]}), schema_of(f"a {kind}")
    with pytest.raises(SchemaMismatch, match=f"a {kind}; given DOUBLE, as pandas") as caught:
        table_from_frame(frame, schema, "t")
    _, wanted, _ = caught.value.difference.split("'")
    (batch,) = table_from_frame(frame.astype(wanted), schema, "t").to_batches()
    assert conform(batch, schema, "t").to_pydict() == {"a": [1, None]}
    assert table_from_frame(pd.DataFrame({"a": [1.5, None]}), schema, "t").num_rows == 2


def test_a_data_frame_of_which_arrow_knows_no_types_makes_no_topic() -> None:
    for values in ([1, "a"], [object()], [None], [2**70]):
        frame = pd.DataFrame({"id": [0] * len(values), "a": pd.Series(values, dtype=object)})
        with pytest.raises(InvalidOption, match="names the column 'a', which has") as caught:
            schema_of(frame)
        assert caught.value.option == "schema"


def test_a_time_that_python_does_not_have_in_utc_is_rejected() -> None:
    """It has them in their zones."""
    west = datetime.timezone(datetime.timedelta(hours=-5))
    for given in (
        datetime.datetime.max.replace(tzinfo=west),
        datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ):
        assert "is not in the years 1 to 9999 in UTC" in rejection("TIMESTAMP", given)
    last = datetime.datetime.max.replace(tzinfo=UTC)
    assert stored("TIMESTAMP", last) == [last]
    assert stored("TIMESTAMP", last.astimezone(west)) == [last]


def test_tuples_with_names_are_taken_by_name() -> None:
    """In a Spark Row the fields have the order in which they were given."""
    pair = namedtuple("pair", ["b", "a"])
    for made in (Row(b="x", a=1), pair(b="x", a=1), {"b": "x", "a": 1}):
        assert stored("STRUCT<a: BIGINT, b: STRING>", made) == [{"a": 1, "b": "x"}]
        batch = batch_from_rows([made], schema_of("a BIGINT, b STRING"), "t")
        assert batch.to_pylist() == [{"a": 1, "b": "x"}]
    assert "no names" in rejection("STRUCT<a: BIGINT, b: STRING>", (1, "x"))
    with pytest.raises(SchemaMismatch, match="no names"):
        batch_from_rows([(1, "x")], schema_of("a BIGINT, b STRING"), "t")


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2020, 1, 1),
        pd.Timestamp("2020-01-01"),
        np.datetime64("2020-01-01T00:00:00"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_time_without_a_zone_is_no_timestamp(value: Any) -> None:
    said = rejection("TIMESTAMP", value)
    assert "has no time zone" in said
    assert ("`.replace(" in said) is not isinstance(value, np.datetime64)
    assert stored("TIMESTAMP_NTZ", value) == [datetime.datetime(2020, 1, 1)]


def test_a_time_with_a_zone_is_the_same_moment_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    moment = datetime.datetime(2020, 1, 1, 20, 0, 0, 7, tzinfo=zone)
    for value in (moment, pd.Timestamp(moment)):
        assert stored("TIMESTAMP", value) == [moment]
    late = datetime.datetime.max.replace(tzinfo=zone)
    assert "years 1 to 9999" in rejection("TIMESTAMP", late)


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("TIMESTAMP", pd.Timestamp("2020-01-01 00:00:00.000000001", tz="UTC")),
        ("TIMESTAMP_NTZ", pd.Timestamp("2020-01-01 00:00:00.000000001")),
        ("TIMESTAMP_NTZ", np.datetime64("2020-01-01T00:00:00.000000001")),
        ("INTERVAL DAY TO SECOND", pd.Timedelta(1, "ns")),
        ("INTERVAL DAY TO SECOND", np.timedelta64(1, "ns")),
        ("DATE", np.datetime64("2020-01-01T01")),
    ],
    ids=str,
)
def test_what_a_type_has_no_digits_for_is_rejected(ddl: str, value: Any) -> None:
    assert "is not a whole number of" in rejection(ddl, value)


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms", "us", "ns"])
def test_times_of_numpy_in_any_unit_are_taken_where_they_fit(unit: str) -> None:
    value = np.datetime64("2020-01-01", unit)
    assert stored("TIMESTAMP_NTZ", value) == [datetime.datetime(2020, 1, 1)]
    assert stored("DATE", value) == [datetime.date(2020, 1, 1)]
    assert stored("ARRAY<DATE>", np.array([value])) == [[datetime.date(2020, 1, 1)]]


@pytest.mark.parametrize("year", [-1, 0, 10_000, 300_000, 10**15])
def test_times_of_numpy_in_other_years_are_rejected(year: int) -> None:
    value = np.datetime64(year - 1970, "Y")
    for ddl in ("TIMESTAMP_NTZ", "DATE"):
        assert rejection(ddl, value)


NULLS = (None, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"))


@pytest.mark.parametrize("ddl", ["BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "BOOLEAN"])
def test_nulls_of_pandas_and_numpy_are_nulls(ddl: str) -> None:
    assert stored(ddl, *NULLS) == [None] * len(NULLS)
    assert stored(f"ARRAY<{ddl}>", list(NULLS)) == [[None] * len(NULLS)]
    assert stored(f"STRUCT<x: {ddl}>", *NULLS) == [None] * len(NULLS)


def test_rows_are_taken_while_another_thread_imports_pandas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))  # it has no names yet
    assert stored("ARRAY<BIGINT>", [1, None], None) == [[1, None], None]
    assert not is_frame([{"a": 1}])


def test_nan_is_a_number_and_no_null() -> None:
    for ddl in ("FLOAT", "DOUBLE"):
        for nan in (float("nan"), np.float32("nan"), np.float64("nan")):
            (found,) = stored(ddl, nan)
            assert found != found
    for ddl in ("BIGINT", "STRING", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(5,2)", "BINARY"):
        assert "given float" in rejection(ddl, float("nan"))
    assert "NaN" in rejection("DECIMAL(5,2)", Decimal("nan"))


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("STRING", b"text"),
        ("BINARY", "text"),
        ("BOOLEAN", 1),
        ("DOUBLE", 2**53 + 1),
        ("FLOAT", 2**24 + 1),
        ("DECIMAL(5,2)", Decimal("1.234")),
        ("DECIMAL(5,2)", 1.5),
        ("STRING", "\ud800"),
        ("ARRAY<STRING>", "text"),
        ("ARRAY<BIGINT>", {1, 2}),
        ("MAP<STRING, BIGINT>", [1, 2]),
        ("TIME", datetime.time(1, tzinfo=UTC)),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_rejected(ddl: str, value: Any) -> None:
    assert rejection(ddl, value)


def test_a_float_is_stored_as_the_nearest_that_the_column_has() -> None:
    assert stored("FLOAT", 0.1) == [float(np.float32(0.1))]


def test_maps_are_taken_as_mappings_or_as_pairs() -> None:
    for value in ({"k": 1}, [("k", 1)], (["k", 1],)):
        assert stored("MAP<STRING, BIGINT>", value, None) == [[("k", 1)], None]


def test_an_error_shows_the_beginning_of_a_long_value() -> None:
    assert len(rejection("DECIMAL(5,2)", Decimal("1." + "1" * 10_000))) < 200


def test_the_first_row_that_is_wrong_is_named_with_its_value_and_the_way_out_of_a_nan():
    schema = schema_of("a bigint, s string")
    frame = pd.DataFrame({"a": range(500), "s": ["x"] * 317 + [np.nan] * 183})
    with pytest.raises(SchemaMismatch) as caught:
        batch_from_rows(frame.to_dict("records"), schema, "t")
    assert caught.value.rows == (317,)
    assert caught.value.cause.splitlines()[1] == (
        "  differs: s STRING; given float nan, no null: append the DataFrame itself, or use its "
        "convert_dtypes(), in row 317, counted from 0"
    )
    rows = frame.convert_dtypes().to_dict("records")
    assert batch_from_rows(rows, schema, "t")["s"].null_count == 183


def test_numbers_of_numpy_and_arrays_of_pandas_are_stored_as_pythons():
    assert stored("DECIMAL(10,2)", np.int64(4), np.uint8(5)) == [Decimal(4), Decimal(5)]
    assert stored("ARRAY<BIGINT>", pd.array([1, None], dtype="Int64")) == [[1, None]]
    assert stored("ARRAY<STRING>", pd.array(["x", None], dtype="string")) == [["x", None]]
    assert rejection("MAP<BIGINT, STRING>", {"k": "v"}).startswith("  differs: a.key BIGINT; given")
