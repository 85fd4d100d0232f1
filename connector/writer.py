"""The sink: every task stages its rows, the driver makes them visible by one `CommitEpoch`.

Exactly once (docs/ARCHITECTURE.md, Writing): a streaming task learns query, batch and run from
its task's local properties and stages under them; what it staged travels to the driver in its
message; the driver names all of it in one entry. A replayed batch is recognised by (writer,
epoch). A batch write never reads those properties: inside `foreachBatch` they are the stream's,
and two writes there would share a key.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from connector import connection
from connector.options import CreateTopic, Place, SinkOptions, sink_options
from connector.schema import check_reserved, check_writable, creation_text
from raftlog.errors import InvalidOption, TopicNotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import AttemptReference, EpochKey, TopicInfo

log = logging.getLogger("raftlog.connector")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Local properties of a streaming query's tasks (`sql.streaming.runId` is null in them)."""

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_BYTES_UNCHECKED = 2147483647
"""With this value alone Spark does not size its Arrow batch after every row."""

_slow_setting_said: set[int] = set()
"""Ids of the processes that have given the advice about `ARROW_BYTES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedMessage(WriterCommitMessage):
    """What a task did: under which key, and what it staged; no reference: it had no rows."""

    key: EpochKey
    reference: AttemptReference | None


def stream_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> RaftlogStreamWriter:
    """A stream's writer. Runs twice for each batch, in two processes, and changes nothing.

    Which batch it is for, only tasks are told. So a topic that is not there is left to them.
    """
    _refuse_overwrite(overwrite, "outputMode", "'complete'", "Use outputMode('append').")
    options = sink_options(given, Place.STREAM_SINK)
    return RaftlogStreamWriter(options, _target(options, schema))


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> RaftlogBatchWriter:
    """A batch write's writer, once for each write: it mints the run."""
    _refuse_overwrite(overwrite, "mode", "'overwrite'", "Use .mode('append').")
    options = sink_options(given, Place.BATCH_SINK)
    target = _target(options, schema, starting=True)
    made = target.topic or _made(options, target)
    return RaftlogBatchWriter(options, _Target(schema, made), run=uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class _Target:
    """What is written to: the topic, None if it was not there, and the rows' columns."""

    schema: StructType
    topic: TopicInfo | None


class _Sink:
    """What both writers share; pickled to executors, so it holds plain values alone."""

    def __init__(self, options: SinkOptions, target: _Target) -> None:
        self._options = options
        self._target = target

    def stage(self, key: EpochKey, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage all rows as one new attempt; on return every entry is replicated, none visible.

        The client casts and gathers the batches, and passes over reserved columns.
        """
        attempt = connection.client(self._options.connection).attempt(
            self._target.topic or self._made_for(key),
            key,
            compression=self._options.compression,
            batch_bytes=self._options.batch_bytes,
            max_in_flight=self._options.max_in_flight,
            create_writer=self._options.create_topic is CreateTopic.ALWAYS,
        )
        try:
            for batch in batches:
                _advise_on_arrow_bytes()
                attempt.write(batch)
            return StagedMessage(key=key, reference=attempt.finish())
        finally:
            attempt.close()

    def publish(
        self, key: EpochKey, messages: Sequence[WriterCommitMessage | None], *, transient: bool
    ) -> None:
        """Make what the messages name visible at once, or change nothing and raise."""
        references = []
        for message in messages:
            assert isinstance(message, StagedMessage), f"a task gave {message!r}"
            assert message.key == key, f"{message.key} is not {key}"
            if message.reference is not None:
                references.append(message.reference)
        client = connection.client(self._options.connection)
        reply = client.commit_epoch(
            self._target.topic or client.describe_topic(self._options.topic),
            key,
            references,
            keep_on_mismatch=self._options.keep_on_mismatch,
            create_writer=self._options.create_topic is CreateTopic.ALWAYS,
            transient_writer=transient,
        )
        # Where an epoch lies is told of the writer's last one alone.
        if key.streaming and reply.replayed and reply.start < 0:
            _warn_of_older_checkpoint(key)

    def discard(self, key: EpochKey) -> None:
        """Drop the key's open attempts; nothing that is visible changes."""
        if self._target.topic is not None:
            connection.client(self._options.connection).abort_epoch(self._target.topic, key)

    def _made_for(self, key: EpochKey) -> TopicInfo:
        """The topic, made now by the first batch; a later one's was deleted under the query."""
        if key.epoch > 0 and self._options.create_topic is not CreateTopic.ALWAYS:
            raise InvalidOption(
                option="createTopic",
                problem=f"is true, which makes the topic for a query's first batch alone: this is "
                f"batch {key.epoch}, and there is no topic {self._options.topic!r} (any more)",
                advice="Start with a new checkpointLocation, or set createTopic=always to go on "
                "into a new topic.",
            )
        return _made(self._options, self._target)


class RaftlogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. The ids reach `commit` in the messages: it has no task context."""

    def __init__(self, options: SinkOptions, target: _Target) -> None:
        self._options = options
        self._sink = _Sink(options, target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return self._sink.stage(_streaming_key(self._options.txn_app_id), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Called again for the same epoch, it is recognised and changes nothing."""
        key = _known_key(messages)
        assert key is not None, f"batch {batchId} has no message: Spark runs at least one task"
        assert key.epoch == batchId, f"{key} in the messages of batch {batchId}"
        self._sink.publish(key, messages, transient=False)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Some or all messages are None after a task failed; without any, leases clean up."""
        key = _known_key(messages)
        if key is not None:
            self._sink.discard(key)


class RaftlogBatchWriter(DataSourceArrowWriter):
    """One batch write: `txnAppId` and `txnVersion`, or a writer of its own that expires."""

    def __init__(self, options: SinkOptions, target: _Target, *, run: str) -> None:
        import raftlog

        writer = options.txn_app_id or run
        self._transient = options.txn_app_id is None
        self._sink = _Sink(options, target)
        self._key = raftlog.EpochKey(
            writer=writer,
            query_id=writer,
            run=run,
            epoch=options.txn_version or 0,
            streaming=False,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:  # type: ignore[override]
        return self._sink.stage(self._key, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.publish(self._key, messages, transient=self._transient)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.discard(self._key)


# ---------------------------------------------------------------- on the driver


def _refuse_overwrite(overwrite: bool, option: str, value: str, advice: str) -> None:
    if overwrite:
        raise InvalidOption(
            option=option,
            problem=f"is {value}, which would cut the topic's records, and this version cannot",
            advice=advice,
        )


def _target(options: SinkOptions, schema: StructType, *, starting: bool = False) -> _Target:
    """The topic if it is there, and that rows of this schema fit. Raises before any task runs.

    Every batch of a stream asks anew, so only a batch write is known to be `starting`.

    It is looked up before it is made: looking is a read, twice for each micro-batch of a stream,
    making an entry in the controller's log.
    """
    from raftlog.client.arrow_types import schema_of

    check_reserved(schema, options.topic)
    try:
        client = connection.client(options.connection, starting=starting)
        topic = client.describe_topic(options.topic)
    except TopicNotFound:
        if options.create_topic is CreateTopic.FALSE:
            raise
        # A stream's first task makes it; what no topic can hold is refused here all the same.
        schema_of(creation_text(schema))
        return _Target(schema, None)
    check_writable(schema, topic)
    return _Target(schema, topic)


def _made(options: SinkOptions, target: _Target) -> TopicInfo:
    """The topic, made with the rows' columns unless another process was faster."""
    client = connection.client(options.connection)
    topic = client.create_topic(options.topic, creation_text(target.schema), if_not_exists=True)
    check_writable(target.schema, topic)
    return topic


def _warn_of_older_checkpoint(key: EpochKey) -> None:
    """Say what a restart never does by itself: Spark replays the last batch alone."""
    log.warning(
        "Batch %s of writer %r is in the log, and so are later ones: the checkpointLocation holds "
        "an older copy, or another driver uses it too. What the log has is not written again. It "
        "is known by the batch's number and record count: other rows in a batch of the same size "
        "are NOT written (docs/SPARK.md).",
        key.epoch,
        key.writer,
    )


def _known_key(messages: Sequence[WriterCommitMessage | None]) -> EpochKey | None:
    for message in messages:
        if isinstance(message, StagedMessage):
            return message.key
    return None


# ---------------------------------------------------------------- in a task


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


def _local_property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise InvalidOption(
            option="txnAppId",
            problem=f"has no epoch to go with it: this Spark gives a stream's tasks no {name}",
            advice="Use the Spark version that raftlog is tested with, or write inside "
            "foreachBatch with txnAppId and, as txnVersion, the batch's id.",
        )
    return value


def _advise_on_arrow_bytes() -> None:
    """Say once in this process that Spark's default makes every write several times slower.

    Session settings reach a task as local properties when they are set at all. Only a write's
    first task looks, so that a large cluster does not say it a hundred times.
    """
    context = TaskContext.get()
    if context is None or context.partitionId() != 0 or os.getpid() in _slow_setting_said:
        return
    _slow_setting_said.add(os.getpid())
    given = context.getLocalProperty(ARROW_BYTES)
    if given is None or given.rstrip("bB") != str(ARROW_BYTES_UNCHECKED):
        log.warning(
            "%s is %s: Spark sizes its Arrow batch after every row, which makes this sink several "
            "times slower. Set it to %s, as conf/spark-defaults.conf does.",
            ARROW_BYTES,
            given or "at its default",
            ARROW_BYTES_UNCHECKED,
        )
