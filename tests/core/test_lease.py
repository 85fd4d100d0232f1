"""A leader's lease: reads without a round while nobody else can have been elected."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from raftlog.core.lease import Lease
from raftlog.core.membership import Membership
from raftlog.core.messages import (
    Heartbeat,
    HeartbeatReply,
    RaftMessage,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import ReadState, Role
from raftlog.core.types import NO_NODE, RaftTiming, lease_length_us
from raftlog.errors import TransferRefused, TransferUnderWay
from tests.core.member import (
    TICK_US,
    TIMING,
    Longest,
    Member,
    acceptance,
    append_request,
    heartbeat,
    heartbeat_reply,
    node_ids,
    vote_reply,
    vote_request,
)
from tests.core.network import Network

ELECTION_TICKS = TIMING.election_ticks_min
LEASE_TICKS = 7
WITH_LEASE = replace(TIMING, lease_us=LEASE_TICKS * TICK_US)
QUIESCING = replace(WITH_LEASE, quiesce_after_ticks=3)


def _leader(voters: int = 3, timing: RaftTiming = WITH_LEASE, **options: object) -> Member:
    """A leader whose term's first entry is committed, at index 2, and that holds no lease yet."""
    leader = Member(1, voters=voters, terms=[1], timing=timing, **options).lead()
    leader.step(*[acceptance(leader, node, 2) for node in range(2, voters + 1)])
    leader.take()
    assert leader.raft.commit_index == 2
    return leader


def _round(leader: Member) -> int:
    """Ticks until heartbeats leave; the round that they ask for."""
    leader.take()
    for _ in range(leader.timing.heartbeat_ticks):
        leader.tick()
        sent = [m.read_round for m in leader.take(Heartbeat)]
        if sent:
            return sent[0]
    raise AssertionError("no heartbeats")


def _leased(voters: int = 3, timing: RaftTiming = WITH_LEASE) -> Member:
    """A leader that holds a lease since just now."""
    leader = _leader(voters, timing)
    asked = _round(leader)
    leader.step(*[heartbeat_reply(leader, n, read_round=asked) for n in range(2, voters + 1)])
    assert leader.holds_lease
    return leader


# ------------------------------------------------------------ what it is good for


def test_a_read_under_a_lease_is_answered_at_once_and_asks_nobody() -> None:
    leader = _leased()
    leader.take()
    leader.read_index(70)
    assert leader.reads == [ReadState(70, 2)]
    assert leader.take(Heartbeat) == []


def test_by_default_there_are_no_leases() -> None:
    leader = _leased_without(TIMING)
    assert not leader.holds_lease
    leader.read_index(70)
    assert leader.reads == []


def _leased_without(timing: RaftTiming) -> Member:
    leader = _leader(timing=timing)
    asked = _round(leader)
    leader.step(*[heartbeat_reply(leader, n, read_round=asked) for n in (2, 3)])
    return leader


def test_a_driver_without_a_clock_gets_a_round_for_each_read() -> None:
    leader = _leased()
    leader.raft.read_index(70)
    leader.settle()
    assert leader.reads == []
    assert [m.to for m in leader.take(Heartbeat)] == [2, 3]


def test_before_its_no_op_commits_a_leader_answers_by_no_lease() -> None:
    """It may not know yet what its predecessor committed."""
    leader = Member(1, terms=[1, 1], timing=WITH_LEASE).lead()
    asked = _round(leader)
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    assert not leader.holds_lease
    leader.read_index(70)
    assert leader.reads == []
    leader.step(acceptance(leader, 2, 3))
    assert leader.holds_lease


# ------------------------------------------------------------ when it begins and ends


def test_it_begins_when_the_round_was_sent_not_when_the_answers_come() -> None:
    """CHECKLIST 65: answers that took long prove nothing about now."""
    leader = _leader()
    asked = _round(leader)
    leader.tick(LEASE_TICKS - 1)
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    assert leader.holds_lease, "the last tick of it"
    leader.tick()
    assert not leader.holds_lease
    leader.read_index(70)
    assert leader.reads == []


def test_it_goes_by_the_clock_and_not_by_the_ticks_that_a_pause_swallowed() -> None:
    leader = _leased()
    leader.pause(LEASE_TICKS)
    leader.read_index(70)
    assert leader.reads == [], "another may lead by now"
    assert [m.to for m in leader.take(Heartbeat)] == [2, 3]


def test_each_round_that_a_quorum_answers_prolongs_it() -> None:
    leader = _leased()
    for _ in range(4 * LEASE_TICKS):
        asked = _round(leader)
        leader.step(heartbeat_reply(leader, 3, read_round=asked))
        assert leader.holds_lease


def test_a_minority_does_not_make_it() -> None:
    leader = _leader(voters=5)
    asked = _round(leader)
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    assert not leader.holds_lease
    leader.step(heartbeat_reply(leader, 3, read_round=asked))
    assert leader.holds_lease


def test_of_answers_to_several_rounds_the_oldest_that_a_quorum_needs_counts() -> None:
    leader = _leader(voters=5)
    first = _round(leader)
    leader.step(heartbeat_reply(leader, 2, read_round=first))
    second = _round(leader)
    leader.step(heartbeat_reply(leader, 3, read_round=second))
    leader.tick(LEASE_TICKS - TIMING.heartbeat_ticks)
    assert not leader.holds_lease, "node 2 has answered the first round only"


def test_a_learner_s_answer_does_not_count() -> None:
    membership = Membership(node_ids(1, 2, 3), learners=node_ids(4))
    leader = Member(1, terms=[1], membership=membership, timing=WITH_LEASE).lead()
    leader.step(acceptance(leader, 2, 2))
    asked = _round(leader)
    leader.step(heartbeat_reply(leader, 4, read_round=asked))
    assert not leader.holds_lease


@pytest.mark.parametrize("promised_us", [0, LEASE_TICKS * TICK_US - 1])
def test_who_promises_less_than_the_leader_relies_on_does_not_count(promised_us: int) -> None:
    """Nodes may run with other settings, or with a program that knows no leases."""
    leader = _leader()
    asked = _round(leader)
    replies = [heartbeat_reply(leader, n, read_round=asked, lease_us=promised_us) for n in (2, 3)]
    leader.step(*replies)
    assert not leader.holds_lease
    leader.read_index(70)
    (later,) = {m.read_round for m in leader.take(Heartbeat)}
    leader.step(heartbeat_reply(leader, 2, read_round=later, lease_us=0))
    assert leader.reads == [ReadState(70, 2)], "a round serves reads all the same"


def test_a_member_that_recovers_its_log_does_not_count() -> None:
    leader = _leader()
    asked = _round(leader)
    leader.step(replace(heartbeat_reply(leader, 2, read_round=asked), recovery=1))
    assert not leader.holds_lease


# ------------------------------------------------------------ changes of members


def test_a_joint_membership_needs_both_majorities() -> None:
    membership = Membership(node_ids(1, 2, 3), learners=node_ids(4, 5))
    leader = Member(1, terms=[1], membership=membership, timing=WITH_LEASE).lead()
    leader.step(*[acceptance(leader, node, 2) for node in (2, 3, 4, 5)])
    leader.change(1, 4, 5)
    asked = _round(leader)
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    assert not leader.holds_lease, "of the new voters nobody has answered"
    leader.step(heartbeat_reply(leader, 5, read_round=asked))
    assert leader.holds_lease


def test_what_another_membership_answered_does_not_count() -> None:
    """Not even for rounds of it whose answers come late."""
    leader = _leased()
    leader.step(*[acceptance(leader, node, leader.raft.log.last_index) for node in (2, 3)])
    under_way = _round(leader)
    leader.change(1, 2, 3, learners=[4])
    assert not leader.holds_lease
    leader.step(*[heartbeat_reply(leader, node, read_round=under_way) for node in (2, 3)])
    assert not leader.holds_lease
    asked = _round(leader)
    leader.step(heartbeat_reply(leader, 2, read_round=asked))
    assert leader.holds_lease


# ------------------------------------------------------------ transfers


def test_a_leader_that_has_sent_timeout_now_holds_no_lease_again_in_its_term() -> None:
    """The message may come late, and votes go round what voters have promised."""
    leader = _leased()
    leader.propose("x")
    leader.transfer(2)
    assert leader.holds_lease, "nobody was told yet"
    leader.step(acceptance(leader, 2, leader.raft.log.last_index))
    assert leader.take(TimeoutNow) != []
    assert not leader.holds_lease
    leader.step(heartbeat_reply(leader, 3, may_lead=False))
    for _ in range(2 * ELECTION_TICKS):
        asked = _round(leader)
        leader.step(*[heartbeat_reply(leader, node, read_round=asked) for node in (2, 3)])
        assert not leader.holds_lease
    assert leader.raft.role is Role.LEADER
    assert leader.raft.transferring_to == NO_NODE, "it has failed long ago"


def test_a_vote_that_the_leader_asked_for_is_given_against_the_promise() -> None:
    """So transfers take no longer with leases."""
    member = Member(3, term=1, timing=WITH_LEASE)
    member.step(heartbeat(member, 1, term=1))
    member.step(vote_request(member, 2, term=2, last=(0, 0), transfer=True))
    assert [reply.granted for reply in member.take(VoteReply)] == [True]


def test_leadership_is_handed_over_with_leases_as_without() -> None:
    network = Network.of(3, timing=WITH_LEASE)
    leader = network.elect_any()
    network.tick(2)
    other = network[leader.node % 3 + 1]
    leader.transfer(other.node)
    network.settle()
    assert other.raft.role is Role.LEADER


# ------------------------------------------------------------ what voters promise


def _voter() -> Member:
    """A voter of term 2 that has answered node 3, its leader, just now."""
    member = Member(1, term=2, timing=WITH_LEASE, random=Longest())
    member.tick(ELECTION_TICKS - 1)
    member.step(heartbeat(member, 3, term=2))
    assert [reply.lease_us for reply in member.take(HeartbeatReply)] == [WITH_LEASE.lease_us]
    return member


def _gives(member: Member, *, term: int, sender: int = 2, pre: bool = False) -> bool:
    member.take()
    last = (member.raft.log.last_term, member.raft.log.last_index)
    member.step(vote_request(member, sender, term=term, last=last, pre=pre))
    (reply,) = member.take(VoteReply)
    return reply.granted


@pytest.mark.parametrize("pre", [True, False])
def test_a_voter_helps_nobody_else_within_a_timeout_and_then_does(pre: bool) -> None:
    member = _voter()
    for _ in range(ELECTION_TICKS - 1):
        member.tick()
        member.step(vote_request(member, 2, term=3, last=(0, 0), pre=pre))
        assert not any(reply.granted for reply in member.take(VoteReply))
    member.tick()
    member.step(vote_request(member, 2, term=3, last=(0, 0), pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [True]


def test_a_reset_of_the_leader_s_connection_changes_nothing() -> None:
    """The leader may live, and hold a lease by this member's answer."""
    member = _voter()
    before = member.raft.fingerprint()
    member.leader_lost(3, 2)
    assert member.raft.fingerprint() == before
    assert not _gives(member, term=3)


def test_a_quiesced_voter_whose_leader_s_process_is_another_one_waits_for_a_timeout() -> None:
    """The new process may have lost its log, so that it never campaigns."""
    member = Member(2, terms=[1, 2], timing=QUIESCING)
    member.step(heartbeat(member, 1, term=2, commit_index=2, quiesce_round=1))
    assert member.raft.quiesced
    member.leader_lost(1, 2)
    assert not member.raft.quiesced
    member.take()
    for _ in range(ELECTION_TICKS - 1):
        assert not _gives(member, term=3, sender=3)
        member.tick()
    assert member.take(VoteRequest) == []
    member.tick(ELECTION_TICKS)
    assert member.take(VoteRequest) != []


def test_a_later_term_that_comes_otherwise_does_not_end_the_promise() -> None:
    """A late refusal by a member of a later term brings that term, in which nobody leads."""
    member = _voter()
    member.step(vote_reply(member, 2, term=5, granted=False))
    assert (member.raft.term, member.raft.leader) == (5, NO_NODE)
    assert not _gives(member, term=5)
    member.raft.voters_reachable()
    member.tick(ELECTION_TICKS - 1)
    assert member.take(VoteRequest) == [], "nor does it help itself"
    member.tick(ELECTION_TICKS)
    assert member.take(VoteRequest) != []


@pytest.mark.parametrize("pre", [True, False])
def test_a_voter_that_starts_gives_no_vote_for_a_timeout(pre: bool) -> None:
    """It has forgotten whom it answered just before."""
    member = _voter()
    member.start()
    assert not member.campaign()
    for _ in range(ELECTION_TICKS - 1):
        member.tick()
        assert not _gives(member, term=3, pre=pre)
        assert member.raft.term == 2, "it does not follow into the term either"
    member.tick()
    assert _gives(member, term=3, pre=pre)


def test_a_group_of_one_waits_as_well_after_a_start() -> None:
    """Its log may have made it the only voter, which the leader before does not know committed."""
    member = Member(1, voters=1, terms=[1], timing=WITH_LEASE)
    member.tick(ELECTION_TICKS - 1)
    assert member.raft.role is Role.FOLLOWER
    member.tick()
    assert member.raft.role is Role.LEADER


def test_entries_prolong_the_promise_as_heartbeats_do() -> None:
    member = _voter()
    member.tick(ELECTION_TICKS - 1)
    member.step(append_request(member, 3, term=2, terms=[2]))
    member.tick(ELECTION_TICKS - 1)
    assert not _gives(member, term=3)


def test_a_vote_given_before_may_be_asked_for_again() -> None:
    """The answer was lost; whose vote it is cannot change what others promised."""
    member = Member(1, term=4, vote=2, timing=WITH_LEASE)
    assert _gives(member, term=4)


# ------------------------------------------------------------ quiesced groups


def test_a_quiesced_leader_holds_no_lease_and_asks_again() -> None:
    network = Network.of(3, timing=QUIESCING)
    leader = network.elect_any()
    _run(network, 3 * QUIESCING.quiesce_after_ticks + 4)
    assert leader.raft.quiesced
    assert not leader.holds_lease
    leader.read_index(70)
    leader.read_index(71)
    assert leader.reads == [], "what was answered before it quiesced does not count"
    network.settle()
    assert [read.request_id for read in leader.reads] == [70, 71]


def test_a_quiesced_voter_has_waited_as_long_as_its_leader_was_silent() -> None:
    """It was not ticked meanwhile."""
    network = Network.of(3, timing=QUIESCING)
    leader = network.elect_any()
    _run(network, 3 * QUIESCING.quiesce_after_ticks + 4)
    voter = network[leader.node % 3 + 1]
    assert voter.raft.quiesced
    voter.raft.wake({leader.node: ELECTION_TICKS - 2})
    voter.tick()
    assert not _gives(voter, sender=leader.node, term=2)
    voter.tick()
    assert _gives(voter, sender=leader.node, term=2)


def _run(network: Network, ticks: int) -> None:
    for _ in range(ticks):
        for member in network.up:
            if not member.raft.quiesced:
                member.tick()
        network.settle()


# ------------------------------------------------------------ switches and lengths


def test_leases_rest_on_check_quorum() -> None:
    with pytest.raises(AssertionError, match="check-quorum"):
        RaftTiming(lease_us=1, check_quorum=False)


def test_with_leases_an_election_timeout_only_gets_longer() -> None:
    member = Member(1, timing=WITH_LEASE)
    member.raft.set_election_timeout(ELECTION_TICKS + 1)
    with pytest.raises(AssertionError, match="a lease may last longer"):
        member.raft.set_election_timeout(ELECTION_TICKS)


def test_a_lease_is_shorter_than_a_timeout_by_the_drift_and_by_late_ticks() -> None:
    assert lease_length_us(election_ticks_min=20, tick_us=50_000, clock_drift_max=0.1) == 810_000
    assert lease_length_us(election_ticks_min=10, tick_us=1_000, clock_drift_max=0) == 8_000
    assert lease_length_us(election_ticks_min=2, tick_us=1_000, clock_drift_max=0) <= 0


@pytest.mark.parametrize("drift", [0.0, 0.1, 0.3, 0.5])
def test_a_lease_ends_before_a_voter_with_the_fastest_clock_gives_its_vote(drift: float) -> None:
    """In the time of the leader's clock: the slowest beside the fastest that the drift allows, and
    a voter whose ticks came as early as they may."""
    ticks, tick_us = 20, 50_000
    length_us = lease_length_us(election_ticks_min=ticks, tick_us=tick_us, clock_drift_max=drift)
    earliest_us = (ticks - 2) * tick_us * (1 - drift)
    assert length_us <= earliest_us


def test_the_clock_of_a_lease_never_goes_back() -> None:
    leader = _leased()
    with pytest.raises(AssertionError, match="goes forward"):
        leader.raft.read_index(1, now_us=leader.clock_us - 1)


def test_rounds_that_can_make_no_lease_any_more_are_forgotten() -> None:
    """A leader keeps a few, however long nobody answers."""
    lease = Lease(LEASE_TICKS)
    for now in range(1, 1_000):
        lease.clock(now)
        lease.sent(now)
    assert lease.in_flight <= LEASE_TICKS


# ------------------------------------------------------------ random networks


@pytest.mark.slow
def test_no_lease_holds_once_another_leader_is_elected() -> None:
    """Late messages, cuts, pauses, restarts, resets, transfers, clocks of different speeds: who
    holds a lease leads the latest term of all, whatever happens."""
    assert sum(Wild(seed).go(600) for seed in range(10)) > 10 * 50, "leases were held"


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        1_000,
        1_010,
        *(pytest.param(each, marks=pytest.mark.soak) for each in range(1_020, 1_200, 10)),
    ],
)
def test_no_lease_holds_once_another_leader_is_elected_in_hundreds_of_networks(first: int) -> None:
    assert sum(Wild(seed).go(600) for seed in range(first, first + 10)) > 10 * 50


class Wild:
    """A network in which everything goes wrong, but for clocks that differ more than is allowed."""

    DRIFT = 0.4

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        ticks = self.random.choice((6, 12))
        length_us = lease_length_us(
            election_ticks_min=ticks, tick_us=TICK_US, clock_drift_max=self.DRIFT
        )
        timing = replace(TIMING, election_ticks_min=ticks, lease_us=length_us)
        if self.random.randrange(2):
            timing = replace(timing, pre_vote=False)
        self.network = Network.of(self.random.choice((3, 5)), timing=timing, seed=seed)
        members = self.network.members
        self.speeds = {node: 1 - self.DRIFT * self.random.random() for node in members}
        self.due = dict.fromkeys(members, 0.0)
        self.paused_to = dict.fromkeys(members, 0)
        self.late_max = self.random.choice((1, 3, 12))
        self.wire: list[tuple[int, RaftMessage]] = []
        """What is under way, and at which step it arrives."""

    def go(self, steps: int) -> int:
        """How often a lease was held."""
        held = 0
        for step in range(steps):
            self._pass_time(step)
            self._misfortune(step)
            self._carry(step)
            latest = max(self.network.checker.leaders, default=0)
            holders = [member for member in self.network.up if member.holds_lease]
            assert all(member.raft.term == latest for member in holders), "another was elected"
            held += len(holders)
        return held

    def _pass_time(self, step: int) -> None:
        for node, member in self.network.members.items():
            self.due[node] += self.speeds[node]
            while self.due[node] >= 1:
                self.due[node] -= 1
                if node in self.network.down or self.paused_to[node] > step:
                    member.pause(1)
                elif not member.raft.quiesced:
                    member.tick()

    def _carry(self, step: int) -> None:
        """Paused members get their messages, but a leader that is paused sends nothing."""
        self.network.collect()
        for message in self.network.waiting:
            for _ in range(self.random.choice((1, 1, 1, 2))):
                late = 30 if self.random.randrange(40) == 0 else self.late_max
                self.wire.append((step + self.random.randrange(late), message))
        self.network.waiting = []
        arriving = [message for due, message in self.wire if due <= step]
        self.wire = [each for each in self.wire if each[0] > step]
        for message in arriving:
            if self.paused_to[message.to] > step:
                self.wire.append((self.paused_to[message.to], message))
            else:
                self.network.deliver(message)
        self.network.checker.look(self.network.up)

    def _misfortune(self, step: int) -> None:
        network, random = self.network, self.random
        node = random.choice(sorted(network.members))
        leader = network.leader
        leads = leader is not None and self.paused_to[leader.node] <= step
        match random.randrange(60):
            case 0:
                network.isolate(node)
            case 1 | 2 | 3:
                network.heal()
            case 4 if not network.down:
                network.crash(node)
            case 5 | 6:
                for down in sorted(network.down):
                    network.restart(down)
            case 7:
                self.paused_to[node] = step + random.randrange(30)
            case 8 | 9 if leader is not None and leads and leader.node != node:
                with suppress(TransferRefused):
                    leader.transfer(node)
            case 10 if leader is not None and leads:
                with suppress(TransferUnderWay):
                    leader.propose("x")
            case 11 if leader is not None:
                for member in network.up:
                    member.leader_lost(leader.node, leader.raft.term)
            case 12 if node not in network.down:
                network[node].campaign()
            case _:
                pass
