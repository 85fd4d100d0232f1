"""What time it is, as far as a majority of a group's voters confirm it.

Every node tells its wall clock in its heartbeats. A node keeps of each how far it is ahead of its
own monotonic clock, so that the clocks run on between two heartbeats. A message takes time, and a
node that is silent may have set its clock since: both only make what is confirmed earlier, or
leave it as it was when that clock was last heard.

One clock that is a year ahead confirms nothing by itself. So it neither stamps records a year
ahead, nor ends leases, nor removes records by their age.

One clock that is behind can hold the time of a group back, where too few others are known. What is
stamped then looks too old once that clock is right. So ages leave out by how much the time was set
forward meanwhile (`ClockSteps`).
"""

from __future__ import annotations

from raftlog.core.membership import Membership
from raftlog.core.quorum import agreed
from raftlog.core.types import NodeId
from raftlog.multiraft.effects import Effects

_UNKNOWN = -(1 << 62)
"""How far ahead a clock is that was never heard: it confirms no time."""

_STEP_US = 60_000_000
"""A time that gains less on a clock which is never set was not set forward: heartbeats take time,
and clocks drift."""

_STEPS_MAX = 8

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


class ClockSteps:
    """By how much a group's time was set forward, as far as this process has seen."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[tuple[int, int]] = []
        """When the time was last seen as far ahead of `boottime_us` as this; both ascend."""

    def note(self, now_us: int, boottime_us: int) -> None:
        """The group's time is `now_us`. Call it with every time that is stamped."""
        steps, ahead_us = self._steps, now_us - boottime_us
        while steps and steps[-1][1] >= ahead_us:
            steps.pop()
        if steps and ahead_us - steps[-1][1] <= _STEP_US:
            ahead_us = steps.pop()[1]
        steps.append((boottime_us, ahead_us))
        if len(steps) > _STEPS_MAX:
            steps[:2] = [(steps[1][0], steps[0][1])]  # ages leave out more, never less

    def within_us(self, age_us: int) -> int:
        """By how much the time was set forward, until it was last noted, since an entry of this
        age was stamped: it may look older by so much, in microseconds."""
        if not self._steps:
            return 0
        noted_us, ahead_us = self._steps[-1]
        return ahead_us - next(low for at, low in self._steps if noted_us - at <= age_us)
