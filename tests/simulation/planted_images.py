"""Bugs to plant in snapshots, compaction, history, and the dropping of logs; see `planted`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, pairwise
from typing import Any

from raftlog.compaction import compact as compacting
from raftlog.compaction import merge as merging
from raftlog.compaction import row_groups as grouping
from raftlog.compaction.cuts import cut
from raftlog.core.types import Entry, GroupId, LogIndex, Offset, Term
from raftlog.image import history_file as history_files
from raftlog.image import incoming
from raftlog.image import manifest as manifests
from raftlog.image.history_file import HistoryFile, RowGroup
from raftlog.image.manifest import (
    MANIFEST_COPIES,
    Found,
    Image,
    SnapshotInfo,
    StagesInfo,
    decode_image,
    encode_image,
)
from raftlog.machines.byte_positions import BytePositions
from raftlog.machines.extents import ExtentIndex
from raftlog.machines.group_info import GroupInfo
from raftlog.machines.producers import ProducerTable
from raftlog.machines.topic import TopicMachine
from raftlog.machines.writer_row import StagedEntry
from raftlog.machines.writers import WriterTable
from raftlog.multiraft import groups as opening
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.groups import GroupFiles, GroupStore
from raftlog.state_hash import STATE_HASH_FIRST
from raftlog.storage.checked_file import TEXT, read_checked, write_checked
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import PrefixRemoval
from raftlog.wire.codec import decode_batch_header
from raftlog.wire.runs import Runs
from tests.simulation.planting import both, replaced
from tests.storage.memory import MemoryFile

# ---------------------------------------------------------------- what an image holds


def base_past_a_live_extent() -> Any:
    """A log is dropped as far as it is applied, not as far as the image goes."""
    original = GroupLog.droppable
    return replaced(GroupLog, "droppable", lambda self, index: original(self, self.durable_index))


def open_stage_not_carried() -> Any:
    """The newest of the open stages stays only in the log, which is dropped."""
    original = TopicMachine.open_stages

    def open_stages(self: TopicMachine) -> Iterator[StagedEntry]:
        return iter(list(original(self))[:-1])

    return replaced(TopicMachine, "open_stages", open_stages)


def carried_stage_forgotten() -> Any:
    """A stage that was carried once is not carried a second time."""
    original, open_stages = compacting._carry, TopicMachine.open_stages

    def carry(fs: Any, job: Any, *rest: Any) -> tuple[StagesInfo, ...]:
        def new(self: TopicMachine) -> Iterator[StagedEntry]:
            return (each for each in open_stages(self) if each.index > job.image.index)

        with replaced(TopicMachine, "open_stages", new):
            return original(fs, job, *rest)

    return replaced(compacting, "_carry", carry)


def snapshot_of_what_is_not_applied() -> Any:
    """A snapshot says that it is of the entry after its point, which may never be committed."""
    original = compacting.SnapshotInfo

    def info(*, index: LogIndex, **parts: Any) -> SnapshotInfo:
        return original(index=LogIndex(index + 1), **parts)

    return replaced(compacting, "SnapshotInfo", info)


def state_hash_starts_again() -> Any:
    """A replica that opens a snapshot begins a new chain of state hashes."""
    original = GroupStore._open_group

    def open_group(self: GroupStore, info: GroupInfo) -> GroupFiles:
        return original(self, info)._replace(state_hash=STATE_HASH_FIRST)

    return replaced(GroupStore, "_open_group", open_group)


def writers_missing_from_the_snapshot() -> Any:
    """A machine made from a snapshot knows no writer, no epoch and no open stage."""
    return replaced(WriterTable, "restore", lambda self, state: None)


def producers_missing_from_the_snapshot() -> Any:
    """A machine made from a snapshot knows no producer."""
    return replaced(ProducerTable, "restore", lambda self, state: None)


def trim_forgotten_by_the_snapshot() -> Any:
    """A machine made from a snapshot begins at offset 0 again, and serves what was trimmed."""
    original = BytePositions.restore

    def restore(offsets: bytes, positions: bytes) -> BytePositions:
        found = original(offsets, positions)
        found._offsets[0] = 0
        return found

    return replaced(BytePositions, "restore", staticmethod(restore))


# ---------------------------------------------------------------- what is in history


def _batches(change: Callable[[list[Any]], list[Any]]) -> Any:
    """The batches of each compaction, changed before they are cut into row groups."""
    original = grouping.row_groups

    def row_groups(batches: Iterable[Any], latest: Any, log_start: Offset) -> Iterator[RowGroup]:
        return original(change(list(batches)), latest, log_start)

    return replaced(compacting, "row_groups", row_groups)


def records_written_twice() -> Any:
    """A small history file that is written again gives its last records twice."""

    def twice(last: list[Any], logged: Iterator[Any]) -> Iterator[Any]:
        return chain(last, last, logged)

    return replaced(compacting, "chain", twice)


def losing_attempt_copied() -> Any:
    """A compaction copies the body of another entry with as many records: of an attempt that lost,
    or of a write that was refused or aborted."""
    original = compacting._Replay.entry

    def entry(self: Any, index: LogIndex) -> Entry:
        found = original(self, index)
        for other in reversed([each for each in self._scanned if each < index]):
            beside = original(self, other)
            if _count(beside) == _count(found):
                return replace(beside, index=found.index, term=found.term)
        return found

    return replaced(compacting._Replay, "entry", entry)


def _count(entry: Entry) -> int:
    return decode_batch_header(entry.payload.command).record_count


def merge_reorders() -> Any:
    """The batches of a row group are joined in another order."""
    original = merging._flush
    return replaced(merging, "_flush", lambda waiting, *rest: original(waiting[::-1], *rest))


def batches_reordered() -> Any:
    """Two neighbours of the same size change places, records and metadata."""

    def change(batches: list[Any]) -> list[Any]:
        for one, other in pairwise(batches):
            if one.header.record_count == other.header.record_count:
                place = batches.index(one)
                batches[place] = replace(other, start=one.start)
                batches[place + 1] = replace(one, start=other.start)
                break
        return batches

    return _batches(change)


def _shifted(column: str) -> Any:
    """A column of runs has each value one run too late."""
    original = grouping.joined_runs

    def joined_runs(parts: Sequence[Runs]) -> Runs:
        runs = original(parts)
        values = getattr(runs, column)
        return replace(runs, **{column: array("q", [values[0], *values[:-1]])})

    return replaced(grouping, "joined_runs", joined_runs)


def timestamps_shifted() -> Any:
    """The timestamp of a batch is that of the batch before it."""
    return _shifted("timestamps_us")


def epochs_shifted() -> Any:
    """The epoch of a batch is that of the batch before it."""
    return _shifted("epochs")


def writers_shifted() -> Any:
    """The writer of a batch is that of the batch before it."""
    return _shifted("writers")


def terms_shifted() -> Any:
    """The term of a record in history is one too high."""

    def batch(extent: Any, entry: Entry) -> Any:
        return original(extent, replace(entry, term=Term(entry.term + 1)))

    original = compacting._batch
    return replaced(compacting, "_batch", batch)


def replica_cuts_elsewhere() -> Any:
    """Where row groups begin depends on what else the process has compacted."""
    calls = count()

    def cut_smaller(batches: Iterable[Any], shape: Any) -> Iterator[list[Any]]:
        smaller = next(calls) % 3 == 2
        for joined in cut(batches, shape):
            middle = len(joined) // 2
            yield from [joined[:middle], joined[middle:]] if smaller and middle else [joined]

    return replaced(grouping, "cut", cut_smaller)


def point_left_out() -> Any:
    """A replica that is behind compacts only up to the newest of its snapshot points."""
    original = Compactions._start

    def start(self: Compactions) -> None:
        for local in self._waiting.values():
            while len(local.replica.points) > 1:
                local.replica.points.popleft()
        original(self)

    return replaced(Compactions, "_start", start)


def bytes_of_merged_batches_counted() -> Any:
    """A row group counts the bytes that it has, not those that its records had in the log."""
    original = grouping.row_groups

    def row_groups(batches: Iterable[Any], latest: Any, log_start: Offset) -> Iterator[RowGroup]:
        for each in original(batches, latest, log_start):
            yield replace(each, record_bytes=len(each.body))

    return replaced(compacting, "row_groups", row_groups)


# ---------------------------------------------------------------- reading


def row_group_before_is_served() -> Any:
    """A reader gets the row group before the one that it wants."""
    original = HistoryFile.row_groups_between

    def row_groups_between(self: HistoryFile, start: Offset, end: Offset) -> Any:
        starts = [each for each in self.index.starts if each < start]
        return original(self, Offset(starts[-1]) if starts else start, end)

    return replaced(HistoryFile, "row_groups_between", row_groups_between)


def extents_dropped_past_history() -> Any:
    """A machine forgets one record too many when history takes over."""
    original = ExtentIndex.drop_before

    def drop_before(self: ExtentIndex, offset: Offset) -> None:
        original(self, Offset(min(offset + 1, self.high_water_mark)))

    return replaced(ExtentIndex, "drop_before", drop_before)


def file_of_another_generation_opened() -> Any:
    """A history file's name forgets its id and the last digits of its first offset, so that it
    replaces the file of an image before."""
    original = history_files.history_name

    def history_name(start: Offset, file_id: int) -> str:
        return original(Offset(start - start % 100), 0)

    return both(
        replaced(history_files, "history_name", history_name),
        replaced(manifests, "history_name", history_name),
    )


def bytes_counted_in_log_and_history() -> Any:
    """The pieces of a topic count what the machine still holds of the records in history."""
    original = ExtentIndex.byte_index
    return both(
        replaced(ExtentIndex, "drop_before", lambda self, offset: None),
        replaced(ExtentIndex, "byte_index", lambda self, start: original(self, self.extents_start)),
    )


# ---------------------------------------------------------------- in which order


def log_dropped_before_the_manifest() -> Any:
    """The files go first, then the manifest says so."""
    original_publish, original_drop = GroupStore.publish, GroupStore.drop_files
    late: dict[tuple[int, int], tuple[Any, ...]] = {}

    def publish(self: GroupStore, group: GroupId, *image: Any) -> None:
        late[id(self), group] = image

    def drop_files(self: GroupStore, group: GroupId, removal: PrefixRemoval, names: Any) -> None:
        original_drop(self, group, removal, names)
        original_publish(self, group, *late.pop((id(self), group)))

    return both(
        replaced(GroupStore, "publish", publish), replaced(GroupStore, "drop_files", drop_files)
    )


def _unsynced(part: str) -> Any:
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if f"/{part}" not in self.path:
            original(self)

    return replaced(MemoryFile, "sync", sync)


def history_not_synced() -> Any:
    """A manifest names a history file whose bytes are not durable."""
    return _unsynced("history-")


def snapshot_not_synced() -> Any:
    """A manifest names a snapshot whose bytes are not durable."""
    return _unsynced("snapshot-")


def stages_not_synced() -> Any:
    """A manifest names carried stages whose bytes are not durable."""
    return _unsynced("stages-")


def manifest_not_synced() -> Any:
    """The log is dropped while the manifest that says so may be lost."""
    return _unsynced("image.")


def older_manifest_taken() -> Any:
    """Files go when only the first copy of a manifest says so, and the copy that a crash has left
    older is the one that is opened."""
    first, second = MANIFEST_COPIES

    def write(fs: Any, folder: str, image: Image) -> None:
        if fs.exists(f"{folder}/{first}"):
            former = read_checked(fs, f"{folder}/{first}", TEXT)
            write_checked(fs, f"{folder}/{second}", TEXT, [former])
        write_checked(fs, f"{folder}/{first}", TEXT, [encode_image(image)])

    def read(fs: Any, folder: str) -> Found:
        found = original(fs, folder)
        if fs.exists(f"{folder}/{second}"):
            text = read_checked(fs, f"{folder}/{second}", TEXT)
            return found._replace(image=decode_image(text, folder))
        return found

    original = opening.read_image
    return both(
        replaced(incoming, "write_image", write),
        replaced(opening, "write_image", write),
        replaced(opening, "read_image", read),
    )


def base_not_in_the_manifest() -> Any:
    """The manifest names the base that the log had before it was dropped."""
    original = GroupStore.publish

    def publish(self: GroupStore, group: GroupId, image: Image, *received: Any) -> None:
        former = opening.read_image(self._folder.fs, self.folder_of(group)).image.base
        original(self, group, replace(image, base=former), *received)

    return replaced(GroupStore, "publish", publish)


IMAGE_BUGS = (
    # what an image holds
    base_past_a_live_extent,
    open_stage_not_carried,
    carried_stage_forgotten,
    snapshot_of_what_is_not_applied,
    state_hash_starts_again,
    writers_missing_from_the_snapshot,
    producers_missing_from_the_snapshot,
    trim_forgotten_by_the_snapshot,
    # what is in history
    records_written_twice,
    losing_attempt_copied,
    merge_reorders,
    batches_reordered,
    timestamps_shifted,
    epochs_shifted,
    writers_shifted,
    terms_shifted,
    replica_cuts_elsewhere,
    point_left_out,
    bytes_of_merged_batches_counted,
    # reading
    row_group_before_is_served,
    extents_dropped_past_history,
    file_of_another_generation_opened,
    bytes_counted_in_log_and_history,
    # in which order
    log_dropped_before_the_manifest,
    history_not_synced,
    snapshot_not_synced,
    stages_not_synced,
    manifest_not_synced,
    older_manifest_taken,
    base_not_in_the_manifest,
)
