"""Reads rows from JSON lines, CSV and Parquet, with a topic's types, through Arrow's readers."""

from __future__ import annotations

import bisect
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from raftlog.cli.text_blocks import CSV, JSON_LINES, blocks, located, read_located
from raftlog.errors import InvalidOption, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa


class InputFormat(StrEnum):
    """The values of `--format`."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_NO_OBJECT = re.compile(rb"\n[ \t\r]*([^{ \t\r\n][^\n]{0,20})")
"""A line that begins with something other than an object."""

_CSV_ERROR = re.compile(
    r"In CSV column #(\d+): (?:CSV conversion error to [^:]+: )?(.*)", re.DOTALL
)
_CSV_CELLS = re.compile(r"CSV parse error: Expected (\d+) columns, got (\d+): ")
_JSON_ERROR = re.compile(r"JSON parse error: | in row \d+")
"""What Arrow says of a place: the number of a column, or of a row within what it was given."""

_GIVEN_CHARACTERS = 60
"""So much of a value that is refused is shown."""

SUFFIXES = {
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
}

Fit = Callable[["pa.RecordBatch"], "pa.RecordBatch"]
"""Brings rows into a topic's types, or raises `SchemaMismatch`."""


def read_batches(
    source: BufferedReader,
    file: str,
    format_: InputFormat,
    schema: pa.Schema,
    nulls: list[str],
    fit: Fit,
) -> Iterator[pa.RecordBatch | None]:
    """The file's rows, read with the topic's types if the file itself has none, then fitted. None:
    the rows before it must not wait longer for more (`text_blocks.pieces`).

    `fit` gets the file's columns, so it has to refuse missing and surplus ones. `nulls` are CSV
    cells that mean null, besides the empty cell. Raises `InvalidOption` or `SchemaMismatch`, which
    name the file, and the line (in Parquet: the row) of the first record that is refused.
    """
    import pyarrow as pa

    name = "standard input" if file == "-" else file
    try:
        yield from _batches(source, name, format_, _Reading(schema, nulls, fit))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidOption(
            option="FILE",
            problem=f"names {name}, which cannot be read as {format_.value} of this topic: {error}",
            advice="`raftlog topic describe` shows the columns.",
        ) from error


class _Reading(NamedTuple):
    """How rows are read: the arguments of `read_batches`."""

    schema: pa.Schema
    nulls: list[str]
    fit: Fit


def _batches(
    source: BufferedReader, name: str, format_: InputFormat, reading: _Reading
) -> Iterator[pa.RecordBatch | None]:
    match format_:
        case InputFormat.JSON:
            read = partial(_json_rows, reading)
            for block in blocks(source, JSON_LINES):
                if block is None:
                    yield None
                else:
                    yield from read_located(block, JSON_LINES, name, read)
        case InputFormat.CSV:
            yield from _csv_batches(source, name, reading)
        case InputFormat.PARQUET:
            yield from _parquet_batches(source, name, reading)
        case _:
            assert_never(format_)


def _json_rows(reading: _Reading, text: bytes) -> list[pa.RecordBatch]:
    """Read JSON. Arrow reads all of JSON's texts except dates and times of day, which are cast.

    Arrow takes a line that is `null` for a row without values. If only such lines come before the
    first object, it crashes the process (SIGSEGV, pyarrow 26), so they are refused.
    """
    import pyarrow as pa
    import pyarrow.json as pj

    schema = reading.schema
    dates = [
        field.name
        for field in schema
        if pa.types.is_date(field.type) or pa.types.is_time(field.type)
    ]
    parsing = pj.ParseOptions(
        explicit_schema=_with_texts(schema, dates), unexpected_field_behavior="infer"
    )
    if found := _NO_OBJECT.search(b"\n" + text):
        begin = found[1].decode(errors="replace")
        raise ValueError(f"a line begins with {begin!r}, no JSON object (CSV needs --format csv)")
    whole = pj.ReadOptions(block_size=len(text) + 1)
    file: Any = pa.BufferReader(text)  # Arrow's own file type, which the stubs lack
    try:
        table = pj.read_json(file, read_options=whole, parse_options=parsing)
    except pa.ArrowInvalid as error:
        raise ValueError(_json_problem(schema, dates, text, str(error))) from error
    return [reading.fit(_from_texts(batch, schema, dates)) for batch in table.to_batches()]


def _json_problem(schema: pa.Schema, dates: list[str], text: bytes, problem: str) -> str:
    """What is wrong with JSON that Arrow refuses: of a single object the column, its type and what
    was given, else what Arrow says."""
    import pyarrow as pa
    import pyarrow.json as pj

    try:
        row = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, several lines, or too deep
        row = {}
    for field in _with_texts(schema, dates):
        if field.name not in row:
            continue
        only = pj.ParseOptions(
            explicit_schema=pa.schema([field]), unexpected_field_behavior="ignore"
        )
        file: Any = pa.BufferReader(json.dumps({field.name: row[field.name]}).encode())
        try:
            pj.read_json(file, parse_options=only)
        except pa.ArrowInvalid:
            return _given(field.name, schema.field(field.name).type, row[field.name])
    return _JSON_ERROR.sub("", problem).rstrip(".")


def _given(name: str, wanted: pa.DataType, value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= _GIVEN_CHARACTERS else f"{text[:_GIVEN_CHARACTERS]}..."
    return f"{_column(name, wanted)}: given {shown}"


def _csv_batches(
    source: BufferedReader, name: str, reading: _Reading
) -> Iterator[pa.RecordBatch | None]:
    header: list[str] = []
    for block in blocks(source, CSV):
        if block is None:
            yield None
            continue
        rest = block
        if not header:
            ends = CSV.ends(block.text)
            first, rest = block.split(next(end for end in ends if block.text[:end].strip()))
            header = read_located(first, CSV, name, partial(_csv_header, reading))
        if rest.text.strip():
            yield from read_located(rest, CSV, name, partial(_csv_rows, reading, header))


def _csv_header(reading: _Reading, text: bytes) -> list[str]:
    """The names of the columns, after checking that the topic has them."""
    import pyarrow as pa

    wide = _csv_columns(reading, [], text).schema
    # Arrow has no type for a column that the topic does not have.
    types = [pa.string() if pa.types.is_null(field.type) else field.type for field in wide]
    none = [pa.array([], each) for each in types]
    batch = pa.RecordBatch.from_arrays(none, names=wide.names)
    reading.fit(_from_texts(batch, reading.schema, _csv_times(reading.schema)))
    return list(wide.names)


def _csv_rows(reading: _Reading, header: list[str], text: bytes) -> list[pa.RecordBatch]:
    times = _csv_times(reading.schema)
    table = _csv_columns(reading, header, text)
    return [reading.fit(_from_texts(each, reading.schema, times)) for each in table.to_batches()]


def _csv_columns(reading: _Reading, header: list[str], text: bytes) -> pa.Table:
    """The columns, with times as text. An empty `header`: the text's first line names them."""
    import pyarrow as pa
    import pyarrow.csv as pc

    converting = pc.ConvertOptions(
        column_types=_with_texts(reading.schema, _csv_times(reading.schema)),
        null_values=["", *reading.nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    whole = pc.ReadOptions(block_size=len(text) + 1, column_names=header)
    file: Any = pa.BufferReader(text)  # Arrow's own file type, which the stubs lack
    try:
        table = pc.read_csv(file, read_options=whole, convert_options=converting)
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_problem(reading.schema, header, str(error))) from error
    for name, column in zip(table.column_names, table.columns, strict=True):
        _refuse_surplus_digits(name, column)
    return table


def _refuse_surplus_digits(name: str, column: pa.ChunkedArray[Any]) -> None:
    """Refuse decimals with more digits than their type has: pyarrow 26 reads them."""
    import pyarrow as pa

    if not pa.types.is_decimal(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        whole = column.type.precision - column.type.scale
        raise ValueError(
            f"{_column(name, column.type)}: a number has more than {whole} digits before the point"
        ) from error


def _csv_problem(schema: pa.Schema, header: list[str], problem: str) -> str:
    """What Arrow says of a line, with the column's name and type."""
    import pyarrow as pa

    if cells := _CSV_CELLS.match(problem):
        columns = f"the header has {cells[1]} columns: {', '.join(header)}"
        return f"the line has {cells[2]} cells, and {columns}"
    if (found := _CSV_ERROR.match(problem)) is None:
        return problem
    name, reason = header[int(found[1])], found[2]
    wanted = schema.field(name).type
    if pa.types.is_decimal(wanted) and reason.startswith("Rescaling"):
        reason = f"a number has more than {wanted.scale} decimal places"
    return f"{_column(name, wanted)}: {reason}"


def _column(name: str, wanted: pa.DataType) -> str:
    from raftlog.records.conform import type_name

    return f"column {name!r} ({type_name(wanted)})"


def _csv_times(schema: pa.Schema) -> list[str]:
    """The columns that are read as text and cast: Arrow wants a zone in every zoned timestamp."""
    import pyarrow as pa

    return [field.name for field in schema if pa.types.is_timestamp(field.type) and field.type.tz]


def _parquet_batches(
    source: BufferedReader, name: str, reading: _Reading
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in _parquet_columns(source):
        yield _fitted(_in_utc(batch, reading.schema), reading.fit, name, rows)
        rows += batch.num_rows


def _fitted(batch: pa.RecordBatch, fit: Fit, name: str, rows_before: int) -> pa.RecordBatch:
    """The fitted rows. An error about one of them names the first such row of the file, from 1."""
    try:
        return fit(batch)
    except SchemaMismatch as error:
        counts = range(batch.num_rows + 1)
        row = bisect.bisect_left(
            counts, True, key=lambda count: not _fits(batch.slice(0, count), fit)
        )
        if row == 0:
            raise  # about the columns
        raise located(error, f"row {rows_before + row} of {name}") from None


def _fits(batch: pa.RecordBatch, fit: Fit) -> bool:
    try:
        fit(batch)
    except SchemaMismatch:
        return False
    return True


def _parquet_columns(source: BufferedReader) -> Iterator[pa.RecordBatch]:
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
        texts = column
        if pa.types.is_timestamp(wanted):
            column = _with_zone(column)
        try:
            if pa.types.is_time(wanted):
                column = _times_of_day(column)
            batch = batch.set_column(number, name, pc.cast(column, wanted))
        except pa.ArrowInvalid as error:
            if len(column) == 1:
                raise ValueError(_given(name, wanted, texts[0].as_py())) from error
            raise ValueError(f"{_column(name, wanted)} holds another text") from error
    return batch


def _times_of_day(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Times such as 12:34:56.5: Arrow casts no text to them, but times with a date."""
    import pyarrow as pa
    import pyarrow.compute as pc

    day: Any = "1970-01-01T"  # the stubs know columns only, not a text beside one
    dated = pc.binary_join_element_wise(day, texts, "")
    times: pa.Array[Any] = pc.cast(pc.cast(dated, pa.timestamp("ns")), pa.time64("ns"))
    return times


def _with_zone(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Each time's text with its own zone, or UTC. A date by itself is its midnight."""
    import pyarrow.compute as pc

    zoned = pc.match_substring_regex(texts, r":.*(Z|[+-]\d\d(:?\d\d)?)$")
    timed = pc.match_substring(texts, ":")
    ending = pc.if_else(zoned, "", pc.if_else(timed, "Z", "T00:00:00Z"))
    joined: pa.Array[Any] = pc.binary_join_element_wise(texts, ending, "")
    return joined
