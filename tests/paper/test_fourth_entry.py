"""The example of source H: the leader fails with a fourth entry that only it has.

A new leader takes over; the failed one returns, and its fourth entry conflicts. The source lets it
truncate to the high-water mark, which loses data (see `test_truncating_to_the_high_water_mark...`):
only a conflict truncates here.
"""

from __future__ import annotations

from raftlog.core.ready import Role
from tests.core.network import Network


def _fourth_entry() -> Network:
    """Three entries everywhere (the no-op is the first), a fourth only at the failed leader."""
    network = Network.of(3)
    leader = network.elect(1)
    leader.propose("second", "third")
    network.settle()
    network.tick(2)
    assert [member.raft.commit_index for member in network.up] == [3, 3, 3]
    network.isolate(1)
    leader.propose("fourth")
    network.settle()
    network.heal()
    assert [len(member.log) for member in network.up] == [4, 3, 3]
    network.crash(1)
    network.tell_of_deaths()
    return network


def test_the_failed_leader_returns_and_truncates_only_its_fourth_entry() -> None:
    """CHECKLIST 25: reconcile, then fetch the tail."""
    network = _fourth_entry()
    new = network.elect(2)
    new.propose("another fourth", "fifth")
    network.settle()
    network.restart(1)
    old = network[1]
    assert len(old.log) == 4, "synced, and still there"
    network.tick(6)
    assert (old.raft.role, old.raft.leader) == (Role.FOLLOWER, 2)
    assert old.log == new.log
    assert old.applied == new.applied
    cuts = [output.truncate_from for output in old.outputs if output.truncate_from is not None]
    assert cuts == [4]


def test_no_one_ever_reads_the_fourth_entry() -> None:
    """CHECKLIST 23, 24: it was above the mark, and stays unapplied everywhere."""
    network = _fourth_entry()
    assert [entry.index for entry in network[1].applied] == [1, 2, 3]
    network.elect(2)
    network.restart(1)
    network.tick(6)
    for member in network.up:
        assert b"fourth" not in [entry.payload.command for entry in member.applied]


def test_the_failed_leader_may_win_again_and_then_its_fourth_entry_stays() -> None:
    """CHECKLIST 25: without a conflict nothing is truncated."""
    network = _fourth_entry()
    network.restart(1)
    again = network.elect(1)
    network.tick(3)
    assert again.log[3].payload.command == b"fourth"
    for member in network.up:
        assert member.applied == again.log


def test_truncating_to_the_high_water_mark_on_return_would_lose_an_acknowledged_entry() -> None:
    """CHECKLIST 25 and the errata: a follower's mark is behind what it acknowledged.

    The entry is on two of three and acknowledged, the follower does not know that yet, and both
    restart. A follower that then truncated to its own mark would lose it; here it is kept.
    """
    network = Network.of(3)
    leader = network.elect(1)
    network.tick(2)
    network.isolate(3)
    span = leader.propose("acknowledged")
    network.settle()
    assert leader.raft.commit_index == span.last
    assert network[2].raft.commit_index < span.last
    network.crash(1)
    network.crash(2)
    network.restart(2)
    network.heal()
    assert network[2].raft.log.last_index == span.last
    winner = network.elect_any()
    network.tick(6)
    assert winner.node == 2, "3 lacks the entry and cannot win"
    assert network[3].applied[span.last - 1].payload.command == b"acknowledged"
