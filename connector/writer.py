"""The sink: every task stages its rows, and the driver makes them visible by one `CommitEpoch`.

Exactly once (docs/EXACTLY_ONCE.md): a streaming task learns query, batch and run from its task's
local properties, and stages under them. Its message tells the driver what it staged. The driver
names all of it in one entry, with a digest of what Spark planned the batch to be
(`raftlog.spark.plan`); the log knows a replay by it. A batch write never takes its key from those
properties: inside `foreachBatch` they are the stream's, and two writes there would share a key. It
carries them as a fence, by which the log notices a lost checkpoint and a second write of one
version. It has a plan if it is told where the query's checkpoint is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from raftlog.errors import InvalidOption, SchemaChanged, TopicNotFound, TopicRecreated
from raftlog.spark import connection, query_names, slow_writes
from raftlog.spark.column_names import check_case, in_other_case, matched
from raftlog.spark.declarations import Endpoint
from raftlog.spark.metadata_columns import check_reserved, is_metadata, without_metadata
from raftlog.spark.options import CreateTopic, SinkOptions, sink_options
from raftlog.spark.plan import IN_FOREACH_BATCH, location_of, plan_digest
from raftlog.spark.schema import check_writable, creation_text, merge_of
from raftlog.spark.worker_log import errors_logged

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import AttemptReference, EpochKey, LogClient, TopicInfo

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

_MERGES_MAX = 10
"""How often a topic's columns are merged while others change them too. No setting: each of these
times somebody else was faster."""

_no_fence_said: set[int] = set()
"""Ids of the processes that have warned that a named batch write saw no streaming query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedMessage(WriterCommitMessage):
    """A task's key, and what it staged under it. `reference` is None if it had no rows."""

    key: EpochKey
    reference: AttemptReference | None
    topic: TopicInfo | None = None
    """What the first task wrote to; None from the others."""
    slow: str = ""
    """What the first task saw of a setting that makes the write slow; "" if there is nothing."""
    checkpoint: str = ""
    """Where a stream's checkpoint is, as far as the task sees it; the driver sees less."""


def stream_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool, *, planning: bool
) -> RaftlogStreamWriter:
    """A stream's writer. Spark calls this twice for each batch, in two processes; it changes
    nothing.

    One process is `planning`, and looks the topic up. The other ends the batch, and learns the
    topic from the tasks. Only tasks are told which batch it is for. So if the topic does not exist,
    they create it.
    `overwrite`: the query's output mode is complete.
    """
    options = sink_options(given, Endpoint.STREAM_SINK)
    target = _target(options, schema) if planning else _Target(schema, None, known=False)
    return RaftlogStreamWriter(options, target, overwrite=overwrite)


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> RaftlogBatchWriter:
    """A batch write's writer. Spark calls this once for each write, so the run is minted here."""
    options = sink_options(given, Endpoint.BATCH_SINK)
    target = _target(options, schema, starting=True)
    made = target.topic or _made(options, target)
    return RaftlogBatchWriter(
        options, _Target(schema, made), run=uuid.uuid4().hex, overwrite=overwrite
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """What is written to: the topic (None if it did not exist), and the rows' columns."""

    schema: StructType
    topic: TopicInfo | None
    known: bool = True
    """False: nobody has looked for the topic."""

    def names_in(self, topic: TopicInfo) -> list[str | None]:
        """For each column of the rows its name in the topic; None for a metadata column that was
        read with them.

        Raises `SchemaMismatch` if a name differs in case and Spark is case-sensitive.
        """
        own = without_metadata(self.schema).names
        meant = matched(own, [field.name for field in topic.schema.fields])
        marked = [field.name for field in self.schema.fields if is_metadata(field)]
        check_case([*own, *marked], [*meant, *(name.lower() for name in marked)], topic.name)
        by_name = dict(zip(own, meant, strict=True))
        return [None if is_metadata(field) else by_name[field.name] for field in self.schema.fields]


class _Sink:
    """What both writers have in common. Pickled to executors, so it holds only plain values."""

    def __init__(self, options: SinkOptions, target: _Target, *, overwrite: bool) -> None:
        self._options = options
        self._target = target
        self._overwrite = overwrite

    def stage(self, key: EpochKey, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage all rows as one new attempt. On return every entry is replicated and none is
        visible.

        The client casts and coalesces the batches.
        """
        target = self._target if self._target.known else _target(self._options, self._target.schema)
        topic = target.topic or self._made_for(key)
        names = target.names_in(topic)
        if self._options.merge_schema:
            topic = _merged(self._options, self._target.schema, topic)
        attempt = connection.client(self._options.connection).attempt(
            topic,
            key,
            compression=self._options.compression,
            batch_bytes=self._options.batch_bytes,
            max_in_flight=self._options.max_in_flight,
            create_writer=self._options.create_topic is CreateTopic.ALWAYS,
        )
        try:
            for batch in batches:
                attempt.write(_under(batch, names))
            return StagedMessage(
                key=key,
                reference=attempt.finish(),
                topic=topic if _is_first_task() else None,
                slow=slow_writes.seen_by_task(),
            )
        finally:
            attempt.close()

    def publish(
        self,
        key: EpochKey,
        messages: Sequence[WriterCommitMessage | None],
        *,
        transient: bool = False,
        plan: str = "",
    ) -> None:
        """Make what the messages name visible at once, or change nothing and raise."""
        references, seen = [], ""
        for message in messages:
            assert isinstance(message, StagedMessage), f"a task gave {message!r}"
            assert message.key == key, f"{message.key} is not {key}"
            if message.reference is not None:
                references.append(message.reference)
            seen = seen or message.slow
        client, topic = self.asked(messages)
        slow_writes.warn(
            seen, topic.name, f"{key.query_id}-{key.run}" if key.streaming else "batch"
        )
        client.commit_epoch(
            topic,
            key,
            references,
            keep_on_mismatch=self._options.keep_on_mismatch,
            create_writer=self._options.create_topic is CreateTopic.ALWAYS,
            transient_writer=transient,
            plan=plan,
            overwrite=self._overwrite,
        )

    def asked(self, messages: Sequence[WriterCommitMessage | None]) -> tuple[LogClient, TopicInfo]:
        """This process's client, and the topic, which a task may have created."""
        topic = self._target.topic or _known_topic(messages)
        assert topic is not None, "no task said what it wrote to"
        return connection.client(self._options.connection), topic

    def discard(self, key: EpochKey, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the key's open attempts, if there is a topic. Nothing that is visible changes."""
        client = connection.client(self._options.connection)
        topic = self._target.topic or _known_topic(messages)
        with contextlib.suppress(TopicNotFound, TopicRecreated):
            client.abort_epoch(topic or self._options.topic, key)

    def _made_for(self, key: EpochKey) -> TopicInfo:
        """The topic, created now by the first batch. For a later batch it was deleted meanwhile."""
        if key.epoch > 0 and self._options.create_topic is not CreateTopic.ALWAYS:
            raise InvalidOption(
                option="createTopic",
                problem=f"is true, which creates the topic only for a query's first batch: this is "
                f"batch {key.epoch}, and there is no topic {self._options.topic!r} (any more)",
                advice="Check that raftlog.bootstrap.servers names the cluster that the query "
                "wrote to. If it does, start with a new checkpointLocation, or set "
                "createTopic=always to continue in a new topic.",
            )
        return _made(self._options, self._target)


class RaftlogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. `commit` has no task context, so it gets the ids in the messages."""

    def __init__(self, options: SinkOptions, target: _Target, *, overwrite: bool) -> None:
        self._options = options
        self._sink = _Sink(options, target, overwrite=overwrite)

    # Spark's Arrow classes take batches; the classes that they derive from take rows.
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
        client, topic = self._sink.asked(messages)
        query_names.check(client, topic, key, self._options)
        self._sink.publish(key, messages, plan=plan)
        query_names.note(client, topic, key, self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged. Without any message, the leases clean up."""
        key = _known_key(messages)
        if key is not None:
            self._sink.discard(key, messages)


class RaftlogBatchWriter(DataSourceArrowWriter):
    """One batch write: under `txnAppId` and `txnVersion`, or as its own writer, which expires."""

    def __init__(self, options: SinkOptions, target: _Target, *, run: str, overwrite: bool) -> None:
        import raftlog

        writer = options.txn_app_id or run
        self._options = options
        self._transient = options.txn_app_id is None
        self._sink = _Sink(options, target, overwrite=overwrite)
        self._key = raftlog.EpochKey(
            writer=writer,
            query_id=writer,
            run=run,
            epoch=options.txn_version or 0,
            streaming=False,
        )

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


def _target(options: SinkOptions, schema: StructType, *, starting: bool = False) -> _Target:
    """The topic if it exists, after checking that rows of this schema fit. Raises before any task
    runs.

    Every batch of a stream calls this, so only a batch write is known to be `starting`.

    It looks the topic up before creating it: a look-up is a read (once for each micro-batch), and
    a creation is an entry in the controller's log.
    """
    from raftlog.records.arrow_types import schema_of

    check_reserved(schema, options.topic)
    try:
        client = connection.client(options.connection, starting=starting)
        topic = client.describe_topic(options.topic)
    except TopicNotFound:
        if options.create_topic is CreateTopic.FALSE:
            raise
        # A stream's first task creates it. A schema that no topic can have is refused here.
        schema_of(creation_text(schema))
        return _Target(schema, None)
    return _Target(schema, _fitting(options, schema, topic))


def _made(options: SinkOptions, target: _Target) -> TopicInfo:
    """The topic, created with the rows' columns unless another process was faster."""
    client = connection.client(options.connection)
    topic = client.create_topic(options.topic, creation_text(target.schema), if_not_exists=True)
    return _fitting(options, target.schema, topic)


def _fitting(options: SinkOptions, schema: StructType, topic: TopicInfo) -> TopicInfo:
    """The topic, after checking that the rows fit it, or after making it fit (`mergeSchema`).

    Every batch asks, and tasks of a first batch may ask at once: a change that is there already
    changes nothing.
    """
    if not options.merge_schema:
        check_writable(schema, topic)
        return topic
    if in_other_case(without_metadata(schema), topic):
        merge_of(schema, topic)  # which the tasks do, once they know that names match
        return topic
    return _merged(options, schema, topic)


def _merged(options: SinkOptions, schema: StructType, topic: TopicInfo) -> TopicInfo:
    """The topic with what the rows need of it (`mergeSchema`)."""
    client = connection.client(options.connection)
    tries = 0
    while True:
        merge = merge_of(schema, topic)
        if not merge.add and not merge.types:
            return topic
        try:
            return client.alter_schema(
                topic,
                add=StructType([*merge.add]).json() if merge.add else None,
                types=StructType([*merge.types]).json() if merge.types else None,
            )
        except SchemaChanged:
            tries += 1
            if tries == _MERGES_MAX:
                raise
            topic = client.describe_topic(topic)


def _known_key(messages: Sequence[WriterCommitMessage | None]) -> EpochKey | None:
    for message in messages:
        if isinstance(message, StagedMessage):
            return message.key
    return None


def _known_topic(messages: Sequence[WriterCommitMessage | None]) -> TopicInfo | None:
    named = (each.topic for each in messages if isinstance(each, StagedMessage))
    return next((topic for topic in named if topic is not None), None)


def _known_checkpoint(messages: Sequence[WriterCommitMessage | None]) -> str:
    return next(each.checkpoint for each in messages if isinstance(each, StagedMessage))


def _say_no_fence(key: EpochKey) -> None:
    """Warn once in this process of what the log cannot notice, be it inside a stream or not."""
    if os.getpid() in _no_fence_said:
        return
    _no_fence_said.add(os.getpid())
    log.warning(
        "As far as its tasks see, txnAppId %r, txnVersion %s is not written in a streaming query. "
        "If it is in foreachBatch (with Spark Connect, or in a thread that is not a "
        "pyspark.InheritableThread), a lost checkpoint is not noticed, and neither are two writes "
        "of one version: other rows of the same count are taken for a rerun and NOT written.",
        key.writer,
        key.epoch,
    )


# ---------------------------------------------------------------- in a task


def _is_first_task() -> bool:
    context = TaskContext.get()
    return context is not None and context.partitionId() == 0


def _under(batch: pa.RecordBatch, names: Sequence[str | None]) -> pa.RecordBatch:
    """The columns that have a name, under it."""
    assert batch.num_columns == len(names), f"{batch.schema} is not {names}"
    kept = [at for at, name in enumerate(names) if name is not None]
    own = batch if len(kept) == len(names) else batch.select(kept)
    return own.rename_columns([name for name in names if name is not None])


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

    The run is left out if somebody set a job group of their own in foreachBatch. Its name would
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
