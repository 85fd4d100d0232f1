"""Linearizable reads: confirmed by a round of heartbeats (dissertation section 6.4)."""

from __future__ import annotations

import pytest

from raftlog.core.messages import Heartbeat
from raftlog.core.ready import ReadState, Role
from raftlog.core.types import RaftTiming
from raftlog.errors import NotLeader, Overloaded
from tests.core.member import TIMING, Member, acceptance, heartbeat, heartbeat_reply
from tests.core.network import Network


def _leader(voters: int = 3) -> Member:
    """A leader whose term's first entry is committed, at index 2."""
    leader = Member(1, voters=voters, terms=[1]).lead()
    leader.step(*[acceptance(leader, node, 2) for node in range(2, voters + 1)])
    leader.take()
    return leader


def test_a_read_asks_for_a_round_at_once_and_a_majority_confirms_it() -> None:
    """CHECKLIST 37, 65: answered at the commit_index of its start."""
    leader = _leader(voters=5)
    leader.read_index(70)
    assert [(m.to, m.read_round) for m in leader.take(Heartbeat)] == [
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 1),
    ]
    leader.step(heartbeat_reply(leader, 2, read_round=1))
    assert leader.reads == []
    leader.step(heartbeat_reply(leader, 2, read_round=1))
    assert leader.reads == [], "one member's answer counts once"
    leader.step(heartbeat_reply(leader, 4, read_round=1))
    assert leader.reads == [ReadState(70, 2)]


def test_a_new_leader_answers_no_read_before_its_no_op_commits() -> None:
    """CHECKLIST 11, 37: it may not know yet what its predecessor committed."""
    leader = Member(1, terms=[1, 1]).lead()
    leader.take()
    leader.read_index(70)
    leader.tick(TIMING.heartbeat_ticks)
    assert {m.read_round for m in leader.take(Heartbeat)} == {0}
    leader.step(heartbeat_reply(leader, 2), heartbeat_reply(leader, 3))
    assert leader.reads == []
    leader.step(acceptance(leader, 2, 3))
    assert {m.read_round for m in leader.take(Heartbeat)} == {1}
    leader.step(heartbeat_reply(leader, 2, read_round=1))
    assert leader.reads == [ReadState(70, 3)]


def test_reads_that_arrive_during_a_round_share_the_next_one() -> None:
    """CHECKLIST 37: one round for all, at the commit_index of its own start."""
    leader = _leader()
    leader.read_index(1)
    for request in (2, 3, 4):
        leader.read_index(request)
    assert [m.read_round for m in leader.take(Heartbeat)] == [1, 1]
    span = leader.propose("x")
    leader.step(acceptance(leader, 2, span.last))
    leader.step(heartbeat_reply(leader, 2, read_round=1))
    assert leader.reads == [ReadState(1, 2)]
    assert [m.read_round for m in leader.take(Heartbeat)] == [2, 2]
    leader.step(heartbeat_reply(leader, 3, read_round=2))
    assert leader.reads[1:] == [ReadState(request, span.last) for request in (2, 3, 4)]


def test_a_lost_round_is_made_good_by_the_next_heartbeat() -> None:
    """CHECKLIST 37: and reads that came meanwhile do not wait for it."""
    leader = _leader()
    leader.read_index(1)
    leader.read_index(2)
    leader.take()
    leader.tick(TIMING.heartbeat_ticks)
    assert [m.read_round for m in leader.take(Heartbeat)] == [2, 2]
    leader.step(heartbeat_reply(leader, 3, read_round=2))
    assert [read.request_id for read in leader.reads] == [1, 2]


def test_a_round_confirms_only_its_own_term_and_those_before_it() -> None:
    """CHECKLIST 65."""
    leader = _leader()
    leader.read_index(1)
    leader.step(heartbeat_reply(leader, 2, read_round=0))
    leader.step(heartbeat_reply(leader, 3, read_round=1, term=leader.raft.term - 1))
    leader.step(*(heartbeat_reply(leader, node, read_round=1) for node in (8, 9)))
    assert leader.reads == []


def test_reads_are_dropped_when_their_leader_steps_down() -> None:
    """CHECKLIST 37, 65: those in flight and those waiting, all and each once."""
    leader = _leader()
    for request in (1, 2, 3):
        leader.read_index(request)
    leader.step(heartbeat(leader, 2, term=leader.raft.term + 1))
    assert (leader.raft.role, leader.reads, leader.reads_dropped) == (
        Role.FOLLOWER,
        [],
        [1, 2, 3],
    )
    with pytest.raises(NotLeader) as refused:
        leader.read_index(4)
    assert refused.value.leader == 2


def test_a_deposed_leader_answers_no_read() -> None:
    """CHECKLIST 35, 37, 65: cut off, it gets no majority, and drops the read on stepping down."""
    network = Network.of(3)
    old = network.elect(1)
    network.isolate(1)
    old.read_index(70)
    network.tick_until(lambda: network.leader not in (None, old))
    new = network.leader
    new.propose("unseen by the old leader")
    network.tick(3)
    assert old.reads == []
    assert old.reads_dropped == [70]


def test_a_read_over_a_failover_sees_all_that_was_acknowledged() -> None:
    """CHECKLIST 37."""
    network = Network.of(3)
    old = network.elect(1)
    span = old.propose("acknowledged")
    network.settle()
    assert old.raft.commit_index == span.last
    network.crash(1)
    new = network.elect_any()
    new.read_index(70)
    network.tick(4)
    (read,) = new.reads
    assert read.index >= span.last
    assert [entry for entry in new.applied if entry.payload.command == b"acknowledged"]


def test_a_group_of_one_confirms_at_once_after_its_no_op() -> None:
    """CHECKLIST 37."""
    member = Member(1, voters=1, terms=[1], sync=False)
    member.tick()
    member.persist()
    member.persist()
    assert member.raft.role is Role.LEADER
    member.read_index(70)
    assert member.reads == []
    member.persist()
    assert member.reads == [ReadState(70, 2)]
    member.read_index(71)
    assert member.reads[1:] == [ReadState(71, 2)]


def test_reads_beyond_the_bound_are_refused() -> None:
    timing = RaftTiming(election_ticks_min=10, pending_reads_max=2)
    leader = Member(1, timing=timing).lead()
    leader.read_index(1)
    leader.read_index(2)
    with pytest.raises(Overloaded) as refused:
        leader.read_index(3)
    assert (refused.value.queue, refused.value.limit) == ("raft.pending_reads_max", 2)
    leader.step(acceptance(leader, 2, 1), heartbeat_reply(leader, 2, read_round=1))
    assert len(leader.reads) == 2
    leader.read_index(3)
