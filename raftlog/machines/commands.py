"""The commands of the machines: a closed set of typed values.

Only `raftlog.wire.codec` turns them into bytes and back. A leader or a client decided the numbers
in them; a machine only judges them. Ids made outside (attempt, producer, run, incarnation) are
the lower-case hex text of a UUID. The writer, query id and run of a Spark stream are the text that
Spark gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import NO_INDEX, GroupId, LogIndex, NodeId, Offset
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.kv_commands import DeleteKey, OpenSession, PutKey
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """What a machine knows of a record batch. It never looks at the batch's bytes."""

    record_count: int
    """1 or more."""
    schema_version: int
    body_bytes: int
    crc: int
    """CRC-32C over the batch's column CRCs in order, each as 4 little-endian bytes."""


# ---------------------------------------------------------------- every group


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Apply the entries after this one under version `version` (`raftlog.machines.rules`)."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPoint:
    """Every replica takes its snapshot at this entry. It changes no state.

    `keep_from` is the first index that a replica must keep in its log: 0 or more, decided by the
    leader. All voters hold every entry below it.
    """

    keep_from: LogIndex


# ---------------------------------------------------------------- a topic's group


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Records of a plain producer, visible once committed. Sequences count from 0."""

    producer: str
    sequence: int
    timestamp_us: int
    """The leader's time, microseconds since 1970 UTC. The machine never lets log time fall."""
    batch: BatchSummary
    owner: str = ""
    """The principal that appends; "": callers are not authenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """Identifies one batch of one writer, and the run that writes it. No text may be empty, except
    the `stream` values.

    Outside Spark, `writer` is a name that the job keeps, `query_id` the same name, and `run` a new
    one for each process, such as `uuid.uuid4().hex`. With `streaming` epochs count from 0 by 1; a
    batch write's `epoch` is any number that a rerun repeats, such as a date.

    The `stream` values are a fence and not part of the key. If a named batch write runs inside a
    streaming query's batch (foreachBatch), they say in which query, run and batch. They are unset
    if it does not, or if its tasks do not see it, and for a stream's own epochs, because there the
    key says it.
    """

    writer: str
    """The writer's name, 1 to 1024 characters: a stream's query id, a `txnAppId`, or the run."""
    query_id: str
    """The streaming query's id, or the writer's own name for batch writes; 1 to 1024 characters."""
    run: str
    """One start of the query, or one batch write; 1 to 1024 characters."""
    epoch: int
    """The batch's number, from 0: Spark's batch id, or `txnVersion`."""
    streaming: bool
    """Whether this is a stream's epoch or a batch write's (docs/EXACTLY_ONCE.md, rules 6 and 7)."""
    stream: str = ""
    """The surrounding query's id."""
    stream_run: str = ""
    """The surrounding query's run; "" if only the query is known."""
    stream_batch: int = 0
    """The surrounding query's batch."""

    @property
    def anonymous(self) -> bool:
        """Whether this is a batch write without txnAppId: its writer is its run."""
        return not self.streaming and self.writer == self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Records of an open epoch: invisible until its `CommitEpoch` names the attempt.

    `number` counts from 0 within the attempt. `create_writer` allows a stream's first epoch above
    0 in a topic that does not know the writer (createTopic=always).
    """

    key: EpochKey
    attempt: str
    number: int
    timestamp_us: int
    batch: BatchSummary
    create_writer: bool
    owner: str = ""
    """The principal that writes; "": callers are not authenticated."""
    any_owner: bool = False
    """Whether it may continue the writers of others. They stay theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReference:
    """An attempt exactly as its task staged it."""

    attempt: str
    """The attempt's random id: lower-case hex."""
    entry_count: int
    """How many entries it staged, 1 or more."""
    record_count: int
    """How many records these hold."""
    chained_crc: int
    """CRC-32C over the batch CRCs of its entries in order, each as 4 little-endian bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEpoch:
    """Make the named attempts visible, in this order, all or nothing. Naming none is valid."""

    key: EpochKey
    attempts: tuple[AttemptReference, ...]
    schema_version: int
    timestamp_us: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    """Whether this is a batch write without txnAppId: a logged `Expire` may remove its row."""
    plan: str = ""
    """A digest of what the driver planned this batch to be; "" if the plan could not be read. A
    replay has the same one, a batch that was planned again another (docs/EXACTLY_ONCE.md, rule 3).
    """
    overwrite: bool = False
    """Whether what it makes visible takes the place of all records that are: the log
    start moves to the first of its records with the same entry."""
    owner: str = ""
    any_owner: bool = False
    """Both as of `Stage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortEpoch:
    """Drop the open attempts of exactly this (writer, run, epoch). An applied commit stays."""

    key: EpochKey
    owner: str = ""
    any_owner: bool = False
    """Both as of `Stage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """End what was silent for its lease, oldest first, at most `EXPIRED_AT_ONCE_MAX`.

    Ages are judged by log time or `timestamp_us`, the leader's time, whichever is later: in an
    idle topic nothing else advances time. The leases are the leader's settings, so the command
    carries them.
    """

    timestamp_us: int
    epoch_lease_us: int
    transient_writer_lease_us: int
    producer_lease_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWriter:
    """Forget a writer row and everything it has open, because an operator asked."""

    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWriterOwner:
    """Give a writer row to another principal, because an admin of the topic asked."""

    writer: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Remove the records below `offset`, at most those below the high-water mark. A log
    start that is there or beyond stays."""

    offset: Offset
    """0 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """The topic's settings as the controller's log has them from entry `version` on.

    Settings of an earlier version than the topic's own change nothing.
    """

    version: LogIndex
    settings: tuple[TopicSetting, ...]
    """All that are not the default, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchema:
    """The topic's schema as the controller's log has it. It continues the topic's own;
    one that is not later changes nothing."""

    schema: Schema


TopicCommand = (
    Append
    | Stage
    | CommitEpoch
    | AbortEpoch
    | Expire
    | RemoveWriter
    | SetWriterOwner
    | Trim
    | Configure
    | SetSchema
    | Rules
    | SnapshotPoint
)


# ---------------------------------------------------------------- the controller's group


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """Bind a node id to the random identity of its data folder, permanently."""

    node: NodeId
    store_uuid: str
    address: str
    rules: int
    """The highest version of the rules that its program knows; 0 if the program does not say."""
    rack: str = ""
    """Nodes of one rack may fail together; "": it says none."""
    boot_id: str = ""
    """The process's, which its folder keeps."""
    earlier_boot_ids: tuple[str, ...] = ()
    """Those of the processes that ran with the folder since one was registered, as far as the
    folder knows, and of that one. A copy of the folder knows none that came later."""
    registered_at: LogIndex = NO_INDEX
    """The index of that registration; 0: none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNode:
    """Let a node join under this id from this address. Its store is bound when it
    comes."""

    node: NodeId
    address: str
    observer: bool = False
    """It never votes, and pulls what is committed."""
    parents: tuple[NodeId, ...] = ()
    """Of an observer: the nodes that it pulls from, rising; (): any that are no observers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetParents:
    """Say which nodes an observer pulls from."""

    node: NodeId
    parents: tuple[NodeId, ...]
    """As of `AddNode`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDuty:
    """Say what a node is to do."""

    node: NodeId
    draining: bool
    """It should lead no group."""
    leaving: bool
    """It should hold no group: nothing is placed on it any more."""
    keeps_leaving: bool = False
    """Whether it leaves stays as it is, whatever this says: a drain that was on its way
    while a removal began or was taken back must not change that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireNode:
    """Remove a node that is leaving and holds no group. Its id is never used again."""

    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceGroup:
    """Wish a group to have other voters."""

    group: GroupId
    voters: tuple[NodeId, ...]
    """1 to 7, rising."""
    generation: int
    """How often it was placed before, as the caller knows it: of two callers that mean the same
    state, one succeeds."""
    former: tuple[NodeId, ...]
    """Its voters as they are. They count where it was never placed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlacement:
    """A group's log has committed the voters that were wished in this generation."""

    group: GroupId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic. Its group and incarnation exist from this entry on.

    With `if_not_exists`, a topic that already has the name is returned as it is, whatever its
    schema.
    """

    name: str
    incarnation: str
    schema: Schema
    voters: tuple[NodeId, ...]
    if_not_exists: bool
    timestamp_us: int
    settings: tuple[TopicSetting, ...] = ()
    """Those that are not the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopic:
    """Change some of a topic's settings; the others stay. If `incarnation` is given, only
    those of that incarnation."""

    name: str
    incarnation: str
    settings: tuple[TopicSetting, ...]
    """Value 0 sets the default again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSchema:
    """Change columns of a topic, all of them or none. If `incarnation` is given, only
    those of that incarnation."""

    name: str
    incarnation: str
    version: int
    """That of the schema that the caller knows. Where the topic has another, the command succeeds
    only if the changes are in effect already."""
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete a topic. If `incarnation` is given, only that incarnation."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateKv:
    """Create the cluster's key-value store, if there is none."""

    voters: tuple[NodeId, ...]
    timestamp_us: int


ControllerCommand = (
    RegisterNode
    | AddNode
    | SetParents
    | SetDuty
    | RetireNode
    | PlaceGroup
    | ReportPlacement
    | CreateTopic
    | AlterTopic
    | AlterSchema
    | DeleteTopic
    | CreateKv
    | Rules
    | SnapshotPoint
)


# ---------------------------------------------------------------- the key-value store's group

KvCommand = OpenSession | PutKey | DeleteKey | Rules | SnapshotPoint

Command = TopicCommand | ControllerCommand | KvCommand

GROWING: tuple[type, ...] = (
    Append,
    Stage,
    CommitEpoch,
    SetWriterOwner,
    CreateTopic,
    AlterTopic,
    AlterSchema,
    OpenSession,
    PutKey,
)
"""What clients ask for and what adds to a state or to the records. What ends or removes something
is not among them, and neither is what nodes say of themselves."""

MAKES_ROOM: tuple[type, ...] = (AlterTopic, DeleteTopic, RemoveWriter, Trim)
"""What clients ask for to make room on a full disk. It may take a little of the reserve."""

NEEDS_ROOM: tuple[type, ...] = (
    *(each for each in GROWING if each not in MAKES_ROOM),
    AbortEpoch,
    DeleteKey,
)
"""What must wait while a disk is full: all else that clients ask for. A caller with `write` on one
topic could else use up the reserve, also by ends of epochs and keys that never existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as the controller knows it."""

    name: str
    """1 to 249 ASCII letters, digits, `.`, `_` and `-`; the first is no dot."""
    incarnation: str
    """A random id of this creation of the topic: lower-case hex. Another one after a deletion."""
    group: GroupId
    """The Raft group that holds the topic, from 1. Never used again."""
    schema: Schema
    """The topic's columns."""
    voters: tuple[NodeId, ...]
    """The nodes that hold a replica."""
    created_us: int
    """When it was created, in the controller's log time: microseconds since 1970 UTC."""
    rules: int
    """The version of the rules that its machine starts under, from 1."""
    settings: tuple[TopicSetting, ...] = ()
    """The settings that are not the default, by name."""
    settings_version: LogIndex = NO_INDEX
    """The entry of the controller's log that changed them last; 0: none did."""
