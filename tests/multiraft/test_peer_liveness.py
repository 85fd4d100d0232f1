"""Which peers' processes are heard, and which start of them."""

from __future__ import annotations

from raftlog.core.types import NodeId
from raftlog.multiraft.peer_liveness import PeerLiveness

TWO, THREE = NodeId(2), NodeId(3)


def test_another_start_of_a_process_is_noticed_once_in_a_tick() -> None:
    """For each the caller looks at all replicas, and a frame has room for thousands."""
    liveness = PeerLiveness([TWO, THREE], silent_after_ticks=10)
    assert not liveness.booted(TWO, "2.0"), "the first that is heard"
    assert sum(liveness.booted(TWO, f"2.{number}") for number in range(1, 1000)) == 1
    assert not liveness.booted(THREE, "3.0")
    assert liveness.booted(THREE, "3.1")
    liveness.tick()
    assert liveness.booted(TWO, "2.999"), "what was passed over is noticed when it is named again"
    assert not liveness.booted(TWO, "2.999")


def test_a_stream_that_ended_is_noticed_once_in_a_tick() -> None:
    """For each the caller looks at all replicas, and a peer can open and close thousands."""
    liveness = PeerLiveness([TWO, THREE], silent_after_ticks=10)
    assert sum(liveness.closed(TWO) for _ in range(1000)) == 1
    assert liveness.closed(THREE)
    liveness.tick()
    assert liveness.closed(TWO)
