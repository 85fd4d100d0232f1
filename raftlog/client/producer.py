"""A plain producer: appends that are in the log once each, whatever is resent on the way."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from raftlog.client import arrow
from raftlog.client.buffer import BatchBuffer
from raftlog.client.connection import Connection
from raftlog.client.window import Window
from raftlog.core.types import Offset
from raftlog.errors import InvalidOption, ProducerClosed
from raftlog.machines.commands import TopicInfo
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.calls import AppendCall, AppendedReply

Rows = pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]
"""What may be appended: Arrow data, or rows as mappings from column name to value."""


class Producer:
    """Appends to one topic in order. Thread-safe; close it, or use it as a context manager.

    Idempotent: each entry carries this producer's random id and a sequence, so an append resent
    over a failover lies in the log once. Records are durable on a majority, visible and have their
    offsets when `flush` returned; before that `append` only gathers and sends.
    """

    def __init__(
        self,
        connection: Connection,
        topic: TopicInfo,
        *,
        compression: str,
        batch_bytes: int,
        max_in_flight: int,
    ) -> None:
        self._topic = topic
        self._producer = uuid.uuid4().hex
        self._sequence = 0
        self._buffer = BatchBuffer(topic, compression=compression, batch_bytes=batch_bytes)
        self._window = Window(connection, topic.group, "Append", max_in_flight)
        self._last = AppendedReply(start=Offset(0), end=Offset(0), repeated=False)
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._window.cancel()

    @property
    def topic(self) -> TopicInfo:
        return self._topic

    def append(self, data: Rows) -> None:
        """Take rows: a `pa.Table`, a `pa.RecordBatch`, or a list of mappings from column name to
        value. Sends what fills a batch; the rest waits for `flush` or `close`. Raises
        `SchemaMismatch` or `ProducerClosed` before anything is taken, or the error of an earlier
        append that failed for good."""
        with self._lock:
            if self._closed:
                raise ProducerClosed(topic=self._topic.name)
            for batch in record_batches(data, self._topic):
                self._send(self._buffer.add(batch))

    def flush(self) -> Offset:
        """Send all that was taken and wait; the end offset of the last append so far."""
        with self._lock:
            self._flush()
            return self._last.end

    def append_and_flush(self, data: Rows) -> AppendedReply:
        """Append rows and wait; [start, end) spans from the first of them to the last.

        Other producers' records may lie in between when the rows need several entries.
        """
        with self._lock:
            self._flush()
            replies = []
            for batch in record_batches(data, self._topic):
                replies += self._send(self._buffer.add(batch))
            replies += self._flush()
            if not replies:
                return AppendedReply(start=self._last.end, end=self._last.end, repeated=False)
            return AppendedReply(
                start=replies[0].start,
                end=replies[-1].end,
                repeated=any(reply.repeated for reply in replies),
            )

    def close(self) -> None:
        """Flush, and take no more rows. A producer that is neither closed nor flushed drops what
        it had gathered."""
        self.flush()
        self._closed = True

    def _flush(self) -> list[AppendedReply]:
        *most, last = [*self._buffer.flush()] or [None]
        replies = self._send(iter(most))
        if last is None:
            return replies + self._keep(self._window.drain())
        return replies + self._keep(self._window.push_last(self._call(last), last.body))

    def _send(self, encoded: Iterator[EncodedBatch]) -> list[AppendedReply]:
        replies = []
        for batch in encoded:
            replies += self._keep(self._window.push(self._call(batch), batch.body))
        return replies

    def _call(self, batch: EncodedBatch) -> AppendCall:
        """The batch's call, with the next sequence."""
        call = AppendCall(
            group=self._topic.group,
            incarnation=self._topic.incarnation,
            producer=self._producer,
            sequence=self._sequence,
            batch=batch.header,
            crc=batch.crc,
        )
        self._sequence += 1
        return call

    def _keep(self, replies: list[AppendedReply]) -> list[AppendedReply]:
        if replies:
            self._last = replies[-1]
        return replies


def record_batches(data: Rows, topic: TopicInfo) -> Iterator[pa.RecordBatch]:
    """The rows as record batches; mappings are read with the topic's schema."""
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    else:
        if isinstance(data, Mapping) or not all(isinstance(row, Mapping) for row in data):
            raise InvalidOption(
                option="data",
                problem="is neither Arrow data nor a list of mappings",
                advice="Give a pa.Table, a pa.RecordBatch, or rows such as [{'id': 1}].",
            )
        yield arrow.batch_from_rows(list(data), topic.schema, topic.name)
