"""What a leader proposes to expire, and how much the search for it costs."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest

from raftlog.config import TopicSettings
from raftlog.machines.outcomes import Expired
from raftlog.multiraft.clocks import ClockSteps
from raftlog.server.leases import expiry_due
from tests.machines.scenes import Scene, key

HOUR_S = 3600
DAY_S = 24 * HOUR_S


def us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def test_leases_end_although_another_node_leads_at_every_look() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(), now_us=us(HOUR_S))
    ended = []
    for hour in range(1, 50):
        # Nothing is kept between two looks, so each may be another node's.
        command = expiry_due(scene.machine, TopicSettings(), us(hour * HOUR_S), ClockSteps())
        if command is not None:
            ended.append((hour, scene.apply(command)))
    assert ended == [(25, Expired(epochs=0, writers=0, producers=1))]


def test_nothing_is_proposed_before_it_is_due() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(), now_us=us(HOUR_S))
    scene.stage_all(key(0), "a", 1, now_us=us(2 * HOUR_S))
    leases = TopicSettings(producer_lease_s=2 * DAY_S)
    assert expiry_due(scene.machine, leases, us(DAY_S + HOUR_S), ClockSteps()) is None
    command = expiry_due(scene.machine, leases, us(DAY_S + 2 * HOUR_S), ClockSteps())
    assert command is not None
    assert scene.apply(command) == Expired(epochs=1, writers=0, producers=0)


def test_a_lease_that_began_while_the_clock_was_behind_lasts_as_long() -> None:
    scene, steps = Scene(), ClockSteps()
    steps.note(us(HOUR_S), 0)
    scene.append(0, scene.new_batch(), now_us=us(HOUR_S))
    month = 30 * DAY_S
    due = []
    for hour in (1, 23, 24):
        now_us = us(month + (1 + hour) * HOUR_S)
        steps.note(now_us, us(hour * HOUR_S))
        # Another producer's batch brings log time there, too.
        scene.append(hour, scene.new_batch(), producer="other", now_us=now_us)
        command = expiry_due(scene.machine, TopicSettings(), now_us, steps)
        due.append(None if command is None else scene.apply(command))
    assert due == [None, None, Expired(epochs=0, writers=0, producers=1)]


@pytest.mark.slow
def test_looking_costs_the_same_whatever_the_tables_hold() -> None:
    events = []
    for producers in (1, 3_000):
        scene = Scene()
        for number in range(producers):
            scene.append(0, scene.new_batch(), producer=f"p{number}")
            of = key(0, writer=f"u{number}", run=f"u{number}", streaming=False)
            scene.commit_epoch(of, transient=True)
            scene.stage_all(key(0, writer=f"s{number}"), "a", 1)
        events.append(_events_of_a_look(scene))
    assert events[0] == events[1]


def _events_of_a_look(scene: Scene) -> int:
    """Calls and returns, of Python and of C, while a leader looks."""
    leases, count = TopicSettings(), 0
    expiry_due(scene.machine, leases, 1, ClockSteps())

    def tally(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    gc.disable()  # what a collection happens to end would be counted
    sys.setprofile(tally)
    try:
        due = expiry_due(scene.machine, leases, 1, ClockSteps())
    finally:
        sys.setprofile(None)
        gc.enable()
    assert due is None
    return count
