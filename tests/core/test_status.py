"""What a member's status says, at one moment."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, Term
from tests.core.member import TIMING, Longest, Member, acceptance, heartbeat, vote_reply


def test_a_follower_shows_its_timer() -> None:
    member = Member(1, terms=[1, 1], term=2, random=Longest())
    member.step(heartbeat(member, 3, term=2, commit_index=2))
    member.tick(4)
    status = member.raft.status()
    assert (status.role, status.term, status.leader, status.vote) == (Role.FOLLOWER, 2, 3, NO_NODE)
    assert (status.last_index, status.last_term) == (2, 1)
    assert (status.commit_index, status.commit_term, status.last_applied) == (2, 1, 2)
    assert (status.elapsed_ticks, status.timeout_ticks) == (4, 2 * TIMING.election_ticks_min)
    assert status.followers == status.votes_granted == status.votes_refused == ()


def test_a_candidate_shows_the_votes_of_what_it_asks_now() -> None:
    """First the pre-vote's answers, then only the election's."""
    member = Member(1, voters=5)
    member.tick(2 * TIMING.election_ticks_min)
    member.step(vote_reply(member, 4, term=0, granted=False, pre=True))
    status = member.raft.status()
    assert status.role is Role.PRE_CANDIDATE
    assert (status.votes_granted, status.votes_refused) == ((1,), (4,))
    member.step(*[vote_reply(member, voter, term=1, pre=True) for voter in (2, 3)])
    member.step(vote_reply(member, 5, term=1))
    status = member.raft.status()
    assert (status.role, status.vote, status.term) == (Role.CANDIDATE, 1, Term(1))
    assert (status.votes_granted, status.votes_refused) == ((1, 5), ())


def test_a_leader_shows_its_followers_and_the_reads_that_wait() -> None:
    """A status does not change with the member."""
    leader = Member(1, terms=[1]).lead()
    leader.read_index(7)
    before = leader.raft.status()
    leader.step(acceptance(leader, 2, 2))
    now = leader.raft.status()
    assert [view.match_index for view in before.followers] == [2, 0, 0]
    assert [view.match_index for view in now.followers] == [2, 2, 0]
    assert [view.next_index for view in now.followers] == [3, 3, 3]
    assert (before.commit_index, now.commit_index) == (0, 2)
    assert [read.request_id for read in before.pending_reads] == [7]
    with pytest.raises(FrozenInstanceError):
        before.term = Term(9)  # type: ignore[misc]
