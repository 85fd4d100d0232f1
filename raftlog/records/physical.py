"""Columns as what they are in memory: text as bytes, floats as integers, maps as lists of structs.

A topic's types differ in what their bits mean. Joining, comparing and digesting records must keep
the bits and never look at their meaning: a NaN is equal to itself, and text that is not UTF-8 (a
client may write it) is no error. A physical array is a view of the same memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from raftlog.records.arrow_types import is_list

_DECIMAL_BYTES = 16

_PLAIN: dict[pa.DataType, pa.DataType] = {
    pa.bool_(): pa.bool_(),
    pa.int8(): pa.int8(),
    pa.int16(): pa.int16(),
    pa.int32(): pa.int32(),
    pa.int64(): pa.int64(),
    pa.binary(): pa.binary(),
    pa.float32(): pa.int32(),
    pa.float64(): pa.int64(),
    pa.date32(): pa.int32(),
    pa.timestamp("us", tz="UTC"): pa.int64(),
    pa.timestamp("us"): pa.int64(),
    pa.string(): pa.binary(),
    pa.time64("ns"): pa.int64(),
    pa.duration("us"): pa.int64(),
}


@lru_cache(maxsize=1024)
def physical_type(kind: pa.DataType) -> pa.DataType:
    """The physical type of one of a topic's Arrow types (`raftlog.records.arrow_types`).

    One of: boolean, integers of 8 to 64 bits, 16 bytes, binary, and lists and structs of these.
    """
    found = _PLAIN.get(kind)
    if found is not None:
        return found
    if pa.types.is_decimal128(kind):
        return pa.binary(_DECIMAL_BYTES)
    if is_list(kind):
        return pa.list_(_physical_field(kind.value_field))
    if pa.types.is_map(kind):
        entry = pa.struct([_physical_field(kind.key_field), _physical_field(kind.item_field)])
        return pa.list_(pa.field("entries", entry))
    assert pa.types.is_struct(kind), f"no topic holds {kind}"
    return pa.struct([_physical_field(field) for field in kind])


def _physical_field(field: pa.Field[Any]) -> pa.Field[Any]:
    """Also one that must not be null is, below a null struct, in what Spark writes."""
    return pa.field(field.name, physical_type(field.type))


def to_physical(column: pa.Array[Any]) -> pa.Array[Any]:
    """The column as its physical type, of the same memory."""
    kind = physical_type(column.type)
    return column if column.type == kind else column.view(kind)


def to_logical(column: Any, kind: pa.DataType) -> pa.Array[Any]:
    """A physical column, which is no slice, as a topic's Arrow type again, of the same memory."""
    own: list[pa.Buffer | None]
    if pa.types.is_struct(kind):
        fields = [to_logical(column.field(at), field.type) for at, field in enumerate(kind)]
        own = column.buffers()[:1]
    elif is_list(kind):
        fields, own = [to_logical(column.values, kind.value_type)], column.buffers()[:2]
    elif pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        fields, own = [to_logical(column.values, entries)], column.buffers()[:2]
    else:
        viewed: pa.Array[Any] = column.view(kind)
        return viewed
    assert column.offset == 0, "a slice has its children's bits elsewhere"
    # `view` refuses nulls in fields that must not be null.
    return pa.Array.from_buffers(kind, len(column), own, children=fields)


def check_layout(column: pa.Array[Any]) -> None:
    """Check every offset of a column that a client wrote, at all levels.

    Raises pa.ArrowInvalid where one lies outside of the column: Arrow itself would read beyond the
    column's memory. Text need not be UTF-8.
    """
    column.validate()  # else a view of it is not safe
    to_physical(column).validate(full=True)
