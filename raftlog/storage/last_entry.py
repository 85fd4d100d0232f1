"""Where a damaged log ended. A voter must know, even if what comes before cannot be read.

The rule is that of `recovery`, past the damage: bad bytes below a position that is known durable
are damage, and what follows them counts; at or above it they are the torn tail of a write. Frames
after damage are valid by themselves, though their chain cannot be followed. An entry says its index
and term, and so does a marker, which may be all that comes after a damaged last entry.
"""

from __future__ import annotations

from collections import deque

from raftlog.core.types import LastEntry, LogIndex, Term
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import SEGMENT_HEADER_BYTES, FrameHeader, Purpose, SegmentHeader
from raftlog.storage.limits import POSITION_LIMIT
from raftlog.storage.prefix import Base
from raftlog.storage.recovery import (
    FrameWalk,
    PlacedFrame,
    payload_is_whole,
    read_segment_header,
    search,
)
from raftlog.storage.reopen import first_index_of, segment_names

_NONE = LastEntry(Term(0), LogIndex(0))
"""The segment is whole, and holds no entry."""


def last_entry(fs: FileSystem, folder: str, group: int, base: Base) -> LastEntry | None:
    """The last entry that the log in the folder held durably; None if that cannot be told.

    The log is one that cannot be opened. Changes nothing. Raises `CorruptFile` where the folder or
    a segment cannot be opened.
    """
    after: SegmentHeader | None = None
    for name in reversed(segment_names(fs, folder)):
        file = fs.open(f"{folder}/{name}", create=False)
        try:
            header = read_segment_header(file, purpose=Purpose.LOG, group=group)
            if header.first_index != first_index_of(name) or file.size() > POSITION_LIMIT:
                return None
            found = _last_in(file, header, None if after is None else after.previous_end)
        except (CorruptFile, FormatUnsupported):
            return None
        finally:
            file.close()
        if found != _NONE:
            is_last = after is None or (found is not None and found.index + 1 == after.first_index)
            return found if is_last else None
        after = header
    follows = after is not None and after.first_index == base[0] + 1
    return LastEntry(base[1], base[0]) if follows else None


class _Reading:
    """The frames of a segment in order, over whatever is damaged between them."""

    def __init__(self, proven_to: int) -> None:
        self.proven_to = proven_to
        self.last: LastEntry | None = _NONE
        """After the frames that are proven durable; None: it was damaged."""
        self.end = SEGMENT_HEADER_BYTES
        self.unproven: deque[PlacedFrame] = deque()

    def add(self, position: int, header: FrameHeader) -> None:
        self.unproven.append(PlacedFrame(position, header, 0, 0))
        self.proven_to = max(self.proven_to, header.synced_to)
        while self.unproven and self.unproven[0].end <= self.proven_to:
            self.pass_over(self.unproven.popleft())

    def pass_over(self, frame: PlacedFrame) -> None:
        """The frame counts."""
        header = frame.header
        if frame.position > self.end:
            self.last = None
        if header.index:
            self.last = LastEntry(Term(header.term), LogIndex(header.index))
        self.end = frame.end


def _last_in(file: File, header: SegmentHeader, sealed_at: int | None) -> LastEntry | None:
    """The last entry of the segment, which ends at `sealed_at`; None there: it is the last one."""
    reading = _Reading(SEGMENT_HEADER_BYTES if sealed_at is None else sealed_at)
    walk = FrameWalk(file, header, stop=sealed_at)
    for frame in walk:
        reading.add(frame.position, frame.header)
    search(file, header.seed, walk.end + 1, reading.add)
    for frame in reading.unproven:
        is_torn = frame.position > reading.end and reading.end >= reading.proven_to
        if is_torn or not payload_is_whole(file, frame):
            break
        reading.pass_over(frame)
    return reading.last if reading.end >= reading.proven_to else None
