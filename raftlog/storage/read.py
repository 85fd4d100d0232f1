"""Reading entries back from a log's files: checked, on the log's own thread or on any other.

A `LogRead` is planned on the log's thread, run on any, and looked at on the log's thread again. It
opens its files again, because those of the log may be closed meanwhile. What it planned to read may
be truncated and written over under it, or its file be gone: then it finds a problem, or nothing
that its owner wants any more (`GroupLog.incarnation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import Entry, Payload
from raftlog.errors import CorruptFile
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import FRAME_HEADER_BYTES, FrameHeader, decode_frame_header

_WHOLE_FRAME_BYTES = 64 * 1024
"""A frame up to this size is read at once; the body of a larger one apart, to spare a copy."""


class Place(NamedTuple):
    """Where an entry's frame lies in its file, and what its header must say."""

    entry_index: int
    position: int
    seed: int
    chain: int
    command_length: int
    body_length: int


def read_in_frame(file: File, place: Place, start: int, length: int) -> bytes:
    """Bytes of the entry's frame, counted from its start. All of them, or `CorruptFile`."""
    position = place.position + start
    data = file.read_at(position, length)
    if len(data) < length:
        raise CorruptFile(
            file=file.path,
            position=position,
            problem=f"entry {place.entry_index} ends after {len(data)} of {length} bytes",
        )
    return data


def read_command(file: File, place: Place) -> bytes:
    """The entry's command; its CRC is checked."""
    _, data = _read_frame(file, place, place.command_length)
    return data[FRAME_HEADER_BYTES:]


def read_payload(file: File, place: Place) -> Payload:
    """Command and body; the CRCs of both are checked."""
    body_at = FRAME_HEADER_BYTES + place.command_length
    if body_at + place.body_length <= _WHOLE_FRAME_BYTES:
        header, data = _read_frame(file, place, place.command_length + place.body_length)
        body = data[body_at:]
    else:
        header, data = _read_frame(file, place, place.command_length)
        body = read_in_frame(file, place, body_at, place.body_length)
    if crc32c(body) != header.body_crc:
        raise _damage(file, place, "the checksum of its body differs")
    return Payload(data[FRAME_HEADER_BYTES:body_at], body)


def _read_frame(file: File, place: Place, payload_bytes: int) -> tuple[FrameHeader, bytes]:
    """The frame's header, checked, and its bytes up to `payload_bytes` of its payload, the whole
    command at least."""
    data = read_in_frame(file, place, 0, FRAME_HEADER_BYTES + payload_bytes)
    header = decode_frame_header(data, 0, place.seed)
    if header is None or header.index != place.entry_index or header.chain != place.chain:
        raise _damage(file, place, "its header is not what was written")
    if crc32c(data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + header.command_length]) != (
        header.command_crc
    ):
        raise _damage(file, place, "the checksum of its command differs")
    return header, data


def _damage(file: File, place: Place, problem: str) -> CorruptFile:
    return CorruptFile(
        file=file.path, position=place.position, problem=f"entry {place.entry_index}: {problem}"
    )


class Wanted(NamedTuple):
    """An entry to read; without a place its payload was in memory."""

    entry: Entry
    path: str
    place: Place | None


class LogRead:
    """Consecutive entries, some of which must be read. `run` once, on any thread."""

    __slots__ = ("_found", "_fs", "_problem", "_wanted", "byte_count", "from_disk", "incarnation")

    def __init__(
        self, fs: FileSystem, wanted: Sequence[Wanted], *, byte_count: int, incarnation: int
    ) -> None:
        """`byte_count` of payload; `incarnation` is the log's, when this was planned."""
        self._fs = fs
        self._wanted = wanted
        self.byte_count = byte_count
        self.incarnation = incarnation
        self.from_disk = any(each.place is not None for each in wanted)
        """Without `run` there are no entries."""
        self._problem: CorruptFile | None = None
        self._found: tuple[Entry, ...] | None = None
        if not self.from_disk:
            self._found = tuple(each.entry for each in wanted)

    def run(self) -> None:
        """Read them. What is damaged or gone is not raised here: it may not be wanted any more."""
        assert self._found is None, "a read runs once, and only if there is something to read"
        try:
            self._found = tuple(self._read())
        except CorruptFile as error:
            self._problem = error

    def entries(self) -> tuple[Entry, ...]:
        """All of them. Raises the `CorruptFile` that was found in their stead."""
        if self._problem is not None:
            raise self._problem
        assert self._found is not None, "it was run"
        return self._found

    def _read(self) -> list[Entry]:
        found: list[Entry] = []
        file: File | None = None
        opened = ""
        try:
            for entry, path, place in self._wanted:
                if place is None:
                    found.append(entry)
                    continue
                if file is None or path != opened:
                    if file is not None:
                        file.close()
                    file, opened = self._open(path), path
                payload = read_payload(file, place)
                found.append(Entry(entry.index, entry.term, entry.kind, payload))
        finally:
            if file is not None:
                file.close()
        return found

    def _open(self, path: str) -> File:
        try:
            return self._fs.open(path, create=False)
        except FileNotFoundError:
            raise CorruptFile(
                file=self._fs.location(path), position=0, problem="the file is gone"
            ) from None
