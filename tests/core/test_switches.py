"""What a driver may ask of a member besides messages and ticks: switches, times, reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.messages import AppendRequest, VoteReply, VoteRequest
from raftlog.core.reads import PendingRead
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, RaftTiming
from tests.core.member import (
    TIMING,
    Longest,
    Member,
    acceptance,
    heartbeat,
    heartbeat_reply,
    rejection,
    vote_reply,
    vote_request,
)
from tests.core.network import Network

WITHOUT_PRE_VOTE = replace(TIMING, pre_vote=False)
WITHOUT_CHECK_QUORUM = replace(TIMING, check_quorum=False)


# ------------------------------------------------------------ campaign


def test_a_follower_told_to_campaign_asks_at_once_whether_it_could_win() -> None:
    member = Member(1, term=3)
    assert member.campaign()
    assert [(m.pre, m.term) for m in member.take(VoteRequest)] == [(True, 4), (True, 4)]
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 3)


def test_a_campaign_wins_as_any_other() -> None:
    network = Network.of(3, term=1)
    assert network[2].campaign()
    network.settle()
    assert network[2].raft.role is Role.LEADER


def test_a_campaign_against_a_leader_that_is_heard_is_refused() -> None:
    network = Network.of(3)
    leader = network.elect(1)
    assert network[2].campaign()
    network.tick(3)
    assert (network.leader, network[2].raft.leader) == (leader, 1)
    assert leader.raft.term == 1


@pytest.mark.parametrize("why", ["it leads", "it is unfit", "it recovers", "it does not vote"])
def test_a_member_that_must_not_campaign_says_so(why: str) -> None:
    member = Member(1, terms=[1], voters=3)
    match why:
        case "it leads":
            member.lead()
        case "it is unfit":
            member.raft.note_fitness(may_lead=False)
        case "it recovers":
            member.lose_log()
        case "it does not vote":
            member = Member(4, voters=3)
    member.take()
    assert not member.campaign()
    assert member.take() == []


# ------------------------------------------------------------ pre-vote off


def test_without_pre_votes_a_timeout_opens_a_term_and_asks_for_votes() -> None:
    member = Member(1, term=2, timing=WITHOUT_PRE_VOTE)
    member.tick(TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term, member.raft.vote) == (Role.CANDIDATE, 3, 1)
    assert [(m.pre, m.term) for m in member.take(VoteRequest)] == [(False, 3), (False, 3)]
    member.step(vote_reply(member, 2, term=3))
    assert member.raft.role is Role.LEADER


def test_without_pre_votes_an_election_that_times_out_is_followed_by_the_next_term() -> None:
    member = Member(1, term=2, timing=WITHOUT_PRE_VOTE)
    member.tick(2 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 4)
    member.step(vote_reply(member, 2, term=3))
    assert member.raft.role is Role.CANDIDATE, "a vote of the term before does not count"


# ------------------------------------------------------------ check-quorum off


def test_without_check_quorum_a_leader_that_hears_nobody_leads_on() -> None:
    member = Member(1, terms=[1], timing=WITHOUT_CHECK_QUORUM).lead()
    member.tick(5 * TIMING.election_ticks_min)
    assert member.raft.role is Role.LEADER


@pytest.mark.parametrize("check_quorum", [True, False])
def test_a_request_for_a_vote_is_ignored_only_with_check_quorum(check_quorum: bool) -> None:
    """A candidate that opened a term without a pre-vote, while a leader is heard."""
    member = Member(1, term=2, timing=replace(TIMING, check_quorum=check_quorum))
    member.step(heartbeat(member, 3, term=2))
    member.step(vote_request(member, 2, term=3, last=(0, 0)))
    assert [reply.granted for reply in member.take(VoteReply)] == [not check_quorum]
    assert member.raft.term == (2 if check_quorum else 3)


# ------------------------------------------------------------ the election timeout


def test_a_follower_waits_by_its_new_timeout_from_then_on() -> None:
    member = Member(1, term=1)
    member.tick(TIMING.election_ticks_min - 1)
    member.raft.set_election_timeout(30)
    member.tick(29)
    assert member.raft.role is Role.FOLLOWER
    member.tick()
    assert member.raft.role is Role.PRE_CANDIDATE
    assert member.raft.timing.election_ticks_min == 30


def test_a_leader_checks_its_quorum_by_its_new_timeout() -> None:
    member = Member(1, terms=[1]).lead()
    member.raft.set_election_timeout(30)
    member.tick(29)
    assert member.raft.role is Role.LEADER
    member.tick()
    assert (member.raft.role, member.raft.leader) == (Role.FOLLOWER, NO_NODE)
    assert member.raft.status().timeout_ticks == 30


def test_a_timeout_shorter_than_two_heartbeats_is_a_defect_of_the_driver() -> None:
    with pytest.raises(AssertionError, match="two heartbeats"):
        Member(1).raft.set_election_timeout(2 * TIMING.heartbeat_ticks - 1)


# ------------------------------------------------------------ a snapshot's outcome


def _behind() -> Member:
    """A leader whose log begins after entry 3, and a follower that has none of it."""
    leader = Member(1, terms=[1, 1, 1, 1], base=3, timing=WITHOUT_CHECK_QUORUM).lead()
    leader.step(rejection(leader, 2, 4, conflict=(0, 1)), rejection(leader, 2, 3, conflict=(0, 1)))
    assert [v.behind_base for v in leader.raft.followers() if v.node == 2] == [True]
    leader.take()
    return leader


def test_a_follower_that_was_given_a_snapshot_is_asked_at_once_and_goes_on() -> None:
    leader = _behind()
    leader.report_snapshot(2, installed=True)
    (check,) = leader.take(AppendRequest)
    assert (check.to, check.prev_index, check.entries) == (2, 3, ())
    leader.step(acceptance(leader, 2, 3))
    assert [v.behind_base for v in leader.raft.followers() if v.node == 2] == [False]
    assert [(m.prev_index, len(m.entries)) for m in leader.take(AppendRequest, to=2)] == [(3, 2)]


def test_after_a_snapshot_that_failed_a_follower_is_asked_at_the_usual_pace() -> None:
    leader = _behind()
    leader.tick(TIMING.resend_ticks - 1)
    leader.report_snapshot(2, installed=False)
    leader.take()
    leader.tick(TIMING.resend_ticks - 1)
    assert leader.take(AppendRequest, to=2) == []
    leader.tick()
    assert [m.prev_index for m in leader.take(AppendRequest, to=2)] == [3]


def test_a_report_about_one_that_is_not_behind_changes_nothing() -> None:
    leader = Member(1, terms=[1]).lead()
    before = leader.raft.fingerprint()
    for node in (2, 9):
        leader.report_snapshot(node, installed=True)
    assert leader.raft.fingerprint() == before


# ------------------------------------------------------------ what can be looked at


def test_pending_reads_are_named_with_their_round_and_index() -> None:
    leader = Member(1, terms=[1]).lead()
    leader.read_index(7)
    assert leader.raft.pending_reads() == (PendingRead(7, 0, None),), "its no-op is not committed"
    leader.step(acceptance(leader, 2, 2))
    leader.read_index(8)
    assert leader.raft.pending_reads() == (PendingRead(7, 1, 2), PendingRead(8, 0, None))
    leader.step(heartbeat_reply(leader, 3, read_round=1))
    assert [read.request_id for read in leader.raft.pending_reads()] == [8]
    assert Member(2).raft.pending_reads() == ()


def test_a_log_names_its_first_entry() -> None:
    member = Member(1, terms=[1, 1, 1], base=2, random=Longest())
    assert (member.raft.log.first_index, member.raft.status().first_index) == (3, 3)
    assert Member(1).raft.log.first_index == 1
    assert member.raft.timing == TIMING
    assert RaftTiming().pre_vote
