"""Schemas as Arrow's: a topic's types to Arrow's, and Arrow's to a topic's.

A topic's columns are always of the canonical Arrow types: `timestamp[us, UTC]`, `string` and
`binary` (not large, no views), `date32`, `time64[ns]`, `duration[us]`, `decimal128`, list elements
named `element`, map entries `key` and `value`, a variant as a struct of `value` and `metadata`, and
no metadata but the mark of a variant. Spark's `to_arrow_schema(..., "UTC")` gives the same. Arrow's
types lack the digits of a time, the units of an interval and a string's collation: these are in
the topic's type only.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa

from raftlog.machines.schema import Schema
from raftlog.records.metadata import is_metadata
from raftlog.records.schema_text import make_schema, parse_schema
from raftlog.records.spark_types import COLLATED, INTERVALS, TIMES, JsonType, refusal

_AnyList: TypeAlias = "pa.ListType[Any] | pa.LargeListType[Any] | pa.FixedSizeListType[Any, Any]"

_VARIANT_MARK = {b"variant": b"true"}
"""The metadata of the field `metadata`, by which Spark tells a variant from a struct like it."""

_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata=_VARIANT_MARK),
    ]
)

_NAMED: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_NAMES = {arrow: name for name, arrow in _NAMED.items()}

_PRIMITIVES: dict[str, pa.DataType] = {
    **_NAMED,
    "variant": _VARIANT,
    **dict.fromkeys(TIMES, pa.time64("ns")),
    **dict.fromkeys(INTERVALS, pa.duration("us")),
}

_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


# ---------------------------------------------------------------- from a topic's schema to Arrow's


@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a field's canonical type text (`raftlog.machines.schema`)."""
    return _to_arrow(json.loads(text))


@lru_cache(maxsize=256)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that every batch of a topic has."""
    return pa.schema(
        [
            pa.field(field.name, arrow_type(field.type), nullable=field.nullable)
            for field in schema.fields
        ]
    )


def _to_arrow(value: JsonType) -> pa.DataType:
    if isinstance(value, str):
        plain = _PRIMITIVES.get(value)
        if plain is not None:
            return plain
        if value.startswith(COLLATED):
            return pa.string()
        digits = value.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(digits[0]), int(digits[1]))
    match value["type"]:
        case "array":
            element = _to_arrow(value["elementType"])
            return pa.list_(pa.field("element", element, nullable=value["containsNull"]))
        case "map":
            item = _to_arrow(value["valueType"])
            return map_of(
                pa.field("key", _to_arrow(value["keyType"]), nullable=False),
                pa.field("value", item, nullable=value["valueContainsNull"]),
            )
        case _:
            return pa.struct(
                [
                    pa.field(field["name"], _to_arrow(field["type"]), nullable=field["nullable"])
                    for field in value["fields"]
                ]
            )


def nulls(count: int, kind: pa.DataType) -> pa.Array[Any]:
    """So many nulls of any type."""
    made: pa.Array[Any] = pa.nulls(count, kind)  # type: ignore[call-overload]  # one by type
    return made


def map_of(key: pa.Field[Any], item: pa.Field[Any]) -> pa.DataType:
    """The map type of these two fields; their nullability counts, their names do not."""
    parts: tuple[Any, Any] = (key, item)  # the stubs allow only types here, not fields
    made: pa.DataType = pa.map_(*parts)
    return made


# ---------------------------------------------------------------- from Arrow's schema to a topic's


def of_pandas(*names: str) -> tuple[Any, ...]:
    """What pandas has under these names. While it is not loaded, or another thread is loading it,
    it may lack some; no value is of those then."""
    pandas = sys.modules.get("pandas")
    return tuple(getattr(pandas, name) for name in names if hasattr(pandas, name))


def is_frame(value: object) -> bool:
    """Whether it is a pandas DataFrame."""
    return isinstance(value, of_pandas("DataFrame"))


def with_named_index(frame: Any) -> Any:
    """The DataFrame with its index's levels as columns, except those that have no name, or that of
    a column."""
    names = enumerate(frame.index.names)
    levels = [level for level, name in names if name is not None and name not in frame.columns]
    return frame.reset_index(levels) if levels else frame


def schema_of(given: object) -> Schema:
    """The schema that is given as Spark DDL, Spark JSON, an Arrow schema, a topic's schema or a
    pandas DataFrame.

    Raises `InvalidOption(option="schema")` for a type that no topic can hold.
    """
    match given:
        case Schema():
            return given
        case str():
            return parse_schema(given)
        case pa.Schema():
            return schema_from_arrow(given)
        case _ if is_frame(given):
            return schema_from_arrow(_schema_of_frame(with_named_index(given)))
        case _:
            raise refusal(f"is a {type(given).__name__}")


def _schema_of_frame(frame: Any) -> pa.Schema:
    fields: list[pa.Field[Any]] = []
    for place, name in enumerate(frame.columns):
        try:
            fields += pa.Schema.from_pandas(frame.iloc[:, [place]], preserve_index=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            problem = f"names the column {str(name)!r}, which has no type of Arrow's: {error}"
            raise refusal(problem) from error
    return pa.schema(fields)


def schema_from_arrow(given: pa.Schema) -> Schema:
    """A topic schema that holds such batches without loss, version 1 with ids from 1.

    Metadata columns that were read are left out. Raises `InvalidOption` for one of the user's under
    such a name, and for a type that no topic type holds without loss (unsigned 64-bit, Arrow's
    intervals, Arrow's null type).
    """
    fields = []
    for field in given:
        if is_metadata(field):
            continue
        kind = spark_type_or_none(field.type)
        if kind is None:
            raise refusal(
                f"names the column {field.name!r}, which has the Arrow type {field.type}, which a "
                "topic cannot hold: cast it"
            )
        fields.append((field.name, kind, field.nullable))
    return make_schema(fields)


def spark_type_or_none(given: pa.DataType) -> JsonType | None:
    """The canonical Spark type that holds every value of an Arrow type; None if there is none."""
    if given in _NAMES:
        return _NAMES[given]
    if pa.types.is_dictionary(given):
        return spark_type_or_none(given.value_type)
    if is_text(given):
        return "string"
    if is_bytes(given):
        return "binary"
    if pa.types.is_date(given):
        return "date"
    if pa.types.is_timestamp(given):
        return "timestamp_ntz" if given.tz is None else "timestamp"
    if pa.types.is_time(given):
        return f"time({_TIME_DIGITS[given.unit]})"
    if pa.types.is_duration(given):
        return "interval day to second"
    if pa.types.is_decimal(given):
        fits = given.precision <= 38 and 0 <= given.scale <= given.precision
        return f"decimal({given.precision},{given.scale})" if fits else None
    return _nested_to_spark(given)


def _nested_to_spark(given: pa.DataType) -> JsonType | None:
    if is_list(given):
        element = spark_type_or_none(given.value_type)
        if element is None:
            return None
        nullable = given.value_field.nullable
        return {"type": "array", "elementType": element, "containsNull": nullable}
    if pa.types.is_map(given):
        key, item = spark_type_or_none(given.key_type), spark_type_or_none(given.item_type)
        if key is None or item is None:
            return None
        nullable = given.item_field.nullable
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": nullable}
    if is_variant(given):
        return "variant"
    if pa.types.is_struct(given):
        fields = []
        for field in given:
            member = spark_type_or_none(field.type)
            if member is None:
                return None
            fields.append(
                {"name": field.name, "type": member, "nullable": field.nullable, "metadata": {}}
            )
        return {"type": "struct", "fields": fields}
    return None


def is_variant(given: pa.DataType) -> bool:
    """Whether it is a variant, and not only a struct like it."""
    return given == _VARIANT and given.field("metadata").metadata == _VARIANT_MARK


def is_text(given: pa.DataType) -> bool:
    """Whether it is one of Arrow's three types of UTF-8 text."""
    types = pa.types
    return types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)


def is_bytes(given: pa.DataType) -> bool:
    """Whether it is one of Arrow's four types of binary values."""
    types = pa.types
    return (
        types.is_binary(given)
        or types.is_large_binary(given)
        or types.is_binary_view(given)
        or types.is_fixed_size_binary(given)
    )


def is_list(given: pa.DataType) -> TypeGuard[_AnyList]:
    """Whether it is one of Arrow's three types of lists."""
    types = pa.types
    return types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
