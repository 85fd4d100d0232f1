"""The clock, the queue of events and the trace: all that happens in a simulation, from one seed.

Time is simulated microseconds from 0. Events of the same moment run in the order in which they were
asked for, so a simulation is a function of its seed only. Chance is split by purpose: `random("x")`
gives the same numbers however much chance other parts have used.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Callable
from random import Random

Action = Callable[[], None]

LINES_KEPT = 6000


class Trace:
    """Every event goes into the hash; the last ones are kept as the time line of a failure."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self.lines: deque[tuple[int | str, ...]] = deque(maxlen=LINES_KEPT)

    def note(self, *facts: int | str) -> None:
        """Only numbers and texts: their `repr` is the same in every process."""
        self._digest.update(repr(facts).encode())
        self.lines.append(facts)

    def digest(self) -> str:
        return self._digest.hexdigest()


class Simulator:
    """One simulation's time. `at` and `run_until` are all there is to concurrency."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.trace = Trace()
        self.counts: Counter[str] = Counter()
        """Every injected fault, and what the workload did, by class."""
        self._queue: list[tuple[int, int, Action]] = []
        self._number = 0
        self.events = 0
        """How many have run."""

    def random(self, purpose: str) -> Random:
        """A generator of its own for `purpose`."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, *facts: int | str) -> None:
        self.trace.note(self.now_us, *facts)

    def at(self, delay_us: int, action: Action) -> None:
        """Run `action` after `delay_us` microseconds, 0 or more."""
        assert delay_us >= 0, "time does not run backwards"
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + delay_us, self._number, action))

    def run_until(self, time_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Run events up to `time_us`, or until `done` holds; whether it does (True without)."""
        while self._queue and self._queue[0][0] <= time_us:
            if done is not None and done():
                return True
            self.now_us, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
        if done is not None and done():
            return True
        self.now_us = max(self.now_us, time_us)
        return done is None
