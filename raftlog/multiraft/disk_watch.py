"""Whether a node's disk keeps up, judged by when writes began and ended, in ticks.

A tick that comes late counts as one, so a process that was paused does not blame its disk.
"""

from __future__ import annotations

_LAPSE = 4
"""A disk that had nothing to do is trusted again so many times `raft.slow_disk_timeout_s` after its
last slow write. No setting of its own: it scales with that one."""


class DiskWatch:
    """Mutable; one per node, for all its logs and its journal, which share the disk."""

    __slots__ = ("_begun", "_now", "_number", "_slow_ticks", "_slow_until")

    def __init__(self, slow_ticks: int) -> None:
        """A write that takes `slow_ticks` or more is slow."""
        assert slow_ticks > 0, "a write takes some time"
        self._slow_ticks = slow_ticks
        self._now = 0
        self._number = 0
        self._slow_until = 0
        self._begun: dict[int, int] = {}
        """When each write in flight began, the oldest first."""

    @property
    def keeps_up(self) -> bool:
        """No write in flight is slow, and the last that ended was not (or long ago)."""
        oldest = next(iter(self._begun.values()), self._now)
        return self._now - oldest < self._slow_ticks and self._now >= self._slow_until

    def tick(self) -> None:
        """One tick has passed."""
        self._now += 1

    def begun(self) -> int:
        """A write is asked of the disk; the number by which it `ended`."""
        self._number += 1
        self._begun[self._number] = self._now
        return self._number

    def ended(self, number: int) -> None:
        """The write was done, or found no room."""
        slow = self._now - self._begun.pop(number) >= self._slow_ticks
        self._slow_until = self._now + _LAPSE * self._slow_ticks if slow else self._now
