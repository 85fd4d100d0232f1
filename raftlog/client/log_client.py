"""The client that `raftlog.connect` gives: topics, appends, reads, epochs, marks."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from raftlog.auth.principals import Caller
from raftlog.auth.rights import Right
from raftlog.client import epochs, every_node, topics
from raftlog.client.access import AccessControl
from raftlog.client.arguments import (
    TrimArguments,
    flag_argument,
    groups_argument,
    name_argument,
    replicas_argument,
    settings_argument,
    topic_argument,
)
from raftlog.client.attempt import Attempt
from raftlog.client.cluster_members import ClusterMembers
from raftlog.client.columns import column_changes
from raftlog.client.connection import Connection
from raftlog.client.epoch_key import check_key
from raftlog.client.groups import Groups
from raftlog.client.positions import ReaderPositions
from raftlog.client.producer import Producer, Rows, close_with_client
from raftlog.client.quotas import PrincipalQuotas
from raftlog.client.retries import Deadline
from raftlog.client.shared_producers import SharedProducers
from raftlog.client.topic_reads import TopicReads
from raftlog.client.wanting import wanting
from raftlog.client.watermark import NodeAnswer, Watermark, watermark_of
from raftlog.client.writers import TopicWriters
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, Offset
from raftlog.errors import RaftlogError
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
from raftlog.machines.outcomes import Appended, EpochCommitted
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import schema_of
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    TRIM,
    ClusterDescription,
    DescribeCluster,
    NodeView,
    ReadableRange,
    TrimCall,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "ClusterDescription",
    "NodeView",
    "LogClient",
    "ReadableRange",
    "TopicInfo",
]
"""The client, and the types of what it answers."""

SchemaLike: TypeAlias = "str | pa.Schema | Schema | pd.DataFrame"
"""A schema as Spark DDL text, as Spark JSON text, as an Arrow schema, as a topic has it, or as the
columns and the named index of a pandas DataFrame."""


class LogClient(TopicReads):
    """A client of one cluster: synchronous, thread-safe, usable in a forked child.

    Fork only while no call of the client is in flight and its producers are flushed. grpc's threads
    do not exist in the child, and a child that was forked in the middle of their work may hang or
    crash at its first call.

    Each request has one total deadline (`client.request_timeout_s`). Within it the client retries
    what may be retried. A request that fails raises a `raftlog.errors.RaftlogError`, which names
    cause and remedy. Every request may raise `DeadlineExceeded` or `NodeUnreachable`. An argument
    that no call can have raises `InvalidOption` at the call, before any node is asked.

    Every method that takes a topic takes its name or its `TopicInfo`. A name means the topic that
    has it now, which costs a request to look up. A `TopicInfo` means exactly that incarnation.
    `TopicNotFound` says that no topic has the name, `TopicRecreated` that the incarnation is gone.

    Attributes:
        kv: The cluster's key-value store: keys with versions, scans, watches.
        positions: How far reader groups have got, and how far they are behind.
        groups: The Raft groups: their logs, states and events.
        writers: The writers that topics remember for exactly-once.
        acl: Who may do what, as grants.
        quotas: How much callers may use of each node.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._shared_producers = SharedProducers(connection, self._describe)
        self._producers: set[weakref.ref[Producer]] = set()
        """No WeakSet: iterating over one fails if another thread adds to it."""
        self.positions = ReaderPositions(connection, self.kv, self.views)
        self.writers = TopicWriters(connection)
        self.acl = AccessControl(self.kv)
        self.quotas = PrincipalQuotas(self.kv)
        self.groups = Groups(connection)

    def __enter__(self) -> LogClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None or issubclass(kind, SystemExit):
            self.close()
            return
        for producer in self._open_producers():
            producer.__exit__(kind, error, trace)
        self._connection.close()

    @property
    def settings(self) -> ClientSettings:
        """The settings that the client was made with."""
        return self._connection.settings

    def close(self) -> None:
        """Flush and close the client's producers, then close its connections.

        Every other call ends with `ClientClosed`, also a `follow` in another thread. A `with` block
        that ends with an error, other than `sys.exit`, drops the rows that its producers have not
        sent.

        Raises:
            RaftlogError: The first error of a producer, whose rows may be missing from the log. All
                producers and the client are closed.
        """
        try:
            error = close_with_client(self._open_producers())
        finally:
            self._connection.close()
        if error is not None:
            raise error

    def _open_producers(self) -> list[Producer]:
        found = (known() for known in self._producers.copy())
        return [producer for producer in found if producer is not None]

    # ------------------------------------------------------------ topics

    def create_topic(
        self,
        name: str,
        schema: SchemaLike,
        *,
        if_not_exists: bool = False,
        settings: Mapping[str, int | None] | None = None,
        replicas: int | None = None,
    ) -> TopicInfo:
        """Create a topic. It is durable on a majority on return.

        Args:
            name: 1 to 249 ASCII letters, digits, `.`, `_` and `-`. It must not start with a dot.
            schema: The columns: Spark DDL text ("id bigint, text string"), the JSON text of a Spark
                schema, a `pa.Schema`, the `Schema` of another topic, or a pandas DataFrame whose
                columns Arrow knows the types of. An index with a name is a column.
            if_not_exists: Return a topic of this name that exists already, whatever its schema and
                settings.
            settings: Settings by name, as for `alter_topic`. Default: records stay until they are
                trimmed.
            replicas: On how many nodes it is, 1 to 7. Default: 3, or all if there are fewer.

        Returns:
            The topic.

        Raises:
            TopicExists: There is a topic of this name, and `if_not_exists` is not set.
            InvalidTopicName: No topic can have this name.
            InvalidOption: No topic can have this schema or these settings.
            TooFewNodes: There are fewer nodes than `replicas`.
        """
        changes = settings_argument(settings or {})
        return topics.create(
            self._connection,
            name_argument(name),
            schema_of(schema),
            changes,
            if_not_exists=flag_argument("if_not_exists", if_not_exists),
            replicas=replicas_argument(replicas),
        )

    def alter_topic(self, topic: TopicInfo | str, settings: Mapping[str, int | None]) -> TopicInfo:
        """Change some of a topic's settings. They hold for the records that it has, too.

        The oldest records are removed, permanently, while the topic has more than a setting keeps.
        They go once they are a whole stored batch, or a 64th of its records: a little more stays.

        Args:
            topic: The topic, or its name.
            settings: New values by name; None: nothing is removed because of it, the default. The
                others stay as they are. `retention_s`: how many seconds old, by `_timestamp`, a
                record may become. `retention_bytes`: how many of the newest bytes stay, as they
                were written (history files take less). `retention_records`: how many records.
                Records that a reader group has not read stay longer, if `retention_unread_s` or
                `retention_unread_bytes` is set: until they are older, or more came after them.

        Returns:
            The topic with all its settings.

        Raises:
            InvalidOption: There is no such setting, or it cannot have the value.
        """
        changes = settings_argument(settings)
        info = self._known(topic, Right.ALTER)
        return topics.alter(self._connection, info, changes) if changes else info

    def alter_schema(
        self,
        topic: TopicInfo | str,
        *,
        add: SchemaLike | None = None,
        types: SchemaLike | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        drop_not_null: Sequence[str] = (),
    ) -> TopicInfo:
        """Change columns of a topic, all of these or none. Records stay as they were written.

        Args:
            topic: The topic, or its name. A `TopicInfo` stands for the version of its schema.
            add: New columns, which come last and may be null, such as "gate string".
            types: Wider types, such as "delay bigint". Structs may get fields, last and nullable.
            rename: New names by old names.
            drop: Columns that cannot be read any more; writers that still have them are rejected.
            drop_not_null: Columns that may be null from now on.

        Returns:
            The topic as it is now.

        Raises:
            SchemaMismatch: A type does not hold each value of its column.
            SchemaChanged: Another client altered the topic since, in another way.
            InvalidOption: There is no such column, or no topic can have one like this.
        """
        info = self._known(topic, Right.ALTER)
        changes = column_changes(info, add, types, rename, drop, drop_not_null)
        if not changes:
            return info
        altered = topics.alter_schema(self._connection, info, changes)
        self._shared_producers.altered(altered)
        return altered

    def describe_topic(self, topic: TopicInfo | str, *, linearizable: bool = True) -> TopicInfo:
        """Look up a topic by a linearizable read, or as the nodes know it that answer.

        Args:
            topic: The topic, or its name.
            linearizable: False: no leader is needed. Each node is asked with one short try, and the
                latest that any of them knows is returned; the topic may have been changed, deleted
                or created since.

        Returns:
            The topic as it is now: its schema, incarnation, group and voters.

        Raises:
            TopicNotFound: No topic has the name; the error has the nearest names.
            TopicRecreated: The name now means another incarnation than that of the `TopicInfo`.
        """
        wanted = topic_argument(topic)
        if not flag_argument("linearizable", linearizable):
            name = wanted if isinstance(wanted, str) else wanted.name
            found = every_node.topic(self._connection, name, self._view_timeout_s)
            return topics.checked(found, wanted)
        if isinstance(wanted, str):
            return self._describe(wanted)
        return topics.same(self._connection, wanted)

    def _describe(self, name: str, deadline: Deadline | None = None) -> TopicInfo:
        return topics.named(self._connection, name, deadline)

    def _known(self, topic: TopicInfo | str, wanted: Right = Right.READ) -> TopicInfo:
        """The topic that is meant; `wanted` is the right that what comes next takes."""
        with wanting(wanted):
            return topics.meant(self._connection, topic)

    def list_topics(self) -> list[TopicInfo]:
        """List all topics by a linearizable read.

        Returns:
            The topics, sorted by name.
        """
        return topics.all_topics(self._connection)

    def delete_topic(self, topic: TopicInfo | str) -> TopicInfo:
        """Delete a topic and its records, for good.

        Within a heartbeat after the return its leader may still acknowledge an append: its records
        are deleted with the topic.

        Args:
            topic: The topic, or its name. A `TopicInfo` protects a topic that was created again
                under the name since.

        Returns:
            The topic that was deleted.

        Raises:
            TopicNotFound: No topic has the name.
            TopicRecreated: The name now means another incarnation than that of the `TopicInfo`.
        """
        with wanting(Right.DELETE):
            found = self.describe_topic(topic)
        topics.delete(self._connection, found)
        return found

    def trim(self, topic: TopicInfo | str, *, before: int) -> Offset:
        """Remove a topic's records below an offset, for good.

        Offsets stay: the next record gets the one that it would have got. Writers and producers
        continue, and what they send again is still recognised. A reader that asks for a removed
        record gets `OffsetTrimmed`.

        Args:
            topic: The topic, or its name.
            before: The first offset to keep, 0 or more. Above the high-water mark it means the
                mark, so that no record is left.

        Returns:
            The log's start now. It is above `before` if the topic was trimmed further already.

        Raises:
            InvalidOption: `before` is no offset.
        """
        TrimArguments().with_values(before=before)
        info = self._known(topic, Right.DELETE)
        call = TrimCall(group=info.group, incarnation=info.incarnation, offset=Offset(before))
        return self._connection.call_leader(info.group, TRIM, call).log_start_offset

    # ------------------------------------------------------------ appending

    def append(self, topic: TopicInfo | str, data: Rows) -> Appended:
        """Append rows, and wait until they are durable on a majority and readable.

        Args:
            topic: The topic, or its name.
            data: A `pa.Table`, a `pa.RecordBatch`, a pandas DataFrame, or a list of mappings from
                column name to value. A nullable column that they lack is null. A DataFrame's index
                is a column if it has a name, and left out if not.

        Returns:
            The rows' offsets [start, end). If the rows need several entries, other producers' rows
            may lie in between.

        Raises:
            SchemaMismatch: The rows do not fit the topic's schema; `rows` has the number of the
                first that does not, if it is one's value. With the topic's name, a change
                of its columns is learnt at once. Only if a leader changed during the same append is
                it told, because the log may have the rows already: look before you send them again.
            InvalidOption: `data` is something else. Nothing was sent.
            TooLarge: Rows are left out: `rows` has their numbers. The others are in the log.
            WriteRefused: The log refused the rows; each subclass says why.
        """
        return self._shared_producers.append(topic_argument(topic), data)

    def producer(
        self,
        topic: TopicInfo | str,
        *,
        compression: str | None = None,
        batch_bytes: int | None = None,
        max_in_flight: int | None = None,
        linger_s: float | None = None,
    ) -> Producer:
        """Make a producer, for many appends to one topic.

        Args:
            topic: The topic, or its name.
            compression: `lz4`, `zstd` or `none`. Default: `client.compression`.
            batch_bytes: Uncompressed bytes of rows that are sent as one entry, 1024 to 268435456.
                Default: `client.batch_bytes`.
            max_in_flight: Entries that are sent before the first is answered, 1 to 64. Default:
                `client.max_in_flight`.
            linger_s: How many seconds a row waits for others of its entry, 0 to 60. Default:
                `client.linger_s`.

        Returns:
            A producer that shares its id and sequence with no other.

        Raises:
            InvalidOption: An argument has no valid value.
        """
        settings = self.settings.with_arguments(
            compression=compression,
            batch_bytes=batch_bytes,
            max_in_flight=max_in_flight,
            linger_s=linger_s,
        )
        producer = Producer(self._connection, self._known(topic, Right.WRITE), settings)
        self._producers.add(weakref.ref(producer, self._producers.discard))
        return producer

    # ------------------------------------------------------------ epochs

    def attempt(
        self,
        topic: TopicInfo | str,
        key: EpochKey,
        *,
        compression: str | None = None,
        batch_bytes: int | None = None,
        max_in_flight: int | None = None,
        create_writer: bool = False,
    ) -> Attempt:
        """Make a task's attempt at its part of an epoch; see `Attempt`.

        Args:
            topic: The topic, or its name.
            key: The writer, its run, and the epoch.
            compression: As in `producer`.
            batch_bytes: As in `producer`.
            max_in_flight: As in `producer`.
            create_writer: Accept a stream above epoch 0 in a topic that does not know the writer.

        Returns:
            An attempt under a new random id.

        Raises:
            InvalidOption: An argument has no valid value, or a part of the key.
        """
        settings = self.settings.with_arguments(
            compression=compression, batch_bytes=batch_bytes, max_in_flight=max_in_flight
        )
        check_key(key)
        flag_argument("create_writer", create_writer)
        info = self._known(topic, Right.WRITE)
        return Attempt(self._connection, info, key, settings, create_writer=create_writer)

    def commit_epoch(
        self,
        topic: TopicInfo | str,
        key: EpochKey,
        attempts: Sequence[AttemptReference],
        *,
        keep_on_mismatch: bool = False,
        create_writer: bool = False,
        transient_writer: bool = False,
        plan: str = "",
        overwrite: bool = False,
    ) -> EpochCommitted:
        """Make an epoch's attempts visible, in order, all or nothing. A repeat changes nothing.

        Args:
            topic: The topic, or its name.
            key: The writer, its run, and the epoch.
            attempts: The attempts to make visible, in the order of their records. None is valid:
                the epoch is then empty.
            keep_on_mismatch: If a replay has another size or plan, keep what is in the log and do
                not fail.
            create_writer: Accept a stream above epoch 0 in a topic that does not know the writer.
            transient_writer: The writer is not used again, so the log may forget it by age.
            plan: A digest that is the same whenever this epoch is replayed, and differs if its
                number is given to other rows. With it, a replay is known whatever its record count.
                "": unknown. At most 1024 characters.
            overwrite: Its records take the place of all that are visible, at once: the log start
                moves to the first of them, as by a trim. A replay removes nothing.

        Returns:
            The epoch's offsets [start, end), and whether this was a replay.

        Raises:
            WriteRefused: An exactly-once rule refused the epoch; each subclass says why.
            InvalidOption: The key has a value that no topic accepts.
        """
        check_key(key)
        return epochs.make_visible(
            self._connection,
            lambda: self._known(topic, Right.WRITE),
            key,
            attempts,
            keep_on_mismatch=keep_on_mismatch,
            create_writer=create_writer,
            transient_writer=transient_writer,
            plan=plan,
            overwrite=overwrite,
        )

    def abort_epoch(self, topic: TopicInfo | str, key: EpochKey) -> int:
        """Drop the open attempts of exactly this writer, run and epoch.

        Args:
            topic: The topic, or its name.
            key: The writer, its run, and the epoch.

        Returns:
            How many attempts were dropped.

        Raises:
            InvalidOption: A part of the key has no valid value.
        """
        check_key(key)
        return epochs.drop(self._connection, self._known(topic, Right.WRITE), key)

    # ------------------------------------------------------------ watching

    def watermark(self, topic: TopicInfo | str) -> Watermark:
        """Ask all nodes for a topic's marks and its replicas' lag. Not linearizable.

        Args:
            topic: The topic, or its name.

        Returns:
            The marks as the nodes that answered see them.
        """
        info = self._known(topic)
        return watermark_of(info, self.views([info.group]))

    def views(self, groups: Sequence[GroupId] = ()) -> list[NodeAnswer]:
        """Ask every node for its view of its replicas, with one short try each.

        Args:
            groups: The groups to ask about. Default: all.

        Returns:
            Each node's view, or the error that it gave, by node.
        """
        return every_node.views(self._connection, groups_argument(groups), self._view_timeout_s)

    def scrub(self, groups: Sequence[GroupId] = ()) -> list[NodeAnswer]:
        """Let every node begin to check all that it has on disk; `views` shows how far it is.

        Args:
            groups: The groups to check. Default: all, and the nodes' own files.

        Returns:
            Each node's view, or the error that it gave, by node.
        """
        return every_node.scrub(self._connection, groups_argument(groups), self._view_timeout_s)

    @property
    def members(self) -> ClusterMembers:
        """The cluster's nodes, and where its groups are."""
        return ClusterMembers(self._connection, view_timeout_s=self._view_timeout_s)

    def cluster_id(self) -> str:
        """Ask which cluster the servers belong to.

        Returns:
            The cluster's id, which never changes.
        """
        return self._connection.call_any(DESCRIBE_CLUSTER, DescribeCluster()).cluster_id

    def whoami(self) -> Caller | None:
        """Ask for the principal that the cluster knows this client by.

        Returns:
            The principal and its groups; None if the nodes do not authenticate their callers.

        Raises:
            Unauthenticated: They do, and do not know this client.
        """
        told = self._connection.call_any(DESCRIBE_CLUSTER, DescribeCluster())
        if not told.caller:
            return None
        return Caller(principal=told.caller, groups=frozenset(told.caller_groups))

    def describe_cluster(self) -> list[tuple[str, ClusterDescription | RaftlogError]]:
        """Ask every known node for its description of the cluster, with one short try each.

        Returns:
            Each node's address with its description, or with the error that it gave.

        Raises:
            NodeUnreachable: Nothing listens at any address.
            Unauthenticated: No node gave a description, and one does not know the caller; likewise
                any other error that waiting does not change.
            DeadlineExceeded: No node answered.
        """
        return every_node.descriptions(self._connection, self._view_timeout_s)

    @property
    def _view_timeout_s(self) -> float:
        return min(self.settings.view_timeout_s, self.settings.request_timeout_s)
