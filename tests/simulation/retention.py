"""What a topic's retention may remove in a simulation, judged apart from the product."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from raftlog.machines.commands import Append, Command, CommitEpoch, Stage
from raftlog.machines.outcomes import Staged
from raftlog.machines.settings import (
    RETENTION_RECORDS,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
    TopicSetting,
    value_of,
    waits_for_readers,
)
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
        self.positions: list[dict[str, int]] = [{}]
        """Of the topic's reader groups by name: what each change of one has left."""
        self._ends: list[int] = []
        self._timestamps_us: list[int] = []
        self._bytes_before: list[int] = [0]
        """Those of all records that were published before."""
        self._staged_bytes: dict[str, int] = {}
        """By attempt."""
        self._clock_us = 0
        """The topic's own, which never goes back: the latest time of its commands."""

    @property
    def waits(self) -> bool:
        """Is more kept while a reader group has not read it?"""
        return waits_for_readers(self.settings)

    def configured(self, settings: tuple[TopicSetting, ...]) -> None:
        """The topic is to have these settings from now on. Positions of before were never read."""
        self.settings = settings
        del self.positions[:-1]

    def problem_of_time(self, command: Command) -> str | None:
        """Why no leader may have stamped the committed command so."""
        if not isinstance(command, Append | Stage | CommitEpoch):
            return None
        ahead_us = command.timestamp_us - self._confirmed_us()
        return f"{ahead_us} us ahead of what a majority of clocks says" if ahead_us > 0 else None

    def staged(self, command: Command, outcome: object) -> None:
        """The command may have staged what an epoch publishes later."""
        if isinstance(command, Stage) and isinstance(outcome, Staged) and not outcome.repeated:
            self._clock_us = max(self._clock_us, command.timestamp_us)
            known = self._staged_bytes.get(command.attempt, 0)
            self._staged_bytes[command.attempt] = known + command.batch.body_bytes

    def published(self, end: int, command: Command) -> None:
        """The command made the records below `end` visible."""
        assert isinstance(command, Append | CommitEpoch)
        self._clock_us = max(self._clock_us, command.timestamp_us)
        self._ends.append(end)
        self._timestamps_us.append(self._clock_us)
        if isinstance(command, Append):
            byte_count = command.batch.body_bytes
        else:
            byte_count = sum(self._staged_bytes[each.attempt] for each in command.attempts)
        self._bytes_before.append(self._bytes_before[-1] + byte_count)

    def limit(self, mark: int) -> int:
        """How far up the log start may be, while the high-water mark is `mark`."""
        kept = self._kept_by_all(mark)
        if self.waits:
            # Positions may have been read at any time before.
            read = max(_read_by_all(each, mark) for each in self.positions)
            kept = min(kept, max(read, self._kept_unread()))
        return max(self.trim_asked, kept)

    def due(self, mark: int, slowest_us: int) -> int:
        """How far up the log start must come by itself, or almost, where retention waits for
        readers and the slowest clock shows this. By bytes nothing must go."""
        records = value_of(self.settings, RETENTION_RECORDS)
        age_s = value_of(self.settings, RETENTION_S)
        unread_s = value_of(self.settings, RETENTION_UNREAD_S)
        kept = mark - records if records else 0
        if age_s:
            kept = max(kept, self._end_before(slowest_us - age_s * 1_000_000))
        read = _read_by_all(self.positions[-1], mark)
        if unread_s:
            read = max(read, self._end_before(slowest_us - unread_s * 1_000_000))
        return min(kept, read)

    def _kept_by_all(self, mark: int) -> int:
        """The first record that is kept, whoever has read it."""
        limits = [0]
        if records := value_of(self.settings, RETENTION_RECORDS):
            limits.append(mark - records)
        if age_s := value_of(self.settings, RETENTION_S):
            limits.append(self._end_before(self._confirmed_us() - age_s * 1_000_000))
        return max(limits)

    def _kept_unread(self) -> int:
        """The last offset up to which records may go that somebody has not read."""
        limits = [0]
        if age_s := value_of(self.settings, RETENTION_UNREAD_S):
            limits.append(self._end_before(self._confirmed_us() - age_s * 1_000_000))
        if byte_count := value_of(self.settings, RETENTION_UNREAD_BYTES):
            # As many bytes follow on the beginning of what was published then.
            place = bisect_right(self._bytes_before, self._bytes_before[-1] - byte_count)
            if 0 < place <= len(self._ends):
                limits.append(self._ends[place - 1] - 1)
        return max(limits)

    def _end_before(self, timestamp_us: int) -> int:
        """The end of the records of this time or earlier."""
        place = bisect_right(self._timestamps_us, timestamp_us)
        return self._ends[place - 1] if place else 0


def _read_by_all(positions: dict[str, int], mark: int) -> int:
    """A position above the mark says nothing of what its group has read."""
    known = [offset if offset <= mark else 0 for offset in positions.values()]
    return min(known, default=mark)
