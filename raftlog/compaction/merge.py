"""Several small batches of the log as one row group, of the same records in the same order.

Every column is checked against its client's CRC before it is decoded, and what was encoded is read
back and compared with each batch before it is handed on. What cannot be decoded, or would take too
much for what it is in the log, is copied as it is: a record is never dropped, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from raftlog.checksum import crc32c
from raftlog.compaction.digest import digest_chunks, digest_records
from raftlog.errors import DataLoss, Internal
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.records.physical import to_logical, to_physical
from raftlog.wire.arrow_message import claims_of
from raftlog.wire.batch import BatchHeader
from raftlog.wire.framing import Unreadable

COMPRESSION = "zstd"
"""Of merged row groups (docs/DECISIONS.md)."""

DECODED_BYTES_MAX = 64 * 1024 * 1024
"""What the batches of one row group may claim decompressed; then merging stops: for the memory of
this process and of a reader. Usual batches of `ROW_GROUP_BYTES_MAX` stay far below. It moves the
borders of row groups, so it is the same on every replica."""


JOB_DECODED_BYTES_MIN = 256 * 1024 * 1024
"""What a job may decode, however few bytes its batches have in the log. The same on every replica,
for the same reason."""

JOB_DECODED_RATIO_MAX = 32
"""So many bytes a job may decode beyond that for each byte in the log. Batches of several columns
have 2 to 15. Those of one value or of rising numbers alone may have hundreds: so no leader rejects
them, and the first `JOB_DECODED_BYTES_MIN` are for them."""


class DecodingBudget:
    """What one job may still decode. Without it a few megabytes of the log could keep a processor
    busy, and the other topics waiting, for minutes."""

    def __init__(self) -> None:
        self._left_bytes = JOB_DECODED_BYTES_MIN

    def earn(self, record_bytes: int) -> None:
        """The job has come to batches with so many body bytes in the log."""
        self._left_bytes += JOB_DECODED_RATIO_MAX * record_bytes

    def take(self, decoded_bytes: int) -> bool:
        """Whether a batch that claims so many bytes may be decoded; it is then taken as decoded."""
        if decoded_bytes > self._left_bytes:
            return False
        self._left_bytes -= decoded_bytes
        return True


class Batch(NamedTuple):
    """A batch of the log."""

    header: BatchHeader
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedBatch:
    """One batch with the records of several."""

    count: int
    """How many batches it is made of; 1: it is that batch as it was."""
    header: BatchHeader
    body: bytes
    digest: bytes
    """See `compaction.digest`."""


class _Decoded(NamedTuple):
    batch: Batch
    kept: int
    """Of its records, without those that are trimmed."""
    columns: list[pa.Array[Any]]
    """As their physical types, in the order of the schema."""


def merge(
    batches: Iterable[Batch],
    schema: Schema,
    budget: DecodingBudget | None = None,
    *,
    trimmed: int = 0,
) -> Iterator[MergedBatch]:
    """The batches merged into one, or into a few where they are large in memory or where one
    cannot be decoded, or would exceed the `budget`. Together they are made of all `batches`, in
    order. The first `trimmed` records are left out unless the first batch cannot be decoded: it has
    more than these.

    Raises `DataLoss` if a column is not what its client wrote, and `Internal` if what was encoded
    does not read back as it should.
    """
    budget = budget or DecodingBudget()
    waiting: list[_Decoded] = []
    waiting_bytes = 0
    for batch in batches:
        _check_columns(batch)
        claimed_bytes = _claimed_bytes(batch, schema)
        if claimed_bytes is not None and not budget.take(claimed_bytes):
            claimed_bytes = None
        if claimed_bytes is not None and waiting_bytes + claimed_bytes > DECODED_BYTES_MAX:
            yield from _flush(waiting, schema)
            waiting, waiting_bytes = [], 0
        decoded = None if claimed_bytes is None else _decode(batch, schema, trimmed)
        trimmed = 0
        if claimed_bytes is None or decoded is None:
            yield from _flush(waiting, schema)
            waiting, waiting_bytes = [], 0
            yield _copied(batch, digest_chunks(batch.header, batch.body))
        else:
            waiting.append(decoded)
            waiting_bytes += claimed_bytes
    yield from _flush(waiting, schema)


def copy(batch: Batch) -> MergedBatch:
    """A batch of an unknown schema as it is. Raises `DataLoss` as `merge` does."""
    _check_columns(batch)
    return _copied(batch, digest_chunks(batch.header, batch.body))


def _copied(batch: Batch, digest: bytes) -> MergedBatch:
    return MergedBatch(count=1, header=batch.header, body=batch.body, digest=digest)


def _check_columns(batch: Batch) -> None:
    view = memoryview(batch.body)
    for column in batch.header.columns:
        chunk = view[column.position : column.position + column.length]
        if crc32c(pa.py_buffer(chunk)) != column.crc:
            raise DataLoss(
                what=f"Column {column.field_id} of a batch of {batch.header.record_count} records "
                "is not what its client wrote."
            )


def _claimed_bytes(batch: Batch, schema: Schema) -> int | None:
    """Bytes that the batch's columns claim decompressed; None if they are not those of this schema,
    or cannot be decoded. The batch's bytes alone decide."""
    if [column.field_id for column in batch.header.columns] != [f.id for f in schema.fields]:
        return None
    view = memoryview(batch.body)
    try:
        return sum(
            claims_of(view[each.position :][: each.length], field.type).decoded_bytes
            for each, field in zip(batch.header.columns, schema.fields, strict=True)
        )
    except Unreadable:
        return None


def _decode(batch: Batch, schema: Schema, trimmed: int = 0) -> _Decoded | None:
    """The columns of a batch that has those of this schema, without its first `trimmed` records;
    None if it cannot be decoded."""
    names = [field.name for field in schema.fields]
    try:
        decoded = decode_batch(batch.header, batch.body, schema, names)
        columns = [to_physical(column)[trimmed:] for column in decoded.columns]
    except pa.ArrowMemoryError:
        raise  # another replica may have the memory, and would come to another digest
    except (DataLoss, pa.ArrowException):
        return None
    return _Decoded(batch, batch.header.record_count - trimmed, columns)


def _flush(waiting: Sequence[_Decoded], schema: Schema) -> Iterator[MergedBatch]:
    if not waiting:
        return
    if len(waiting) == 1 and waiting[0].kept == waiting[0].batch.header.record_count:
        (only,) = waiting
        yield _copied(only.batch, digest_records(schema.fields, only.columns))
        return
    of_columns = zip(*(decoded.columns for decoded in waiting), strict=True)
    joined = [pa.concat_arrays(list(parts)) for parts in of_columns]
    logical = arrow_schema(schema)
    encoded = encode_batch(
        pa.RecordBatch.from_arrays(
            [to_logical(column, field.type) for column, field in zip(joined, logical, strict=True)],
            schema=logical,
        ),
        schema,
        COMPRESSION,
    )
    merged = Batch(encoded.header, encoded.body)
    yield MergedBatch(
        count=len(waiting),
        header=merged.header,
        body=merged.body,
        digest=digest_records(schema.fields, _read_back(merged, waiting, schema)),
    )


def _read_back(merged: Batch, sources: Sequence[_Decoded], schema: Schema) -> list[pa.Array[Any]]:
    """The columns of the merged batch, which are equal to those of its sources. Else raises
    `Internal`."""
    found = _decode(merged, schema)
    counts = [source.kept for source in sources]
    if found is None or found.kept != sum(counts):
        raise Internal(what="a merged batch does not decode to its records")
    for start, count, source in zip(accumulate(counts, initial=0), counts, sources, strict=False):
        for column, expected in zip(found.columns, source.columns, strict=True):
            if not column.slice(start, count).equals(expected):
                raise Internal(what=f"records {start} to {start + count} of a merge differ")
    return found.columns
