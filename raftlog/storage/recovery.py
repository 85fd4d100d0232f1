"""Reading a segment after a restart: its valid frames, and what the bytes after them mean.

The rule (docs/FORMAT.md, "Torn or damaged"): frames are followed from the segment's header as long
as each is valid by itself, chains from its predecessor and lies within the file. Every frame says
up to which position everything was durable before it was written (`synced_to`). So do valid headers
found by searching the bytes after the first bad one. Bad bytes at or above the highest such
position are the tail of a write that a crash interrupted, never reported as durable: they are
truncated and reported. Bad bytes below it were durable once: that is damage, `CorruptFile`, and
nothing is changed.

Frames at or above that position may have a good header and a torn payload, so their payloads are
checked too. Below it payloads are not read here: commands are checked when they are replayed,
bodies when they are read (`GroupLog.command`, `.entries`).

One thing no log can tell from its own bytes: a file that is truncated, or zeroed from some point
to its end, looks like one that was never longer. A marker, written when a log falls idle
(`idle_marker`), proves the last frames durable too; the marker itself holds nothing to lose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.contract import File
from raftlog.storage.frames import (
    FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    MARKER,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    Purpose,
    SegmentHeader,
    UnreadableHeader,
    decode_frame_header,
    decode_segment_header,
)
from raftlog.storage.limits import POSITION_LIMIT

_WINDOW_BYTES_MIN = 4 * 1024
_WINDOW_BYTES_MAX = 256 * 1024
_SEARCH_BYTES = 1024 * 1024
"""Bytes read at once: while frames follow one another, and in search of the next. No settings: they
change no result, only how many reads opening takes."""
_ZEROS = bytes(_SEARCH_BYTES)


class PlacedFrame(NamedTuple):
    """A valid frame and its position."""

    position: int
    header: FrameHeader
    chain_before: int
    proven_before: int
    """The highest `synced_to` of the frames before it."""

    @property
    def end(self) -> int:
        return self.position + self.header.frame_bytes


def read_segment_header(file: File, *, purpose: Purpose, group: int | None) -> SegmentHeader:
    """The header of a file that must be a segment of this purpose and group, which is the store
    where it holds hard states. None: any.

    Raises `CorruptFile`, or `FormatUnsupported` if only the format is unknown. A file gets its
    name only after its header is durable, so no crash leaves an unreadable header.
    """
    header = decode_segment_header(file.read_at(0, SEGMENT_HEADER_BYTES))
    if isinstance(header, UnreadableHeader):
        if header.version is not None:
            raise FormatUnsupported(
                folder=file.path, found=str(header.version), supported=str(FORMAT_VERSION)
            )
        raise CorruptFile(file=file.path, position=0, problem=header.problem)
    if header.purpose is not purpose:
        found = header.purpose.name
        raise CorruptFile(
            file=file.path, position=0, problem=f"it holds {found}, not {purpose.name}"
        )
    if group not in (None, header.group):
        problem = f"it belongs to group {header.group}, not to group {group}"
        if purpose is Purpose.HARD_STATES:
            problem = "it belongs to another store, and does not know the votes of this one"
        raise CorruptFile(file=file.path, position=0, problem=problem)
    return header


class FrameWalk:
    """Iterates over a segment's valid frames by their headers and skips payloads.

    It stops at `stop`, or at the first bytes that are not a valid frame. Then `end` and `chain` are
    those of the last valid frame, and `proven_to` is the highest `synced_to` so far: everything
    below it was durable.
    """

    def __init__(self, file: File, header: SegmentHeader, *, stop: int | None = None) -> None:
        self._file = file
        self._seed = header.seed
        self._stop = file.size() if stop is None else min(stop, file.size())
        self._data = b""
        self._data_position = 0
        self._window_bytes = _WINDOW_BYTES_MIN
        self.end = SEGMENT_HEADER_BYTES
        self.chain = header.chain
        self.proven_to = SEGMENT_HEADER_BYTES

    def __iter__(self) -> Iterator[PlacedFrame]:
        while (header := self._next_header()) is not None:
            yield self._passed(header)

    def take(self, header: FrameHeader) -> PlacedFrame:
        """Go on past the frame at `end`, whose header on disk is damaged and was proven to be this
        one (`header_repair`)."""
        self._data = b""
        return self._passed(header)

    def _passed(self, header: FrameHeader) -> PlacedFrame:
        frame = PlacedFrame(self.end, header, self.chain, self.proven_to)
        self.end = frame.end
        self.chain = header.chain
        self.proven_to = max(self.proven_to, header.synced_to)
        return frame

    def _next_header(self) -> FrameHeader | None:
        at = self.end - self._data_position
        if at + FRAME_HEADER_BYTES > len(self._data):
            # To read a small payload along costs less than another read.
            self._read_window(skipped=at > len(self._data) + _WINDOW_BYTES_MIN)
            at = 0
        header = decode_frame_header(self._data, at, self._seed)
        if header is None or not header.chains_from(self.chain):
            return None
        if header.synced_to > self.end or self.end + header.frame_bytes > self._stop:
            return None
        return header

    def payload_bytes(self, frame: PlacedFrame, start: int, length: int) -> bytes:
        """Bytes [start, start + length) of the payload of the frame that the walk has just given;
        fewer only where the file ends. They are not checked."""
        start += frame.position + FRAME_HEADER_BYTES
        at = start - self._data_position
        if at + length <= len(self._data):
            return self._data[at : at + length]
        return self._file.read_at(start, length)

    def _read_window(self, *, skipped: bool) -> None:
        """Read on from `end`: little after a large payload was skipped, else more each time."""
        grown = min(self._window_bytes * 4, _WINDOW_BYTES_MAX)
        self._window_bytes = _WINDOW_BYTES_MIN if skipped else grown
        length = max(0, min(self._window_bytes, self._stop - self.end))
        self._data = self._file.read_at(self.end, length)
        self._data_position = self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where the valid frames of a log's last segment end, and what came after them."""

    end: int
    chain: int
    proven_to: int
    """The highest `synced_to` among the frames that stay."""
    truncated_from: int | None
    """The first index that was truncated although its header could be read; None if none was."""
    torn_bytes: int
    """Bytes that a crash left after `end`, without zeros at the end of the file."""


class Behind(NamedTuple):
    """What comes after the last valid frame."""

    nonzero_end: int
    """The position after the last byte that is not zero; 0 if there is none."""
    proven_to: int
    """The highest `synced_to` of the headers there; 0 if there is none."""
    first: tuple[int, FrameHeader] | None
    """The first header that is valid by itself, and its position."""


def look_behind(file: File, seed: int, end: int) -> Behind:
    """Search the bytes after the valid frames, which end there."""
    proven_to = 0
    first: tuple[int, FrameHeader] | None = None

    def found(position: int, header: FrameHeader) -> None:
        nonlocal proven_to, first
        proven_to = max(proven_to, header.synced_to)
        if first is None and position > end:
            first = position, header

    return Behind(search(file, seed, end, found), proven_to, first)


def read_tail(
    file: File,
    header: SegmentHeader,
    accept: Callable[[PlacedFrame], None],
    rebuilt: Callable[[FrameWalk, Behind], FrameHeader | None] = lambda walk, behind: None,
) -> Tail:
    """Follow the frames of a last segment, pass each to `accept`, and apply the module's rule.
    `rebuilt` may give the header at the walk's end, where that on disk is bad.

    If `truncated_from` is set, frames from there on were passed to `accept` but are not valid.
    Nothing is changed on disk. Raises `CorruptFile` on damage, at once if the file is longer than
    any that was ever written: to search that would take as long as to read it.
    """
    if file.size() > POSITION_LIMIT:
        problem = (
            f"it has {file.size()} bytes, and raftlog writes none of more than {POSITION_LIMIT}"
        )
        raise CorruptFile(file=file.path, position=POSITION_LIMIT, problem=problem)
    walk = FrameWalk(file, header)
    unproven: deque[PlacedFrame] = deque()

    def passed(frame: PlacedFrame) -> None:
        accept(frame)
        unproven.append(frame)
        while unproven and unproven[0].end <= walk.proven_to:
            unproven.popleft()

    while True:
        for frame in walk:
            passed(frame)
        behind = look_behind(file, header.seed, walk.end)
        nonzero_end, proven_behind, _ = behind
        given = rebuilt(walk, behind) if nonzero_end > walk.end else None
        if given is None:
            break
        passed(walk.take(given))
    if proven_behind > walk.end:
        raise CorruptFile(
            file=file.path,
            position=walk.end,
            problem=f"it has no valid frame there, but all below {proven_behind} was durable",
        )
    proven_to = max(walk.proven_to, proven_behind)
    for frame in unproven:
        if frame.end > proven_to and not payload_is_whole(file, frame):
            return Tail(
                end=frame.position,
                chain=frame.chain_before,
                proven_to=frame.proven_before,
                truncated_from=_first_index_from(unproven, frame),
                torn_bytes=max(walk.end, nonzero_end) - frame.position,
            )
    return Tail(
        end=walk.end,
        chain=walk.chain,
        proven_to=walk.proven_to,
        truncated_from=None,
        torn_bytes=max(0, nonzero_end - walk.end),
    )


def payload_is_whole(file: File, frame: PlacedFrame) -> bool:
    """Read the frame's command and body and check both CRCs."""
    header = frame.header
    payload = file.read_at(frame.position + FRAME_HEADER_BYTES, header.payload_bytes)
    if len(payload) < header.payload_bytes:
        return False
    command, body = payload[: header.command_length], payload[header.command_length :]
    return crc32c(command) == header.command_crc and crc32c(body) == header.body_crc


def write_again(file: File, start: int, end: int) -> None:
    """Write [start, end) again, unchanged. The caller syncs.

    What a process wrote to the page cache without a successful sync can be read back. But a sync
    that failed may have marked its pages clean, and then a later sync would succeed without
    writing them. Bytes written again are dirty again.
    """
    while start < end:
        data = file.read_at(start, min(_SEARCH_BYTES, end - start))
        assert data, "the range lies within the file"
        file.write_at(start, [data])
        start += len(data)


def _first_index_from(frames: deque[PlacedFrame], bad: PlacedFrame) -> int | None:
    """The first index at or after the bad frame. Markers hold no entry."""
    return next(
        (
            each.header.index
            for each in frames
            if each.position >= bad.position and each.header.kind != MARKER
        ),
        None,
    )


def search(file: File, seed: int, start: int, found: Callable[[int, FrameHeader], None]) -> int:
    """Search from `start` to the file's end for headers that are valid by themselves, and pass each
    with its position to `found`, in order. Returns the position after the last byte that is not
    zero; 0 if there is none."""
    nonzero_end = 0
    kept = b""
    while data := file.read_at(start, _SEARCH_BYTES):
        start += len(data)
        if data == _ZEROS[: len(data)]:
            # A header's last bytes may be zeros: search those again, then drop them.
            data = kept + data[:FRAME_HEADER_BYTES]
            kept = b""
        else:
            nonzero_end = start - (len(data) - len(data.rstrip(b"\0")))
            data = kept + data
            kept = data[-FRAME_HEADER_BYTES + 1 :]
        at = data.find(FRAME_MAGIC)
        while at >= 0:
            header = decode_frame_header(data, at, seed)
            if header is not None:
                found(start - len(data) + at, header)
            at = data.find(FRAME_MAGIC, at + 1)
    return nonzero_end
