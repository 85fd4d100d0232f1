"""Reads rows from JSON lines, CSV and Parquet, with a topic's types, through Arrow's readers."""

from __future__ import annotations

import codecs
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from io import BufferedReader
from typing import TYPE_CHECKING, Any, assert_never

from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 4 * 1024 * 1024
"""Text is read in blocks of this size. A longer line is an error."""


class InputFormat(StrEnum):
    """The values of `--format`."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_NO_OBJECT = re.compile(rb"\n[ \t\r]*([^{ \t\r\n][^\n]{0,20})")
"""A line that begins with something other than an object."""

_CELL = rb'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|[^",\r\n][^,\r\n]*+|)'
_CSV_RECORDS = re.compile(rb"(?:(?:" + _CELL + rb",)*+" + _CELL + rb"[\r\n])*+")
"""All whole records at the beginning of a text, as Arrow reads them: a quote begins a cell and
another ends it, and commas, line breaks and doubled quotes may be between them."""

SUFFIXES = {
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
}


def read_batches(
    source: BufferedReader, file: str, format_: InputFormat, schema: pa.Schema, nulls: list[str]
) -> Iterator[pa.RecordBatch]:
    """The file's rows, with the topic's types if the file itself has none.

    Columns are those of the file: the producer reports missing and surplus ones. `nulls` are CSV
    cells that mean null, besides the empty cell. Raises `InvalidOption`, which names `file`.
    """
    import pyarrow as pa

    try:
        for batch in _batches(source, format_, schema, nulls):
            _ = batch.schema.names  # finds names that are not UTF-8 here, before the producer does
            yield batch
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidOption(
            option="FILE",
            problem=f"names {_shown(file)}, which cannot be read as {format_.value} of this topic: "
            f"{error}",
            advice="`raftlog topic describe` shows the columns.",
        ) from error


def _shown(file: str) -> str:
    return "standard input" if file == "-" else file


def _batches(
    source: BufferedReader, format_: InputFormat, schema: pa.Schema, nulls: list[str]
) -> Iterator[pa.RecordBatch]:
    match format_:
        case InputFormat.JSON:
            yield from _json_batches(source, schema)
        case InputFormat.CSV:
            yield from _csv_batches(source, schema, nulls)
        case InputFormat.PARQUET:
            for batch in _parquet_batches(source):
                yield _in_utc(batch, schema)
        case _:
            assert_never(format_)


def _json_batches(source: BufferedReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read JSON. Arrow reads all of JSON's texts except dates, which are cast.

    Arrow takes a line that is `null` for a row without values. If only such lines come before the
    first object, it crashes the process (SIGSEGV, pyarrow 26), so they are refused.
    """
    import pyarrow as pa
    import pyarrow.json as pj

    dates = [field.name for field in schema if pa.types.is_date(field.type)]
    parsing = pj.ParseOptions(
        explicit_schema=_with_texts(schema, dates), unexpected_field_behavior="infer"
    )
    for block in _blocks(source, _json_end):
        if found := _NO_OBJECT.search(b"\n" + block):
            raise ValueError(f"a line begins with {found[1].decode(errors='replace')!r}, no object")
        whole = pj.ReadOptions(block_size=len(block) + 1)
        file: Any = pa.BufferReader(block)  # Arrow's own file type, which the stubs lack
        table = pj.read_json(file, read_options=whole, parse_options=parsing)
        for batch in table.to_batches():
            yield _from_texts(batch, schema, dates)


def _csv_batches(
    source: BufferedReader, schema: pa.Schema, nulls: list[str]
) -> Iterator[pa.RecordBatch]:
    """Read CSV. Times are read as text and cast: Arrow wants a zone in every zoned timestamp."""
    import pyarrow as pa
    import pyarrow.csv as pc

    times = [field.name for field in schema if pa.types.is_timestamp(field.type) and field.type.tz]
    converting = pc.ConvertOptions(
        column_types=_with_texts(schema, times),
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    names: list[str] = []  # from the first block on
    for block in _blocks(source, _csv_end):
        whole = pc.ReadOptions(block_size=len(block) + 1, column_names=names)
        file: Any = pa.BufferReader(block)  # Arrow's own file type, which the stubs lack
        table = pc.read_csv(file, read_options=whole, convert_options=converting)
        names = table.schema.names
        for batch in table.to_batches():
            yield _from_texts(batch, schema, times)


def _json_end(text: bytes) -> int:
    return text.rfind(b"\n") + 1


def _csv_end(text: bytes) -> int:
    """Where the last whole record ends. A line break in a quoted cell ends none."""
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    found = _CSV_RECORDS.match(text)
    assert found is not None, "the pattern also matches zero records"
    return found.end()


def _blocks(source: BufferedReader, end_of: Callable[[bytes], int]) -> Iterator[bytes]:
    """The text in blocks of whole records, without blank blocks. `end_of` finds the end of the last
    whole record.

    Arrow could read the source itself, but it reads ahead in a thread. If the process ends with an
    error meanwhile, that thread turns the end into an abort.
    """
    rest = b""
    first = True
    while data := source.read(BLOCK_BYTES):
        rest += data.removeprefix(codecs.BOM_UTF8) if first else data
        first = False
        end = end_of(rest)
        if not end and len(rest) > BLOCK_BYTES:
            raise ValueError(f"a line or quoted cell is longer than {BLOCK_BYTES} bytes")
        lines, rest = rest[:end], rest[end:]
        if lines.strip():
            yield lines
    if rest.strip():
        if end_of(rest + b"\n") <= len(rest):
            raise ValueError("a cell begins with a quote that is never closed")
        yield rest


def _parquet_batches(source: BufferedReader) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    if source.seekable():
        yield from pq.ParquetFile(source).iter_batches()
        return
    with tempfile.TemporaryFile() as copy:  # Parquet's index is at the end of the file
        shutil.copyfileobj(source, copy)
        yield from pq.ParquetFile(copy).iter_batches()


def _in_utc(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with UTC as the zone of timestamps that have none, if the topic's have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, field in enumerate(batch.schema):
        known = schema.get_field_index(field.name)
        if known < 0 or not pa.types.is_timestamp(field.type) or field.type.tz is not None:
            continue
        if pa.types.is_timestamp(schema.field(known).type) and schema.field(known).type.tz:
            times: Any = batch.column(number)
            column = pc.assume_timezone(times, "UTC")
            batch = batch.set_column(number, field.name, column)
    return batch


def _with_texts(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The schema with the named columns as strings."""
    import pyarrow as pa

    fields = [pa.field(f.name, pa.string()) if f.name in names else f for f in schema]
    return pa.schema([field.with_nullable(True) for field in fields])


def _from_texts(batch: pa.RecordBatch, schema: pa.Schema, names: list[str]) -> pa.RecordBatch:
    """The batch with the named columns cast from text; a timestamp without a zone is UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names:
        number = batch.schema.get_field_index(name)
        if number < 0:
            continue  # the producer reports what is missing
        column, wanted = batch.column(number), schema.field(name).type
        if pa.types.is_timestamp(wanted):
            column = _with_zone(column)
        batch = batch.set_column(number, name, pc.cast(column, wanted))
    return batch


def _with_zone(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Each time's text with its own zone, or UTC. A date by itself is its midnight."""
    import pyarrow.compute as pc

    zoned = pc.match_substring_regex(texts, r":.*(Z|[+-]\d\d(:?\d\d)?)$")
    timed = pc.match_substring(texts, ":")
    ending = pc.if_else(zoned, "", pc.if_else(timed, "Z", "T00:00:00Z"))
    joined: pa.Array[Any] = pc.binary_join_element_wise(texts, ending, "")
    return joined
