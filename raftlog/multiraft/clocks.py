"""What time it is, as far as a majority of a group's voters confirm it.

Every node tells its wall clock in its heartbeats. A node keeps of each how far it is ahead of its
own monotonic clock, so that the clocks run on between two heartbeats. A message takes time, and a
node that is silent may have set its clock since: both only make what is confirmed earlier, or
leave it as it was when that clock was last heard.

One clock that is a year ahead confirms nothing by itself. So it neither stamps records a year
ahead, nor ends leases, nor removes records by their age.
"""

from __future__ import annotations

from raftlog.core.membership import Membership
from raftlog.core.quorum import agreed
from raftlog.core.types import NodeId
from raftlog.multiraft.effects import Effects

_UNKNOWN = -(1 << 62)
"""How far ahead a clock is that was never heard: it confirms no time."""

_CLOCK_US_MAX = 1 << 61
"""No clock shows more: that is in the year 75,000."""


class VoterClocks:
    """The wall clocks of all nodes, as node `node` knows them."""

    def __init__(self, node: NodeId, effects: Effects) -> None:
        self._node = node
        self._effects = effects
        self._ahead_us: dict[NodeId, int] = {}
        """By peer, its wall clock less this node's monotonic clock, when it was last heard."""

    def heard(self, peer: NodeId, clock_us: int) -> None:
        """The peer has told its wall clock just now; 0, or what is no time: it has told none."""
        if 0 < clock_us <= _CLOCK_US_MAX:
            self._ahead_us[peer] = clock_us - self._effects.monotonic_us()

    def confirmed_us(self, membership: Membership) -> int | None:
        """The latest time that a quorum's clocks have reached; None if fewer have told theirs."""
        monotonic_us = self._effects.monotonic_us()
        own_us = self._effects.clock_us() - monotonic_us
        ahead = dict(self._ahead_us)
        ahead[self._node] = own_us
        found_us = agreed(membership, ahead, least=_UNKNOWN)
        return None if found_us == _UNKNOWN else monotonic_us + found_us

    def earliest_us(self, membership: Membership) -> int:
        """The earliest of the voters' clocks that are known, and of this node's: for when no time
        is confirmed. While a change of members is under way, a voter that it brings may be down."""
        monotonic_us, ahead = self._effects.monotonic_us(), self._ahead_us
        voters = [monotonic_us + ahead[each] for each in membership.all_voters if each in ahead]
        return min([self._effects.clock_us(), *voters])
