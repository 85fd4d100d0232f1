"""A record batch as a header and column chunks, and back.

A chunk is one column, or its byte planes, as one Arrow IPC message, with a CRC-32C and statistics
in the header. Nothing here works row by row, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raftlog.checksum import chain, crc32c
from raftlog.errors import DataLoss, InvalidOption
from raftlog.machines.schema import RESERVED_NAMES, Field, Schema
from raftlog.records import byte_planes
from raftlog.records.arrow_types import arrow_schema, arrow_type, is_list, nulls
from raftlog.records.physical import check_layout
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX, BATCH_ROWS_MAX, claims_of
from raftlog.wire.batch import BOUND_BYTES_MAX, BatchHeader, Bound, ColumnChunk, EncodedBatch
from raftlog.wire.framing import Unreadable

COMPRESSIONS = ("lz4", "zstd", "none")
"""How a client may compress column chunks. Each chunk says how it was compressed."""

COMPRESS_BYTES_MIN = 4096
"""Smaller columns are not compressed: Arrow needs 50 us to start decompressing a chunk."""


# ---------------------------------------------------------------- encode


def encode_batch(batch: pa.RecordBatch, schema: Schema, compression: str) -> EncodedBatch:
    """The header and the body of a batch of at least one record, which `conform` has returned.

    Each column becomes one Arrow IPC record-batch message with its own CRC-32C and statistics, in
    byte planes if these make a compressed column smaller.
    Raises `InvalidOption` for a compression not in `COMPRESSIONS`.
    """
    assert batch.num_rows > 0, "a batch has records"
    assert batch.schema == arrow_schema(schema), "conform the batch first"
    chunks: list[ColumnChunk] = []
    buffers: list[pa.Buffer] = []
    _check_compression(compression)
    position = 0
    batch_crc = 0
    for field, column in zip(schema.fields, batch.columns, strict=True):
        used = compression if column.nbytes >= COMPRESS_BYTES_MIN else "none"
        split = used != "none" and byte_planes.saves(column)
        buffer = _write_planes(column, used) if split else _write_column(column, used)
        crc = crc32c(buffer)
        minimum, maximum = _bounds(column)
        chunks.append(
            ColumnChunk(
                field_id=field.id,
                position=position,
                length=buffer.size,
                crc=crc,
                null_count=column.null_count,
                minimum=minimum,
                maximum=maximum,
                in_planes=split,
            )
        )
        buffers.append(buffer)
        position += buffer.size
        batch_crc = chain(batch_crc, crc)
    header = BatchHeader(
        record_count=batch.num_rows, schema_version=schema.version, columns=tuple(chunks)
    )
    return EncodedBatch(header=header, body=b"".join(buffers), crc=batch_crc)


class _Layout:
    """What is needed to write or read the columns of a chunk, made once."""

    __slots__ = ("schema", "schema_message")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.schema_message = schema.serialize().to_pybytes()


@lru_cache(maxsize=1024)
def _layout(kind: pa.DataType) -> _Layout:
    """Of a column as it is."""
    return _Layout(pa.schema([pa.field("column", kind)]))


@lru_cache(maxsize=4)
def _planes_layout(width: int) -> _Layout:
    return _Layout(byte_planes.planes_schema(width))


@lru_cache(maxsize=len(COMPRESSIONS))
def _write_options(compression: str) -> pa.ipc.IpcWriteOptions:
    codecs: dict[str, Literal["lz4", "zstd"] | None]
    codecs = {"lz4": "lz4", "zstd": "zstd", "none": None}
    return pa.ipc.IpcWriteOptions(compression=codecs[compression], use_threads=False)


_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def _check_compression(compression: str) -> None:
    if compression not in COMPRESSIONS:
        raise InvalidOption(
            option="compression",
            problem=f"is {compression!r}",
            advice=f"Use one of {', '.join(COMPRESSIONS)}.",
        )


def _write_column(column: pa.Array[Any], compression: str) -> pa.Buffer:
    layout = _layout(column.type)
    batch = pa.RecordBatch.from_arrays([column], schema=layout.schema)
    return _write_message(batch, layout, compression)


def _write_planes(column: pa.Array[Any], compression: str) -> pa.Buffer:
    planes = byte_planes.split(column)
    return _write_message(planes, _planes_layout(planes.num_columns), compression)


def _write_message(batch: pa.RecordBatch, layout: _Layout, compression: str) -> pa.Buffer:
    """A record-batch message: an IPC stream without the schema at its start.

    `RecordBatch.serialize` gives such a message too, but cannot compress it.
    """
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, layout.schema, options=_write_options(compression))
    writer.write_batch(batch)
    # Do not close the writer: that would add the end-of-stream mark.
    return sink.getvalue().slice(len(layout.schema_message))


def _bounds(column: pa.Array[Any]) -> tuple[Bound, Bound]:
    """The smallest and the largest value, or None for a type without bounds.

    Text is ordered by its UTF-8 bytes. A column with a NaN has no bounds, because NaN has no place
    in the order.
    """
    kind = column.type
    if not _is_ordered(kind):
        return None, None
    if len(column) == 1:
        # To start Arrow's kernel takes longer than the rest of a small append.
        only = _bound(column[0])
        return (None, None) if only != only else (only, only)
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        return None, None
    both = pc.min_max(column)
    return _bound(both["min"]), _bound(both["max"])


@lru_cache(maxsize=256)
def _is_ordered(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )


def _bound(scalar: pa.Scalar[Any]) -> Bound:
    if not scalar.is_valid:
        return None
    found: Bound
    if isinstance(scalar, (pa.Date32Scalar, pa.TimestampScalar)):
        found = scalar.value  # type: ignore[union-attr]  # the stubs lack it for dates
        return found
    if isinstance(scalar, (pa.StringScalar, pa.BinaryScalar)):
        raw = scalar.as_buffer()
        if raw.size > BOUND_BYTES_MAX:
            return None
        found = raw.to_pybytes()
        return _text(found) if isinstance(scalar, pa.StringScalar) else found
    found = scalar.as_py()
    return found


def _text(raw: bytes) -> str | None:
    """None for bytes that are not UTF-8, which Spark's strings may hold: no bound then."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


# ---------------------------------------------------------------- decode


def decode_batch(
    header: BatchHeader,
    body: bytes | memoryview | pa.Buffer,
    schema: Schema,
    names: Sequence[str],
    *,
    latest: Schema | None = None,
) -> pa.RecordBatch:
    """The named columns of all records of a batch, in the order of `names`, as `schema` has them.

    The batch may be of another version of the schema: `latest`, by default `schema` itself, tells
    what that version has. A column that it lacks is null, and one that it has in another type is
    cast. Every chunk's CRC is verified. Without names the batch has no columns, but still its
    `num_rows`.

    Raises `DataLoss` with the column's name if the bytes are not those that the writer sent, or if
    the named columns take more than `BATCH_DECODED_BYTES_MAX` together, `MemoryError` where there
    is too little memory, `InvalidOption` for a name that is no column, and `NotInSchema` for
    records that `schema` has no place for, which can only be of a later version.
    """
    buffer = body if isinstance(body, pa.Buffer) else pa.py_buffer(body)
    if header.record_count > BATCH_ROWS_MAX:
        raise DataLoss(
            what=f"A batch has {header.record_count} records; {BATCH_ROWS_MAX} are allowed."
        )
    chunks = {chunk.field_id: chunk for chunk in header.columns}
    written = _written(header, latest or schema)
    asked = [_field(schema, name) for name in names]
    missing = _missing(header, [each for each in asked if written.field(each.id) is None])
    room = _Room()
    columns = []
    fields = []
    for field in asked:
        kind = arrow_type(field.type)
        form = written.field(field.id)
        if form is None:
            columns.append(missing[field.id])
        else:
            column = _read_column(form, chunks.get(field.id), buffer, header, room)
            if form.nullable and not field.nullable and column.null_count:
                raise NotInSchema(f"  {field.name}: NOT NULL, and later records have nulls")
            columns.append(column if column.type == kind else _cast(column, field, form, room))
        fields.append(pa.field(field.name, kind, nullable=field.nullable))
    if not columns:
        return _no_columns(header.record_count)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


class _Room:
    """What the columns of a batch may still take, as they are read."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, field: Field, byte_count: int) -> None:
        """Raises `DataLoss` if there is too little left."""
        self._taken += byte_count
        if self._taken > BATCH_DECODED_BYTES_MAX:
            raise DataLoss(
                what=f"Column {field.name!r} claims {byte_count} bytes decompressed, and the batch "
                f"{self._taken}; {BATCH_DECODED_BYTES_MAX} are allowed."
            )


def _missing(header: BatchHeader, fields: Sequence[Field]) -> dict[int, pa.Array[Any]]:
    """Columns that the batch lacks, by field id. Their nulls share one piece of memory."""
    for field in fields:
        if not field.nullable:
            raise NotInSchema(f"  {field.name}: NOT NULL, and later records do not have it")
    if not fields:
        return {}
    kinds = pa.struct([(field.name, arrow_type(field.type)) for field in fields])
    made: Any = nulls(header.record_count, kinds)
    return {field.id: made.field(number) for number, field in enumerate(fields)}


class NotInSchema(ValueError):
    """Records of a later version do not fit the columns of an earlier one; the text says which."""


def _written(header: BatchHeader, latest: Schema) -> Schema:
    """The schema as the writer of the batch had it."""
    version = header.schema_version
    if not 1 <= version <= latest.version:
        raise DataLoss(
            what=f"A batch is of version {version} of its topic's schema, which is at "
            f"{latest.version}."
        )
    return latest.at(version)


def _cast(column: pa.Array[Any], field: Field, form: Field, room: _Room) -> pa.Array[Any]:
    """The values of the type that they were written in as those of another that it widened from,
    or to."""
    differs = f"  {field.name}: {field.type}, and later records have {form.type}"
    kind = arrow_type(field.type)
    room.take(field, _bytes_as(column, kind))
    try:
        found = column.cast(kind)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise NotInSchema(f"{differs}: {error}") from error
    if _rounds(column, found):
        raise NotInSchema(f"{differs}: a value that is none of the narrower type")
    return found


def _bytes_as(column: Any, kind: Any) -> int:
    """Bytes that the column takes at least, once it is cast."""
    count: int = len(column)
    if pa.types.is_struct(kind):
        kinds = [each.type for each in kind]
        former = min(len(kinds), column.type.num_fields)
        kept = sum(_bytes_as(column.field(each), kinds[each]) for each in range(former))
        return kept + sum(nulls(8, each).nbytes * count // 8 for each in kinds[former:])
    if pa.types.is_map(kind):
        return int(column.keys.nbytes) + _bytes_as(column.items, kind.item_type)
    if is_list(kind):
        return 4 * count + _bytes_as(column.values, kind.value_type)
    if pa.types.is_primitive(kind):
        return count * int(kind.bit_width) // 8
    return int(column.nbytes)


def _rounds(before: Any, after: Any) -> bool:
    """Whether a cast changed a double: alone of all casts, that to float does so silently."""
    kind = before.type
    if pa.types.is_float64(kind) and pa.types.is_float32(after.type):
        wide, narrow = (each.to_numpy(zero_copy_only=False) for each in (before, after))
        return not np.array_equal(wide, narrow.astype(wide.dtype), equal_nan=True)
    if pa.types.is_struct(kind):
        return any(map(_rounds, before.flatten(), after.flatten()))
    if pa.types.is_map(kind):
        return _rounds(before.keys, after.keys) or _rounds(before.items, after.items)
    if pa.types.is_list(kind):
        return _rounds(before.flatten(), after.flatten())
    return False


def _read_column(
    field: Field, chunk: ColumnChunk | None, body: pa.Buffer, header: BatchHeader, room: _Room
) -> pa.Array[Any]:
    """The column as it was written: `field` is that of the batch's version of the schema."""
    if chunk is None:
        raise DataLoss(what=f"Column {field.name!r} is not in the batch.")
    if chunk.position + chunk.length > body.size:
        raise DataLoss(what=f"Column {field.name!r} ends beyond the batch's {body.size} bytes.")
    data = body.slice(chunk.position, chunk.length)
    found = crc32c(data)
    if found != chunk.crc:
        raise DataLoss(
            what=f"Column {field.name!r} has CRC {found:08x} and was written with {chunk.crc:08x}."
        )
    kind = arrow_type(field.type)
    try:
        claimed_bytes = claims_of(memoryview(data), field.type).decoded_bytes
        room.take(field, claimed_bytes)
        column = _planes_of(data, kind) if chunk.in_planes else _column_of(data, kind)
        check_layout(column)
        if claimed_bytes > data.size:
            column = _without_waste(column)
    except pa.ArrowMemoryError:
        raise  # the bytes may be right
    except (Unreadable, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and "alloc" in str(error).lower():
            raise MemoryError(str(error)) from error  # of lz4 or zstd: the bytes may be right
        raise DataLoss(what=f"Column {field.name!r} is not an Arrow message: {error}.") from error
    if len(column) != header.record_count:
        raise DataLoss(
            what=f"Column {field.name!r} has {len(column)} values for "
            f"{header.record_count} records."
        )
    return column


def _without_waste(column: pa.Array[Any]) -> pa.Array[Any]:
    """The column, in memory of its own if it refers to less than half of what it holds.

    A few bytes of zstd may be megabytes that no offset refers to, and `nbytes`, by which readers
    bound what they keep, does not count them.
    """
    if column.get_total_buffer_size() <= 2 * column.nbytes:
        return column
    return pa.concat_arrays([column])


def _column_of(message: pa.Buffer, kind: pa.DataType) -> pa.Array[Any]:
    """The column of a message that `_write_column` made. Raises as `_read_message` does."""
    return _read_message(message, _layout(kind)).column(0)


def _planes_of(message: pa.Buffer, kind: pa.DataType) -> pa.Array[Any]:
    """The column of a message that `_write_planes` made. Raises as `_read_message` does."""
    width = byte_planes.width_of(kind)
    if not width:
        raise pa.ArrowInvalid(f"{kind} has no byte planes")
    planes = _read_message(message, _planes_layout(width))
    planes.validate()
    return byte_planes.join(planes, kind)


def _read_message(message: pa.Buffer, layout: _Layout) -> pa.RecordBatch:
    """What `_write_message` was given.

    `pa.ipc.read_record_batch` takes the message as it is, but hands each of its buffers to Arrow's
    threads, and waits: for most columns that takes longer than to decompress them and to copy the
    message behind its schema. Raises what Arrow raises for bytes that are no such message.
    """
    stream = b"".join((layout.schema_message, memoryview(message)))
    batch = next(pa.ipc.open_stream(stream, options=_IN_THIS_THREAD), None)
    if batch is None:
        raise pa.ArrowInvalid("there is no record batch")
    return batch


def _field(schema: Schema, name: str) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
    known = ", ".join([field.name for field in schema.fields] + list(RESERVED_NAMES))
    raise InvalidOption(
        option="columns", problem=f"names {name!r}", advice=f"The topic has: {known}."
    )


def _no_columns(record_count: int) -> pa.RecordBatch:
    """A batch that is only a count of rows, because `from_arrays([])` always has 0 rows."""
    empty: Any = pa.StructArray.from_buffers(pa.struct([]), record_count, [None])
    return pa.RecordBatch.from_struct_array(empty)
