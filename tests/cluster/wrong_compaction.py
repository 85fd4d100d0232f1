"""A compaction process that writes other records into the first history file after it was asked to,
as a defect or a flipped bit would make it. Its argument: the data folder. It was asked to if a file
`wrong_history_of` is there, which it removes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.compaction import compact as compacting
from raftlog.compaction.row_groups import SourceBatch
from raftlog.compaction.worker import work
from raftlog.core.types import Offset
from raftlog.image.history_file import RowGroup
from raftlog.machines.schema import Schema
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.storage.posix import PosixFileSystem


def wrong_history_of(data: Path) -> Path:
    """Beside the node's data folder."""
    return data.with_name(f"{data.name}.wrong-history")


def main(data: Path, share: float) -> None:
    """Compact for the node whose folder is `data`."""
    sound = compacting.row_groups

    def row_groups(
        batches: Iterable[SourceBatch], latest: Schema, log_start: Offset
    ) -> Iterator[RowGroup]:
        if wrong_history_of(data).exists():
            wrong_history_of(data).unlink()
            batches = [_wrong(batch, latest) for batch in batches]
        return sound(batches, latest, log_start)

    compacting.row_groups = row_groups  # type: ignore[attr-defined]
    work(data, PosixFileSystem(data), share)


def _wrong(batch: SourceBatch, schema: Schema) -> SourceBatch:
    """The same batch, with each number one too high."""
    names = [field.name for field in schema.fields]
    rows = decode_batch(batch.header, batch.body, schema, names)
    number, *others = rows.columns
    columns = [pc.add(number, pa.scalar(1, number.type)), *others]
    found = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    other = encode_batch(found, schema, "none")
    return replace(batch, header=other.header, body=bytes(other.body))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
