"""Source J, changing the voters: its steps, with the leader cut off or dead after each of them.

Voters 1, 2, 3 become 3, 4, 5, and member 1 leads: so the leader is not among the new voters, and
the two sets share one member. Both decide together from the moment when the entry C_old,new is
written, committed or not, until C_new is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from raftlog.core.membership import Membership
from raftlog.core.ready import Role
from raftlog.errors import ChangeUnderWay
from tests.core.member import TIMING, Longest, Member, node_ids
from tests.core.network import Network

OLD, NEW = node_ids(1, 2, 3), node_ids(3, 4, 5)
C_OLD = Membership(OLD, learners=node_ids(4, 5))
C_JOINT = Membership(NEW, outgoing=OLD)
C_NEW = Membership(NEW)
LONG_TICKS = 12 * TIMING.election_ticks_min


@dataclass(frozen=True, slots=True)
class Step:
    """A moment of the change: how many rounds of messages it takes to come there from the wish,
    what the leader and the others hold then, and what must come of it without the leader."""

    rounds: int
    leader: Membership
    others: Membership
    outcome: Membership


STEPS = {
    "the leader has written C_old,new": Step(0, C_JOINT, C_OLD, C_OLD),
    "the others have written it": Step(1, C_JOINT, C_JOINT, C_NEW),
    "it is committed, and the leader has written C_new": Step(2, C_NEW, C_JOINT, C_NEW),
    "the others have written that": Step(3, C_NEW, C_NEW, C_NEW),
    "it is committed, and the leader leaves": Step(4, C_NEW, C_NEW, C_NEW),
}


def _begun() -> Network:
    """The new voters have learned the log, the change is written at the leader, nothing is sent."""
    network = Network.of(3, others=2, random=Longest())
    leader = network.elect(1)
    leader.change(*OLD, learners=(4, 5))
    network.settle()
    network.tick(TIMING.heartbeat_ticks)
    leader.change(*NEW)
    network.collect()
    return network


def _at(step: Step) -> Network:
    """So many rounds later: what is in flight then is lost."""
    network = _begun()
    for _ in range(step.rounds):
        waiting, network.waiting = network.waiting, []
        for message in waiting:
            network.deliver(message)
        network.collect()
    network.waiting.clear()
    assert network[1].raft.membership == step.leader
    others = {each.raft.membership for each in network.up if each.node in (3, 4, 5)}
    assert others == {step.others}
    return network


def _service(network: Network, *, without: int) -> Member:
    """Whoever leads among the others after a while, and has committed a record."""

    def leads() -> bool:
        leader = network.leader
        return leader is not None and leader.node != without

    network.tick_until(leads, ticks_max=LONG_TICKS)
    leader = network.leader
    assert leader is not None
    leader.propose("after the change")
    network.tick(2 * TIMING.resend_ticks)
    assert leader.raft.commit_index == leader.raft.log.last_index
    return leader


@pytest.mark.parametrize("name", STEPS)
def test_the_leader_dies_at_a_step_and_the_change_ends_as_a_whole_or_never_was(name: str) -> None:
    """CHECKLIST 74, 76: from the commit of C_old,new on it always ends as a whole."""
    step = STEPS[name]
    network = _at(step)
    network.crash(1)
    network.tell_of_deaths()
    leader = _service(network, without=1)
    assert leader.raft.membership == step.outcome
    network.restart(1)
    network.tick(LONG_TICKS)
    members = [network[node] for node in step.outcome.members]
    assert {each.raft.membership for each in members} == {step.outcome}
    assert network.leader is leader, "who comes back disturbs nobody"


@pytest.mark.parametrize("name", STEPS)
def test_the_leader_is_cut_off_at_a_step_and_two_never_decide(name: str) -> None:
    """CHECKLIST 73, 76: what it takes meanwhile is not committed, and is gone when it is back.

    The checker of the network compares what is applied, and the leaders of each term, all the time.
    """
    step = STEPS[name]
    network = _at(step)
    network.isolate(1)
    old = network[1]
    committed = old.raft.commit_index
    if old.raft.role is Role.LEADER:
        old.propose("never")
        network.settle()
    leader = _service(network, without=1)
    assert old.raft.role is not Role.LEADER
    assert old.raft.commit_index == committed
    network.heal()
    network.tick(LONG_TICKS)
    assert network.leader is leader
    assert leader.raft.membership == step.outcome
    if 1 in step.outcome.voters:
        assert old.raft.membership == step.outcome, "what it had written is rolled back"
        assert old.log == leader.log


@pytest.mark.parametrize("silent", [(2, 3), (4, 5)])
def test_while_both_sets_decide_neither_majority_suffices(silent: tuple[int, ...]) -> None:
    """CHECKLIST 9, 73: of the old voters only the leader answers, or of the new ones only 3."""
    network = _begun()
    leader = network[1]
    joint = leader.raft.log.last_index
    network.cut = {(node, 1) for node in silent}
    network.settle()
    assert all(each.raft.membership == C_JOINT for each in network.up)
    assert leader.raft.commit_index < joint
    with pytest.raises(ChangeUnderWay):
        leader.change(*OLD)
    network.heal()
    network.tick(2 * TIMING.resend_ticks)
    assert leader.raft.commit_index > joint


def test_service_goes_on_in_each_phase() -> None:
    """CHECKLIST 73: a record proposed in each of them is committed by its own members."""
    network = _begun()
    leader = network[1]
    leader.propose("joint")
    while leader.raft.membership == C_JOINT:
        network.collect()
        network.deliver(network.waiting.pop(0))
    leader.propose("new")
    network.settle()
    network.tick(2 * TIMING.heartbeat_ticks)
    texts = [entry.payload.command for entry in network.checker.applied]
    assert [text for text in texts if text in (b"joint", b"new")] == [b"joint", b"new"]
    assert leader.raft.role is Role.FOLLOWER, "it is none of the new voters"
    assert network.leader is not None
    assert network.leader.node in NEW
