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
"""The most bytes that the columns of a batch may take decompressed, together. It is no setting,
because the compactions of all replicas must agree."""

BATCH_ROWS_MAX = 1024 * 1024
"""The most records of a batch that may be decoded. Values that repeat, nulls and metadata columns
take memory for each record, and no bytes in the log. No setting, for the same reason."""

_ELEMENT_BYTES = 4
"""An element of a list or map counts at least so many bytes: readers that take it out of Arrow need
more than for a boolean's bit, of which a few kilobytes may claim thousands of millions."""

_CONTINUATION = 0xFFFF_FFFF
_PREFIX = struct.Struct("<III")
"""Of a message, with the offset of the first table, at which the metadata begin."""
_METADATA_START = 8
_U16, _I32, _U32, _I64 = (struct.Struct(f"<{code}") for code in "HiIq")
_BUFFER = _NODE = struct.Struct("<qq")
_VERSION_5 = 4
"""Of the enumeration MetadataVersion. In a message of version 4, Arrow looks for the compression in
the custom metadata as well."""
_RECORD_BATCH = 3
"""Of the union MessageHeader."""
_THREE, _FOUR = struct.Struct("<3H"), struct.Struct("<4H")
_NOT_COMPRESSED = -1
"""What a buffer of a compressed batch begins with that is stored as it is."""
_PLANES_BUFFERS_MAX = 2 * 16
"""Of a column in byte planes (`raftlog.records.byte_planes`)."""


class Claims(NamedTuple):
    """What a message says of the batch in it."""

    record_count: int
    decoded_bytes: int
    """Decompressed bytes of its buffers; at least `_ELEMENT_BYTES` for each element of its lists
    and maps, at all levels, beyond one for each record."""


def claims_of(message: memoryview, kind: str) -> Claims:
    """What the message claims.

    Args:
        message: Of one column, as a client wrote it.
        kind: The canonical text of the column's type.

    Raises:
        Unreadable: It is no record batch of version 5, its buffers do not lie in it, or it has more
            of them than its type could have.
    """
    try:
        # Each buffer of a type has more than one character in the type's text.
        return _claims_of(message, len(kind) + _PLANES_BUFFERS_MAX, kind.startswith("{"))
    except (struct.error, IndexError) as error:
        raise Unreadable(f"an Arrow message that is cut off: {error}") from None


def _claims_of(message: memoryview, buffers_max: int, is_nested: bool) -> Claims:
    continuation, length, root = _PREFIX.unpack_from(message)
    body_start = _METADATA_START + length
    if continuation != _CONTINUATION or body_start > len(message):
        raise Unreadable("no Arrow message")
    metadata = message[_METADATA_START:body_start]
    version, kind, header = _fields(metadata, root, _THREE)
    if not kind or not header or metadata[kind] != _RECORD_BATCH:
        raise Unreadable("an Arrow message that is no record batch")
    if not version or metadata[version] != _VERSION_5 or metadata[version + 1]:
        raise Unreadable("an Arrow message of another version than 5")
    at, nodes, buffers, compression = _fields(metadata, _followed(metadata, header), _FOUR)
    record_count = _I64.unpack_from(metadata, at)[0] if at else 0
    elements = 0
    if is_nested and nodes:
        # A node for the column and each member of it. What joined batches claim is no more than
        # the sum of their claims, so a merge of batches that may be decoded can be read.
        for length, _ in _NODE.iter_unpack(_pairs(metadata, nodes, buffers_max)):
            elements += max(0, length - record_count)
    body_bytes = len(message) - body_start
    decoded_bytes = 0
    rows = _pairs(metadata, buffers, buffers_max) if buffers else b""
    for offset, size in _BUFFER.iter_unpack(rows):
        if offset < 0 or size < 0 or offset + size > body_bytes:
            raise Unreadable(f"an Arrow buffer of {size} bytes at {offset} of {body_bytes}")
        if compression and size:
            decoded_bytes += _decompressed_bytes(message, body_start + offset, size)
        else:
            decoded_bytes += size
    return Claims(record_count, max(decoded_bytes, _ELEMENT_BYTES * elements))


def _pairs(metadata: memoryview, vector: int, count_max: int) -> memoryview:
    """The pairs of numbers of the vector, the offset of which lies here."""
    first = _followed(metadata, vector)
    count = _U32.unpack_from(metadata, first)[0]
    rows = metadata[first + _U32.size :][: count * _BUFFER.size]
    if count > count_max or len(rows) < count * _BUFFER.size:
        raise Unreadable(f"an Arrow message with {count} buffers in {len(metadata)} bytes")
    return rows


def _decompressed_bytes(message: memoryview, position: int, size: int) -> int:
    if size < _I64.size:
        raise Unreadable(f"a compressed Arrow buffer of {size} bytes")
    claimed: int = _I64.unpack_from(message, position)[0]
    if claimed == _NOT_COMPRESSED:
        return size - _I64.size
    if claimed < 0:
        raise Unreadable(f"an Arrow buffer that claims {claimed} bytes")
    return claimed


def _fields(metadata: memoryview, table: int, offsets: struct.Struct) -> list[int]:
    """Where the first fields of a table lie, as many as there are `offsets`; 0: it has none such.

    A table begins with where its vtable is: that one's size, the table's, and the offset of each
    field up to the last one that is there.
    """
    vtable = table - _I32.unpack_from(metadata, table)[0]
    if vtable < 0:
        raise Unreadable("an Arrow message with a table outside of it")
    size = _U16.unpack_from(metadata, vtable)[0]
    start = vtable + 2 * _U16.size
    if size < 2 * _U16.size + offsets.size:
        if size % _U16.size:
            raise Unreadable("an Arrow message with half an offset")
        there = bytes(metadata[start : max(start, vtable + size)])
        found = offsets.unpack(there.ljust(offsets.size, b"\0"))
    else:
        found = offsets.unpack_from(metadata, start)
    return [table + offset if offset else 0 for offset in found]


def _followed(metadata: memoryview, at: int) -> int:
    """Where the offset that lies here leads."""
    target: int = at + _U32.unpack_from(metadata, at)[0]
    return target
