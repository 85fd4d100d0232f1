"""A caller's scans do a bounded amount of work in each loop iteration, however many they are."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from raftlog.auth.principals import Caller
from raftlog.server.calling import calling
from raftlog.server.fair_scans import PERIOD_WORK_MAX, FairScans

SMALL = PERIOD_WORK_MAX // 10
PIECES = 5
SCANS = 20


class Scene:
    """Scans, and how much each caller did in each loop iteration."""

    def __init__(self) -> None:
        self.scans = FairScans()
        self.iteration = 0
        self.done: Counter[tuple[str, int]] = Counter()
        """Work by caller and loop iteration."""
        self.pieces: Counter[int] = Counter()
        """By the number of the scan."""

    async def scan(self, who: str, number: int, work: int) -> None:
        with calling(Caller(principal=who)):
            for _ in range(PIECES):
                await self.scans.begin()
                self.scans.spend(work)
                self.done[who, self.iteration] += work
                self.pieces[number] += 1

    async def run(self, *scans: tuple[str, int, int]) -> None:
        """Scans of callers, so many each, with pieces of so much work."""
        tasks = [
            asyncio.create_task(self.scan(who, number, work))
            for who, count, work in scans
            for number in range(count)
        ]
        while not all(task.done() for task in tasks):
            self.iteration += 1
            await asyncio.sleep(0)


@pytest.mark.slow
def test_large_pieces_of_one_caller_are_done_one_at_a_time_in_an_iteration():
    scene = Scene()
    asyncio.run(scene.run(("token:eve", SCANS, PERIOD_WORK_MAX)))
    assert set(scene.done.values()) == {PERIOD_WORK_MAX}
    assert scene.pieces == dict.fromkeys(range(SCANS), PIECES)


def test_small_pieces_share_an_iteration():
    scene = Scene()
    asyncio.run(scene.run(("token:eve", SCANS, SMALL)))
    assert SMALL < max(scene.done.values()) <= PERIOD_WORK_MAX
    assert scene.pieces == dict.fromkeys(range(SCANS), PIECES)


def test_what_a_piece_takes_above_its_share_counts_in_the_next_periods():
    class Counting(FairScans):
        periods = 0

        def _end_period(self) -> None:
            self.periods += 1
            super()._end_period()

    async def run() -> int:
        scans = Counting()
        await scans.begin()
        scans.spend(4 * PERIOD_WORK_MAX)
        await scans.begin()
        return scans.periods

    assert asyncio.run(run()) == 4


@pytest.mark.slow
def test_a_caller_does_not_wait_for_another_one():
    scene = Scene()
    heavy = ("token:eve", SCANS, PERIOD_WORK_MAX)
    asyncio.run(scene.run(heavy, ("token:ada", 1, SMALL)))
    assert {iteration for who, iteration in scene.done if who == "token:ada"} == {1}


def test_the_loop_waits_for_events_between_large_pieces():
    """Else grpc's threads would not get Python's lock."""

    async def run() -> None:
        scans = FairScans()
        await scans.begin()
        scans.spend(PERIOD_WORK_MAX)
        piece = asyncio.create_task(scans.begin())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not piece.done()
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        assert not ready, "it does not poll"
        await piece

    asyncio.run(run())
