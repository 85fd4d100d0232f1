"""A digest of records tells values, nulls and order, and nothing of how Arrow lays them out."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.compaction.digest import DIGEST_BYTES, digest_chunks
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, arrow_type, schema_of
from raftlog.records.batch_codec import COMPRESSIONS, decode_batch, encode_batch
from raftlog.records.physical import to_physical
from tests.compaction.layouts import digest_of, in_a_slice, with_nulls
from tests.image.row_groups import row_group
from tests.records.strategies import TYPES, batches, values_of


def one_column(kind: Any, values: list[Any]) -> tuple[Schema, pa.RecordBatch]:
    """A column of a topic's type, given as Spark's JSON."""
    text = json.dumps(kind, sort_keys=True, separators=(",", ":"))
    column = pa.array(values, arrow_type(text))
    schema = schema_of(pa.schema([pa.field("a", column.type)]))
    return schema, pa.RecordBatch.from_arrays([column], schema=arrow_schema(schema))


def replaced(batch: pa.RecordBatch, column: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], schema=batch.schema)


# ---------------------------------------------------------------- what makes no difference


@pytest.mark.slow
@settings(max_examples=25)
@given(batches(), st.sampled_from(COMPRESSIONS), st.integers(0, 9))
def test_compression_and_slices_make_no_difference(
    given_batch: tuple[Schema, pa.RecordBatch], compression: str, before: int
) -> None:
    schema, batch = given_batch
    digest = digest_of(schema, batch)
    assert len(digest) == DIGEST_BYTES
    encoded = encode_batch(batch, schema, compression)
    decoded = decode_batch(encoded.header, encoded.body, schema, batch.schema.names)
    assert digest_of(schema, decoded) == digest
    columns = [in_a_slice(column, before) for column in batch.columns]
    sliced = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    assert sliced.equals(batch)
    assert digest_of(schema, sliced) == digest


@pytest.mark.slow
@settings(max_examples=50)
@given(TYPES, st.data())
def test_what_lies_in_memory_under_a_null_makes_no_difference(
    kind: Any, data: st.DataObject
) -> None:
    nulls = data.draw(st.lists(st.booleans(), min_size=1, max_size=12))
    hidden, other = (
        [data.draw(values_of(kind, False)) for _ in nulls] for _ in ("one", "the other")
    )
    other = [b if null else a for a, b, null in zip(hidden, other, nulls, strict=True)]
    shown = [None if null else a for a, null in zip(hidden, nulls, strict=True)]
    schema, batch = one_column(kind, shown)
    digest = digest_of(schema, batch)
    for values in (hidden, other):
        column = with_nulls(pa.array(values, batch.column(0).type), nulls)
        assert column.to_pylist() == batch.column(0).to_pylist()
        assert digest_of(schema, replaced(batch, column)) == digest
        for before in (1, 8):
            sliced = replaced(batch, in_a_slice(column, before))
            assert digest_of(schema, sliced) == digest


@pytest.mark.parametrize("values", [[True, False, False] * 7, [True, None, False] * 7])
def test_bits_are_counted_from_the_first_value_of_a_slice(values: list[bool | None]) -> None:
    schema, batch = one_column("boolean", values)
    found = {
        digest_of(schema, replaced(batch, in_a_slice(batch.column(0), before)))
        for before in range(17)
    }
    assert found == {digest_of(schema, batch)}


# ---------------------------------------------------------------- what makes one


@pytest.mark.slow
@settings(max_examples=50)
@given(TYPES, st.data())
def test_any_other_value_null_or_order_gives_another_digest(kind: Any, data: st.DataObject) -> None:
    one = data.draw(st.lists(values_of(kind, True), min_size=1, max_size=5))
    row = data.draw(st.integers(0, len(one) - 1))
    changed = [*one[:row], data.draw(values_of(kind, True)), *one[row + 1 :]]
    others = [changed, one[::-1], one[:-1], [*one, one[-1]]]
    schema, batch = one_column(kind, one)
    digest = digest_of(schema, batch)
    for values in others:
        _, other = one_column(kind, values)
        assert (digest_of(schema, other) == digest) == bits_are_equal(batch, other)


def bits_are_equal(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Equal to Arrow, and -0.0 is not 0.0 (in what is generated no value is a NaN)."""
    return one.equals(other) and repr(one.to_pylist()) == repr(other.to_pylist())


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("string", ["ab", "c"], ["a", "bc"]),
        ("string", ["", None], [None, ""]),
        ("binary", [b"\0"], [b"\0\0"]),
        ("double", [0.0], [-0.0]),
        ("float", [float("nan")], [1.0]),
        ("boolean", [False, None], [None, False]),
        ("integer", [0], [None]),
        ({"type": "array", "elementType": "long", "containsNull": True}, [[1], [2]], [[1, 2], []]),
        ({"type": "array", "elementType": "long", "containsNull": True}, [[]], [None]),
        ({"type": "array", "elementType": "long", "containsNull": True}, [[0]], [[None]]),
    ],
)
def test_values_that_are_easily_confused_differ(kind: Any, one: list, other: list) -> None:
    schema, batch = one_column(kind, one)
    assert digest_of(schema, batch) != digest_of(schema, one_column(kind, other)[1])


def test_a_nan_is_equal_to_itself_and_its_bits_count() -> None:
    def of_bits(bits: int) -> bytes:
        column = pa.array([bits], pa.int64()).view(pa.float64())
        schema, batch = one_column("double", [0.0])
        return digest_of(schema, replaced(batch, column))

    assert of_bits(0x7FF8 << 48) == of_bits(0x7FF8 << 48) != of_bits(0x7FF9 << 48)


@pytest.mark.slow
@settings(max_examples=20)
@given(batches())
def test_a_column_of_another_id_or_type_gives_another_digest(given_batch) -> None:
    schema, batch = given_batch
    digest = digest_of(schema, batch)
    first, *rest = schema.fields
    for change in ({"id": 99}, {"type": first.type + " "}):
        values = {name: getattr(first, name) for name in type(first).__slots__}
        fields = (type(first)(**values | change), *rest)
        assert digest_of(Schema(version=1, fields=fields), batch) != digest


def test_chunks_that_are_not_decoded_have_a_digest_of_their_bytes() -> None:
    one, other = row_group(100, 4), row_group(100, 3)
    digest = digest_chunks(one.header, one.body)
    assert len(digest) == DIGEST_BYTES
    assert digest != digest_chunks(other.header, one.body)
    assert digest != digest_chunks(one.header, other.body)
    assert digest == digest_chunks(one.header, one.body)


# ---------------------------------------------------------------- written down


def encoded(kind: pa.DataType, values: list[Any]) -> bytes:
    """An array as docs/FORMAT.md says, from the Python values of its physical type."""
    nulls = [value is None for value in values]
    data = b"\0" if not any(nulls) else b"\1" + bits([not null for null in nulls])
    if pa.types.is_struct(kind):
        for field in kind:
            data += encoded(field.type, [value and value[field.name] for value in values])
        return data
    if pa.types.is_boolean(kind):
        return data + bits([bool(value) for value in values])
    if pa.types.is_list(kind):
        members = [member for value in values if value for member in value]
        data += b"".join(number(len(value or ()), 4) for value in values)
        return data + number(len(members), 8) + encoded(kind.value_type, members)
    if pa.types.is_binary(kind):
        data += b"".join(number(len(value or b""), 4) for value in values)
        return data + b"".join(value or b"" for value in values)
    width = kind.byte_width
    if pa.types.is_fixed_size_binary(kind):
        return data + b"".join(value or bytes(width) for value in values)
    return data + b"".join(number(value or 0, width) for value in values)


def bits(values: list[bool]) -> bytes:
    whole = sum(value << place for place, value in enumerate(values))
    return whole.to_bytes((len(values) + 7) // 8, "little")


def number(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little", signed=True)


@pytest.mark.slow
@settings(max_examples=40)
@given(batches())
def test_a_digest_covers_the_bytes_that_the_format_names(given_batch) -> None:
    schema, batch = given_batch
    data = b"raftlog records 1" + number(len(schema.fields), 8)
    for field, column in zip(schema.fields, batch.columns, strict=True):
        text = field.type.encode()
        physical = to_physical(column)
        data += number(field.id, 8) + number(len(text), 8) + text + number(len(column), 8)
        data += encoded(physical.type, physical.to_pylist())
    expected = hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
    assert digest_of(schema, batch) == expected


DDL = (
    "a BOOLEAN, b INT, c DOUBLE, d TIMESTAMP, e STRING, f DECIMAL(9, 2), g ARRAY<STRING>, "
    "h MAP<STRING, DOUBLE>, i STRUCT<x: INT, y: DATE>"
)


def test_digests_stay_what_they_were() -> None:
    """Replicas compare them, and files hold them: another digest is another format."""
    schema = schema_of(DDL)
    first = {
        "a": True, "b": -1, "c": 1.5, "d": 4, "e": "text", "f": 5, "g": ["x", None],
        "h": [("k", 2.5), ("l", None)], "i": {"x": 1, "y": None},
    }  # fmt: skip
    rows = [first, dict.fromkeys(first), {**first, "a": False, "e": "", "g": [], "i": None}]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    group = row_group(100, 4)
    assert digest_of(schema, batch).hex() == "b8f9136ed6ed6d6eaec72aaef2285650"
    assert digest_chunks(group.header, group.body).hex() == "1cd23f742713911d8590b50b4c273c6e"
