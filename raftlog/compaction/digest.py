"""A digest of records: equal on two replicas if and only if their records are.

It depends on values, nulls and their order, and on columns' ids and types. It does not depend on
how Arrow lays them out: compression, padding, slices, and what lies in memory where a value is
null. docs/FORMAT.md says which bytes it covers. They never change, because replicas of two versions
compare it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.machines.schema import Field
from raftlog.records.arrow_types import is_list
from raftlog.wire.batch import BatchHeader

DIGEST_BYTES = 16

_RECORDS = b"raftlog records 1"
_CHUNKS = b"raftlog chunks 1"
_NUMBER = struct.Struct("<q")
_OFFSET = struct.Struct("<i")


def digest_records(fields: Sequence[Field], columns: Sequence[pa.Array[Any]]) -> bytes:
    """The digest of records whose columns are given as their physical types
    (`records.physical`)."""
    digest = _Digest(_RECORDS)
    digest.number(len(columns))
    for field, column in zip(fields, columns, strict=True):
        digest.number(field.id)
        digest.text(field.type)
        digest.number(len(column))
        digest.array(column)
    return digest.finish()


def digest_chunks(header: BatchHeader, body: bytes) -> bytes:
    """The digest of a batch that is not decoded: of its bytes as the client wrote them."""
    digest = _Digest(_CHUNKS)
    digest.number(header.record_count)
    digest.number(len(header.columns))
    for column in header.columns:
        digest.number(column.field_id)
        digest.number(column.length)
    digest.raw(body)
    return digest.finish()


class _Digest:
    """Each length stands before what it counts, so no two columns have the same bytes."""

    def __init__(self, kind: bytes) -> None:
        self._hash = hashlib.blake2b(kind, digest_size=DIGEST_BYTES)

    def number(self, value: int) -> None:
        self._hash.update(_NUMBER.pack(value))

    def text(self, value: str) -> None:
        data = value.encode()
        self.number(len(data))
        self.raw(data)

    def raw(self, data: bytes | pa.Buffer) -> None:
        self._hash.update(data)

    def finish(self) -> bytes:
        return self._hash.digest()

    def array(self, column: pa.Array[Any]) -> None:
        """One array of a length that was written already."""
        if column.null_count == 0:
            self.raw(b"\0")
        else:
            self.raw(b"\1")
            self.raw(_bits(column.is_valid()))
        kind = column.type
        if pa.types.is_struct(kind):
            # A field of a struct that is null is null itself.
            for member in column.flatten():  # type: ignore[attr-defined]  # a StructArray
                self.array(member)
        elif is_list(kind):
            lengths = pc.list_value_length(column)
            self.raw(_values(lengths, 4))
            members = column.flatten()  # type: ignore[attr-defined]  # without those of nulls
            self.number(len(members))
            self.array(members)
        elif pa.types.is_binary(kind):
            lengths = pc.binary_length(column)  # type: ignore[call-overload]  # a BinaryArray
            self.raw(_values(lengths, 4))
            self.raw(_bytes(column))
        elif pa.types.is_boolean(kind):
            self.raw(_bits(column))
        else:
            self.raw(_values(column, kind.byte_width))


def _values(column: pa.Array[Any], width: int) -> pa.Buffer:
    """The values of a column of fixed width, zero where null."""
    if column.null_count:
        zero = bytes(width) if pa.types.is_fixed_size_binary(column.type) else 0
        column = pc.fill_null(column, pa.scalar(zero, column.type))
    data = column.buffers()[1]
    if data is None:
        return pa.py_buffer(b"")
    return data.slice(column.offset * width, len(column) * width)


def _bytes(column: pa.Array[Any]) -> pa.Buffer:
    """The bytes of a binary column's values one after another, none where null."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(b"", column.type))
    _, offsets, data = column.buffers()
    if len(column) == 0 or offsets is None or data is None:
        return pa.py_buffer(b"")
    (start,) = _OFFSET.unpack_from(offsets, column.offset * _OFFSET.size)
    (end,) = _OFFSET.unpack_from(offsets, (column.offset + len(column)) * _OFFSET.size)
    return data.slice(start, end - start)


def _bits(column: pa.Array[Any]) -> bytes:
    """The values of a boolean column, 0 where null, the first in the lowest bit."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(False, column.type))
    length, data = len(column), column.buffers()[1]
    if data is None:
        return b""
    first, shift = divmod(column.offset, 8)
    bits = int.from_bytes(data.slice(first, (shift + length + 7) // 8).to_pybytes(), "little")
    return (bits >> shift & (1 << length) - 1).to_bytes((length + 7) // 8, "little")
