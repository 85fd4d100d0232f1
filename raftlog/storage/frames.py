"""The bytes of a segment: its header, and the headers of the frames that follow it.

A segment is a 64-byte header followed by frames without gaps. After the last frame come zeros
(space reserved ahead) or what a crash left. A frame is a 56-byte header, its command and its body.
All integers are little-endian.

What makes a frame valid:

- Its own CRC over its fields, seeded by the random id of the segment. So a header can be told from
  payload bytes and from any other segment's header without its predecessor.
- Its chain, the CRC over the fields of all frames up to and including it, starting from the
  segment's header. So it is where it was written, and nothing before it is missing.
- CRCs of command and body in the header, one each. So commands are read and checked without their
  bodies, and the chain covers payloads without reading any.

The own CRC is not part of the chain: the CRC of bytes followed by their own CRC is a constant.

`synced_to` is the position in the same segment below which everything was durable before the
frame was written. It needs no segment number: a segment's file gets its name only when its
predecessor and its own header are durable, so everything in earlier segments is durable by then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from raftlog.checksum import crc32c

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"RAFTLOG\n"
FRAME_MAGIC = b"\xd7RL\x1e"
MARKER = 0x80
"""The kind of a marker: a frame that only carries `synced_to`, and the index and the term of the
last entry before it (in a journal 0). It has no payload."""
HARD_STATES = 0x81
"""The kind of a journal's frame. Entries of a log have the numbers of `EntryKind`."""

_SEGMENT = struct.Struct("<8sIIQQQQI8x")
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct("<4sB3xIIQQQII")
_CRCS = struct.Struct("<II")

SEGMENT_HEADER_BYTES = _SEGMENT.size + _CRC.size
FRAME_HEADER_BYTES = _FIELDS.size + _CRCS.size
_PAYLOAD_LIMIT = 1 << 32
"""Lengths have 32 bits on disk. `server.entry_bytes_max` is the setting, far below."""

assert SEGMENT_HEADER_BYTES == 64
assert FRAME_HEADER_BYTES == 56


class Purpose(IntEnum):
    """What a segment's frames are. The numbers are on disk: never reuse one."""

    LOG = 1
    HARD_STATES = 2
    STAGES = 3
    HISTORY = 4
    """No frames: row groups follow the header (`raftlog.image.history_file`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """The identity of a segment. `previous_end` and `previous_chain` say where its predecessor
    ends; both are 0 if it has none.
    """

    purpose: Purpose
    segment_id: int
    group: int
    first_index: int
    previous_end: int
    previous_chain: int

    @property
    def seed(self) -> int:
        """The initial value of its frames' own CRCs."""
        return crc32c(self.segment_id.to_bytes(8, "little"))

    @property
    def chain(self) -> int:
        """The initial value of its frames' chain."""
        return crc32c(self._fields())

    def encode(self) -> bytes:
        """The first 64 bytes of the segment's file."""
        fields = self._fields()
        return fields + _CRC.pack(crc32c(fields))

    def _fields(self) -> bytes:
        return _SEGMENT.pack(
            SEGMENT_MAGIC,
            FORMAT_VERSION,
            self.purpose,
            self.segment_id,
            self.group,
            self.first_index,
            self.previous_end,
            self.previous_chain,
        )


class UnreadableHeader(NamedTuple):
    """Why bytes are not a segment header. `version` is set if only the format is unknown."""

    problem: str
    version: int | None = None


def decode_segment_header(data: bytes) -> SegmentHeader | UnreadableHeader:
    """Decode a file's first 64 bytes. Magic, version and CRC have one position in all formats."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return UnreadableHeader(f"its header has {len(data)} of {SEGMENT_HEADER_BYTES} bytes")
    magic, version, purpose, segment_id, group, first_index, end, chain = _SEGMENT.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        return UnreadableHeader("it does not begin like a segment")
    (crc,) = _CRC.unpack_from(data, _SEGMENT.size)
    if crc != crc32c(data[: _SEGMENT.size]):
        return UnreadableHeader("the checksum of its header differs")
    if version != FORMAT_VERSION:
        return UnreadableHeader(f"its format is {version}", version)
    if purpose not in set(Purpose):
        return UnreadableHeader(f"its purpose {purpose} is unknown")
    header = SegmentHeader(
        purpose=Purpose(purpose),
        segment_id=segment_id,
        group=group,
        first_index=first_index,
        previous_end=end,
        previous_chain=chain,
    )
    # Reserved bytes must be zero: then what was read is exactly what `encode` would write.
    if header.encode() != data[:SEGMENT_HEADER_BYTES]:
        return UnreadableHeader("its reserved bytes are not zero")
    return header


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """One frame. `index` counts entries in a log and frames in a journal; a marker has that of the
    last entry before it, or 0."""

    kind: int
    index: int
    term: int
    synced_to: int
    command_length: int
    body_length: int
    command_crc: int
    body_crc: int
    chain: int
    """The chain including this frame."""
    fields_chained: bytes
    """The bytes that `chains_from` extends the chain by."""

    @property
    def payload_bytes(self) -> int:
        return self.command_length + self.body_length

    @property
    def frame_bytes(self) -> int:
        return FRAME_HEADER_BYTES + self.command_length + self.body_length

    def chains_from(self, chain: int) -> bool:
        """Whether the frame comes directly after a frame with this chain."""
        return self.chain == crc32c(self.fields_chained, chain)


def encode_frame_header(
    *,
    kind: int,
    index: int,
    term: int,
    synced_to: int,
    command: bytes,
    body: bytes,
    seed: int,
    chain: int,
) -> tuple[bytes, int]:
    """The header of a frame after one with `chain`, and the chain that includes it."""
    assert len(command) < _PAYLOAD_LIMIT, "a command's length is kept in 32 bits"
    assert len(body) < _PAYLOAD_LIMIT, "a body's length is kept in 32 bits"
    described = PayloadSum(len(command), len(body), crc32c(command), crc32c(body))
    return encode_described(
        kind=kind,
        index=index,
        term=term,
        synced_to=synced_to,
        payload=described,
        seed=seed,
        chain=chain,
    )


class PayloadSum(NamedTuple):
    """What a frame's header says of its payload."""

    command_length: int
    body_length: int
    command_crc: int
    body_crc: int


def encode_described(
    *, kind: int, index: int, term: int, synced_to: int, payload: PayloadSum, seed: int, chain: int
) -> tuple[bytes, int]:
    """As `encode_frame_header`, for a payload that is not at hand."""
    fields = frame_fields(kind=kind, index=index, term=term, synced_to=synced_to, payload=payload)
    return complete_fields(fields, seed, chain)


def frame_fields(*, kind: int, index: int, term: int, synced_to: int, payload: PayloadSum) -> bytes:
    """The bytes of a frame's header that its two checksums are of."""
    return _FIELDS.pack(
        FRAME_MAGIC,
        kind,
        payload.command_length,
        payload.body_length,
        index,
        term,
        synced_to,
        payload.command_crc,
        payload.body_crc,
    )


def complete_fields(fields: bytes, seed: int, chain: int) -> tuple[bytes, int]:
    """The header with these fields after a frame with `chain`, and the chain that includes it."""
    chain = crc32c(fields, chain)
    return fields + _CRCS.pack(crc32c(fields, seed), chain), chain


def decode_frame_header(data: bytes, at: int, seed: int) -> FrameHeader | None:
    """The header at data[at:] if it is valid by itself in the segment with `seed`, else None.

    Its chain is not checked: see `FrameHeader.chains_from`.
    """
    if len(data) - at < FRAME_HEADER_BYTES:
        return None
    fields = data[at : at + _FIELDS.size]
    (own_crc,) = _CRC.unpack_from(data, at + _FIELDS.size)
    if own_crc != crc32c(fields, seed) or not fields.startswith(FRAME_MAGIC):
        return None
    return unchecked_frame_header(data, at)


def unchecked_frame_header(data: bytes, at: int) -> FrameHeader:
    """What the bytes at data[at:] say, whether they are damaged or not."""
    fields = data[at : at + _FIELDS.size]
    _, chain = _CRCS.unpack_from(data, at + _FIELDS.size)
    _, kind, command_length, body_length, index, term, synced_to, command_crc, body_crc = (
        _FIELDS.unpack(fields)
    )
    return FrameHeader(
        kind,
        index,
        term,
        synced_to,
        command_length,
        body_length,
        command_crc,
        body_crc,
        chain,
        fields,
    )


def confirms(data: bytes, header: bytes) -> bool:
    """Does either checksum of a damaged header agree with the whole one?"""
    own, chain = slice(_FIELDS.size, _FIELDS.size + 4), slice(_FIELDS.size + 4, FRAME_HEADER_BYTES)
    return data[own] == header[own] or data[chain] == header[chain]


def fields_with_one_byte_changed(data: bytes, seed: int) -> bytes | None:
    """The fields of a damaged header with another value in one byte, so that its own CRC fits."""
    (own_crc,) = _CRC.unpack_from(data, _FIELDS.size)
    return _with_one_byte_changed(data[: _FIELDS.size], own_crc, seed)


def likely_segment_headers(
    data: bytes, *, purpose: Purpose, group: int, first_index: int
) -> Iterator[SegmentHeader]:
    """What a damaged header of this segment may have said: all that is not known as it is in
    `data`, or the header whose CRC fits once another value is in one byte."""
    _, _, _, segment_id, _, _, end, chain = _SEGMENT.unpack_from(data)
    yield SegmentHeader(
        purpose=purpose,
        segment_id=segment_id,
        group=group,
        first_index=first_index,
        previous_end=end,
        previous_chain=chain,
    )
    (crc,) = _CRC.unpack_from(data, _SEGMENT.size)
    fields = _with_one_byte_changed(data[: _SEGMENT.size], crc, 0)
    if fields is not None:
        header = decode_segment_header(fields + _CRC.pack(crc))
        if isinstance(header, SegmentHeader):
            yield header


def _with_one_byte_changed(data: bytes, crc: int, seed: int) -> bytes | None:
    """The data with another value in one byte, so that its CRC is `crc`; None: none has it."""
    found = _one_byte_errors(len(data)).get(crc32c(data, seed) ^ crc)
    if found is None:
        return None
    position, change = found
    return data[:position] + bytes((data[position] ^ change,)) + data[position + 1 :]


@cache
def _one_byte_errors(length: int) -> dict[int, tuple[int, int]]:
    """What a change of one byte changes in the CRC of so many: the same whatever they are."""
    unchanged = crc32c(bytes(length))
    errors = {
        crc32c(bytes(position) + bytes((change,)) + bytes(length - position - 1)) ^ unchanged: (
            position,
            change,
        )
        for position in range(length)
        for change in range(1, 256)
    }
    assert len(errors) == 255 * length, "the CRC tells all of them apart"
    return errors
