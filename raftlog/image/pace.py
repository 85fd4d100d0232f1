"""How work in the background leaves time to others: it rests between its pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")

_WORK_MIN_S = 0.005
"""Shorter pieces of work are taken together: waking up costs something too."""


class Pace:
    """Lets the work on a sequence of items take only a share of a processor.

    A processor that is idle now may be wanted in a millisecond: work that always runs on it makes
    others wait for memory, caches and the disk. So the share holds on an idle machine as well. What
    counts is the time that the work has a processor: on a busy machine, where it waits for one, it
    need not rest as well.
    """

    def __init__(
        self,
        share: float,
        *,
        clock_s: Callable[[], float] = time.process_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """`share` is in (0, 1]; 1: never rest. The work begins now. `rest` is called after each
        piece of work with its seconds, which may be 0; what it raises ends the work."""
        assert 0 < share <= 1, share
        self._rest_per_work = (1 - share) / share
        self._clock_s = clock_s
        self._rest = rest
        self._since_s = clock_s()

    def over(self, items: Iterable[_T]) -> Iterator[_T]:
        """The items one by one; the rest for one comes when the next is asked for. Sequences that
        are worked on in turn, or one within another, share one pace."""
        for item in items:
            yield item
            worked_s = self._clock_s() - self._since_s
            if worked_s >= _WORK_MIN_S:
                self._rest(worked_s * self._rest_per_work)
                self._since_s = self._clock_s()
