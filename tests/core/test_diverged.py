"""A member whose state machine differs from the majority's votes, and never leads."""

from __future__ import annotations

from raftlog.core.messages import AppendReply, Heartbeat, VoteReply
from raftlog.core.ready import Role
from tests.core.member import (
    TIMING,
    Member,
    append_request,
    heartbeat,
    vote_reply,
    vote_request,
)
from tests.core.network import Network
from tests.core.test_quiescence import quiesced_follower, quiesced_leader


def test_a_leader_that_has_diverged_steps_down_and_drops_its_reads() -> None:
    leader = Member(1, terms=[1]).lead()
    leader.read_index(7)
    leader.raft.note_fitness(may_lead=False)
    leader.settle()
    assert leader.raft.role is Role.FOLLOWER
    assert leader.reads_dropped == [7]


def test_a_leader_that_has_diverged_wakes_its_followers() -> None:
    """They hear its process and would wait for it, and it does not campaign."""
    leader = quiesced_leader()
    leader.raft.note_fitness(may_lead=False)
    leader.settle()
    assert (leader.raft.role, leader.raft.quiesced) == (Role.FOLLOWER, False)
    last = leader.take(Heartbeat)
    assert [(message.to, message.quiesce_round) for message in last] == [(2, 0), (3, 0)]
    follower = quiesced_follower()
    follower.step(last[0])
    assert not follower.raft.quiesced
    follower.tick(TIMING.election_ticks_min)
    assert follower.raft.role is Role.PRE_CANDIDATE


def test_it_starts_no_election_until_its_state_is_sound_again() -> None:
    member = Member(1, terms=[1])
    member.raft.note_fitness(may_lead=False)
    member.tick(10 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 1)
    assert not member.take()
    member.raft.note_fitness(may_lead=True)
    member.tick()
    assert member.raft.role is Role.PRE_CANDIDATE


def test_a_candidate_that_has_diverged_does_not_win_by_late_votes() -> None:
    member = Member(1, terms=[1])
    member.tick(2 * TIMING.election_ticks_min)
    member.step(*[vote_reply(member, voter, term=2, pre=True) for voter in (2, 3)])
    assert member.raft.role is Role.CANDIDATE
    member.raft.note_fitness(may_lead=False)
    member.step(*[vote_reply(member, voter, term=2) for voter in (2, 3)])
    assert member.raft.role is Role.FOLLOWER


def test_it_votes_and_acknowledges_as_before() -> None:
    member = Member(1, terms=[1])
    member.raft.note_fitness(may_lead=False)
    member.tick(2 * TIMING.election_ticks_min)
    for pre in (True, False):
        member.step(vote_request(member, 2, term=2, last=(1, 1), pre=pre))
        assert [reply.granted for reply in member.take(VoteReply)] == [True]
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2]))
    assert [reply.match_index for reply in member.take(AppendReply)] == [2]


def test_the_others_elect_a_leader_with_its_vote() -> None:
    network = Network.of(3, seed=5)
    leader = network.elect_any()
    leader.propose("x")
    network.settle()
    leader.raft.note_fitness(may_lead=False)
    leader.settle()
    other = next(node for node in (1, 2, 3) if node != leader.node)
    network.crash(other)
    network.tick_until(lambda: network.leader is not None and network.leader is not leader)
    network.tick(4 * TIMING.election_ticks_min)
    assert network.leader is not None
    assert network.leader.node not in (leader.node, other)
    assert leader.log == network.leader.log


def test_a_quiesced_follower_that_has_diverged_stays_as_it_is() -> None:
    """It does not lead, so it has nothing to tell the others."""
    member = Member(1, terms=[1])
    member.step(heartbeat(member, 2, term=1, commit_index=1))
    before = member.raft.status()
    member.raft.note_fitness(may_lead=False)
    assert member.raft.status() == before
