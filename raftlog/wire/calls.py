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
from typing import Any, Generic, TypeVar

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    AttemptReference,
    EpochKey,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    SetDuty,
    SetParents,
    TopicInfo,
)
from raftlog.machines.outcomes import (
    Appended,
    DutySet,
    EpochAborted,
    EpochCommitted,
    GroupPlaced,
    NodeAdded,
    NodeRegistered,
    NodeRetired,
    ParentsSet,
    PlacementReported,
    SessionOpened,
    Staged,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
)
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting
from raftlog.predicates.predicate import Predicate
from raftlog.wire import group_calls
from raftlog.wire.batch import BatchHeader
from raftlog.wire.group_calls import NodeAddress
from raftlog.wire.kv_calls import (
    DeleteKeyCall,
    KeyChanges,
    KeysReply,
    KvReply,
    OpenKv,
    OpenSessionCall,
    PutKeyCall,
    ReadKeys,
    WatchKeys,
    WriteReply,
)
from raftlog.wire.placing_calls import (
    DescribePlacements,
    PlaceGroupCall,
    PlacementsReply,
    TransferCall,
    TransferReply,
)
from raftlog.wire.runs import Runs

READ_PIECES_MAX = 10_000
"""Pieces that a range of records may be split into: more tasks than any Spark stage should have,
and some 20 ms of a node's loop. Clients and nodes share it, so it is no setting."""


# ---------------------------------------------------------------- the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCluster:
    """Any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster as the asked node sees it."""

    cluster_id: str
    """The cluster's random id, which never changes."""
    node: NodeId
    """The number of the node that answers, from 1."""
    store_uuid: str
    """The random id of its data folder. A wiped folder gets another one."""
    leader: NodeId
    """The node that leads the controller; 0 while it is unknown."""
    term: Term
    """The term of the controller's group, from 0."""
    nodes: tuple[NodeAddress, ...]
    """Every node that the controller knows, with its address."""
    version: str
    """The version of the node's program."""
    registered: bool
    """Whether the node has learnt that the controller binds its number to its `store_uuid`."""
    disk_keeps_up: bool
    """Whether its writes end in time and find room."""
    disk_full: str
    """What the disk has no room for; "" while there is room."""
    rules: int
    """The version of the rules that the controller permits, from 1 (`raftlog.machines.rules`)."""
    rules_known: int
    """The highest version of the rules that the node's program knows."""
    behind_rules: tuple[NodeId, ...]
    """The nodes whose programs hold `rules_known` back."""
    observers: tuple[NodeId, ...] = ()
    """The nodes that never vote, by number."""
    racks: tuple[str, ...] = ()
    """Where the nodes stand, in the order of `nodes`; "": it is not said."""
    unregistered: tuple[NodeId, ...] = ()
    """The nodes that have never come, by number."""
    lease_us: int = 0
    """How long a leader's lease lasts by the node's settings, microseconds; 0: it has none."""
    caller: str = ""
    """The caller's principal; "": the node does not authenticate its callers."""
    caller_groups: tuple[str, ...] = ()
    """The groups that it belongs to, as principals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicCall:
    """Leader of the controller. The caller mints `incarnation`, so that a resend is recognised."""

    name: str
    incarnation: str
    schema: Schema
    if_not_exists: bool
    settings: tuple[TopicSetting, ...] = ()
    replicas: int = 0
    """On how many nodes, 1 to 7; 0: on three, or on all if there are fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicCall:
    """Leader of the controller: change these settings. Answered by `TopicAltered`."""

    name: str
    incarnation: str
    settings: tuple[TopicSetting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicCall:
    """Leader of the controller."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopic:
    """Leader of the controller; with `any_node` any node, by what it has applied."""

    name: str
    any_node: bool = False


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
    """Leader of the topic. With `overwrite` the epoch's records take the place of all others."""

    group: GroupId
    incarnation: str
    key: EpochKey
    attempts: tuple[AttemptReference, ...]
    schema_version: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    plan: str = ""
    overwrite: bool = False


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
    """The first offset that is still kept."""
    high_water_mark: Offset
    """The first offset that is not readable yet."""
    record_bytes: int
    """Body bytes of the records at [log_start_offset, high_water_mark)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """Any replica: the batches that meet [start, end), streamed in order.

    `mark` is a high-water mark the caller knows to exist (so `end <= mark`); a replica that has
    applied less waits briefly, then answers `NotYet`. `field_ids` are the columns wanted; with
    `all_fields` they are ignored. None wanted is valid (counting).
    `verify`: the client got other bytes than were written, so the replica is to check its own
    copies of these batches; it answers `CorruptFile` if they are damaged, and heals them.
    """

    group: GroupId
    incarnation: str
    start: Offset
    end: Offset
    mark: Offset
    field_ids: tuple[int, ...]
    all_fields: bool
    verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReply:
    """One batch of records: the frame's body is its wanted chunks, positions in `batch` counted
    from 0.

    The whole batch travels even where [start, end) meets only a part of it: the client slices.
    `runs` are right for its records in [start, end); the others are in the runs next to these.
    """

    start: Offset
    batch: BatchHeader
    runs: Runs

    def __post_init__(self) -> None:
        problem = self.runs.problem(self.batch.record_count)
        assert problem is None, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSizes:
    """Any replica that has applied `mark`: how the bytes of [start, end) lie, to split reads.

    `pieces_max` lies in [1, READ_PIECES_MAX]. With `where`, all of whose predicates must be true,
    the answer also says where no record can match, and may end before `end`. A batch of a version
    of the schema above `where_version` is not judged."""

    group: GroupId
    incarnation: str
    start: Offset
    end: Offset
    mark: Offset
    pieces_max: int
    where: tuple[Predicate, ...] = ()
    where_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSizes:
    """How the bytes of a range of records lie, in pieces of about equal bytes that end at
    extents."""

    offsets: tuple[Offset, ...]
    """The pieces' boundaries, rising from the range's start to its end: one more than pieces. With
    predicates, to where the node stopped."""
    body_bytes: tuple[int, ...]
    """The bytes of each piece: `body_bytes[i]` lie between `offsets[i]` and `offsets[i + 1]`."""
    matches: tuple[bool, ...] = ()
    """Whether a piece may have records that match; none: all may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindOffset:
    """Leader of the topic: a linearizable search for the first record at or after a time."""

    group: GroupId
    incarnation: str
    timestamp_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFound:
    """The record's offset, log_start_offset or above; the high-water mark if there is none."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimCall:
    """Leader of the topic: remove the records below `offset`. Answered by `Trimmed`."""

    group: GroupId
    incarnation: str
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchGroups:
    """Any node: the asked node's own view of its replicas; `groups` empty: all of them."""

    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerView:
    """What a leader knows of one voter, itself included."""

    node: NodeId
    """The voter's number, from 1."""
    match_index: LogIndex
    """The last entry that the leader knows to be durable there; 0 if it knows of none."""
    contact_ms_ago: int
    """Milliseconds since the voter's last answer, or since the leader's election; 0 for the leader
    itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One replica as its node sees it."""

    group: GroupId
    """The Raft group: 0 is the controller's, topics count from 1. Never used again."""
    topic: str
    """The topic's name; "" for the controller."""
    incarnation: str
    """The topic's incarnation; "" for the controller."""
    node: NodeId
    """The number of the node that holds this replica, from 1."""
    role: str
    """`leader`, `follower`, `candidate`, `pre-candidate`; or `recovering`: it has lost its log,
    gets it again, and counts for no commit until then; or `incomplete`: its log lacks what its
    leader says that it acknowledged, and it gives no vote; or `observer`."""
    leader: NodeId
    """The node that leads as far as this one knows; 0 for none."""
    term: Term
    """The replica's term, from 0."""
    last_index: LogIndex
    """The last entry of its log; 0 if it is empty. Entries count from 1."""
    commit_index: LogIndex
    """The last entry that it knows to be committed."""
    applied_index: LogIndex
    """The last entry that its state contains; at most `commit_index`."""
    log_start_offset: Offset
    """The first offset that is still kept; 0 for the controller."""
    high_water_mark: Offset
    """The first offset that this replica does not serve yet; 0 for the controller."""
    open_epochs: int
    """Epochs that have staged records and are not committed."""
    staged_bytes: int
    """Bytes of the open epochs, which no reader sees yet."""
    state_hash: str
    """A digest of the state at `applied_index`, in hex: the same on every replica there."""
    followers: tuple[FollowerView, ...]
    """What the leader knows of each voter; empty unless this node leads the group."""
    dead_bytes: int
    """Body bytes in the log that no reader will ever get: a figure for people."""
    state: str
    """`trusted`, `diverged` or `disputed` (`raftlog.comparison`)."""
    log_start_index: LogIndex
    """The first entry that its log still holds."""
    log_bytes: int
    """Bytes of the log's files, without space reserved ahead."""
    snapshot_index: LogIndex
    """The entry of its newest snapshot; 0 for none."""
    history_end: Offset
    """Records below it are read from history files, others from the log; 0 if there are none."""
    history_bytes: int
    """Bytes of the history files."""
    points_behind: int
    """Snapshot points that it has applied and not compacted yet."""
    history: str
    """What is known of its history, as `state` of its state."""
    scrub: str = ""
    """Of a scrub of it: `running`, `waiting` for others, or ""."""
    scrub_read_bytes: int = 0
    """Bytes read by that scrub; if there is none, by the last one since the node started."""
    scrub_total_bytes: int = 0
    """About what that scrub has to read, in bytes."""
    scrubbed_us: int = 0
    """When all of it was last read, in microseconds since 1970 UTC; 0: not known."""
    damage_found: int = 0
    """Damaged entries and files of it that anything met since the node started."""
    damage_healed: int = 0
    """Those of them that are whole again."""
    damage_not_healable: int = 0
    """Those of them that no other replica could give."""
    damage_latest: str = ""
    """The last one that was found: file, position and problem."""
    retention_start: int = 0
    """Of a leader whose retention waits for reader groups: where the topic would begin if they had
    read everything, when it last looked; 0: it waits for none."""
    held_for: str = ""
    """The group that has read least, if it waits; "": the groups' positions could not be read."""

    @property
    def records_held(self) -> int:
        """Records that a leader's retention keeps only because a reader group has not read them."""
        return max(0, self.retention_start - self.log_start_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineView:
    """A group whose files on a node are damaged: it has no replica there."""

    group: GroupId
    """The Raft group, as in `GroupView`."""
    topic: str
    """The topic's name; "" if the node cannot tell."""
    problem: str
    """Which file is damaged, where, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideView:
    """A damaged folder that a node keeps and never reads. A person may remove it."""

    folder: str
    """Its path on the node."""
    byte_count: int
    """Bytes of the files in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubCall:
    """Any node: begin to read and check all that the asked node's replicas have on disk, one
    replica after another; `groups` empty: all of them. Answered at once, with its view of them."""

    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node's replicas as the node itself sees them."""

    node: NodeId
    """The node's number, from 1."""
    groups: tuple[GroupView, ...]
    """Its replicas that were asked for."""
    quarantined: tuple[QuarantineView, ...] = ()
    """Those of the groups asked for whose files are damaged."""
    set_aside: tuple[SetAsideView, ...] = ()
    """The damaged folders of all its groups that were filled again."""


# ---------------------------------------------------------------- writers


WRITERS_PER_PAGE_MAX = 1_000
WRITER_BYTES_PER_PAGE_MAX = 1024 * 1024
"""Rows in one `WritersReply`, and bytes of their texts, which the last row may exceed."""


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
    """What the topic remembers of one writer."""

    writer: str
    """The writer's name: a stream's query id, a `txnAppId`, or the run of a write without one."""
    kind: str
    """`stream`, `named batch` or `transient`."""
    owner: str
    """The principal that the writer belongs to; "": it belongs to none."""
    query_id: str
    """The streaming query's id; for a batch write the writer's own name."""
    run: str
    """The run that writes, or wrote last. Earlier ones are fenced."""
    last_epoch: int
    """The last epoch that it committed; -1 for none."""
    open_epochs: int
    """Its epochs that have staged records and are not committed."""
    staged_bytes: int
    """Bytes that its open epochs count against the topic's bound."""
    active_us: int
    """When it last wrote, in log time: microseconds since 1970 UTC."""
    plan: str
    """What its last epoch's commit gave as its plan; "" if that is not known."""
    last_start: Offset
    """The records of its last epoch are [last_start, last_end) of the topic; -1 for none."""
    last_end: Offset
    """See `last_start`."""
    stream: str
    """Of a named batch write in `foreachBatch`: the id of the query around it."""
    stream_batch: int
    """That query's batch that it committed last; -1 for none."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWriterOwnerCall:
    """Leader of the topic. `owner`: a principal, and no group or node."""

    group: GroupId
    incarnation: str
    writer: str
    owner: str


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


class LookupCall(PlainCall[Request, Reply]):
    """It changes nothing, so it ends when its caller may no longer make it."""

    __slots__ = ()


class BodyCall(Call[Request, Reply]):
    """One request with the body of a record batch, one reply without."""

    __slots__ = ()


class StreamedCall(Call[Request, Reply]):
    """One request, and a stream of replies, each with a body."""

    __slots__ = ()


class WatchCall(StreamedCall[Request, Reply]):
    """A stream that waits for what may never come. It ends when the node stops."""

    __slots__ = ()


UnaryCall = PlainCall[Request, Reply] | BodyCall[Request, Reply]
"""A call with one reply."""

CLUSTER_METADATA_KEY = "raftlog-cluster"
"""Names the cluster that a call is meant for, where the caller knows it."""

OTHER_CLUSTER = "a node of another cluster listens there"
"""The status of a call that is meant for another cluster."""

SERVICE = "raftlog.v1.Log"
PEER_SERVICE = "raftlog.v1.Peer"

DESCRIBE_CLUSTER = LookupCall("DescribeCluster", DescribeCluster, ClusterDescription)
REGISTER_NODE = PlainCall("RegisterNode", RegisterNode, NodeRegistered)
CREATE_TOPIC = PlainCall("CreateTopic", CreateTopicCall, TopicCreated)
ADD_NODE = PlainCall("AddNode", AddNode, NodeAdded)
SET_PARENTS = PlainCall("SetParents", SetParents, ParentsSet)
SET_DUTY = PlainCall("SetDuty", SetDuty, DutySet)
RETIRE_NODE = PlainCall("RetireNode", RetireNode, NodeRetired)
PLACE_GROUP = PlainCall("PlaceGroup", PlaceGroupCall, GroupPlaced)
REPORT_PLACEMENT = PlainCall("ReportPlacement", ReportPlacement, PlacementReported)
DESCRIBE_PLACEMENTS = LookupCall("DescribePlacements", DescribePlacements, PlacementsReply)
TRANSFER_LEADERSHIP = PlainCall("TransferLeadership", TransferCall, TransferReply)
ALTER_TOPIC = PlainCall("AlterTopic", AlterTopicCall, TopicAltered)
ALTER_SCHEMA = PlainCall("AlterSchema", AlterSchema, TopicAltered)
DELETE_TOPIC = PlainCall("DeleteTopic", DeleteTopicCall, TopicDeleted)
DESCRIBE_TOPIC = LookupCall("DescribeTopic", DescribeTopic, TopicReply)
LIST_TOPICS = LookupCall("ListTopics", ListTopics, TopicsReply)
APPEND = BodyCall("Append", AppendCall, Appended)
STAGE = BodyCall("Stage", StageCall, Staged)
COMMIT_EPOCH = PlainCall("CommitEpoch", CommitEpochCall, EpochCommitted)
ABORT_EPOCH = PlainCall("AbortEpoch", AbortEpochCall, EpochAborted)
READ_HIGH_WATER_MARK = LookupCall("ReadHighWaterMark", ReadHighWaterMark, ReadableRange)
READ = StreamedCall("Read", ReadCall, BatchReply)
READ_SIZES = LookupCall("ReadSizes", ReadSizes, RangeSizes)
FIND_OFFSET = LookupCall("FindOffset", FindOffset, OffsetFound)
TRIM = PlainCall("Trim", TrimCall, Trimmed)
WATCH_GROUPS = LookupCall("WatchGroups", WatchGroups, NodeView)
SCRUB = PlainCall("Scrub", ScrubCall, NodeView)
LIST_WRITERS = LookupCall("ListWriters", ListWriters, WritersReply)
REMOVE_WRITER = PlainCall("RemoveWriter", RemoveWriterCall, WriterRemoved)
SET_WRITER_OWNER = PlainCall("SetWriterOwner", SetWriterOwnerCall, WriterOwnerSet)
OPEN_KV = PlainCall("OpenKv", OpenKv, KvReply)
OPEN_SESSION = PlainCall("OpenSession", OpenSessionCall, SessionOpened)
PUT_KEY = PlainCall("PutKey", PutKeyCall, WriteReply)
DELETE_KEY = PlainCall("DeleteKey", DeleteKeyCall, WriteReply)
READ_KEYS = LookupCall("ReadKeys", ReadKeys, KeysReply)
WATCH_KEYS = WatchCall("WatchKeys", WatchKeys, KeyChanges)
GET_LAST_APPLIED = LookupCall("GetLastApplied", group_calls.GetLastApplied, group_calls.LastApplied)
GET_SERVERS = LookupCall("GetServers", group_calls.GetServers, group_calls.Servers)
GET_ENTRIES = LookupCall("GetEntries", group_calls.GetEntries, group_calls.EntriesReply)
GET_STATE = LookupCall("GetState", group_calls.GetState, group_calls.StatePart)
WATCH_EVENTS = WatchCall("WatchEvents", group_calls.WatchEvents, group_calls.GroupEvent)

CALLS: dict[str, Call[Any, Any]] = {
    call.name: call for call in tuple(globals().values()) if isinstance(call, Call)
}
"""Every call of `SERVICE` by name: all those above, so that none is listed twice."""
