"""Reading entries back from a log's files and checking them, on the log's own thread or another.

A `LogRead` is planned on the log's thread, run on any thread, and used on the log's thread again.
It opens its files separately, because the log may close its own meanwhile. While it runs, the log
may truncate and overwrite what it reads, or remove the file. Then it finds a problem, or entries
that its owner no longer wants (`GroupLog.incarnation`).
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
"""A frame up to this size is read at once. The body of a larger one is read by itself, which saves
a copy. No setting: what is sent is the same."""


class EntryFrame(NamedTuple):
    """An entry's frame: its position in its file, and what its header must say."""

    entry_index: int
    position: int
    seed: int
    chain: int
    command_length: int
    body_length: int


def read_in_frame(file: File, frame: EntryFrame, start: int, length: int) -> bytes:
    """Bytes of the frame, counted from its start. Raises `CorruptFile` if any are missing."""
    position = frame.position + start
    data = file.read_at(position, length)
    if len(data) < length:
        raise CorruptFile(
            file=file.path,
            position=position,
            problem=f"entry {frame.entry_index} ends after {len(data)} of {length} bytes",
        )
    return data


def read_command(file: File, frame: EntryFrame) -> bytes:
    """The entry's command. Checks its CRC. Raises `CorruptFile`."""
    _, data = _read_frame(file, frame, frame.command_length)
    return data[FRAME_HEADER_BYTES:]


def read_payload(file: File, frame: EntryFrame) -> Payload:
    """Command and body. Checks the CRCs of both. Raises `CorruptFile`."""
    body_at = FRAME_HEADER_BYTES + frame.command_length
    if body_at + frame.body_length <= _WHOLE_FRAME_BYTES:
        header, data = _read_frame(file, frame, frame.command_length + frame.body_length)
        body = data[body_at:]
    else:
        header, data = _read_frame(file, frame, frame.command_length)
        body = read_in_frame(file, frame, body_at, frame.body_length)
    if crc32c(body) != header.body_crc:
        raise _damage(file, frame, "the checksum of its body differs")
    return Payload(data[FRAME_HEADER_BYTES:body_at], body)


def _read_frame(file: File, frame: EntryFrame, payload_bytes: int) -> tuple[FrameHeader, bytes]:
    """The frame's checked header, and its bytes up to `payload_bytes` of the payload, at least the
    whole command."""
    data = read_in_frame(file, frame, 0, FRAME_HEADER_BYTES + payload_bytes)
    header = decode_frame_header(data, 0, frame.seed)
    if header is None or header.index != frame.entry_index or header.chain != frame.chain:
        raise _damage(file, frame, "its header is not what was written")
    if crc32c(data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + header.command_length]) != (
        header.command_crc
    ):
        raise _damage(file, frame, "the checksum of its command differs")
    return header, data


def _damage(file: File, frame: EntryFrame, problem: str) -> CorruptFile:
    return CorruptFile(
        file=file.path, position=frame.position, problem=f"entry {frame.entry_index}: {problem}"
    )


class FileRead:
    """Bytes [position, position + length) of a file, unchecked. `run` once, on any thread."""

    __slots__ = ("_fs", "_length", "_path", "_position", "crc", "damage", "data", "file_bytes")

    def __init__(self, fs: FileSystem, path: str, position: int, length: int) -> None:
        self._fs = fs
        self._path = path
        self._position = position
        self._length = length
        self.data: bytes | None = None
        """What was found, less where the file ends; None: there is no such file, or `damage`."""
        self.damage: CorruptFile | None = None
        """Why the disk cannot read them back."""
        self.crc = 0
        """Of `data`."""
        self.file_bytes = 0
        """The length of the whole file."""

    def run(self) -> None:
        """Read them."""
        try:
            file = self._fs.open(self._path, create=False)
        except FileNotFoundError:
            return
        try:
            self.file_bytes = file.size()
            # A peer may ask for any position: the system takes some for errors.
            position = min(self._position, self.file_bytes)
            self.data = file.read_at(position, self._length)
            self.crc = crc32c(self.data)
        except CorruptFile as damage:
            self.damage = damage
        finally:
            file.close()


class Wanted(NamedTuple):
    """An entry to read. Without a frame its payload was in memory."""

    entry: Entry
    path: str
    frame: EntryFrame | None


class LogRead:
    """Consecutive entries, some of which must be read from disk. `run` once, on any thread."""

    __slots__ = ("_found", "_fs", "_problem", "_wanted", "byte_count", "from_disk", "incarnation")

    def __init__(
        self, fs: FileSystem, wanted: Sequence[Wanted], *, byte_count: int, incarnation: int
    ) -> None:
        """`byte_count` is the payload bytes; `incarnation` is the log's at planning."""
        self._fs = fs
        self._wanted = wanted
        self.byte_count = byte_count
        self.incarnation = incarnation
        self.from_disk = any(each.frame is not None for each in wanted)
        """Whether `run` is needed before `entries`."""
        self._problem: CorruptFile | None = None
        self._found: tuple[Entry, ...] | None = None
        if not self.from_disk:
            self._found = tuple(each.entry for each in wanted)

    def run(self) -> None:
        """Read them. Does not raise for what is damaged or gone: it may no longer be wanted."""
        assert self._found is None, "a read runs once, and only if there is something to read"
        try:
            self._found = tuple(self._read())
        except CorruptFile as error:
            self._problem = error

    def entries(self) -> tuple[Entry, ...]:
        """All the entries. Raises the `CorruptFile` that `run` met."""
        if self._problem is not None:
            raise self._problem
        assert self._found is not None, "call `run` first"
        return self._found

    def _read(self) -> list[Entry]:
        found: list[Entry] = []
        file: File | None = None
        opened = ""
        try:
            for entry, path, frame in self._wanted:
                if frame is None:
                    found.append(entry)
                    continue
                if file is None or path != opened:
                    if file is not None:
                        file.close()
                    file, opened = self._open(path), path
                payload = read_payload(file, frame)
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
