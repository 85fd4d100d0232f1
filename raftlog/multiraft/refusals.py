"""What peers sent that no honest peer sends a sound node: counted, and told now and then."""

from __future__ import annotations

from collections import Counter

from raftlog.core.types import NodeId
from raftlog.errors import AcknowledgedEntriesLost, PeerProtocolViolation
from raftlog.multiraft.effects import Effects, PeerMessagesRefused

_TOLD_TICKS = 100
"""A peer is logged once in so many ticks, however often it breaks the protocol. It bounds lines of
the node's log and nothing else, so it is no setting."""


class Refusals:
    """What was refused of each peer since this process started.

    The peer's stream stays open: its other messages may be sound, and to open the stream again and
    say the same would only cost more.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._told_tick: dict[NodeId, int] = {}
        self.counts: Counter[NodeId] = Counter()
        """By peer, how many of its messages were dropped."""

    def note(self, violation: PeerProtocolViolation | AcknowledgedEntriesLost, now: int) -> None:
        """A message was dropped at tick `now`."""
        peer = NodeId(violation.peer)
        self.counts[peer] += 1
        told_tick = self._told_tick.get(peer)
        if told_tick is None or now >= told_tick + _TOLD_TICKS:
            self._told_tick[peer] = now
            self._effects.tell(PeerMessagesRefused(latest=violation, count=self.counts[peer]))
