"""How long a member waits for a leader before it tries to lead: at random, so that not all do."""

from __future__ import annotations

from typing import Protocol

from raftlog.core.state import Part
from raftlog.core.types import RaftTiming, Term


class Random(Protocol):
    """Where chance comes from. `Raft.clone` copies it with `copy.copy`."""

    def randrange(self, start: int, stop: int, /) -> int:
        """A number in [start, stop)."""
        ...


class ElectionTimer(Part):
    """Counts ticks up to a timeout that is drawn again for every wait. Mutable."""

    __slots__ = ("_random", "_timing", "elapsed_ticks", "timeout_ticks", "withheld_ticks")

    def __init__(self, timing: RaftTiming, random: Random) -> None:
        """Not started: the first wait is the caller's to begin."""
        self.elapsed_ticks = 0
        """Since a leader was heard, or this member last acted."""
        self.timeout_ticks = 0
        self.withheld_ticks = 0
        """For so many ticks no vote is given, since a leader may hold a lease; 0: it is given."""
        self._timing = timing
        self._random = random

    def retime(self, timing: RaftTiming) -> None:
        """Waits that begin from now on are of this length."""
        self._timing = timing

    def tick(self) -> None:
        """One tick has passed."""
        self.elapsed_ticks += 1
        self.withheld_ticks = max(0, self.withheld_ticks - 1)

    def is_over(self, patience: int = 1) -> bool:
        """Have so many election timeouts passed?"""
        return self.elapsed_ticks >= self.timeout_ticks * patience

    def withhold(self) -> None:
        """A leader was answered, or may have been just before the member started."""
        if self._timing.lease_us:
            self.withheld_ticks = self._timing.election_ticks_min

    def silent(self, ticks: int) -> None:
        """The leader was not heard for so long, while this was not ticked."""
        self.elapsed_ticks = ticks
        self.withheld_ticks = min(
            self.withheld_ticks, max(0, self._timing.election_ticks_min - ticks)
        )

    def wait(self, *, alone: bool, term: Term) -> None:
        """Wait again for a leader, for another random time.

        Before a group's first election there is no leader to disturb, and a member that decides
        `alone` waits for no other: they start sooner.
        """
        least = self._timing.election_ticks_min
        self.elapsed_ticks = 0
        if alone:
            self.timeout_ticks = 1
        elif term == 0:
            self.timeout_ticks = self._random.randrange(1, least + 1)
        else:
            self.timeout_ticks = self._random.randrange(least, 2 * least + 1)

    def wait_briefly(self) -> None:
        """Let the wait be over at one of the next `leader_lost_jitter_ticks` ticks."""
        jitter = max(1, self._timing.leader_lost_jitter_ticks)
        self.elapsed_ticks = 0
        self.timeout_ticks = self._random.randrange(1, jitter + 1)
