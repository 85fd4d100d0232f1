"""A folder says that it was outvoted, and another image takes the place of an outvoted one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raftlog.core.types import LogIndex
from raftlog.errors import CorruptFile, DiskFull
from raftlog.image.incoming import INCOMING_PREFIX, Incoming, publish, wanted_image
from raftlog.image.manifest import MANIFEST_COPIES, Image, leftovers, read_image, write_image
from raftlog.image.outvoted import (
    NEVER_OUTVOTED,
    OUTVOTED_NAME,
    REBUILDS_US,
    Outvoted,
    read_outvoted,
    write_outvoted,
)
from raftlog.image.rebuild import KEPT_PREFIX, rebuild
from raftlog.machines.group_info import CONTROLLER
from raftlog.multiraft.groups import OpenedGroup, Quarantine
from raftlog.storage.log import GroupLog
from tests.compaction.topic_scene import FOLDER, SMALL, TopicScene
from tests.image.test_incoming import Killed, failing_at, replica, sender, sent
from tests.machines.scenes import TOPIC
from tests.multiraft.compaction_scene import Scene
from tests.storage.disks import FOLDER as DISK
from tests.storage.disks import disk_of, files_of, flipped, new_disk


def test_two_rebuilds_in_24_hours_are_allowed_and_a_clock_that_went_back_allows_none() -> None:
    value = Outvoted(history=True)
    assert value.may_rebuild(0)
    value = value.rebuilt(100)
    assert value.may_rebuild(100)
    value = value.rebuilt(500)
    assert not value.may_rebuild(500)
    assert not value.may_rebuild(0)
    assert not value.may_rebuild(99 + REBUILDS_US)
    assert value.may_rebuild(100 + REBUILDS_US)
    value = value.rebuilt(100 + REBUILDS_US)
    assert value == Outvoted(history=True, rebuilt_us=(500, 100 + REBUILDS_US))
    assert not value.may_rebuild(499 + REBUILDS_US)


def test_what_a_folder_says_is_read_as_written_and_damage_is_not_taken_for_never() -> None:
    disk = new_disk()
    assert read_outvoted(disk, DISK) == NEVER_OUTVOTED
    for value in (Outvoted(history=True), Outvoted(rebuilt_us=(1, 2))):
        write_outvoted(disk, DISK, value)
        assert read_outvoted(disk, DISK) == value
    data = files_of(disk)[OUTVOTED_NAME]
    for position in range(len(data)):
        with pytest.raises(CorruptFile):
            read_outvoted(disk_of({OUTVOTED_NAME: flipped(data, position)}), DISK)


def test_a_group_whose_folder_cannot_say_whether_it_was_outvoted_is_quarantined() -> None:
    scene = Scene()
    scene.write(3)
    folder = scene.store.folder_of(TOPIC.group)
    write_outvoted(scene.fs, folder, Outvoted(history=True, rebuilt_us=(1,)))
    scene.fs.crash()
    scene.open()
    (found,) = (each for each in scene.store.open_all() if not found_controller(each))
    assert isinstance(found, OpenedGroup)
    assert found.outvoted == Outvoted(history=True, rebuilt_us=(1,))
    assert found.replica.diverged, "a restart makes no history better"
    path = f"{folder}/{OUTVOTED_NAME}"
    data = files_of(scene.fs, folder)[OUTVOTED_NAME]
    file = scene.fs.open(path, create=False)
    file.write_at(0, [flipped(data, len(data) - 1)])
    file.sync()
    scene.fs.crash()
    scene.open()
    (found,) = (each for each in scene.store.open_all() if not found_controller(each))
    assert isinstance(found, Quarantine)
    assert OUTVOTED_NAME in found.damage.file


def found_controller(found: OpenedGroup | Quarantine) -> bool:
    return isinstance(found, OpenedGroup) and found.info is CONTROLLER


def outvoted_replica() -> tuple[TopicScene, Image]:
    """A replica whose first history file has other records than the sender's, by its digest, and
    the sender's image, received."""
    scene = replica(3)
    while scene.log.last_index < sender().image.index:
        scene.append()
    first = scene.image.history[0]
    scene.image = replace(scene.image, history=(replace(first, digest=b"another digest.."),))
    write_image(scene.fs, FOLDER, scene.image)
    receiver = Incoming(scene.fs, FOLDER, TOPIC)
    own = read_image(scene.fs, FOLDER).image
    image = wanted_image(sender().image, own)
    snapshot_bytes = len(sent()[sender().image.snapshots[-1].name])
    for name, position, _ in receiver.begin(image, own.names(), snapshot_bytes):
        receiver.write(name, position, sent()[name][position:])
        assert receiver.finish(name) is None
    scene.log.close()
    return scene, image


def opened(scene: TopicScene) -> tuple[Image, LogIndex]:
    """The image, and the end of the log, as a restarted node finds them."""
    image = read_image(scene.fs, FOLDER).image
    for path in leftovers(scene.fs, FOLDER, image):
        scene.fs.remove(path)
    assert image.names() <= set(scene.fs.list(FOLDER))
    log = GroupLog.open(scene.fs, FOLDER, TOPIC.group, SMALL, base=image.base)
    last = log.last_index
    log.close()
    return image, last


def test_a_rebuild_replaces_every_file_that_differs_keeps_the_log_and_what_it_replaced() -> None:
    scene, image = outvoted_replica()
    former, last = scene.image, scene.log.last_index
    rebuild(scene.fs, FOLDER, image, former.base)
    found, end = opened(scene)
    assert (found.history, found.index) == (sender().image.history, sender().image.index)
    assert (found.base, end) == (former.base, last), "the log is as good as any"
    kept = KEPT_PREFIX + former.history[0].name
    assert kept in scene.fs.list(FOLDER)
    assert not [name for name in scene.fs.list(FOLDER) if name.startswith(INCOMING_PREFIX)]


def test_a_rebuild_that_is_done_again_completes_both_copies_of_the_manifest() -> None:
    """A full disk may have come between the two."""
    scene, image = outvoted_replica()
    rebuild(scene.fs, FOLDER, image, scene.image.base)
    whole = files_of(scene.fs, FOLDER)
    second = scene.fs.open(f"{FOLDER}/{MANIFEST_COPIES[1]}", create=False)
    second.truncate(0)
    second.sync()
    rebuild(scene.fs, FOLDER, image, scene.image.base)
    assert files_of(scene.fs, FOLDER) == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "chance"), [(DiskFull, 0), *((Killed, chance) for chance in range(12))]
)
def test_a_crash_in_a_rebuild_leaves_the_former_image_or_the_new(
    failure: type[BaseException], chance: int
) -> None:
    """And a full disk lets it be done later."""
    seen = set()
    number, finished = 0, False
    while not finished:
        scene, image = outvoted_replica()
        former, last = scene.image, scene.log.last_index
        scene.fs.interrupt = failing_at(number, failure)  # type: ignore[attr-defined]
        try:
            rebuild(scene.fs, FOLDER, image, former.base)
            finished = True
        except (Killed, DiskFull):
            number += 1
        scene.fs.interrupt = None  # type: ignore[attr-defined]
        if failure is Killed:
            scene.fs.crash(Random(chance))  # type: ignore[attr-defined]
        else:
            rebuild(scene.fs, FOLDER, image, former.base)
        found, end = opened(scene)
        assert end == last
        assert found.history in (former.history, sender().image.history)
        assert not finished or KEPT_PREFIX + former.history[0].name in scene.fs.list(FOLDER)
        seen.add(found.index)
    assert seen == {former.index, image.index} if failure is Killed else {image.index}


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(12))
def test_a_crash_while_received_files_are_published_leaves_the_former_image_or_the_new(
    chance: int,
) -> None:
    seen = set()
    number, finished = 0, False
    while not finished:
        scene, image = outvoted_replica()
        received = image.names() - scene.image.names()
        scene.fs.interrupt = failing_at(number, Killed)  # type: ignore[attr-defined]
        try:
            publish(scene.fs, FOLDER, replace(image, generation=99), received)
            finished = True
        except Killed:
            number += 1
        scene.fs.interrupt = None  # type: ignore[attr-defined]
        scene.fs.crash(Random(chance))  # type: ignore[attr-defined]
        found = read_image(scene.fs, FOLDER).image
        assert found.names() <= set(scene.fs.list(FOLDER))
        seen.add(found.index)
    assert found == replace(image, generation=99)
    assert seen == {scene.image.index, image.index}
