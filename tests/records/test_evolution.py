"""Records that were written under each version of a schema, read under each later one."""

from __future__ import annotations

import dataclasses
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
from raftlog.records.conform import batch_from_rows, conform, difference
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
    found = _VALUES.get(column.type)
    if found is None:
        found = _DIGITS if "decimal" in column.type else st.lists(st.none() | st.integers(0, 9))
    return st.none() | found if column.nullable else found


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
            column.name: values.get(identity, [None] * count) for identity, column in now.items()
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


def test_a_column_that_the_topic_was_made_with_must_be_there() -> None:
    with pytest.raises(SchemaMismatch, match="missing: delay BIGINT"):
        conform(pa.RecordBatch.from_pydict({"id": [1]}), LATER, "flights")
