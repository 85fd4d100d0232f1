"""The checker notices what it is there for: each rule is broken once, by force."""

from __future__ import annotations

import pytest

from raftlog.core import invariants
from raftlog.core.ready import Role
from tests.core.member import Member, acceptance, heartbeat


def _follower() -> Member:
    member = Member(1, terms=[1, 1, 2], term=2, vote=2)
    member.step(heartbeat(member, 2, term=2, commit_index=2))
    return member


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("_term", 1, "a term to come"),
        ("_vote", 3, "two votes"),
        ("_leader", 3, "two leaders"),
        ("_commit_index", 1, "applied what is not committed"),
        ("_commit_index", 9, "committed what is not in the log"),
        ("_last_applied", 0, "last_applied fell"),
        ("_last_applied", 3, "applied what is not committed"),
        ("_durable_index", 9, "durable beyond the log"),
        ("_role", Role.CANDIDATE, "a candidate votes for itself"),
        ("_role", Role.LEADER, "who leads knows it"),
        ("_role", Role.PRE_CANDIDATE, "follows nobody"),
    ],
)
def test_a_follower_s_rules_are_watched(attribute: str, value: object, message: str) -> None:
    """CHECKLIST 18, 30, 31."""
    member = _follower()
    before = invariants.observe(member.raft)
    setattr(member.raft, attribute, value)
    with pytest.raises(AssertionError, match=message):
        invariants.check(before, member.raft)


def test_a_changed_committed_entry_is_noticed() -> None:
    """CHECKLIST 18."""
    member = _follower()
    before = invariants.observe(member.raft)
    member.raft._log._run_terms[:] = [0, 2]
    with pytest.raises(AssertionError, match="a committed entry changed"):
        invariants.check(before, member.raft)


def test_a_leader_s_rules_are_watched() -> None:
    """CHECKLIST 2, 10, 59."""
    leader = Member(1, terms=[1, 1]).lead()
    leader.step(acceptance(leader, 2, 3))
    before = invariants.observe(leader.raft)

    shorter = leader.raft.clone()
    shorter._append_own((leader.log[0].payload,), leader.log[0].kind)
    longer = invariants.observe(shorter)
    shorter._log.truncate_from(4)
    with pytest.raises(AssertionError, match="truncated its own log"):
        invariants.check(longer, shorter)

    fallen = leader.raft.clone()
    fallen._leadership.followers[2].match_index = 2
    with pytest.raises(AssertionError, match="match_index fell"):
        invariants.check(before, fallen)

    uncounted = leader.raft.clone()
    uncounted._append_own((leader.log[0].payload,), leader.log[0].kind)
    uncounted._commit_index = 4
    with pytest.raises(AssertionError, match="without a majority"):
        invariants.check(before, uncounted)


def test_an_old_term_s_entry_committed_by_counting_is_noticed() -> None:
    """CHECKLIST 10."""
    leader = Member(1, terms=[1, 1]).lead()
    before = invariants.observe(leader.raft)
    leader.raft._leadership.followers[2].match_index = 2
    leader.raft._commit_index = 2
    with pytest.raises(AssertionError, match="older term"):
        invariants.check(before, leader.raft)


def test_an_election_without_a_pre_vote_is_noticed() -> None:
    """CHECKLIST 30."""
    member = Member(1, terms=[1])
    before = invariants.observe(member.raft)
    member.raft._role = Role.CANDIDATE
    member.raft._vote = 1
    with pytest.raises(AssertionError, match="in one event"):
        invariants.check(before, member.raft)
