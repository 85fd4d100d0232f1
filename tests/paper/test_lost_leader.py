"""Sources H and B: a leader fails before it has sent an entry, or when few have it; and who must
not lead after it.

H names the two failures for which a log alone is not enough. B draws servers 1 and 2 that have
committed an entry which server 3 lacks, and proves with ten entries on two of three that server 3
cannot win.
"""

from __future__ import annotations

import pytest

from raftlog.core.ready import Role
from tests.core.member import TIMING, Longest
from tests.core.network import Network


def _failed_after_sending_to(*receivers: int) -> tuple[Network, int]:
    """Five members; the leader has written an entry, these have got it, and it is dead. Also where
    that entry is."""
    network = Network.of(5, random=Longest())
    leader = network.elect(1)
    network.tick(TIMING.heartbeat_ticks)
    network.cut |= {(1, node) for node in (2, 3, 4, 5) if node not in receivers}
    span = leader.propose("in doubt")
    network.settle()
    assert leader.raft.commit_index < span.last
    network.crash(1)
    network.heal()
    network.tell_of_deaths()
    return network, span.last


def test_the_leader_fails_before_it_has_sent_the_entry_to_anybody() -> None:
    """CHECKLIST 21, 24: nobody has it, and its place is taken by another one."""
    network, index = _failed_after_sending_to()
    new = network.elect(2)
    new.propose("instead")
    network.tick(2 * TIMING.heartbeat_ticks)
    network.restart(1)
    network.tick(2 * TIMING.resend_ticks)
    assert new.log[index - 1].payload.command != b"in doubt"
    for member in network.up:
        assert member.applied == new.log
        assert b"in doubt" not in [entry.payload.command for entry in member.applied]


@pytest.mark.parametrize(("winner", "stays"), [(2, True), (3, False)])
def test_the_leader_fails_when_a_minority_has_the_entry(winner: int, stays: bool) -> None:
    """CHECKLIST 23, 25: it stays if who has it wins, and is gone if another one does; no client was
    told either way, and all end with the same."""
    network, index = _failed_after_sending_to(2)
    if not stays:
        network.isolate(2)
    new = network.elect(winner)
    network.heal()
    network.tick(2 * TIMING.resend_ticks)
    assert (new.log[index - 1].payload.command == b"in doubt") == stays
    network.restart(1)
    network.tick(2 * TIMING.resend_ticks)
    assert all(member.applied == new.log for member in network.up)


def test_a_server_without_the_committed_entry_never_leads() -> None:
    """CHECKLIST 32: B's first figure: servers 1 and 2 have applied entry 1, and 3 lacks it."""
    network = Network.of(3)
    network.cut = {(1, 3)}
    leader = network.elect(1)
    network.tick(TIMING.heartbeat_ticks)
    assert [len(member.applied) for member in network.up] == [1, 1, 0]
    network.crash(leader.node)
    network.heal()
    network.tell_of_deaths()
    for _ in range(6 * TIMING.election_ticks_min):
        network[3].tick()
        network.settle()
        assert network[3].raft.role is not Role.LEADER
    new = network.elect(2)
    network.tick(TIMING.resend_ticks)
    assert network[3].applied == new.log
    assert [entry.term for entry in new.log] == [1, 2]


@pytest.mark.parametrize("voter", [1, 2])
def test_of_ten_entries_on_two_of_three_the_third_server_has_nine_and_cannot_win(
    voter: int,
) -> None:
    """CHECKLIST 32: B's proof: any majority with server 3 has a member with the tenth entry."""
    network = Network.of(3, logs=[[1] * 10, [1] * 10, [1] * 9])
    network.crash(3 - voter)
    for _ in range(6 * TIMING.election_ticks_min):
        network[3].tick()
        network.settle()
        assert network[3].raft.role is not Role.LEADER
    new = network.elect(voter)
    assert new.raft.commit_index == len(new.log) == 11
    assert network[3].log == new.log
