"""Raft figures 6 and 7 (source R): what a new leader makes of its followers' logs."""

from __future__ import annotations

import pytest

from raftlog.core.ready import Role
from tests.core.member import Member
from tests.core.network import Network

LEADER = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
FOLLOWERS = {
    "a: one entry is missing": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b: many entries are missing": [1, 1, 1, 4],
    "c: one entry too many": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d: entries of a later term too many": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e: some missing, others too many": [1, 1, 1, 4, 4, 4, 4],
    "f: a leader of terms 2 and 3 that never replicated": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


def test_an_entry_is_committed_once_a_majority_holds_it_and_all_before_it_with_it() -> None:
    """CHECKLIST 9, 12: figure 6. Followers that hold less catch up and apply the same."""
    logs = [
        [1, 1, 1, 2, 3, 3, 3, 3],
        [1, 1, 1, 2, 3],
        [1, 1, 1, 2, 3, 3, 3, 3],
        [1, 1],
        [1, 1, 1, 2, 3, 3, 3],
    ]
    network = Network.of(5, logs=logs, term=3)
    leader = network.elect(1)
    assert leader.raft.commit_index == leader.raft.log.last_index == 9
    network.tick(4)
    assert all(member.applied == leader.log for member in network.up)


@pytest.mark.parametrize("name", FOLLOWERS)
def test_each_follower_of_figure_7_converges_to_the_leader_s_log(name: str) -> None:
    """CHECKLIST 6: one at a time, the leader elected by a third member like itself."""
    network = Network.of(3, logs=[LEADER, FOLLOWERS[name], LEADER], term=7)
    network.isolate(2)
    leader = network.elect(1)
    network.heal()
    network.tick(8)
    assert leader.terms == [*LEADER, 8]
    assert network[2].log == leader.log
    assert network[2].applied == leader.log


def test_all_six_followers_of_figure_7_converge_together() -> None:
    """CHECKLIST 6: the top leader of seven gets the votes of a, b, e and f, not of c and d."""
    network = Network.of(7, logs=[LEADER, *FOLLOWERS.values()], term=7)
    leader = network.elect(1)
    assert leader.raft.role is Role.LEADER
    network.tick(4)
    assert leader.terms == [*LEADER, 8]
    for member in network.up:
        assert member.log == leader.log
        assert member.applied == leader.log


@pytest.mark.parametrize("name", FOLLOWERS)
def test_the_leader_finds_each_follower_of_figure_7_in_few_round_trips(name: str) -> None:
    """CHECKLIST 8: it skips a conflicting term at a time, f's two among them."""
    terms = FOLLOWERS[name]
    network = Network.of(3, logs=[LEADER, terms, LEADER], term=7)
    network.isolate(2)
    leader: Member = network.elect(1)
    network.heal()
    leader.take()
    leader.tick(leader.timing.resend_ticks)
    rejected = 0
    while messages := leader.take(to=2):
        network[2].step(*messages)
        replies = network[2].take(to=1)
        rejected += sum(not getattr(reply, "accepted", True) for reply in replies)
        leader.step(*replies)
    assert network[2].log == leader.log
    assert rejected <= 3
