"""What may be read from disk, and sent, for followers that lack much.

Entries of logs and files of images share it: both take disk, wire and CPU from what other topics
append.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from raftlog.core.types import NodeId
from raftlog.multiraft.effects import Effects


class CatchUpLimits(NamedTuple):
    """Bytes read from disk. Each limit may be exceeded by one request."""

    peer_bytes_max: int
    """Being read for one peer, or waiting to be sent to it."""
    node_bytes_max: int
    """Being read for all peers: memory."""
    bytes_per_tick: int
    """Read in one tick for all peers."""


class CatchUpBudget:
    """Counts the reads of one node. For the thread of its `MultiRaft` only."""

    def __init__(self, effects: Effects, limits: CatchUpLimits) -> None:
        self._effects = effects
        self._limits = limits
        self._allowance = limits.bytes_per_tick
        """What may still be read in this tick; below 0 the next ticks make up for it."""
        self._reading_bytes: Counter[NodeId] = Counter()

    def tick(self) -> None:
        """One tick of the clock has passed: there is room for more."""
        self._allowance = min(self._allowance, 0) + self._limits.bytes_per_tick

    def has_room(self, peer: NodeId) -> bool:
        """May another read begin for the peer?"""
        waiting = self._reading_bytes[peer] + self._effects.queued_bytes(peer)
        return (
            self._allowance > 0
            and waiting < self._limits.peer_bytes_max
            and self._reading_bytes.total() < self._limits.node_bytes_max
        )

    def began(self, peer: NodeId, byte_count: int) -> None:
        """A read of so many bytes has begun."""
        self._reading_bytes[peer] += byte_count
        self._allowance -= byte_count

    def ended(self, peer: NodeId, byte_count: int) -> None:
        """It is over."""
        self._reading_bytes[peer] -= byte_count
