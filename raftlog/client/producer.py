"""A plain producer: each append is in the log once, however often it is resent."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from raftlog.client.arguments import FlushArguments
from raftlog.client.connection import Connection
from raftlog.client.forks import in_each_child
from raftlog.client.retries import Deadline
from raftlog.client.window import Window
from raftlog.config import ClientSettings
from raftlog.core.types import Offset
from raftlog.errors import (
    InvalidOption,
    ProducerClosed,
    RaftlogError,
    SchemaMismatch,
    SequenceReused,
    TooLarge,
)
from raftlog.machines.commands import TopicInfo
from raftlog.machines.outcomes import Appended
from raftlog.records.arrow_types import is_frame
from raftlog.records.batching import BatchBuffer
from raftlog.records.conform import conform
from raftlog.records.rows import batch_from_rows, table_from_frame
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.calls import APPEND, AppendCall

if TYPE_CHECKING:
    import pandas as pd

LOGGER = "raftlog.client.producer"
"""Says at the level WARNING what no call of a program could raise."""

_LOOK_S = 0.01
"""How often replies are looked for. No setting: it decides only how soon a row whose reply says
that it was not written is sent again."""

_ENTRY_BYTES_SAFE = 64 * 1024
"""Every node takes entries of this size: the least that `server.entry_bytes_max` may be."""

_SHOWN_CHARACTERS = 200
"""An error names no more rows that are too large when it is as long as that."""

_ADVICE_ON_COLUMNS = (
    "A producer keeps the columns that its topic had when it was made. If they were altered since, "
    "make a new producer."
)

log = logging.getLogger(LOGGER)

Rows: TypeAlias = "pa.Table | pa.RecordBatch | pd.DataFrame | Sequence[Mapping[str, Any]]"
"""What may be appended: Arrow data, a pandas DataFrame, or rows as mappings from column name to
value. A nullable column that they lack is null in their records.

An index of a DataFrame that has a name, such as the key of a `groupby`, is a column; one without a
name is left out. Missing values are nulls, NaN among them. Columns of Python objects are read as
those of rows.

A row may also be a tuple with names, such as Spark's `Row`. Each value is stored as it is, or
`SchemaMismatch` is raised: a number that would be cut off, a time with more digits than a column
has, and a datetime without a zone for a TIMESTAMP. A FLOAT takes the nearest value that it has.
Lists may be arrays of NumPy or pandas. `None`, `pd.NA` and `NaT` are null; NaN is a number. Of
rows, a TIMESTAMP must be in the years 1 to 9999 in UTC. Arrow data may have others, which Spark and
`RecordBatches.to_pandas` read and Arrow's `to_pylist` does not.
"""


class Producer:
    """Appends to one topic in order. Thread-safe; close it, or use it as a context manager.

    Idempotent: each entry carries the producer's random id and a sequence, so an append that is
    resent over a failover is in the log once. Rows are durable on a majority, visible and have
    offsets once `flush` has returned. Before that, a thread sends them `client.linger_s` after
    `append`, or earlier if they fill an entry. It lives while rows are not acknowledged. If the
    interpreter exits meanwhile, it waits until they are, and logs a warning: close the producer.
    Closing the client closes its producers. A `with` block that ends with an error, Ctrl-C
    included, drops the rows that were not sent; one that ends with `sys.exit` sends them.

    The log forgets a producer that is idle for long (`topic.producer_lease_s`). So a producer that
    was idle for `client.producer_idle_max_s` takes a new id. It keeps its id while an append of it
    is not acknowledged; `UnknownProducer` may then be raised.

    A row that is larger than a node takes is left out, with its `TooLarge`, and the producer takes
    more. After another failed call a producer is closed, because the log may or may not have what
    was sent: every call raises `ProducerClosed`. If rows fail between two calls, the next one
    raises their error. In a forked child the parent's producer is closed in the same way.
    """

    def __init__(
        self,
        connection: Connection,
        topic: TopicInfo,
        settings: ClientSettings,
    ) -> None:
        self._topic = topic
        self._producer = uuid.uuid4().hex
        self._sequence = 0
        self._sent = 0
        """Calls given to the window, under this id and earlier ones."""
        self._sent_at_s = 0.0
        self._idle_max_s = settings.producer_idle_max_s
        self._buffer = BatchBuffer(
            topic.schema,
            compression=settings.compression,
            batch_bytes=settings.batch_bytes,
        )
        self._linger_s = settings.linger_s
        self._due_s = math.inf
        """When the rows in the buffer are sent, by the monotonic clock; infinite: it is empty."""
        self._sender: _Sender | None = None
        """The thread that sends them, while rows are not acknowledged."""
        self._failed: RaftlogError | None = None
        """What became of rows that were left out, or of the sender's last call, until a call of the
        program's raises it."""
        self._alone_bytes = max(2 * settings.batch_bytes, _ENTRY_BYTES_SAFE)
        """What a larger entry holds is one row, which nodes may reject."""
        self._left_out = 0
        """Rows that they rejected."""
        self._call_from: int | None = None
        """Which of all rows that were appended is the first of the call that waits for its own."""
        self._window = Window(connection, topic.group, APPEND, settings.max_in_flight)
        self._last = Appended(start=Offset(0), end=Offset(0), repeated=False)
        self._counts: deque[int] = deque()
        """Rows of each entry that was sent and is not in `acknowledged`, the oldest first."""
        self._acknowledged = 0
        self._closed = ""
        """Why it takes no more rows, if all that it took are acknowledged."""
        self._problem = ""
        """Why it is closed to further calls; empty if it is not."""
        self._ended_by: weakref.ref[RaftlogError] | None = None
        """What the call that ended it raised, if rows of it may be in the log."""
        self._lock = threading.Lock()
        in_each_child(self, Producer._begin_again)

    def _begin_again(self) -> None:
        """In a forked child: what is in flight and the sequence belong to the parent."""
        self._lock = threading.Lock()
        self._problem = "it belongs to the process that this one was forked from"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None or (issubclass(kind, SystemExit) and not self._problem):
            self.close()
        else:
            with self._lock:
                self._problem = self._problem or "its `with` block ended with an error"
                self._window.cancel()

    @property
    def topic(self) -> TopicInfo:
        """The topic as it was when the producer was made."""
        return self._topic

    def may_have_taken(self, error: RaftlogError) -> bool:
        """Tell whether an append that failed may have left rows in the log.

        Args:
            error: What `append_and_flush` raised.

        Returns:
            False if the log has none of this call's rows for certain.
        """
        return self._ended_by is not None and self._ended_by() is error

    @property
    def acknowledged(self) -> int:
        """How many rows are durable and visible for certain: that many of those appended, from the
        first on, without those that were `TooLarge`.

        After another failure, rows beyond them may be in the log as well, all or some.
        """
        return self._acknowledged

    def append(self, data: Rows) -> None:
        """Take rows. Sends what fills an entry; the rest follows within `client.linger_s`.

        Args:
            data: A `pa.Table`, a `pa.RecordBatch`, a pandas DataFrame, or a list of mappings from
                column name to value. A nullable column that they lack is null.

        Raises:
            SchemaMismatch: The rows do not fit the topic's schema, as in `LogClient.append`. None
                was taken.
            InvalidOption: `data` is something else. Nothing was taken.
            ProducerClosed: The producer was closed, or an earlier call failed. Nothing was taken.
            TooLarge: Rows are left out: `rows` has their numbers among all that were appended. The
                other rows were taken.
            RaftlogError: An earlier append failed for good.
        """
        batches = self._conformed(data)
        with self._turn(takes_rows=True):
            for batch in batches:
                self._send(self._buffer.add(batch), None)
            self._let_wait()

    def flush(self) -> Offset:
        """Send all rows that were taken, and wait until they are durable and visible.

        Returns:
            The end offset of the producer's last append; 0 if there was none.

        Raises:
            ProducerClosed: An earlier call failed.
            RaftlogError: An append failed for good.
        """
        with self._turn():
            self._flush(None)
            return self._last.end

    def append_and_flush(self, data: Rows, timeout_s: float | None = None) -> Appended:
        """Append rows, and wait until they are durable and visible.

        Args:
            data: As in `append`.
            timeout_s: Give up after so many seconds, 0 or more, which include waiting for other
                threads' calls. Default: each entry has a request's deadline.

        Returns:
            The offsets from the first row to the last, [start, end). If the rows need several
            entries, other producers' rows may lie in between.

        Raises:
            SchemaMismatch: The rows do not fit the topic's schema, as in `LogClient.append`. None
                was taken.
            InvalidOption: `data` is something else, or `timeout_s` is below 0. Nothing was taken.
            ProducerClosed: The producer was closed, or an earlier call failed. Nothing was taken.
            TooLarge: Rows are left out: `rows` has their numbers in this call, whose other rows are
                durable and visible.
            RaftlogError: An append failed for good.
        """
        FlushArguments().with_arguments(timeout_s=timeout_s)
        deadline = None if timeout_s is None else Deadline(APPEND.name, timeout_s)
        batches = self._conformed(data)
        with self._turn(deadline, takes_rows=True):
            self._flush(deadline)
            self._note_answered()
            replies = []
            answered = self._window.answered
            self._call_from = self._acknowledged + self._left_out
            try:
                for batch in batches:
                    replies += self._send(self._buffer.add(batch), deadline)
                replies += self._flush(deadline)
            except RaftlogError as error:
                self._note_doubt(error, answered)
                raise
            finally:
                self._call_from = None
            if self._failed is not None:
                self._note_doubt(self._failed, answered)
            if not replies:
                return Appended(start=self._last.end, end=self._last.end, repeated=False)
            return Appended(
                start=replies[0].start,
                end=replies[-1].end,
                repeated=any(reply.repeated for reply in replies),
            )

    def close(self) -> None:
        """Flush, and take no more rows.

        Raises:
            ProducerClosed: An earlier call failed.
            RaftlogError: An append failed for good.
        """
        self._close("it was closed")

    def _close(self, why: str) -> None:
        with self._turn():
            self._flush(None)
            self._closed = why

    @contextmanager
    def _turn(
        self, deadline: Deadline | None = None, *, takes_rows: bool = False
    ) -> Iterator[None]:
        """One thread at a time.

        If anything ends a turn early, Ctrl-C included, the producer is closed: rows that had left
        the buffer may be in the log or lost.
        """
        if not self._lock.acquire(timeout=-1 if deadline is None else deadline.remaining_s()):
            assert deadline is not None
            raise deadline.error(None)
        try:
            if self._problem:
                self._raise_failed()
                raise ProducerClosed(topic=self._topic.name, problem=self._problem)
            if takes_rows and self._closed:
                raise ProducerClosed(topic=self._topic.name, problem=self._closed)
            self._problem = "one of its calls was interrupted"
            self._renew_if_idle()
            try:
                yield
            except RaftlogError as error:
                self._problem = f"it failed before ({error.cause})"
                self._window.cancel()
                raise
            self._problem = ""
            if threading.current_thread() is not self._sender:
                self._raise_failed()
        finally:
            self._note_answered()
            self._lock.release()

    def _raise_failed(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _note_answered(self) -> None:
        while self._sent - len(self._counts) < self._window.answered:
            self._acknowledged += self._counts.popleft()

    def _note_doubt(self, error: RaftlogError, answered: int) -> None:
        """See `may_have_taken`. `answered`: the calls that were before those of this append."""
        if self._window.answered > answered or not self._window.refused_at_once:
            self._ended_by = weakref.ref(error)

    def _renew_if_idle(self) -> None:
        """Take a new id after a long silence, unless the log has to know the old one: everything
        sent must be acknowledged, so that nothing is resent under it. It goes by the wall clock,
        which continues while a machine sleeps; a wrong clock only costs a place in the log's table
        of producers.
        """
        idle_s = time.time() - self._sent_at_s
        if self._sequence > 0 and not self._counts and idle_s >= self._idle_max_s:
            self._renew()

    def _renew(self) -> None:
        """Take a new id, which has a sequence of its own."""
        self._producer = uuid.uuid4().hex
        self._sequence = 0

    def _conformed(self, data: Rows) -> list[pa.RecordBatch]:
        """All of it first, so that either all rows are taken or none."""
        try:
            return conformed(data, self._topic)
        except SchemaMismatch as error:
            error.advice = f"{error.remedy} {_ADVICE_ON_COLUMNS}"
            raise

    def _let_wait(self) -> None:
        """See that the rows that were taken are sent and acknowledged without another call."""
        if self._linger_s == 0:
            self._send(self._buffer.flush(), None)
        if self._buffer.is_empty:
            self._due_s = math.inf
        else:
            self._due_s = min(self._due_s, time.monotonic() + self._linger_s)
        if self._sender is None and self._has_unacknowledged:
            if not _awaited_threads():  # at exit, the interpreter waits for no more threads
                self._flush(None)
                return
            self._sender = _Sender(self)
            self._sender.start()

    @property
    def _has_unacknowledged(self) -> bool:
        return not (self._buffer.is_empty and self._window.is_empty)

    def _send_due(self, *, at_exit: bool) -> float | None:
        """Send the rows that have waited long enough, and take the replies that came.

        `at_exit` flushes all. Returns the seconds until it is due again; None: every row is
        acknowledged, or the producer is closed.
        """
        try:
            with self._turn():
                try:
                    self._keep(self._window.settle())
                    if at_exit and self._has_unacknowledged:
                        log.warning(
                            "Python exits before all rows of a producer of topic %s are "
                            "acknowledged; flushing them. Close the producer.",
                            self._topic.name,
                        )
                        self._flush(None)
                    now_s = time.monotonic()
                    if self._due_s <= now_s and not self._window.is_full:
                        self._due_s = math.inf
                        self._send(self._buffer.flush(), None)
                except RaftlogError as error:
                    log.warning("A producer of topic %s failed: %s", self._topic.name, error.cause)
                    self._failed = error
                    raise
                if not self._has_unacknowledged:
                    self._sender = None
                    return None
        except RaftlogError:
            return None
        return min(_LOOK_S, self._due_s - now_s) if self._due_s > now_s else _LOOK_S

    def _flush(self, deadline: Deadline | None) -> list[Appended]:
        self._due_s = math.inf
        encoded = [*self._buffer.flush()]
        last = encoded.pop() if encoded and not self._goes_alone(encoded[-1]) else None
        replies = self._send(iter(encoded), deadline)
        if last is None:
            return replies + self._keep(self._window.drain())
        return replies + self._keep(self._window.push_last(self._call(last), last.body, deadline))

    def _send(self, encoded: Iterator[EncodedBatch], deadline: Deadline | None) -> list[Appended]:
        replies = []
        for batch in encoded:
            if self._goes_alone(batch):
                replies += self._send_alone(batch, deadline)
            else:
                replies += self._keep(self._window.push(self._call(batch), batch.body, deadline))
        return replies

    def _goes_alone(self, batch: EncodedBatch) -> bool:
        return len(batch.body) > self._alone_bytes

    def _send_alone(self, batch: EncodedBatch, deadline: Deadline | None) -> list[Appended]:
        """Send a row that nodes may reject, which only they know, with none in flight behind it:
        those would be gaps. If they do, it is left out."""
        replies = self._keep(self._window.drain())
        try:
            return replies + self._keep(
                self._window.push_last(self._call(batch), batch.body, deadline)
            )
        except TooLarge as error:
            self._leave_out(error)
            return replies

    def _leave_out(self, error: TooLarge) -> None:
        """Continue without the row that was sent last. Its sequence may have been used."""
        self._renew()
        self._note_answered()
        row = self._acknowledged + self._left_out - (self._call_from or 0)
        self._left_out += self._counts.pop()
        self._sent -= 1
        if isinstance(self._failed, TooLarge):
            self._failed.rows += (row,)
            if len(self._failed.what) < _SHOWN_CHARACTERS:
                self._failed.what += f" like row {row},"
        else:
            of = "the producer" if self._call_from is None else "this call"
            error.what = f"Row {row} of {of}, counted from 0,"
            error.rows = (row,)
            self._failed = error

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
        """Raises `SequenceReused` where the log has so many appends under this id and later numbers
        that it cannot compare this one any more: they are of another producer."""
        for reply in replies:
            if reply.start < 0:
                raise SequenceReused(producer=self._producer, sequence=self._sequence - 1)
            self._last = reply
        return replies


class _Sender(threading.Thread):
    """Sends what a producer's rows wait for, until all are acknowledged.

    The interpreter waits for it, as it is no daemon; so it flushes once it is the last.
    """

    def __init__(self, producer: Producer) -> None:
        super().__init__(name="raftlog-producer", daemon=False)
        self._producer = producer

    def run(self) -> None:
        """Call `_send_due` until it returns None."""
        pause_s: float | None = 0.0
        while pause_s is not None:
            if awaited := _awaited_threads():
                awaited[0].join(pause_s)
            pause_s = self._producer._send_due(at_exit=not awaited)


def _awaited_threads() -> list[threading.Thread]:
    """The threads that may still append before the interpreter exits, the main thread first."""
    return [
        each
        for each in threading.enumerate()
        if each.is_alive() and not (each.daemon or isinstance(each, _Sender))
    ]


def close_with_client(producers: Iterable[Producer]) -> RaftlogError | None:
    """Close what is open of a client's producers. Returns the first error, once all were tried."""
    first: RaftlogError | None = None
    for producer in producers:
        try:
            producer._close("its client was closed")
        except ProducerClosed:
            pass  # by a call that failed and raised its error
        except RaftlogError as error:
            first = first or error
    return first


def conformed(data: Rows, topic: TopicInfo) -> list[pa.RecordBatch]:
    """The rows in the topic's schema. Raises `SchemaMismatch`."""
    batches: list[pa.RecordBatch] = []
    before = 0
    for batch in _record_batches(data, topic):
        batches.append(conform(batch, topic.schema, topic.name, before))
        before += batch.num_rows
    return batches


def _record_batches(data: Rows, topic: TopicInfo) -> Iterator[pa.RecordBatch]:
    """The rows as record batches. Mappings are read with the topic's schema."""
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif is_frame(data):
        yield from table_from_frame(data, topic.schema, topic.name).to_batches()
    else:
        if not _are_rows(data):
            raise InvalidOption(
                option="data",
                problem="is neither Arrow data nor a DataFrame nor a list of mappings",
                advice="Give a pa.Table, a pa.RecordBatch, a pandas DataFrame, or rows such as "
                "[{'id': 1}].",
            )
        yield batch_from_rows(list(data), topic.schema, topic.name)


def _are_rows(data: object) -> bool:
    return (
        isinstance(data, Sequence)
        and not isinstance(data, Mapping)
        and all(isinstance(row, Mapping) for row in data)
    )
