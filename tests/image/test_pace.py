"""The pace of compaction, with a clock of its own."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from raftlog.image.pace import Pace


class Clock:
    """Work and sleep move it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept_s: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds


def paced(share: float, works_s: list[float]) -> Clock:
    """Work for so long on each of several items."""
    clock = Clock()
    for work_s in Pace(share, clock_s=clock, rest=clock.sleep).over(works_s):
        clock.now_s += work_s
    return clock


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5])
def test_work_takes_its_share_of_the_time(share: float) -> None:
    works_s = [0.001] * 200 + [0.006] * 20
    clock = paced(share, works_s)
    assert sum(works_s) / clock.now_s == pytest.approx(share)


def test_a_whole_share_never_rests() -> None:
    assert sum(paced(1, [0.1] * 10).slept_s) == 0


def test_short_pieces_of_work_are_taken_together() -> None:
    assert paced(0.5, [0.002] * 9).slept_s == pytest.approx([0.006] * 3)


def test_work_of_exactly_the_least_time_is_paced() -> None:
    assert paced(0.5, [0.005]).slept_s == [0.005]


def test_what_a_rest_raises_ends_the_work() -> None:
    clock, done = Clock(), []

    def rest(_: float) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt

    def work() -> None:
        for work_s in Pace(1, clock_s=clock, rest=rest).over([0.01] * 9):
            clock.now_s += work_s
            done.append(work_s)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(done) == 2


def test_time_without_a_processor_is_no_work() -> None:
    rests: list[float] = []
    began_s = time.process_time()
    for _ in Pace(0.5, rest=rests.append).over(["a process"]):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert sum(rests) <= time.process_time() - began_s, "half a share: as long as the work"


def test_sequences_within_each_other_rest_once_for_the_same_work() -> None:
    clock = Clock()
    pace = Pace(0.5, clock_s=clock, rest=clock.sleep)
    for work_s in pace.over(pace.over([0.01, 0.02])):
        clock.now_s += work_s
    assert clock.slept_s == pytest.approx([0.01, 0.02])
