"""The words of consensus as values: ids, entries, hard state, membership.

Everything here is plain data without behaviour that depends on time, chance or I/O, so every
other package may import it. Ranges called `Span` are inclusive on both ends because Raft speaks of
"entries first to last"; ranges of record offsets elsewhere are always `[start, end)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, NewType

FORMAT_STAMP = "1-2026-11-30.11"
"""Names what nodes write and send: entries, snapshots, files, messages. Until the first release,
each change of these has another stamp instead of another version. A folder or node with another
stamp is rejected: there is nothing that converts it."""

BOOT_IDS_MAX = 4096
"""A node's folder keeps at most this many boot_ids of earlier processes. A node that starts every
few seconds without a majority takes hours to reach this."""

NodeId = NewType("NodeId", int)
"""A node's number in its cluster, from 1. 0 stands for "none" (no leader, no vote)."""

GroupId = NewType("GroupId", int)
"""A Raft group's number. 0 is the controller; topic groups count from 1; never used again."""

Term = NewType("Term", int)
"""Raft's election number, from 0 (before any election)."""

LogIndex = NewType("LogIndex", int)
"""An entry's position in its group's log, from 1. 0 is "before the first entry"."""

Offset = NewType("Offset", int)
"""A record's place in its topic, from 0, dense."""

NO_NODE = NodeId(0)
CONTROLLER_GROUP = GroupId(0)
NO_INDEX = LogIndex(0)
NO_TERM = Term(0)
FIRST_OFFSET = Offset(0)

COUNT_MAX = 1 << 61
"""The highest index or offset, and the most records or bytes, that another node's image may have.
No cluster gets there, and none lives long enough to count on from it past 64 bits."""


class EntryKind(IntEnum):
    """What an entry is for. The numbers are on disk and on the wire: never reuse one."""

    NOOP = 0
    """Written by a leader at the start of its term (Raft section 8); takes no offset."""
    CONFIGURATION = 1
    """A new membership (Raft section 6), as `raftlog.core.membership` encodes it."""
    COMMAND = 2
    """A state machine's command."""


class Payload(NamedTuple):
    """What a client wants in the log: a small encoded command and the bulk it is about.

    The command is all that a state machine needs to apply the entry, so reopening a log reads
    commands and skips bodies. A body is opaque to every server: column chunks as the client
    compressed them, or empty.
    """

    command: bytes
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that count against limits: command and body together."""
        return len(self.command) + len(self.body)


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the replicated log, compact: a log holds many.

    No NamedTuple, whose `index` would hide a method of tuple. Making one takes 0.8 us instead of
    0.4, and reading a field 12 ns instead of 25.
    """

    index: LogIndex
    term: Term
    kind: EntryKind
    payload: Payload


EMPTY_PAYLOAD = Payload(b"", b"")


class Span(NamedTuple):
    """Entries `first` to `last`, both included; `first <= last`."""

    first: LogIndex
    last: LogIndex


@dataclass(frozen=True, slots=True, order=True)
class LastEntry:
    """The end of a log. Of two, the greater one is more up to date (Raft section 5.4.1): the last
    term decides, the index only between equal terms."""

    term: Term
    index: LogIndex


NO_LAST = LastEntry(NO_TERM, NO_INDEX)


class VotersAt(NamedTuple):
    """Who decides since an entry that brought a membership (Raft section 6)."""

    since: LogIndex
    voters: tuple[NodeId, ...]
    outgoing: tuple[NodeId, ...] = ()
    """While a change is under way, the former voters."""
    held: bool = False
    """The entry is durable in the log too: a log that ends before it has lost its end."""
    term: Term = NO_TERM
    """Of the entry, or a later one if that was dropped (`Memberships.date_base`)."""

    def lacks(self, last: LastEntry) -> bool:
        """Does a log that ends there lack the entry, and what may have taken its place?"""
        return last < LastEntry(self.term, self.since)


class HardState(NamedTuple):
    """What must be on disk before any message that depends on it leaves (Raft figure 2)."""

    term: Term
    vote: NodeId
    recovery: int = 0
    """Which recovery of its log this member is in (odd), or has behind it (even)
    (`raftlog.core.recovery`)."""
    lost: LastEntry | None = None
    """While it recovers, the end of the log that it has lost; None: that is not known."""
    voters: VotersAt | None = None
    """Those of the latest membership in the log, which may be lost since. None: the one that the
    group was made with holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftTiming:
    """Every number and switch of the core, in ticks and counts; `raftlog.config` derives it from
    seconds."""

    election_ticks_min: int = 20
    """An election starts after this many to twice as many ticks without a leader, at random."""
    heartbeat_ticks: int = 2
    """Ticks between two heartbeats of a leader."""
    leader_lost_jitter_ticks: int = 3
    """A follower told that its leader's process died waits 0 to this many ticks."""
    append_entries_max: int = 1024
    """Entries in one append request, at most."""
    append_bytes_max: int = 1024 * 1024
    """Bytes in one append request, at most, though one entry always fits."""
    inflight_requests_max: int = 32
    """Append requests in flight to one follower, at most."""
    resend_ticks: int = 10
    """Ticks without an answer after which a follower's unanswered appends are sent again."""
    unapplied_entries_max: int = 16384
    """Entries that may await commit and apply; a proposal beyond that is refused as overload."""
    quiesce_after_ticks: int = 20
    """Ticks after which a leader that was asked for nothing lets its group quiesce; 0: never."""
    pending_reads_max: int = 4096
    """Linearizable reads that may await their round; one beyond that is refused as overload."""
    pre_vote: bool = True
    """A member asks whether it could win before it opens a term (Raft dissertation section 9.6)."""
    check_quorum: bool = True
    """A leader that a majority no longer answers steps down (dissertation section 6.2), and a
    member that hears a leader ignores requests for its vote (4.2.3)."""
    lease_us: int = 0
    """How long a leader's lease lasts (`raftlog.core.lease`), microseconds of the driver's clock;
    0: there are none. At most what `lease_length_us` allows for the election timeouts of all
    members."""

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_ticks * 2 <= self.election_ticks_min, (
            "a follower must miss at least two heartbeats before it campaigns"
        )
        assert self.lease_us == 0 or self.check_quorum, "a lease rests on check-quorum"

    @property
    def node_heartbeat_ticks(self) -> int:
        """Ticks between two heartbeats of a node for all its groups. A peer counts as silent after
        an election timeout, so five in that time leave room for late ones. An idle node does little
        else, so they come no more often than a group's own either."""
        return max(self.heartbeat_ticks, self.election_ticks_min // 5)


_LATE_TICKS = 2
"""So many ticks too soon may a timeout be over, where the ticks before it came late."""


def lease_length_us(*, election_ticks_min: int, tick_us: int, clock_drift_max: float) -> int:
    """The longest lease (`raftlog.core.lease`) that is safe where, while one node's clock shows a
    second, that of another shows at least `1 - clock_drift_max` seconds. 0 or less: none is."""
    assert 0 <= clock_drift_max < 1, "a share"
    return int((election_ticks_min - _LATE_TICKS) * tick_us * (1 - clock_drift_max))
