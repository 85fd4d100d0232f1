"""Metadata columns: what a read can say of each record, such as its `_offset`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.machines.schema import METADATA_MARK, RESERVED_NAMES
from raftlog.wire.runs import Runs


def _marked(name: str, kind: pa.DataType) -> pa.Field[Any]:
    return pa.field(name, kind, metadata={METADATA_MARK: name})


METADATA_FIELDS: dict[str, pa.Field[Any]] = {
    "_topic": _marked("_topic", pa.string()),
    "_offset": _marked("_offset", pa.int64()),
    "_timestamp": _marked("_timestamp", pa.timestamp("us", tz="UTC")),
    "_epoch": _marked("_epoch", pa.int64()),
    "_writer": _marked("_writer", pa.string()),
    "_term": _marked("_term", pa.int64()),
}
"""What a reader may ask for in addition to the topic's columns. All nullable, as in Spark."""

assert tuple(METADATA_FIELDS) == RESERVED_NAMES

_OFFSET_BYTES = 4
"""Of each value of a text column."""


def is_metadata(field: pa.Field[Any]) -> bool:
    """Whether a column is a metadata column that was read, under its own name."""
    mark = (field.metadata or {}).get(METADATA_MARK.encode())
    return mark == field.name.encode() and field.name in METADATA_FIELDS


def with_metadata(
    batch: pa.RecordBatch, names: Sequence[str], *, topic: str, start: int, runs: Runs
) -> pa.RecordBatch:
    """The batch's columns and metadata columns, in the order of `names`.

    `start` is the offset of the batch's first record; `runs` are those of exactly its records. A
    plain append has no writer (""): `_writer` and `_epoch` are then null. The caller bounds the
    rows by `text_bytes_max`.
    """
    if not names:
        return batch
    of_runs = _of_one_run if len(runs) == 1 else _of_several_runs
    columns = []
    fields = []
    for name in names:
        field = METADATA_FIELDS.get(name)
        if field is None:
            columns.append(batch.column(name))
            field = batch.schema.field(name)
        elif name == "_topic":
            columns.append(pa.repeat(pa.scalar(topic, field.type), batch.num_rows))
        elif name == "_offset":
            end = start + batch.num_rows
            columns.append(pa.arange(start, end))  # type: ignore[attr-defined]  # no stub
        else:
            columns.append(of_runs(name, field.type, runs))
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def text_bytes_max(names: Sequence[str], *, topic: str, runs: Runs) -> int:
    """The most bytes that the texts among these metadata columns take for one record. A name is
    written once for a whole batch, and read as a value of each record."""
    texts: list[Sequence[str]] = []
    if "_topic" in names:
        texts.append((topic,))
    if "_writer" in names:
        texts.append(runs.names)
    return sum(_OFFSET_BYTES + max(len(each.encode()) for each in text) for text in texts)


def _of_one_run(name: str, kind: pa.DataType, runs: Runs) -> pa.Array[Any]:
    """What nearly every batch has. Arrow's kernels would take longer than all of this."""
    writer = runs.names[runs.writers[0]]
    value: Any
    match name:
        case "_timestamp":
            value = runs.timestamps_us[0]
        case "_term":
            value = runs.terms[0]
        case "_writer":
            value = writer or None
        case _:
            assert name == "_epoch", name
            value = runs.epochs[0] if writer else None
    value = pa.scalar(value, kind)
    column: pa.Array[Any] = pa.repeat(value, runs.counts[0])
    return column


def _of_several_runs(name: str, kind: pa.DataType, runs: Runs) -> pa.Array[Any]:
    """A value for each run, repeated by Arrow: neither a run nor a record is a Python object."""
    values: pa.Array[Any]
    match name:
        case "_timestamp":
            values = _packed(runs.timestamps_us, kind)
        case "_term":
            values = _packed(runs.terms, kind)
        case "_writer":
            values = _writers(runs)
        case _:
            assert name == "_epoch", name
            has_writer = pc.is_valid(_writers(runs))
            values = pc.if_else(has_writer, _packed(runs.epochs, kind), pa.scalar(None, kind))
    ends: Any = pc.cumulative_sum(_packed(runs.counts, pa.int64()))
    encoded = pa.RunEndEncodedArray.from_arrays(ends, values)
    column: pa.Array[Any] = pc.run_end_decode(encoded)  # type: ignore[attr-defined]  # no stub
    return column


def _writers(runs: Runs) -> pa.Array[Any]:
    """The writer of each run; null for a plain append."""
    names = pa.array([name or None for name in runs.names], pa.string())
    return names.take(_packed(runs.writers, pa.int64()))


def _packed(column: array[int], kind: pa.DataType) -> pa.Array[Any]:
    """The column as Arrow's of a type of 8 bytes, without a copy."""
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])
