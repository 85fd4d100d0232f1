"""A damaged segment is written again as it was, from what the open log knows and others give."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from raftlog.core.types import LogIndex, Payload
from raftlog.errors import CorruptFile
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.mend import Examined, SegmentPlan, examine, rewrite
from raftlog.storage.write import NEW_FILE_ENDING
from tests.storage.disks import (
    FOLDER,
    GROUP,
    content,
    entries,
    entry,
    files_of,
    flipped,
    new_disk,
    write,
)

LIMITS = LogLimits(segment_bytes_max=700, preallocate_bytes=0, payload_cache_bytes_max=0)
LAST = 16


class Scene:
    """A log of some segments with writes of several entries, markers, and a truncation."""

    def __init__(self) -> None:
        self.fs = new_disk()
        self.log = GroupLog.create(self.fs, FOLDER, GROUP, LIMITS)
        for first, last in ((1, 3), (4, 4), (5, 9)):
            self.log.append(entries(first, last))
            write(self.log)
        self.log.idle_marker()
        write(self.log)
        self.log.truncate_from(9)
        self.log.append(entries(9, LAST, term=2))
        write(self.log)
        self.log.idle_marker()
        write(self.log)
        self.paths = [f"{FOLDER}/{name}" for name in self.fs.list(FOLDER)]

    def plan(self, path: str) -> SegmentPlan:
        first = self.log.segment_named(path.rpartition("/")[2])
        assert first is not None
        plan = self.log.plan_mend(first)
        assert plan is not None
        return plan

    def payloads(self) -> Mapping[LogIndex, Payload]:
        """What another replica has."""
        found = [*entries(1, 8), *entries(9, LAST, term=2)]
        return {each.index: each.payload for each in found}

    def put(self, path: str, data: bytes) -> None:
        """Change the bytes of the file at rest."""
        file = self.fs.open(path, create=False)
        file.truncate(0)
        file.write_at(0, [data])
        file.sync()


def test_a_log_that_is_whole_differs_in_nothing_from_its_plan() -> None:
    scene = Scene()
    assert len(scene.paths) >= 2
    for path in scene.paths:
        assert examine(scene.fs, scene.plan(path)) == Examined(True, (), True)


STEP = 37
"""The fast version takes one byte of so many: some of headers, of markers and of payloads."""


@pytest.mark.parametrize("how", ["flip", "zeros", "cut"])
def test_damage_at_some_bytes_is_written_again_as_it_was(how: str) -> None:
    assert _mended(how, STEP) > 0, "headers and markers need nobody else"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flip", "zeros", "cut"])
def test_damage_at_any_byte_is_written_again_as_it_was(how: str) -> None:
    assert _mended(how, 1) > 50, "headers and markers need nobody else"


def _mended(how: str, step: int) -> int:
    """Damage one byte of `step`; how often nothing had to be given."""
    scene = Scene()
    derived = 0
    for path in scene.paths:
        plan, data = scene.plan(path), files_of(scene.fs)[path.rpartition("/")[2]]
        for position in range(0, len(data), step):
            bad = {
                "flip": flipped(data, position, 1),
                "zeros": data[:position] + bytes(len(data[position:][:40])) + data[position + 40 :],
                "cut": data[:position],
            }[how]
            if bad == data:
                continue
            scene.put(path, bad)
            found = examine(scene.fs, plan)
            assert found is not None
            assert not found.is_whole
            derived += not found.missing
            given = {index: scene.payloads()[index] for index in found.missing}
            assert rewrite(scene.fs, plan, given) == Examined(True, (), True)
            assert files_of(scene.fs)[path.rpartition("/")[2]] == data
    return derived


def test_a_segment_keeps_its_length_though_nobody_gives_its_last_entry() -> None:
    """A shorter file would look like a torn write, whose end may go."""
    scene = Scene()
    path = scene.paths[0]
    name = path.rpartition("/")[2]
    data, plan = files_of(scene.fs)[name], scene.plan(path)
    scene.put(path, data[:-1])
    written = rewrite(scene.fs, plan, {})
    assert written is not None
    assert len(written.missing) == 1
    assert len(files_of(scene.fs)[name]) == len(data)


def test_the_open_log_reads_and_writes_the_new_file() -> None:
    scene = Scene()
    path = scene.paths[-1]
    assert content(scene.log)[-1] == entry(LAST, term=2), "its file is open now"
    data = files_of(scene.fs)[path.rpartition("/")[2]]
    place = data.index(b"body 15")
    scene.put(path, flipped(data, place))
    with pytest.raises(CorruptFile):
        content(scene.log)
    plan = scene.plan(path)
    rewrite(scene.fs, plan, scene.payloads())
    durable = files_of(scene.fs.durable_copy(Random(1)))
    assert durable[path.rpartition("/")[2]] == data, "bytes and name are durable"
    scene.log.mended(plan)
    assert content(scene.log)[-1] == entry(LAST, term=2)
    scene.log.append(entries(LAST + 1, LAST + 1, term=2))
    write(scene.log)
    found = content(scene.log)
    scene.fs.crash()
    assert content(GroupLog.open(scene.fs, FOLDER, GROUP, LIMITS)) == found


def test_a_payload_of_another_entry_is_not_taken() -> None:
    """The same index in another term, or other bytes of the same length."""
    scene = Scene()
    path = scene.paths[0]
    data = files_of(scene.fs)[path.rpartition("/")[2]]
    right = scene.payloads()[LogIndex(3)]
    for position in (data.index(b"body 3/1"), data.index(b"body 3/1") - 60):
        bad = flipped(data, position)
        bad = bad.replace(b"body 3/1", b"bodi 3/1")
        scene.put(path, bad)
        plan = scene.plan(path)
        for wrong in (
            entry(3, term=2).payload,
            Payload(right.command, right.body[::-1]),
            Payload(right.command + right.body[:1], right.body[1:]),
        ):
            found = rewrite(scene.fs, plan, {LogIndex(3): wrong})
            assert found is not None
            assert found.missing == (3,)
        assert rewrite(scene.fs, plan, {LogIndex(3): right}) == Examined(True, (), True)


def test_what_nobody_gives_stays_with_its_bytes_and_the_rest_is_mended() -> None:
    scene = Scene()
    path = scene.paths[0]
    data = files_of(scene.fs)[path.rpartition("/")[2]]
    two, three = data.index(b"body 2/1"), data.index(b"body 3/1")
    scene.put(path, flipped(flipped(data, two), three))
    plan = scene.plan(path)
    payloads = scene.payloads()
    found = rewrite(scene.fs, plan, {LogIndex(2): payloads[LogIndex(2)]})
    assert found == Examined(False, (LogIndex(3),), True)
    assert files_of(scene.fs)[path.rpartition("/")[2]] == flipped(data, three)


def test_a_crash_at_any_change_leaves_the_old_file_or_the_whole_one() -> None:
    whole = Scene()
    path = whole.paths[0]
    name = path.rpartition("/")[2]
    data = files_of(whole.fs)[name]
    bad = flipped(data, data.index(b"body 3/1"))
    whole.put(path, bad)
    changes: list[str] = []
    healed = 0
    for seed in range(6):
        for at in range(20):
            disk = whole.fs.durable_copy(Random(seed))
            changes.clear()

            def interrupt(operation: str, where: str, at: int = at) -> None:
                changes.append(operation)
                if len(changes) > at:
                    raise KeyboardInterrupt

            disk.interrupt = interrupt
            try:
                rewrite(disk, whole.plan(path), whole.payloads())
            except KeyboardInterrupt:
                pass
            disk.interrupt = None
            disk.crash()
            assert files_of(disk)[name] in (bad, data)
            healed += files_of(disk)[name] == data
            log = GroupLog.open(disk, FOLDER, GROUP, LIMITS)
            assert log.last_index == LAST
            assert name + NEW_FILE_ENDING not in disk.list(FOLDER)
    assert 0 < healed < 6 * 20
