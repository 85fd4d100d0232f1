"""Batches of the size that is sent: small ones joined, large ones split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from raftlog.machines.schema import Schema
from raftlog.records.batch_codec import encode_batch
from raftlog.wire.arrow_message import BATCH_ROWS_MAX
from raftlog.wire.batch import EncodedBatch


class BatchBuffer:
    """Collects conformed batches and encodes them in batches of about `batch_bytes` each."""

    def __init__(self, schema: Schema, *, compression: str, batch_bytes: int) -> None:
        self._schema = schema
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, conformed: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Keep a batch's rows; once `batch_bytes` are kept, yields all of them encoded."""
        if conformed.num_rows == 0:
            return
        self._batches.append(conformed)
        self._bytes += conformed.nbytes
        if self._bytes >= self._batch_bytes:
            yield from self.flush()

    @property
    def kept_bytes(self) -> int:
        """Bytes of the rows that are kept, as they are in memory."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether it keeps no row."""
        return not self._batches

    def flush(self) -> Iterator[EncodedBatch]:
        """Yields all rows that are kept, encoded; keeps none."""
        batches, self._batches, self._bytes = self._batches, [], 0
        for batch in coalesce(batches, self._batch_bytes):
            yield encode_batch(batch, self._schema, self._compression)


def coalesce(batches: Iterable[pa.RecordBatch], bytes_target: int) -> Iterator[pa.RecordBatch]:
    """The same records in the same order, in batches of about `bytes_target` bytes in memory.

    Joins small batches until they reach the target, and splits large ones (one record may be
    larger than the target). None has more than `BATCH_ROWS_MAX` records. Yields no empty batch, and
    holds back less than one target. All batches have one schema.
    """
    assert bytes_target > 0
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = waiting_rows = 0
    for batch in batches:
        for piece in split(batch, bytes_target):
            size, rows = piece.nbytes, piece.num_rows
            if waiting and (
                waiting_bytes + size > 2 * bytes_target or waiting_rows + rows > BATCH_ROWS_MAX
            ):
                yield _joined(waiting)
                waiting, waiting_bytes, waiting_rows = [], 0, 0
            waiting.append(piece)
            waiting_bytes += size
            waiting_rows += rows
            if waiting_bytes >= bytes_target:
                yield _joined(waiting)
                waiting, waiting_bytes, waiting_rows = [], 0, 0
    if waiting:
        yield _joined(waiting)


def split(batch: pa.RecordBatch, bytes_target: int) -> Iterator[pa.RecordBatch]:
    """Pieces of at most `BATCH_ROWS_MAX` records, and of at most twice the target or of one record;
    none for an empty batch. They share the batch's memory."""
    rows, size = batch.num_rows, batch.nbytes
    if rows == 0:
        return
    if (size <= 2 * bytes_target and rows <= BATCH_ROWS_MAX) or rows == 1:
        yield batch
        return
    step = min(-(-rows * bytes_target // max(size, 1)), BATCH_ROWS_MAX)
    for start in range(0, rows, step):
        # Split again: records differ in size, so a piece may still hold most of the bytes.
        yield from split(batch.slice(start, step), bytes_target)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]  # no stub
    return joined
