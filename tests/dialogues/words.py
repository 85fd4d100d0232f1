"""What members say and do, in one line each.

An entry is written as `term.index`, and with its content where it is written: `2.5 "text"`,
`2.6 no-op`, `2.7 voters 1 2 3`. The end of an empty log is `0.0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership, decode_membership
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    RaftMessage,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import Ready, Role, SoftState
from raftlog.core.status import RaftStatus
from raftlog.core.types import NO_NODE, Entry, EntryKind, HardState
from tests.core.member import Member


def kind_of(message: RaftMessage) -> str:
    """The message's type; a pre-vote has one of its own."""
    pre = "Pre" if isinstance(message, VoteRequest | VoteReply) and message.pre else ""
    return pre + type(message).__name__


def message_in_words(message: RaftMessage) -> str:
    """Who tells whom what, and in which term."""
    said = " ".join(filter(None, _content(message)))
    start = f"{message.sender}>{message.to} {kind_of(message)} term={message.term}"
    return f"{start} {said}".rstrip()


def _content(message: RaftMessage) -> Iterator[str]:
    match message:
        case VoteRequest():
            yield f"last={message.last_term}.{message.last_index}"
            yield "transfer" if message.transfer else ""
        case VoteReply():
            yield "granted" if message.granted else "refused"
        case TimeoutNow():
            yield "wished" if message.wished else ""
        case AppendRequest():
            yield f"prev={message.prev_term}.{message.prev_index} commit={message.commit_index}"
            yield _span(message.entries)
        case AppendReply(accepted=True):
            yield f"match={message.match_index}{_recovery(message.recovery)}"
        case AppendReply():
            yield f"rejects prev={message.prev_index}"
            yield f"conflict={message.conflict_term}.{message.conflict_index}"
            yield _recovery(message.recovery).strip()
        case Heartbeat():
            yield f"commit={message.commit_index}"
            yield f"read={message.read_round}" if message.read_round else ""
            yield f"quiesce={message.quiesce_round}" if message.quiesce_round else ""
            yield f"recovered={message.recovered}" if message.recovered else ""
        case HeartbeatReply():
            yield f"last={message.last_index}"
            yield f"read={message.read_round}" if message.read_round else ""
            yield f"quiesce={message.quiesce_round}" if message.quiesce_round else ""
            yield "" if message.disk_keeps_up else "slow-disk"
            yield "" if message.may_lead else "would-not-lead"
            yield "for-lease" if message.lease_us else ""
            yield _recovery(message.recovery).strip()
        case _:
            assert_never(message)


def _recovery(number: int) -> str:
    return f" recovery={number}" if number else ""


def _span(entries: Sequence[Entry]) -> str:
    """The entries by term and index only: what they hold was told when they were written."""
    if not entries:
        return ""
    places = [f"{entry.term}.{entry.index}" for entry in entries]
    return f"[{' '.join(places)}]"


def entry_in_words(entry: Entry) -> str:
    """Where it is, and what it holds."""
    match entry.kind:
        case EntryKind.NOOP:
            content = "no-op"
        case EntryKind.CONFIGURATION:
            content = membership_in_words(decode_membership(entry.payload.command))
        case EntryKind.COMMAND:
            content = f'"{entry.payload.command.decode()}"'
        case _:
            assert_never(entry.kind)
    return f"{entry.term}.{entry.index} {content}"


def membership_in_words(membership: Membership) -> str:
    """Who decides, and who learns."""
    words = f"voters {_numbers(membership.voters)}"
    if membership.is_joint:
        words += f" and {_numbers(membership.outgoing)}"
    if membership.learners:
        words += f" learners {_numbers(membership.learners)}"
    return words


def _numbers(nodes: Sequence[int]) -> str:
    return " ".join(map(str, nodes)) or "none"


def output_in_words(member: Member, ready: Ready) -> Iterator[str]:
    """What a member decided and had written; what it sends is told when it leaves."""
    node, wait = member.node, "" if member.sync else ", not durable yet"
    if ready.soft_state is not None:
        yield f"{node} {_role(node, ready.soft_state)}"
    if ready.hard_state is not None:
        yield f"{node} notes {_hard_state(ready.hard_state)}{wait}"
    if ready.truncate_from is not None:
        yield f"{node} truncates from {ready.truncate_from}"
    if ready.entries:
        yield f"{node} writes {', '.join(map(entry_in_words, ready.entries))}{wait}"
    if ready.committed is not None:
        first, last = ready.committed
        yield f"{node} applies {first}" + (f" to {last}" if last > first else "")
    for read in ready.reads:
        yield f"{node} confirms read {read.request_id} at {read.index}"
    for request in ready.reads_dropped:
        yield f"{node} drops read {request}"


def _role(node: int, state: SoftState) -> str:
    match state.role:
        case Role.LEADER:
            return f"leads term {state.term}"
        case Role.FOLLOWER:
            leader = "nobody" if state.leader == NO_NODE else state.leader
            return f"follows {leader} in term {state.term}"
        case _:
            return f"is {state.role.value} in term {state.term}"


def _hard_state(state: HardState) -> str:
    voted = f" vote={state.vote}" if state.vote != NO_NODE else ""
    lost = f" lost={state.lost.term}.{state.lost.index}" if state.lost is not None else ""
    held = " held" if state.voters is not None and state.voters.held else ""
    voters = f" voters since {state.voters.since}{held}" if state.voters is not None else ""
    return f"term={state.term}{voted}{_recovery(state.recovery)}{lost}{voters}"


def status_in_words(member: Member, status: RaftStatus) -> str:
    """A member as it is now, with what its log holds after its base."""
    held = member.log[status.base_index :]
    base = f"base={status.base_index} " if status.base_index else ""
    marks = " quiesced" if status.quiesced else " recovering" if member.raft.recovering else ""
    return (
        f"{status.node} {status.role.value}{marks} term={status.term} leader={status.leader} "
        f"{base}log={_span(held) or '[]'} durable={status.durable_index} "
        f"commit={status.commit_index}"
    )


def follower_in_words(view: FollowerView) -> str:
    """A member as its leader sees it."""
    marks = {
        "probing": view.probing,
        "behind-base": view.behind_base,
        "recovering": view.recovering,
        "learner": not view.votes,
    }
    said = [f"{view.node} match={view.match_index} next={view.next_index}"]
    return " ".join([*said, *(mark for mark, holds in marks.items() if holds)])
