"""Could an honest peer have sent this? Asked of every message before it changes anything.

A network loses, repeats, delays and reorders; a node crashes and comes back with what it had
synced. None of this makes a message that is refused here. What does is a peer that breaks the
protocol: a defect of its program, a data folder that was replaced, memory that lies. Such a message
is dropped, so that one bad node does not end the good ones.

A message of an earlier term is not acted on, and a replaced leader may well contradict what was
committed since: it is held to the form of a message only.

A message of a later term moves the receiver there, so terms need a ceiling: with one message a
member could otherwise bring a group to the last term that there is, where no election is possible
any more. The ceiling is the time in microseconds since 1970 (`term_max`). It rises by a million
terms a second, so there is always room for another election. It is the same for all members, so a
term that one of them was brought to is accepted by the others: by a bound on how far one message
may lift a term, two messages to one member would part it from the others for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from raftlog.core import replication
from raftlog.core.leadership import Leadership
from raftlog.core.log_view import LogView
from raftlog.core.membership import decode_membership
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    PulledEntries,
    RaftMessage,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.types import NO_NODE, Entry, EntryKind, GroupId, LogIndex, NodeId, Term
from raftlog.errors import PeerProtocolViolation

NUMBER_MAX = (1 << 62) - 1
"""No cluster lives long enough to exceed it. Counting on from it still fits 64 bits."""

TERM_MAX = Term(NUMBER_MAX)
"""Without a clock, terms have no other ceiling."""

TERMS_ALWAYS = 1 << 32
"""Terms up to here are accepted whatever the clock shows: it takes 136 elections a second for a
year to get there, and a member waits 0.1 s at least before it begins one. So no honest cluster is
held to a clock."""


def term_max(clock_us: int) -> Term:
    """The highest term that is accepted while the wall clock shows this, microseconds since 1970.

    Where clocks differ, a member whose clock is ahead may be brought to a term that the others
    accept only when theirs have got there.
    """
    return Term(min(max(clock_us, TERMS_ALWAYS), NUMBER_MAX))


class Receiver(Protocol):
    """What is asked of the member that a message comes to; `Raft` is one."""

    @property
    def group(self) -> GroupId: ...
    @property
    def node(self) -> NodeId: ...
    @property
    def term(self) -> Term: ...
    @property
    def vote(self) -> NodeId: ...
    @property
    def leader(self) -> NodeId: ...
    @property
    def commit_index(self) -> LogIndex: ...


def check(
    message: RaftMessage,
    member: Receiver,
    log: LogView,
    leadership: Leadership | None,
    *,
    term_max: Term,
) -> None:
    """Raises `PeerProtocolViolation` where there is a `problem_of` the message."""
    problem = _problem_of_term(message.term, member, term_max) or problem_of(
        message, member, log, leadership
    )
    if problem is not None:
        raise PeerProtocolViolation(
            group=member.group, peer=message.sender, kind=type(message).__name__, problem=problem
        )


def problem_of(
    message: RaftMessage, member: Receiver, log: LogView, leadership: Leadership | None
) -> str | None:
    """Why no honest peer sends this to a member that stands so; None: one may.

    `leadership` is the member's own, if it leads. Changes nothing.
    """
    if message.sender == member.node and isinstance(message, VoteReply):
        return None  # its own vote, which comes back to it once it is durable
    if message.sender == member.node:
        return f"node {message.sender} is this member itself"
    match message:
        case AppendRequest():
            return _problem_of_append(message, member, log)
        case Heartbeat():
            return _problem_of_heartbeat(message, member)
        case AppendReply():
            return _problem_of_append_reply(message, member, log, leadership)
        case HeartbeatReply():
            return _problem_of_heartbeat_reply(message, member, leadership)
        case VoteRequest():
            return _problem_of_vote_request(message)
        case VoteReply():
            return _problem_of_vote_reply(message, member)
        case TimeoutNow():
            return _out_of_range(term=message.term) or _problem_of_leader(message, member)
        case _:
            assert_never(message)


def check_pulled(pulled: PulledEntries, member: Receiver, log: LogView, *, term_max: Term) -> None:
    """Raises `PeerProtocolViolation` where no honest node would have sent this to an observer."""
    problem = _problem_of_term(pulled.term, member, term_max) or _problem_of_pulled(
        pulled, member, log
    )
    if problem is not None:
        raise PeerProtocolViolation(
            group=member.group, peer=pulled.sender, kind="PulledEntries", problem=problem
        )


def _problem_of_term(term: Term, member: Receiver, term_max: Term) -> str | None:
    """The member's own term is accepted though its clock was set back since."""
    if term > term_max and term > member.term:
        return f"its term is {term}, and none is above {term_max} at this node's time"
    return None


def _problem_of_pulled(pulled: PulledEntries, member: Receiver, log: LogView) -> str | None:
    problem = _out_of_range(
        term=pulled.term,
        base_index=pulled.base_index,
        commit_index=pulled.commit_index,
        prev_index=pulled.prev_index,
        prev_term=pulled.prev_term,
    ) or _problem_of_position("entry", pulled.prev_index, pulled.prev_term, pulled.term)
    if problem is None and pulled.leader == member.node:
        problem = f"node {member.node} leads nothing"
    other = pulled.term == member.term and member.leader not in (NO_NODE, pulled.leader)
    if problem is None and pulled.leader != NO_NODE and other:
        problem = f"node {member.leader} leads term {member.term}"
    if problem is not None:
        return problem
    index, prev_term = pulled.prev_index, pulled.prev_term
    if log.base_index < index <= member.commit_index and log.term_at(index) != prev_term:
        return f"entry {index} of term {prev_term} conflicts with a committed one"
    last = index + len(pulled.entries)
    if pulled.entries and last > pulled.commit_index:
        return f"entry {last} is not committed: {pulled.commit_index} is the last that is"
    return _problem_of_entries(pulled.entries, index, prev_term, pulled.term)


def _out_of_range(**numbers: int) -> str | None:
    for name, number in numbers.items():
        if not 0 <= number <= NUMBER_MAX:
            return f"{name} is {number}"
    return None


def _problem_of_position(name: str, index: int, term: int, at_most: int) -> str | None:
    """An entry's index and term, as a message tells them: index 0 is before the first one."""
    if (index == 0) != (term == 0):
        return f"{name} {index} has term {term}"
    if term > at_most:
        return f"{name} {index} has term {term}, above {at_most}"
    return None


def _problem_of_leader(
    message: AppendRequest | Heartbeat | TimeoutNow, member: Receiver
) -> str | None:
    """What is wrong with a sender that speaks as the leader of the term."""
    if message.term == 0:
        return "term 0 has no leader"
    if message.term == member.term and member.leader not in (NO_NODE, message.sender):
        return f"node {member.leader} leads term {member.term}"
    return None


def _problem_of_append(request: AppendRequest, member: Receiver, log: LogView) -> str | None:
    problem = (
        _out_of_range(
            term=request.term,
            prev_index=request.prev_index,
            prev_term=request.prev_term,
            commit_index=request.commit_index,
        )
        or _problem_of_leader(request, member)
        or _problem_of_position("entry", request.prev_index, request.prev_term, request.term)
    )
    if problem is not None:
        return problem
    problem = _problem_of_entries(
        request.entries, request.prev_index, request.prev_term, request.term
    )
    if problem is not None or request.term < member.term:
        return problem
    return _conflict_with_committed(request, member.commit_index, log)


def _problem_of_entries(
    entries: Sequence[Entry], index: LogIndex, term: Term, term_max: Term
) -> str | None:
    """What is wrong with entries that follow on that one."""
    for entry in entries:
        if entry.index != index + 1:
            return f"entry {entry.index} follows entry {index}"
        if not max(term, 1) <= entry.term <= term_max:
            return f"entry {entry.index} has term {entry.term}, not {term} to {term_max}"
        if problem := _problem_of_membership(entry):
            return problem
        index, term = entry.index, entry.term
    if index > NUMBER_MAX:
        return f"entry {index} is out of range"
    return None


def _problem_of_membership(entry: Entry) -> str | None:
    if entry.kind is not EntryKind.CONFIGURATION:
        return None
    try:
        decode_membership(entry.payload.command)
    except ValueError as error:
        return f"entry {entry.index} is no membership: {error}"
    return None


def _conflict_with_committed(
    request: AppendRequest, commit_index: LogIndex, log: LogView
) -> str | None:
    """A leader has every entry that was committed before it was elected (Raft section 5.4.3)."""
    prev_index = request.prev_index
    if prev_index <= commit_index and not replication.previous_entry_matches(
        log, prev_index=prev_index, prev_term=request.prev_term
    ):
        return f"entry {prev_index} of term {request.prev_term} conflicts with a committed one"
    committed = request.entries[: max(0, commit_index - prev_index)]
    held = replication.first_difference(log, committed)
    if held < len(committed):
        return f"entry {committed[held].index} conflicts with a committed one"
    return None


def _problem_of_heartbeat(heartbeat: Heartbeat, member: Receiver) -> str | None:
    # An entry that the log lacks is not refused here: a leader never sends more than this member
    # acknowledged, so the disk here has lost it, or the sender lies (`AcknowledgedEntriesLost`).
    at = (heartbeat.commit_index, heartbeat.commit_term)
    return (
        _out_of_range(
            term=heartbeat.term,
            commit_index=heartbeat.commit_index,
            commit_term=heartbeat.commit_term,
            recovery=heartbeat.recovery,
            read_round=heartbeat.read_round,
            quiesce_round=heartbeat.quiesce_round,
        )
        or _problem_of_position("the committed entry", *at, heartbeat.term)
        or _problem_of_leader(heartbeat, member)
    )


def _problem_of_append_reply(
    reply: AppendReply, member: Receiver, log: LogView, leadership: Leadership | None
) -> str | None:
    """A leader sends entries before they are durable here: after a crash it may have fewer than
    its followers, but then it leads that term no more."""
    problem = _out_of_range(
        term=reply.term,
        prev_index=reply.prev_index,
        match_index=reply.match_index,
        conflict_term=reply.conflict_term,
        conflict_index=reply.conflict_index,
        last_index=reply.last_index,
        recovery=reply.recovery,
    )
    if problem is not None:
        return problem
    if reply.accepted and reply.term > member.term:
        return f"nothing was sent in term {reply.term}"
    leads = leadership is not None and reply.term == member.term
    if leads and reply.accepted and reply.match_index > log.last_index:
        return f"entry {reply.match_index} was never sent: {log.last_index} is the last"
    return None


def _problem_of_heartbeat_reply(
    reply: HeartbeatReply, member: Receiver, leadership: Leadership | None
) -> str | None:
    problem = _out_of_range(
        term=reply.term,
        read_round=reply.read_round,
        last_index=reply.last_index,
        quiet=reply.quiesce_round,
        recovery=reply.recovery,
    )
    if problem is None and leadership is not None and reply.term == member.term:
        if reply.read_round > leadership.reads.latest:
            return f"read round {reply.read_round} was never started"
        if reply.quiesce_round > leadership.quiescence.round:
            return f"round {reply.quiesce_round} of asking to quiesce never began"
    return problem


def _problem_of_vote_request(request: VoteRequest) -> str | None:
    """A candidate's term is above that of its last entry: it has just begun."""
    if request.pre and request.transfer:
        return "a pre-vote is asked for, where the leader has handed its role over"
    return _out_of_range(
        term=request.term, last_index=request.last_index, last_term=request.last_term
    ) or _problem_of_position("last entry", request.last_index, request.last_term, request.term - 1)


def _problem_of_vote_reply(reply: VoteReply, member: Receiver) -> str | None:
    """A vote is asked for only once the candidate's term and own vote are durable, so it knows
    them. A pre-vote is asked for at once, and its term may be forgotten in a crash."""
    problem = _out_of_range(term=reply.term)
    if problem is None and reply.granted and not reply.pre:
        stood = member.vote == member.node
        if reply.term > member.term or (reply.term == member.term and not stood):
            return f"its vote in term {reply.term} was never asked for"
    return problem
