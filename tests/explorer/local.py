"""One member as the explorer holds it: a value that events make another value of.

A `Local` is never changed. Its key is equal for members that decide the same on the same events:
ticks count from the last thing that was heard, and writes are numbered from the latest one back,
so that the same situation, met later, is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from raftlog.core.membership import decode_membership
from raftlog.core.messages import AppendReply, AppendRequest, RaftMessage, VoteReply, VoteRequest
from raftlog.core.outbox import WriteLedger
from raftlog.core.ready import Ready, Role
from raftlog.core.state import plain
from raftlog.core.types import Entry, EntryKind
from tests.core.member import Member


class Local:
    """A member between two events."""

    __slots__ = ("_member", "applied", "key", "log", "raft", "term_led", "unsynced")

    def __init__(self, member: Member) -> None:
        """`member` is the value's own from now on."""
        member.outputs = []
        member.reads = []
        member.reads_dropped = []
        self._member = member
        self.raft = member.raft
        self.log: tuple[Entry, ...] = tuple(member.log)
        self.applied = self.log[: len(member.applied)]
        assert list(self.applied) == member.applied, "what was applied is not what the log holds"
        self.unsynced = len(member.unsynced)
        named = [each for each in self.log if each.kind is EntryKind.CONFIGURATION]
        first = member.disk_membership.membership
        last = decode_membership(named[-1].payload.command) if named else first
        assert member.raft.membership == last, "the last membership of its log does not decide"
        self.term_led = member.raft.term if member.raft.role is Role.LEADER else 0
        self.key = _key(member)

    def after(self, event: Callable[[Member], None]) -> tuple[Local, tuple[RaftMessage, ...]]:
        """What the event makes of it, and what is sent. Raises what the event raises, and
        `AssertionError` if a message says more than the disk holds."""
        member = _copy(self._member)
        event(member)
        sent = tuple(member.take())
        for message in sent:
            _check_durable(member, message)
        return Local(member), sent


def _copy(member: Member) -> Member:
    other = object.__new__(Member)
    for name, value in vars(member).items():
        setattr(other, name, list(value) if isinstance(value, list) else value)
    other.raft = member.raft.clone()
    return other


def _check_durable(member: Member, message: RaftMessage) -> None:
    """Raft figure 2: what others count on is on disk before they hear of it."""
    term, vote, *_ = member.disk_hard_state
    durable = max(term, member.disk_log[-1].term if member.disk_log else 0)
    match message:
        case VoteReply(granted=True, pre=False):
            held = term > message.term or (term == message.term and vote == message.to)
            assert held, "a vote has left that is not durable"
        case VoteRequest(pre=False):
            assert message.term <= durable, "a candidate's term has left that is not durable"
        case AppendReply(accepted=True):
            length = len(member.disk_log)
            assert message.match_index <= length, "entries are acknowledged that are not durable"
        case AppendRequest():
            assert message.term <= durable, "a leader writes in a term that is not durable"


def _key(member: Member) -> bytes:
    ledger = member.raft._outbox._writes
    unsynced = [_relative(ready, ledger) for ready in member.unsynced]
    state = (
        plain(member.raft, {WriteLedger: _relative_ledger}), member.log, len(member.applied),
        member.disk_log, member.disk_hard_state, unsynced,
    )  # fmt: skip
    return blake2b(repr(state).encode(), digest_size=16).digest()


def _relative(ready: Ready, ledger: WriteLedger) -> object:
    number = ready.write_number - ledger._latest if ready.write_number else None
    after = ready.messages_after_persist
    return (number, ready.hard_state, ready.truncate_from, ready.entries, after)


def _relative_ledger(ledger: WriteLedger) -> object:
    """Equal for equal futures: writes are numbered from the latest one back."""
    return [(number - ledger._latest, last) for number, last in ledger._reach]
