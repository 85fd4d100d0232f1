"""The checker notices each broken rule: every test breaks one in the observed status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.ready import Role
from raftlog.core.status import RaftStatus
from raftlog.core.types import LogIndex, Term
from tests.core import invariants
from tests.core.member import Member, acceptance, heartbeat


def _follower() -> Member:
    member = Member(1, terms=[1, 1, 2], term=2, vote=2)
    member.step(heartbeat(member, 2, term=2, commit_index=2))
    return member


def _with_match_index(status: RaftStatus, index: int) -> RaftStatus:
    """As if follower 2 had acknowledged the entries up to `index`."""
    views = [
        view._replace(match_index=LogIndex(index)) if view.node == 2 else view
        for view in status.followers
    ]
    return replace(status, followers=tuple(views))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("term", 1, "a future term"),
        ("vote", 3, "two votes"),
        ("leader", 3, "two leaders"),
        ("commit_index", 1, "applied what is not committed"),
        ("commit_index", 9, "committed what is not in the log"),
        ("last_applied", 0, "last_applied fell"),
        ("last_applied", 3, "applied what is not committed"),
        ("durable_index", 9, "durable beyond the log"),
        ("role", Role.CANDIDATE, "a candidate votes for itself"),
        ("role", Role.LEADER, "a leader names itself as leader"),
        ("role", Role.PRE_CANDIDATE, "campaigns follows no leader"),
    ],
)
def test_a_follower_s_rules_are_watched(attribute: str, value: object, message: str) -> None:
    """CHECKLIST 18, 30, 31."""
    raft = _follower().raft
    now = raft.status()
    with pytest.raises(AssertionError, match=message):
        invariants.compare(now, replace(now, **{attribute: value}), raft.log.term_at)


def test_a_changed_committed_entry_is_noticed() -> None:
    """CHECKLIST 18."""
    now = _follower().raft.status()
    with pytest.raises(AssertionError, match="a committed entry changed"):
        invariants.compare(now, now, lambda index: Term(2))


def test_a_leader_s_rules_are_watched() -> None:
    """CHECKLIST 2, 10, 59."""
    leader = Member(1, terms=[1, 1]).lead()
    leader.step(acceptance(leader, 2, 3))
    raft, now = leader.raft, leader.raft.status()

    longer = replace(now, last_index=LogIndex(4))
    with pytest.raises(AssertionError, match="truncated its own log"):
        invariants.compare(longer, now, raft.log.term_at)

    fallen = _with_match_index(now, 2)
    with pytest.raises(AssertionError, match="match_index fell"):
        invariants.compare(now, fallen, raft.log.term_at)

    uncounted = replace(longer, commit_index=LogIndex(4))
    with pytest.raises(AssertionError, match="without a majority"):
        invariants.compare(now, uncounted, raft.log.term_at)


def test_an_old_term_s_entry_committed_by_counting_is_noticed() -> None:
    """CHECKLIST 10."""
    leader = Member(1, terms=[1, 1]).lead()
    before = leader.raft.status()
    held = _with_match_index(before, 2)
    now = replace(held, commit_index=LogIndex(2), commit_term=Term(1))
    with pytest.raises(AssertionError, match="older term"):
        invariants.compare(before, now, leader.raft.log.term_at)


def test_an_election_without_a_pre_vote_is_noticed() -> None:
    """CHECKLIST 30."""
    raft = Member(1, terms=[1]).raft
    before = raft.status()
    now = replace(before, role=Role.CANDIDATE, vote=1)
    with pytest.raises(AssertionError, match="without a pre-vote"):
        invariants.compare(before, now, raft.log.term_at)
