"""Records that were written under each version of a schema, read under each later one."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import DataLoss, SchemaMismatch
from raftlog.machines.evolution import (
    ADD,
    DROP,
    DROP_NOT_NULL,
    SET_TYPE,
    ColumnChange,
    evolved,
)
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, arrow_type, schema_of
from raftlog.records.batch_codec import NotInSchema, decode_batch, encode_batch
from raftlog.records.conform import conform, difference
from raftlog.records.rows import batch_from_rows
from raftlog.wire.batch import EncodedBatch
from tests.machines.evolving import Column, Version, first_schema, histories

_DIGITS = st.integers(-99999, 99999).map(lambda number: Decimal(number).scaleb(-2))
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    '"byte"': st.integers(-(2**7), 2**7 - 1),
    '"short"': st.integers(-(2**15), 2**15 - 1),
    '"integer"': st.integers(-(2**31), 2**31 - 1),
    '"long"': st.integers(-(2**63), 2**63 - 1),
    '"float"': st.floats(width=32, allow_nan=False),
    '"double"': st.floats(allow_nan=False),
    '"string"': st.text(max_size=5),
}


def value_of(column: Column) -> st.SearchStrategy[Any]:
    found = _values(json.loads(column.type))
    return st.none() | found if column.nullable else found


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, str):
        return _DIGITS if "decimal" in kind else _VALUES[f'"{kind}"']
    match kind["type"]:
        case "array":
            return st.lists(st.none() | _values(kind["elementType"]), max_size=3)
        case "map":
            return st.dictionaries(
                st.text(max_size=2), st.none() | _values(kind["valueType"]), max_size=2
            ).map(lambda found: list(found.items()))
        case _:
            return st.fixed_dictionaries(
                {part["name"]: st.none() | _values(part["type"]) for part in kind["fields"]}
            )


def seen_as(value: Any, kind: Any) -> Any:
    """A value as a reader sees it who knows a later type: structs have its fields."""
    if value is None or isinstance(kind, str):
        return value
    match kind["type"]:
        case "array":
            return [seen_as(each, kind["elementType"]) for each in value]
        case "map":
            return [(key, seen_as(each, kind["valueType"])) for key, each in value]
        case _:
            return {
                part["name"]: seen_as(value.get(part["name"]), part["type"])
                for part in kind["fields"]
            }


def next_of(schema: Schema, *changes: ColumnChange) -> Schema:
    found = evolved(schema, changes)
    assert isinstance(found, Schema), found
    return found


def encoded(schema: Schema, columns: dict[str, list[Any]]) -> EncodedBatch:
    wanted = arrow_schema(schema)
    arrays = [pa.array(columns[field.name], field.type) for field in wanted]
    return encode_batch(pa.RecordBatch.from_arrays(arrays, schema=wanted), schema, "none")


@settings(max_examples=60, deadline=None)
@given(st.data(), histories())
def test_records_of_every_version_are_read_under_the_last(
    data: st.DataObject, history: tuple[list[Version], list[list[ColumnChange]]]
) -> None:
    versions, steps = history
    schemas = [first_schema(versions[0])]
    for changes in steps:
        schemas.append(next_of(schemas[-1], *changes))
    now = {column.identity: column for column in versions[-1]}
    names = [field.name for field in schemas[-1].fields]
    for columns, schema in zip(versions, schemas, strict=True):
        count = data.draw(st.integers(1, 3))
        values = {
            each.identity: data.draw(st.lists(value_of(each), min_size=count, max_size=count))
            for each in columns
        }
        wrote = encoded(schema, {each.name: values[each.identity] for each in columns})
        read = decode_batch(wrote.header, wrote.body, schemas[-1], names)
        expected = {
            column.name: [
                seen_as(value, json.loads(column.type))
                for value in values.get(identity, [None] * count)
            ]
            for identity, column in now.items()
        }
        assert read.to_pydict() == expected
        assert [field.type for field in read.schema] == [arrow_type(c.type) for c in versions[-1]]


FIRST = schema_of("id BIGINT NOT NULL, delay INT")
LATER = next_of(
    FIRST,
    ColumnChange(action=SET_TYPE, name="delay", type='"long"'),
    ColumnChange(action=ADD, name="gate", type='"string"'),
)


def test_a_reader_goes_on_with_its_columns_while_later_records_fit_them() -> None:
    wrote = encoded(LATER, {"id": [1, 2], "delay": [5, None], "gate": ["a", None]})
    read = decode_batch(wrote.header, wrote.body, FIRST, ["delay", "id"], latest=LATER)
    assert read.schema == pa.schema(
        [pa.field("delay", pa.int32()), pa.field("id", pa.int64(), nullable=False)]
    )
    assert read.to_pydict() == {"delay": [5, None], "id": [1, 2]}


def test_a_later_value_that_an_earlier_type_cannot_hold_is_an_error_and_no_other_value() -> None:
    wrote = encoded(LATER, {"id": [1], "delay": [2**31], "gate": [None]})
    with pytest.raises(NotInSchema, match="delay"):
        decode_batch(wrote.header, wrote.body, FIRST, ["delay"], latest=LATER)


@pytest.mark.parametrize(
    ("before", "after", "fitting", "other"),
    [
        ("FLOAT", "DOUBLE", [1.5, None, float("inf"), -0.0], [0.1]),
        ("FLOAT", "DOUBLE", [2.0**127], [1e300]),
        ("FLOAT", "DOUBLE", [0.0], [5e-324]),
        ("ARRAY<FLOAT>", "ARRAY<DOUBLE>", [[0.5, None], None, []], [[0.5, 0.1]]),
        ("STRUCT<x: FLOAT>", "STRUCT<x: DOUBLE, y: INT>", [{"x": 0.5}, None], [{"x": 0.1}]),
        ("MAP<STRING, FLOAT>", "MAP<STRING, DOUBLE>", [[("a", 0.5)], None], [[("a", 0.1)]]),
    ],
)
def test_a_later_double_is_read_as_a_float_if_it_is_one_and_never_rounded(
    before: str, after: str, fitting: list[Any], other: list[Any]
) -> None:
    first = schema_of(f"x {before}")
    later = next_of(first, widened("x", after))
    kind = arrow_schema(first).field("x").type
    wrote = encoded(later, {"x": fitting})
    read = decode_batch(wrote.header, wrote.body, first, ["x"], latest=later)
    narrow = [{"x": row["x"]} if isinstance(row, dict) else row for row in fitting]
    assert read.column(0) == pa.array(narrow, kind)
    wrote = encoded(later, {"x": [float("nan")] if before == "FLOAT" else [None]})
    decode_batch(wrote.header, wrote.body, first, ["x"], latest=later)
    wrote = encoded(later, {"x": other})
    with pytest.raises(NotInSchema, match="none of the narrower type"):
        decode_batch(wrote.header, wrote.body, first, ["x"], latest=later)


def test_a_column_that_was_never_null_is_not_made_up() -> None:
    gone = next_of(LATER, ColumnChange(action=DROP, name="id"))
    wrote = encoded(gone, {"delay": [1], "gate": [None]})
    with pytest.raises(NotInSchema, match="id: NOT NULL"):
        decode_batch(wrote.header, wrote.body, FIRST, ["id"], latest=gone)
    optional = next_of(LATER, ColumnChange(action=DROP_NOT_NULL, name="id"))
    wrote = encoded(optional, {"id": [None], "delay": [1], "gate": [None]})
    with pytest.raises(NotInSchema, match="have nulls"):
        decode_batch(wrote.header, wrote.body, FIRST, ["id"], latest=optional)


def test_a_column_of_its_version_that_a_batch_lacks_is_data_loss() -> None:
    wrote = encoded(LATER, {"id": [1], "delay": [1], "gate": ["a"]})
    header = dataclasses.replace(wrote.header, columns=wrote.header.columns[:2])
    with pytest.raises(DataLoss, match="gate"):
        decode_batch(header, wrote.body, LATER, ["gate"])


@pytest.mark.parametrize("version", [0, 3])
def test_a_batch_of_a_version_that_nobody_knows_is_data_loss(version: int) -> None:
    wrote = encoded(LATER, {"id": [1], "delay": [1], "gate": ["a"]})
    header = dataclasses.replace(wrote.header, schema_version=version)
    with pytest.raises(DataLoss, match="version"):
        decode_batch(header, wrote.body, LATER, ["id"])


# ---------------------------------------------------------------- writers that know less


def test_rows_without_an_added_column_have_null_in_it() -> None:
    older = pa.RecordBatch.from_pydict({"delay": [5], "id": [1]})
    assert difference(LATER, older.schema) is None
    made = conform(older, LATER, "flights")
    assert made.schema == arrow_schema(LATER)
    assert made.to_pydict() == {"id": [1], "delay": [5], "gate": [None]}
    rows = batch_from_rows([{"id": 1, "delay": 5}], LATER, "flights")
    assert rows == made


def test_a_column_that_may_not_be_null_must_be_there() -> None:
    with pytest.raises(SchemaMismatch, match="missing: id BIGINT NOT NULL\n Give rows"):
        conform(pa.RecordBatch.from_pydict({"delay": [1]}), LATER, "flights")


def test_the_first_row_with_a_null_that_is_not_allowed_is_named_with_its_own_part() -> None:
    schema = schema_of("at STRUCT<x: BIGINT NOT NULL, y: BIGINT NOT NULL>")
    whole = {"x": 1, "y": 1}
    rows = [whole] * 70_000
    rows[50_000], rows[60_000] = {"x": 1, "y": None}, {"x": None, "y": 1}
    batch = pa.RecordBatch.from_pydict({"at": rows})
    for batches, before, part, row in (
        (batch, 7, "at.y", 50_007), (batch.slice(50_001), 0, "at.x", 9_999),
        (batch.slice(60_000, 1), 0, "at.x", 0),
    ):  # fmt: skip
        with pytest.raises(SchemaMismatch, match=f"{part}: a null") as caught:
            conform(batches, schema, "places", before)
        assert caught.value.rows == (row,)


# ---------------------------------------------------------------- within nested types

PLACES = schema_of("at STRUCT<x: INT>, by MAP<STRING, ARRAY<STRUCT<x: INT>>>")


def widened(name: str, ddl: str) -> ColumnChange:
    return ColumnChange(action=SET_TYPE, name=name, type=schema_of(f"a {ddl}").fields[0].type)


WIDER_PLACES = next_of(
    next_of(PLACES, widened("at", "STRUCT<x: BIGINT, y: STRUCT<z: INT>>")),
    widened("at", "STRUCT<x: BIGINT, y: STRUCT<z: INT, w: INT>>"),
    widened("by", "MAP<STRING, ARRAY<STRUCT<x: INT, y: STRING>>>"),
)


def test_structs_without_fields_that_were_added_have_nulls_in_their_place() -> None:
    """A writer may know a field, and not one that was added within it later. The order is free."""
    rows = [
        {"at": {"y": {"z": 1}, "x": 2}, "by": [("a", [{"x": 3}, None])]},
        {"at": {"y": None, "x": 4}, "by": None},
    ]
    kinds = {
        "at": pa.struct([("y", pa.struct([("z", pa.int32())])), ("x", pa.int16())]),
        "by": pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int32())]))),
    }
    older = pa.RecordBatch.from_pylist(rows, pa.schema(list(kinds.items())))
    made = conform(older, WIDER_PLACES, "t")
    assert made.schema == arrow_schema(WIDER_PLACES)
    assert made.to_pylist() == [
        {"at": {"x": 2, "y": {"z": 1, "w": None}}, "by": [("a", [{"x": 3, "y": None}, None])]},
        {"at": {"x": 4, "y": None}, "by": None},
    ]
    assert conform(older.slice(1), WIDER_PLACES, "t") == made.slice(1)


def test_a_reader_goes_on_with_its_structs_while_later_records_fit_them() -> None:
    wrote = encoded(
        WIDER_PLACES,
        {
            "at": [{"x": 1, "y": {"z": 2, "w": 3}}, None],
            "by": [None, [("a", [{"x": 1, "y": "b"}])]],
        },
    )
    read = decode_batch(wrote.header, wrote.body, PLACES, ["at", "by"], latest=WIDER_PLACES)
    assert read.to_pydict() == {"at": [{"x": 1}, None], "by": [None, [("a", [{"x": 1}])]]}
    wrote = encoded(WIDER_PLACES, {"at": [{"x": 2**31}], "by": [None]})
    with pytest.raises(NotInSchema, match="at"):
        decode_batch(wrote.header, wrote.body, PLACES, ["at"], latest=WIDER_PLACES)


def test_a_part_that_is_never_null_may_be_so_below_a_null_in_older_records() -> None:
    schema = schema_of("at STRUCT<x: STRUCT<z: INT NOT NULL> NOT NULL>")
    later = next_of(schema, widened("at", "STRUCT<x: STRUCT<z: BIGINT NOT NULL> NOT NULL, y: INT>"))
    kind = arrow_schema(schema).field("at").type
    inner = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32())], fields=list(kind.field("x").type)
    )
    at = pa.StructArray.from_arrays([inner], fields=list(kind), mask=pa.array([False, True]))
    batch = pa.RecordBatch.from_arrays([at], schema=arrow_schema(schema))
    wrote = encode_batch(batch, schema, "none")
    read = decode_batch(wrote.header, wrote.body, later, ["at"])
    assert read.to_pylist() == [{"at": {"x": {"z": 1}, "y": None}}, {"at": None}]


def test_a_difference_names_the_part() -> None:
    kinds = {
        "at": pa.struct([("y", pa.struct([("z", pa.string())])), ("Q", pa.int16())]),
        "by": pa.map_(pa.int8(), pa.list_(pa.struct([("x", pa.int64())]))),
    }
    assert difference(WIDER_PLACES, pa.schema(list(kinds.items()))) == "\n".join(
        [
            "  missing: at.x BIGINT",
            "  differs: at.y.z INT; given STRING",
            "  extra:   at.Q SMALLINT",
            "  differs: by.key STRING; given TINYINT",
            "  differs: by.value.element.x INT; given BIGINT",
        ]
    )
