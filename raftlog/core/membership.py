"""Who decides in a group, and how that changes: Raft section 6, joint consensus. Pure.

A change of voters goes through a *joint* membership, in which both the former voters and the new
ones must agree to every decision, by a majority each. Learners are sent the log and decide nothing.
A membership holds from the moment when its entry is written, committed or not, and is gone with an
entry that is truncated; so the one that holds is always that of the last such entry in the log.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from raftlog.core.log_view import LogView
from raftlog.core.state import Part
from raftlog.core.types import (
    NO_TERM,
    Entry,
    EntryKind,
    LastEntry,
    LogIndex,
    NodeId,
    Payload,
    Term,
    VotersAt,
)

_NUMBER_MAX = 2**63 - 1
"""The largest id and generation in a log: what messages and snapshots hold."""

_BYTES_MAX = 64 * 1024
"""Of a membership in a log. One of 3,000 members with the longest ids has 63,000."""


def problem_of_members(
    voters: Sequence[int], outgoing: Sequence[int], learners: Sequence[int]
) -> str | None:
    """Why no membership has these members; None: one may."""
    for members in (voters, outgoing, learners):
        if list(members) != sorted(set(members)):
            return "members are not sorted and distinct"
        if any(member <= 0 for member in members):
            return "node ids do not count from 1"
    if not voters and (outgoing or learners):
        return "it has no voters"
    if set(voters) & set(learners):
        return "a voter is a learner"
    return None


@dataclass(frozen=True, slots=True)
class Membership:
    """The members by kind; each is sorted and without repeats. Without voters it can decide
    nothing: so begins a member that nothing has named yet."""

    voters: tuple[NodeId, ...] = ()
    outgoing: tuple[NodeId, ...] = ()
    """While a change is under way, the former voters; else ()."""
    learners: tuple[NodeId, ...] = ()
    """Sent the log, but no voters, nor about to be any. A former voter that becomes one is both
    while it still counts."""
    generation: int = 0
    """Which placement was asked for when this was written. It never falls in one log."""

    def __post_init__(self) -> None:
        problem = problem_of_members(self.voters, self.outgoing, self.learners)
        assert problem is None, problem
        assert self.generation >= 0, "generations count from 0"

    @property
    def is_joint(self) -> bool:
        """Is a change of voters under way?"""
        return bool(self.outgoing)

    @property
    def deciding(self) -> tuple[tuple[NodeId, ...], ...]:
        """The sets of voters of which a majority each must agree; () without voters."""
        return tuple(filter(None, (self.voters, self.outgoing)))

    @property
    def all_voters(self) -> tuple[NodeId, ...]:
        """Everyone whose vote counts, by id."""
        return self.voters if not self.outgoing else _sorted({*self.voters, *self.outgoing})

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Everyone that is sent the log, by id."""
        if not self.outgoing and not self.learners:
            return self.voters
        return _sorted({*self.voters, *self.outgoing, *self.learners})


@dataclass(frozen=True, slots=True)
class MembershipAt:
    """A membership, and the entry that it came with; 0: it came with the group itself."""

    index: LogIndex
    membership: Membership


def changed(now: Membership, goal: Membership) -> Membership:
    """What is written to turn `now` into `goal`; neither is joint. It is joint if the voters are
    others."""
    assert not now.is_joint, "one change at a time"
    assert not goal.is_joint, "what is joint is no goal"
    assert goal.voters, "a group without voters can decide nothing"
    assert goal.generation >= now.generation, "an older wish never undoes a newer one"
    return goal if goal.voters == now.voters else replace(goal, outgoing=now.voters)


def completed(joint: Membership) -> Membership:
    """What is written once the joint membership is committed: the former voters go."""
    assert joint.is_joint, "there is a change to complete"
    return replace(joint, outgoing=())


def _sorted(members: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(set(members)))


# ---------------------------------------------------------------- in the log


def encode_membership(membership: Membership) -> Payload:
    """The payload of an entry of kind CONFIGURATION: JSON (docs/FORMAT.md)."""
    return Payload(json.dumps(asdict(membership), separators=(",", ":")).encode(), b"")


def decode_membership(command: bytes) -> Membership:
    """What `encode_membership` wrote. Raises `ValueError` for anything else."""
    if len(command) > _BYTES_MAX:
        raise ValueError(f"it has {len(command)} bytes; {_BYTES_MAX} are allowed")
    try:
        found = json.loads(command)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict) or found.keys() != {each.name for each in fields(Membership)}:
        raise ValueError("it names no voters, outgoing ones, learners and generation")
    kinds = [found[kind] for kind in ("voters", "outgoing", "learners")]
    for members in kinds:
        if not isinstance(members, list) or not all(type(each) is int for each in members):
            raise ValueError("it has a kind of members that is no list of numbers")
    problem = problem_of_members(*kinds)
    if problem is not None:
        raise ValueError(problem)
    generation = found["generation"]
    if type(generation) is not int or generation < 0:
        raise ValueError("it has a generation that is no number from 0")
    if max(generation, *(member for members in kinds for member in members), 0) > _NUMBER_MAX:
        raise ValueError("it has a number that no message holds")
    voters, outgoing, learners = (tuple(map(NodeId, members)) for members in kinds)
    return Membership(voters, outgoing, learners, generation)


class Memberships(Part):
    """The memberships that a log holds, and the one before its first entry."""

    __slots__ = ("_indexes", "_latest", "_lost", "_memberships", "_terms", "voters_at")

    def __init__(self, base: MembershipAt) -> None:
        """`base` is in a snapshot, or came with the group; what the log holds after it is told by
        `grown`."""
        self._indexes: list[int] = [base.index]
        self._memberships = [base.membership]
        self._terms: list[Term] = [NO_TERM]
        self._lost: MembershipAt | None = None
        self._latest = base
        self.voters_at: VotersAt | None = None
        """Those of `latest`; None: it came with the group itself."""
        self._note_latest()

    def date_base(self, log: LogView) -> None:
        """A membership in a snapshot has no term. The log still holds its entry, or has dropped it:
        then the log's base is as late, and this member held that as well."""
        index = self._indexes[0]
        if 0 < index <= log.last_index:
            self._terms[0] = log.term_at(max(index, log.base_index))
            self._note_latest()

    def lost(self, voters: VotersAt) -> None:
        """A log whose end is lost had a membership with these voters. They are the latest that are
        known, until the log reaches as far again."""
        self._lost = MembershipAt(voters.since, Membership(voters.voters, voters.outgoing))
        self.voters_at = voters
        self._note_latest()

    def _note_latest(self) -> None:
        in_log = MembershipAt(LogIndex(self._indexes[-1]), self._memberships[-1])
        self._latest = self._lost or in_log
        index, membership = self._latest.index, self._latest.membership
        known = self.voters_at
        term = known.term if self._lost and known else self._terms[-1]
        told = VotersAt(index, membership.voters, membership.outgoing, term=term) if index else None
        if known is None or told != known._replace(held=False):
            self.voters_at = told

    @property
    def latest(self) -> Membership:
        """The one that holds, committed or not."""
        return self._latest.membership

    @property
    def latest_index(self) -> LogIndex:
        """The entry that it came with."""
        return self._latest.index

    def at(self, index: LogIndex) -> MembershipAt:
        """The membership as it was after entry `index`, which is not below the log's base."""
        found = bisect_right(self._indexes, index) - 1
        assert found >= 0, "what was before the base is not known any more"
        return MembershipAt(LogIndex(self._indexes[found]), self._memberships[found])

    def needs(self, node: NodeId, commit_index: LogIndex) -> bool:
        """May an election depend on `node`? Also on one that the latest membership takes out, as
        long as that is not known to be committed: it may be the only one that has it (Raft
        dissertation section 4.2.2)."""
        if node in self.latest.all_voters:
            return True
        if self.latest_index <= commit_index:
            return False
        return node in self.at(LogIndex(self.latest_index - 1)).membership.all_voters

    def grown(self, entries: Iterable[Entry]) -> None:
        """The log has gained the entries at its end."""
        for entry in entries:
            if entry.kind is EntryKind.CONFIGURATION:
                assert entry.index > self._indexes[-1], "memberships rise"
                self._indexes.append(entry.index)
                self._memberships.append(decode_membership(entry.payload.command))
                self._terms.append(entry.term)
                self._note_latest()
            lost = self.voters_at if self._lost is not None else None
            if lost is not None and not lost.lacks(LastEntry(entry.term, entry.index)):
                self._lost = None
                self._note_latest()

    def persisted(self, durable_index: LogIndex) -> None:
        """The log is durable up to that entry."""
        if (
            self.voters_at is not None
            and not self.voters_at.held
            and self.voters_at.since <= durable_index
        ):
            self.voters_at = self.voters_at._replace(held=True)

    def truncate_from(self, index: LogIndex) -> None:
        """The log has lost that entry and all after it: the one before holds again."""
        kept = max(1, bisect_left(self._indexes, index))
        if kept < len(self._indexes):
            del self._indexes[kept:]
            del self._memberships[kept:]
            del self._terms[kept:]
            self._note_latest()

    def drop_to(self, index: LogIndex) -> None:
        """The log begins after that entry now. What a snapshot beyond it told stays."""
        gone = max(0, bisect_right(self._indexes, index) - 1)
        del self._indexes[:gone]
        del self._memberships[:gone]
