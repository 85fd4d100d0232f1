"""The outcomes of commands: a closed set of frozen values, refusals included.

An outcome is part of the state hash, so every node must compute the same one. A `Refused` carries
the code and values of the error of that name (`raftlog.errors`), so that the server can raise it.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import LogIndex, NodeId, Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.group_info import KvInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where appended records are: at [start, end)."""

    start: Offset
    """The first record's offset. -1, as `end`, for a resend so late that its offsets are
    forgotten."""
    end: Offset
    """The offset after the last record."""
    repeated: bool
    """Whether an earlier entry had put them there: this was a resend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The attempt's stage `number` is in the log. `repeated`: it was there before."""

    number: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommitted:
    """Where an epoch's records are: at [start, end)."""

    start: Offset
    """The first record's offset. -1, as `end`, for a replay that is not of the writer's last
    epoch."""
    end: Offset
    """The offset after the last record."""
    record_count: int
    """How many records the epoch has in the log."""
    replayed: bool
    """Whether an earlier commit had made the epoch visible, so that this one changed nothing: a
    lost reply or a replay."""
    kept: bool
    """Whether the replay differs, and because of onReplayMismatch=keep the first commit stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAborted:
    """How many open attempts were dropped. 0 is not an error."""

    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """How many open epochs, transient writers and producers an `Expire` ended."""

    epochs: int
    writers: int
    producers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRemoved:
    """Whether there was a row. `staged_bytes` is what it had open."""

    known: bool
    staged_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOwnerSet:
    """Whether there was a row, and its owner before; "": it had none."""

    known: bool
    former: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """The node id is bound to its store. `known_before`: it was bound to that store already."""

    known_before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """The node may come. `known_before`: it was added before, or is one already."""

    known_before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DutySet:
    """What the node is to do from now on."""

    draining: bool
    leaving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentsSet:
    """What the observer pulls from now on."""

    parents: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetired:
    """The node is none of the cluster's. `known_before`: it was until now."""

    known_before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlaced:
    """The wish's generation: it is reported once the group is there."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReported:
    """`done`: it was the last wish, and was not reported yet."""

    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """The topic exists. `existed`: it did before, so this command changed nothing."""

    topic: TopicInfo
    existed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAltered:
    """The topic with its settings and its schema as they are now."""

    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """The topic is deleted. A repeated deletion returns it too, while it is remembered."""

    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesApplied:
    """The version under which the entries after this one are applied: the higher of old and new."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPointApplied:
    """A snapshot point. `keep_from` is the first index that a replica must keep in its log."""

    keep_from: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """Where the topic starts now."""

    log_start_offset: Offset
    """The first offset that was not trimmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """Which version of its settings the topic has now."""

    version: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSet:
    """Which version its schema has in the topic's log now."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCreated:
    """The key-value store exists. `existed`: it did before, so this command changed nothing."""

    kv: KvInfo
    existed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """A session of writes to the key-value store."""

    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWritten:
    """A put or delete was done. 0: the key is, or was, absent."""

    version: LogIndex
    """The version that the key has now."""
    previous: LogIndex
    """The version that it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A command that changed nothing, and why. `values` are the error's, sorted by name."""

    code: str
    values: tuple[tuple[str, str | int], ...]


TopicOutcome = (
    Appended
    | Staged
    | EpochCommitted
    | EpochAborted
    | Expired
    | WriterRemoved
    | WriterOwnerSet
    | Trimmed
    | Configured
    | SchemaSet
    | RulesApplied
    | SnapshotPointApplied
    | Refused
)
ControllerOutcome = (
    NodeRegistered
    | NodeAdded
    | DutySet
    | ParentsSet
    | NodeRetired
    | GroupPlaced
    | PlacementReported
    | TopicCreated
    | TopicAltered
    | TopicDeleted
    | KvCreated
    | RulesApplied
    | SnapshotPointApplied
    | Refused
)
KvOutcome = SessionOpened | KeyWritten | RulesApplied | SnapshotPointApplied | Refused
Outcome = TopicOutcome | ControllerOutcome | KvOutcome


def refused(code: str, **values: str | int) -> Refused:
    """A refusal that becomes the error named `code` with these values."""
    return Refused(code=code, values=tuple(sorted(values.items())))
