"""Rows on their way out: conformed to the topic's schema, batched of a wanted size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from raftlog.client import arrow
from raftlog.machines.commands import TopicInfo
from raftlog.wire.batch import EncodedBatch


class BatchBuffer:
    """Collects record batches and gives encoded ones of about `batch_bytes` each."""

    def __init__(self, topic: TopicInfo, *, compression: str, batch_bytes: int) -> None:
        self._topic = topic
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as `add` takes it. Raises `SchemaMismatch`."""
        return arrow.conform(batch, self._topic.schema, topic=self._topic.name)

    def add(self, conformed: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Take a batch's rows; yields what is full."""
        if conformed.num_rows == 0:
            return
        self._batches.append(conformed)
        self._bytes += conformed.nbytes
        if self._bytes >= self._batch_bytes:
            yield from self.flush()

    def flush(self) -> Iterator[EncodedBatch]:
        """Everything that is left."""
        batches, self._batches, self._bytes = self._batches, [], 0
        for batch in arrow.coalesce(batches, self._batch_bytes):
            yield arrow.encode_batch(batch, self._topic.schema, self._compression)
