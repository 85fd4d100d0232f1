"""CSV with a header read with a topic's types, through Arrow's reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from raftlog.cli.overflows import EXACT_BELOW, holds_integer, refuse_overflows
from raftlog.cli.text_blocks import CSV, refuse_wide
from raftlog.cli.typed_texts import ZONED, typed
from raftlog.records.conform import type_name

_ERROR = re.compile(r"In CSV column #(\d+): (?:CSV conversion error to [^:]+: )?(.*)", re.DOTALL)
_CELLS = re.compile(r"CSV parse error: Expected (\d+) columns, got (\d+): ")
"""What Arrow says of a place: the number of a column."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_QUOTED = re.compile(rb'"[^"]*+"')


def csv_header(text: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """No row of the columns that the text's first line names, in the types of `schema`. Columns
    that it does not have are strings."""
    names = read_csv(text, None, []).schema.names
    types = [schema.field(name).type if name in schema.names else pa.string() for name in names]
    return pa.RecordBatch.from_arrays([pa.array([], each) for each in types], names=names)


def csv_rows(
    text: bytes, header: list[str], schema: pa.Schema, nulls: list[str], *, base64: bool
) -> pa.RecordBatch:
    """The lines' rows, with the columns that `header` names, all of which `schema` has. Raises
    `ValueError` with the column."""
    for field in schema:
        if field.name in header and pa.types.is_nested(field.type):
            nested = _column(field.name, field.type)
            raise ValueError(f"{nested}: no CSV has such values. JSON lines and Parquet have")
    zoned = [field.name for field in schema if pa.types.is_timestamp(field.type) and field.type.tz]
    # Arrow wants a zone in every zoned timestamp, so these are read as texts.
    durations = [field.name for field in schema if pa.types.is_duration(field.type)]
    texts = {*zoned, *durations}  # and it reads no interval at all
    wide = [(f.name, pa.string() if f.name in texts else f.type) for f in schema]
    try:
        batch = read_csv(text, pa.schema(wide), nulls, header)
    except pa.ArrowInvalid as error:
        raise ValueError(_problem(schema, header, str(error))) from error
    refuse_overflows(batch, text)
    _refuse_rounded(batch, text, header, nulls)
    for number, name in enumerate(header):
        if name not in schema.names:
            continue  # a metadata column
        column: Any = batch.column(number)
        wanted = schema.field(name).type
        _refuse_surplus_digits(name, column)
        if name in zoned:
            column = _times(name, column, wanted)
        try:
            column = typed(column, wanted, name, base64=base64)
        except ValueError as error:
            raise ValueError(f"{_column(name, wanted)}: {error}") from error
        batch = batch.set_column(number, name, column)
    return batch


def read_csv(
    text: bytes,
    schema: pa.Schema | None,
    nulls: list[str],
    header: list[str] | None = None,
    only: list[str] | None = None,
) -> pa.RecordBatch:
    """The lines as one batch, as Arrow reads them. Without a `header` the first line names the
    columns. `only`: these of them. Raises `pa.ArrowInvalid`, and `ValueError` for more columns than
    a topic may have: Arrow would take minutes."""
    converting = pcsv.ConvertOptions(
        column_types=schema,
        include_columns=only,
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    if header is None:
        _refuse_wide(text)
    whole = pcsv.ReadOptions(block_size=len(text) + 1, column_names=header)
    file: Any = pa.BufferReader(text)  # Arrow's own file type, which the stubs lack
    table = pcsv.read_csv(file, read_options=whole, convert_options=converting).combine_chunks()
    batches = table.to_batches()
    if batches:
        return batches[0]
    none: list[pa.Array[Any]] = [pa.array([], field.type) for field in table.schema]
    return pa.RecordBatch.from_arrays(none, names=table.schema.names)


def _refuse_wide(text: bytes) -> None:
    header = CSV.record.match(text.lstrip())
    count = 0 if header is None else _QUOTED.sub(b"", header[0]).count(b",") + 1
    refuse_wide("the header has", count)


def _refuse_rounded(
    batch: pa.RecordBatch, text: bytes, header: list[str], nulls: list[str]
) -> None:
    """Refuse integers that their DOUBLE or FLOAT cannot hold: Arrow rounds them silently. They are
    looked for among the texts of numbers that are large enough."""
    large: dict[str, pa.Array[Any]] = {}
    columns: list[Any] = batch.columns
    for name, column in zip(batch.schema.names, columns, strict=True):
        if pa.types.is_floating(column.type):
            exact_below: Any = EXACT_BELOW[column.type]  # the stubs lack plain numbers
            found = pc.greater_equal(pc.abs(column), exact_below)
            if pc.any(found).as_py():
                large[name] = found
    if not large:
        return
    wide = pa.schema([(name, pa.string()) for name in large])
    texts = read_csv(text, wide, nulls, header, only=list(large))
    for name, found in large.items():
        kind = batch.schema.field(name).type
        for given in texts.column(name).filter(found).to_pylist():
            number = str(given).strip()
            if _INTEGER.fullmatch(number) and not holds_integer(kind, int(number)):
                raise ValueError(f"{_column(name, kind)} cannot hold the integer {number}")


def _refuse_surplus_digits(name: str, column: pa.Array[Any]) -> None:
    """Refuse decimals with more digits than their type has: pyarrow 26 reads them."""
    if not pa.types.is_decimal(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        whole = column.type.precision - column.type.scale
        raise ValueError(
            f"{_column(name, column.type)}: a number has more than {whole} digits before the point"
        ) from error


def _problem(schema: pa.Schema, header: list[str], problem: str) -> str:
    """What Arrow says of a line, with the column's name and type."""
    if cells := _CELLS.match(problem):
        columns = f"the header has {cells[1]} columns: {', '.join(header)}"
        return f"the line has {cells[2]} cells, and {columns}"
    if (found := _ERROR.match(problem)) is None:
        return problem
    name, reason = header[int(found[1])], found[2]
    wanted = schema.field(name).type
    if pa.types.is_decimal(wanted) and reason.startswith("Rescaling"):
        reason = f"a number has more than {wanted.scale} decimal places"
    return f"{_column(name, wanted)}: {reason}"


def _column(name: str, wanted: pa.DataType) -> str:
    return f"column {name!r} ({type_name(wanted)})"


def _times(name: str, texts: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """The timestamps that the texts say; one without a zone is UTC."""
    try:
        return pc.cast(_with_zone(texts), wanted)
    except pa.ArrowInvalid as error:
        if len(texts) == 1:
            given = json.dumps(texts[0].as_py(), ensure_ascii=False)
            raise ValueError(f"{_column(name, wanted)}: given {given}") from error
        raise ValueError(f"{_column(name, wanted)} holds another text") from error


def _with_zone(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Each time's text with its own zone, or UTC. A date by itself is its midnight."""
    zoned = pc.match_substring_regex(texts, ZONED)
    timed = pc.match_substring(texts, ":")
    ending = pc.if_else(zoned, "", pc.if_else(timed, "Z", "T00:00:00Z"))
    joined: pa.Array[Any] = pc.binary_join_element_wise(texts, ending, "")
    return joined
