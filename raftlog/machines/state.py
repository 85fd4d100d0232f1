"""The whole logical state of a machine as plain, frozen values: what a snapshot holds.

A machine makes its state with `state()` and is made of it again with `restore()`. The restored one
has the same fingerprint, and applies every further entry with the same outcome. The extents are not
part of it: a snapshot's records are in history files, so a restored machine holds no extent.

Where order decides something it is kept: attempts within an epoch, runs that were fenced, names
that were forgotten, and rows by age. Large columns are packed bytes (`raftlog.machines.columns`),
so there is no object for a staged entry or an append. The states of the parts are equal if the
machines are.

Each number, also of a packed column, has a range, which is checked where a state is decoded
(`raftlog.machines.state_validity`). A field without one is counted: from 0, and in a state that
another node gave, far enough from the end of 64 bits to count on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from raftlog.core.types import NO_INDEX, GroupId, LogIndex, NodeId, Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, INTEGER_MAX
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting


class Range(NamedTuple):
    """The values that a number, or each number of a packed column, may have: both ends included."""

    first: int
    last: int


COUNTED = "counted"
"""The range of what a machine counts."""
GIVEN = Range(0, INTEGER_MAX - 1)
"""What a command gives and nothing is ever added to: times and epochs."""
_GIVEN_OR_NONE = Range(-1, INTEGER_MAX - 1)
_CRC = Range(0, 2**32 - 1)

RulesVersion = Annotated[int, Range(RULES_FIRST, INTEGER_MAX)]
TimeUs = Annotated[int, GIVEN]
Epoch = Annotated[int, _GIVEN_OR_NONE]
"""An epoch, or a stream's batch; -1: there is none."""
OffsetOrNone = Annotated[Offset, _GIVEN_OR_NONE]
Column = Annotated[bytes, COUNTED]
GivenColumn = Annotated[bytes, GIVEN]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgesState:
    """Keys by age, the longest silent first, in two packed columns of equal length."""

    keys: Column
    """Which keys: each one's place, from 0, among the keys that the table around it lists."""
    times_us: GivenColumn
    """When each was last active, in log time; they never fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentsState:
    """What is known of all extents since the topic began."""

    high_water_mark: Offset
    published_bytes: int
    """Body bytes of all records since the topic began, trimmed ones included."""
    digest: bytes
    """The running digest of the extents."""
    position_offsets: Column
    """Packed: offsets whose byte position is known, rising; the first is the log start offset."""
    position_bytes: Column
    """Packed: their byte positions, rising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersState:
    """The producers in order of their first append; the packed columns have one number for each."""

    names: tuple[str, ...]
    owners: tuple[str, ...]
    """Of each, the principal that appended last; "": callers were not authenticated."""
    next_sequences: Column
    append_counts: Column
    """How many of its last appends are remembered."""
    appends: Column
    """Packed: start, end and CRC of each remembered append, oldest first, producer by producer."""
    ages: AgesState
    """All producers by their last append."""
    forgotten: tuple[str, ...]
    """In the order in which they will be dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAttemptState:
    """The stages of an attempt, in four packed columns with one number for each."""

    attempt: str
    record_count: int
    """Records of all its stages."""
    chained_crc: Annotated[int, _CRC]
    indexes: Column
    record_counts: Annotated[bytes, Range(1, BATCH_RECORDS_MAX)]
    body_bytes: Annotated[bytes, Range(0, BATCH_BYTES_MAX)]
    crcs: Annotated[bytes, _CRC]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpochState:
    """An epoch with open attempts."""

    epoch: Annotated[int, GIVEN]
    renewed_at: LogIndex
    attempts: tuple[OpenAttemptState, ...]
    """In the order in which they were opened."""


class FencedWrite(NamedTuple):
    """A named batch write inside a streaming query's batch: the query's run and batch, its key."""

    stream_run: str
    """"" stands for no such write."""
    stream_batch: Epoch
    epoch: Epoch
    run: str


NO_FENCE = FencedWrite("", -1, -1, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRowState:
    """A writer row; `raftlog.machines.writer_row.WriterRow` says what the values mean."""

    name: str
    run: str
    fenced_runs: tuple[str, ...]
    owner: str
    streaming: bool
    active_us: TimeUs
    admitted: bool
    transient: bool
    last_index: LogIndex
    query_id: str
    last_epoch: Epoch
    last_run: str
    last_references: bytes
    last_start: OffsetOrNone
    last_end: OffsetOrNone
    plan: str
    stream: str
    stream_batch: Epoch
    fenced: FencedWrite
    epochs: GivenColumn
    """Packed: the last committed epochs, rising."""
    record_counts: Column
    """Packed: their record counts."""
    open_epochs: tuple[OpenEpochState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersState:
    """The writer rows in the order of their first activity."""

    rows: tuple[WriterRowState, ...]
    transient: AgesState
    """The transient rows; a key is a place in `rows`."""
    open_epochs: AgesState
    """All open epochs by their newest Stage; a key counts the open epochs of all rows in order."""
    forgotten: tuple[str, ...]
    """In the order in which they will be dropped."""
    dead_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic's machine after entry `last_index`. What the topic was made with is not part of it
    (`TopicInfo`)."""

    rules: RulesVersion
    last_index: LogIndex
    """The last entry with a command that was applied; 0: none."""
    now_us: TimeUs
    """Log time."""
    extents: ExtentsState
    producers: ProducersState
    writers: WritersState
    unused_bytes: int
    """Body bytes of entries that were refused or repeated."""
    settings: tuple[TopicSetting, ...] = ()
    settings_version: Annotated[LogIndex, GIVEN] = NO_INDEX
    schemas: tuple[Schema, ...] = ()
    """The schema, if it ever changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session of writes, with what its last one came to."""

    session: str
    owner: str
    sequence: int
    """Of its last write; 0: there was none."""
    digest: bytes
    """Of what that asked for; b"": there was none."""
    result: int
    """A `raftlog.machines.kv.Result`."""
    version: LogIndex
    previous: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class KvState:
    """The key-value store after entry `last_index`."""

    rules: RulesVersion
    last_index: LogIndex
    keys: tuple[KeyValue, ...]
    """By key."""
    sessions: tuple[SessionState, ...]
    """By owner, the longest silent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node that registered."""

    node: NodeId
    store_uuid: str
    address: str
    rules: int
    rack: str = ""
    draining: bool = False
    leaving: bool = False
    observer: bool = False
    parents: tuple[NodeId, ...] = ()
    boot_id: str = ""
    registered_at: LogIndex = NO_INDEX


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementState:
    """Where a group should be, if it was ever placed elsewhere."""

    group: GroupId
    voters: tuple[NodeId, ...]
    generation: int
    reached: int
    former: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """The controller's machine after entry `last_index`."""

    rules: RulesVersion
    last_index: LogIndex
    last_timestamp_us: TimeUs
    next_group_id: GroupId
    nodes: tuple[NodeState, ...]
    topics: tuple[TopicInfo, ...]
    """The live topics."""
    deleted: tuple[TopicInfo, ...]
    """The last deleted topics, oldest first."""
    retired: tuple[NodeId, ...] = ()
    """The ids of removed nodes, rising."""
    placements: tuple[PlacementState, ...] = ()
    """By group."""
    kvs: tuple[KvInfo, ...] = ()
    """The key-value store, if there is one."""


MachineState = TopicState | ControllerState | KvState
