"""What must hold between two moments of one member, checked from outside the code.

Keep the `Raft.status()` from before an event and `check` after it: tests and the simulator do so
around every single event. A broken rule is an AssertionError that names it. It costs a few
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.status import RaftStatus
from raftlog.core.types import NO_NODE, LogIndex, Term

_NEXT_ROLES = {
    Role.FOLLOWER: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE),
    Role.PRE_CANDIDATE: (Role.PRE_CANDIDATE, Role.FOLLOWER, Role.CANDIDATE, Role.LEADER),
    Role.CANDIDATE: (Role.CANDIDATE, Role.FOLLOWER, Role.PRE_CANDIDATE, Role.LEADER),
    Role.LEADER: (Role.LEADER, Role.FOLLOWER),
}
"""What one event may make of a role (Raft figure 4, with the pre-vote before an election, which a
follower leaves out whom the leader tells to campaign).

In a pre-vote, late votes of an election in the same term may still make it leader."""


def check(before: RaftStatus, raft: Raft) -> RaftStatus:
    """Check the present moment by itself and against `before`, one event earlier; return it."""
    now = raft.status()
    compare(before, now, raft.log.term_at, pre_vote=raft.timing.pre_vote)
    return now


def compare(
    before: RaftStatus,
    now: RaftStatus,
    term_at: Callable[[LogIndex], Term],
    *,
    pre_vote: bool = True,
) -> None:
    """Check the moment `now`, of a log with these terms, by itself and against `before`. Does the
    member ask for pre-votes before elections?"""
    _check_moment(now)
    _check_roles(before, now, pre_vote=pre_vote)
    _check_votes(before, now)
    _check_log(before, now, term_at)
    if now.role is Role.LEADER:
        _check_leader(before, now)


def _check_moment(now: RaftStatus) -> None:
    assert now.base_index <= now.last_applied, "dropped what is not applied"
    assert now.first_index == now.base_index + 1, "a log begins after its base"
    assert now.commit_index <= now.last_index, "committed what is not in the log"
    assert now.last_applied <= now.commit_index, "applied what is not committed"
    assert now.durable_index <= now.last_index, "durable beyond the log"
    assert now.last_term <= now.term, "an entry of a future term"
    assert (now.role is Role.LEADER) == (now.leader == now.node), "a leader names itself as leader"
    if now.role in (Role.CANDIDATE, Role.LEADER):
        assert now.vote == now.node, "a candidate votes for itself"
    if now.role in (Role.CANDIDATE, Role.PRE_CANDIDATE):
        assert now.leader == NO_NODE, "a member that campaigns follows no leader"
    if now.quiesced:
        assert now.leader != NO_NODE, "quiesced without a leader"
        assert now.commit_index == now.last_index, "quiesced before all is committed"


def _check_roles(before: RaftStatus, now: RaftStatus, *, pre_vote: bool) -> None:
    assert now.role in _NEXT_ROLES[before.role], f"{before.role} became {now.role} in one event"
    if now.role is Role.CANDIDATE and before.role is Role.FOLLOWER and pre_vote:
        assert now.handed_over, "an election without a pre-vote"
    if now.role is Role.CANDIDATE and before.role is not Role.CANDIDATE:
        assert now.term == before.term + 1, "an election opens exactly one new term"
    if now.role is Role.LEADER:
        assert now.term == before.term, "a leader leads the term it was elected for"


def _check_votes(before: RaftStatus, now: RaftStatus) -> None:
    assert now.term >= before.term, "the term fell"
    if now.term > before.term:
        return
    assert now.vote == before.vote or before.vote == NO_NODE, "two votes in one term"
    known = before.leader != NO_NODE and now.leader != NO_NODE
    assert not known or now.leader == before.leader, "two leaders in one term"


def _check_log(before: RaftStatus, now: RaftStatus, term_at: Callable[[LogIndex], Term]) -> None:
    assert now.base_index >= before.base_index, "base_index fell"
    assert now.commit_index >= before.commit_index, "commit_index fell"
    assert now.last_applied >= before.last_applied, "last_applied fell"
    assert term_at(before.commit_index) == before.commit_term, "a committed entry changed"
    if before.role is Role.LEADER and now.role is Role.LEADER:
        assert now.last_index >= before.last_index, "a leader truncated its own log"
        assert term_at(before.last_index) == before.last_term, "a leader changed its own log"
        assert now.durable_index >= before.durable_index, "what was durable at a leader is not"


def _check_leader(before: RaftStatus, now: RaftStatus) -> None:
    earlier = {follower.node: follower for follower in before.followers}
    for later in now.followers:
        known = earlier.get(later.node, later)
        fell = known.match_index > later.match_index
        assert later.recovery > known.recovery or not fell, "match_index fell"
    assert {each.node for each in now.followers} == {*now.membership.members, now.node}
    for follower in now.followers:
        assert follower.match_index <= now.last_index, "matched beyond the leader's log"
        assert follower.next_index > now.base_index, "it would be sent what was dropped"
        assert follower.probing or not follower.behind_base, "sent entries it cannot append"
    if before.transferring_to != NO_NODE and now.transferring_to == before.transferring_to:
        assert now.last_index == before.last_index, "written while the role was handed over"
    if now.commit_index > before.commit_index:
        holders = {
            each.node
            for each in now.followers
            if not each.recovering and each.match_index >= now.commit_index
        }
        # With the commit a change may be completed: those that left are not looked at any more.
        left = {each.node for each in before.followers} - {each.node for each in now.followers}
        for voters in filter(None, (before.membership.voters, before.membership.outgoing)):
            held = len((holders | left).intersection(voters))
            assert 2 * held > len(voters), "committed without a majority of durable copies"
        assert now.commit_term == now.term, "an older term's entry was committed by counting"
