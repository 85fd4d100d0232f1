"""Cases that chance meets too seldom, written down step by step; each breaks under one planted bug.

They use the parts of the simulation, and their checkers: a few cores with the messages between
them as values, or a cluster of simulated nodes without any weather.
"""

from __future__ import annotations

from raftlog.core.types import LogIndex
from tests.core.member import acceptance
from tests.core.network import Network


def stale_acknowledgement() -> None:
    """A follower acknowledged an entry, lost it to another leader, and the word of it comes late.

    S1 led term 2 and wrote index 2, which S5 acknowledged; S4 led term 3, and S5 alone took its
    entry at index 2 instead. S1 leads term 4 when the acknowledgement of term 2 arrives.
    """
    network = Network.of(5, logs=[[1, 2], [1], [1], [1], [1, 3]], term=3)
    network.isolate(5)
    leader = network.elect(1)
    assert leader.terms == [1, 2, 4]
    assert leader.raft.commit_index == 3
    leader.step(acceptance(leader, 5, 2, term=2))
    network.heal()
    network.tick(4 * leader.timing.election_ticks_min)
    assert network[5].log == leader.log
    assert network[5].raft.commit_index >= LogIndex(3)
