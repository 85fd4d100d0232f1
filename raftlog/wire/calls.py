"""The calls of a node, as typed values: what a client asks and what a node answers.

A write is answered with the outcome of its command (`raftlog.machines.outcomes`).

A call is one frame there and one frame back, or for `Read` a stream of frames back. The table at
the end of this file names each call once, with its types; `CALLS` holds them all, and a node
serves exactly these. Deadlines are total and travel with grpc. A refusal travels as the error's
code and values (`raftlog.errors.to_wire`).

Only the group's leader answers calls marked *leader*; other nodes answer `NotLeader` with a hint.
`group` and `incarnation` both name a topic: the group finds it, the incarnation proves that it is
the one the caller means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
from raftlog.machines.outcomes import (
    Appended,
    EpochAborted,
    EpochCommitted,
    NodeRegistered,
    Staged,
    TopicCreated,
    TopicDeleted,
    WriterRemoved,
)
from raftlog.machines.schema import Schema
from raftlog.wire.batch import BatchHeader


class NodeAddress(NamedTuple):
    node: NodeId
    address: str


READ_PIECES_MAX = 10_000
"""Pieces that a range of records may be split into. More tasks than any Spark stage should have,
and what a node finds within some 10 ms of its loop. Clients and nodes share it, so it is no
setting."""


# ---------------------------------------------------------------- the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCluster:
    """Any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """As the asked node sees it; `leader` of the controller, 0 while unknown.

    `registered`: it has learnt that the controller binds its number to its `store_uuid`.
    `disk_keeps_up`: its writes end in time and find room; `disk_full` names the file for which
    there is none, "" while there is.
    `rules`: the version that the controller permits (`raftlog.machines.rules`); `rules_known`: the
    highest that this node's program knows; `behind_rules`: the nodes that hold that one back.
    """

    cluster_id: str
    node: NodeId
    store_uuid: str
    leader: NodeId
    term: Term
    nodes: tuple[NodeAddress, ...]
    version: str
    registered: bool
    disk_keeps_up: bool
    disk_full: str
    rules: int
    rules_known: int
    behind_rules: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeCall:
    """Leader of the controller. `rules`: the highest version that the node's program knows."""

    node: NodeId
    store_uuid: str
    address: str
    rules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicCall:
    """Leader of the controller. The caller mints `incarnation`, so that a resend is recognised."""

    name: str
    incarnation: str
    schema: Schema
    if_not_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicCall:
    """Leader of the controller."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopic:
    """Leader of the controller (linearizable)."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReply:
    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTopics:
    """Leader of the controller (linearizable)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsReply:
    topics: tuple[TopicInfo, ...]


# ---------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCall:
    """Leader of the topic. The frame's body is the batch's."""

    group: GroupId
    incarnation: str
    producer: str
    sequence: int
    batch: BatchHeader
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCall:
    """Leader of the topic. The frame's body is the batch's."""

    group: GroupId
    incarnation: str
    key: EpochKey
    attempt: str
    number: int
    create_writer: bool
    batch: BatchHeader
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEpochCall:
    """Leader of the topic."""

    group: GroupId
    incarnation: str
    key: EpochKey
    attempts: tuple[AttemptReference, ...]
    schema_version: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    plan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortEpochCall:
    """Leader of the topic."""

    group: GroupId
    incarnation: str
    key: EpochKey


# ---------------------------------------------------------------- reading and watching


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHighWaterMark:
    """Leader of the topic: a linearizable read of its high-water mark (ReadIndex)."""

    group: GroupId
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableRange:
    """The records at [log_start_offset, high_water_mark) may be read."""

    log_start_offset: Offset
    high_water_mark: Offset
    record_bytes: int
    """Body bytes of the records at [log_start_offset, high_water_mark)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """Any replica: the extents that meet [start, end), streamed in order.

    `mark` is a high-water mark the caller knows to exist (so `end <= mark`); a replica that has
    applied less waits briefly, then answers `NotYet`. `field_ids`
    are the columns wanted; with `all_fields` they are ignored. None wanted is valid (counting).
    """

    group: GroupId
    incarnation: str
    start: Offset
    end: Offset
    mark: Offset
    field_ids: tuple[int, ...]
    all_fields: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentReply:
    """One extent: the frame's body is its wanted chunks, positions in `batch` counted from 0.

    The whole extent travels even where [start, end) meets only a part of it: the client slices.
    `writer` and `epoch` are "" and -1 for plain appends.
    """

    start: Offset
    batch: BatchHeader
    timestamp_us: int
    term: Term
    writer: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSizes:
    """Any replica that has applied `mark`: how the bytes of [start, end) lie, to split reads.

    `pieces_max` lies in [1, READ_PIECES_MAX]."""

    group: GroupId
    incarnation: str
    start: Offset
    end: Offset
    mark: Offset
    pieces_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSizes:
    """Boundaries at extents: `offsets` rises from start to end, `body_bytes[i]` lie between
    offsets[i] and offsets[i + 1]; at most `pieces_max` pieces of about equal bytes."""

    offsets: tuple[Offset, ...]
    body_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchGroups:
    """Any node: the asked node's own view of its replicas; `groups` empty: all of them."""

    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerView:
    """What a leader knows of one voter, itself included."""

    node: NodeId
    match_index: LogIndex
    contact_ms_ago: int
    """Since the voter's last answer, or since the leader's election; 0 for the leader itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One replica as its node sees it. Offsets are 0 for the controller's group.

    `followers` is empty unless this node leads the group.
    """

    group: GroupId
    topic: str
    incarnation: str
    node: NodeId
    role: str
    leader: NodeId
    term: Term
    last_index: LogIndex
    commit_index: LogIndex
    applied_index: LogIndex
    log_start_offset: Offset
    high_water_mark: Offset
    open_epochs: int
    staged_bytes: int
    state_hash: str
    followers: tuple[FollowerView, ...]
    dead_bytes: int
    """Body bytes in the log that nobody will ever read: a figure for people."""
    state: str
    """`trusted`, `diverged` or `disputed` (`raftlog.state_comparison`); "" from an older node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node's replicas as the node itself sees them."""

    node: NodeId
    groups: tuple[GroupView, ...]


# ---------------------------------------------------------------- writers


WRITERS_PER_PAGE_MAX = 1_000
"""Rows in one `WritersReply`, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWriters:
    """Leader of the topic (linearizable): the writer rows above `after`, by name; with `writer`
    only that one."""

    group: GroupId
    incarnation: str
    after: str
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterView:
    """What the topic remembers of one writer. `kind` is "stream", "named batch" or "transient".

    `last_epoch` is -1 until it has committed one. `staged_bytes` is what its open epochs count.
    `active_us` is log time, 0 where the topic's rules know no ages. Nothing sets `owner` yet.
    """

    writer: str
    kind: str
    owner: str
    query_id: str
    run: str
    last_epoch: int
    open_epochs: int
    staged_bytes: int
    active_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersReply:
    """`more`: there are writer rows above the last of these."""

    writers: tuple[WriterView, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWriterCall:
    """Leader of the topic."""

    group: GroupId
    incarnation: str
    writer: str


# ---------------------------------------------------------------- between nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerHello:
    """The first frame of a peer stream: who calls, from which start of its process."""

    cluster_id: str
    node: NodeId
    store_uuid: str
    boot_id: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWelcome:
    """The accepting node's answer.

    It takes messages of at most `message_bytes_max`, and longer frames in pieces; 0: it is of a
    version that knows no pieces.
    """

    node: NodeId
    store_uuid: str
    boot_id: str
    message_bytes_max: int


# ---------------------------------------------------------------- the table

Request = TypeVar("Request")
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Call(Generic[Request, Reply]):
    """One call: its name on the wire, what is asked and what is answered.

    Every call is exactly one of `PlainCall`, `BodyCall` and `StreamedCall`.
    """

    name: str
    request: type[Request]
    reply: type[Reply]


class PlainCall(Call[Request, Reply]):
    """One request, one reply, no bodies."""

    __slots__ = ()


class BodyCall(Call[Request, Reply]):
    """One request with the body of a record batch, one reply without."""

    __slots__ = ()


class StreamedCall(Call[Request, Reply]):
    """One request, and a stream of replies, each with a body."""

    __slots__ = ()


UnaryCall = PlainCall[Request, Reply] | BodyCall[Request, Reply]
"""A call with one reply."""

SERVICE = "raftlog.v1.Log"
PEER_SERVICE = "raftlog.v1.Peer"

DESCRIBE_CLUSTER = PlainCall("DescribeCluster", DescribeCluster, ClusterDescription)
REGISTER_NODE = PlainCall("RegisterNode", RegisterNodeCall, NodeRegistered)
CREATE_TOPIC = PlainCall("CreateTopic", CreateTopicCall, TopicCreated)
DELETE_TOPIC = PlainCall("DeleteTopic", DeleteTopicCall, TopicDeleted)
DESCRIBE_TOPIC = PlainCall("DescribeTopic", DescribeTopic, TopicReply)
LIST_TOPICS = PlainCall("ListTopics", ListTopics, TopicsReply)
APPEND = BodyCall("Append", AppendCall, Appended)
STAGE = BodyCall("Stage", StageCall, Staged)
COMMIT_EPOCH = PlainCall("CommitEpoch", CommitEpochCall, EpochCommitted)
ABORT_EPOCH = PlainCall("AbortEpoch", AbortEpochCall, EpochAborted)
READ_HIGH_WATER_MARK = PlainCall("ReadHighWaterMark", ReadHighWaterMark, ReadableRange)
READ = StreamedCall("Read", ReadCall, ExtentReply)
READ_SIZES = PlainCall("ReadSizes", ReadSizes, RangeSizes)
WATCH_GROUPS = PlainCall("WatchGroups", WatchGroups, NodeView)
LIST_WRITERS = PlainCall("ListWriters", ListWriters, WritersReply)
REMOVE_WRITER = PlainCall("RemoveWriter", RemoveWriterCall, WriterRemoved)

CALLS: dict[str, Call[Any, Any]] = {
    call.name: call for call in tuple(globals().values()) if isinstance(call, Call)
}
"""Every call of `SERVICE` by name: all those above, so that none is listed twice."""
