"""The pace of compaction, with a clock of its own."""

from __future__ import annotations

import pytest

from raftlog.compaction.pace import Pace


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
    for work_s in Pace(share, clock_s=clock, sleep=clock.sleep).over(works_s):
        clock.now_s += work_s
    return clock


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5])
def test_work_takes_its_share_of_the_time(share: float) -> None:
    works_s = [0.001] * 200 + [0.006] * 20
    clock = paced(share, works_s)
    assert sum(works_s) / clock.now_s == pytest.approx(share)


def test_a_whole_share_never_rests() -> None:
    assert paced(1, [0.1] * 10).slept_s == []


def test_short_pieces_of_work_are_taken_together() -> None:
    assert paced(0.5, [0.002] * 9).slept_s == pytest.approx([0.006] * 3)


def test_a_piece_that_took_very_long_is_followed_by_a_second_of_rest() -> None:
    assert paced(0.25, [20.0, 0.006]).slept_s == pytest.approx([1.0, 0.018])


def test_what_a_look_raises_after_a_piece_of_work_ends_it() -> None:
    clock, done = Clock(), []

    def look() -> None:
        if len(done) == 2:
            raise KeyboardInterrupt

    def work() -> None:
        for work_s in Pace(1, look=look, clock_s=clock, sleep=clock.sleep).over([0.01] * 9):
            clock.now_s += work_s
            done.append(work_s)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(done) == 2


def test_sequences_within_each_other_rest_once_for_the_same_work() -> None:
    clock = Clock()
    pace = Pace(0.5, clock_s=clock, sleep=clock.sleep)
    for work_s in pace.over(pace.over([0.01, 0.02])):
        clock.now_s += work_s
    assert clock.slept_s == pytest.approx([0.01, 0.02])
