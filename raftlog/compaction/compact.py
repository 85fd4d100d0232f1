"""One compaction: from the image at one snapshot point, and the log, to the image at the next.

The machine is restored at the former point and replays the entries up to the new one. That is what
the replica itself has done, so its state hash must come out. The records that became visible on the
way go into a history file; stages that are still open are carried. Nothing that exists is changed:
until the node has written the new manifest, the new files belong to no image.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from raftlog.compaction.row_groups import SourceBatch, row_groups
from raftlog.core.membership import MembershipAt, decode_membership
from raftlog.core.types import (
    CONTROLLER_GROUP,
    Entry,
    EntryKind,
    LogIndex,
    Offset,
)
from raftlog.errors import CorruptFile, DiskFailed, Internal, RaftlogError
from raftlog.image.damage import applied_header
from raftlog.image.group_manifest import info_from_manifest
from raftlog.image.history_file import (
    HistoryFile,
    RowGroup,
    StoredRowGroup,
    write_history_file,
)
from raftlog.image.job import CompactionJob
from raftlog.image.machine import Restored, new_machine, restored
from raftlog.image.manifest import (
    SMALL_FILE_BYTES,
    HistoryInfo,
    Image,
    SnapshotInfo,
    StagesInfo,
    kept_snapshots,
)
from raftlog.image.open_image import OpenImage
from raftlog.image.pace import Pace
from raftlog.image.snapshot_file import read_snapshot, write_snapshot
from raftlog.image.stages_file import write_stages
from raftlog.machines.commands import TopicInfo
from raftlog.machines.extents import Extent
from raftlog.machines.group_info import CONTROLLER, GroupInfo
from raftlog.machines.topic import TopicMachine
from raftlog.state_hash import STATE_HASH_FIRST, next_state_hash
from raftlog.storage.contract import FileSystem
from raftlog.storage.folder import read_manifest
from raftlog.storage.scan import EntryPlace, read_entry, scan
from raftlog.wire.codec import decode_command
from raftlog.wire.codec_states import GroupState, encode_state
from raftlog.wire.runs import Runs


def compact(
    fs: FileSystem,
    job: CompactionJob,
    *,
    pace: Pace | None = None,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> Image:
    """Make the files of the image at `job.index`, durably, and return its manifest.

    Without a `pace` it is done as fast as it can. `small_file_bytes` is less in tests, which have
    few records.
    Raises `CorruptFile` for damage in what is read, `DiskFull`, `DiskFailed`, and `Internal` if the
    replay comes to another state than the replica did. Nothing of what was made stays then, unless
    the disk failed: a full one needs the room.
    """
    made: list[str] = []
    try:
        return _make(fs, job, pace or Pace(1), small_file_bytes, made)
    except DiskFailed:
        raise
    except RaftlogError:
        for name in set(made) - job.image.names() - job.kept:
            fs.remove(f"{job.folder}/{name}")
        raise


def _make(
    fs: FileSystem, job: CompactionJob, pace: Pace, small_file_bytes: int, made: list[str]
) -> Image:
    """See `compact`. The names of the files that it has made are added to `made`."""
    image = job.image
    replay = _Replay(fs, job, info_of(fs, job), pace)
    replay.run()
    machine = replay.machine
    info = SnapshotInfo(
        index=job.index,
        term=job.term,
        mark=machine.high_water_mark if isinstance(machine, TopicMachine) else Offset(0),
        state_hash=job.state_hash,
    )
    write_snapshot(
        fs,
        job.folder,
        job.group,
        info,
        encode_state(GroupState(machine.state(), replay.membership)),
    )
    made.append(info.name)
    if job.index == image.index:
        return image  # only its snapshot was to be made again
    snapshots = kept_snapshots([*image.snapshots, info])
    stages: tuple[StagesInfo, ...] = ()
    history: tuple[HistoryInfo, ...] = ()
    if isinstance(machine, TopicMachine):
        history = _extended_history(fs, job, machine, replay, pace, small_file_bytes)
        made.extend(info.name for info in history)
        stages = _carry(fs, job, machine, replay, small_file_bytes)
    return replace(
        image,
        generation=image.generation + 1,
        snapshots=snapshots,
        stages=stages,
        history=history,
        fresh_log=0,
    )


def info_of(fs: FileSystem, job: CompactionJob) -> GroupInfo:
    """What the job's group is."""
    if job.group == CONTROLLER_GROUP:
        return CONTROLLER
    return info_from_manifest(read_manifest(fs, job.folder), job.group)


class _Replay:
    """The machine on its way from the newest whole snapshot to the job's point."""

    def __init__(self, fs: FileSystem, job: CompactionJob, info: GroupInfo, pace: Pace) -> None:
        self._fs = fs
        self._job = job
        self._pace = pace
        self._scanned: dict[LogIndex, EntryPlace] = {}
        """The entries on the way that have a body."""
        self._image = OpenImage(fs, job.folder, job.group, job.image)
        self._index, self._hash, (self.machine, self.membership) = self._begin(info)

    def _begin(self, info: GroupInfo) -> tuple[LogIndex, bytes, Restored]:
        job, image = self._job, self._job.image
        for each in reversed(image.snapshots):
            if image.base[0] <= each.index < job.index:
                try:
                    state = read_snapshot(self._fs, job.folder, job.group, each)
                    return each.index, each.state_hash, restored(info, each, state)
                except CorruptFile:
                    continue  # the node found it damaged as well, and has said so
        if image.base[0]:
            problem = f"no snapshot is whole from which the log after {image.base[0]} goes on"
            raise CorruptFile(file=self._fs.location(job.folder), position=0, problem=problem)
        return LogIndex(0), STATE_HASH_FIRST, Restored(new_machine(info), None)

    def run(self) -> None:
        """Apply the entries up to the job's point. Raises `CorruptFile`, `Internal`."""
        job, machine = self._job, self.machine
        first = LogIndex(self._index + 1)
        entries = scan(self._fs, job.folder, job.group, first, job.index)
        for place, command in self._pace.over(entries):
            index = LogIndex(place.frame.entry_index)
            outcome = None
            if place.kind is EntryKind.COMMAND:
                outcome = machine.apply(index, decode_command(command))
                if place.frame.body_length:
                    self._scanned[index] = place
            elif place.kind is EntryKind.CONFIGURATION:
                self.membership = MembershipAt(index, decode_membership(command))
            self._hash = next_state_hash(
                self._hash, index, place.term, place.kind, command, outcome
            )
        if self._hash != job.state_hash:
            raise Internal(
                what=f"the replay of group {job.group} up to entry {job.index} came to state "
                f"{self._hash.hex()}, the replica to {job.state_hash.hex()}"
            )

    def carried_bytes(self, index: LogIndex) -> int:
        """The length of the frame of a stage that was carried before. Raises `CorruptFile`."""
        return self._image.stages_with(index).frame_bytes(index)

    def entry(self, index: LogIndex) -> Entry:
        """The whole entry, out of the log or of the stages that were carried before.

        Raises `CorruptFile`.
        """
        scanned = self._scanned.get(index)
        if scanned is not None:
            return read_entry(self._fs, scanned)
        return self._image.stages_with(index).entry(index)


def _extended_history(
    fs: FileSystem,
    job: CompactionJob,
    machine: TopicMachine,
    replay: _Replay,
    pace: Pace,
    small_file_bytes: int,
) -> tuple[HistoryInfo, ...]:
    """The history files of the new image: those that are not trimmed as a whole, and one with the
    records that became visible on the way, if there are any. That one also takes the place of the
    last file before it, if that is small: or else years of small batches leave a file for each
    snapshot point. A small file that the log start divides is written again even without others."""
    image, log_start, end = job.image, machine.log_start_offset, machine.high_water_mark
    files = [each for each in image.history if each.end > log_start]
    start = max(image.history_end, log_start)
    is_small = bool(files) and files[-1].record_bytes < small_file_bytes
    if start == end and not (is_small and files[-1].start < log_start):
        return tuple(files)
    small = HistoryFile(fs, job.folder, job.group, files.pop()) if is_small else None
    extents = machine.extents_between(start, end)
    logged = pace.over(_batch(extent, replay.entry(extent.index)) for extent in extents)
    groups = _row_groups(small, log_start, logged, machine.info)
    try:
        written = write_history_file(
            fs, job.folder, job.group, pace.over(groups), kept=image.names() | job.kept
        )
    finally:
        if small is not None:
            small.close()
    return (*files, written)


def _row_groups(
    small: HistoryFile | None,
    log_start: Offset,
    logged: Iterator[SourceBatch],
    topic: TopicInfo,
) -> Iterator[RowGroup]:
    """The row groups of the small file and those of the batches, without trimmed records. Only the
    last one of the file may have room for more: the others were complete when it was written."""
    if small is not None:
        untrimmed = max(small.info.start, log_start)
        *complete, last = small.row_groups_between(untrimmed, small.info.end)
        for each in complete:
            source = _stored_batch(small, each)
            if each.start < log_start:
                yield from row_groups([source], topic.schema, log_start)
                continue
            yield RowGroup(
                start=each.start,
                header=each.header,
                body=source.body,
                record_bytes=each.record_bytes,
                runs=each.runs,
                digest=each.digest,
            )
        logged = chain([_stored_batch(small, last)], logged)
    yield from row_groups(logged, topic.schema, log_start)


def _stored_batch(file: HistoryFile, row_group: StoredRowGroup) -> SourceBatch:
    """Raises `CorruptFile`."""
    file.check_row_group(row_group)
    (body,) = file.body_slices(row_group, [(0, row_group.length)])
    return SourceBatch(
        start=row_group.start,
        header=row_group.header,
        body=body,
        record_bytes=row_group.record_bytes,
        runs=row_group.runs,
    )


def _batch(extent: Extent, entry: Entry) -> SourceBatch:
    """Raises `CorruptFile`."""
    return SourceBatch(
        start=extent.start,
        header=applied_header(entry.payload.command, extent),
        body=entry.payload.body,
        record_bytes=len(entry.payload.body),
        runs=Runs.of_one(
            count=extent.count,
            timestamp_us=extent.timestamp_us,
            term=entry.term,
            epoch=extent.epoch,
            writer=extent.writer,
        ),
    )


def _carry(
    fs: FileSystem,
    job: CompactionJob,
    machine: TopicMachine,
    replay: _Replay,
    small_file_bytes: int,
) -> tuple[StagesInfo, ...]:
    """The files with the stages that are open at the job's point: those that were carried before
    and still hold one, and a new one for those that were opened on the way. That one also takes the
    place of the last file before it, if that is small, and of all files if most of what they hold
    is no longer open: or else a small stage that stays open would keep each file that it is in."""
    image = job.image
    stages = list(machine.open_stages())
    indexes = [stage.index for stage in stages]
    opened = bisect_right(indexes, image.index)
    files = [
        info
        for info in image.stages
        if bisect_left(indexes, info.first) < bisect_right(indexes, info.last)
    ]
    half = sum(info.byte_count for info in files) / 2
    replaced = 0
    if half > sum(stage.body_bytes for stage in stages[:opened]) and (
        half > sum(map(replay.carried_bytes, indexes[:opened]))
    ):
        replaced = len(files)
    elif opened < len(indexes) and files and files[-1].byte_count < small_file_bytes:
        replaced = 1
    kept, rewritten = files[: len(files) - replaced], files[len(files) - replaced :]
    first = rewritten[0].first if rewritten else LogIndex(image.index + 1)
    new = indexes[bisect_left(indexes, first) :]
    if new:
        entries = map(replay.entry, new)
        kept.append(write_stages(fs, job.folder, job.group, entries, first=first, last=job.index))
    return tuple(kept)
