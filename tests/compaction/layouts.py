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
