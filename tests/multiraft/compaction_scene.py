"""The topics of a node that is the only one, whose disk and compactions a test drives by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from raftlog.compaction.compact import compact
from raftlog.core.ready import Role
from raftlog.core.types import GroupId, HardState, NodeId, Offset, Payload, Term
from raftlog.errors import CorruptFile, DiskFull, Overloaded
from raftlog.image.job import CompactionJob, Reply
from raftlog.image.manifest import SMALL_FILE_BYTES
from raftlog.machines.commands import (
    Append,
    BatchSummary,
    CommitEpoch,
    Stage,
    TopicCommand,
    TopicInfo,
    Trim,
)
from raftlog.machines.group_info import CreatedInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.multiraft.compaction import CompactionLimits, Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import BackgroundRead
from raftlog.multiraft.groups import GroupStore, OpenedGroup
from raftlog.multiraft.image_pins import ImagePins
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.records.batch_codec import decode_batch
from raftlog.replica import Budget
from raftlog.storage.limits import LogLimits
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.codec import encode_command
from tests.compaction.topic_scene import encoded
from tests.core.member import TIMING, Shortest
from tests.machines.scenes import TOPIC, key, reference
from tests.multiraft.test_disk import Driver as DiskDriver
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

PIN_TICKS = 50
SEGMENT_BYTES = 500
NEVER_TICKS = 1 << 30
FULL_TICKS = 3
EVERY = 5
"""Entries between two snapshot points."""
BACKLOG = 3
"""So many times as many may wait for a compaction that is behind."""


EMPTY_EPOCH = CommitEpoch(
    key=key(0),
    attempts=(),
    schema_version=1,
    timestamp_us=0,
    keep_on_mismatch=False,
    create_writer=True,
    transient_writer=False,
    plan="",
)


class Driver(DiskDriver):
    """Effects that run what was asked, jobs, reads and compactions, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[CompactionJob, Callable[[Reply], None]]] = []
        self.abandoned: list[GroupId] = []
        """Groups whose compaction need not go on."""
        self.reads: list[Callable[[Sequence[KeyValue] | None], None]] = []
        """Of the positions of reader groups."""
        self.up_us = 0
        """For how long the machine has run."""

    def boottime_us(self) -> int:
        return self.up_us

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        self.asked.append(lambda: (read.run(), ran()))

    def read_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        self.reads.append(done)

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        self.jobs.append((job, done))

    def abandon_compaction(self) -> None:
        self.abandoned.append(self.jobs[-1][0].group)


def topic_of(group: int) -> TopicInfo:
    name = f"topic-{group}"
    return replace(
        TOPIC, name=name, group=GroupId(group), incarnation=f"{group:032x}", voters=(NodeId(1),)
    )


class Scene:
    """The topics of a node that is the only one, so that what is written is committed."""

    small_file_bytes = SMALL_FILE_BYTES

    def __init__(
        self,
        topics: int = 1,
        segment_bytes: int = SEGMENT_BYTES,
        age_ticks: int = NEVER_TICKS,
        reserve_bytes: int = 0,
        node_entries_max: int = 1 << 30,
    ) -> None:
        self.node_entries_max = node_entries_max
        self._begin(MemoryFileSystem(Random(1)), segment_bytes, age_ticks, reserve_bytes)
        for group in range(1, topics + 1):
            topic = topic_of(group)
            self.add(self.store.replica(topic, self.store.make_group(topic)))

    @classmethod
    def of(cls, fs: MemoryFileSystem) -> Scene:
        """A node over a disk that is there, without a topic so far."""
        scene = cls.__new__(cls)
        scene.node_entries_max = 1 << 30
        scene._begin(fs, SEGMENT_BYTES, NEVER_TICKS, 0)
        return scene

    def _begin(
        self, fs: MemoryFileSystem, segment_bytes: int, age_ticks: int, reserve_bytes: int
    ) -> None:
        self.fs = fs
        self.segment_bytes = segment_bytes
        self.age_ticks = age_ticks
        self.reserve_bytes = reserve_bytes
        self.proposed: defaultdict[int, list[int]] = defaultdict(list)
        self.in_blocks = 0
        """Records of `append`."""
        self.ended: list[GroupId] = []
        self.damaged: list[CorruptFile] = []
        self.refusal: Overloaded | None = None
        self.open()

    def open(self) -> None:
        self.driver = Driver()
        folder = opened_folder(self.fs, 1, (1,))
        self.store = GroupStore(
            folder=folder,
            timing=TIMING,
            log_limits=LogLimits(segment_bytes_max=self.segment_bytes, preallocate_bytes=0),
            random=Shortest(),
            tell=self.driver.tell,
        )
        reserve = self.store.reserve(self.reserve_bytes)
        self.disk = NodeDisk(self.driver, reserve, slow_ticks=5, full_ticks=FULL_TICKS)
        self.pins = ImagePins(PIN_TICKS)
        self.topics: dict[GroupId, LocalReplica] = {}
        self.compactions = Compactions(
            effects=self.driver,
            disk=self.disk,
            store=self.store,
            pins=self.pins,
            groups=self.topics,
            limits=CompactionLimits(
                entries_max=EVERY,
                bytes_max=1 << 20,
                behind_bytes_max=1 << 20,
                backlog_max=BACKLOG,
                age_ticks=self.age_ticks,
                node_entries_max=self.node_entries_max,
            ),
            propose=self.propose,
            ended=lambda local: self.ended.append(local.group),
            damaged=lambda local, damage: self.damaged.append(damage),
        )

    def add(self, opened: OpenedGroup) -> None:
        local = LocalReplica(opened.replica, opened.info, opened.image)
        self.topics[local.group] = local
        while local.raft.role is not Role.LEADER:
            local.raft.tick()
            self.settle(local)

    def restart(self) -> None:
        """Lose the power, and open the topics again."""
        self.fs.crash()
        self.open()
        for each in self.store.open_all():
            if isinstance(each, OpenedGroup) and isinstance(each.info, CreatedInfo):
                self.add(each)

    def propose(self, local: LocalReplica, payload: Payload) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.proposed[local.group].append(local.raft.propose([payload]).first)

    def settle(self, local: LocalReplica) -> None:
        """Write, apply, and let the compactions know, until there is nothing to do."""
        replica, journal = local.replica, self.store.journal
        while True:
            replica.advance()
            write, states = replica.take_write(), journal.take_write()
            if write is not None:
                write.run()
                replica.written(write)
            if states is not None:
                states.run()
                journal.written(states)
            if replica.has_to_apply:
                # One at a time, as small turns would.
                replica.apply(Budget(entries=1, bytes_max=1, work_us=1, clock_us=lambda: 0), 1)
                self.compactions.applied(local)
            elif write is None and states is None:
                return

    def write(self, entries: int, group: int = 1, *, at_once: bool = False) -> None:
        """So many appends of one record each, one after another or all before any is applied."""
        local = self.topics[GroupId(group)]
        first = local.topic_machine.high_water_mark
        for number in range(first, first + entries):
            self._propose_append(local, range(number, number + 1), "p", number - self.in_blocks)
            if not at_once:
                self.settle(local)
        self.settle(local)
        assert local.topic_machine.high_water_mark == first + entries, "they are visible"

    def write_until_point(self) -> None:
        """Append single records to the first topic until one more snapshot point is asked for."""
        asked = len(self.points())
        while len(self.points()) == asked:
            self.write(1)

    def append(self, count: int) -> None:
        """Append the next so many numbers to the first topic as one entry."""
        local = self.topics[GroupId(1)]
        first = local.topic_machine.high_water_mark
        self._propose_append(local, range(first, first + count), f"block-{first}", 0)
        self.in_blocks += count
        self.settle(local)

    def _propose_append(
        self, local: LocalReplica, numbers: range, producer: str, sequence: int
    ) -> None:
        batch, summary = self._batch(numbers)
        at_us = numbers.start
        append = Append(producer=producer, sequence=sequence, timestamp_us=at_us, batch=summary)
        local.raft.propose([Payload(encode_command(append, batch.header), batch.body)])

    def _batch(self, numbers: range) -> tuple[EncodedBatch, BatchSummary]:
        batch = encoded(numbers.start, len(numbers))
        summary = BatchSummary(
            record_count=len(numbers), schema_version=1, body_bytes=len(batch.body), crc=batch.crc
        )
        return batch, summary

    def stage(self, numbers: range) -> CommitEpoch:
        """Stage these numbers in the first topic; the command makes them visible."""
        local, (batch, summary) = self.topics[GroupId(1)], self._batch(numbers)
        epoch = key(0)
        stage = Stage(
            key=epoch,
            attempt="a",
            number=0,
            timestamp_us=0,
            batch=summary,
            create_writer=True,
        )
        local.raft.propose([Payload(encode_command(stage, batch.header), batch.body)])
        self.settle(local)
        return replace(EMPTY_EPOCH, key=epoch, attempts=(reference("a", [summary]),))

    def apply(self, command: TopicCommand) -> None:
        """Apply a command without a body to the first topic."""
        local = self.topics[GroupId(1)]
        local.raft.propose([Payload(encode_command(command, None), b"")])
        self.settle(local)

    def trim(self, before: int) -> None:
        """Trim the first topic."""
        self.apply(Trim(offset=Offset(before)))

    def fill_disk(self) -> None:
        """Let a write find no room, so that the reserve is in use."""

        def refuse(operation: str, path: str) -> None:
            raise DiskFull(file=path)

        self.tick(2 * FULL_TICKS)
        self.driver.run()
        self.store.journal.put(GroupId(99), HardState(Term(1), NodeId(1)))
        write = self.store.journal.take_write()
        assert write is not None
        self.fs.interrupt = refuse
        self.disk.run(None, write, lambda: self.store.journal.written(write))
        self.driver.run()
        self.fs.interrupt = None
        self.driver.run()  # frees the reserve
        self.driver.run()  # writes once more
        assert self.disk.spare_bytes is not None

    def points(self, group: int = 1) -> list[int]:
        """The indexes of all snapshot points that were asked for."""
        return self.proposed[group]

    def files(self, group: int = 1) -> list[str]:
        return self.fs.list(self.store.folder_of(GroupId(group)))

    def offsets(self) -> list[int]:
        """What a reader of the first topic is given, batch by batch."""
        local, found = self.topics[GroupId(1)], []
        while len(found) < local.topic_machine.high_water_mark:
            batch = local.batch_at(Offset(len(found)))
            (column,) = batch.header.columns
            (chunk,) = batch.body_slices([(column.position, column.length)])
            found += decode_batch(batch.header, chunk, TOPIC.schema, ["a"]).column(0).to_pylist()
        return found

    def compact(self, reply: Reply | None = None) -> CompactionJob:
        """Do the oldest job that was asked for, or fail it, and what follows but the disk's."""
        job, done = self.driver.jobs.pop(0)
        if reply is None:
            reply = compact(self.fs, job, small_file_bytes=self.small_file_bytes)
        done(reply)
        return job

    def compact_all(self) -> None:
        while self.driver.jobs or self.driver.asked:
            if self.driver.jobs:
                self.compact()
            self.driver.run()

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.disk.tick()
            self.compactions.tick()
