"""`leader_lost`: the connection to the leader's process was reset, so do not wait for a timeout."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.messages import VoteReply, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE
from tests.core.member import TIMING, Member, heartbeat, vote_request
from tests.core.network import Network


def test_a_follower_told_of_its_leader_s_death_tries_within_the_jitter() -> None:
    """Not at once, so that the others have heard of it too, and not all at the same time."""
    waited = set()
    for seed in range(30):
        member = Member(1, term=2, random=Random(seed))
        member.step(heartbeat(member, 3, term=2))
        member.leader_lost(3, 2)
        assert (member.raft.role, member.raft.leader) == (Role.FOLLOWER, NO_NODE)
        ticks = 0
        while member.raft.role is Role.FOLLOWER:
            member.tick()
            ticks += 1
        waited.add(ticks)
    assert waited == set(range(1, TIMING.leader_lost_jitter_ticks + 1))


def test_a_voter_told_of_its_candidate_s_death_tries_within_the_jitter() -> None:
    """The leader has handed its role over, and nobody else is a candidate."""
    member = Member(1, term=2)
    member.step(vote_request(member, 3, term=3, last=(0, 0)))
    member.candidate_lost(3)
    member.tick(TIMING.leader_lost_jitter_ticks)
    assert member.raft.role is Role.PRE_CANDIDATE


def test_the_death_of_another_candidate_or_of_one_since_elected_changes_nothing() -> None:
    member = Member(1, term=2)
    member.step(vote_request(member, 3, term=3, last=(0, 0)))
    before = member.raft.fingerprint()
    member.candidate_lost(2)
    assert member.raft.fingerprint() == before
    member.step(heartbeat(member, 3, term=3))
    before = member.raft.fingerprint()
    member.candidate_lost(3)
    assert member.raft.fingerprint() == before, "`leader_lost` is said of a leader"


@pytest.mark.parametrize("pre", [True, False])
def test_at_once_it_grants_pre_votes_and_votes(pre: bool) -> None:
    member = Member(1, term=2)
    member.step(heartbeat(member, 3, term=2))
    member.leader_lost(3, 2)
    member.step(vote_request(member, 2, term=3, last=(0, 0), pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [True]


@pytest.mark.parametrize(("leader", "term"), [(2, 2), (3, 1), (3, 3), (0, 2)])
def test_news_of_another_leader_or_term_changes_nothing(leader: int, term: int) -> None:
    member = Member(1, term=2)
    member.step(heartbeat(member, 3, term=2))
    before = member.raft.fingerprint()
    member.leader_lost(leader, term)
    assert member.raft.fingerprint() == before


def test_a_leader_ignores_it() -> None:
    member = Member(1, terms=[1]).lead()
    before = member.raft.fingerprint()
    member.leader_lost(1, member.raft.term)
    assert member.raft.fingerprint() == before


def test_after_it_a_new_leader_is_followed_with_an_ordinary_timeout() -> None:
    member = Member(1, term=2)
    member.step(heartbeat(member, 3, term=2))
    member.leader_lost(3, 2)
    member.step(heartbeat(member, 2, term=3))
    member.tick(TIMING.election_ticks_min - 1)
    assert (member.raft.role, member.raft.leader) == (Role.FOLLOWER, 2)


def test_a_killed_leader_is_replaced_within_the_jitter() -> None:
    """CHECKLIST 33: whatever jitter is drawn, even when both survivors try at the same time."""
    for seed in range(20):
        _is_replaced_within_the_jitter(seed)


def _is_replaced_within_the_jitter(seed: int) -> None:
    network = Network.of(3, logs=[[1]] * 3, seed=seed)
    old = network.elect_any()
    term = old.raft.term
    network.crash(old.node)
    for member in network.up:
        member.leader_lost(old.node, term)
    ticks = network.tick_until(lambda: network.leader is not None)
    assert ticks <= TIMING.leader_lost_jitter_ticks


def test_a_lost_pre_vote_is_sent_again_soon_once_a_majority_can_be_reached() -> None:
    """Its request may have been dropped while the stream to the peer was being dialled."""
    waited = set()
    for seed in range(30):
        member = Member(1, term=2, random=Random(seed))
        member.step(heartbeat(member, 3, term=2))
        member.leader_lost(3, 2)
        while member.raft.role is Role.FOLLOWER:
            member.tick()
        assert member.raft.role is Role.PRE_CANDIDATE
        member.take(VoteRequest)
        member.raft.voters_reachable()
        ticks = 0
        while not (pre_votes := member.take(VoteRequest)):
            member.tick()
            ticks += 1
        assert all(pre_vote.pre for pre_vote in pre_votes)
        waited.add(ticks)
    assert waited == set(range(1, TIMING.leader_lost_jitter_ticks + 1))


def test_a_leader_or_a_member_that_hears_one_ignores_a_new_connection() -> None:
    follower = Member(1, term=2)
    follower.step(heartbeat(follower, 3, term=2))
    leader = Member(1, terms=[1]).lead()
    for member in (follower, leader):
        before = member.raft.fingerprint()
        member.raft.voters_reachable()
        assert member.raft.fingerprint() == before
