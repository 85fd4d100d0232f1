"""What an Arrow IPC message of one record batch claims of itself, read without decoding it.

A column chunk is such a message (Arrow's columnar format, "Encapsulated message format"):

    continuation     4 bytes: 0xFFFFFFFF
    metadata length  4 bytes, little-endian
    metadata         a flatbuffer: the table Message, whose header is a table RecordBatch
    body             the buffers; a compressed one begins with its length without compression

Arrow allocates what a compressed buffer claims before it looks at the rest, and a few kilobytes can
claim terabytes. So leaders, readers and compactions look at the claims first.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from raftlog.wire.framing import Unreadable

BATCH_DECODED_BYTES_MAX = 256 * 1024 * 1024
"""The most bytes that a batch may take decompressed: leaders sum its columns, readers and
compactions check each one. It is no setting, because the compactions of all replicas must agree."""

_CONTINUATION = 0xFFFF_FFFF
_PREFIX = struct.Struct("<II")
_U16, _I32, _U32, _I64 = (struct.Struct(f"<{code}") for code in "HiIq")
_BUFFER = struct.Struct("<qq")
_RECORD_BATCH = 3
"""Of the union MessageHeader."""
_HEADER_TYPE, _HEADER = 1, 2
"""Fields of the table Message."""
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
"""Fields of the table RecordBatch."""
_NOT_COMPRESSED = -1
"""What a buffer of a compressed batch begins with that is stored as it is."""


class Claims(NamedTuple):
    """What a message says of the batch in it."""

    record_count: int
    decoded_bytes: int
    """Decompressed bytes of its buffers."""


def claims_of(message: memoryview) -> Claims:
    """What the message claims. Raises `Unreadable` for one that is no record batch, or whose
    buffers do not lie in it."""
    try:
        return _claims_of(message)
    except (struct.error, IndexError) as error:
        raise Unreadable(f"an Arrow message that is cut off: {error}") from None


def _claims_of(message: memoryview) -> Claims:
    continuation, length = _PREFIX.unpack_from(message)
    body_start = _PREFIX.size + length
    if continuation != _CONTINUATION or body_start > len(message):
        raise Unreadable("no Arrow message")
    metadata, body = message[_PREFIX.size : body_start], message[body_start:]
    root = _U32.unpack_from(metadata)[0]
    kind, header = _field(metadata, root, _HEADER_TYPE), _field(metadata, root, _HEADER)
    if not kind or not header or metadata[kind] != _RECORD_BATCH:
        raise Unreadable("an Arrow message that is no record batch")
    batch = _followed(metadata, header)
    at, buffers = _field(metadata, batch, _LENGTH), _field(metadata, batch, _BUFFERS)
    record_count = _I64.unpack_from(metadata, at)[0] if at else 0
    is_compressed = _field(metadata, batch, _COMPRESSION) > 0
    decoded_bytes = 0
    if buffers:
        first = _followed(metadata, buffers)
        count = _U32.unpack_from(metadata, first)[0]
        rows = metadata[first + _U32.size :][: count * _BUFFER.size]
        if len(rows) < count * _BUFFER.size:
            raise Unreadable(f"an Arrow message with {count} buffers in {len(metadata)} bytes")
        for offset, size in _BUFFER.iter_unpack(rows):
            decoded_bytes += _decoded_bytes(body, offset, size, is_compressed)
    return Claims(record_count, decoded_bytes)


def _decoded_bytes(body: memoryview, offset: int, size: int, is_compressed: bool) -> int:
    if offset < 0 or size < 0 or offset + size > len(body):
        raise Unreadable(f"an Arrow buffer of {size} bytes at {offset} of {len(body)}")
    if not is_compressed or size == 0:
        return size
    claimed: int = _I64.unpack_from(body, offset)[0]
    if claimed == _NOT_COMPRESSED:
        return size - _I64.size
    if claimed < 0:
        raise Unreadable(f"an Arrow buffer that claims {claimed} bytes")
    return claimed


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Where a field of a table lies; 0: it has none."""
    vtable = table - _I32.unpack_from(metadata, table)[0]
    if vtable < 0:
        raise Unreadable("an Arrow message with a table outside of it")
    entry = 2 * _U16.size + number * _U16.size
    if entry >= _U16.unpack_from(metadata, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(metadata, vtable + entry)[0]
    return table + offset if offset else 0


def _followed(metadata: memoryview, at: int) -> int:
    """Where the offset that lies here leads."""
    target: int = at + _U32.unpack_from(metadata, at)[0]
    return target
