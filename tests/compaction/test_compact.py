"""A compaction keeps every visible record and every open stage, and nothing else, at any point."""

from __future__ import annotations

import itertools
from random import Random

import pyarrow as pa
import pytest

from raftlog.compaction import merge as merging
from raftlog.compaction.compact import compact
from raftlog.compaction.cuts import LARGE_RECORDS_MIN
from raftlog.compaction.worker import reply_to
from raftlog.core.types import LogIndex
from raftlog.errors import CompactorOutOfMemory, CorruptFile, DiskFull, Internal
from raftlog.image.job import encode_job
from raftlog.image.machine import restored
from raftlog.image.manifest import Image
from raftlog.image.pace import Pace
from raftlog.image.snapshot_file import read_snapshot
from raftlog.records import batch_codec
from raftlog.storage.frames import SEGMENT_HEADER_BYTES
from tests.compaction.topic_scene import FOLDER, TopicScene
from tests.machines.scenes import TOPIC
from tests.simulation.planting import replaced
from tests.storage.disks import files_of, flipped
from tests.storage.memory import MemoryFileSystem


def new_scene(seed: int = 1, small_file_bytes: int = 0) -> TopicScene:
    return TopicScene(MemoryFileSystem(Random(seed)), small_file_bytes=small_file_bytes)


def ranges(image: Image) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in image.history]


def restored_fingerprint(scene: TopicScene, image: Image) -> bytes:
    newest = image.snapshots[-1]
    state = read_snapshot(scene.fs, FOLDER, TOPIC.group, newest)
    return restored(TOPIC, newest, state).machine.fingerprint()


def test_records_move_from_the_log_into_history() -> None:
    scene = new_scene()
    for _ in range(40):
        scene.append()
    image = scene.compact(scene.point())
    assert (image.generation, image.index, image.history_end) == (1, 41, 120)
    assert [(each.start, each.end) for each in image.history] == [(0, 120)]
    assert restored_fingerprint(scene, image) == scene.machine.fingerprint()
    assert scene.rows() == scene.expected()
    scene.drop()
    assert scene.log.base_index > 0
    assert scene.rows() == scene.expected()
    scene.append()
    image = scene.compact(scene.point())
    assert [(each.start, each.end) for each in image.history] == [(0, 120), (120, 123)]
    assert scene.rows() == scene.expected()


def test_a_compaction_rests_after_what_it_replays_and_after_what_it_writes() -> None:
    """Each look at the clock is a second of work here."""
    scene = new_scene()
    appended = 40
    for _ in range(appended):
        scene.append()
    now_s, rests = itertools.count(), []
    pace = Pace(0.5, clock_s=lambda: next(now_s), rest=rests.append)
    compact(scene.fs, scene.point(), pace=pace)
    replayed, merged, written = appended + 1, appended, 1
    assert len(rests) == replayed + merged + written


def test_a_small_file_is_written_again_with_the_next_records() -> None:
    small = 1_000
    scene = new_scene(small_file_bytes=small)
    found = []
    for _ in range(12):
        scene.append(4)
        found.append(scene.compact(scene.point()).history)
        assert scene.rows() == scene.expected()
    assert [(each.start, each.end) for each in found[1]] == [(0, 8)]
    assert len(found[-1]) > 1
    assert all(small <= each.record_bytes < 2 * small for each in found[-1][:-1])


def test_trimmed_row_groups_of_a_small_file_are_left_out() -> None:
    scene = new_scene(small_file_bytes=10_000_000)
    scene.append(LARGE_RECORDS_MIN)
    scene.append(5)
    assert ranges(scene.compact(scene.point())) == [(0, LARGE_RECORDS_MIN + 5)]
    scene.trim(LARGE_RECORDS_MIN + 2)
    scene.append(5)
    image = scene.compact(scene.point())
    assert ranges(image) == [(LARGE_RECORDS_MIN + 2, LARGE_RECORDS_MIN + 10)]
    assert scene.rows() == scene.expected()
    assert len(scene.rows()) == 8


def test_a_batch_or_row_group_that_the_log_start_divides_is_cut() -> None:
    """In the log, as a complete row group, without later records, and as the last of its file.
    Replicas whose compressors differ come to the same history."""
    digests: dict[str, list[bytes]] = {"zstd": [], "none": []}
    last = LARGE_RECORDS_MIN + 7
    for compression, found in digests.items():
        scene = new_scene(small_file_bytes=10_000_000)
        with replaced(merging, "COMPRESSION", compression):
            for count, log_start in ((LARGE_RECORDS_MIN, 2), (5, 5), (0, 9), (9, last), (0, last)):
                if count:
                    scene.append(count)
                scene.trim(log_start)
                image = scene.compact(scene.point())
                assert ranges(image) == [(log_start, scene.machine.high_water_mark)]
                assert scene.rows() == scene.expected()
                found.append(image.history_digest)
    assert digests["zstd"] == digests["none"]
    assert len(set(digests["none"])) == 4


def test_a_damaged_small_file_is_not_written_again() -> None:
    scene = new_scene(small_file_bytes=10_000)
    for _ in range(3):
        scene.append()
    [info] = scene.compact(scene.point()).history
    file = scene.fs.open(f"{FOLDER}/{info.name}", create=False)
    file.write_at(SEGMENT_HEADER_BYTES + 3, [b"\0"])
    file.close()
    scene.append()
    with pytest.raises(CorruptFile, match="checksum"):
        scene.compact(scene.point())


def test_a_stage_that_stays_open_is_carried_until_it_is_committed() -> None:
    scene = new_scene()
    early = scene.stage("w", 0, stages=4)
    for _ in range(60):
        scene.append()
    image = scene.compact(scene.point())
    assert [(each.first, each.last) for each in image.stages] == [(1, 65)]
    scene.drop()
    assert scene.log.base_index > 4
    late = scene.stage("w", 0, stages=2)
    scene.append()
    image = scene.compact(scene.point())
    assert [(each.first, each.last) for each in image.stages] == [(1, 65), (66, 69)]
    scene.commit(late, early)
    assert scene.rows() == scene.expected(), "read out of the carried stages"
    image = scene.compact(scene.point())
    assert image.stages == ()
    assert scene.rows() == scene.expected(), "read out of history"


def test_a_small_stage_that_stays_open_keeps_no_large_file_of_others() -> None:
    scene = new_scene()
    kept = scene.stage("w", 0)
    for number in range(8):
        ballast = scene.stage("v", number, stages=40)
        scene.compact(scene.point())
        scene.commit(ballast)
        image = scene.compact(scene.point())
    [stages] = image.stages
    assert stages.first == 1
    assert stages.byte_count < 1_000
    scene.commit(kept)
    assert scene.rows() == scene.expected()


def test_small_files_of_stages_become_one_and_large_ones_are_written_once() -> None:
    scene = new_scene(small_file_bytes=2_000)
    attempts = []
    for _ in range(40):
        attempts.append(scene.stage("w", 0))
        scene.append()
        image = scene.compact(scene.point())
    *large, last = image.stages
    assert large
    assert all(2_000 <= each.byte_count < 4_000 for each in large)
    assert last.byte_count < 2_500
    scene.commit(*attempts)
    assert scene.rows() == scene.expected()


def test_what_was_never_committed_is_not_copied() -> None:
    scene = new_scene()
    lost, taken = scene.stage("w", 0, stages=3), scene.stage("w", 0, stages=3)
    scene.commit(taken)
    image = scene.compact(scene.point())
    assert image.stages == ()
    assert image.history[-1].end == 9
    assert scene.rows() == scene.expected()
    assert lost


def test_trimmed_records_are_left_out() -> None:
    scene = new_scene()
    for _ in range(10):
        scene.append()
    scene.compact(scene.point())
    for _ in range(10):
        scene.append()
    scene.trim(20)
    image = scene.compact(scene.point())
    assert [(each.start, each.end) for each in image.history] == [(0, 30), (30, 60)]
    assert scene.rows() == scene.expected()
    scene.trim(31)
    image = scene.compact(scene.point())
    assert [(each.start, each.end) for each in image.history] == [(30, 60)]
    scene.append()
    scene.append()
    scene.trim(65)
    image = scene.compact(scene.point())
    assert [(each.start, each.end) for each in image.history] == [(65, 66)]
    assert scene.rows() == scene.expected() == [(65, 65)]
    scene.trim(66)
    image = scene.compact(scene.point())
    assert image.history == ()
    assert image.history_end == 66
    scene.append()
    image = scene.compact(scene.point())
    assert scene.rows() == scene.expected()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_histories(seed: int) -> None:
    """To replay seed 7: pytest "tests/compaction/test_compact.py::test_random_histories[7]"."""
    random = Random(seed)
    scene = new_scene(seed, random.choice((0, 300, 1_000_000)))
    epochs = {"v": 0, "w": 0}
    staged: dict[str, list[str]] = {"v": [], "w": []}
    for _ in range(120):
        draw, writer = random.random(), random.choice("vw")
        if draw < 0.4:
            scene.append(random.randrange(1, 9), random.choice(("none", "lz4", "zstd")))
        elif draw < 0.7:
            attempt = scene.stage(
                writer, epochs[writer], random.randrange(1, 4), random.randrange(1, 5)
            )
            staged[writer].append(attempt)
        elif draw < 0.8 and staged[writer]:
            taken = random.sample(staged[writer], random.randrange(1, len(staged[writer]) + 1))
            scene.commit(*taken)
            epochs[writer] += 1
            staged[writer] = []
        elif draw < 0.85:
            scene.trim(random.randrange(len(scene.truth) + 1))
        elif draw < 0.95:
            image = scene.compact(scene.point())
            assert restored_fingerprint(scene, image) == scene.machine.fingerprint()
            if random.randrange(2):
                scene.drop()
        assert scene.rows() == scene.expected()


class Killed(BaseException):
    """The process died here."""


def test_a_crash_anywhere_changes_nothing_and_the_job_can_be_done_again() -> None:
    number = 0
    finished = False
    while not finished:
        disk = MemoryFileSystem(Random(number))
        scene = TopicScene(disk)
        open_stage = scene.stage("w", 0, stages=2)
        for _ in range(5):
            scene.append()
        scene.compact(scene.point())
        scene.append()
        second = scene.stage("w", 0)
        job = scene.point()
        left = [number]

        def count(operation: str, path: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        before = {name: data for name, data in files_of(disk, FOLDER).items() if "-" in name}
        disk.interrupt = count
        try:
            compact(disk, job)
            finished = True
        except Killed:
            number += 1
        disk.interrupt = None
        disk.crash()
        scene.reopen_log()
        after = files_of(disk, FOLDER)
        assert {name: after[name] for name in before} == before, "the former image is whole"
        scene.compact(job)
        scene.commit(second, open_stage)
        assert scene.rows() == scene.expected()
    assert number > 15


def test_a_compaction_that_finds_no_room_leaves_none_of_its_files() -> None:
    """They would take what a full disk has left, and there is no next try before it has room."""
    number = 0
    finished = False
    while not finished:
        disk = MemoryFileSystem(Random(number))
        scene = TopicScene(disk)
        scene.append()
        scene.compact(scene.point())
        scene.append()
        scene.stage("w", 0)
        job = scene.point()
        left = [number]

        def count(operation: str, path: str, left: list[int] = left) -> None:
            if operation in ("write", "create", "rename"):
                if left[0] == 0:
                    raise DiskFull(file=path)
                left[0] -= 1

        before = files_of(disk, FOLDER)
        disk.interrupt = count
        try:
            compact(disk, job)
            finished = True
        except DiskFull:
            number += 1
            assert files_of(disk, FOLDER) == before
        disk.interrupt = None
    assert number > 8


def test_a_damaged_newest_snapshot_is_made_again_from_the_one_before() -> None:
    scene = new_scene()
    for _ in range(3):
        scene.append()
    scene.compact(scene.point())
    scene.stage("w", 0)
    scene.append()
    image = scene.compact(scene.point())
    path = f"{FOLDER}/{image.snapshots[-1].name}"
    whole = files_of(scene.fs, FOLDER)[image.snapshots[-1].name]
    scene.fs.remove(path)
    scene.fs.open(path, create=True).write_at(0, [flipped(whole, 100)])
    with pytest.raises(CorruptFile):
        read_snapshot(scene.fs, FOLDER, TOPIC.group, image.snapshots[-1])
    assert compact(scene.fs, scene.job(image.index)) == image
    assert restored_fingerprint(scene, image) == scene.fingerprints[image.index]


def test_another_state_than_the_replicas_is_told() -> None:
    scene = new_scene()
    scene.append()
    job = scene.point()
    scene.hashes[job.index] = bytes(8)
    with pytest.raises(Internal, match="came to state"):
        compact(scene.fs, scene.job(LogIndex(job.index)))


def test_damage_in_the_log_is_told_and_leaves_the_image() -> None:
    scene = new_scene()
    for _ in range(30):
        scene.append()
    job = scene.point()
    name = next(name for name in files_of(scene.fs, FOLDER) if name.endswith(".log"))
    data = files_of(scene.fs, FOLDER)[name]
    scene.fs.open(f"{FOLDER}/{name}", create=False).write_at(0, [flipped(data, len(data) // 2)])
    with pytest.raises(CorruptFile):
        compact(scene.fs, job)


def test_a_forged_header_of_a_batch_is_told_and_leaves_the_image() -> None:
    scene = new_scene()
    scene.append(3, forged_count=2)
    scene.append()
    with pytest.raises(CorruptFile, match="its batch has 2 records, and 3 were applied"):
        compact(scene.fs, scene.point())


@pytest.mark.parametrize("small_file_bytes", [0, 1 << 20])
def test_replicas_with_other_compressors_come_to_the_same_digest_of_history(
    small_file_bytes: int,
) -> None:
    ours, theirs = (new_scene(seed, small_file_bytes) for seed in (1, 2))
    with replaced(merging, "COMPRESSION", "none"):
        for _ in range(3):
            image = _more(theirs)
    digests = [_more(ours).history_digest for _ in range(3)]
    assert digests[-1] == image.history_digest
    assert len(set(digests)) == len(digests)
    assert files_of(ours.fs, FOLDER) != files_of(theirs.fs, FOLDER)


def test_history_holds_byte_planes_where_they_are_smaller() -> None:
    scene = TopicScene(MemoryFileSystem(Random(1)), small_file_bytes=1 << 20)
    _more(scene)
    assert scene.chunks_in_planes() == {True}
    assert scene.rows() == scene.expected()


def _more(scene: TopicScene) -> Image:
    for _ in range(5):
        scene.append(count=200)
    return scene.compact(scene.point())


def test_too_little_memory_fails_the_job_which_can_be_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = TopicScene(MemoryFileSystem(Random(1)))
    for _ in range(12):
        scene.append()
    job = scene.point()

    def full(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8000 failed")

    monkeypatch.setattr(batch_codec.pa.ipc, "open_stream", full)
    answer = reply_to(scene.fs, encode_job(job), 1.0)
    assert isinstance(answer, CompactorOutOfMemory)
    assert "malloc of size 8000 failed" in answer.cause
    monkeypatch.undo()
    assert scene.compact(job).index == job.index
