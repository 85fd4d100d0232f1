"""What must hold between two moments of one member, checked from outside what it checks.

`observe` before an event, `check` after it: tests and the simulator do so around every single
event. A broken rule is an AssertionError that names it. Costs a few microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from raftlog.core.leadership import FollowerView
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import NOBODY, LogIndex, NodeId, Term

_NEXT_ROLES = {
    Role.FOLLOWER: (Role.FOLLOWER, Role.PRE_CANDIDATE),
    Role.PRE_CANDIDATE: (Role.PRE_CANDIDATE, Role.FOLLOWER, Role.CANDIDATE, Role.LEADER),
    Role.CANDIDATE: (Role.CANDIDATE, Role.FOLLOWER, Role.PRE_CANDIDATE, Role.LEADER),
    Role.LEADER: (Role.LEADER, Role.FOLLOWER),
}
"""What one event may make of a role (Raft figure 4, with the pre-vote before an election).

From a pre-vote it may come to lead by late votes of an election in the same term."""


class Observed(NamedTuple):
    """One moment of one member."""

    role: Role
    term: Term
    vote: NodeId
    leader: NodeId
    last_index: LogIndex
    last_term: Term
    durable_index: LogIndex
    commit_index: LogIndex
    commit_term: Term
    last_applied: LogIndex
    followers: tuple[FollowerView, ...]
    quiesced: bool


def observe(raft: Raft) -> Observed:
    """The moment now; independent of what happens to `raft` later."""
    assert raft.commit_index <= raft.last_index, "committed what is not in the log"
    return Observed(
        role=raft.role,
        term=raft.term,
        vote=raft.vote,
        leader=raft.leader,
        last_index=raft.last_index,
        last_term=raft.term_at(raft.last_index),
        durable_index=raft.durable_index,
        commit_index=raft.commit_index,
        commit_term=raft.term_at(raft.commit_index),
        last_applied=raft.last_applied,
        followers=raft.followers(),
        quiesced=raft.quiesced,
    )


def check(before: Observed, raft: Raft) -> Observed:
    """Check the moment now by itself and against `before`, one event earlier; return it."""
    now = observe(raft)
    _check_moment(now, raft.node)
    _check_roles(before, now)
    _check_votes(before, now)
    _check_log(before, now, raft)
    if now.role is Role.LEADER:
        _check_leader(before, now)
    return now


def _check_moment(now: Observed, node: NodeId) -> None:
    assert now.last_applied <= now.commit_index, "applied what is not committed"
    assert now.durable_index <= now.last_index, "durable beyond the log"
    assert now.last_term <= now.term, "an entry of a term to come"
    assert (now.role is Role.LEADER) == (now.leader == node), "who leads knows it"
    if now.role in (Role.CANDIDATE, Role.LEADER):
        assert now.vote == node, "a candidate votes for itself"
    if now.role in (Role.CANDIDATE, Role.PRE_CANDIDATE):
        assert now.leader == NOBODY, "who campaigns follows nobody"
    if now.quiesced:
        assert now.leader != NOBODY, "who knows no leader must not be quiesced"
        assert now.commit_index == now.last_index, "quiesced before all is committed"


def _check_roles(before: Observed, now: Observed) -> None:
    assert now.role in _NEXT_ROLES[before.role], f"{before.role} became {now.role} in one event"
    if now.role is Role.CANDIDATE and before.role is Role.PRE_CANDIDATE:
        assert now.term == before.term + 1, "an election opens exactly one new term"
    if now.role is Role.LEADER:
        assert now.term == before.term, "a leader leads the term it was elected for"


def _check_votes(before: Observed, now: Observed) -> None:
    assert now.term >= before.term, "the term fell"
    if now.term > before.term:
        return
    assert now.vote == before.vote or before.vote == NOBODY, "two votes in one term"
    known = before.leader != NOBODY and now.leader != NOBODY
    assert not known or now.leader == before.leader, "two leaders in one term"


def _check_log(before: Observed, now: Observed, raft: Raft) -> None:
    assert now.commit_index >= before.commit_index, "commit_index fell"
    assert now.last_applied >= before.last_applied, "last_applied fell"
    assert raft.term_at(before.commit_index) == before.commit_term, "a committed entry changed"
    if before.role is Role.LEADER and now.role is Role.LEADER:
        assert now.last_index >= before.last_index, "a leader truncated its own log"
        assert raft.term_at(before.last_index) == before.last_term, "a leader changed its own log"
        assert now.durable_index >= before.durable_index, "what was durable at a leader is not"


def _check_leader(before: Observed, now: Observed) -> None:
    for earlier, later in zip(before.followers, now.followers, strict=bool(before.followers)):
        assert earlier.node == later.node, "voters changed"
        assert earlier.match_index <= later.match_index, "match_index fell"
    for follower in now.followers:
        assert follower.match_index <= now.last_index, "matched beyond the leader's log"
    if now.commit_index > before.commit_index:
        holders = sum(1 for each in now.followers if each.match_index >= now.commit_index)
        assert 2 * holders > len(now.followers), "committed without a majority of durable copies"
        assert now.commit_term == now.term, "an older term's entry was committed by counting"
