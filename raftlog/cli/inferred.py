"""The columns of a topic that is made for a file: those that the file says, or its text looks like.

Integers are BIGINT, other numbers DOUBLE. Texts that are all ISO 8601 dates are DATE, all ISO 8601
times TIMESTAMP (UTC where they have no zone); every other text is STRING. An object is a STRUCT.
"""

from __future__ import annotations

import shlex
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.cli.csv_rows import read_csv
from raftlog.cli.json_rows import read_json
from raftlog.errors import InvalidOption
from raftlog.records.arrow_types import schema_of
from raftlog.records.metadata import METADATA_FIELDS
from raftlog.records.schema_text import schema_ddl

_DATE = r"^\d{4}-\d\d-\d\d$"
_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?$"
_UTC = pa.timestamp("us", "UTC")


def json_beginning(text: bytes) -> pa.RecordBatch:
    """The rows of JSON lines for `schema_like`. Raises `ValueError`."""
    return read_json(text, _textual(read_json(text, pa.schema([])).schema))


def csv_beginning(text: bytes, nulls: list[str]) -> pa.RecordBatch:
    """The rows of CSV with a header for `schema_like`. Raises `ValueError`."""
    return read_csv(text, _textual(read_csv(text, None, nulls).schema), nulls)


def schema_like(batch: pa.RecordBatch) -> pa.Schema:
    """A topic's columns for the batch's. Raises `InvalidOption` if they do not tell."""
    fields, unknown = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name in METADATA_FIELDS:
            continue
        kind = _settled(column)
        if kind is None:
            unknown.append(field.name)
        fields.append(pa.field(field.name, pa.string() if kind is None else kind))
    schema = pa.schema(fields)
    if unknown or not fields:
        problem = f"only nulls in {', '.join(unknown)}" if unknown else "no columns"
        ddl = schema_ddl(schema_of(schema)) if fields else "id BIGINT, text STRING"
        raise InvalidOption(
            option="--create",
            problem=f"cannot tell the columns: the file's beginning has {problem}",
            advice="Create the topic with the types that you want: raftlog topic create TOPIC "
            f"--schema {shlex.quote(ddl)}",
        )
    return schema


def _textual(schema: pa.Schema) -> pa.Schema:
    """The columns with texts in place of times, to see how these are written."""
    return pa.schema([pa.field(field.name, _textual_type(field.type)) for field in schema])


def _textual_type(kind: Any) -> pa.DataType:
    types = pa.types
    if types.is_temporal(kind):
        return pa.string()
    if types.is_list(kind):
        return pa.list_(_textual_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, _textual_type(part.type)) for part in kind])
    return kind  # type: ignore[no-any-return]


def _settled(column: Any) -> pa.DataType | None:
    """A topic's type for the values; None if they do not tell."""
    types = pa.types
    if types.is_string(column.type):
        return _of_texts(column)
    if types.is_list(column.type):
        part = _settled(column.flatten())
        return None if part is None else pa.list_(part)
    if types.is_struct(column.type):
        parts = [_settled(column.field(at)) for at in range(column.type.num_fields)]
        if not parts or None in parts:
            return None
        return pa.struct(
            [pa.field(part.name, kind) for part, kind in zip(column.type, parts, strict=True)]
        )
    return None if types.is_null(column.type) else column.type


def _of_texts(column: pa.Array[Any]) -> pa.DataType | None:
    if column.null_count == len(column):
        return None
    for pattern, kind in ((_DATE, pa.date32()), (_TIME, _UTC)):
        if pc.all(pc.match_substring_regex(column, pattern)).as_py():
            return kind
    return pa.string()
