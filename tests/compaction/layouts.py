"""The same values in other memory: other slices, and other bytes where a value is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from raftlog.compaction.digest import digest_records
from raftlog.machines.schema import Schema
from raftlog.records.physical import to_physical


def digest_of(schema: Schema, batch: pa.RecordBatch) -> bytes:
    """The digest of a batch of the schema's Arrow types."""
    return digest_records(schema.fields, [to_physical(column) for column in batch.columns])


def with_nulls(column: pa.Array[Any], nulls: list[bool]) -> pa.Array[Any]:
    """The column with nulls at these places, where the values stay in memory."""
    kind = column.type
    valid = pa.array([not each for each in nulls], pa.bool_()).buffers()[1]
    mask = pa.array(nulls, pa.bool_())
    if pa.types.is_struct(kind):
        members = [column.field(number) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        entries = column.view(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        return with_nulls(entries, nulls).view(kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, column.values, type=kind, mask=mask)
    assert column.offset == 0
    return pa.Array.from_buffers(kind, len(column), [valid, *column.buffers()[1:]])


def in_a_slice(column: pa.Array[Any], before: int) -> pa.Array[Any]:
    """The column as a slice of a longer one, which begins and ends with its own first value."""
    edge = column.slice(0, 1)
    return pa.concat_arrays([*[edge] * before, column, edge]).slice(before, len(column))


NESTED_VARIANTS = (
    "VARIANT",
    "ARRAY<VARIANT>",
    "MAP<STRING, VARIANT>",
    "STRUCT<a: VARIANT>",
    "ARRAY<MAP<STRING, STRUCT<a: VARIANT>>>",
)


def with_null_fields(kind: pa.DataType) -> pa.Array[Any]:
    """Two values of one of `NESTED_VARIANTS`. The second is or holds a null variant, whose fields
    are null, too, as Spark writes it, although they must not be."""
    if pa.types.is_binary(kind):
        return pa.array([b"1", None], kind)
    if pa.types.is_string(kind):
        return pa.array(["a", "b"], kind)
    own: list[pa.Buffer | None] = [None]
    if pa.types.is_struct(kind):
        fields = [with_null_fields(field.type) for field in kind]
        if not any(field.nullable for field in kind):
            own = pa.array([True, None]).buffers()[:1]
        return pa.Array.from_buffers(kind, 2, own, children=fields)
    is_map = pa.types.is_map(kind)
    of_members = pa.struct([kind.key_field, kind.item_field]) if is_map else kind.value_type
    if is_map:
        members = pa.Array.from_buffers(
            of_members, 2, own, children=[with_null_fields(field.type) for field in of_members]
        )
    else:
        members = with_null_fields(of_members)
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(kind, 2, [None, offsets], children=[members])
