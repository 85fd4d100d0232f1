"""Opening a log that a process left behind, however it ended.

The log begins with the segment of the entry after its base; the segments before that one are what
a crash left of a removal (`prefix`). Sealed segments are followed by their headers up to the end
that their successor names; the last segment by the rule in `recovery`. A damaged header is rebuilt
where what is left proves it (`header_repair`), and written again once the whole log is found to be
readable. A truncation is made durable
before anything is appended, and what stays is made durable before it is reported.

At most two files are open at once, and none on return: a node may have thousands of segments, and
most of its topics may be idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.core.types import EntryKind, LogIndex
from raftlog.errors import CorruptFile
from raftlog.storage.contract import FileSystem
from raftlog.storage.frames import MARKER, SEGMENT_HEADER_BYTES, FrameHeader, Purpose
from raftlog.storage.header_repair import Following, rebuilt_header, rebuilt_segment_header
from raftlog.storage.index import EntryTable
from raftlog.storage.prefix import Base, PrefixRemoval
from raftlog.storage.recovery import (
    Behind,
    FrameWalk,
    PlacedFrame,
    Tail,
    look_behind,
    read_segment_header,
    read_tail,
    write_again,
)
from raftlog.storage.write import Segment, remove_unfinished

SEGMENT_ENDING = ".log"
_SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
_KINDS = frozenset(EntryKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening found. `torn_bytes` above 0: a write interrupted by a crash was truncated."""

    segments: int
    last_index: LogIndex
    torn_file: str = ""
    torn_position: int = 0
    torn_bytes: int = 0
    rebuilt: tuple[CorruptFile, ...] = ()
    """Headers that were damaged, and were written again as they had been. Those that a crash may
    have left so are not among them: it can keep any part of the last write."""


class _Rewrite(NamedTuple):
    """A header that is to be written again."""

    path: str
    position: int
    data: bytes

    def damage(self, fs: FileSystem) -> CorruptFile:
        """What was there before."""
        what = "a frame" if self.position else "the segment"
        problem = f"the header of {what} was damaged; it was rebuilt from the rest of the file"
        return CorruptFile(file=fs.location(self.path), position=self.position, problem=problem)


@dataclass(slots=True, kw_only=True)
class Reopened:
    """The parts of a log, filled in while its files are read."""

    segments: list[Segment] = field(default_factory=list)
    table: EntryTable = field(default_factory=EntryTable)
    report: RecoveryReport | None = None
    rewrites: list[_Rewrite] = field(default_factory=list)


def segment_path(folder: str, first_index: int) -> str:
    """The file of the segment that begins with this entry. Names sort as the entries do."""
    return f"{folder}/{first_index:020d}{SEGMENT_ENDING}"


def segment_names(fs: FileSystem, folder: str) -> list[str]:
    """The segments' file names, by first index. Ignores the folder's other files."""
    return [name for name in fs.list(folder) if _SEGMENT_NAME.fullmatch(name)]


def reopen(fs: FileSystem, folder: str, group: int, base: Base) -> Reopened:
    """Read a log, and mend it if the rule allows. Raises `CorruptFile`, `FormatUnsupported`.

    Segments that `base` covers are removed once the rest was found whole.
    """
    remove_unfinished(fs, folder, SEGMENT_ENDING)
    covered, held = _divide(fs, folder, base)
    found = Reopened(table=EntryTable(*base))
    for path in held:
        segment = _open_segment(fs, path, group, found.rewrites)
        if found.segments:
            _read_sealed(found, found.segments[-1], segment)
        found.segments.append(segment)
    last = found.segments[-1]
    tail = _read_last(found, last)
    _write_headers(fs, found.rewrites)
    _mend(fs, folder, last, tail)
    PrefixRemoval(fs=fs, folder=folder, removed=covered, base=base).run()
    torn = tail.torn_bytes > 0
    found.report = RecoveryReport(
        segments=len(found.segments),
        last_index=found.table.last_index,
        torn_file=fs.location(last.path) if torn else "",
        torn_position=tail.end if torn else 0,
        torn_bytes=tail.torn_bytes,
        rebuilt=tuple(
            each.damage(fs)
            for each in found.rewrites
            if each.path != last.path or not each.position or each.position < tail.proven_to
        ),
    )
    last.close()
    return found


def _divide(fs: FileSystem, folder: str, base: Base) -> tuple[tuple[str, ...], list[str]]:
    """The paths of the segments that the base covers, and of those that hold the log.

    The log must have one that begins directly after the base: a base is the end of a segment, and
    the active segment is never dropped.
    """
    names = segment_names(fs, folder)
    if not names:
        raise CorruptFile(
            file=fs.location(folder), position=0, problem="it holds no segment of a log"
        )
    begin = base[0] + 1
    covered = [name for name in names if first_index_of(name) < begin]
    held = names[len(covered) :]
    if held and first_index_of(held[0]) == begin:
        return tuple(f"{folder}/{name}" for name in covered), [f"{folder}/{name}" for name in held]
    after = held[0] if held else covered[-1]
    first = first_index_of(after)
    if held:
        problem = f"it begins with entry {first}, but entries {begin} to {first - 1} are missing"
    else:
        problem = f"it begins with entry {first}, and no segment begins with entry {begin}"
    raise CorruptFile(
        file=fs.location(f"{folder}/{after}"),
        position=0,
        problem=f"{problem} (the log's base is entry {base[0]})",
    )


def first_index_of(name: str) -> int:
    """The index of the first entry of the segment with this file name."""
    found = _SEGMENT_NAME.fullmatch(name)
    assert found is not None, "the name of a segment"
    return int(found[1])


def _open_segment(fs: FileSystem, path: str, group: int, rewrites: list[_Rewrite]) -> Segment:
    file = fs.open(path, create=False)
    first_index = first_index_of(path.rpartition("/")[2])
    try:
        header = read_segment_header(file, purpose=Purpose.LOG, group=group)
    except CorruptFile:
        rebuilt = rebuilt_segment_header(file, group, first_index)
        if rebuilt is None:
            raise
        header = rebuilt
        rewrites.append(_Rewrite(path, 0, header.encode()))
    segment = Segment(path, header)
    segment.file = file
    if header.first_index != first_index:
        raise _corrupt(segment, 0, f"its header says that it begins with {header.first_index}")
    return segment


def _read_sealed(found: Reopened, segment: Segment, successor: Segment) -> None:
    """Follow the frames up to the end that the successor names. Anything else is damage."""
    assert segment.file is not None
    table, header = found.table, successor.header
    stop = header.previous_end
    walk = FrameWalk(segment.file, segment.header, stop=stop)
    _accept_all(table, segment, walk)
    while walk.end != stop:
        first = look_behind(segment.file, segment.seed, walk.end).first
        if first is None or first[0] >= stop:
            following = Following(stop, None, header.previous_chain)
        else:
            following = Following(*first)
        frame = _rebuilt(found, segment, walk, following)
        if frame is None:
            problem = f"it has no valid frame there, below its end at {stop}"
            raise _corrupt(segment, walk.end, problem)
        _accept(table, segment, walk.take(frame))
        _accept_all(table, segment, walk)
    if walk.chain != successor.header.previous_chain:
        raise _corrupt(segment, walk.end, "its frames are not those before its successor")
    if table.last_index + 1 != successor.first_index:
        raise _corrupt(
            segment,
            walk.end,
            f"it ends with entry {table.last_index}, but {successor.first_index} comes next",
        )
    _settle(table, segment, walk.end, walk.chain)
    segment.close()  # the next read opens it again


def _read_last(found: Reopened, segment: Segment) -> Tail:
    assert segment.file is not None
    table = found.table
    if table.last_index + 1 != segment.first_index:
        raise _corrupt(segment, 0, f"it follows entry {table.last_index}")

    def rebuilt(walk: FrameWalk, behind: Behind) -> FrameHeader | None:
        following = None if behind.first is None else Following(*behind.first)
        return _rebuilt(found, segment, walk, following)

    tail = read_tail(
        segment.file, segment.header, lambda frame: _accept(table, segment, frame), rebuilt
    )
    if tail.truncated_from is not None:
        table.truncate(tail.truncated_from)
    _settle(table, segment, tail.end, tail.chain)
    segment.proven_to = tail.proven_to
    return tail


def _rebuilt(
    found: Reopened, segment: Segment, walk: FrameWalk, following: Following | None
) -> FrameHeader | None:
    """The header at the end of the walk, if what is left proves it; it is to be written again."""
    assert segment.file is not None
    rebuilt = rebuilt_header(segment.file, segment.seed, walk, found.table, following)
    if rebuilt is None:
        return None
    found.rewrites.append(_Rewrite(segment.path, walk.end, rebuilt.data))
    return rebuilt.header


def _write_headers(fs: FileSystem, rewrites: Iterable[_Rewrite]) -> None:
    """Write the headers in place, durably. A crash leaves each byte damaged or whole."""
    for path, position, data in rewrites:
        file = fs.open(path, create=False)
        file.write_at(position, [data])
        file.sync()
        file.close()


def _accept_all(table: EntryTable, segment: Segment, walk: FrameWalk) -> None:
    for frame in walk:
        _accept(table, segment, frame)


def _accept(table: EntryTable, segment: Segment, frame: PlacedFrame) -> None:
    """Add a valid frame to the table. One out of order was written so, so it is no torn tail."""
    header = frame.header
    if header.kind == MARKER:
        return
    if header.kind not in _KINDS:
        raise _corrupt(segment, frame.position, f"the kind of its frame is {header.kind}")
    if header.index != table.last_index + 1:
        raise _corrupt(
            segment, frame.position, f"entry {header.index} follows entry {table.last_index}"
        )
    if header.term < table.last_term:
        raise _corrupt(
            segment, frame.position, f"term {header.term} follows term {table.last_term}"
        )
    table.add(header.index, header.term, header.kind, header.command_length, header.body_length)
    table.place(frame.position, header.chain)


def _settle(table: EntryTable, segment: Segment, end: int, chain: int) -> None:
    segment.end = end
    segment.chain = chain
    segment.synced = end
    has_entries = table.last_index >= segment.first_index
    segment.data_end = table.end_at(table.last_index) if has_entries else SEGMENT_HEADER_BYTES


def _mend(fs: FileSystem, folder: str, segment: Segment, tail: Tail) -> None:
    """Truncate a torn tail and make the rest durable. Later frames must not vouch for positions of
    the tail."""
    file = segment.opened(fs)
    if tail.torn_bytes:
        file.truncate(tail.end)
    write_again(file, tail.proven_to, tail.end)
    file.sync()
    fs.sync_folder(folder)
    segment.reserved = file.size()


def _corrupt(segment: Segment, position: int, problem: str) -> CorruptFile:
    path = segment.path if segment.file is None else segment.file.path
    return CorruptFile(file=path, position=position, problem=problem)
