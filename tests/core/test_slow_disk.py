"""A member whose disk is slow lets others lead if they are ahead of it."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.election import PATIENCE
from raftlog.core.messages import Heartbeat, HeartbeatReply
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE
from tests.core.member import (
    TIMING,
    Member,
    acceptance,
    heartbeat,
    heartbeat_reply,
    vote_reply,
    vote_request,
)
from tests.core.network import Network


def led_by_a_slow_disk() -> tuple[Network, Member]:
    network = Network.of(3, logs=[[1]] * 3)
    leader = network.elect(1)
    leader.sync = False
    leader.propose("a")
    network.settle()
    return network, leader


def test_a_leader_whose_disk_is_slow_gives_way_and_what_was_written_stays() -> None:
    network, slow = led_by_a_slow_disk()
    committed = slow.raft.commit_index
    assert committed > slow.raft.durable_index, "the others commit without its disk"
    slow.raft.note_disk(keeps_up=False)
    ticks = network.tick_until(lambda: network.leader not in (None, slow))
    assert ticks <= 3 * TIMING.election_ticks_min
    assert network.leader is not None
    assert network.leader.raft.commit_index >= committed
    network.leader.propose("b")
    network.settle()
    assert network.leader.raft.commit_index == network.leader.raft.log.last_index


def test_a_leader_whose_disk_keeps_up_stays() -> None:
    network, leader = led_by_a_slow_disk()
    network.tick(5 * TIMING.election_ticks_min)
    assert network.leader is leader


@pytest.mark.parametrize("ahead", [(), (2,)])
def test_a_leader_stays_unless_a_majority_without_it_is_ahead(ahead: tuple[int, ...]) -> None:
    """Where all disks are equally slow, another leader would gain nothing."""
    member = Member(1, terms=[1]).lead()
    member.sync = False
    member.propose("a")
    for node in ahead:
        member.step(acceptance(member, node, member.raft.log.last_index))
    member.raft.note_disk(keeps_up=False)
    for _ in range(3 * TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
        member.tick()
    assert member.raft.role is Role.LEADER


def test_a_leader_stays_where_all_hold_the_same() -> None:
    """Nodes that share a slow disk would pass an idle group around for ever."""
    member = Member(1, terms=[1]).lead()
    for node in (2, 3):
        member.step(acceptance(member, node, member.raft.log.last_index))
    member.raft.note_disk(keeps_up=False)
    for _ in range(3 * TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
        member.tick()
    assert member.raft.role is Role.LEADER


def test_a_leader_stays_where_those_ahead_of_it_share_its_trouble() -> None:
    """A full disk that all share: each holds the last entries that it had room for, and none could
    lead better."""
    member = Member(1, terms=[1]).lead()
    member.sync = False
    member.propose("a")
    for node in (2, 3):
        member.step(acceptance(member, node, member.raft.log.last_index))
    member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
    member.raft.note_disk(keeps_up=False)
    member.tick()
    assert member.raft.role is Role.LEADER, "what they said of their disks is out of date"
    assert member.take(Heartbeat), "they are asked at once"
    for _ in range(3 * TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3, disk_keeps_up=False))
        member.tick()
    assert member.raft.role is Role.LEADER
    ticks = 0
    while member.raft.role is Role.LEADER:
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
        member.tick()
        ticks += 1
    assert ticks == TIMING.election_ticks_min // 2, "then their shared disk is full"


def test_a_follower_says_whether_its_disk_keeps_up() -> None:
    follower = Member(1, terms=[1])
    for keeps_up in (True, False, True):
        follower.raft.note_disk(keeps_up=keeps_up)
        follower.step(heartbeat(follower, 2, term=1))
        assert [reply.disk_keeps_up for reply in follower.take(HeartbeatReply)] == [keeps_up]


def test_only_members_heard_lately_count_as_ahead() -> None:
    member = Member(1, voters=5, terms=[1]).lead()
    member.sync = False
    member.propose("a")
    for node in (2, 3, 4):
        member.step(acceptance(member, node, member.raft.log.last_index))
    for _ in range(TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
        member.tick()
    member.raft.note_disk(keeps_up=False)
    for _ in range(TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 2), heartbeat_reply(member, 3))
        member.tick()
    assert member.raft.role is Role.LEADER
    for _ in range(TIMING.election_ticks_min // 2):
        member.step(*(heartbeat_reply(member, node) for node in (2, 3, 4)))
        member.tick()
    assert (member.raft.role, member.raft.leader) == (Role.FOLLOWER, NO_NODE)


def test_a_group_of_one_is_led_however_slow_its_disk() -> None:
    member = Member(1, voters=1, terms=[1])
    member.raft.note_disk(keeps_up=False)
    member.tick(2 * PATIENCE * TIMING.election_ticks_min)
    assert member.raft.role is Role.LEADER
    member.tick(5 * TIMING.election_ticks_min)
    assert member.raft.role is Role.LEADER


def test_a_follower_whose_disk_is_slow_tries_last_but_not_never() -> None:
    member = Member(1, terms=[1], random=Random(1))
    member.raft.note_disk(keeps_up=False)
    member.leader_lost(2, 1)
    member.raft.voters_reachable()
    member.tick(PATIENCE * TIMING.election_ticks_min - 1)
    assert member.raft.role is Role.FOLLOWER
    member.tick(PATIENCE * TIMING.election_ticks_min)
    assert member.raft.role is Role.PRE_CANDIDATE


def test_a_member_leads_even_when_all_disks_are_slow() -> None:
    network = Network.of(3, logs=[[1]] * 3)
    for member in network.members.values():
        member.raft.note_disk(keeps_up=False)
    network.elect_any()


def candidate_out_of_time() -> Member:
    """Its voters' disks take longer than an election timeout: its next pre-vote has begun."""
    member = Member(1, terms=[1]).lead(votes=())
    member.step(vote_reply(member, 2, term=2, pre=True))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 2)
    member.tick(4 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 2)
    return member


def test_a_vote_counts_however_late_in_its_term() -> None:
    member = candidate_out_of_time()
    member.step(vote_reply(member, 3, term=2, granted=False))
    assert member.raft.role is Role.PRE_CANDIDATE
    member.step(vote_reply(member, 2, term=2))
    assert (member.raft.role, member.raft.term) == (Role.LEADER, 2)


def test_a_late_vote_counts_neither_after_a_restart_nor_after_yielding() -> None:
    """Before the restart it may have asked with a longer log than it has now."""
    again = candidate_out_of_time()
    again.start()
    again.tick(2 * TIMING.election_ticks_min)
    assert (again.raft.role, again.raft.term) == (Role.PRE_CANDIDATE, 2)
    yielded = candidate_out_of_time()
    yielded.step(vote_request(yielded, 3, term=3, last=(1, 1)))
    for member in (again, yielded):
        member.step(vote_reply(member, 2, term=2), vote_reply(member, 3, term=2))
        assert member.raft.role is not Role.LEADER


def test_late_refusals_of_an_election_do_not_end_the_pre_vote_after_it() -> None:
    member = candidate_out_of_time()
    member.step(*[vote_reply(member, other, term=2, granted=False) for other in (2, 3)])
    assert member.raft.role is Role.PRE_CANDIDATE


def test_a_copy_of_a_member_knows_of_its_disk() -> None:
    member = Member(1, terms=[1])
    before = member.raft.fingerprint()
    member.raft.note_disk(keeps_up=False)
    copy: Raft = member.raft.clone()
    assert copy.fingerprint() == member.raft.fingerprint() != before
