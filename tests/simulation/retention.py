"""What a topic's retention may remove in a simulation, judged apart from the product."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from raftlog.machines.commands import Append, Command, CommitEpoch, Stage
from raftlog.machines.settings import RETENTION_RECORDS, RETENTION_S, TopicSetting, value_of
from tests.simulation.simulator import Simulator

if TYPE_CHECKING:
    from tests.simulation.node import SimulatedNode


def confirmed_us(
    simulator: Simulator, nodes: Iterable[SimulatedNode], *, any_majority: bool = False
) -> int:
    """What the clocks of a majority of the nodes may have shown, at the highest; with
    `any_majority` those of a majority of any majority, where groups have fewer voters."""
    shown = sorted(node.furthest_clock_us for node in nodes)
    voters = len(shown) // 2 + 1 if any_majority else len(shown)
    return simulator.now_us + shown[len(shown) - (voters // 2 + 1)]


class Retention:
    """What is known of one topic: when its records became visible, and what its settings keep."""

    def __init__(self, confirmed_us: Callable[[], int]) -> None:
        """`confirmed_us`: what the clocks of a majority of nodes have shown, at the highest."""
        self._confirmed_us = confirmed_us
        self.settings: tuple[TopicSetting, ...] = ()
        self.trim_asked = 0
        """The highest offset that any client's trim named."""
        self._ends: list[int] = []
        self._timestamps_us: list[int] = []

    def problem_of_time(self, command: Command) -> str | None:
        """Why no leader may have stamped the committed command so."""
        if not isinstance(command, Append | Stage | CommitEpoch):
            return None
        ahead_us = command.timestamp_us - self._confirmed_us()
        return f"{ahead_us} us ahead of what a majority of clocks says" if ahead_us > 0 else None

    def published(self, end: int, command: Command) -> None:
        """The command made the records below `end` visible."""
        assert isinstance(command, Append | CommitEpoch)
        latest_us = self._timestamps_us[-1] if self._timestamps_us else 0
        self._ends.append(end)
        self._timestamps_us.append(max(latest_us, command.timestamp_us))

    def limit(self, mark: int) -> int:
        """How far up the log start may be, while the high-water mark is `mark`."""
        limits = [self.trim_asked]
        if records := value_of(self.settings, RETENTION_RECORDS):
            limits.append(mark - records)
        if age_s := value_of(self.settings, RETENTION_S):
            oldest_us = self._confirmed_us() - age_s * 1_000_000
            place = bisect_right(self._timestamps_us, oldest_us)
            limits.append(self._ends[place - 1] if place else 0)
        return max(limits)
