"""Open stages copied out of a log, so that the log may be dropped behind them.

A stage that is open at a snapshot point may be committed long after. Its entry is copied as it is
into a file with the segment format of a log (`raftlog.storage.frames`), in which indexes rise but
have gaps. The manifest says where the file ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, Term
from raftlog.errors import CorruptFile, RaftlogError
from raftlog.image.limits import ENTRY_BYTES_MAX, RECEIVED_FRAMES_MAX
from raftlog.image.manifest import STAGES_PREFIX, StagesInfo, remove_earlier_tries
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import FRAME_HEADER_BYTES, Purpose, SegmentHeader
from raftlog.storage.read import EntryFrame, read_command, read_in_frame, read_payload
from raftlog.storage.recovery import FrameWalk, PlacedFrame, read_segment_header
from raftlog.storage.unfinished import finish_file, unfinished_file
from raftlog.storage.write import NEW_FILE_ENDING, Segment


def write_stages(
    fs: FileSystem,
    folder: str,
    group: GroupId,
    entries: Iterable[Entry],
    *,
    first: LogIndex,
    last: LogIndex,
) -> StagesInfo:
    """Copy the entries, whose indexes rise within [first, last]; durable when this returns.

    One entry is held at a time. No manifest names a file with this `last`: those that are there are
    earlier tries, and are removed. Raises `ResourceShortage` and `DiskFailed`.
    """
    header = SegmentHeader(
        purpose=Purpose.STAGES,
        segment_id=fs.new_id(),
        group=group,
        first_index=first,
        previous_end=0,
        previous_chain=0,
    )
    path = f"{folder}/{STAGES_PREFIX}{last:020}{NEW_FILE_ENDING}"
    remove_earlier_tries(fs, folder, f"{STAGES_PREFIX}{last:020}")
    with unfinished_file(fs, path) as file:
        segment = Segment(path, header)
        file.write_at(0, [header.encode()])
        for entry in entries:
            buffers: list[bytes] = []
            position = segment.add_frame(
                buffers,
                kind=entry.kind,
                index=entry.index,
                term=entry.term,
                command=entry.payload.command,
                body=entry.payload.body,
            )
            file.write_at(position, buffers)
    info = StagesInfo(first=first, last=last, byte_count=segment.end, chain=segment.chain)
    finish_file(fs, path, f"{folder}/{info.name}")
    return info


_KINDS = frozenset(map(int, EntryKind))


class _Place(NamedTuple):
    frame: EntryFrame
    term: Term
    kind: EntryKind


class _Frames(NamedTuple):
    """What the frames' headers say, in packed columns: there may be millions."""

    indexes: array[int]
    """They rise."""
    positions: array[int]
    terms: array[int]
    kinds: array[int]
    chains: array[int]
    command_lengths: array[int]
    body_lengths: array[int]

    @classmethod
    def none(cls) -> _Frames:
        return cls(*(array(code) for code in "QQQBIII"))

    def append(self, placed: PlacedFrame) -> None:
        frame = placed.header
        row = (frame.index, placed.position, frame.term, frame.kind, frame.chain)
        for column, number in zip(
            self, (*row, frame.command_length, frame.body_length), strict=True
        ):
            column.append(number)


class StagesFile:
    """A file that `write_stages` made, open for reading. One thread's own."""

    busy = False

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        group: GroupId,
        info: StagesInfo,
        *,
        prefix: str = "",
        received: bool = False,
    ) -> None:
        """Opens the file and reads all frames' headers; `prefix` goes before the name that it has
        now. `received`: another node gave it (`raftlog.image.limits`).
        Raises `CorruptFile`: missing, damaged, or not the file that the manifest means."""
        self._fs = fs
        self._path = f"{folder}/{prefix}{info.name}"
        self._file: File | None = None
        self._seed = 0
        self._frames = _Frames.none()
        try:
            self._read_frames(group, info, RECEIVED_FRAMES_MAX if received else None)
        except RaftlogError:
            self.close()
            raise

    def _read_frames(self, group: GroupId, info: StagesInfo, frames_max: int | None) -> None:
        file = self.opened()
        header = read_segment_header(file, purpose=Purpose.STAGES, group=group)
        self._seed = header.seed
        indexes = self._frames.indexes
        walk = FrameWalk(file, header, stop=info.byte_count)
        for placed in walk:
            frame = placed.header
            if frame.kind not in _KINDS:
                problem = f"the kind of its frame is {frame.kind}"
            elif indexes and frame.index <= indexes[-1]:
                problem = f"entry {frame.index} follows entry {indexes[-1]}"
            elif frame.payload_bytes > ENTRY_BYTES_MAX:
                problem = f"entry {frame.index} would have {frame.payload_bytes} bytes"
            elif len(indexes) == frames_max:
                problem = f"it has more than {frames_max} frames"
            else:
                self._frames.append(placed)
                continue
            raise CorruptFile(file=file.path, position=placed.position, problem=problem)
        if (walk.end, walk.chain) != (info.byte_count, info.chain):
            problem = f"its frames end there and not at {info.byte_count}, or are others"
            raise CorruptFile(file=file.path, position=walk.end, problem=problem)

    def __contains__(self, index: int) -> bool:
        return self._row(index) is not None

    def _row(self, index: int) -> int | None:
        indexes = self._frames.indexes
        row = bisect_left(indexes, index)
        return row if row < len(indexes) and indexes[row] == index else None

    def _place(self, index: int) -> _Place:
        """Raises `KeyError` if it does not hold the entry."""
        row = self._row(index)
        if row is None:
            raise KeyError(index)
        frames = self._frames
        frame = EntryFrame(
            entry_index=index,
            position=frames.positions[row],
            seed=self._seed,
            chain=frames.chains[row],
            command_length=frames.command_lengths[row],
            body_length=frames.body_lengths[row],
        )
        return _Place(frame, Term(frames.terms[row]), EntryKind(frames.kinds[row]))

    def frame_bytes(self, index: int) -> int:
        """The length of the entry's frame, with header, command and body."""
        frame = self._place(index).frame
        return FRAME_HEADER_BYTES + frame.command_length + frame.body_length

    def command(self, index: int) -> tuple[Term, EntryKind, bytes]:
        """The entry without its body; see `GroupLog.command`."""
        place = self._place(index)
        return place.term, place.kind, read_command(self.opened(), place.frame)

    def body_slices(self, index: int, slices: Sequence[tuple[int, int]]) -> list[bytes]:
        """Raw bytes of the entry's body; see `GroupLog.body_slices`."""
        frame = self._place(index).frame
        found = []
        for position, length in slices:
            assert 0 <= position <= position + length <= frame.body_length, "exceeds the body"
            start = FRAME_HEADER_BYTES + frame.command_length + position
            found.append(read_in_frame(self.opened(), frame, start, length))
        return found

    def entry(self, index: LogIndex) -> Entry:
        """The whole entry; the CRCs of command and body are checked. Raises `CorruptFile`."""
        place = self._place(index)
        return Entry(index, place.term, place.kind, read_payload(self.opened(), place.frame))

    def check_entry(self, index: int) -> None:
        """Check the CRCs of the entry's command and body. Raises `CorruptFile`."""
        read_payload(self.opened(), self._place(index).frame)

    def check(self) -> Iterator[int]:
        """Check the CRCs of all commands and bodies, one entry at a time; yields the bytes of each.
        Raises `CorruptFile`."""
        for index in self._frames.indexes:
            frame = self._place(index).frame
            read_payload(self.opened(), frame)
            yield frame.command_length + frame.body_length

    def opened(self) -> File:
        """The file, opened unless it is open. Raises `CorruptFile` if it is missing."""
        if self._file is None:
            try:
                self._file = self._fs.open(self._path, create=False)
            except FileNotFoundError:
                raise CorruptFile(
                    file=self._fs.location(self._path), position=0, problem="it is missing"
                ) from None
        return self._file

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
