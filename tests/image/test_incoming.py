"""Another node's image: received in pieces, checked to the last byte, installed whole or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from raftlog.core.types import LogIndex, Term
from raftlog.errors import CorruptFile, DiskFull
from raftlog.image.incoming import INCOMING_PREFIX, Incoming, Missing, install, wanted_image
from raftlog.image.machine import restored
from raftlog.image.manifest import Image, leftovers, read_image, write_image
from raftlog.image.snapshot_file import read_snapshot
from raftlog.machines.group_info import KvInfo
from raftlog.storage.fresh import put_in_place
from raftlog.storage.log import GroupLog
from tests.compaction.topic_scene import FOLDER, SMALL, TopicScene
from tests.machines.scenes import TOPIC
from tests.storage.disks import entries, files_of, flipped, write
from tests.storage.memory import MemoryFileSystem


def compacted(scene: TopicScene) -> Image:
    image = scene.compact(scene.point())
    scene.drop()
    write_image(scene.fs, FOLDER, scene.image)
    return image


def replica(seed: int) -> TopicScene:
    """What two replicas have in common: an image, and some entries more."""
    scene = TopicScene(MemoryFileSystem(Random(seed)))
    scene.stage("w", 0, stages=2)
    for _ in range(12):
        scene.append()
    compacted(scene)
    scene.append()
    return scene


@cache
def sender() -> TopicScene:
    """A replica that has gone on: another point was compacted, and a stage is open there."""
    scene = replica(1)
    scene.term = Term(2)
    scene.stage("v", 0)
    for _ in range(25):
        scene.append()
    compacted(scene)
    return scene


def behind() -> TopicScene:
    """A replica whose log ends with entries that were never committed."""
    scene = replica(2)
    scene.log.append(entries(scene.log.last_index + 1, scene.log.last_index + 60))
    write(scene.log)
    scene.log.close()
    return scene


@cache
def sent() -> dict[str, bytes]:
    return files_of(sender().fs, FOLDER)


def incoming(fs: MemoryFileSystem) -> tuple[Incoming, Image, list[Missing]]:
    receiver = Incoming(fs, FOLDER, TOPIC)
    own = read_image(fs, FOLDER).image
    image = wanted_image(sender().image, own)
    snapshot_bytes = len(sent()[sender().image.snapshots[-1].name])
    return receiver, image, receiver.begin(image, own.names(), snapshot_bytes)


def test_a_received_image_is_the_replicas_next_one() -> None:
    own = read_image(behind().fs, FOLDER).image
    assert wanted_image(sender().image, own).generation == own.generation + 1


def received(fs: MemoryFileSystem) -> Image:
    """Receive everything that is missing."""
    receiver, image, missing = incoming(fs)
    for name, position, _ in missing:
        receiver.write(name, position, sent()[name][position:])
        assert receiver.finish(name) is None
    return image


def opened(fs: MemoryFileSystem) -> tuple[Image, GroupLog]:
    """The group as a restarted node opens it."""
    image = read_image(fs, FOLDER).image
    for path in leftovers(fs, FOLDER, image):
        fs.remove(path)
    put_in_place(fs, FOLDER, image.base, image.fresh_log)
    log = GroupLog.open(fs, FOLDER, TOPIC.group, SMALL, base=image.base)
    newest = image.snapshots[-1]
    state = read_snapshot(fs, FOLDER, TOPIC.group, newest)
    found = restored(TOPIC, newest, state).machine
    assert found.fingerprint() == sender().fingerprints[image.index]
    assert image.names() <= set(fs.list(FOLDER))
    return image, log


def test_only_what_is_not_here_is_received() -> None:
    scene = behind()
    _, image, missing = incoming(scene.fs)
    newest = sender().image.snapshots[-1]
    assert image.base == (newest.index, newest.term)
    assert image.history == (scene.image.history[0], sender().image.history[1])
    assert image.stages == (scene.image.stages[0], sender().image.stages[1])
    assert {each.name for each in missing} == {
        newest.name,
        sender().image.stages[1].name,
        sender().image.history[1].name,
    }


def test_the_image_takes_the_place_of_image_and_log() -> None:
    fs = behind().fs
    image = received(fs)
    install(fs, FOLDER, TOPIC.group, image)
    found, log = opened(fs)
    assert (found.index, found.generation) == (sender().image.index, 2)
    assert (log.base_index, log.base_term) == image.base
    assert log.last_index == log.base_index, "what was never committed is gone"
    log.append(entries(log.last_index + 1, log.last_index + 3, term=2))
    write(log)
    log.close()
    again, log = opened(fs)
    assert (again, log.last_index) == (found, found.index + 3)
    assert not [name for name in fs.list(FOLDER) if name.startswith(INCOMING_PREFIX)]
    log.close()


def test_what_was_received_before_a_break_is_not_received_again() -> None:
    fs = behind().fs
    receiver, _, missing = incoming(fs)
    name, _, byte_count = max(missing, key=lambda each: each.byte_count)
    receiver.write(name, 0, sent()[name][:100])
    fs.open(f"{FOLDER}/{INCOMING_PREFIX}history-of-another-image", create=True).close()
    opened(fs)[1].close()  # a restart
    receiver, _, missing = incoming(fs)
    assert Missing(name, 100, byte_count) in missing
    assert [other for other in fs.list(FOLDER) if other.startswith(INCOMING_PREFIX)] == [
        INCOMING_PREFIX + name
    ]


def test_a_byte_that_is_not_the_senders_is_found_wherever_it_is() -> None:
    """Whatever a chunk's own checksum did not see: the snapshot, stages, each part of history."""
    fs = behind().fs
    receiver, _, missing = incoming(fs)
    for name, _, byte_count in missing:
        data = sent()[name]
        for position in [*range(0, byte_count, 7), byte_count - 1]:
            receiver.write(name, 0, flipped(data, position))
            assert receiver.finish(name) is not None, (name, position)
            receiver.remove(name)
            assert not fs.exists(f"{FOLDER}/{INCOMING_PREFIX}{name}"), "it is received again"
            assert isinstance(receiver.finish(name), CorruptFile)
        receiver.write(name, 0, data[:-1])
        assert isinstance(receiver.finish(name), CorruptFile)
        receiver.write(name, 0, data)
        assert receiver.finish(name) is None


def test_history_whose_records_are_not_those_that_the_manifest_means_is_refused() -> None:
    """The file is whole: only the digest of its records tells it."""
    fs = behind().fs
    kept, other = sender().image.history
    image = replace(sender().image, history=(kept, replace(other, digest=kept.digest)))
    receiver = Incoming(fs, FOLDER, TOPIC)
    receiver.begin(image, read_image(fs, FOLDER).image.names(), len(sent()[other.name]))
    receiver.write(other.name, 0, sent()[other.name])
    refused = receiver.finish(other.name)
    assert isinstance(refused, CorruptFile)
    assert "are not those that its manifest means" in refused.problem


def test_a_snapshot_of_another_machine_is_refused_though_its_file_is_whole() -> None:
    fs = behind().fs
    another = KvInfo(group=TOPIC.group, voters=TOPIC.voters, created_us=0, rules=1)
    receiver = Incoming(fs, FOLDER, another)
    newest = sender().image.snapshots[-1]
    receiver.begin(sender().image, sender().image.names() - {newest.name}, len(sent()[newest.name]))
    receiver.write(newest.name, 0, sent()[newest.name])
    refused = receiver.finish(newest.name)
    assert isinstance(refused, CorruptFile)
    assert refused.problem == "it is the state of another machine"


def test_what_came_is_checked_without_leaving_a_file_open() -> None:
    fs = behind().fs
    before = fs.open_files
    received(fs)
    assert fs.open_files == before


class Killed(BaseException):
    """The process died here."""


def failing_at(number: int, failure: type[BaseException]) -> Callable[[str, str], None]:
    """An interrupt: so many operations pass, and then the process dies or the disk is full."""
    left = [number]

    def interrupt(operation: str, path: str) -> None:
        if failure is DiskFull and operation not in ("write", "create", "rename"):
            return
        if left[0] == 0:
            raise Killed if failure is Killed else DiskFull(file=path)
        left[0] -= 1

    return interrupt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "chance"), [(DiskFull, 0), *((Killed, chance) for chance in range(12))]
)
def test_a_crash_anywhere_leaves_the_former_or_the_new(
    failure: type[BaseException], chance: int
) -> None:
    """And a full disk lets it be done later."""
    before = behind()
    own, base = before.image.index, before.image.base
    last_index = before.log.last_index
    seen = set()
    number = 0
    finished = False
    while not finished:
        fs = behind().fs
        image = received(fs)
        fs.interrupt = failing_at(number, failure)
        try:
            install(fs, FOLDER, TOPIC.group, image)
            opened(fs)[1].close()
            finished = True
        except (Killed, DiskFull):
            number += 1
        fs.interrupt = None
        if failure is Killed:
            fs.crash(Random(chance))
            assert not finished or not [n for n in fs.list(FOLDER) if n.endswith(".fresh")], (
                "the next manifest names it no more, so it must have its name by then"
            )
            found, log = opened(fs)
            log.close()
            seen.add(found.index)
            if found.index == own:
                assert (found.base, log.last_index) == (base, last_index)
                image = received(fs)
        install(fs, FOLDER, TOPIC.group, image)
        found, log = opened(fs)
        assert (found.index, log.last_index) == (sender().image.index, sender().image.index)
        log.close()
    assert number > 8
    assert failure is DiskFull or seen == {own, sender().image.index}


@pytest.mark.parametrize("of_no_id", [False, True])
def test_a_log_made_afresh_that_no_manifest_names_is_removed(of_no_id: bool) -> None:
    """Also one of id 0, by which a manifest names none."""
    scene = behind()
    install(scene.fs, FOLDER, TOPIC.group, received(scene.fs))
    left = files_of(scene.fs, FOLDER)
    made = next(name for name in left if name.endswith(".fresh"))
    name = f"log-{0:016x}.fresh" if of_no_id else made
    other = behind()
    other.fs.open(f"{FOLDER}/{name}", create=True).write_at(0, [left[made]])
    _, log = opened(other.fs)
    assert log.last_index > LogIndex(0) + other.image.index
    assert name not in other.fs.list(FOLDER)
