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
from dataclasses import dataclass
from enum import IntEnum
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
    fields = _FIELDS.pack(
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
    chain = crc32c(fields, chain)
    return fields + _CRCS.pack(crc32c(fields, seed), chain), chain


def decode_frame_header(data: bytes, at: int, seed: int) -> FrameHeader | None:
    """The header at data[at:] if it is valid by itself in the segment with `seed`, else None.

    Its chain is not checked: see `FrameHeader.chains_from`.
    """
    if len(data) - at < FRAME_HEADER_BYTES:
        return None
    fields = data[at : at + _FIELDS.size]
    own_crc, chain = _CRCS.unpack_from(data, at + _FIELDS.size)
    if own_crc != crc32c(fields, seed):
        return None
    magic, kind, command_length, body_length, index, term, synced_to, command_crc, body_crc = (
        _FIELDS.unpack(fields)
    )
    if magic != FRAME_MAGIC:
        return None
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
