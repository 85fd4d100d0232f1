"""The calls about any group, as typed values (`raftlog.wire.calls` says what a call is)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.types import GroupId, LogIndex, NodeId, Term


class NodeAddress(NamedTuple):
    """A node and where it listens."""

    node: NodeId
    """The node's number, from 1."""
    address: str
    """`host:port`, as clients and peers reach it."""


WATCH_SECONDS_MAX = 60
"""How long one call watches. A client then calls again from where it is, at another node if it
must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetLastApplied:
    """Leader (linearizable): how far the group is applied."""

    group: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class LastApplied:
    """Reads at this index, at any replica, see every write that was answered before."""

    index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class GetServers:
    """Any replica: who holds the group, as that replica knows it."""

    group: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Who holds a group. Only the leader's answer is the latest."""

    voters: tuple[NodeAddress, ...]
    """The nodes that vote, by number."""
    learners: tuple[NodeAddress, ...]
    """Those that get the log and do not vote (yet)."""
    observers: tuple[NodeAddress, ...]
    """Those that pull what is committed."""
    leader: NodeId
    """0: unknown."""
    leader_address: str
    """`host:port`; "" if it is unknown."""
    term: Term
    """The group's term, from 0."""
    applied_index: LogIndex
    """How far the replica that answers has applied the log."""


ENTRIES_PER_REPLY_MAX = 1_000
ENTRY_BYTES_PER_REPLY_MAX = 1024 * 1024
"""Entries in one `EntriesReply`, and their bytes, which a single entry may exceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEntries:
    """Any replica: committed entries from `index` on. Raises `IndexOverflow` beyond what is known
    to be committed there, `IndexUnderflow` below what its log still holds."""

    group: GroupId
    index: LogIndex
    entries_max: int
    """1 or more; at most `ENTRIES_PER_REPLY_MAX` are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A committed entry. Its `kind` is `noop`, `command` or `configuration`."""

    index: LogIndex
    """From 1."""
    term: Term
    """In which a leader wrote it."""
    kind: str
    """`noop`, `command` or `configuration`."""
    command: bytes
    """The command, or the configuration, as the log holds it."""
    body: bytes
    """The records' bytes of a command that has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesReply:
    """Committed entries, in order and without a gap."""

    first_index: LogIndex
    """The first entry that the replica's log still holds."""
    commit_index: LogIndex
    """Up to which entry it knows the log to be committed."""
    entries: tuple[LogEntry, ...]
    """At least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetState:
    """Any replica: a part of the state of the group's machine at a snapshot, from byte `offset` on.
    Raises `NoSnapshot`, `IndexUnderflow` where the snapshot is not kept."""

    group: GroupId
    index: LogIndex
    """The last entry that the snapshot includes; 0: the newest snapshot."""
    offset: int
    """From 0."""
    crc: int
    """Of the state that was begun, as its first part says; 0: this is the first. A replica that
    wrote the same state in other bytes does not go on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """A part of a machine's state at a snapshot. All parts together are the content of a snapshot
    file (docs/FORMAT.md)."""

    index: LogIndex
    """The last entry that the snapshot includes."""
    term: Term
    """The term of that entry."""
    offset: int
    """Where the part begins, in bytes of the whole."""
    data: bytes
    """At most 1 MiB; empty only where the offset is the end."""
    byte_count: int
    """The length of the whole."""
    crc: int
    """CRC-32C of the whole."""

    @property
    def end(self) -> int:
        """Where the next part begins."""
        return self.offset + len(self.data)

    @property
    def done(self) -> bool:
        """Is this the last part?"""
        return self.end >= self.byte_count


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvents:
    """Any replica: how the group is now, and then each change, for `seconds`. How far it is applied
    is told only beyond `after`."""

    group: GroupId
    after: LogIndex
    seconds: int
    """0 to `WATCH_SECONDS_MAX`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """Something happened to a group, as one of its replicas knows it. What does not belong to the
    kind is 0 or empty."""

    kind: str
    """`leader_changed`, `state_changed` or `voters_changed`."""
    leader: NodeId
    """The node that leads."""
    leader_address: str
    """`host:port`."""
    term: Term
    """In which `leader` leads."""
    index: LogIndex
    """How far the log is applied."""
    voters: tuple[NodeAddress, ...]
    """The nodes that vote, by number."""
    learners: tuple[NodeAddress, ...]
    """Those that get the log and do not vote (yet)."""
