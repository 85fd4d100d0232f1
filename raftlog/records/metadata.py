"""Metadata columns: what a read can say of each record, such as its `_offset`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from raftlog.machines.schema import RESERVED_NAMES

METADATA_FIELDS: dict[str, pa.Field[Any]] = {
    "_topic": pa.field("_topic", pa.string()),
    "_offset": pa.field("_offset", pa.int64()),
    "_timestamp": pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
    "_epoch": pa.field("_epoch", pa.int64()),
    "_writer": pa.field("_writer", pa.string()),
    "_term": pa.field("_term", pa.int64()),
}
"""What a reader may ask for in addition to the topic's columns. All nullable, as in Spark."""

assert tuple(METADATA_FIELDS) == RESERVED_NAMES


def with_metadata(
    batch: pa.RecordBatch,
    names: Sequence[str],
    *,
    topic: str,
    start: int,
    timestamp_us: int,
    epoch: int,
    writer: str,
    term: int,
) -> pa.RecordBatch:
    """The batch's columns and metadata columns, in the order of `names`.

    `start` is the offset of the batch's first record. A plain append has no writer (""): `_writer`
    and `_epoch` are then null.
    """
    if not names:
        return batch
    values = {
        "_topic": topic,
        "_timestamp": timestamp_us,
        "_epoch": epoch if writer else None,
        "_writer": writer or None,
        "_term": term,
    }
    columns = []
    fields = []
    for name in names:
        field = METADATA_FIELDS.get(name)
        if field is None:
            columns.append(batch.column(name))
            field = batch.schema.field(name)
        elif name == "_offset":
            end = start + batch.num_rows
            columns.append(pa.arange(start, end))  # type: ignore[attr-defined]  # no stub
        else:
            columns.append(pa.repeat(pa.scalar(values[name], field.type), batch.num_rows))
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
