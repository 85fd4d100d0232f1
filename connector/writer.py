"""The sink: every task stages its rows, and the driver makes them visible by one `CommitEpoch`.

Exactly once (docs/EXACTLY_ONCE.md): a streaming task learns query, batch and run from its task's
local properties, and stages under them. Its message tells the driver what it staged. The driver
names all of it in one entry, with a digest of what Spark planned the batch to be
(`raftlog.spark.plan`); the log knows a replay by it. A batch write never takes its key from those
properties: inside `foreachBatch` they are the stream's, and two writes there would share a key. It
carries them as a fence, by which the log notices a lost checkpoint and a second write of one
version. It has a plan if it is told where the query's checkpoint is.

Without the option `topic` the rows name their topics. Then a task stages an attempt for each of
them, and the driver commits the epoch topic by topic: each is all or nothing and exactly once, and
a replay completes those that a crash left out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from raftlog.errors import (
    EpochContentMismatch,
    InvalidOption,
    RaftlogError,
    TopicNotFound,
    TopicRecreated,
)
from raftlog.spark import connection, query_names, slow_writes, target, written_topics
from raftlog.spark.declarations import Endpoint
from raftlog.spark.first_batch import may_be_first_batch
from raftlog.spark.metadata_columns import check_reserved
from raftlog.spark.options import CreateTopic, SinkOptions, sink_options
from raftlog.spark.plan import IN_FOREACH_BATCH, location_of, plan_digest
from raftlog.spark.staging import ENTRIES_KEPT, Opened, Staged, Staging, check_number
from raftlog.spark.topic_column import COLUMN, by_topic, without_topic
from raftlog.spark.worker_log import errors_logged

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import EpochKey, LogClient, TopicInfo

log = logging.getLogger("raftlog.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Local properties of a streaming query's tasks (`sql.streaming.runId` is null in them).

A batch write inside foreachBatch sees them as well, in the thread that called the function and in
an InheritableThread, but not in a plain thread and not with Spark Connect.
"""

CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"
"""Where a query without the option keeps its checkpoint; a local property if it is set."""

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How Spark writes the ids of queries and of their runs."""

_no_fence_said: set[int] = set()
"""Ids of the processes that have warned that a named batch write saw no streaming query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedMessage(WriterCommitMessage):
    """A task's key, and what it staged under it, for each topic."""

    key: EpochKey
    staged: tuple[Staged, ...] = ()
    """With the option `topic`, that topic, also without rows; else those of the task's rows."""
    slow: str = ""
    """What the first task saw of a setting that makes the write slow; "" if there is nothing."""
    checkpoint: str = ""
    """Where a stream's checkpoint is, as far as the task sees it; the driver sees less."""


def stream_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool, *, planning: bool
) -> RaftlogStreamWriter:
    """A stream's writer. Spark calls this twice for each batch, in two processes; it changes
    nothing.

    One process is `planning`, and looks the topic up, if all rows go to one. For what seems to be
    the query's first batch, it does not wait long for the cluster. The other process ends the
    batch, and learns the topics from the tasks. Only tasks are told which batch it is for. So they
    create a topic that does not exist.
    `overwrite`: the query's output mode is complete.
    """
    options = sink_options(given, Endpoint.STREAM_SINK)
    rows = _rows(options, schema, overwrite)
    if planning and may_be_first_batch(
        options.checkpoint_location, options.connection.request_timeout_s
    ):
        connection.check_reachable(options.connection)
    if planning and rows.column is None:
        rows = replace(rows, topic=target.find(options, options.topic, schema), looked=True)
    return RaftlogStreamWriter(options, rows, overwrite=overwrite)


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> RaftlogBatchWriter:
    """A batch write's writer. Spark calls this once for each write, so the run is minted here."""
    options = sink_options(given, Endpoint.BATCH_SINK)
    rows = _rows(options, schema, overwrite)
    connection.check_reachable(options.connection, again=False)  # it may be in foreachBatch
    if rows.column is None:
        found = target.find(options, options.topic, schema, starting=True)
        rows = replace(rows, topic=found or target.made(options, options.topic, schema))
    return RaftlogBatchWriter(options, rows, run=uuid.uuid4().hex, overwrite=overwrite)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What the rows are, and where they go."""

    schema: StructType
    """The columns that are written."""
    column: int | None = None
    """Where in the rows the name of their topic is, which is not written; None: all rows go to the
    topic of the options."""
    topic: TopicInfo | None = None
    """That topic, if it was found."""
    looked: bool = False
    """Whether it was looked up: then None means that it does not exist."""


def _rows(options: SinkOptions, schema: StructType, overwrite: bool) -> _Rows:
    """The rows of this schema. Raises if they cannot be written, whatever topics there are."""
    if options.topic:
        return _Rows(schema=schema)
    written = without_topic(schema)
    if overwrite:
        raise InvalidOption(
            option="topic",
            problem=f"is missing: by their column {COLUMN!r} the rows go to several topics, and a "
            "write that replaces what a topic holds (overwrite, complete) needs the name of one",
            advice="Name the topic, or use append.",
        )
    check_reserved(written, "*")
    target.check_creatable(written)
    return _Rows(schema=written, column=schema.names.index(COLUMN))


class _Sink:
    """What both writers have in common. Pickled to executors, so it holds only plain values."""

    def __init__(self, options: SinkOptions, rows: _Rows, *, overwrite: bool) -> None:
        self._options = options
        self._rows = rows
        self._overwrite = overwrite

    def stage(self, key: EpochKey, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage all rows, for each topic as one new attempt. On return every entry is replicated
        and none is visible.

        The client casts and coalesces the batches.
        """
        staging = Staging(
            lambda name: self._opened(key, name),
            bytes_max=ENTRIES_KEPT * self._options.batch_bytes,
            topics_max=self._options.topics_max,
        )
        try:
            if self._rows.column is None:
                staging.open(self._options.topic)
            for batch in batches:
                for name, rows in self._parts(batch):
                    staging.write(name, rows)
                staging.make_room()
            return StagedMessage(key=key, staged=staging.finish(), slow=slow_writes.seen_by_task())
        finally:
            staging.close()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._rows.column is not None:
            yield from by_topic(batch, self._rows.column)
        else:
            yield self._options.topic, batch

    def _opened(self, key: EpochKey, name: str) -> Opened:
        """The topic, which may be created now, and an attempt for it."""
        options, rows = self._options, self._rows
        topic = rows.topic
        if topic is None and not rows.looked:
            topic = target.find(options, name, rows.schema)
        client = connection.client(options.connection)
        always = options.create_topic is CreateTopic.ALWAYS
        first = always or self._may_be_first(client, key, name)
        if topic is None:
            if not first:
                raise _gone(key, name, self._rows)
            topic = target.made(options, name, rows.schema)
        names = target.column_names(rows.schema, topic)
        if options.merge_schema:
            topic = target.merged(options, rows.schema, topic)
        attempt = client.attempt(
            topic,
            key,
            compression=options.compression,
            batch_bytes=options.batch_bytes,
            max_in_flight=options.max_in_flight,
            create_writer=always or (first and rows.column is not None),
        )
        return Opened(topic=topic, names=names, attempt=attempt)

    def _may_be_first(self, client: LogClient, key: EpochKey, name: str) -> bool:
        """Whether no earlier batch of the stream can have written the topic."""
        if self._rows.column is None or not key.streaming:
            return not key.streaming or key.epoch == 0
        return written_topics.may_be_first(client, key, name)

    def publish_stream(
        self, key: EpochKey, messages: Sequence[WriterCommitMessage | None], plan: str
    ) -> None:
        """Like `publish`, after looking for signs that the stream's checkpoint was lost."""
        options = self._options
        client = connection.client(options.connection)
        topics = {name: staged[0].topic for name, staged in self._by_topic(key, messages).items()}
        if self._rows.column is not None:
            keep = options.keep_on_mismatch
            written_topics.check(client, key, topics, plan=plan, keep=keep)
        first = {name for name in topics if self._may_be_first(client, key, name)}
        for name in sorted(first):
            query_names.check(client, topics[name], key, options)
        if self._rows.column is not None:
            written_topics.note(client, key, sorted(first))
        self.publish(key, messages, plan=plan, first=first)
        for topic in topics.values():
            query_names.note(client, topic, key, options)

    def publish(
        self,
        key: EpochKey,
        messages: Sequence[WriterCommitMessage | None],
        *,
        transient: bool = False,
        plan: str = "",
        first: Collection[str] = (),
    ) -> None:
        """Make what the messages name visible, all of a topic at once, or change nothing there and
        raise.

        `first`: the topics to which the writer may be new at this epoch.
        """
        client = connection.client(self._options.connection)
        always = self._options.create_topic is CreateTopic.ALWAYS
        parts = self._by_topic(key, messages)
        seen = next((each.slow for each in _told(messages) if each.slow), "")
        assert parts or self._rows.column is not None, "no task said what it wrote to"
        for name in sorted(parts):
            slow_writes.warn(seen, name, f"{key.query_id}-{key.run}" if key.streaming else "batch")
            with _saying_what_is_in(name, sorted(parts), key):
                client.commit_epoch(
                    parts[name][0].topic,
                    key,
                    [part.reference for part in parts[name] if part.reference is not None],
                    keep_on_mismatch=self._options.keep_on_mismatch,
                    create_writer=always or (self._rows.column is not None and name in first),
                    transient_writer=transient,
                    plan=plan,
                    overwrite=self._overwrite,
                )

    def _by_topic(
        self, key: EpochKey, messages: Sequence[WriterCommitMessage | None]
    ) -> dict[str, list[Staged]]:
        """What the tasks staged under the key, by topic, in the order of the tasks."""
        parts: dict[str, list[Staged]] = {}
        for message in messages:
            assert isinstance(message, StagedMessage), f"a task gave {message!r}"
            assert message.key == key, f"{message.key} is not {key}"
            for staged in message.staged:
                parts.setdefault(staged.topic.name, []).append(staged)
        check_number(len(parts), self._options.topics_max)
        return parts

    def discard(self, key: EpochKey, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the key's open attempts in the topics that are known. Nothing that is visible
        changes."""
        client = connection.client(self._options.connection)
        named = {part.topic.name: part.topic for each in _told(messages) for part in each.staged}
        if not named and self._rows.topic is not None:
            named = {self._rows.topic.name: self._rows.topic}
        for topic in named.values():
            with contextlib.suppress(TopicNotFound, TopicRecreated):
                client.abort_epoch(topic, key)


class RaftlogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. `commit` has no task context, so it gets the ids in the messages."""

    def __init__(self, options: SinkOptions, rows: _Rows, *, overwrite: bool) -> None:
        self._options = options
        self._sink = _Sink(options, rows, overwrite=overwrite)

    # Spark's Arrow classes take batches; the classes that they derive from take rows.
    @errors_logged
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:  # type: ignore[override]
        message = self._sink.stage(_streaming_key(self._options.txn_app_id), iterator)
        return replace(message, checkpoint=_checkpoint_location(self._options))

    @errors_logged
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the batch visible. A second call for the same epoch changes nothing."""
        key = _known_key(messages)
        assert key is not None, f"batch {batchId} has no message: Spark runs at least one task"
        assert key.epoch == batchId, f"{key} in the messages of batch {batchId}"
        plan = plan_digest(
            _known_checkpoint(messages),
            key.query_id,
            batchId,
            self._options.connection.request_timeout_s,
        )
        self._sink.publish_stream(key, messages, plan)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged. Without any message, the leases clean up."""
        key = _known_key(messages)
        if key is not None:
            self._sink.discard(key, messages)


class RaftlogBatchWriter(DataSourceArrowWriter):
    """One batch write: under `txnAppId` and `txnVersion`, or as its own writer, which expires."""

    def __init__(self, options: SinkOptions, rows: _Rows, *, run: str, overwrite: bool) -> None:
        import raftlog

        writer = options.txn_app_id or run
        self._options = options
        self._transient = options.txn_app_id is None
        self._sink = _Sink(options, rows, overwrite=overwrite)
        self._key = raftlog.EpochKey(
            writer=writer,
            query_id=writer,
            run=run,
            epoch=options.txn_version or 0,
            streaming=False,
        )

    @errors_logged
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:  # type: ignore[override]
        key = self._key if self._transient else _fenced(self._key)
        return self._sink.stage(key, iterator)

    @errors_logged
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        key = _known_key(messages)
        assert key is not None, "a write has no message: Spark runs at least one task"
        plan = "" if self._transient else self._plan(key)
        self._sink.publish(key, messages, transient=self._transient, plan=plan)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.discard(self._key, messages)

    def _plan(self, key: EpochKey) -> str:
        """The plan of the stream's batch around this write; "" with a warning if there is none."""
        if not key.stream:
            _say_no_fence(key)
            return ""
        return plan_digest(
            self._options.checkpoint_location,
            key.stream,
            key.stream_batch,
            self._options.connection.request_timeout_s,
            IN_FOREACH_BATCH,
        )


# ---------------------------------------------------------------- on the driver


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[StagedMessage]:
    return [each for each in messages if isinstance(each, StagedMessage)]


def _known_key(messages: Sequence[WriterCommitMessage | None]) -> EpochKey | None:
    return next((each.key for each in _told(messages)), None)


def _known_checkpoint(messages: Sequence[WriterCommitMessage | None]) -> str:
    return next(each.checkpoint for each in _told(messages))


@contextlib.contextmanager
def _saying_what_is_in(topic: str, topics: Sequence[str], key: EpochKey) -> Iterator[None]:
    """Warn of which topics have the batch and which do not, if this one of several refuses it after
    others took it. One that has another batch of that number says so in its own error."""
    try:
        yield
    except EpochContentMismatch:
        raise
    except RaftlogError:
        if topics.index(topic) > 0:
            log.warning(
                "Batch %s of writer %r is for %s topics, one after the other, and %r does not have "
                "it. The first %s by name have it; a restart of the query completes the others.",
                key.epoch,
                key.writer,
                len(topics),
                topic,
                topics.index(topic),
            )
        raise


def _say_no_fence(key: EpochKey) -> None:
    """Warn once in this process of what the log cannot notice, be it inside a stream or not."""
    if os.getpid() in _no_fence_said:
        return
    _no_fence_said.add(os.getpid())
    log.warning(
        "The write with txnAppId %r, txnVersion %s is not known to be part of a streaming query. "
        "If it runs inside foreachBatch (with Spark Connect, or in a thread that is not a "
        "pyspark.InheritableThread), a lost checkpoint is not noticed, and neither are two writes "
        "of one version: other rows of the same count are taken for a rerun and NOT written.",
        key.writer,
        key.epoch,
    )


# ---------------------------------------------------------------- in a task


def _gone(key: EpochKey, topic: str, rows: _Rows) -> InvalidOption:
    """For a batch after the one that wrote the topic first: it was deleted meanwhile."""
    return InvalidOption(
        option="createTopic",
        problem="is true, which creates the topic only for a query's first batch"
        f"{'' if rows.column is None else ' with rows for it'}: this is batch {key.epoch}, and "
        f"there is no topic {topic!r} (any more)",
        advice="Check that raftlog.bootstrap.servers names the cluster that the query wrote to. If "
        "it does, start with a new checkpointLocation, or set createTopic=always to continue in a "
        "new topic.",
    )


def _streaming_key(txn_app_id: str | None) -> EpochKey:
    import raftlog

    context = TaskContext.get()
    assert context is not None, "a sink writes in a task"
    query_id = _local_property(context, QUERY_ID)
    return raftlog.EpochKey(
        writer=txn_app_id or query_id,
        query_id=query_id,
        run=_local_property(context, RUN_ID),
        epoch=int(_local_property(context, BATCH_ID)),
        streaming=True,
    )


def _checkpoint_location(options: SinkOptions) -> str:
    context = TaskContext.get()
    assert context is not None, "a sink writes in a task"
    setting = context.getLocalProperty(CHECKPOINT_SETTING) or ""
    return location_of(options.checkpoint_location, setting, options.query_name)


def _fenced(key: EpochKey) -> EpochKey:
    """The key with the batch of the surrounding streaming query, if the task sees one.

    The run is left out if the user set a job group in foreachBatch. Its name would
    stay the same over restarts, so a replay would look like a second write.
    """
    context = TaskContext.get()
    assert context is not None, "a sink writes in a task"
    stream, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if stream is None or batch is None:
        return key
    group = context.getLocalProperty(RUN_ID) or ""
    return replace(
        key,
        stream=stream,
        stream_run=group if _UUID.fullmatch(group) else "",
        stream_batch=int(batch),
    )


def _local_property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise InvalidOption(
            option="txnAppId",
            problem=f"has no epoch to go with it: this Spark does not tell a stream's tasks {name}",
            advice="Use the Spark version that raftlog is tested with, or write inside "
            "foreachBatch with txnAppId and, as txnVersion, the batch's id.",
        )
    return value
