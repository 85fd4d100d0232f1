"""Reading a group's log files from another process than the one that writes them.

The caller asks for entries that are durable and committed, so they never change. Meanwhile the
log's own process appends to the last segment, may truncate what comes after those entries, and may
remove segments that end before them. Nothing is locked and nothing is changed.

Everything up to the last entry asked for is proven: each frame chains from its predecessor, each
segment continues the one before it, and each command has its CRC. A bad frame among them is damage;
what comes after them is not looked at, so a torn tail there does no harm. Bodies are skipped where
they are large, and checked when they are read (`read_entry`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import Entry, EntryKind, LogIndex, Term
from raftlog.errors import CorruptFile
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import MARKER, Purpose, SegmentHeader
from raftlog.storage.read import EntryFrame, read_payload
from raftlog.storage.recovery import FrameWalk, PlacedFrame, read_segment_header
from raftlog.storage.reopen import first_index_of, segment_names

_KINDS = {int(kind): kind for kind in EntryKind}


class EntryPlace(NamedTuple):
    """Where an entry is on disk, and what its frame must say."""

    path: str
    frame: EntryFrame
    term: Term
    kind: EntryKind


class ScannedEntry(NamedTuple):
    """An entry without its body."""

    place: EntryPlace
    command: bytes


class ProvenFrame(NamedTuple):
    """The frame of an entry, proven by the chain. Its payload has not been checked."""

    place: EntryPlace
    walk: FrameWalk
    placed: PlacedFrame
    location: str

    @property
    def entry_index(self) -> LogIndex:
        return LogIndex(self.place.frame.entry_index)

    def payload_bytes(self, start: int, length: int) -> bytes:
        """Bytes of the payload, before the next frame is asked for; see `FrameWalk`."""
        return self.walk.payload_bytes(self.placed, start, length)

    def damage(self, problem: str) -> CorruptFile:
        """That this is wrong with the entry."""
        problem = f"entry {self.entry_index}: {problem}"
        return CorruptFile(file=self.location, position=self.placed.position, problem=problem)


def scan(
    fs: FileSystem, folder: str, group: int, first: LogIndex, last: LogIndex
) -> Iterator[ScannedEntry]:
    """Entries `first` to `last` in order; none if `last` is below `first`.

    Raises `CorruptFile` for damage at or below `last`, and if the log does not hold all of them;
    `FormatUnsupported`.
    """
    for found in proven_frames(fs, folder, group, first, last):
        header = found.placed.header
        command = found.payload_bytes(0, header.command_length)
        if crc32c(command) != header.command_crc:
            raise found.damage("the checksum of its command differs")
        yield ScannedEntry(found.place, command)


def proven_frames(
    fs: FileSystem, folder: str, group: int, first: LogIndex, last: LogIndex
) -> Iterator[ProvenFrame]:
    """The frames of entries `first` to `last`, as `scan` follows them. Raises as `scan` does for
    all but the payloads, which are not looked at."""
    wanted = first
    before: tuple[str, FrameWalk] | None = None
    names = segment_names(fs, folder)
    ends = [*(first_index_of(name) for name in names[1:]), last + 1]
    for name, end in zip(names, ends, strict=False):  # without segments there is one end too many
        if wanted > last:
            return
        if end <= wanted:
            continue
        path = f"{folder}/{name}"
        file = _opened(fs, path)
        try:
            header = read_segment_header(file, purpose=Purpose.LOG, group=group)
            if before is not None:
                _require_continues(file, header, *before)
            walk, seed = FrameWalk(file, header), header.seed
            for placed in walk:
                index = placed.header.index
                if placed.header.kind == MARKER or index < wanted:
                    continue
                if index != wanted:
                    problem = f"entry {index} comes where {wanted} should be"
                    raise _damage(file, placed.position, problem)
                yield _proven(file, path, seed, walk, placed)
                if wanted == last:
                    return
                wanted = LogIndex(wanted + 1)
            if wanted < end:
                raise _damage(file, walk.end, f"it has no valid frame of entry {wanted} there")
            before = file.path, walk
        finally:
            file.close()
    if wanted <= last:
        raise CorruptFile(
            file=fs.location(folder), position=0, problem=f"its log does not hold entry {wanted}"
        )


def _require_continues(
    file: File, header: SegmentHeader, before_location: str, before: FrameWalk
) -> None:
    """The frames of the segment before must end where this one's header says."""
    end = header.previous_end
    if before.end < end:
        problem = f"it has no valid frame there, below its end at {end}"
        raise CorruptFile(file=before_location, position=before.end, problem=problem)
    if (before.end, before.chain) != (end, header.previous_chain):
        raise _damage(file, 0, "it does not continue the segment before it")


def _proven(file: File, path: str, seed: int, walk: FrameWalk, placed: PlacedFrame) -> ProvenFrame:
    """The entry of a frame that the walk has just given. Checks what the chain does not."""
    header = placed.header
    kind = _KINDS.get(header.kind)
    if kind is None:
        raise _damage(file, placed.position, f"the kind of its frame is {header.kind}")
    frame = EntryFrame(
        header.index,
        placed.position,
        seed,
        header.chain,
        header.command_length,
        header.body_length,
    )
    place = EntryPlace(path, frame, Term(header.term), kind)
    return ProvenFrame(place, walk, placed, file.path)


def read_entry(fs: FileSystem, place: EntryPlace) -> Entry:
    """The whole entry; the CRCs of command and body are checked. Raises `CorruptFile`."""
    file = _opened(fs, place.path)
    try:
        payload = read_payload(file, place.frame)
    finally:
        file.close()
    return Entry(LogIndex(place.frame.entry_index), place.term, place.kind, payload)


def _opened(fs: FileSystem, path: str) -> File:
    try:
        return fs.open(path, create=False)
    except FileNotFoundError:
        raise CorruptFile(file=fs.location(path), position=0, problem="the file is gone") from None


def _damage(file: File, position: int, problem: str) -> CorruptFile:
    return CorruptFile(file=file.path, position=position, problem=problem)
