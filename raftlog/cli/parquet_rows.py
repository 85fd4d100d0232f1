"""Rows of Parquet, of which texts are measured before they are decoded.

A dictionary has each text once, so a few hundred bytes can stand for gigabytes of rows. What a
file's metadata say of sizes may be wrong, and where those of a column chunk are malformed, asking
for them ends the process. So texts and binaries are read as dictionaries, except within lists, maps
and structs, where Arrow cannot: of such rows few are decoded at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_STEP_ROWS = 4_096
_NESTED_STEP_ROWS = 64
"""The number of rows to decode at once."""
_BATCH_BYTES_MAX = 64 * 1024 * 1024
"""The limit for the texts and nested values of a batch of more than one row."""
_BYTES_FREE = 256 * 1024 * 1024
_BYTES_PER_FILE_BYTE = 1_000
"""The limit for those of a file: `_BYTES_FREE`, and this much for each byte of the file."""


def parquet_batches(source: BinaryIO, groups: list[int], rows_max: int) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups, in batches of at most `rows_max` rows. Raises `ValueError`
    once they take far more than a file of this size has."""
    plain = pq.ParquetFile(source)
    columns = [plain.schema.column(at) for at in range(len(plain.schema))]
    flat = [each for each in columns if each.path == each.name]
    texts = [each.path for each in flat if each.physical_type == "BYTE_ARRAY"]
    # Values of a fixed length are never read as dictionaries.
    width = sum(each.length or 0 for each in columns)
    step_rows = _STEP_ROWS if len(flat) == len(columns) else _NESTED_STEP_ROWS
    step_rows = max(1, min(step_rows, rows_max, _BATCH_BYTES_MAX // max(1, width)))
    schema = pa.schema([field.with_type(_decoded(field.type)) for field in plain.schema_arrow])
    file = pq.ParquetFile(source, metadata=plain.metadata, read_dictionary=texts)
    file_bytes = source.seek(0, os.SEEK_END)
    left = _BYTES_FREE + _BYTES_PER_FILE_BYTE * file_bytes
    problem = (
        f"its values take more than {_BYTES_FREE >> 20} MiB and {_BYTES_PER_FILE_BYTE} times the "
        f"file's {file_bytes} bytes"
    )
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for step in file.iter_batches(step_rows, row_groups=groups):
        for piece, piece_size in _pieces(step):
            left -= piece_size
            if left < 0:
                raise ValueError(problem)
            full = rows + piece.num_rows > rows_max or size + piece_size > _BATCH_BYTES_MAX
            if gathered and full:
                yield _joined(gathered)
                gathered, rows, size = [], 0, 0
            gathered.append(piece.cast(schema))
            rows, size = rows + piece.num_rows, size + piece_size
    if gathered:
        yield _joined(gathered)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)  # type: ignore[attr-defined,no-any-return]  # no stub


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batch in parts that may be decoded, and the bytes that each takes then."""
    size = sum(map(_size, batch.columns))
    if size <= _BATCH_BYTES_MAX or batch.num_rows == 1:
        yield batch, size
    else:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))


def _size(column: Any) -> int:
    """The bytes of texts when they are decoded, of nested values and of those of a fixed length."""
    if pa.types.is_dictionary(column.type):
        lengths: Any = pc.binary_length(column.dictionary)
        return pc.sum(lengths.take(column.indices)).as_py() or 0
    types = pa.types
    counts = types.is_nested(column.type) or types.is_fixed_size_binary(column.type)
    return column.nbytes if counts else 0


def _decoded(kind: pa.DataType) -> pa.DataType:
    """The type to which a dictionary is decoded. Arrow cannot cast one to a view."""
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
