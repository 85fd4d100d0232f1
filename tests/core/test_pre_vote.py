"""Pre-vote: ask whether an election can be won before it disturbs anyone (Raft dissertation section
9.6)."""

from __future__ import annotations

import pytest

from raftlog.core.messages import VoteReply, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, HardState, Term
from tests.core.member import TIMING, Longest, Member, heartbeat, vote_reply, vote_request
from tests.core.network import Network


def test_a_pre_vote_changes_no_term_and_no_vote_anywhere() -> None:
    """CHECKLIST 36."""
    member = Member(1, term=3)
    member.step(vote_request(member, 2, term=9, last=(0, 0), pre=True))
    assert (member.raft.term, member.raft.vote) == (3, 0)
    assert [(r.granted, r.term) for r in member.take(VoteReply)] == [(True, 9)]
    assert member.disk_hard_state == HardState(Term(3), NO_NODE)
    member.tick(TIMING.election_ticks_min)
    assert member.raft.role is Role.PRE_CANDIDATE
    assert [(r.term, r.pre) for r in member.take(VoteRequest)] == [(4, True), (4, True)]
    assert member.raft.term == 3


@pytest.mark.parametrize("pre", [True, False])
def test_a_member_that_hears_a_leader_refuses_pre_votes_and_votes(pre: bool) -> None:
    """CHECKLIST 36: and keeps its term, so the leader is not deposed."""
    member = Member(1, term=3)
    member.step(heartbeat(member, 3, term=3))
    member.tick(TIMING.election_ticks_min - 1)
    member.step(vote_request(member, 2, term=9, last=(8, 9), pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]
    assert (member.raft.term, member.raft.leader) == (3, 3)


def test_a_leader_refuses_pre_votes_and_votes() -> None:
    """CHECKLIST 36."""
    member = Member(1, terms=[1]).lead()
    for pre in (True, False):
        member.take()
        member.step(vote_request(member, 2, term=9, last=(8, 9), pre=pre))
        assert [reply.granted for reply in member.take(VoteReply)] == [False]
    assert member.raft.role is Role.LEADER


def test_a_member_that_heard_no_leader_for_a_timeout_grants_its_vote() -> None:
    """CHECKLIST 36."""
    member = Member(1, term=3, random=Longest())
    member.step(heartbeat(member, 3, term=3))
    member.tick(TIMING.election_ticks_min)
    assert member.raft.role is Role.FOLLOWER
    member.step(vote_request(member, 2, term=4, last=(0, 0), pre=True))
    assert [reply.granted for reply in member.take(VoteReply)] == [True]


def test_the_return_of_an_isolated_member_causes_no_election() -> None:
    """CHECKLIST 36: many timeouts do not raise its term, and its return raises no other term."""
    network = Network.of(3, logs=[[1]] * 3)
    leader = network.elect(1)
    term = leader.raft.term
    network.isolate(3)
    network.tick(10 * TIMING.election_ticks_min)
    assert network[3].raft.role is Role.PRE_CANDIDATE
    assert network[3].raft.term == term
    leader.propose("meanwhile")
    network.settle()
    network.heal()
    network.tick(4 * TIMING.election_ticks_min)
    assert (leader.raft.role, leader.raft.term) == (Role.LEADER, term)
    assert network[3].log == leader.log


def test_even_a_late_refusal_from_a_later_term_makes_its_receiver_step_down() -> None:
    """CHECKLIST 16, 36: its receiver follows, whatever its role is by then."""
    for role in (Role.PRE_CANDIDATE, Role.LEADER):
        member = Member(1, terms=[1], term=1)
        if role is Role.LEADER:
            member.lead()
        else:
            member.tick(TIMING.election_ticks_min)
        assert member.raft.role is role
        member.step(vote_reply(member, 2, term=7, granted=False, pre=True))
        assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 7)


def test_a_late_grant_of_a_pre_vote_raises_no_term() -> None:
    """CHECKLIST 36: it names a term that never began."""
    member = Member(1, terms=[1], term=1)
    member.tick(TIMING.election_ticks_min)
    member.step(vote_reply(member, 2, term=7, pre=True))
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 1)
    follower = Member(1, terms=[1], term=1)
    follower.step(vote_reply(follower, 2, term=2, pre=True))
    assert (follower.raft.role, follower.raft.term) == (Role.FOLLOWER, 1)


def test_a_refused_pre_vote_ends_in_waiting_not_in_an_election() -> None:
    """CHECKLIST 36."""
    member = Member(1, terms=[1], term=4)
    member.tick(TIMING.election_ticks_min)
    member.step(*[vote_reply(member, n, term=4, granted=False, pre=True) for n in (2, 3)])
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 4)


def test_a_member_behind_by_a_term_may_try_for_the_present_one_once() -> None:
    """A pre-vote for our own term is granted under the same rules as a vote in it."""
    free, voted = Member(1, term=4), Member(1, term=4, vote=3)
    for member in (free, voted):
        member.step(vote_request(member, 2, term=4, last=(0, 0), pre=True))
    assert [reply.granted for reply in free.take(VoteReply)] == [True]
    assert [reply.granted for reply in voted.take(VoteReply)] == [False]
