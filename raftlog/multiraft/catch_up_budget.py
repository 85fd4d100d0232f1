"""What may be read from disk, and sent, for followers that lack much.

Entries of logs and files of images share it: both take disk, wire and CPU from what other topics
append. It is given evenly: an append waits for what is sent at once, and not for what is sent in a
second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from raftlog.core.types import NodeId
from raftlog.multiraft.effects import Effects

_BURST_US = 5_000
"""What was not used in so much time is lost, so no more than its bytes are read at once. It is
about as long as an append takes, and timers of a busy loop are not much more exact."""

_WAIT_US_MIN = 1_000
"""Small reads wait for some more bytes than they lack, as each wait is work for the loop."""

_READ_BYTES_MIN = 4096
"""What a read counts at least, also one of what is in memory: it costs a thread and the loop more
than its bytes. So reads that wait for a thread have a bound as well."""

_SECOND_US = 1_000_000


class CatchUpLimits(NamedTuple):
    """Bytes read from disk. Each limit may be exceeded by one request."""

    peer_bytes_max: int
    """Being read for one peer, or waiting to be sent to it."""
    node_bytes_max: int
    """Being read for all peers: memory."""
    bytes_per_s: int
    """Read in one second for all peers."""


class CatchUpBudget:
    """Counts the reads of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self, effects: Effects, limits: CatchUpLimits, there_is_room: Callable[[], None]
    ) -> None:
        """`there_is_room` is called some time after a read was told to wait for its bytes."""
        self._effects = effects
        self._limits = limits
        self._there_is_room = there_is_room
        self._allowance_max = max(1, limits.bytes_per_s * _BURST_US // _SECOND_US)
        self._allowance = self._allowance_max
        """What may be read now; below 0 the time to come makes up for it."""
        self._allowed_us = effects.monotonic_us()
        """Until when the allowance counts what may be read."""
        self._waits = False
        self._reading_bytes: Counter[NodeId] = Counter()

    @property
    def used(self) -> float:
        """The share of the node's bytes that are being read: from 0 to 1, or a little more."""
        return self._reading_bytes.total() / self._limits.node_bytes_max

    def has_room(self, peer: NodeId) -> bool:
        """May another read begin for the peer?"""
        if not self._is_allowed():
            return False
        waiting = self._reading_bytes[peer] + self._effects.queued_bytes(peer)
        return (
            waiting < self._limits.peer_bytes_max
            and self._reading_bytes.total() < self._limits.node_bytes_max
        )

    def _is_allowed(self) -> bool:
        now_us = self._effects.monotonic_us()
        more = (now_us - self._allowed_us) * self._limits.bytes_per_s // _SECOND_US
        if more:
            self._allowance = min(self._allowance + more, self._allowance_max)
            self._allowed_us = now_us
        if self._allowance <= 0 and not self._waits:
            self._waits = True
            lacks_us = (1 - self._allowance) * _SECOND_US // self._limits.bytes_per_s
            self._effects.later(max(lacks_us, _WAIT_US_MIN), self._go_on)
        return self._allowance > 0

    def _go_on(self) -> None:
        self._waits = False
        self._there_is_room()

    def began(self, peer: NodeId, byte_count: int) -> None:
        """A read of so many bytes has begun."""
        counted = max(byte_count, _READ_BYTES_MIN)
        self._reading_bytes[peer] += counted
        self._allowance -= counted

    def ended(self, peer: NodeId, byte_count: int) -> None:
        """It is over."""
        self._reading_bytes[peer] -= max(byte_count, _READ_BYTES_MIN)
