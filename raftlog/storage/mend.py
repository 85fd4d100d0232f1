"""A segment that is damaged at rest is written again, byte for byte as it was.

An open log knows of each entry where its frame lies, its kind, term, lengths and chain, and of each
segment its header. The chain covers every byte of a frame's header, and the header has the
checksums of the payload. So from a payload, wherever it comes from, follows the whole frame, or
that it is another one. The frame of a payload that is whole here needs no other copy.

What cannot be had stays as it is, with its raw bytes. The new file is read back before it takes the
place of the old one, which was changed by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import LogIndex, Payload
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    MARKER,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    PayloadSum,
    SegmentHeader,
    decode_frame_header,
    encode_described,
    encode_frame_header,
)
from raftlog.storage.index import EntryTable
from raftlog.storage.unfinished import finish_file, unfinished_file
from raftlog.storage.write import NEW_FILE_ENDING

_WRITES_BEHIND_MAX = 4096
"""A frame says up to which frame all was durable before it. That one is looked for so far back: in
the same write of the log, as a rule. No setting: more would be a write of a gigabyte."""


class SegmentPlan(NamedTuple):
    """What a segment is to hold. A value: it may be used on any thread."""

    folder: str
    path: str
    header: SegmentHeader
    end: int
    """The position after its last frame."""
    chain: int
    """The chain at `end`."""
    table: EntryTable
    """Its entries."""


class Examined(NamedTuple):
    """How a segment's file differs from its plan."""

    is_whole: bool
    missing: tuple[LogIndex, ...]
    """Entries whose payload is damaged: another node must give it."""
    can_open: bool
    """What is missing is no more than payloads: the log would open again."""


class _Frame(NamedTuple):
    position: int
    data: bytes
    """As it should be; the raw bytes of the file if that cannot be told."""
    is_whole: bool
    """The file has it so."""
    missing: LogIndex | None
    has_header: bool


def examine(fs: FileSystem, plan: SegmentPlan) -> Examined | None:
    """Compare the whole file with the plan; None if the file is gone."""
    try:
        file = fs.open(plan.path, create=False)
    except FileNotFoundError:
        return None
    try:
        return _compared(file, plan)
    finally:
        file.close()


def rewrite(
    fs: FileSystem, plan: SegmentPlan, given: Mapping[LogIndex, Payload]
) -> Examined | None:
    """Write the segment again, with what others gave for what is missing here. Nothing may write
    to it or remove it meanwhile. Durable when this returns; then files that were opened before are
    of no use any more.

    Returns how the new file differs from the plan; None if the file is gone, or the new one reads
    back otherwise than it was written: then nothing was changed. Raises `DiskFull` (nothing was
    changed) and `DiskFailed`.
    """
    if not fs.exists(plan.path):
        return None
    unfinished = plan.path + NEW_FILE_ENDING
    if fs.exists(unfinished):
        fs.remove(unfinished)
    old = fs.open(plan.path, create=False)
    try:
        with unfinished_file(fs, unfinished) as new:
            new.write_at(0, [plan.header.encode()])
            missing = []
            for frame in _Walk(old, plan, given):
                new.write_at(frame.position, [frame.data])
                if frame.missing is not None:
                    missing.append(frame.missing)
            written = _compared(new, plan)
    finally:
        old.close()
    if written.missing != tuple(missing):
        fs.remove(unfinished)
        return None
    finish_file(fs, unfinished, plan.path)
    return written


def _compared(file: File, plan: SegmentPlan) -> Examined:
    is_whole = file.read_at(0, SEGMENT_HEADER_BYTES) == plan.header.encode()
    can_open = True
    missing: list[LogIndex] = []
    walk = _Walk(file, plan, {})
    for frame in walk:
        is_whole = is_whole and frame.is_whole
        can_open = can_open and frame.has_header
        if frame.missing is not None:
            missing.append(frame.missing)
    fits = walk.chain == plan.chain
    return Examined(is_whole and fits, tuple(missing), can_open and fits)


class _Walk:
    """The frames of a segment as they should be, with the payloads that are here or were given.

    After them `chain` is the plan's, unless a marker was another one.
    """

    def __init__(self, file: File, plan: SegmentPlan, given: Mapping[LogIndex, Payload]) -> None:
        self._file = file
        self._table = plan.table
        self._seed = plan.header.seed
        self._given = given
        self._plan = plan
        self.chain = plan.header.chain
        self._ends = [SEGMENT_HEADER_BYTES]
        self._synced_to = SEGMENT_HEADER_BYTES
        self.end = SEGMENT_HEADER_BYTES

    def __iter__(self) -> Iterator[_Frame]:
        """All frames of the plan in order."""
        table = self._table
        for number in range(table.base_index + 1, table.last_index + 1):
            while self.end < table.position_at(number):
                yield self._marker(number - 1)
            yield self._entry(LogIndex(number))
        while self.end < self._plan.end:
            yield self._marker(table.last_index)

    def _marker(self, last: int) -> _Frame:
        """A marker after entry `last`: it is written only when all before it is durable."""
        position = self.end
        raw = self._file.read_at(position, FRAME_HEADER_BYTES)
        found = decode_frame_header(raw, 0, self._seed)
        self._synced_to = position
        self._go_to(position + FRAME_HEADER_BYTES)
        if found is not None and found.kind == MARKER and found.chains_from(self.chain):
            self.chain = found.chain
            return _Frame(position, raw, True, None, has_header=True)
        data, self.chain = encode_frame_header(
            kind=MARKER,
            index=last,
            term=self._table.term_at(last),
            synced_to=position,
            command=b"",
            body=b"",
            seed=self._seed,
            chain=self.chain,
        )
        return _Frame(position, data, False, None, has_header=True)

    def _entry(self, index: LogIndex) -> _Frame:
        """An entry with the payload that is here, or else the one that was given."""
        position = self.end
        lengths = self._table.lengths_at(index)
        length = FRAME_HEADER_BYTES + sum(lengths)
        raw = self._file.read_at(position, length)
        found = decode_frame_header(raw, 0, self._seed)
        if found is not None and found.chain != self._table.chain_at(index):
            found = None
        frame = None
        for payload in (_payload_in(raw, *lengths), self._given.get(index)):
            if payload is not None and frame is None:
                frame = self._frame_of(index, payload, found)
        if frame is None and found is not None:
            self._synced_to = found.synced_to
        self.chain = self._table.chain_at(index)
        self._go_to(position + length)
        if frame is not None:
            return _Frame(position, frame, frame == raw, None, has_header=True)
        raw += bytes(length - len(raw))
        return _Frame(position, raw, False, index, has_header=found is not None)

    def _go_to(self, end: int) -> None:
        self.end = end
        self._ends.append(end)

    def _frame_of(
        self, index: LogIndex, payload: Payload, found: FrameHeader | None
    ) -> bytes | None:
        """The frame with this payload, if it is the one that was written; `found` is its header,
        if that is whole."""
        command, body = payload
        if (len(command), len(body)) != self._table.lengths_at(index):
            return None
        summed = PayloadSum(len(command), len(body), crc32c(command), crc32c(body))
        candidates = (
            reversed(self._ends[-_WRITES_BEHIND_MAX:]) if found is None else (found.synced_to,)
        )
        for synced_to in candidates:
            if synced_to < self._synced_to:
                break  # it never falls
            header, chain = encode_described(
                kind=self._table.kind_at(index),
                index=index,
                term=self._table.term_at(index),
                synced_to=synced_to,
                payload=summed,
                seed=self._seed,
                chain=self.chain,
            )
            if chain == self._table.chain_at(index):
                self._synced_to = synced_to
                return header + command + body
        return None


def _payload_in(raw: bytes, command_length: int, body_length: int) -> Payload | None:
    middle = FRAME_HEADER_BYTES + command_length
    if len(raw) < middle + body_length:
        return None
    return Payload(raw[FRAME_HEADER_BYTES:middle], raw[middle:])
