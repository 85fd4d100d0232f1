"""What a log or journal writes to disk, planned on one thread and done on any.

A `Segment` is the planning view of one file: where the next frame goes, what its chain is, and how
much is durable. A `LogWrite` is one batch of work: a truncation, then frames into one or more
segments, with one sync per file. Planning is only arithmetic and checksums; `LogWrite.run` is only
I/O. A write may run much later than it was planned, while planning goes on, so it reads only frozen
values and never a `Segment`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from raftlog.errors import DiskFull, ResourceShortage, shortage_of
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import (
    MARKER,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    encode_frame_header,
)

NEW_FILE_ENDING = ".new"
"""The ending of a file under construction. If opening finds one, it was never finished and is
removed."""

_RESERVE_BYTES_MIN = 64 * 1024
"""The least that is reserved ahead, where `storage.preallocate_bytes` lets it be more."""


class Segment:
    """One file of frames as it will be once everything planned is written.

    Everything below `synced` is durable. `proven_to` is the highest `synced_to` that a frame
    carries: above it, damage cannot be told from what a crash left.
    """

    __slots__ = (
        "busy", "chain", "data_end", "end", "file", "header", "path", "proven_to", "reserved",
        "seed", "synced",
    )  # fmt: skip

    def __init__(self, path: str, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.seed = header.seed
        self.file: File | None = None
        self.busy = False
        """Whether a write is in flight that may use the file."""
        self.chain = header.chain
        self.end = SEGMENT_HEADER_BYTES
        self.data_end = SEGMENT_HEADER_BYTES
        """The end of the last frame that is not a marker."""
        self.reserved = 0
        """The size that the file has or will have, including space reserved ahead."""
        # Holds before anything is written: the file gets its name after its header is durable.
        self.synced = SEGMENT_HEADER_BYTES
        self.proven_to = SEGMENT_HEADER_BYTES

    @property
    def first_index(self) -> int:
        return self.header.first_index

    def add_frame(
        self, buffers: list[bytes], *, kind: int, index: int, term: int, command: bytes, body: bytes
    ) -> int:
        """Plan a frame at the segment's end. Appends to `buffers`; returns the frame's position."""
        position = self.end
        assert self.synced <= position, "what is not written cannot be durable"
        header, self.chain = encode_frame_header(
            kind=kind,
            index=index,
            term=term,
            synced_to=self.synced,
            command=command,
            body=body,
            seed=self.seed,
            chain=self.chain,
        )
        buffers.append(header)
        if command:
            buffers.append(command)
        if body:
            buffers.append(body)
        self.end += len(header) + len(command) + len(body)
        self.proven_to = self.synced
        if kind != MARKER:
            self.data_end = self.end
        return position

    def reserve_ahead(self, ahead_max: int, size_max: int) -> int:
        """The size to reserve before writing up to `end`; 0 if there is room or none is wanted.

        It grows with the file, so that a thousand idle groups do not fill the disk with zeros.
        """
        if self.end <= self.reserved:
            return 0
        ahead = min(ahead_max, max(_RESERVE_BYTES_MIN, self.end // 4))
        self.reserved = max(self.end, min(self.end + ahead, size_max))
        return self.reserved if ahead else 0

    def truncate(self, end: int, chain: int) -> None:
        """Plan to truncate everything at and after `end`, a frame boundary with that chain."""
        assert SEGMENT_HEADER_BYTES <= end <= self.end
        self.end = end
        self.chain = chain
        self.data_end = min(self.data_end, end)
        self.synced = min(self.synced, end)
        self.reserved = end
        # The frame with the highest `synced_to` may be among those truncated: assume that none is
        # left.
        self.proven_to = SEGMENT_HEADER_BYTES

    def opened(self, fs: FileSystem) -> File:
        """The segment's file, opened at its first use."""
        if self.file is None:
            self.file = fs.open(self.path, create=False)
        return self.file

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class Piece:
    """Frames for one segment while they are planned. Without a `file` the write creates it."""

    __slots__ = ("buffers", "file", "has_body", "position", "reserve", "seal_at", "segment")

    def __init__(self, segment: Segment, *, file: File | None) -> None:
        self.segment = segment
        self.file = file
        self.has_body = False
        """Whether a frame of it carries records."""
        self.position = 0 if file is None else segment.end
        self.buffers: list[bytes] = [segment.header.encode()] if file is None else []
        self.reserve = 0
        self.seal_at: int | None = None

    def planned(self) -> FileWrite:
        """The work to do, as a value that later planning does not change."""
        return FileWrite(
            path=self.segment.path,
            file=self.file,
            position=self.position,
            buffers=tuple(self.buffers),
            reserve=self.reserve,
            seal_at=self.seal_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """One file's part of a write."""

    path: str
    file: File | None
    """None: the write creates the file, which gets its name once all of this is durable."""
    position: int
    buffers: tuple[bytes, ...]
    reserve: int
    """The size to reserve first; 0 for none."""
    seal_at: int | None
    """The final size of a sealed file, as the next segment's header says: space reserved ahead is
    given back. None: more frames may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Remove the files at `removed`, last first, then truncate `file` to `size`."""

    removed: tuple[str, ...]
    file: File
    size: int


class LogWrite:
    """One batch of I/O. Any thread may call `run`; then the owner calls `written`.

    If `run` raises (`DiskFailed`), nothing of the batch may be taken for durable and the process
    must end: the owner hands out no further write. If it returns with `short` set, there was no
    room, or a limit of the process was reached: run it again later, until it is `done`.
    """

    __slots__ = (
        "_files", "_folder", "_fs", "_running", "_truncation", "done", "has_body", "leave_bytes",
        "segments", "short",
    )  # fmt: skip

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        pieces: Sequence[Piece],
        truncation: Truncation | None = None,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._truncation = truncation
        self._files = deque(piece.planned() for piece in pieces)
        """The files that are not written yet."""
        self._running = False
        self.segments = tuple(piece.segment for piece in pieces)
        """The segments that get frames, only for their owner: `run` never looks at them."""
        self.has_body = any(piece.has_body for piece in pieces)
        """Whether it carries records, and not only what is small."""
        self.leave_bytes: int | None = None
        """While the disk is short of room: how much of it this write must leave, and then it
        reserves none ahead. None: there is room."""
        self.done = False
        self.short: ResourceShortage | None = None

    def run(self) -> None:
        """Do all the work in order, with one sync per touched file. Raises `DiskFailed`.

        A batch that was short of something continues with the file that needed it, and writes the
        same bytes to the same positions. This does not repeat a failed sync: the kernel refused
        those bytes before any sync of them was asked for, so it cannot have dropped them, and
        they were never reported as durable.
        """
        assert not self._running, "a write that failed is never tried again"
        assert not self.done, "a write is done once"
        self._running = True
        self.short = None
        try:
            if self._truncation is not None:
                self._run_truncation(self._truncation)
                self._truncation = None
            while self._files:
                self._run_file(self._files[0])
                self._files.popleft()
        except (ResourceShortage, MemoryError) as error:
            self.short = shortage_of(error, self._fs.location(self._folder))
        else:
            self.done = True
        self._running = False

    def run_whole(self) -> None:
        """Like `run`, but raises `ResourceShortage` as well, for callers that cannot wait."""
        self.run()
        if self.short is not None:
            raise self.short

    def _run_truncation(self, truncation: Truncation) -> None:
        # Each removal is durable before the next: a crash leaves a log without gaps.
        for path in truncation.removed:
            if self._fs.exists(path):  # else an earlier `run` removed it, and was short later
                self._fs.remove(path)
            self._fs.sync_folder(self._folder)
        truncation.file.truncate(truncation.size)
        # Durable before anything is appended: headers of truncated frames would otherwise vouch
        # for their old positions.
        truncation.file.sync()

    def _run_file(self, planned: FileWrite) -> None:
        path, file = planned.path, planned.file
        if file is None and self._fs.exists(path + NEW_FILE_ENDING):
            self._fs.remove(path + NEW_FILE_ENDING)  # an earlier `run` was short of something
        if self.leave_bytes:
            # What was reserved ahead, or written by an earlier `run`, has its room already.
            there = max(0, file.size() - planned.position) if file is not None else 0
            missing = max(0, sum(map(len, planned.buffers)) - there)
            if missing and self._fs.free_bytes() < self.leave_bytes + missing:
                raise DiskFull(file=self._fs.location(path))
        if file is None:
            file = self._fs.open(path + NEW_FILE_ENDING, create=True)
        try:
            if planned.reserve and self.leave_bytes is None:
                file.reserve(planned.reserve)
            file.write_at(planned.position, planned.buffers)
            if planned.seal_at is not None:
                file.truncate(planned.seal_at)
        except (ResourceShortage, MemoryError):
            if planned.file is None:
                file.close()
            raise
        file.sync()
        if planned.file is None:
            # It gets its name last: a file with the name has its header and its first frames.
            file.close()
            self._fs.rename(path + NEW_FILE_ENDING, path)
            self._fs.sync_folder(self._folder)


def remove_unfinished(fs: FileSystem, folder: str, ending: str) -> None:
    """Remove files of `ending` that a crash left unfinished. Nothing refers to them."""
    for name in fs.list(folder):
        if name.endswith(ending + NEW_FILE_ENDING):
            fs.remove(f"{folder}/{name}" if folder else name)
