"""Kafka's records as JSON lines, as kcat -J and rpk print them, as rows of Kafka's columns.

The columns are those of Spark's Kafka source and of `spark_jobs/kafka_import.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.cli.json_rows import read_json
from raftlog.cli.typed_texts import typed
from raftlog.errors import InvalidOption
from raftlog.records.arrow_types import nulls
from raftlog.records.conform import type_name

_TEXT: pa.DataType = pa.string()
_BYTES: pa.DataType = pa.binary()
_HEADER = pa.struct([("key", _TEXT), ("value", _BYTES)])
KAFKA_SCHEMA = pa.schema(
    [
        pa.field("key", _BYTES),
        pa.field("value", _BYTES),
        pa.field("headers", pa.list_(_HEADER)),
        pa.field("topic", _TEXT),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""What a topic that is created for such lines has. A topic may have fewer of these columns, and
`key` and `value` as STRING."""

_READ = pa.schema(
    [
        pa.field("key", _TEXT),
        pa.field("value", _TEXT),
        pa.field("payload", _TEXT),
        pa.field("topic", _TEXT),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("ts", pa.int64()),
    ]
)
"""The names under which tools print them; headers come in two shapes and are left to Arrow."""


def kafka_rows(text: bytes, schema: pa.Schema, *, base64: bool) -> pa.RecordBatch:
    """The lines' records, with those of Kafka's columns that `schema` has. Other fields of the
    lines (`tstype`, `broker`) are left out. Raises `ValueError`, `InvalidOption`."""
    for field in schema:
        if field.name not in KAFKA_SCHEMA.names:
            raise InvalidOption(
                option="--format",
                problem=f"is kafka-json, and the topic's column {field.name!r} is none of Kafka's: "
                f"{', '.join(KAFKA_SCHEMA.names)}",
                advice="Take a topic with some of these columns, or one that --create makes.",
            )
    found = read_json(text, _READ)
    columns: dict[str, Any] = {name: found.column(name) for name in _READ.names}
    columns["value"] = pc.coalesce(columns["payload"], columns["value"])
    ms: Any = pc.coalesce(columns["ts"], columns["timestamp"])
    columns["timestamp"] = ms.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    if "headers" in found.schema.names:
        columns["headers"] = _headers(found.column("headers"))
    else:
        columns["headers"] = nulls(found.num_rows, pa.list_(_HEADER))
    made = [_column(columns[field.name], field, base64=base64) for field in schema]
    return pa.RecordBatch.from_arrays(made, names=schema.names)


def _column(found: Any, field: pa.Field[Any], *, base64: bool) -> Any:
    try:
        return typed(found, field.type, field.name, base64=base64)
    except ValueError as error:
        raise ValueError(f"column {field.name!r} ({type_name(field.type)}): {error}") from error


def _headers(found: Any) -> Any:
    """Headers as pairs: rpk prints pairs, kcat a flat list of keys and values in turn."""
    kind = found.type
    if pa.types.is_null(kind) or (pa.types.is_list(kind) and pa.types.is_null(kind.value_type)):
        return found.cast(pa.list_(_HEADER))
    if not pa.types.is_list(kind):
        raise ValueError("headers are no list")
    if pa.types.is_string(kind.value_type):
        lengths = pc.list_value_length(found)
        odd: Any = pc.bit_wise_and(lengths, 1)
        if pc.any(odd.cast(pa.bool_())).as_py():
            raise ValueError("headers are a list of keys and values, and a value is missing")
        flat = found.values
        keys = flat.take(pa.array(range(0, len(flat), 2), pa.int32()))
        values = flat.take(pa.array(range(1, len(flat), 2), pa.int32()))
        offsets = pc.shift_right(found.offsets, 1)
    elif pa.types.is_struct(kind.value_type):
        names = {part.name for part in kind.value_type}
        if names - {"key", "value"} or "key" not in names:
            raise ValueError("a header is no object with `key` and `value`")
        pairs = found.values
        keys = pairs.field("key")
        values = pairs.field("value") if "value" in names else nulls(len(pairs), _TEXT)
        offsets = found.offsets
    else:
        raise ValueError("headers are neither texts nor objects with `key` and `value`")
    texts = [keys.cast(_TEXT), values.cast(_TEXT).cast(_BYTES)]
    made = pa.StructArray.from_arrays(texts, fields=list(_HEADER))
    return pa.ListArray.from_arrays(offsets, made, mask=found.is_null())
