"""What the members of a group say to one another: one closed set.

Every message names its group, its sender and its sender's term. `Replicate` is the one member of
the set that never travels: it is the core's wish that entries `span` be sent, and the replica,
which owns the log, turns it into an `AppendRequest` that carries them.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import (
    NO_INDEX,
    NO_TERM,
    Entry,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Span,
    Term,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """RequestVote (Raft section 5.2) or, with `pre`, its pre-vote (dissertation section 9.6).

    A pre-vote's `term` is the term the candidate *would* have; it changes no member's term.
    """

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    last_index: LogIndex
    last_term: Term
    pre: bool
    transfer: bool = False
    """The leader has handed its role to the sender: voters grant this although they hear it
    (dissertation section 4.2.3)."""

    def reply(self, term: Term, *, granted: bool) -> VoteReply:
        """The receiver's answer in `term`: its own, or this one for a pre-vote that it grants."""
        return VoteReply(
            group=self.group,
            sender=self.to,
            to=self.sender,
            term=term,
            granted=granted,
            pre=self.pre,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteReply:
    """The answer to a `VoteRequest`; a granted pre-vote repeats the request's term."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    granted: bool
    pre: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutNow:
    """The leader asks the receiver to campaign at once (dissertation section 3.10)."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    wished: bool = False
    """A caller asked for the receiver, so it is to stay leader though another might be preferred.
    The core carries this to `Raft.is_wished`, and does not look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """An effect: send `to` the entries of `span` (None: only the check of the previous entry)."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    prev_index: LogIndex
    prev_term: Term
    span: Span | None
    commit_index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """AppendEntries (Raft section 5.3): `entries` follow directly on `prev_index`."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    prev_index: LogIndex
    prev_term: Term
    entries: tuple[Entry, ...]
    commit_index: LogIndex

    def accepted(
        self, term: Term, match_index: LogIndex, last_index: LogIndex, *, recovery: int = 0
    ) -> AppendReply:
        """The receiver's answer if the logs agree up to `match_index`; its own ends at
        `last_index`."""
        return AppendReply(
            group=self.group,
            sender=self.to,
            to=self.sender,
            term=term,
            accepted=True,
            prev_index=self.prev_index,
            match_index=match_index,
            conflict_term=Term(0),
            conflict_index=LogIndex(0),
            last_index=last_index,
            recovery=recovery,
        )

    def rejected(
        self,
        term: Term,
        last_index: LogIndex,
        *,
        conflict: tuple[Term, LogIndex] = (Term(0), LogIndex(0)),
        recovery: int = 0,
    ) -> AppendReply:
        """The receiver's answer if the logs differ at `prev_index`, as `conflict` tells, or if the
        sender's term is over."""
        conflict_term, conflict_index = conflict
        return AppendReply(
            group=self.group,
            sender=self.to,
            to=self.sender,
            term=term,
            accepted=False,
            prev_index=self.prev_index,
            match_index=LogIndex(0),
            conflict_term=conflict_term,
            conflict_index=conflict_index,
            last_index=last_index,
            recovery=recovery,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReply:
    """The answer to an `AppendRequest`.

    Accepted: the sender's log equals the leader's up to `match_index`, durably. Rejected:
    `prev_index` repeats the request's, `conflict_term` is the term the sender holds there (0: its
    log is too short) and `conflict_index` the first index of that term (or one past its last
    entry), so that the leader skips a whole term at once (Raft section 5.3, last part).
    """

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    accepted: bool
    prev_index: LogIndex
    match_index: LogIndex
    conflict_term: Term
    conflict_index: LogIndex
    last_index: LogIndex
    recovery: int = 0
    """Of the sender, durable (`raftlog.core.recovery`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A row of the frame a leader's node sends to another node for all its groups.

    `commit_index` never exceeds what the receiver was heard to hold. `read_round` numbers the
    leader's latest round of linearizable reads (0: none asked).
    """

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    commit_index: LogIndex
    read_round: int
    quiesce_round: int
    """The round in which this asks to quiesce; 0: stay awake (`raftlog.core.quiescence`)."""
    hash_index: LogIndex = NO_INDEX
    """At which entry the receiver's state hash is asked for; 0: at none. The core carries this and
    what follows for `raftlog.comparison`, and does not look at it."""
    agreed_index: LogIndex = NO_INDEX
    """The latest entry at which a majority's state hashes are known to agree; 0: none."""
    agreed_hash: bytes = b""
    disputed: bool = False
    """State hashes differ, and none has a majority."""
    history_index: LogIndex = NO_INDEX
    """These four are as those of states, for the digests of histories at snapshot points."""
    agreed_history_index: LogIndex = NO_INDEX
    agreed_history_digest: bytes = b""
    history_disputed: bool = False
    recovered: int = 0
    """The recovery of the receiver that ends with this; 0: none (`raftlog.core.recovery`)."""
    commit_term: Term = NO_TERM
    """Of the entry at `commit_index`. A log whose entry there has another one is not the log that
    the receiver was heard to hold, such as an older copy of it."""
    recovery: int = 0
    """The number of the receiver's recovery under which it was heard to hold it."""

    def reply(
        self,
        term: Term,
        *,
        last_index: LogIndex,
        quiesce_round: int,
        disk_keeps_up: bool,
        may_lead: bool,
        recovery: int = 0,
        lease_us: int = 0,
    ) -> HeartbeatReply:
        """The receiver's answer; it confirms the read round only in the sender's own term."""
        return HeartbeatReply(
            group=self.group,
            sender=self.to,
            to=self.sender,
            term=term,
            read_round=self.read_round if self.term == term else 0,
            last_index=last_index,
            quiesce_round=quiesce_round,
            disk_keeps_up=disk_keeps_up,
            may_lead=may_lead,
            recovery=recovery,
            lease_us=lease_us,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """A row of the answer; it confirms only its own group, term and read round."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    read_round: int
    last_index: LogIndex
    quiesce_round: int
    """The round in which the sender agrees to quiesce, and is quiesced now; 0: it is awake."""
    disk_keeps_up: bool
    """The sender's disk writes in time, so it could lead in place of one whose disk does not."""
    may_lead: bool = False
    """The sender would campaign if it was asked to (`TimeoutNow`)."""
    hash_index: LogIndex = NO_INDEX
    """The entry that was asked for, if the sender has the hash; 0: it has not."""
    state_hash: bytes = b""
    diverged: bool = False
    """A majority is known to have another state than the sender."""
    history_index: LogIndex = NO_INDEX
    """These three are as those of states, for the digest of the sender's history."""
    history_digest: bytes = b""
    history_diverged: bool = False
    recovery: int = 0
    """Of the sender (`raftlog.core.recovery`); that it has ended may not be durable yet."""
    lease_us: int = 0
    """For how long, from now on, the sender helps to elect no other leader, microseconds
    (`raftlog.core.lease`); 0: it promises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeartbeat:
    """The sender's process lives: for all quiesced groups at once, whatever their number.

    `boot_id` is another one in every run of the process.
    """

    sender: NodeId
    to: NodeId
    boot_id: str
    clock_us: int = 0
    """The sender's wall clock, microseconds since 1970 UTC; 0: it is not told."""
    disk_full: bool = False
    """The sender's disk has no room for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """The receiver's group exists no more: it must stop campaigning and await the controller."""

    group: GroupId
    sender: NodeId
    to: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOffer:
    """The receiver lacks entries that the sender's log has dropped. It may fetch the sender's
    image, whose newest snapshot is that of entry `index`.

    This and the next four are the node's business (`raftlog.multiraft`): what is in an image is
    committed, so no term has a say in it.
    """

    group: GroupId
    sender: NodeId
    to: NodeId
    index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """The sender asks for the manifest of the receiver's image, and will ask for its files."""

    group: GroupId
    sender: NodeId
    to: NodeId
    refused: str = ""
    """The name of a file that was found damaged as the receiver gave it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageManifest:
    """The answer: the manifest's text, and the length of its newest snapshot's file."""

    group: GroupId
    sender: NodeId
    to: NodeId
    text: bytes
    snapshot_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChunkRequest:
    """The sender asks for bytes [position, position + length) of a file that a manifest names."""

    group: GroupId
    sender: NodeId
    to: NodeId
    name: str
    position: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChunk:
    """The answer: the bytes with their CRC-32C, or that no such file is there any more."""

    group: GroupId
    sender: NodeId
    to: NodeId
    name: str
    position: int
    crc: int
    gone: bool
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest:
    """The sender's copy of the entry is damaged: it asks for the receiver's. Any log that holds
    this index in this term has the same entry (Raft figure 3, Log Matching)."""

    group: GroupId
    sender: NodeId
    to: NodeId
    index: LogIndex
    term: Term
    """Of the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryReply:
    """The answer: the entry's command and body, or that they are not to be had from the sender."""

    group: GroupId
    sender: NodeId
    to: NodeId
    index: LogIndex
    term: Term
    held: bool
    """The payload is here. If not: the log lacks the entry, or has it damaged as well."""
    dropped: bool
    """The log has dropped the entry: the sender's image stands in for it."""
    crc: int
    """CRC-32C of command and body as the sender read them, in this order."""
    payload: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRow:
    """What an observer has of one group, and asks for more of."""

    group: GroupId
    index: LogIndex
    """Of its last entry."""
    term: Term
    """Of that entry."""
    leader_term: Term
    leader: NodeId
    """Who leads, as it was told last, and in which term."""


PULL_ROWS_MAX = 4096
"""Groups of one request; the others are asked for with the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """The sender, an observer, asks for what is committed beyond what it has.

    This and the next two are the node's business (`raftlog.multiraft.observing`): what is committed
    is so in every term. The receiver keeps nothing of it once it is answered.
    """

    sender: NodeId
    to: NodeId
    number: int
    """The answers' end repeats it."""
    rows: tuple[PullRow, ...]
    """At most `PULL_ROWS_MAX`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledEntries:
    """An answer for one group: committed entries that follow on the sender's last one, and who
    leads. Groups of which there is nothing to tell have no answer."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term
    leader: NodeId
    """NO_NODE: the sender knows of none in this term."""
    held: bool
    """False: the sender has no replica of the group to give anything from. The rest is 0 then."""
    base_index: LogIndex
    """Of the sender's log. An observer that ends below it needs the sender's image."""
    commit_index: LogIndex
    """How far the sender knows its log to be committed."""
    prev_index: LogIndex
    prev_term: Term
    """The entry before the first of these. (0, 0): the sender does not know it to be committed."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullDone:
    """All that the sender has to say to the request of this number is said."""

    sender: NodeId
    to: NodeId
    number: int
    more: bool
    """There was more than one answer holds: ask again at once."""


PeerMessage = (
    VoteRequest
    | VoteReply
    | TimeoutNow
    | AppendRequest
    | AppendReply
    | Heartbeat
    | HeartbeatReply
    | NodeHeartbeat
    | GroupDeleted
    | ImageOffer
    | ImageRequest
    | ImageManifest
    | ImageChunkRequest
    | ImageChunk
    | EntryRequest
    | EntryReply
    | PullRequest
    | PulledEntries
    | PullDone
)
"""What travels between nodes."""

ImageMessage = ImageOffer | ImageRequest | ImageManifest | ImageChunkRequest | ImageChunk
"""What replicas say of images, past the core."""

EntryMessage = EntryRequest | EntryReply
"""What replicas say of damaged entries, past the core."""

CopyRequest = EntryRequest | ImageRequest | ImageChunkRequest
"""By these a replica asks another one for a copy of what it stores."""

PullMessage = PullRequest | PulledEntries | PullDone
"""What observers and their parents say, past the core."""

RaftMessage = (
    VoteRequest | VoteReply | TimeoutNow | AppendRequest | AppendReply | Heartbeat | HeartbeatReply
)
"""What `Raft.step` takes (the others are the node's business)."""

OutMessage = (
    VoteRequest | VoteReply | TimeoutNow | Replicate | AppendReply | Heartbeat | HeartbeatReply
)
"""What `Ready` carries out."""
