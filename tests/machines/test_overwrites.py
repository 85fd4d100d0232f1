"""An epoch that overwrites a topic: nothing else stays visible, from its entry on."""

from __future__ import annotations

import dataclasses

import pytest

from tests.machines.scenes import Scene, code, committed, key, replayed


@pytest.fixture
def scene() -> Scene:
    """A topic with records of a producer and of a writer, at [0, 15)."""
    made = Scene()
    made.append(0, made.new_batch(10))
    made.write_epoch(key(0, run="r", writer="other"), 5)
    return made


def offsets(scene: Scene) -> tuple[int, int]:
    return scene.machine.log_start_offset, scene.machine.high_water_mark


def test_its_records_take_the_place_of_all_others(scene: Scene) -> None:
    named = scene.stage_all(key(0, run="r"), "a", 3, 4)
    assert offsets(scene) == (0, 15)
    assert scene.commit_epoch(key(0, run="r"), named, overwrite=True) == committed(15, 22)
    assert offsets(scene) == (15, 22)
    assert [count for _, count in scene.visible()] == [3, 4]
    assert scene.machine.record_bytes == 2000


def test_one_without_records_leaves_the_topic_empty(scene: Scene) -> None:
    assert scene.commit_epoch(key(0, run="r"), overwrite=True) == committed(15, 15)
    assert offsets(scene) == (15, 15)
    scene.append(1, scene.new_batch(2))
    assert offsets(scene) == (15, 17)


def test_what_is_added_before_a_replay_stays(scene: Scene) -> None:
    named = scene.stage_all(key(0, run="r"), "a", 3)
    scene.commit_epoch(key(0, run="r"), named, overwrite=True)
    scene.append(1, scene.new_batch(2))
    assert scene.commit_epoch(key(0, run="r"), named, overwrite=True) == replayed(15, 18, 3)
    again = scene.stage_all(key(0, run="r2"), "b", 3)
    assert scene.commit_epoch(key(0, run="r2"), again, overwrite=True) == replayed(15, 18, 3)
    assert offsets(scene) == (15, 20)


def test_one_that_is_refused_removes_nothing(scene: Scene) -> None:
    named = scene.stage_all(key(0, run="r"), "a", 3)
    wrong = dataclasses.replace(named, chained_crc=1)
    before, seen = scene.machine.fingerprint(), scene.visible()
    assert code(scene.commit_epoch(key(0, run="r"), wrong, overwrite=True)) == "EpochIncomplete"
    assert (scene.machine.fingerprint(), scene.visible()) == (before, seen)
    scene.write_epoch(key(0, run="r2"), 1)
    before, seen = scene.machine.fingerprint(), scene.visible()
    assert code(scene.commit_epoch(key(1, run="r"), overwrite=True)) == "RunFenced"
    assert (scene.machine.fingerprint(), scene.visible()) == (before, seen)
    assert offsets(scene) == (0, 16)
