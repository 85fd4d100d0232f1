"""Check-quorum: a leader that lost its majority stops leading (dissertation section 6.2)."""

from __future__ import annotations

import pytest

from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE
from raftlog.errors import NotLeader
from tests.core.member import TIMING, Member, acceptance, heartbeat_reply
from tests.core.network import Network


def test_a_leader_that_hears_no_majority_steps_down_within_a_timeout() -> None:
    """CHECKLIST 35: in its own term, and it names no leader."""
    member = Member(1, voters=5, terms=[1]).lead()
    term = member.raft.term
    member.tick(TIMING.election_ticks_min - 1)
    assert member.raft.role is Role.LEADER
    member.step(heartbeat_reply(member, 2))
    member.tick()
    assert (member.raft.role, member.raft.leader) == (Role.FOLLOWER, NO_NODE)
    assert member.raft.term == term
    with pytest.raises(NotLeader):
        member.propose("too late")


@pytest.mark.parametrize("answer", ["heartbeat", "append"])
def test_a_leader_that_hears_a_majority_stays(answer: str) -> None:
    """CHECKLIST 29, 35: answers of either kind count, a minority may stay silent for ever."""
    member = Member(1, voters=5, terms=[1]).lead()
    for _ in range(5):
        member.tick(TIMING.election_ticks_min - 1)
        for node in (2, 3):
            if answer == "heartbeat":
                member.step(heartbeat_reply(member, node, last_index=2))
            else:
                member.step(acceptance(member, node, 2))
    assert member.raft.role is Role.LEADER


def test_answers_of_an_earlier_term_do_not_count_as_contact() -> None:
    """CHECKLIST 35."""
    member = Member(1, terms=[1]).lead()
    for _ in range(TIMING.election_ticks_min):
        member.tick()
        member.step(heartbeat_reply(member, 2, term=1), acceptance(member, 3, 1, term=1))
    assert member.raft.role is Role.FOLLOWER


def test_a_cut_off_leader_commits_nothing_and_follows_when_healed() -> None:
    """CHECKLIST 16, 35: its writes are gone, the majority's are kept."""
    network = Network.of(5, logs=[[1]] * 5)
    old = network.elect(1)
    network.isolate(1, 2)
    old.propose("lost")
    network.settle()
    committed = old.raft.commit_index
    network.tick_until(lambda: network.leader not in (None, old))
    new = network.leader
    new.propose("kept")
    network.settle()
    assert old.raft.commit_index == committed
    assert old.raft.role is not Role.LEADER
    network.heal()
    network.tick_until(lambda: old.log == new.log)
    assert (old.raft.role, old.raft.leader) == (Role.FOLLOWER, new.node)
    texts = [entry.payload.command for entry in old.applied]
    assert b"kept" in texts
    assert b"lost" not in texts


def test_writes_continue_with_two_of_five_down_and_stop_with_three_down() -> None:
    """CHECKLIST 29."""
    network = Network.of(5)
    leader = network.elect(1)
    network.crash(4)
    network.crash(5)
    span = leader.propose("with three")
    network.settle()
    assert leader.raft.commit_index == span.last
    network.crash(3)
    span = leader.propose("with two")
    network.tick(3)
    assert leader.raft.commit_index < span.last
    network.tick(2 * TIMING.election_ticks_min)
    with pytest.raises(NotLeader):
        leader.propose("refused")
    network.restart(3)
    new = network.elect_any()
    new.propose("three again")
    network.tick(TIMING.election_ticks_min)
    assert new.raft.commit_index == new.raft.log.last_index
