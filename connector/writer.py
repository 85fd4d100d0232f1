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
    """A stream's writer. Runs twice for each batch, in two processes.

    So its only side effect is creating the topic, which is idempotent.
    """
    _refuse_overwrite(overwrite, "outputMode 'complete'", "Use outputMode('append').")
    options = sink_options(given, Place.STREAM_SINK)
    return RaftlogStreamWriter(options, _topic(options, schema))


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> RaftlogBatchWriter:
    """A batch write's writer, once for each write: it mints the run."""
    _refuse_overwrite(overwrite, "mode 'overwrite'", "Use .mode('append').")
    options = sink_options(given, Place.BATCH_SINK)
    return RaftlogBatchWriter(options, _topic(options, schema), run=uuid.uuid4().hex)


class _Sink:
    """What both writers share; pickled to executors, so it holds plain values alone."""

    def __init__(self, options: SinkOptions, topic: TopicInfo) -> None:
        self._options = options
        self._topic = topic

    def stage(self, key: EpochKey, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage all rows as one new attempt; on return every entry is replicated, none visible.

        The client casts and gathers the batches, and passes over reserved columns.
        """
        attempt = connection.client(self._options.connection).attempt(
            self._topic,
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
        connection.client(self._options.connection).commit_epoch(
            self._topic,
            key,
            references,
            keep_on_mismatch=self._options.keep_on_mismatch,
            create_writer=self._options.create_topic is CreateTopic.ALWAYS,
            transient_writer=transient,
        )

    def discard(self, key: EpochKey) -> None:
        """Drop the key's open attempts; nothing that is visible changes."""
        connection.client(self._options.connection).abort_epoch(self._topic, key)


class RaftlogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. The ids reach `commit` in the messages: it has no task context."""

    def __init__(self, options: SinkOptions, topic: TopicInfo) -> None:
        self._options = options
        self._sink = _Sink(options, topic)

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

    def __init__(self, options: SinkOptions, topic: TopicInfo, *, run: str) -> None:
        import raftlog

        writer = options.txn_app_id or run
        self._transient = options.txn_app_id is None
        self._sink = _Sink(options, topic)
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


def _refuse_overwrite(overwrite: bool, what: str, advice: str) -> None:
    if overwrite:
        raise InvalidOption(
            option="outputMode" if "output" in what else "mode",
            problem=f"is {what}, which would cut the topic's records, and this version cannot",
            advice=advice,
        )


def _topic(options: SinkOptions, schema: StructType) -> TopicInfo:
    """The topic to write, made first if it may be. Raises before any task runs.

    It is looked up before it is made: looking is a read, twice for each micro-batch of a stream,
    making an entry in the controller's log.
    """
    check_reserved(schema, options.topic)
    client = connection.client(options.connection)
    try:
        topic = client.describe_topic(options.topic)
    except TopicNotFound:
        if options.create_topic is CreateTopic.FALSE:
            raise
        topic = client.create_topic(options.topic, creation_text(schema), if_not_exists=True)
    check_writable(schema, topic)
    return topic


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
