"""A member that has lost its log counts for nothing until it has all that it may have confirmed."""

from __future__ import annotations

import pytest

from raftlog.core.messages import AppendReply, Heartbeat, HeartbeatReply, VoteReply
from raftlog.core.ready import Role
from raftlog.core.recovery import is_recovering, next_recovery
from raftlog.core.types import NodeId
from raftlog.errors import AcknowledgedEntriesLost
from tests.core.member import TIMING, Member, heartbeat, vote_request
from tests.core.network import Network


def recovering_member() -> Member:
    """It voted for 2 in term 3, and has lost the three entries that it had."""
    member = Member(1, terms=[1, 2, 3], vote=2)
    member.lose_log()
    return member


def network_that_lost(node: int, *, committed: int = 3) -> Network:
    """Member 1 leads, all have its entries, and then `node` loses its log while it is down."""
    network = Network.of(3)
    leader = network.elect(1)
    leader.propose(*[f"entry {number}" for number in range(committed)])
    network.tick(2 * TIMING.heartbeat_ticks)
    assert all(member.raft.commit_index == committed + 1 for member in network.up)
    network.crash(node)
    network.members[node].lose_log()
    return network


def view(leader: Member, node: int):
    return next(each for each in leader.raft.followers() if each.node == node)


def has_recovered(network: Network, node: int) -> bool:
    member, leader = network[node], network.leader
    return leader is not None and not member.raft.recovering and not view(leader, node).recovering


def test_recoveries_are_numbered_and_odd_while_they_last() -> None:
    assert [next_recovery(number) for number in (0, 1, 2, 3)] == [1, 3, 3, 5]
    assert [is_recovering(number) for number in (0, 1, 2, 3)] == [False, True, False, True]


@pytest.mark.parametrize(("sender", "term"), [(2, 3), (3, 4)])
@pytest.mark.parametrize("pre", [False, True])
def test_it_gives_no_vote_not_even_again(sender: int, term: int, pre: bool) -> None:
    member = recovering_member()
    member.step(vote_request(member, sender, term=term, last=(2, 9), pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]


def test_it_does_not_campaign() -> None:
    member = recovering_member()
    member.tick(10 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 3)
    assert not member.take()


def test_it_gets_the_log_again_and_is_a_voter_again() -> None:
    network = network_that_lost(3)
    network.restart(3)
    assert network[3].raft.recovering
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=40)
    assert network[3].log == network[1].log
    assert network[3].disk_hard_state.recovery == 2
    network.crash(2)
    network[1].propose("with its copy")
    network.tick(3 * TIMING.heartbeat_ticks)
    assert network[3].raft.commit_index == 5
    network.crash(1)
    network.restart(2)
    network.elect(3)


def test_it_is_not_counted_before_that() -> None:
    """Not for commit, not for reads, and not for hearing a majority."""
    network = network_that_lost(3)
    network.crash(2)
    network.restart(3)
    leader = network[1]
    leader.propose("without a majority")
    leader.read_index(1)
    network.tick(TIMING.election_ticks_min - 1)
    assert network[3].log == leader.log, "it is sent what it lacks all the same"
    assert leader.raft.commit_index == 4
    assert not leader.reads
    network.tick(2 * TIMING.election_ticks_min)
    assert leader.raft.role is not Role.LEADER
    assert network[3].raft.recovering


def test_a_leader_that_a_majority_without_it_does_not_confirm_does_not_end_the_recovery() -> None:
    """Its first contact may be deposed, and not know what was committed since."""
    network = network_that_lost(3)
    network.isolate(2)
    network.restart(3)
    network.tick(TIMING.election_ticks_min - 1)
    assert network[3].log == network[1].log
    assert view(network[1], 3).match_index == 4
    assert network[3].raft.recovering
    network.heal()
    network.tick_until(lambda: not network[3].raft.recovering, ticks_max=100)


def test_a_round_that_was_under_way_before_its_first_contact_proves_nothing() -> None:
    network = network_that_lost(3)
    leader = network[1]
    leader.read_index(1)
    leader.settle()
    (before,) = leader.take(Heartbeat, to=2)
    network.restart(3)
    network.cut |= {(1, 2), (2, 1)}
    network.tick(4)
    assert view(leader, 3).recovering
    network[2].step(before)
    for late in network[2].take(HeartbeatReply):
        leader.step(late)
    assert [read.request_id for read in leader.reads] == [1]
    network.tick(4)
    assert network[3].raft.recovering


def test_what_it_said_before_the_loss_counts_no_more() -> None:
    network = network_that_lost(3)
    leader = network[1]
    network.crash(2)
    leader.propose("only here")
    said_before = AppendReply(
        group=leader.raft.group,
        sender=NodeId(3),
        to=NodeId(1),
        term=leader.raft.term,
        accepted=True,
        prev_index=leader.raft.last_index,
        match_index=leader.raft.last_index,
        conflict_term=0,
        conflict_index=0,
        last_index=leader.raft.last_index,
    )
    network.restart(3)
    network.cut |= {(1, 3)}
    network[3].step(heartbeat(network[3], 1, term=leader.raft.term))
    network.settle()
    assert view(leader, 3).recovering
    leader.step(said_before)
    assert leader.raft.commit_index == 4
    assert view(leader, 3).match_index == 0


def test_a_leader_that_does_not_know_of_the_loss_does_not_end_the_member() -> None:
    member = recovering_member()
    member.step(heartbeat(member, 2, term=3, commit_index=3))
    assert (member.raft.commit_index, member.raft.recovering) == (0, True)
    sound = Member(1, terms=[], term=3)
    with pytest.raises(AcknowledgedEntriesLost):
        sound.step(heartbeat(sound, 2, term=3, commit_index=3))


def recovered_in_memory(network: Network, node: int) -> Member:
    """It was told that its recovery has ended, and its disk does not sync."""
    member = network[node]
    network.isolate(2)
    network.restart(node)
    network.tick(4)
    assert view(network[1], node).match_index == len(network[1].log)
    member.sync = False
    network.heal()
    network.tick_until(lambda: not member.raft.recovering, ticks_max=40)
    return member


def test_that_it_recovered_counts_only_once_it_is_durable() -> None:
    network = network_that_lost(3)
    leader, member = network[1], recovered_in_memory(network, 3)
    network.tick(TIMING.resend_ticks)
    assert view(leader, 3).recovering
    member.sync = True
    member.persist()
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=40)


def test_a_crash_before_that_is_durable_is_no_harm() -> None:
    network = network_that_lost(3)
    member = recovered_in_memory(network, 3)
    network.crash(3)
    member.sync = True
    network.restart(3)
    assert member.raft.recovering
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)


def test_a_member_that_loses_its_log_again_begins_again() -> None:
    network = network_that_lost(3)
    network.restart(3)
    network.tick(4)
    network.crash(3)
    network[3].lose_log()
    network.restart(3)
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)
    assert network[3].disk_hard_state.recovery in (4, 6)
    assert network[3].log == network[1].log


def test_a_new_leader_counts_one_that_recovered_before() -> None:
    network = network_that_lost(3)
    network.restart(3)
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)
    network.crash(1)
    leader = network.elect(2)
    leader.propose("with its copy")
    network.tick(3 * TIMING.heartbeat_ticks)
    assert leader.raft.commit_index == leader.raft.last_index
