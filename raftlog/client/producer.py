"""A plain producer: appends that are in the log once each, whatever is resent on the way."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from raftlog.client.connection import Connection, Deadline
from raftlog.client.forks import in_each_child
from raftlog.client.window import Window
from raftlog.core.types import Offset
from raftlog.errors import InvalidOption, ProducerClosed, RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.machines.outcomes import Appended
from raftlog.records.batching import BatchBuffer
from raftlog.records.conform import batch_from_rows, conform
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.calls import APPEND, AppendCall

Rows = pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]
"""What may be appended: Arrow data, or rows as mappings from column name to value."""


class Producer:
    """Appends to one topic in order. Thread-safe; close it, or use it as a context manager.

    Idempotent: each entry carries this producer's random id and a sequence, so an append resent
    over a failover lies in the log once. Records are durable on a majority, visible and have their
    offsets when `flush` returned; before that `append` only batches and sends.

    The log forgets a producer that was idle for long (`topic.producer_lease_s`). So one that was
    idle for `client.producer_idle_max_s` goes on under a fresh id, unless an append of it is in
    doubt: as long as one is not acknowledged it keeps its id, and `UnknownProducer` may come.

    A producer of which a call failed is over, because what it had sent may be in the log or not:
    from then on everything raises `ProducerClosed`. So it is in a forked child.
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
        self._sent = 0
        """Calls given to the window, under this id and those before."""
        self._sent_at_s = 0.0
        self._idle_max_s = connection.settings.producer_idle_max_s
        self._buffer = BatchBuffer(topic.schema, compression=compression, batch_bytes=batch_bytes)
        self._window = Window(connection, topic.group, APPEND, max_in_flight)
        self._last = Appended(start=Offset(0), end=Offset(0), repeated=False)
        self._counts: deque[int] = deque()
        """Records of each entry that was sent and is not in `acknowledged`, the oldest first."""
        self._acknowledged = 0
        self._closed = False
        self._problem = ""
        """Why it cannot go on; empty: it can."""
        self._lock = threading.Lock()
        in_each_child(self, Producer._begin_again)

    def _begin_again(self) -> None:
        """What is in flight, and the sequence, are the parent's."""
        self._lock = threading.Lock()
        self._problem = "it is of the process that this one was forked from"

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

    @property
    def acknowledged(self) -> int:
        """So many records, the first of those taken, are durable and visible for certain.

        After a failure those that follow may be as well, wholly or in part.
        """
        return self._acknowledged

    def append(self, data: Rows) -> None:
        """Take rows: a `pa.Table`, a `pa.RecordBatch`, or a list of mappings from column name to
        value. Sends what fills a batch; the rest waits for `flush` or `close`. Raises
        `SchemaMismatch` or `ProducerClosed` before anything is taken, or the
        error of an earlier append that failed for good."""
        batches = self._conformed(data)
        with self._turn(takes_rows=True):
            for batch in batches:
                self._send(self._buffer.add(batch), None)

    def flush(self) -> Offset:
        """Send all that was taken and wait; the end offset of the last append so far.

        Raises `ProducerClosed` where an earlier call failed."""
        with self._turn():
            self._flush(None)
            return self._last.end

    def append_and_flush(self, data: Rows, deadline: Deadline | None = None) -> Appended:
        """Append rows and wait; [start, end) spans from the first of them to the last.

        Other producers' records may lie in between when the rows need several entries. `deadline`
        counts waiting for other threads' calls as well.
        """
        batches = self._conformed(data)
        with self._turn(deadline, takes_rows=True):
            self._flush(deadline)
            replies = []
            for batch in batches:
                replies += self._send(self._buffer.add(batch), deadline)
            replies += self._flush(deadline)
            if not replies:
                return Appended(start=self._last.end, end=self._last.end, repeated=False)
            return Appended(
                start=replies[0].start,
                end=replies[-1].end,
                repeated=any(reply.repeated for reply in replies),
            )

    def close(self) -> None:
        """Flush, and take no more rows. A producer that is neither closed nor flushed drops what
        it had buffered."""
        self.flush()
        self._closed = True

    @contextmanager
    def _turn(
        self, deadline: Deadline | None = None, *, takes_rows: bool = False
    ) -> Iterator[None]:
        """One thread at a time. Whatever ends it early, Ctrl-C too, ends the producer: rows that
        had left the buffer then are nowhere but, perhaps, in the log."""
        if not self._lock.acquire(timeout=-1 if deadline is None else deadline.remaining_s()):
            assert deadline is not None
            raise deadline.error(None)
        try:
            if self._problem:
                raise ProducerClosed(topic=self._topic.name, problem=self._problem)
            if takes_rows and self._closed:
                raise ProducerClosed(topic=self._topic.name)
            self._problem = "a call of it was interrupted"
            self._renew_if_idle()
            try:
                yield
            except RaftlogError as error:
                self._problem = f"it failed before ({error.cause})"
                self._window.cancel()
                raise
            self._problem = ""
        finally:
            self._note_answered()
            self._lock.release()

    def _note_answered(self) -> None:
        while self._sent - len(self._counts) < self._window.answered:
            self._acknowledged += self._counts.popleft()

    def _renew_if_idle(self) -> None:
        """Take a fresh id after a long silence, unless the log has to know the old one.

        Everything sent must be acknowledged: then a resend of it never comes, and the fresh id's
        own sequence tells its resends apart. By the wall clock, which goes on while a machine
        sleeps; a wrong one costs a row in the log's table of producers.
        """
        idle_s = time.time() - self._sent_at_s
        if self._sequence > 0 and not self._counts and idle_s >= self._idle_max_s:
            self._producer = uuid.uuid4().hex
            self._sequence = 0

    def _conformed(self, data: Rows) -> list[pa.RecordBatch]:
        """All of it, so that rows are taken wholly or not at all."""
        topic = self._topic
        return [conform(batch, topic.schema, topic.name) for batch in record_batches(data, topic)]

    def _flush(self, deadline: Deadline | None) -> list[Appended]:
        encoded = [*self._buffer.flush()]
        replies = self._send(iter(encoded[:-1]), deadline)
        if not encoded:
            return replies + self._keep(self._window.drain())
        last = encoded[-1]
        return replies + self._keep(self._window.push_last(self._call(last), last.body, deadline))

    def _send(self, encoded: Iterator[EncodedBatch], deadline: Deadline | None) -> list[Appended]:
        replies = []
        for batch in encoded:
            replies += self._keep(self._window.push(self._call(batch), batch.body, deadline))
        return replies

    def _call(self, batch: EncodedBatch) -> AppendCall:
        """The batch's call, with the next sequence; it is about to be sent."""
        call = AppendCall(
            group=self._topic.group,
            incarnation=self._topic.incarnation,
            producer=self._producer,
            sequence=self._sequence,
            batch=batch.header,
            crc=batch.crc,
        )
        self._sequence += 1
        self._sent += 1
        self._sent_at_s = time.time()
        self._counts.append(batch.header.record_count)
        return call

    def _keep(self, replies: list[Appended]) -> list[Appended]:
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
        if not _are_rows(data):
            raise InvalidOption(
                option="data",
                problem="is neither Arrow data nor a list of mappings",
                advice="Give a pa.Table, a pa.RecordBatch, or rows such as [{'id': 1}].",
            )
        yield batch_from_rows(list(data), topic.schema, topic.name)


def _are_rows(data: object) -> bool:
    return (
        isinstance(data, Sequence)
        and not isinstance(data, Mapping)
        and all(isinstance(row, Mapping) for row in data)
    )
