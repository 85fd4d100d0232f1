"""Small row groups whose bytes tell which records they are; no Arrow in them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from raftlog.checksum import crc32c
from raftlog.core.types import Offset
from raftlog.image.history_file import HistoryFile, RowGroup, StoredRowGroup
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.runs import Runs

COUNTS = (3, 1, 4)
START = 100


def row_group(start: int, count: int) -> RowGroup:
    """Records [start, start + count) in two columns; their first record is a run of its own."""
    chunks = [b"column %d of %d, " % (field, start) * count for field in (1, 3)]
    columns = []
    position = 0
    for field, chunk in zip((1, 3), chunks, strict=True):
        columns.append(
            ColumnChunk(
                field_id=field,
                position=position,
                length=len(chunk),
                crc=crc32c(chunk),
                null_count=count - 1,
                minimum=start,
                maximum=f"{start + count}",
            )
        )
        position += len(chunk)
    counts = [1] if count == 1 else [1, count - 1]
    return RowGroup(
        start=Offset(start),
        header=BatchHeader(record_count=count, schema_version=2, columns=tuple(columns)),
        body=b"".join(chunks),
        record_bytes=1000 * count + start,
        runs=Runs(
            counts=array("q", counts),
            timestamps_us=array("q", [start, start + 5][: len(counts)]),
            terms=array("q", [7, 9][: len(counts)]),
            epochs=array("q", [-1, 12][: len(counts)]),
            writers=array("q", [1, 0][: len(counts)]),
            names=("query", ""),
        ),
        digest=b"digest %09d" % start,
    )


def row_groups(counts: Sequence[int] = COUNTS, start: int = START) -> Iterator[RowGroup]:
    """Consecutive row groups with these record counts."""
    for count in counts:
        yield row_group(start, count)
        start += count


def read_back(file: HistoryFile, stored: StoredRowGroup) -> RowGroup:
    """The row group as a client gets it: its columns one by one."""
    slices = [(column.position, column.length) for column in stored.header.columns]
    return RowGroup(
        start=stored.start,
        header=stored.header,
        body=b"".join(file.body_slices(stored, slices)),
        record_bytes=stored.record_bytes,
        runs=stored.runs,
        digest=stored.digest,
    )
