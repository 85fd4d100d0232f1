"""Record batches as Arrow and as bytes: encode, decode, split and join, statistics, metadata.

The whole of a client's Arrow: types, differences and casts come from `arrow_types` and are part
of this module's names. Nothing here is done row by row; nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.checksum import chain, crc32c
from raftlog.client.arrow_types import (
    arrow_schema,
    arrow_type,
    batch_from_rows,
    conform,
    difference,
    schema_from_arrow,
    schema_of,
    spark_type,
)
from raftlog.errors import DataLoss, InvalidOption
from raftlog.machines.schema import RESERVED_NAMES, Field, Schema
from raftlog.wire.batch import BatchHeader, Bound, ColumnChunk, EncodedBatch

__all__ = [
    "BOUND_BYTES_MAX",
    "COMPRESSIONS",
    "METADATA_FIELDS",
    "arrow_schema",
    "arrow_type",
    "batch_from_rows",
    "coalesce",
    "conform",
    "decode_batch",
    "difference",
    "encode_batch",
    "read_schema",
    "schema_from_arrow",
    "schema_of",
    "spark_type",
    "with_metadata",
]

COMPRESSIONS = ("lz4", "zstd", "none")
"""How a client may compress column chunks; which one was used stands in each chunk."""

COMPRESS_BYTES_MIN = 4096
"""Smaller columns stay as they are: Arrow takes 50 us to hand a chunk to its decompressor."""

BOUND_BYTES_MAX = 64
"""A text or binary bound longer than this is left out: it would bloat every header."""

METADATA_FIELDS: dict[str, pa.Field[Any]] = {
    "_topic": pa.field("_topic", pa.string()),
    "_offset": pa.field("_offset", pa.int64()),
    "_timestamp": pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
    "_epoch": pa.field("_epoch", pa.int64()),
    "_writer": pa.field("_writer", pa.string()),
    "_term": pa.field("_term", pa.int64()),
}
"""What a reader may ask for beside a topic's own columns. Nullable all, as Spark declares them."""

assert tuple(METADATA_FIELDS) == RESERVED_NAMES


# ---------------------------------------------------------------- encode


def encode_batch(batch: pa.RecordBatch, schema: Schema, compression: str) -> EncodedBatch:
    """A conformed batch of at least one record as header and body.

    Each column becomes one Arrow IPC record-batch message with its own CRC-32C and statistics.
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
        buffer = _write_column(column, _layout(column.type, used))
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
    """What writing a column of one type with one compression needs, worked out once."""

    __slots__ = ("options", "schema", "schema_bytes")

    def __init__(self, kind: pa.DataType, compression: str) -> None:
        codecs: dict[str, Literal["lz4", "zstd"] | None]
        codecs = {"lz4": "lz4", "zstd": "zstd", "none": None}
        self.schema = pa.schema([pa.field("column", kind)])
        self.options = pa.ipc.IpcWriteOptions(compression=codecs[compression], use_threads=False)
        self.schema_bytes = self.schema.serialize().size


_layout = lru_cache(maxsize=1024)(_Layout)


def _check_compression(compression: str) -> None:
    if compression not in COMPRESSIONS:
        raise InvalidOption(
            option="compression",
            problem=f"is {compression!r}",
            advice=f"Use one of {', '.join(COMPRESSIONS)}.",
        )


def _write_column(column: pa.Array[Any], layout: _Layout) -> pa.Buffer:
    """The column's record-batch message: an IPC stream less its schema at the start.

    `RecordBatch.serialize` would give the same without compression, which it does not know.
    """
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, layout.schema, options=layout.options)
    writer.write_batch(pa.RecordBatch.from_arrays([column], schema=layout.schema))
    # The writer is not closed: that would add the end-of-stream mark.
    return sink.getvalue().slice(layout.schema_bytes)


def _bounds(column: pa.Array[Any]) -> tuple[Bound, Bound]:
    """Smallest and largest value, for types whose order is that of their bounds; else None.

    Text is ordered by its UTF-8 bytes. A column with a NaN has none: NaN has no place in order.
    """
    kind = column.type
    if not _is_ordered(kind):
        return None, None
    if len(column) == 1:
        # Arrow's kernels take longer to begin than all else of a small append.
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
    """Spark's strings may hold bytes that are no UTF-8; such a bound is left out."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


# ---------------------------------------------------------------- decode


def decode_batch(
    header: BatchHeader, body: bytes | memoryview | pa.Buffer, schema: Schema, names: Sequence[str]
) -> pa.RecordBatch:
    """The named columns, in the asked order, of all the batch's records.

    Every chunk's CRC is verified. Uncompressed columns are views into `body`, which must not
    change. No name gives a batch without columns that still has `num_rows`. Raises `DataLoss`
    naming the column for bytes that are not what the writer sent.
    """
    buffer = body if isinstance(body, pa.Buffer) else pa.py_buffer(body)
    chunks = {chunk.field_id: chunk for chunk in header.columns}
    columns = []
    fields = []
    for name in names:
        field = _field(schema, name)
        kind = arrow_type(field.type)
        columns.append(_read_column(field, kind, chunks.get(field.id), buffer, header))
        fields.append(pa.field(name, kind, nullable=field.nullable))
    if not columns:
        return _no_columns(header.record_count)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _read_column(
    field: Field, kind: pa.DataType, chunk: ColumnChunk | None, body: pa.Buffer, header: BatchHeader
) -> pa.Array[Any]:
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
    try:
        column = pa.ipc.read_record_batch(data, _layout(kind, "none").schema).column(0)
        column.validate()
    except (pa.ArrowException, OSError) as error:
        raise DataLoss(what=f"Column {field.name!r} is no Arrow message: {error}.") from error
    if len(column) != header.record_count:
        raise DataLoss(
            what=f"Column {field.name!r} has {len(column)} values for "
            f"{header.record_count} records."
        )
    return column


def _field(schema: Schema, name: str) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
    known = ", ".join([field.name for field in schema.fields] + list(RESERVED_NAMES))
    raise InvalidOption(
        option="columns", problem=f"names {name!r}", advice=f"The topic has: {known}."
    )


def _no_columns(record_count: int) -> pa.RecordBatch:
    """A batch that is only a count: from_arrays([]) would have no rows."""
    empty: Any = pa.StructArray.from_buffers(pa.struct([]), record_count, [None])
    return pa.RecordBatch.from_struct_array(empty)


# ---------------------------------------------------------------- metadata columns


def read_schema(schema: Schema, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of a read of these columns, metadata among them, in this order.

    Raises `InvalidOption` for a name that is neither.
    """
    return pa.schema(
        [
            METADATA_FIELDS[name] if name in METADATA_FIELDS else _arrow_field(_field(schema, name))
            for name in names
        ]
    )


def _arrow_field(field: Field) -> pa.Field[Any]:
    return pa.field(field.name, arrow_type(field.type), nullable=field.nullable)


def with_metadata(
    batch: pa.RecordBatch,
    names: Sequence[str],
    *,
    topic: str,
    start: int,
    timestamp_us: int,
    epoch: int,
    writer: str,
    term: int,
) -> pa.RecordBatch:
    """The batch's columns and metadata columns in the order of `names`.

    `start` is the offset of the batch's first record. Plain appends have writer "" (and epoch
    -1): both columns are then null.
    """
    if not names:
        return batch
    values = {
        "_topic": topic,
        "_timestamp": timestamp_us,
        "_epoch": epoch if writer else None,
        "_writer": writer or None,
        "_term": term,
    }
    columns = []
    fields = []
    for name in names:
        field = METADATA_FIELDS.get(name)
        if field is None:
            columns.append(batch.column(name))
            field = batch.schema.field(name)
        elif name == "_offset":
            end = start + batch.num_rows
            columns.append(pa.arange(start, end))  # type: ignore[attr-defined]  # no stub
        else:
            columns.append(pa.repeat(pa.scalar(values[name], field.type), batch.num_rows))
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


# ---------------------------------------------------------------- split and join


def coalesce(batches: Iterable[pa.RecordBatch], bytes_target: int) -> Iterator[pa.RecordBatch]:
    """The same records in the same order, in batches of about `bytes_target` bytes in memory.

    Small batches are joined until they reach the target, large ones split (one record may be
    larger than any target); none given out is empty. All batches have one schema. What is held
    back is less than one target.
    """
    assert bytes_target > 0
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        for piece in _split(batch, bytes_target):
            size = piece.nbytes
            if waiting and waiting_bytes + size > 2 * bytes_target:
                yield _joined(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += size
            if waiting_bytes >= bytes_target:
                yield _joined(waiting)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield _joined(waiting)


def _split(batch: pa.RecordBatch, bytes_target: int) -> Iterator[pa.RecordBatch]:
    """Pieces of at most twice the target, save single records; none for an empty batch."""
    rows, size = batch.num_rows, batch.nbytes
    if rows == 0:
        return
    if size <= 2 * bytes_target or rows == 1:
        yield batch
        return
    step = -(-rows * bytes_target // size)
    for start in range(0, rows, step):
        # Again, because records differ in size: a piece may still hold most of the bytes.
        yield from _split(batch.slice(start, step), bytes_target)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]  # no stub
    return joined
