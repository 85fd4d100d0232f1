"""Batches as an attacker writes them: a few bytes that take, or claim, very much memory.

All checksums are right, and no client's check sees them: their messages are made here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from raftlog.checksum import chain, crc32c
from raftlog.records.arrow_types import schema_of
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX
from raftlog.wire.batch import BatchHeader, ColumnChunk, EncodedBatch

SCHEMA = schema_of("id BIGINT, a STRING, b STRING, c STRING")
GIB = 1 << 30
ROWS_CLAIMED = 2**31 - 1
_PREFIX_BYTES = 8
_LONG = struct.Struct("<q")


def message_of(
    column: pa.Array[Any], compression: str | None = None, metadata: dict[str, str] | None = None
) -> bytes:
    """A record-batch message of the column. With `metadata` it is of version 4, and has these."""
    schema = pa.schema([pa.field("column", column.type)])
    version = pa.ipc.MetadataVersion.V4 if metadata else pa.ipc.MetadataVersion.V5
    options = pa.ipc.IpcWriteOptions(compression=compression, metadata_version=version)
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, schema, options=options)
    writer.write_batch(
        pa.RecordBatch.from_arrays([column], schema=schema), custom_metadata=metadata
    )
    stream = sink.getvalue().to_pybytes()
    return stream[stream.index(b"\xff\xff\xff\xff", 4) :]


def with_longs(message: bytes, before: int, after: int) -> bytes:
    """The message with another number wherever its metadata has this one in 8 bytes."""
    (length,) = struct.unpack_from("<I", message, 4)
    metadata = message[: _PREFIX_BYTES + length]
    assert _LONG.pack(before) in metadata
    return metadata.replace(_LONG.pack(before), _LONG.pack(after)) + message[len(metadata) :]


def batch_of(messages: Sequence[bytes], record_count: int) -> EncodedBatch:
    """A batch with a column of each message."""
    columns = []
    position = crc = 0
    for number, message in enumerate(messages, 1):
        found = crc32c(message)
        columns.append(ColumnChunk(number, position, len(message), found, 0))
        crc = chain(crc, found)
        position += len(message)
    header = BatchHeader(record_count=record_count, schema_version=1, columns=tuple(columns))
    return EncodedBatch(header=header, body=b"".join(messages), crc=crc)


def text(byte_count: int, compression: str) -> bytes:
    """One text of so many zeros, as it compresses."""
    offsets = pa.py_buffer(struct.pack("<2i", 0, byte_count))
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(bytes(byte_count))])
    return message_of(column, compression)


def unreferenced(byte_count: int, compression: str) -> bytes:
    """One empty text, with so many zeros that no offset refers to."""
    message = text(byte_count, compression)
    offsets = [struct.pack("<2i", first, byte_count) for first in (0, byte_count)]
    before, after = (pa.compress(each, codec=compression, asbytes=True) for each in offsets)
    assert message.count(before) == 1
    assert len(before) == len(after)
    return message.replace(before, after)


_SMALL = message_of(pa.array(["small"]))
_ID = message_of(pa.array([1]))


def with_text(message: bytes) -> EncodedBatch:
    """One record of `SCHEMA` with this as its column `a`."""
    return batch_of([_ID, message, _SMALL, _SMALL], 1)


def expanding(compression: str) -> EncodedBatch:
    """A text that takes as much as a batch may, and a little more for its offsets."""
    return with_text(text(BATCH_DECODED_BYTES_MAX, compression))


def wasteful(compression: str = "zstd") -> EncodedBatch:
    """A few kilobytes that a leader takes, and that take nearly as much as a batch may."""
    return with_text(unreferenced(BATCH_DECODED_BYTES_MAX - (1 << 20), compression))


def claiming() -> EncodedBatch:
    """Half a MiB that claims 16 GiB."""
    count, width = 20_000, 8
    noise = [f"{number * 2_654_435_761 % 2**32:0{width}x}" for number in range(count)]
    message = message_of(pa.array(noise), "zstd")
    held = _LONG.pack(width * count)
    assert message.count(held) == 1
    small = message_of(pa.array(["small"] * count))
    message = message.replace(held, _LONG.pack(16 * GIB))
    return batch_of([message_of(pa.array(range(count))), message, small, small], count)


def summing() -> EncodedBatch:
    """Three columns that take too much only together."""
    part = text(BATCH_DECODED_BYTES_MAX // 2, "zstd")
    return batch_of([_ID, part, part, part], 1)


def hidden() -> EncodedBatch:
    """A column that is compressed as Arrow 0.17 did it: only custom metadata say so."""
    claimed = pa.array([16 * GIB] + [0] * 76)
    message = message_of(claimed, metadata={"ARROW:experimental_compression": "zstd"})
    message = with_longs(message, len(claimed), 1)
    return batch_of([message, _SMALL, _SMALL, _SMALL], 1)


LISTS = schema_of("id BIGINT, v ARRAY<BOOLEAN>")


def list_of(elements: int, compression: str | None = "zstd") -> EncodedBatch:
    """One record of `LISTS` with so many booleans, a bit each."""
    kind = pa.list_(pa.field("element", pa.bool_()))
    bits = pa.py_buffer(bytes(-(-elements // 8)))
    members = pa.Array.from_buffers(pa.bool_(), elements, [None, bits])
    offsets = pa.py_buffer(struct.pack("<2i", 0, elements))
    column = pa.Array.from_buffers(kind, 1, [None, offsets], children=[members])
    return batch_of([_ID, message_of(column, compression)], 1)


def counting() -> EncodedBatch:
    """Two thousand million records in a kilobyte."""
    count = 77
    ids, texts = pa.array(range(count)), pa.array([""] * count)
    messages = [message_of(each) for each in (ids, texts, texts, texts)]
    return batch_of([with_longs(each, count, ROWS_CLAIMED) for each in messages], ROWS_CLAIMED)


def crowded() -> EncodedBatch:
    """A message of more buffers than a text has."""
    many = pa.StructArray.from_arrays([pa.array([1])] * 1_000, [f"{each}" for each in range(1_000)])
    return with_text(message_of(many))


def of_dictionary() -> EncodedBatch:
    """A dictionary in place of values."""
    return with_text(message_of(pa.array(["a"]).dictionary_encode()))


REJECTED = {
    "expanding-zstd": (lambda: expanding("zstd"), "bytes decompressed"),
    "expanding-lz4": (lambda: expanding("lz4"), "bytes decompressed"),
    "claiming": (claiming, "bytes decompressed"),
    "summing": (summing, "bytes decompressed"),
    "hidden": (hidden, "of another version than 5"),
    "counting": (counting, f"{ROWS_CLAIMED} records"),
    "crowded": (crowded, "buffers"),
    "of_dictionary": (of_dictionary, "no record batch"),
}
"""What leaders reject, with a part of the error's text."""


_STRAYING = pa.py_buffer(struct.pack("<4i", 0, GIB, GIB, 8))


def straying_text() -> pa.Array[Any]:
    """Three texts whose offsets lie far outside of them, which a leader cannot see."""
    return pa.Array.from_buffers(pa.string(), 3, [None, _STRAYING, pa.py_buffer(b"abcdefgh")])


def straying_lists() -> pa.Array[Any]:
    """Three lists whose offsets do."""
    kind = pa.list_(pa.field("element", pa.int64()))
    return pa.Array.from_buffers(kind, 3, [None, _STRAYING], children=[pa.array(range(8))])


def straying() -> EncodedBatch:
    """Three records with such texts."""
    small = message_of(pa.array(["small"] * 3))
    return batch_of([message_of(pa.array(range(3))), message_of(straying_text()), small, small], 3)


_POOLS: list[pa.MemoryPool] = []


@contextmanager
def arrow_memory() -> Iterator[pa.MemoryPool]:
    """A memory pool that all Arrow's allocations in the block are made from."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    _POOLS.append(pool)  # arrays may outlive the block, and do not keep their pool
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(usual)
