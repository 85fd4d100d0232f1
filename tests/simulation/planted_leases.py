"""Planted bugs of leases, and what shows each step by step: see `tests.simulation.planted`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from raftlog.core.lease import Lease
from raftlog.core.messages import HeartbeatReply, TimeoutNow, VoteReply
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, NodeId, Term
from tests.core.member import TICK_US, TIMING, Longest, Member, heartbeat, vote_reply, vote_request
from tests.core.network import Network
from tests.simulation.planting import replaced

LEASE_TICKS = 7
WITH_LEASES = replace(TIMING, lease_us=LEASE_TICKS * TICK_US)


def lease_from_the_arrival_of_answers() -> Any:
    """A lease begins when its answers come, however long ago the round was sent."""
    original = Lease.answered

    def answered(self: Lease, read_round: int) -> None:
        before = self._from_us
        original(self, read_round)
        if self._from_us != before:
            self._from_us = self._now_us

    return replaced(Lease, "answered", answered)


def lease_by_ticks() -> Any:
    """A read is judged by the clock as the last tick found it: a pause goes unnoticed."""
    original = Raft.read_index

    def read_index(self: Raft, request_id: int, *, now_us: int | None = None) -> None:
        if self.leadership is not None:
            now_us = self.leadership.lease._now_us
        original(self, request_id, now_us=now_us)

    return replaced(Raft, "read_index", read_index)


def lease_longer_than_the_drift_allows() -> Any:
    """Clocks are as different as if the leader's ran at a tenth of the voters' speed."""
    original = Lease.holds
    return replaced(Lease, "holds", lambda self, now_us: original(self, now_us // 10))


def lease_kept_over_a_transfer() -> Any:
    """A leader that has told a follower to campaign goes on as if nobody could be elected."""
    return replaced(Lease, "end", lambda self: None)


def reset_heeded_under_a_lease() -> Any:
    """A voter forgets its leader because of a reset, although the process may live."""

    def leader_lost(self: Raft, leader: NodeId, term: Term) -> None:
        if self.role is Role.FOLLOWER and (self.leader, self.term) == (leader, term):
            self.quiesced = False
            self.leader = NO_NODE
            self.timer.withheld_ticks = 0
            self._try_soon()

    return replaced(Raft, "leader_lost", leader_lost)


def answer_forgotten_in_a_restart() -> Any:
    """A voter that starts gives its vote at once."""
    original = Raft.__init__

    def init(self: Raft, **parts: Any) -> None:
        original(self, **parts)
        self.timer.withheld_ticks = 0

    return replaced(Raft, "__init__", init)


def promise_of_one_term_only() -> Any:
    """A later term ends what a voter has promised, though nobody leads it."""
    original = Raft._enter_term

    def enter_term(self: Raft, term: Term, vote: NodeId = NO_NODE) -> None:
        original(self, term, vote)
        self.timer.withheld_ticks = 0

    return replaced(Raft, "_enter_term", enter_term)


# ------------------------------------------------------------ step by step


def _leased() -> tuple[Network, Member, list[Member]]:
    """Three members, of which one leads and holds a lease; the two others."""
    network = Network.of(3, timing=WITH_LEASES)
    leader = network.elect_any()
    network.tick(3)
    assert leader.holds_lease
    return network, leader, [each for each in network.up if each is not leader]


def _check_read(network: Network, deposed: Member) -> None:
    """If another leads by now, it has news, and a read of the deposed leader must not miss it."""
    winner = network.leader
    if winner is None or winner is deposed:
        return
    winner.propose("news")
    network.settle()
    assert winner.raft.commit_index > deposed.raft.commit_index
    deposed.read_index(70)
    assert deposed.reads == [], "linearizable: the news came first"


def _without(network: Network, leader: Member, ticks: int) -> None:
    """The leader is cut off and stands still; the others' time passes, and its clock's."""
    network.isolate(leader.node)
    for _ in range(ticks):
        leader.pause(1)
        for member in network.up:
            if member is not leader:
                member.tick()
        network.settle()


def answers_after_a_failover() -> None:
    """The answers to a round come when another leads, and before the next round leaves."""
    network, leader, others = _leased()
    while not network.waiting:
        leader.tick()
        network.collect()
    for message in network.waiting:
        network.deliver(message)
    answers = [reply for other in others for reply in other.take(HeartbeatReply)]
    assert answers
    network.waiting = []
    _without(network, leader, 3 * TIMING.election_ticks_min)
    leader.tick()
    leader.step(*answers)
    _check_read(network, leader)


def pause_over_a_failover() -> None:
    """A leader is paused until another leads, and is asked before its next tick."""
    network, leader, _ = _leased()
    _without(network, leader, 3 * TIMING.election_ticks_min)
    assert network.leader is not leader
    _check_read(network, leader)


def late_timeout_now() -> None:
    """A transfer has failed, and its message comes later, when the leader has been answered
    again and is cut off."""
    network, leader, (other, _) = _leased()
    leader.transfer(other.node)
    late = [message for message in leader.take() if isinstance(message, TimeoutNow)]
    assert late
    other.raft.note_fitness(may_lead=False)
    network.tick(4)
    other.raft.note_fitness(may_lead=True)
    assert leader.raft.transferring_to == NO_NODE
    network.tick(4)
    network.isolate(leader.node)
    other.step(*late)
    network.settle()
    assert network.leader is other
    _check_read(network, leader)


def reset_of_a_living_leader() -> None:
    """The connections of a leader are reset, and it hears nothing for a while."""
    network, leader, others = _leased()
    for other in others:
        other.leader_lost(leader.node, leader.raft.term)
    _without(network, leader, LEASE_TICKS - 3)
    _check_read(network, leader)


def restart_of_the_voter_that_answered() -> None:
    """A third member is cut off from the leader, and asks the other one just after that has
    started again."""
    network, leader, (voter, third) = _leased()
    network.cut |= {(leader.node, third.node), (third.node, leader.node)}
    network.tick(3 * TIMING.election_ticks_min)
    assert network.leader is leader
    assert leader.holds_lease
    network.isolate(leader.node)
    network.crash(voter.node)
    network.restart(voter.node)
    third.campaign()
    network.settle()
    _check_read(network, leader)


def late_refusal_of_a_later_term() -> None:
    """It takes a voter into a term in which nobody leads, and a candidate of that asks for its
    vote."""
    voter = Member(1, term=2, timing=WITH_LEASES, random=Longest())
    voter.step(heartbeat(voter, 3, term=2))
    voter.step(vote_reply(voter, 2, term=5, granted=False))
    voter.take()
    voter.step(vote_request(voter, 2, term=5, last=(0, 0)))
    assert not any(reply.granted for reply in voter.take(VoteReply)), "node 3 may hold a lease"


LEASE_SCRIPTS: dict[str, Callable[[], None]] = {
    "lease_from_the_arrival_of_answers": answers_after_a_failover,
    "lease_by_ticks": pause_over_a_failover,
    "lease_longer_than_the_drift_allows": pause_over_a_failover,
    "lease_kept_over_a_transfer": late_timeout_now,
    "reset_heeded_under_a_lease": reset_of_a_living_leader,
    "answer_forgotten_in_a_restart": restart_of_the_voter_that_answered,
    "promise_of_one_term_only": late_refusal_of_a_later_term,
}
LEASE_BUGS = (
    lease_from_the_arrival_of_answers,
    lease_by_ticks,
    lease_longer_than_the_drift_allows,
    lease_kept_over_a_transfer,
    reset_heeded_under_a_lease,
    answer_forgotten_in_a_restart,
    promise_of_one_term_only,
)
