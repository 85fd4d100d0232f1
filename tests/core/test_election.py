"""Elections: roles, votes, who may win (Raft sections 5.1, 5.2, 5.4.1)."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.messages import AppendReply, AppendRequest, Heartbeat, VoteReply, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, HardState
from raftlog.errors import PeerProtocolViolation
from tests.core.member import (
    TIMING,
    Member,
    Shortest,
    append_request,
    heartbeat,
    vote_reply,
    vote_request,
)
from tests.core.network import Network


def test_a_member_starts_as_a_follower_that_knows_no_leader() -> None:
    """CHECKLIST 30."""
    for terms in ([], [1, 1, 3]):
        raft = Member(1, terms=terms).raft
        assert (raft.role, raft.leader) == (Role.FOLLOWER, NO_NODE)
        assert not raft.ready()


def test_a_member_becomes_leader_step_by_step() -> None:
    """CHECKLIST 30: follower, pre-vote, candidate, leader; the term rises once, by one."""
    member = Member(1, terms=[1], term=4)
    roles = [member.raft.role]
    member.tick(TIMING.election_ticks_min)
    roles.append(member.raft.role)
    assert member.raft.term == 4
    member.step(vote_reply(member, 2, term=5, pre=True))
    roles.append(member.raft.role)
    assert member.raft.term == 5
    member.step(vote_reply(member, 2, term=5))
    roles.append(member.raft.role)
    assert roles == [Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE, Role.LEADER]
    assert (member.raft.term, member.raft.leader) == (5, 1)


def test_timeouts_are_random_between_one_and_two_election_timeouts() -> None:
    """CHECKLIST 30: members of one group do not keep timing out together."""
    waited = set()
    for seed in range(60):
        member = Member(1, terms=[1], random=Random(seed))
        ticks = 0
        while member.raft.role is Role.FOLLOWER:
            member.tick()
            ticks += 1
        waited.add(ticks)
    low, high = TIMING.election_ticks_min, 2 * TIMING.election_ticks_min
    assert min(waited) == low
    assert max(waited) == high
    assert len(waited) > 7


def test_a_group_that_never_had_a_leader_elects_one_within_a_timeout() -> None:
    """There is no leader to disturb yet, so a new topic can be written sooner."""
    for seed in range(10):
        network = Network.of(3, seed=seed)
        ticks = network.tick_until(lambda network=network: network.leader is not None)
        assert ticks <= TIMING.election_ticks_min


def test_a_group_of_one_elects_itself_at_once() -> None:
    member = Member(1, voters=1, terms=[1, 1])
    member.tick()
    assert member.raft.role is Role.LEADER
    assert member.raft.commit_index == 3


def test_a_vote_is_given_once_per_term_and_repeated_to_its_holder_only() -> None:
    """CHECKLIST 31."""
    member = Member(1, term=1)
    request = vote_request(member, 2, term=2, last=(0, 0))
    member.step(request, request, vote_request(member, 3, term=2, last=(1, 9)))
    answers = [(reply.to, reply.granted) for reply in member.take(VoteReply)]
    assert answers == [(2, True), (2, True), (3, False)]
    assert member.disk_hard_state == HardState(2, 2)


def test_a_vote_leaves_only_after_it_is_durable_and_survives_a_crash() -> None:
    """CHECKLIST 31: a crash around the vote never gives two."""
    member = Member(1, term=1, sync=False)
    member.step(vote_request(member, 2, term=2, last=(0, 0)))
    assert member.take() == [], "not durable yet"
    member.start()
    assert member.raft.vote == NO_NODE, "forgotten, but it was never sent"
    member.step(vote_request(member, 3, term=2, last=(0, 0)))
    member.persist()
    assert [reply.granted for reply in member.take(VoteReply)] == [True]
    member.start()
    member.step(vote_request(member, 2, term=2, last=(0, 0)))
    member.persist()
    assert [reply.granted for reply in member.take(VoteReply)] == [False]


def test_a_candidate_s_own_vote_counts_only_once_durable() -> None:
    """CHECKLIST 31: for itself a member is a voter like any other."""
    member = Member(1, voters=1, sync=False)
    member.tick()
    member.persist()
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 1)
    assert member.disk_hard_state == HardState(0, NO_NODE)
    member.persist()
    assert member.raft.role is Role.LEADER
    assert member.disk_hard_state == HardState(1, 1)


def test_a_candidate_asks_for_votes_only_once_its_term_is_durable() -> None:
    """CHECKLIST 31: or it could ask again in the same term after a crash, with a shorter log."""
    member = Member(1, terms=[1], term=1, sync=False)
    member.tick(TIMING.election_ticks_min)
    assert all(message.pre for message in member.take(VoteRequest))
    member.persist()
    member.step(vote_reply(member, 2, term=2, pre=True))
    assert member.raft.role is Role.CANDIDATE
    assert member.take(VoteRequest) == []
    member.persist()
    assert [message.to for message in member.take(VoteRequest)] == [2, 3]


@pytest.mark.parametrize(
    ("last", "granted"),
    [
        ((3, 2), True),  # a later last term wins over any length
        ((2, 9), True),  # the same last term, a longer log
        ((2, 4), True),  # the same log
        ((2, 3), False),  # the same last term, a shorter log
        ((1, 9), False),  # an earlier last term loses with any length
    ],
)
@pytest.mark.parametrize("pre", [True, False])
def test_a_candidate_s_log_must_be_up_to_date(
    last: tuple[int, int], granted: bool, pre: bool
) -> None:
    """CHECKLIST 32: term first, index only between equal terms."""
    member = Member(1, terms=[1, 1, 2, 2], term=5)
    member.step(vote_request(member, 2, term=6, last=last, pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [granted]


def test_a_vote_for_an_earlier_term_is_refused_with_the_present_one() -> None:
    """CHECKLIST 15, 16."""
    member = Member(1, term=5)
    member.step(vote_request(member, 2, term=4, last=(3, 9)))
    (reply,) = member.take(VoteReply)
    assert (reply.granted, reply.term, member.raft.term) == (False, 5, 5)


def test_a_new_leader_sends_to_all_members_at_once() -> None:
    """CHECKLIST 33: heartbeats and the term's first entry leave in the same output."""
    member = Member(1, voters=5, terms=[1, 1]).lead(votes=[2, 3])
    sent = member.take()
    assert [m.to for m in sent if isinstance(m, Heartbeat)] == [2, 3, 4, 5]
    first = [(m.to, m.prev_index, len(m.entries)) for m in sent if isinstance(m, AppendRequest)]
    assert first == [(2, 2, 1), (3, 2, 1), (4, 2, 1), (5, 2, 1)]


def test_a_repeated_vote_counts_once() -> None:
    """CHECKLIST 33: two of five voters are no majority, however often they answer."""
    member = Member(1, voters=5, terms=[1])
    member.tick(TIMING.election_ticks_min)
    member.step(*[vote_reply(member, 2, term=2, pre=True)] * 3)
    assert member.raft.role is Role.PRE_CANDIDATE
    member.step(vote_reply(member, 3, term=2, pre=True))
    assert member.raft.role is Role.CANDIDATE
    member.step(*[vote_reply(member, 2, term=2)] * 3)
    assert member.raft.role is Role.CANDIDATE


def test_a_late_refusal_takes_no_vote_back() -> None:
    """CHECKLIST 33: a voter may have refused a pre-vote before and grant it now."""
    member = Member(1, voters=5, terms=[1])
    member.tick(TIMING.election_ticks_min)
    member.step(
        vote_reply(member, 2, term=2, pre=True),
        vote_reply(member, 2, term=1, granted=False, pre=True),
        vote_reply(member, 3, term=2, pre=True),
    )
    assert member.raft.role is Role.CANDIDATE


def test_votes_of_another_term_or_of_strangers_do_not_count() -> None:
    """CHECKLIST 33."""
    member = Member(1, terms=[1], term=3)
    member.tick(TIMING.election_ticks_min)
    member.step(
        vote_reply(member, 2, term=3, pre=True),
        vote_reply(member, 2, term=9, pre=True),
    )
    member.step(*(vote_reply(member, node, term=4, pre=True) for node in (8, 9)))
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 3)


def test_a_late_vote_of_an_earlier_term_elects_no_leader() -> None:
    """CHECKLIST 33."""
    member = Member(1, terms=[1], term=3)
    for _ in range(2):
        member.tick(2 * TIMING.election_ticks_min)
        member.step(vote_reply(member, 2, term=member.raft.term + 1, pre=True))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 5)
    member.step(vote_reply(member, 2, term=4))
    assert member.raft.role is Role.CANDIDATE


def test_a_split_vote_resolves() -> None:
    """CHECKLIST 33: two candidates of one term; after another timeout there is a leader."""
    network = Network.of(4, logs=[[1]] * 4, seed=5)
    for node, friend in ((1, 3), (2, 4)):
        network[node].tick(2 * TIMING.election_ticks_min)
        network[node].take()
        network[node].step(
            vote_reply(network[node], friend, term=2, pre=True),
            vote_reply(network[node], 5 - friend + 2, term=2, pre=True),
        )
        assert network[node].raft.role is Role.CANDIDATE
    one, two = network[1].take(VoteRequest), network[2].take(VoteRequest)
    network.waiting = [m for m in one if m.to == 3] + [m for m in two if m.to == 4]
    network.waiting += [m for m in one if m.to != 3] + [m for m in two if m.to != 4]
    network.settle()
    assert network.leader is None, "two votes each of four"
    network.elect_any()
    assert network.leader.raft.term > 2


def test_two_survivors_that_try_at_the_same_tick_elect_one_at_once() -> None:
    """CHECKLIST 33: crossing pre-votes are ranked, so the vote is not split."""
    network = Network.of(3, logs=[[1], [1, 1], [1, 1]], random=Shortest())
    network.crash(1)
    network.tick(TIMING.election_ticks_min)
    assert network[2].raft.role is Role.LEADER
    assert network[2].raft.term == 2


def test_the_better_log_goes_first_when_pre_votes_cross() -> None:
    """CHECKLIST 32, 33."""
    network = Network.of(3, logs=[[1], [1, 1], [1, 1, 1]], random=Shortest())
    network.crash(1)
    network.tick(TIMING.election_ticks_min)
    assert network[3].raft.role is Role.LEADER


def test_a_preferred_member_that_cannot_win_does_not_hold_up_another() -> None:
    """CHECKLIST 33: the rank counts only while pre-votes cross."""
    network = Network.of(5, logs=[[1]] * 5, seed=3)
    network.crash(4)
    network.crash(5)
    network.cut |= {(1, 3), (3, 1)}  # 1 reaches 2 only, 2 reaches both
    network.tick_until(lambda: network.leader is not None, ticks_max=300)
    assert network.leader.node == 2


@pytest.mark.parametrize("message", [append_request, heartbeat])
@pytest.mark.parametrize("later", [0, 3])
def test_a_candidate_yields_to_a_leader_of_its_term_or_later(message, later: int) -> None:
    """CHECKLIST 34."""
    member = Member(1, terms=[1], term=1)
    member.tick(TIMING.election_ticks_min)
    member.step(vote_reply(member, 2, term=2, pre=True))
    assert member.raft.role is Role.CANDIDATE
    member.step(message(member, 3, term=2 + later))
    raft = member.raft
    assert (raft.role, raft.leader, raft.term) == (Role.FOLLOWER, 3, 2 + later)


@pytest.mark.parametrize("message", [append_request, heartbeat])
def test_a_candidate_does_not_yield_to_a_leader_of_an_earlier_term(message) -> None:
    """CHECKLIST 34, 16."""
    member = Member(1, terms=[1], term=1)
    member.tick(TIMING.election_ticks_min)
    member.step(vote_reply(member, 2, term=2, pre=True), message(member, 3, term=1))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 2)


@pytest.mark.parametrize("role", list(Role))
def test_append_requests_are_handled_in_every_role(role: Role) -> None:
    """CHECKLIST 63: a later term's is followed, an earlier one's is answered with the own term."""
    member = Member(1, terms=[1], term=2)
    if role is not Role.FOLLOWER:
        member.tick(TIMING.election_ticks_min)
    if role in (Role.CANDIDATE, Role.LEADER):
        member.step(vote_reply(member, 2, term=3, pre=True))
    if role is Role.LEADER:
        member.step(vote_reply(member, 2, term=3))
    assert member.raft.role is role
    own_term = member.raft.term
    member.take()
    member.step(append_request(member, 3, term=1, prev=(1, 1)))
    (reply,) = member.take(AppendReply)
    assert (reply.accepted, reply.term, member.raft.role) == (False, own_term, role)
    member.step(append_request(member, 3, term=own_term + 1, prev=(1, 1), terms=[own_term + 1]))
    raft = member.raft
    assert (raft.role, raft.leader, raft.term) == (Role.FOLLOWER, 3, own_term + 1)
    assert member.terms[:2] == [1, own_term + 1]


def test_a_losing_candidate_becomes_a_follower() -> None:
    """CHECKLIST 30: too few voters are left for a majority."""
    member = Member(1, terms=[1], term=1)
    member.tick(TIMING.election_ticks_min)
    member.step(vote_reply(member, 2, term=2, pre=True))
    member.step(vote_reply(member, 2, term=2, granted=False))
    assert member.raft.role is Role.CANDIDATE
    member.step(vote_reply(member, 3, term=2, granted=False))
    assert member.raft.role is Role.FOLLOWER


def test_a_member_with_a_better_log_is_not_put_off_by_worse_candidates() -> None:
    """CHECKLIST 30: a granted vote resets the timer, a refused one does not."""
    member = Member(1, terms=[1, 2], term=2)
    for term in range(3, 3 + TIMING.election_ticks_min):
        member.step(vote_request(member, 2, term=term, last=(1, 1)))
        member.tick()
    assert member.raft.role is Role.PRE_CANDIDATE


def test_two_leaders_in_one_term_are_noticed() -> None:
    """CHECKLIST 18: no correct peer sends such a message."""
    member = Member(1, terms=[1]).lead()
    with pytest.raises(PeerProtocolViolation, match="node 1 leads term 2"):
        member.step(heartbeat(member, 2, term=member.raft.term))
    follower = Member(1, term=2)
    follower.step(heartbeat(follower, 2, term=2))
    with pytest.raises(PeerProtocolViolation, match="node 2 leads term 2"):
        follower.step(heartbeat(follower, 3, term=2))
