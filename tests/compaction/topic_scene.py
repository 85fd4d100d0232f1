"""One topic on a disk in memory: real batches in a real log, a machine, and images made of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa

from raftlog.compaction.compact import compact
from raftlog.core.types import Entry, EntryKind, LogIndex, Offset, Payload, Term
from raftlog.image.group_manifest import manifest_of
from raftlog.image.job import CompactionJob
from raftlog.image.manifest import NO_IMAGE, Image
from raftlog.image.open_image import OpenImage
from raftlog.machines.commands import (
    Append,
    AttemptReference,
    BatchSummary,
    Command,
    CommitEpoch,
    EpochKey,
    SnapshotPoint,
    Stage,
    TopicInfo,
    Trim,
)
from raftlog.machines.outcomes import Refused
from raftlog.machines.topic import TopicMachine
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.state_hash import STATE_HASH_FIRST, next_state_hash
from raftlog.storage.checked_file import TEXT, write_checked
from raftlog.storage.contract import FileSystem
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.wire.batch import BatchHeader, EncodedBatch
from raftlog.wire.codec import decode_batch_header, encode_command
from tests.machines.scenes import TOPIC, key, reference
from tests.storage.disks import write

FOLDER = str(TOPIC.group)
SMALL = LogLimits(segment_bytes_max=4_000, preallocate_bytes=256)


def encoded(first: int, count: int, compression: str = "none") -> EncodedBatch:
    """A batch of the numbers from `first` on."""
    column = pa.array(range(first, first + count), pa.int64())
    return encode_batch(
        pa.RecordBatch.from_arrays([column], names=["a"]), TOPIC.schema, compression
    )


class TopicScene:
    """Applies commands as a replica does; the records are the numbers from 0 on, in order of their
    encoding. `truth` has the visible ones by offset."""

    def __init__(
        self, fs: FileSystem, *, topic: TopicInfo = TOPIC, small_file_bytes: int = 0
    ) -> None:
        self.fs = fs
        self.small_file_bytes = small_file_bytes
        fs.make_folder(FOLDER)
        fs.sync_folder("")
        write_checked(fs, f"{FOLDER}/manifest", TEXT, [manifest_of(topic).encode()])
        self.log = GroupLog.create(fs, FOLDER, TOPIC.group, SMALL)
        self.machine = TopicMachine(topic)
        self.state_hash = STATE_HASH_FIRST
        self.hashes: dict[int, bytes] = {}
        self.fingerprints: dict[int, bytes] = {}
        self.image: Image = NO_IMAGE
        self.truth: list[int] = []
        self.term = Term(1)
        self._next = 0
        self._sequence = 0
        self._attempts = itertools.count()
        self._open: dict[str, tuple[EpochKey, list[BatchSummary], list[int]]] = {}
        self._now = 0

    # ------------------------------------------------------------ commands

    def _log(self, command: Command, batch: EncodedBatch | None = None) -> Any:
        header = batch.header if batch is not None else None
        payload = Payload(encode_command(command, header), batch.body if batch is not None else b"")
        index = LogIndex(self.log.last_index + 1)
        self.log.append([Entry(index, self.term, EntryKind.COMMAND, payload)])
        write(self.log)
        outcome = self.machine.apply(index, command)  # type: ignore[arg-type]
        assert not isinstance(outcome, Refused), outcome
        self.state_hash = next_state_hash(
            self.state_hash, index, self.term, EntryKind.COMMAND, payload.command, outcome
        )
        self.hashes[index] = self.state_hash
        return outcome

    def _batch(self, count: int, compression: str) -> tuple[EncodedBatch, BatchSummary, list[int]]:
        batch = encoded(self._next, count, compression)
        numbers = list(range(self._next, self._next + count))
        self._next += count
        summary = BatchSummary(
            record_count=count, schema_version=1, body_bytes=len(batch.body), crc=batch.crc
        )
        return batch, summary, numbers

    def _tick(self) -> int:
        self._now += 1_000
        return self._now

    def append(self, count: int = 3, compression: str = "none", forged_count: int = 0) -> None:
        """Its header counts `forged_count` records, if that is given."""
        batch, summary, numbers = self._batch(count, compression)
        if forged_count:
            batch = replace(batch, header=replace(batch.header, record_count=forged_count))
        command = Append(
            producer="p", sequence=self._sequence, timestamp_us=self._tick(), batch=summary
        )
        self._log(command, batch)
        self._sequence += 1
        self.truth += numbers

    def stage(self, writer: str, epoch: int, stages: int = 1, count: int = 3) -> str:
        """Open an attempt with so many stages; returns its name."""
        attempt = f"attempt-{next(self._attempts)}"
        epoch_key = key(epoch, writer=writer, query_id=writer)
        summaries, rows = [], []
        for number in range(stages):
            batch, summary, numbers = self._batch(count, "none")
            command = Stage(
                key=epoch_key,
                attempt=attempt,
                number=number,
                timestamp_us=self._tick(),
                batch=summary,
                create_writer=True,
            )
            self._log(command, batch)
            summaries.append(summary)
            rows += numbers
        self._open[attempt] = (epoch_key, summaries, rows)
        return attempt

    def commit(self, *attempts: str) -> None:
        """Commit the epoch with these attempts."""
        references: list[AttemptReference] = []
        for name in attempts:
            epoch_key, summaries, rows = self._open.pop(name)
            references.append(reference(name, summaries))
            self.truth += rows
        command = CommitEpoch(
            key=epoch_key,
            attempts=tuple(references),
            schema_version=1,
            timestamp_us=self._tick(),
            keep_on_mismatch=False,
            create_writer=True,
            transient_writer=False,
            plan="",
        )
        self._log(command)

    def trim(self, offset: int) -> None:
        self._log(Trim(offset=Offset(offset)))

    def point(self, keep_from: int = 1 << 40) -> CompactionJob:
        """A snapshot point, and the job to compact it out of the present image."""
        self._log(SnapshotPoint(keep_from=LogIndex(keep_from)))
        index = self.log.last_index
        self.fingerprints[index] = self.machine.fingerprint()
        return self.job(index)

    # ------------------------------------------------------------ images

    def job(self, index: int) -> CompactionJob:
        return CompactionJob(
            folder=FOLDER,
            group=TOPIC.group,
            image=self.image,
            index=LogIndex(index),
            term=self.log.term_at(index),
            state_hash=self.hashes[index],
            urgent=False,
            kept=frozenset(),
        )

    def compact(self, job: CompactionJob) -> Image:
        """Run the job and go over to its image, as far as memory is concerned."""
        self.image = compact(self.fs, job, small_file_bytes=self.small_file_bytes)
        self.machine.drop_extents_before(self.image.history_end)
        return self.image

    def drop(self) -> None:
        """Drop of the log what the newest image lets go."""
        base = self.log.droppable(self.image.index)
        self.log.drop_to(base[0]).run()
        self.image = Image(
            generation=self.image.generation,
            base=base,
            snapshots=self.image.snapshots,
            stages=self.image.stages,
            history=self.image.history,
        )

    def reopen_log(self) -> None:
        """After a crash of the disk; the machine in memory stands for one that was replayed."""
        self.log = GroupLog.open(self.fs, FOLDER, TOPIC.group, SMALL, base=self.image.base)

    # ------------------------------------------------------------ reading

    def chunks_in_planes(self) -> set[bool]:
        """Of all row groups of history, whether their chunks hold byte planes."""
        image = OpenImage(self.fs, FOLDER, TOPIC.group, self.image)
        try:
            return {
                chunk.in_planes
                for info in self.image.history
                for group in image.history_file_with(info.start).row_groups_between(
                    info.start, info.end
                )
                for chunk in group.header.columns
            }
        finally:
            image.close()

    def rows(self) -> list[tuple[int, int]]:
        """(offset, number) of every visible record: history up to its end, extents beyond."""
        image = OpenImage(self.fs, FOLDER, TOPIC.group, self.image)
        found: list[tuple[int, int]] = []
        start = self.machine.log_start_offset
        try:
            for info in self.image.history:
                file = image.history_file_with(info.start)
                for group in file.row_groups_between(info.start, info.end):
                    (body,) = file.body_slices(group, [(0, group.length)])
                    found += self._decoded(group.start, group.header, body)
                    assert sum(group.runs.counts) == group.header.record_count
            first = Offset(max(start, self.image.history_end))
            for extent in self.machine.extents_between(first, self.machine.high_water_mark):
                in_log = extent.index > self.log.base_index
                source = self.log if in_log else image.stages_with(extent.index)
                _, _, command = source.command(extent.index)
                header = decode_batch_header(command)
                (body,) = source.body_slices(extent.index, [(0, extent.body_bytes)])
                found += self._decoded(extent.start, header, body)
        finally:
            image.close()
        return [row for row in found if row[0] >= start]

    def expected(self) -> list[tuple[int, int]]:
        return list(enumerate(self.truth))[self.machine.log_start_offset :]

    def _decoded(self, start: int, header: BatchHeader, body: bytes) -> list[tuple[int, int]]:
        batch = decode_batch(header, body, TOPIC.schema, ["a"])
        return list(enumerate(batch.column(0).to_pylist(), start))
