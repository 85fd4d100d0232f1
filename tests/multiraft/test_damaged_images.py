"""Every byte of a topic's folder damaged: its records are read as they were, or not at all.

What a node does about damage that it has found is tested in test_quarantine.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from raftlog.core.types import GroupId
from raftlog.errors import CorruptFile, DataLoss, FormatUnsupported
from raftlog.image.manifest import MANIFEST_COPIES
from raftlog.machines.commands import TopicInfo
from raftlog.multiraft.effects import DamagePassedOver
from raftlog.multiraft.groups import OpenedGroup
from tests.multiraft.compaction_scene import EVERY, Scene
from tests.storage.disks import flipped
from tests.storage.memory import MemoryFileSystem

SAMPLES = 10
"""Damaged bytes of each file in the short test; the long one takes every byte."""

NOTICED = (*MANIFEST_COPIES, "manifest", "history-", "stages-")
"""Files of which every byte is looked at here. Older snapshots are not, nor a log's dead bytes."""

STAGED = range(100, 103)


def compacted() -> tuple[MemoryFileSystem, str, list[int]]:
    """A disk with a topic of several history files, a carried stage that is visible by now, and a
    log whose beginning is gone; the topic's folder; its records."""
    scene = Scene()
    scene.small_file_bytes = 0
    epoch = scene.stage(STAGED)
    scene.write(4 * EVERY)
    scene.compact_all()
    scene.apply(epoch)
    expected = [*range(4 * EVERY), *STAGED]
    assert scene.offsets() == expected
    local = scene.topics[1]
    manifest = local.image.manifest
    assert manifest.base[0] > manifest.stages[0].first, "the stage is only in the image"
    assert len(manifest.history) > 1
    scene.fs.crash()
    return scene.fs, scene.store.folder_of(GroupId(1)), expected


def damages(data: bytes, positions: range) -> Iterator[bytes]:
    """At each position: the byte flipped, the file cut, a block of zeros."""
    for position in positions:
        yield flipped(data, position)
        yield data[:position]
        yield data[:position] + bytes(min(64, len(data) - position)) + data[position + 64 :]


class Found(NamedTuple):
    """What a node that opened a disk serves of the topic."""

    records: list[int]
    fingerprint: bytes
    told: bool
    """It has told of damage."""


def read_after(fs: MemoryFileSystem) -> Found | None:
    """Open the disk; None if the node refuses the topic, or to read it."""
    scene = Scene.of(fs)
    try:
        for each in scene.store.open_all():
            if isinstance(each, OpenedGroup) and isinstance(each.info, TopicInfo):
                scene.add(each)
        if 1 not in scene.topics:
            return None
        told = any(isinstance(event, DamagePassedOver) for event in scene.driver.told)
        return Found(scene.offsets(), scene.topics[1].machine.fingerprint(), told)
    except (CorruptFile, DataLoss, FormatUnsupported):
        return None


def check(name: str, every: int) -> None:
    """Damage the file in all ways at every so-many-th byte."""
    disk, folder, expected = compacted()
    sound = read_after(disk.durable_copy(Random(1)))
    assert sound is not None
    assert sound.records == expected
    path = f"{folder}/{name}"
    data = bytes(disk.open(path, create=False).read_at(0, 1 << 20))
    served = 0
    for bad in damages(data, range(0, len(data), every)):
        if bad == data:
            continue
        hurt = disk.durable_copy(Random(1))
        file = hurt.open(path, create=False)
        file.truncate(0)
        file.write_at(0, [bad])
        file.sync()
        found = read_after(hurt)
        if found is None:
            continue
        served += 1
        end = len(found.records)
        assert found.records == expected[:end]
        assert end < len(expected) or found.fingerprint == sound.fingerprint
        assert found.told or not name.startswith(NOTICED), "silent"
        assert end == len(expected) or name.endswith(".log"), "only a log has a torn end"
    if name in MANIFEST_COPIES or name.startswith(("manifest", "snapshot-")):
        assert served > 0, "something else stands in for it"


def names() -> list[str]:
    """The files of the topic's folder."""
    disk, folder, _ = compacted()
    return disk.list(folder)


@pytest.mark.slow
def test_damage_to_some_bytes_of_a_topics_files_is_never_read_as_records() -> None:
    for name in names():
        disk, folder, _ = compacted()
        size = disk.open(f"{folder}/{name}", create=False).size()
        check(name, every=max(1, size // SAMPLES))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_damage_to_any_byte_of_a_topics_files_is_never_read_as_records() -> None:
    for name in names():
        check(name, every=1)
