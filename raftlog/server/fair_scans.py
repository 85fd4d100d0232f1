"""Scans of many small things on the loop, shared out among callers.

It is not enough that each call yields after a few milliseconds of work: each loop iteration
does a piece of every such call. So the bound is one for all calls of a caller. And a loop that
always has work keeps Python's lock, which grpc's threads need for each event: with the loop busy,
the events of a few hundred calls take seconds. So scans leave a part of the time to others.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from raftlog.machines.commands import TopicInfo
from raftlog.multiraft.local_replica import StoredBatch
from raftlog.server.calling import principal

PERIOD_WORK_MAX = 2_000
"""Work that one caller's calls do in one period: some milliseconds. No setting, as it protects all
other callers. A unit is a node of a predicate that is judged."""

WORK_S = 1.5e-6
"""About what a unit of work takes of a processor's time."""

PERIOD_S = 0.005
"""Python's threads ask each other for its lock so often. No setting: it belongs to the work."""

WORK_PER_WAKE = 20
"""What it takes to wake a watch, also if it finds nothing for its caller."""

WORK_PER_GROUP = 20
"""What it takes to show a group, and whether its caller may see it."""


class FairScans:
    """What the callers of one node spend; those without an identity are one. A scan awaits `begin`
    before each piece of its work, awaits nothing within it, and notes with `spend` what it took."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        """By caller, in this period, with what it did too much before. A period begins with the
        first work after the last one."""
        self._period_over = asyncio.Event()
        self._pieces: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._calls: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def one_at_a_time(self) -> asyncio.Lock:
        """Held by the one of a caller's calls of many pieces that is served. If all of a few
        hundred were served by turns, each would end past its deadline."""
        return self._calls.setdefault(principal(), asyncio.Lock())

    async def begin(self) -> None:
        """Wait until the caller may do another piece, in the order in which its pieces came; at
        once if it did little in this period."""
        who = principal()
        queue = self._pieces.setdefault(who, asyncio.Lock())
        if not queue.locked() and not self._has_spent(who):
            return
        async with queue:
            while self._has_spent(who):
                await self._period_over.wait()

    def spend(self, work: int) -> None:
        """Note the work of a piece."""
        if not self._spent:
            asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)
        who = principal()
        self._spent[who] = self._spent.get(who, 0) + work

    def _has_spent(self, who: str) -> bool:
        return self._spent.get(who, 0) >= PERIOD_WORK_MAX

    def _end_period(self) -> None:
        """What a caller did above its share counts in the next period."""
        left = {who: work - PERIOD_WORK_MAX for who, work in self._spent.items()}
        self._spent = {who: work for who, work in left.items() if work > 0}
        if self._spent:
            asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)
        self._period_over.set()
        self._period_over = asyncio.Event()


def topic_work(topic: TopicInfo) -> int:
    """What it takes to show a topic with its columns."""
    return WORK_PER_GROUP + 2 * (len(topic.schema.fields) + len(topic.schema.former))


def batch_work(batch: StoredBatch) -> int:
    """What it takes to read a stored batch's header and runs."""
    return 20 + 2 * len(batch.header.columns) + runs_work(batch)


def runs_work(batch: StoredBatch) -> int:
    """What it takes to look at one column of a stored batch's runs."""
    return len(batch.runs) // 4
