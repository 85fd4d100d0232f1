"""Quiescing and waking: the core's part (raftlog/core/quiescence.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.messages import AppendRequest, Heartbeat, HeartbeatReply, VoteReply, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import NodeId
from tests.core.member import (
    TIMING,
    Member,
    acceptance,
    append_request,
    heartbeat,
    heartbeat_reply,
    vote_request,
)

AFTER = 5
QUIESCING = replace(TIMING, quiesce_after_ticks=AFTER)
TWO, THREE = NodeId(2), NodeId(3)


def idle_leader(voters: int = 3) -> Member:
    """It leads term 2; all hold its two entries and know that the first is committed."""
    member = Member(1, voters=voters, terms=[1], timing=QUIESCING).lead()
    for other in range(2, voters + 1):
        member.step(acceptance(member, other, 2))
    member.take()
    return member


def asked(member: Member, ticks: int = AFTER + 2) -> int:
    """Tick until it asks its followers to quiesce; the round's number."""
    for _ in range(ticks):
        member.tick()
        rounds = {message.quiesce_round for message in member.take(Heartbeat)}
        if rounds - {0}:
            (quiesce_round,) = rounds
            return quiesce_round
    raise AssertionError("it did not ask")


def quiesced_leader() -> Member:
    member = idle_leader()
    quiesce_round = asked(member)
    for other in (2, 3):
        member.step(heartbeat_reply(member, other, last_index=2, quiesce_round=quiesce_round))
    assert member.raft.quiesced
    return member


def quiesced_follower() -> Member:
    member = Member(2, terms=[1, 2], timing=QUIESCING)
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=1))
    assert member.raft.quiesced
    member.take()
    return member


def test_a_leader_is_quiesced_once_all_followers_agreed() -> None:
    member = idle_leader()
    quiesce_round = asked(member)
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=quiesce_round))
    assert not member.raft.quiesced
    member.step(heartbeat_reply(member, 3, last_index=2, quiesce_round=quiesce_round))
    assert member.raft.quiesced
    assert member.raft.role is Role.LEADER


def test_a_leader_that_still_replays_its_log_quiesces() -> None:
    """After a restart of all nodes a thousand groups replay at once: heartbeats of all of them
    would take the time that applying needs, and then be late themselves."""
    member = Member(1, terms=[1], timing=QUIESCING, applies=False).lead()
    member.step(acceptance(member, 2, 2), acceptance(member, 3, 2))
    member.take()
    quiesce_round = asked(member)
    for other in (2, 3):
        member.step(heartbeat_reply(member, other, last_index=2, quiesce_round=quiesce_round))
    assert member.raft.quiesced
    assert member.raft.last_applied < member.raft.commit_index


def test_a_group_of_one_quiesces_by_itself() -> None:
    member = Member(1, voters=1, timing=QUIESCING)
    member.tick(2)
    for _ in range(AFTER + QUIESCING.heartbeat_ticks):
        if not member.raft.quiesced:
            member.tick()
    assert member.raft.quiesced
    member.propose("again")
    assert [entry.payload.command for entry in member.applied][-1] == b"again"


@pytest.mark.parametrize("what", ["lagging", "uncommitted", "reading"])
def test_a_leader_with_something_to_do_asks_no_follower(what: str) -> None:
    member = Member(1, terms=[1], timing=QUIESCING).lead()
    member.step(acceptance(member, 2, 2))
    if what != "lagging":
        member.step(acceptance(member, 3, 2))
    if what == "uncommitted":
        member.propose("more")
    if what == "reading":
        member.read_index(1)
    member.take()
    for _ in range(AFTER + 3):
        member.tick()
        for other in (2, 3):
            member.step(heartbeat_reply(member, other, last_index=2))
    assert {message.quiesce_round for message in member.take(Heartbeat)} == {0}


def test_a_silent_process_is_not_waited_for_but_a_silent_group_is() -> None:
    for silent, is_quiet in (((THREE,), True), ((), False)):
        member = idle_leader()
        for _ in range(QUIESCING.election_ticks_min + 2 * QUIESCING.heartbeat_ticks):
            if not member.raft.quiesced:
                member.raft.tick(silent)
                member.settle()
                for message in member.take(Heartbeat, to=2):
                    member.step(
                        heartbeat_reply(
                            member, 2, last_index=2, quiesce_round=message.quiesce_round
                        )
                    )
        assert member.raft.quiesced == is_quiet


def test_a_process_that_is_silent_is_waited_for_while_its_last_answer_is_recent() -> None:
    """It may have answered here after the node had counted it as silent."""
    member, asking = idle_leader(), 0
    for _ in range(QUIESCING.election_ticks_min - 1):
        member.raft.tick((THREE,))
        member.settle()
        for message in member.take(Heartbeat, to=2):
            asking = max(asking, message.quiesce_round)
            member.step(
                heartbeat_reply(member, 2, last_index=2, quiesce_round=message.quiesce_round)
            )
        assert not member.raft.quiesced
    assert asking


@pytest.mark.parametrize("is_back", [False, True])
def test_a_leader_waits_for_a_process_that_is_back(is_back: bool) -> None:
    """Otherwise the leader would quiesce beside a follower that does not know what it missed."""
    member = idle_leader()
    asking = 0
    for _ in range(QUIESCING.election_ticks_min + 2 * QUIESCING.heartbeat_ticks):
        member.raft.tick((THREE,))
        member.settle()
        asking = max([asking, *(message.quiesce_round for message in member.take(Heartbeat, to=2))])
        member.step(heartbeat_reply(member, 2, last_index=2))
    assert asking, "the other two would be quiesced without it"
    if is_back:
        member.raft.node_is_back(THREE)
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=asking))
    assert member.raft.quiesced != is_back


def test_a_follower_that_is_left_out_is_not_asked() -> None:
    """Back with a shorter log, it would take what it is told for everything, and quiesce."""
    member = idle_leader()
    member.propose("member 3 missed it")
    member.step(acceptance(member, 2, 3))
    for _ in range(QUIESCING.election_ticks_min + 2 * QUIESCING.heartbeat_ticks):
        member.raft.tick((THREE,))
        member.settle()
        heartbeats = member.take(Heartbeat)
        member.step(heartbeat_reply(member, 2, last_index=3))
    asked = {message.to: message.quiesce_round > 0 for message in heartbeats}
    assert asked == {TWO: True, THREE: False}


def test_what_another_boot_of_a_process_agreed_to_does_not_count() -> None:
    member = idle_leader()
    quiesce_round = asked(member)
    member.step(heartbeat_reply(member, 3, last_index=2, quiesce_round=quiesce_round))
    member.raft.node_is_back(THREE)
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=quiesce_round))
    assert not member.raft.quiesced


def test_an_answer_to_a_round_that_was_given_up_does_not_count() -> None:
    member = idle_leader()
    first = asked(member)
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=first))
    member.propose("something")
    for other in (2, 3):
        member.step(acceptance(member, other, 3))
    member.take()
    second = asked(member)
    assert second > first
    member.step(heartbeat_reply(member, 2, last_index=3, quiesce_round=first))
    member.step(heartbeat_reply(member, 3, last_index=3, quiesce_round=second))
    assert not member.raft.quiesced


def test_a_follower_that_says_it_is_awake_takes_its_agreement_back() -> None:
    member = idle_leader()
    quiesce_round = asked(member)
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=quiesce_round))
    member.step(heartbeat_reply(member, 2, last_index=2, quiesce_round=0))
    member.step(heartbeat_reply(member, 3, last_index=2, quiesce_round=quiesce_round))
    assert not member.raft.quiesced


def test_a_follower_agrees_if_it_holds_exactly_what_is_committed() -> None:
    member = Member(2, terms=[1, 2], timing=QUIESCING)
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=4))
    (reply,) = member.take(HeartbeatReply)
    assert (reply.quiesce_round, member.raft.quiesced) == (4, True)


@pytest.mark.parametrize("why", ["not all committed", "old term", "not asked", "never"])
def test_a_follower_stays_awake_otherwise(why: str) -> None:
    timing = TIMING if why == "never" else QUIESCING
    member = Member(2, terms=[1, 2], timing=timing)
    member.step(
        heartbeat(
            member,
            1,
            term=1 if why == "old term" else 2,
            commit_index=1 if why == "not all committed" else 2,
            quiesce_round=0 if why == "not asked" else 1,
        )
    )
    (reply,) = member.take(HeartbeatReply)
    assert (reply.quiesce_round, member.raft.quiesced) == (0, False)


def test_a_member_that_recovers_stays_awake_though_it_holds_everything() -> None:
    """A heartbeat ends its recovery: if none came any more, it would never count again."""
    member = Member(2, terms=[1, 2], timing=QUIESCING)
    member.lose_log()
    member.step(append_request(member, 1, term=2, terms=[1, 2], commit_index=2))
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=1))
    assert member.raft.recovering
    assert not member.raft.quiesced
    assert member.take(HeartbeatReply)[-1].quiesce_round == 0


def test_a_leader_asks_no_follower_while_one_recovers() -> None:
    """Though it holds the whole log: its recovery is still to be ended."""
    member = idle_leader()
    for _ in range(AFTER + 3):
        member.tick()
        member.step(heartbeat_reply(member, 2, last_index=2))
        member.step(replace(heartbeat_reply(member, 3, last_index=2), recovery=1))
        member.step(replace(acceptance(member, 3, 2), recovery=1))
    views = {each.node: each for each in member.raft.followers()}
    assert (views[THREE].match_index, views[THREE].recovering) == (2, True)
    assert {message.quiesce_round for message in member.take(Heartbeat)} == {0}


def test_a_follower_whose_disk_lags_stays_awake() -> None:
    member = Member(2, terms=[1], timing=QUIESCING, sync=False)
    member.step(append_request(member, 1, term=2, prev=(1, 1), terms=[2], commit_index=2))
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=1))
    assert not member.raft.quiesced
    member.persist()
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=1))
    assert member.raft.quiesced


def test_a_quiesced_member_is_not_ticked() -> None:
    for member in (quiesced_leader(), quiesced_follower()):
        with pytest.raises(AssertionError, match="no timer"):
            member.raft.tick()


def test_a_quiesced_follower_hears_its_leader() -> None:
    """It refuses a pre-vote, as a member that hears heartbeats does, but the pre-vote wakes it."""
    member = quiesced_follower()
    member.step(vote_request(member, 3, term=3, last=(2, 2), pre=True))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]
    assert not member.raft.quiesced


def test_a_message_without_news_wakes_no_member() -> None:
    follower = quiesced_follower()
    follower.step(heartbeat(follower, 1, term=2, commit_index=2, quiesce_round=2))
    assert [reply.quiesce_round for reply in follower.take(HeartbeatReply)] == [2]
    leader = quiesced_leader()
    leader.step(heartbeat_reply(leader, 2, last_index=2, quiesce_round=1))
    assert follower.raft.quiesced
    assert leader.raft.quiesced


@pytest.mark.parametrize(
    "message",
    [
        lambda to: heartbeat(to, 1, term=2, commit_index=2),
        lambda to: append_request(to, 1, term=2, prev=(2, 2), terms=[2], commit_index=2),
        lambda to: vote_request(to, 3, term=3, last=(2, 2)),
        lambda to: heartbeat(to, 3, term=3, commit_index=2, quiesce_round=0),
    ],
)
def test_anything_else_wakes_a_follower(message: object) -> None:
    member = quiesced_follower()
    assert callable(message)
    member.step(message(member))
    assert not member.raft.quiesced


def test_a_new_leader_may_quiesce_a_follower_at_once() -> None:
    member = quiesced_follower()
    member.step(heartbeat(member, 3, term=3, commit_index=2, quiesce_round=1))
    assert (member.raft.quiesced, member.raft.leader) == (True, 3)


def test_a_woken_follower_counts_the_silence_as_its_own() -> None:
    """It campaigns when an awake one would have, not a whole timeout later."""
    member = quiesced_follower()
    member.raft.wake({NodeId(1): QUIESCING.election_ticks_min})
    member.tick()
    assert member.raft.role is Role.PRE_CANDIDATE


def test_a_leader_woken_by_silence_wakes_its_followers_before_it_steps_down() -> None:
    member = quiesced_leader()
    member.raft.wake({TWO: QUIESCING.election_ticks_min, THREE: QUIESCING.election_ticks_min})
    member.settle()
    assert [message.quiesce_round for message in member.take(Heartbeat)] == [0, 0]
    assert member.raft.role is Role.LEADER
    member.tick()
    assert member.raft.role is Role.FOLLOWER


@pytest.mark.parametrize("why", ["deaf", "slow disk"])
def test_a_leader_that_steps_down_while_it_asks_wakes_those_that_agreed(why: str) -> None:
    """Their answers may be lost or under way, so it cannot know that they are quiesced."""
    member = Member(1, terms=[1], timing=QUIESCING).lead()
    member.sync = why != "slow disk"
    member.propose("a")
    for other in (2, 3):
        member.step(acceptance(member, other, 3))
    assert asked(member, ticks=2 * QUIESCING.election_ticks_min) > 0
    if why == "slow disk":
        member.raft.note_disk(keeps_up=False)
    for _ in range(2 * QUIESCING.election_ticks_min):
        member.take()
        if why == "slow disk":
            member.step(*[heartbeat_reply(member, other, last_index=3) for other in (2, 3)])
        member.tick()
        if member.raft.role is Role.FOLLOWER:
            break
    last = member.take(Heartbeat)
    assert [message.quiesce_round for message in last] == [0, 0]
    assert member.raft.role is Role.FOLLOWER


def test_a_proposal_wakes_a_leader_and_leaves_at_once() -> None:
    member = quiesced_leader()
    member.propose("news")
    assert not member.raft.quiesced
    assert {request.to for request in member.take(AppendRequest)} == {2, 3}


def test_a_read_of_a_quiesced_leader_needs_its_round() -> None:
    member = quiesced_leader()
    member.read_index(1)
    assert member.reads == []
    rounds = {message.read_round for message in member.take(Heartbeat)}
    member.step(heartbeat_reply(member, 2, read_round=max(rounds), last_index=2))
    assert [read.request_id for read in member.reads] == [1]


def test_a_leader_that_asks_again_leaves_its_followers_quiesced() -> None:
    member = quiesced_leader()
    member.raft.wake({}, ask_again=True)
    member.settle()
    attempts = [message.quiesce_round for message in member.take(Heartbeat)]
    assert attempts == [2, 2]
    for other in (2, 3):
        member.step(heartbeat_reply(member, other, last_index=2, quiesce_round=2))
    assert member.raft.quiesced


def test_a_quiesced_follower_told_of_its_leader_s_death_tries_within_the_jitter() -> None:
    member = quiesced_follower()
    member.leader_lost(1, 2)
    assert not member.raft.quiesced
    member.tick(QUIESCING.leader_lost_jitter_ticks)
    assert [request.pre for request in member.take(VoteRequest)] == [True, True]


def test_a_clone_is_as_quiesced_as_its_original() -> None:
    for member in (quiesced_leader(), quiesced_follower()):
        clone = member.raft.clone()
        assert clone.fingerprint() == member.raft.fingerprint()
        clone.wake({})
        assert member.raft.quiesced
        assert clone.fingerprint() != member.raft.fingerprint()
