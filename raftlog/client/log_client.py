"""`raftlog.connect` and the client it gives: topics, appends, reads, epochs, marks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from raftlog.client.attempt import Attempt
from raftlog.client.connection import Connection, Deadline
from raftlog.client.forks import in_each_child, leave_alone
from raftlog.client.producer import Producer, Rows
from raftlog.client.reader import ReadPreference, TopicReader, check_offset
from raftlog.client.watermark import NodeAnswer, Watermark, watermark_of
from raftlog.config import ClientSettings, load
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Offset
from raftlog.errors import (
    DeadlineExceeded,
    ProducerClosed,
    RaftlogError,
    TopicNotFound,
    TopicRecreated,
    WriterNotFound,
)
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
from raftlog.machines.outcomes import Appended, EpochCommitted
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import schema_of
from raftlog.wire.calls import (
    ABORT_EPOCH,
    APPEND,
    COMMIT_EPOCH,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    LIST_TOPICS,
    LIST_WRITERS,
    REMOVE_WRITER,
    WATCH_GROUPS,
    AbortEpochCall,
    ClusterDescription,
    CommitEpochCall,
    CreateTopicCall,
    DeleteTopicCall,
    DescribeCluster,
    DescribeTopic,
    ListTopics,
    ListWriters,
    NodeView,
    RangeSizes,
    ReadableRange,
    RemoveWriterCall,
    WatchGroups,
    WritersReply,
    WriterView,
)

__all__ = [
    "ClusterDescription",
    "EpochCommitted",
    "NodeView",
    "LogClient",
    "ReadableRange",
    "RangeSizes",
    "TopicInfo",
    "connect",
]
"""The client, and the types of what it answers."""

SchemaLike = str | pa.Schema | Schema
"""A schema as Spark DDL text, Spark JSON text, an Arrow schema, or as a topic tells it."""


def connect(
    servers: str | None = None,
    *,
    request_timeout_s: float | None = None,
    settings: ClientSettings | None = None,
) -> LogClient:
    """A client of the cluster at `servers` (`host:port`, comma-separated).

    Left out, they are those of the settings: `settings`, else RAFTLOG_CONFIG's file and the
    environment, else the nodes of `raftlog up`. Nothing is contacted yet. `request_timeout_s` is
    the one total deadline of each request. Raises `InvalidOption`.
    """
    chosen = settings or load().client
    if servers is not None:
        chosen = chosen.model_copy(update={"bootstrap_servers": servers})
    if request_timeout_s is not None:
        chosen = chosen.model_copy(update={"request_timeout_s": request_timeout_s})
    return LogClient(Connection(chosen))


class LogClient:
    """A cluster's client: synchronous, thread-safe, usable again in a forked child.

    Fork while no call of the client is in flight: grpc's threads do not come along, and a child
    that was forked in the middle of what they do may hang or crash at its first call.

    Every request has one total deadline and is retried within it where that is safe; what fails
    raises a `raftlog.errors.RaftlogError` that names cause and remedy.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producers: dict[str, Producer] = {}
        self._lock = threading.Lock()
        in_each_child(self, LogClient._begin_again)

    def _begin_again(self) -> None:
        """Two processes must not go on with one producer's sequence."""
        leave_alone(self._producers)
        self._lock = threading.Lock()
        self._producers = {}

    def __enter__(self) -> LogClient:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    @property
    def settings(self) -> ClientSettings:
        return self._connection.settings

    def close(self) -> None:
        """Close the connections. Producers made by this client must be closed before."""
        self._connection.close()

    # ------------------------------------------------------------ topics

    def create_topic(
        self, name: str, schema: SchemaLike, *, if_not_exists: bool = False
    ) -> TopicInfo:
        """Create a topic; durable on return. With `if_not_exists` one that is there is returned,
        whatever its schema. `schema`: Spark DDL text ("id bigint, text string"), the JSON text of
        a Spark schema, or a `pa.Schema`. Raises `TopicExists`, `InvalidTopicName`,
        `InvalidOption`."""
        call = CreateTopicCall(
            name=name,
            incarnation=uuid.uuid4().hex,
            schema=schema_of(schema),
            if_not_exists=if_not_exists,
        )
        reply = self._connection.call_leader(CONTROLLER_GROUP, CREATE_TOPIC, call)
        return reply.topic

    def describe_topic(self, name: str) -> TopicInfo:
        """The topic as it is now (linearizable). Raises `TopicNotFound` with the nearest names."""
        return self._describe(name, None)

    def _describe(self, name: str, deadline: Deadline | None) -> TopicInfo:
        reply = self._connection.call_leader(
            CONTROLLER_GROUP, DESCRIBE_TOPIC, DescribeTopic(name=name), deadline=deadline
        )
        return reply.topic

    def list_topics(self) -> list[TopicInfo]:
        """All topics, by name (linearizable)."""
        reply = self._connection.call_leader(CONTROLLER_GROUP, LIST_TOPICS, ListTopics())
        return sorted(reply.topics, key=lambda topic: topic.name)

    def delete_topic(self, name: str) -> TopicInfo:
        """Delete a topic and its records, for good; returns what it was."""
        topic = self.describe_topic(name)
        call = DeleteTopicCall(name=name, incarnation=topic.incarnation)
        try:
            self._connection.call_leader(CONTROLLER_GROUP, DELETE_TOPIC, call)
        except TopicNotFound:
            # It was there a moment ago: an earlier try of this call, or another client, did it.
            pass
        return topic

    # ------------------------------------------------------------ appending

    def append(self, topic: str, data: Rows) -> Appended:
        """Append rows and wait until they are durable on a majority and readable.

        `data`: a `pa.Table`, a `pa.RecordBatch`, or a list of mappings from column name to value.
        Returns their offsets [start, end). Raises `SchemaMismatch` before anything is sent.
        """
        deadline = self._connection.deadline(APPEND.name)
        try:
            return self._append(topic, data, deadline)
        except TopicRecreated:
            # The producer knew the topic's former life; nothing of this append is in the new one.
            return self._append(topic, data, deadline)

    def _append(self, topic: str, data: Rows, deadline: Deadline) -> Appended:
        while True:
            producer = self._producer_of(topic, deadline)
            try:
                return producer.append_and_flush(data, deadline)
            except ProducerClosed as error:
                # An earlier append failed, or another thread's, for which this one waited. Nothing
                # of this one was taken, so another producer may have it.
                with self._lock:
                    if self._producers.get(topic) is producer:
                        del self._producers[topic]
                if deadline.remaining_s() <= 0:
                    raise deadline.error(error) from None

    def producer(
        self,
        topic: str,
        *,
        compression: str | None = None,
        batch_bytes: int | None = None,
        max_in_flight: int | None = None,
    ) -> Producer:
        """A producer of its own, for many appends; defaults are the client's settings."""
        return self._new_producer(
            self.describe_topic(topic), compression, batch_bytes, max_in_flight
        )

    def _producer_of(self, topic: str, deadline: Deadline) -> Producer:
        """One producer a topic serves all `append` calls, so that the log knows few of them."""
        producer = self._producers.get(topic)
        if producer is not None:
            return producer
        made = self._new_producer(self._describe(topic, deadline))
        with self._lock:
            # Another thread may have been faster; what was made here has sent nothing.
            return self._producers.setdefault(topic, made)

    def _new_producer(
        self,
        topic: TopicInfo,
        compression: str | None = None,
        batch_bytes: int | None = None,
        max_in_flight: int | None = None,
    ) -> Producer:
        settings = self.settings
        return Producer(
            self._connection,
            topic,
            compression=compression or settings.compression,
            batch_bytes=batch_bytes or settings.batch_bytes,
            max_in_flight=max_in_flight or settings.max_in_flight,
        )

    # ------------------------------------------------------------ reading

    def read(
        self,
        topic: TopicInfo | str,
        start: int = 0,
        end: int | None = None,
        *,
        mark: int | None = None,
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
    ) -> Iterator[pa.RecordBatch]:
        """The records [start, end) as Arrow batches, in order, from any replica.

        Without `mark`, `end` stops at the high-water mark of now (None: all up to there). A caller
        who knows a mark passes it and saves the question; then `end` must not exceed it.
        `columns` may name metadata columns: _topic, _offset, _timestamp, _epoch, _writer, _term.
        """
        reader = self._reader(topic, columns, preference)
        if mark is None:
            mark = reader.mark().high_water_mark
            end = mark if end is None else min(end, mark)
        end = mark if end is None else end
        return reader.batches(Offset(start), Offset(end), mark=Offset(mark))

    def follow(
        self,
        topic: TopicInfo | str,
        start: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Records from `start` (None: the end of now) as they come, until nothing came for
        `idle_timeout_s` (None: for ever).

        That nothing came is the leader's word: where none can be asked, `DeadlineExceeded` is
        raised, and what was given so far stands."""
        reader = self._reader(topic, columns, "nearest")
        position = Offset(start) if start is not None else reader.mark().high_water_mark
        check_offset("start", position)
        patience_s = self.settings.request_timeout_s if idle_timeout_s is None else idle_timeout_s
        while True:
            came = reader.wait(Offset(position + 1), patience_s)
            mark = reader.mark().high_water_mark
            if mark > position:
                yield from reader.batches(position, mark, mark=mark)
                position = mark
            elif not came and idle_timeout_s is not None:
                return

    def read_high_water_mark(self, topic: TopicInfo) -> ReadableRange:
        """Log start, high-water mark and bytes by a linearizable read at the leader."""
        return self._reader(topic, None, "leader").mark()

    def read_sizes(
        self, topic: TopicInfo, start: int, end: int, *, mark: int, pieces_max: int
    ) -> RangeSizes:
        """How the bytes of [start, end) lie, to split a range into pieces of about equal bytes."""
        return self._reader(topic, None, "nearest").sizes(
            Offset(start), Offset(end), mark=Offset(mark), pieces_max=pieces_max
        )

    def _reader(
        self, topic: TopicInfo | str, columns: Sequence[str] | None, preference: ReadPreference
    ) -> TopicReader:
        info = self.describe_topic(topic) if isinstance(topic, str) else topic
        return TopicReader(self._connection, info, columns=columns, preference=preference)

    # ------------------------------------------------------------ epochs

    def attempt(
        self,
        topic: TopicInfo,
        key: EpochKey,
        *,
        compression: str | None = None,
        batch_bytes: int | None = None,
        max_in_flight: int | None = None,
        create_writer: bool = False,
    ) -> Attempt:
        """A task's attempt at its part of the epoch `key`; see `Attempt`."""
        settings = self.settings
        return Attempt(
            self._connection,
            topic,
            key,
            compression=compression or settings.compression,
            batch_bytes=batch_bytes or settings.batch_bytes,
            max_in_flight=max_in_flight or settings.max_in_flight,
            create_writer=create_writer,
        )

    def commit_epoch(
        self,
        topic: TopicInfo,
        key: EpochKey,
        attempts: Sequence[AttemptReference],
        *,
        keep_on_mismatch: bool = False,
        create_writer: bool = False,
        transient_writer: bool = False,
        plan: str = "",
    ) -> EpochCommitted:
        """Make the attempts visible, in order, all or nothing; a repeat changes nothing.

        `plan` is a digest that is the same whenever this epoch is replayed, and another one when
        its number is given to other rows: with it a replay is known whatever its record count.
        Raises what `raftlog.errors.WriteRefused` covers, each with its remedy.
        """
        call = CommitEpochCall(
            group=topic.group,
            incarnation=topic.incarnation,
            key=key,
            attempts=tuple(attempts),
            schema_version=topic.schema.version,
            keep_on_mismatch=keep_on_mismatch,
            create_writer=create_writer,
            transient_writer=transient_writer,
            plan=plan,
        )
        return self._connection.call_leader(topic.group, COMMIT_EPOCH, call)

    def abort_epoch(self, topic: TopicInfo, key: EpochKey) -> int:
        """Drop the open attempts of exactly this (writer, run, epoch); how many there were."""
        call = AbortEpochCall(group=topic.group, incarnation=topic.incarnation, key=key)
        reply = self._connection.call_leader(topic.group, ABORT_EPOCH, call)
        return reply.attempts

    # ------------------------------------------------------------ writers

    def writers(self, topic: TopicInfo | str) -> Iterator[WriterView]:
        """The writers that the topic remembers, by name (linearizable, a page at a time: what comes
        or goes meanwhile may be missed)."""
        info = self.describe_topic(topic) if isinstance(topic, str) else topic
        reply = self._list_writers(info)
        yield from reply.writers
        while reply.more:
            reply = self._list_writers(info, after=reply.writers[-1].writer)
            yield from reply.writers

    def describe_writer(self, topic: TopicInfo | str, writer: str) -> WriterView:
        """What the topic remembers of the writer (linearizable). Raises `WriterNotFound`."""
        info = self.describe_topic(topic) if isinstance(topic, str) else topic
        found = self._list_writers(info, writer=writer).writers
        if not found:
            raise WriterNotFound(topic=info.name, writer=writer)
        return found[0]

    def _list_writers(self, topic: TopicInfo, *, after: str = "", writer: str = "") -> WritersReply:
        call = ListWriters(
            group=topic.group, incarnation=topic.incarnation, after=after, writer=writer
        )
        return self._connection.call_leader(topic.group, LIST_WRITERS, call)

    def remove_writer(self, topic: TopicInfo | str, writer: str) -> WriterView:
        """Forget a writer and drop what it has open; returns what it was. Its records stay.

        ! A running query is refused from then on (`UnknownWriter`), and what a named batch writer
        wrote is not recognised when it is written again. Raises `WriterNotFound`, `RulesTooOld`.
        """
        info = self.describe_topic(topic) if isinstance(topic, str) else topic
        found = self.describe_writer(info, writer)
        call = RemoveWriterCall(group=info.group, incarnation=info.incarnation, writer=writer)
        # It was there a moment ago: if no more, an earlier try of this call did it, or another's.
        self._connection.call_leader(info.group, REMOVE_WRITER, call)
        return found

    # ------------------------------------------------------------ watching

    def watermark(self, topic: TopicInfo | str) -> Watermark:
        """The topic's marks and its replicas' lag, as all nodes that answer see them."""
        info = self.describe_topic(topic) if isinstance(topic, str) else topic
        return watermark_of(info, self.views([info.group]))

    def views(self, groups: Sequence[GroupId] = ()) -> list[NodeAnswer]:
        """Every node's view of its replicas in these groups (none named: in all), or the error why
        there is none; one short try."""
        call = WatchGroups(groups=tuple(groups))
        described = self.describe_cluster()
        addresses: dict[NodeId, str] = {}
        for _, answer in described:
            if isinstance(answer, ClusterDescription):
                addresses.update(answer.nodes)
        answers: list[NodeAnswer] = []
        for node, address in sorted(addresses.items()):
            reply: NodeView | RaftlogError
            try:
                reply = self._connection.ask(address, WATCH_GROUPS, call, self._view_timeout_s)
            except RaftlogError as error:
                reply = error
            answers.append(NodeAnswer(node, address, reply))
        return answers

    def cluster_id(self) -> str:
        """The id of the cluster that the servers are of, asked now."""
        reply = self._connection.call_any(DESCRIBE_CLUSTER, DescribeCluster())
        return reply.cluster_id

    def describe_cluster(self) -> list[tuple[str, ClusterDescription | RaftlogError]]:
        """Each known node's address with its own description of the cluster, or why it gave none.

        Raises `NodeUnreachable` where nothing listens at any address, `DeadlineExceeded` when no
        node answers.
        """
        answers: list[tuple[str, ClusterDescription | RaftlogError]] = []
        for address in self._connection.addresses():
            try:
                answers.append(
                    (
                        address,
                        self._connection.ask(
                            address, DESCRIBE_CLUSTER, DescribeCluster(), self._view_timeout_s
                        ),
                    )
                )
            except RaftlogError as error:
                answers.append((address, error))
        if all(isinstance(answer, RaftlogError) for _, answer in answers):
            raise DeadlineExceeded(
                what=DESCRIBE_CLUSTER.name,
                seconds=f"{self._view_timeout_s:g}",
                last=str(answers[0][1]),
            )
        return answers

    @property
    def _view_timeout_s(self) -> float:
        return min(2.0, self.settings.request_timeout_s)
