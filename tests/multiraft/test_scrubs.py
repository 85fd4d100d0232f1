"""When a node scrubs which of its replicas, how fast, and what becomes of damaged copies."""

from __future__ import annotations

from itertools import pairwise

import pytest

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.errors import CorruptFile, DiskFull
from raftlog.image.damage import Damage, DamagedEntry
from raftlog.image.manifest import MANIFEST_COPIES
from raftlog.image.scrub import CHECK_BYTES
from raftlog.machines.group_info import CONTROLLER
from raftlog.multiraft.effects import DiskChanged
from raftlog.multiraft.groups import OpenedGroup
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.scrubs import ScrubLimits, Scrubs
from raftlog.storage.hard_state import JOURNAL_COPIES
from tests.multiraft.compaction_scene import EVERY, Driver, Scene
from tests.storage.disks import flipped

PERIOD_US = 1000
TICKS_A_LOOK = 10


class Clock(Driver):
    now_us = 10 * PERIOD_US

    def clock_us(self) -> int:
        return self.now_us


class Node:
    """The scrubs of a node with some topics, whose jobs run when the test says so."""

    def __init__(
        self, topics: int = 1, *, period_us: int = 0, bytes_per_tick: int = 1 << 30
    ) -> None:
        self.scene = Scene(topics)
        self.scene.add(
            self.scene.store.replica(CONTROLLER, self.scene.store.make_group(CONTROLLER))
        )
        self.limits = ScrubLimits(period_us=period_us, bytes_per_tick=bytes_per_tick)
        self.clock = Clock()
        for group in range(1, topics + 1):
            self.scene.write(2 * EVERY, group)
        self.scene.compact_all()
        self.open()

    def open(self) -> None:
        self.groups: dict[GroupId, LocalReplica] = {
            local.group: local for local in self.scene.topics.values()
        }
        self.found: list[Damage] = []
        self.mended: list[CorruptFile] = []
        self.journal_changed = 0
        self.scrubs = Scrubs(
            node=NodeId(1),
            effects=self.clock,
            disk=self.scene.disk,
            store=self.scene.store,
            groups=self.groups,
            limits=self.limits,
            found=lambda _, damage: self.found.append(damage),
            mended=lambda _, cause: self.mended.append(cause),
            journal_changed=self._journal,
        )

    def _journal(self) -> None:
        self.journal_changed += 1

    def restart(self) -> None:
        """The process ends; another one opens the same files."""
        self.scene.fs.crash()
        self.scene.open()
        for each in self.scene.store.open_all():
            assert isinstance(each, OpenedGroup)
            self.scene.add(each)
        self.open()

    def run(self) -> None:
        """All jobs, and those that follow from them."""
        while self.scene.driver.asked:
            self.scene.driver.run()

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.scrubs.tick()
            self.run()

    def ended(self) -> dict[GroupId, int]:
        """When each group was read whole, by group; those that were not are left out."""
        times = {group: self.scrubs.progress(group).ended_us for group in self.groups}
        return {group: ended_us for group, ended_us in times.items() if ended_us}

    def flip(self, path: str, position: int = 70) -> bytes:
        """Flip a byte of a file of the node; what was in it."""
        file = self.scene.fs.open(path, create=False)
        data = file.read_at(0, file.size())
        file.truncate(0)
        file.write_at(0, [flipped(data, position)])
        file.sync()
        return data

    def content(self, path: str) -> bytes:
        file = self.scene.fs.open(path, create=False)
        return file.read_at(0, file.size())


def test_a_replica_is_read_when_somebody_asks_and_not_by_itself() -> None:
    node = Node(topics=2)
    node.tick(100)
    assert node.ended() == {}
    assert node.scrubs.progress(GroupId(2)).read_bytes == 0
    node.scrubs.begin(GroupId(2))
    node.scrubs.begin(GroupId(9))
    node.scrubs.begin(GroupId(1))
    assert node.scrubs.progress(GroupId(2)).state == "running"
    assert node.scrubs.progress(GroupId(1)).state == "waiting"
    node.run()
    assert node.ended() == dict.fromkeys([GroupId(1), GroupId(2)], node.clock.now_us)
    progress = node.scrubs.progress(GroupId(2))
    assert progress.state == ""
    assert 0 < progress.read_bytes <= progress.total_bytes
    held = [each for each in node.scene.files(2) if each.endswith(".log")]
    folder = node.scene.store.folder_of(GroupId(2))
    assert progress.read_bytes > sum(len(node.content(f"{folder}/{name}")) for name in held) // 2


def test_a_tick_reads_no_more_than_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.image.scrub.PIECE_BYTES", 1)
    per_tick = 3 * CHECK_BYTES
    node = Node(bytes_per_tick=per_tick)
    node.scrubs.begin(GroupId(1))
    node.run()
    ticks, read = 1, [node.scrubs.progress(GroupId(1)).read_bytes]
    while node.scrubs.progress(GroupId(1)).state:
        node.tick()
        read.append(node.scrubs.progress(GroupId(1)).read_bytes)
        ticks += 1
    assert ticks > 5
    steps = [after - before for before, after in pairwise(read)]
    assert max(steps) < per_tick


def test_each_replica_is_read_once_in_a_period_also_over_restarts() -> None:
    node = Node(topics=5, period_us=PERIOD_US)
    read: dict[GroupId, list[int]] = {group: [] for group in node.groups}
    for step in range(4 * PERIOD_US // 10):
        node.clock.now_us += 10
        node.tick(TICKS_A_LOOK)
        if step % 60 == 59:
            node.restart()
        for group, ended_us in node.ended().items():
            if ended_us not in read[group]:
                read[group].append(ended_us)
    first = {times[0] for times in read.values()}
    assert len(first) == 6, "they are spread over the first period"
    for times in read.values():
        assert len(times) >= 3
        for before, after in pairwise(times):
            assert PERIOD_US <= after - before <= PERIOD_US + 100


def test_a_clock_that_was_set_back_delays_no_scrub() -> None:
    node = Node(period_us=PERIOD_US)
    node.clock.now_us *= 1000
    for group in node.groups:
        node.scrubs.begin(group)
    node.run()
    node.clock.now_us = before = 5 * PERIOD_US
    node.tick(TICKS_A_LOOK)
    node.clock.now_us += PERIOD_US
    node.tick(2 * TICKS_A_LOOK)
    assert set(node.ended().values()) == {before + PERIOD_US}


def test_nothing_is_read_while_the_disk_is_slow_or_full() -> None:
    node = Node()
    node.scene.disk.told = DiskChanged(
        keeps_up=False, full=DiskFull(file="f", node="n"), limit=None
    )
    node.scrubs.begin(GroupId(1))
    node.tick(5)
    assert node.scrubs.progress(GroupId(1)).state == "waiting"
    node.scene.disk.told = DiskChanged(keeps_up=True, full=None, limit=None)
    node.tick()
    assert node.ended() == {GroupId(1): node.clock.now_us}


def test_a_replica_that_goes_while_it_is_read_is_left_alone() -> None:
    node = Node(topics=2)
    node.scrubs.begin(GroupId(1))
    node.scrubs.begin(GroupId(2))
    local = node.groups.pop(GroupId(1))
    node.scrubs.forget(local)
    node.run()
    assert set(node.ended()) == {GroupId(2)}
    assert node.scrubs.progress(GroupId(1)).state == ""


def test_a_replica_that_goes_while_another_one_is_read_does_not_end_that() -> None:
    node = Node(topics=2)
    node.scrubs.begin(GroupId(1))
    node.scrubs.begin(GroupId(2))
    node.scrubs.forget(node.groups.pop(GroupId(2)))
    assert node.scrubs.progress(GroupId(1)).state == "running"
    node.run()
    assert set(node.ended()) == {GroupId(1)}


def test_damage_is_handed_on_and_the_rest_is_read() -> None:
    node = Node()
    folder = node.scene.store.folder_of(GroupId(1))
    name = max(name for name in node.scene.files() if name.endswith(".log"))
    data = node.content(f"{folder}/{name}")
    node.flip(f"{folder}/{name}", len(data) - 1)
    node.scrubs.begin(GroupId(1))
    node.run()
    (damage,) = node.found
    assert isinstance(damage, DamagedEntry)
    assert set(node.ended()) == {GroupId(1)}


@pytest.mark.parametrize("name", ["manifest", "manifest.2", *MANIFEST_COPIES])
def test_a_damaged_copy_of_a_groups_manifests_is_written_again(name: str) -> None:
    node = Node()
    path = f"{node.scene.store.folder_of(GroupId(1))}/{name}"
    whole = node.flip(path)
    node.scrubs.begin(GroupId(1))
    node.run()
    assert [each.file for each in node.mended] == [path]
    assert node.content(path) == whole
    assert node.found == []


@pytest.mark.parametrize("name", ["identity", "identity.2", "deletions", "deletions.2"])
def test_the_nodes_own_texts_are_read_with_the_controller(name: str) -> None:
    node = Node()
    node.scene.store.remove(GroupId(1), node.groups[GroupId(1)].replica.applied_index)
    whole = node.flip(name, 10)
    node.scrubs.begin(CONTROLLER_GROUP)
    node.run()
    assert [each.file for each in node.mended] == [name]
    assert node.content(name) == whole


@pytest.mark.parametrize("name", JOURNAL_COPIES)
def test_a_damaged_copy_of_the_journal_is_written_again_at_every_byte(name: str) -> None:
    node = Node()
    journal = node.scene.store.journal

    def write() -> None:
        rewriting = journal.take_write()
        assert rewriting is not None
        node.scrubs.begin(CONTROLLER_GROUP)
        node.tick(2)
        assert len(node.mended) <= 1, "it is not read while it is written"
        rewriting.run()
        journal.written(rewriting)

    journal.rewrite()
    write()
    node.tick(2)
    size = len(node.content(name).rstrip(b"\0"))
    for position in range(size):
        node.flip(name, position)
        node.mended.clear()
        node.scrubs.begin(CONTROLLER_GROUP)
        node.tick(2)
        assert [each.file for each in node.mended] == [name], position
        write()
        node.tick(2)
        assert len(node.mended) == 1, "it is whole again"
    assert node.journal_changed == size
