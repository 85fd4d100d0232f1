"""JSON lines read with a topic's types, through Arrow's reader."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from raftlog.cli.json_maps import after_space, with_pairs
from raftlog.cli.overflows import holds_integer, refuse_overflows
from raftlog.cli.text_blocks import refuse_wide
from raftlog.cli.typed_texts import ZONED, is_local_time, readable_type, typed
from raftlog.machines.schema import RESERVED_NAMES
from raftlog.records.arrow_types import is_variant
from raftlog.records.conform import type_name

_NO_OBJECT = re.compile(rb"\n[ \t\r]*([^{ \t\r\n][^\n]{0,20})")
"""A line that begins with something other than an object."""

_ERROR = re.compile(r"JSON parse error: | in row \d+")
"""What Arrow says of a place: the number of a row within what it was given."""

DEPTH_MAX = 200
"""JSON may be nested so deep: deeper than any type in use. Messages that name a type twice as deep
would reach the limit of Python's stack."""

_CELLS_MAX = 16 * 1024 * 1024
"""Lines times columns that are read at once. Arrow's memory grows with that, also where nearly all
of it is null."""

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTED = re.compile(rb'"[^"]*+"?')
_NO_SIGNS = bytes(set(range(256)) - set(b'"[]{}'))

_GIVEN_CHARACTERS = 60
"""So much of a value that is refused is shown."""


def json_rows(text: bytes, schema: pa.Schema, *, base64: bool) -> pa.RecordBatch:
    """The lines' rows: the columns of `schema` in its types, and columns that it does not have in
    those that Arrow infers. Raises `ValueError`; of a single line it names the column."""
    try:
        rows = _rows(text, schema, base64=base64)
    except ValueError as error:
        if named := _problem(text, schema, base64=base64):
            raise ValueError(named) from error
        raise
    if rounded := _rounded(text, schema):
        raise ValueError(rounded)
    refuse_overflows(rows, text)
    return rows


def _rounded(text: bytes, schema: pa.Schema) -> str | None:
    """The first integer that its DOUBLE or FLOAT cannot hold: Arrow rounds it silently. Only lines
    with an integer that may be one are looked at."""
    kinds = set(map(str, _plain_types(pa.struct(list(schema)))))
    long = next((_LONG[kind] for kind in ("float", "double") if kind in kinds), None)
    if long is None:
        return None
    if long.search(text) is None:
        return None
    for line in filter(long.search, text.splitlines()):
        row = json.loads(line, parse_int=_integer)
        for field in schema:
            found = _rounded_within(row.get(field.name), field.type, field.name)
            if found is not None:
                return found
    return None


_LONG = {
    "float": re.compile(rb"(?<![\w.+-])-?\d{8,}(?![\w.])"),
    "double": re.compile(rb"(?<![\w.+-])-?\d{16,}(?![\w.])"),
}
"""An integer with more digits than all integers that are values of the type have."""


def _plain_types(kind: Any) -> Iterator[pa.DataType]:
    if pa.types.is_map(kind):
        yield from _plain_types(kind.item_type)
    elif pa.types.is_list(kind):
        yield from _plain_types(kind.value_type)
    elif pa.types.is_struct(kind):
        for part in kind:
            yield from _plain_types(part.type)
    else:
        yield kind


def _rounded_within(value: object, kind: Any, path: str) -> str | None:
    parts: Iterable[tuple[object, Any, str]] = ()
    if isinstance(value, dict) and pa.types.is_struct(kind):
        parts = [(value.get(part.name), part.type, f"{path}.{part.name}") for part in kind]
    elif isinstance(value, dict) and pa.types.is_map(kind):
        parts = [(each, kind.item_type, f"{path}[{json.dumps(at)}]") for at, each in value.items()]
    elif isinstance(value, list) and pa.types.is_list(kind):
        parts = [(each, kind.value_type, f"{path}[{at}]") for at, each in enumerate(value)]
    elif pa.types.is_floating(kind) and (written := _not_held(value, kind)):
        return f"column {path!r} ({type_name(kind)}) cannot hold the integer {_shortened(written)}"
    return next(filter(None, (_rounded_within(*part) for part in parts)), None)


def read_json(text: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The lines as one batch, as Arrow reads them. Raises `ValueError`.

    Arrow takes a line that is `null` for a row without values. If only such lines come before the
    first object, it crashes the process (SIGSEGV, pyarrow 26), so they are refused. So does JSON
    that is nested 20,000 deep.
    """
    if found := _NO_OBJECT.search(b"\n" + text):
        begin = found[1].decode(errors="replace")
        raise ValueError(f"a line begins with {begin!r}, no JSON object (CSV needs --format csv)")
    if _is_deep(text):
        raise ValueError(f"the JSON is nested more than {DEPTH_MAX} deep")
    if text.count(b"{") > lines_max(schema):  # several objects may be on a line
        _refuse_wide(text, schema)
    whole = pj.ReadOptions(block_size=len(text) + 1)

    def read(surplus: Literal["error", "infer"]) -> pa.Table:
        parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=surplus)
        file: Any = pa.BufferReader(text)  # Arrow's own file type, which the stubs lack
        return pj.read_json(file, read_options=whole, parse_options=parsing)

    try:
        table = read("error")
    except pa.ArrowInvalid:
        _refuse_wide(text, schema)
        try:
            table = read("infer")
        except pa.ArrowInvalid as error:
            raise ValueError(_ERROR.sub("", str(error)).rstrip(".")) from error
    return table.combine_chunks().to_batches()[0]


def lines_max(schema: pa.Schema) -> int:
    """The limit of lines to read at once, with the columns of `schema` and metadata columns."""
    return _CELLS_MAX // _columns_of(schema)


def _refuse_wide(text: bytes, schema: pa.Schema) -> None:
    """Refuse lines with far more columns, also nested ones, than `schema` has."""
    known = _columns_of(schema)
    columns: dict[tuple[int, str], int] = {}
    """The number of each column, by that of the one that it is in and by its name."""
    decoded = text.decode(errors="replace")
    at = lines = 0
    while (at := after_space(decoded, at)) < len(decoded):
        try:
            row, at = _DECODER.raw_decode(decoded, at)
        except json.JSONDecodeError as error:
            raise ValueError(f"it is no JSON: {error.msg}") from None
        values: list[tuple[int, Any]] = [(0, row)]
        while values:
            parent, value = values.pop()
            if isinstance(value, list):
                values += [(parent, each) for each in value]
            elif isinstance(value, dict):
                for name, part in value.items():
                    number = columns.setdefault((parent, name), len(columns) + 1)
                    if isinstance(part, dict | list):
                        values.append((number, part))
        lines += 1
        refuse_wide("up to here the lines have", len(columns), known)
        if lines * (count := max(len(columns), known)) > _CELLS_MAX:
            raise ValueError(f"{lines} objects have {count} columns, and each lacks nearly all")


def _columns_of(schema: pa.Schema) -> int:
    """How many columns there are, also nested ones, with those of metadata."""
    return _name_count(pa.struct(list(schema))) + len(RESERVED_NAMES)


def _name_count(kind: Any) -> int:
    """How many names of columns a type has."""
    if pa.types.is_struct(kind):
        return sum(1 + _name_count(part.type) for part in kind)
    if pa.types.is_map(kind):
        return 2 + _name_count(kind.item_type)
    return _name_count(kind.value_type) if pa.types.is_list(kind) else 0


def _is_deep(text: bytes) -> bool:
    """Whether brackets are nested more than `DEPTH_MAX` deep, or more than that are unmatched."""
    if b"\\" in text:
        text = _ESCAPED.sub(b"", text)
    signs = text.translate(None, delete=_NO_SIGNS).replace(b'""', b"")
    brackets = _QUOTED.sub(b"", signs) if b'"' in signs else signs
    for _ in range(DEPTH_MAX):  # each time without the innermost ones
        outer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(outer) == len(brackets):  # none matches
            return len(brackets) > DEPTH_MAX
        brackets = outer
    return bool(brackets)


def _rows(text: bytes, schema: pa.Schema, *, base64: bool) -> pa.RecordBatch:
    wide = pa.schema([pa.field(field.name, readable_type(field.type)) for field in schema])
    batch = read_json(with_pairs(text, schema), wide)
    for number, field in enumerate(schema):
        column = typed(batch.column(number), field.type, field.name, base64=base64)
        batch = batch.set_column(number, field.name, column)
    return batch


def _problem(text: bytes, schema: pa.Schema, *, base64: bool) -> str | None:
    """Where a single object does not fit, with the type that is wanted and what was given; None if
    the text is something else, or fits."""
    try:
        row = json.loads(text.strip(), parse_int=_integer, parse_float=_real)
    except json.JSONDecodeError as error:
        several = b"\n" in text.strip()
        return None if several else f"the line is no JSON: {error.msg}, character {error.colno}"
    except (ValueError, RecursionError):  # no UTF-8, or too deep
        return None
    for field in schema if isinstance(row, dict) else ():
        if field.name in row:
            found = _misfit(row[field.name], field.type, field.name, base64=base64)
            if found is not None:
                return found
    return None


def _not_held(value: object, kind: pa.DataType) -> str:
    """An integer that the floating-point type does not have, as it is written; "": it has it."""
    if isinstance(value, _TooLarge):
        return value.written
    return str(value) if type(value) is int and not holds_integer(kind, value) else ""


class _TooLarge(NamedTuple):
    """A number that no type can hold."""

    written: str


_INTEGER_CHARACTERS = 400
"""A longer integer is beyond the range of DOUBLE."""


def _integer(text: str) -> int | _TooLarge:
    return int(text) if len(text) <= _INTEGER_CHARACTERS else _TooLarge(text)


def _real(text: str) -> float | _TooLarge:
    return value if math.isfinite(value := float(text)) else _TooLarge(text)


def _misfit(value: object, kind: Any, path: str, *, base64: bool) -> str | None:
    """The innermost value that does not fit its type."""
    if isinstance(value, _TooLarge):
        given = _shortened(value.written)
        return f"column {path!r} ({type_name(kind)}): given {given}, which no type can hold"
    parts: list[tuple[object, pa.DataType, str]] = []
    if isinstance(value, dict) and pa.types.is_struct(kind) and not is_variant(kind):
        known = {part.name: part.type for part in kind}
        if surplus := [name for name in value if name not in known]:
            return f"the topic has no column '{path}.{surplus[0]}'"
        parts = [(each, known[name], f"{path}.{name}") for name, each in value.items()]
    elif isinstance(value, dict) and pa.types.is_map(kind):
        keyed = pa.map_(kind.key_type, pa.string())
        parts = [({name: None}, keyed, f"{path}, its key") for name in value if len(value) > 1]
        parts += [
            (each, kind.item_type, f"{path}[{json.dumps(name)}]") for name, each in value.items()
        ]
    elif isinstance(value, list) and pa.types.is_list(kind):
        parts = [(each, kind.value_type, f"{path}[{at}]") for at, each in enumerate(value)]
    for each, type_, name in parts:
        found = _misfit(each, type_, name, base64=base64)
        if found is not None:
            return found
    try:
        _rows(json.dumps({"it": value}).encode(), pa.schema([("it", kind)]), base64=base64)
    except ValueError:
        given = _shortened(json.dumps(value, ensure_ascii=False))
        return f"column {path!r} ({type_name(kind)}): given {given}{_reason(value, kind)}"
    return None


def _reason(value: object, kind: Any) -> str:
    """Why the type cannot hold the value, where the two do not show it."""
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if is_time and isinstance(value, int | float):
        return ", which is no ISO text, such as 2026-01-31 or 2026-01-31T12:00:00Z"
    text = str(value)
    if is_local_time(kind) and pc.match_substring_regex(pa.scalar(text), ZONED).as_py():
        return ", a time zone that the type does not keep"
    if pa.types.is_timestamp(kind) and _NANOSECONDS.search(text):
        return ", more than 6 decimals"
    if pa.types.is_decimal(kind) and (found := _DECIMALS.fullmatch(text)):
        return f", more than {kind.scale} decimals" if len(found[1]) > kind.scale else ""
    return ""


_NANOSECONDS = re.compile(r":[0-9]{2}\.[0-9]{7}")
_DECIMALS = re.compile(r"[-+]?[0-9]*\.([0-9]+)")


def _shortened(given: str) -> str:
    return given if len(given) <= _GIVEN_CHARACTERS else f"{given[:_GIVEN_CHARACTERS]}..."
