"""Which records a topic has, as its log made them visible, and whether an image holds them.

What a replica holds besides its log is read through the product's readers, file by file, and
compared with what the committed entries came to before anything was compacted.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftlog.core.types import GroupId, LogIndex, Offset
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image.history_file import HistoryFile, StoredRowGroup
from raftlog.image.machine import restored
from raftlog.image.manifest import NO_IMAGE, HistoryInfo, Image, SnapshotInfo
from raftlog.image.open_image import OpenImage
from raftlog.image.snapshot_file import read_snapshot
from raftlog.machines.group_info import GroupInfo
from raftlog.machines.topic import TopicMachine
from raftlog.machines.writer_row import StagedEntry
from raftlog.replica import Replica
from raftlog.storage.contract import FileSystem
from raftlog.wire.codec import decode_batch_header
from tests.simulation.promises import Promise, Violation
from tests.simulation.records import Facts, Row, facts_of, facts_of_extent, texts_of
from tests.simulation.schemas import Columns

if TYPE_CHECKING:
    from tests.simulation.checkers import Committed, GroupChecker


class TopicRecords:
    """The records of one topic by offset: what they are, from the first replica that saw them."""

    def __init__(self, group: GroupId, columns: Columns) -> None:
        self._group = group
        self._columns = columns
        self._end = 0
        self._texts: dict[int, str] = {}
        self._facts: dict[int, Facts] = {}
        self._row_groups: dict[tuple[Offset, Offset], tuple[object, ...]] = {}
        self._checked: dict[tuple[Offset, HistoryInfo], bytes] = {}

    def published(self, replica: Replica, committed: Sequence[Committed]) -> None:
        """The replica has applied what is committed so far, entry i + 1 in the term of
        `committed[i]`."""
        machine, log = replica.machine, replica.log
        if not isinstance(machine, TopicMachine):
            return
        start, end = max(self._end, machine.extents_start), machine.high_water_mark
        if end <= self._end:
            return
        self._end = end
        for extent in machine.extents_between(max(start, machine.log_start_offset), end):
            offsets = range(extent.start, extent.start + extent.count)
            self._facts |= dict.fromkeys(
                offsets, facts_of_extent(extent, committed[extent.index - 1].term)
            )
            if extent.index > log.base_index:
                header = decode_batch_header(log.command(extent.index)[2])
                (body,) = log.body_slices(extent.index, [(0, extent.body_bytes)])
                texts = texts_of(header, body, self._columns)
                self._texts |= zip(offsets, texts, strict=True)

    def read(self, row: Row) -> None:
        """A record as somebody has read it."""
        text = self._texts.setdefault(row.offset, row.text)
        facts = self._facts.setdefault(row.offset, row.facts)
        if (text, facts) != (row.text, row.facts):
            raise Violation(
                Promise.READS_BELOW_THE_MARK,
                f"group {self._group}: {row} was read, which is {text} with {facts}",
            )

    def were_checked(self, history_end: Offset, info: HistoryInfo, data: bytes) -> bool:
        """Were exactly these bytes found right before, in any replica's history up to there?"""
        return self._checked.get((history_end, info)) == data

    def checked(self, history_end: Offset, info: HistoryInfo, data: bytes) -> None:
        """Every record of the file is right."""
        self._checked[history_end, info] = data

    def in_history(self, history_end: Offset, row_group: StoredRowGroup, body: bytes) -> None:
        """A row group of some replica's history up to `history_end`. Where that ends decides how
        the last small file was written again."""
        texts = texts_of(row_group.header, body, self._columns)
        facts = facts_of(row_group.runs)
        for row in map(Row, range(row_group.start, row_group.end), texts, facts):
            self.read(row)
        seen = (row_group.end, row_group.digest, row_group.record_bytes)
        known = self._row_groups.setdefault((history_end, row_group.start), seen)
        if known != seen or len(texts) != len(facts):
            raise Violation(
                Promise.EQUAL_HISTORIES,
                f"group {self._group}: the row group at {row_group.start} is {seen} and {known}",
            )


class Read(NamedTuple):
    """What the bytes of a snapshot of a group say: read once for all replicas that have them."""

    state: bytes
    fingerprint: bytes
    mark: Offset | None
    """None: not a topic's."""
    open_stages: tuple[StagedEntry, ...]

    @classmethod
    def of(cls, info: GroupInfo, snapshot: SnapshotInfo, state: bytes) -> Read:
        machine = restored(info, snapshot, state).machine
        if not isinstance(machine, TopicMachine):
            return cls(state, machine.fingerprint(), None, ())
        stages = tuple(machine.open_stages())
        return cls(state, machine.fingerprint(), machine.high_water_mark, stages)


class ImageCheck:
    """Checks one image of one group, whose files are in `fs`."""

    def __init__(
        self,
        truth: GroupChecker,
        fs: FileSystem,
        folder: str,
        image: Image,
        *,
        damaged: bool = False,
    ) -> None:
        """`damaged`: files may not be whole, which is not to be told."""
        self._truth = truth
        self._damaged = damaged
        self._fs = fs
        self._folder = folder
        self._image = image
        self._open = OpenImage(fs, folder, truth.group, image)

    def run(self, of: GroupInfo, former: Image = NO_IMAGE) -> None:
        """Every file is there and holds what it should; those of the `former` image were checked
        before."""
        try:
            for info in self._image.snapshots:
                if info not in former.snapshots:
                    self._check_snapshot(info, of)
            offset = self._image.history_start
            if offset > self._truth.log_start:
                self._fail(f"its history begins at {offset}, the log at {self._truth.log_start}")
            while offset < self._image.history_end:
                file = self._open.history_file_with(offset)
                if file.info not in former.history:
                    self._check_history(file)
                offset = file.info.end
        except (CorruptFile, FormatUnsupported) as error:
            if not self._damaged:
                self._fail(f"its files are not whole: {error.cause}")
        finally:
            self._open.close()

    def _fail(self, what: str) -> None:
        index = self._image.index
        self._truth.fail(Promise.COMPLETE_IMAGES, f"the image at {index}: {what}")

    def _check_snapshot(self, info: SnapshotInfo, of: GroupInfo) -> None:
        """It is the state that the committed entries come to; the same bytes on all replicas."""
        truth, index = self._truth, info.index
        state = read_snapshot(self._fs, self._folder, truth.group, info)
        if truth.snapshots.setdefault(index, zlib.crc32(state)) != zlib.crc32(state):
            self._fail(f"the snapshot of {index} is another one than elsewhere")
        if truth.hashes.get(index) != info.state_hash:
            self._fail(f"the snapshot of {index} has another state hash")
        read = truth.read.get(index)
        if read is None or read.state != state:
            read = truth.read[index] = Read.of(of, info, state)
        if read.fingerprint != truth.fingerprints.get(index, read.fingerprint):
            self._fail(f"the snapshot of {index} is of another state")
        if read.mark not in (None, info.mark):
            self._fail(f"the snapshot of {index} has the mark {read.mark}")
        if info == self._image.snapshots[-1]:
            for stage in (each.index for each in read.open_stages):
                self._check_stage(stage)

    def _check_stage(self, index: LogIndex) -> None:
        """An entry that may yet become visible."""
        stages = self._open.stages_with(index)
        entry = stages.entry(index)
        known = self._truth.contents.get((index, entry.term))
        if known is None or known.crc != zlib.crc32(b"".join(entry.payload)):
            self._fail(f"stage {index} is another one")

    def _check_history(self, file: HistoryFile) -> None:
        records, info = self._truth.records, file.info
        stored = self._fs.open(f"{self._folder}/{info.name}", create=False)
        data = stored.read_at(0, stored.size())
        stored.close()
        if records.were_checked(self._image.history_end, info, data):
            return
        offset: int = info.start
        for row_group in file.row_groups_between(info.start, info.end):
            if row_group.start != offset:
                self._fail(f"a row group begins at {row_group.start} where {offset} is due")
            file.check_row_group(row_group)
            (body,) = file.body_slices(row_group, [(0, row_group.length)])
            records.in_history(self._image.history_end, row_group, body)
            offset = row_group.end
        if offset != info.end:
            self._fail(f"{info.name} ends at {offset}")
        records.checked(self._image.history_end, info, data)
