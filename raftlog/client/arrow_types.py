"""Arrow's types and a topic's: conversions both ways, differences, casts that lose nothing.

A topic's columns are always of the canonical Arrow types: `timestamp[us, UTC]`, `string` and
`binary` (not large, no views), `date32`, `decimal128`, list elements named `element`, map entries
`key` and `value`, and no metadata: exactly what Spark's `to_arrow_schema(..., "UTC")` gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa

from raftlog.client.schema_text import (
    field_ddl,
    make_schema,
    parse_schema,
    type_ddl,
)
from raftlog.client.spark_types import JsonType, refusal
from raftlog.errors import SchemaMismatch
from raftlog.machines.schema import RESERVED_NAMES, Schema

_AnyList: TypeAlias = "pa.ListType[Any] | pa.LargeListType[Any] | pa.FixedSizeListType[Any, Any]"

_PRIMITIVES: dict[str, pa.DataType] = {
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
_NAMES = {arrow: name for name, arrow in _PRIMITIVES.items()}


# ---------------------------------------------------------------- from a topic's schema to Arrow's


@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a field's canonical type text (`raftlog.machines.schema`)."""
    return _to_arrow(json.loads(text))


@lru_cache(maxsize=256)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a topic's batches."""
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
        digits = value.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(digits[0]), int(digits[1]))
    match value["type"]:
        case "array":
            element = _to_arrow(value["elementType"])
            return pa.list_(pa.field("element", element, nullable=value["containsNull"]))
        case "map":
            item = _to_arrow(value["valueType"])
            return _map_of(
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


def _map_of(key: pa.Field[Any], item: pa.Field[Any]) -> pa.DataType:
    parts: tuple[Any, Any] = (key, item)  # the stubs know of types alone there, which are nullable
    made: pa.DataType = pa.map_(*parts)
    return made


# ---------------------------------------------------------------- from Arrow's schema to a topic's


def schema_of(given: str | pa.Schema | Schema) -> Schema:
    """A schema in any of its forms: Spark DDL, Spark JSON, Arrow's, a topic's own.

    Raises `InvalidOption(option="schema")` for what no topic can hold.
    """
    match given:
        case Schema():
            return given
        case str():
            return parse_schema(given)
        case pa.Schema():
            return schema_from_arrow(given)
        case _:
            raise refusal(f"is a {type(given).__name__}")


def schema_from_arrow(given: pa.Schema) -> Schema:
    """A topic schema that holds such batches without loss, version 1 with ids from 1.

    Reserved metadata columns are left out. Raises `InvalidOption` for types without a lossless
    home (unsigned 64-bit, times of day, durations, all-null columns of no type).
    """
    return make_schema(
        [
            (field.name, spark_type(field.type), field.nullable)
            for field in given
            if field.name not in RESERVED_NAMES
        ]
    )


def spark_type(given: pa.DataType) -> JsonType:
    """The canonical Spark type that holds every value of an Arrow type. Raises `InvalidOption`."""
    value = _to_spark(given)
    if value is None:
        raise refusal(f"has the Arrow type {given}, which a topic cannot hold: cast it")
    return value


def _to_spark(given: pa.DataType) -> JsonType | None:
    if given in _NAMES:
        return _NAMES[given]
    if pa.types.is_dictionary(given):
        return _to_spark(given.value_type)
    if _is_text(given):
        return "string"
    if _is_bytes(given):
        return "binary"
    if pa.types.is_date(given):
        return "date"
    if pa.types.is_timestamp(given):
        return "timestamp_ntz" if given.tz is None else "timestamp"
    if pa.types.is_decimal(given):
        fits = given.precision <= 38 and 0 <= given.scale <= given.precision
        return f"decimal({given.precision},{given.scale})" if fits else None
    return _nested_to_spark(given)


def _nested_to_spark(given: pa.DataType) -> JsonType | None:
    if _is_list(given):
        element = _to_spark(given.value_type)
        if element is None:
            return None
        nullable = given.value_field.nullable
        return {"type": "array", "elementType": element, "containsNull": nullable}
    if pa.types.is_map(given):
        key, item = _to_spark(given.key_type), _to_spark(given.item_type)
        if key is None or item is None:
            return None
        nullable = given.item_field.nullable
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": nullable}
    if pa.types.is_struct(given):
        fields = []
        for field in given:
            member = _to_spark(field.type)
            if member is None:
                return None
            fields.append(
                {"name": field.name, "type": member, "nullable": field.nullable, "metadata": {}}
            )
        return {"type": "struct", "fields": fields}
    return None


def _is_text(given: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)


def _is_bytes(given: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_binary(given)
        or types.is_large_binary(given)
        or types.is_binary_view(given)
        or types.is_fixed_size_binary(given)
    )


def _is_list(given: pa.DataType) -> TypeGuard[_AnyList]:
    types = pa.types
    return types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)


# ---------------------------------------------------------------- differences


def difference(schema: Schema, given: pa.Schema) -> str | None:
    """What keeps batches of `given` out of a topic, one column a line; None: nothing does.

    Columns are matched by name, reserved metadata columns are passed over, and a type fits if
    every value of it has an equal one in the topic's (int in bigint, any zone in UTC). A nullable
    column fits one that is NOT NULL: `conform` looks at the values.
    """
    # Without metadata, because older versions of Arrow cannot hash a schema that has some.
    return _difference(schema, given.remove_metadata())


@lru_cache(maxsize=256)
def _difference(schema: Schema, given: pa.Schema) -> str | None:
    lines = []
    wanted = arrow_schema(schema)
    for field in wanted:
        positions = given.get_all_field_indices(field.name)
        ddl = field_ddl(field.name, spark_type(field.type), field.nullable)
        if not positions:
            lines.append(f"  missing: {ddl}")
        elif len(positions) > 1:
            lines.append(f"  twice:   {field.name}")
        elif not fits(given.field(positions[0]).type, field.type):
            lines.append(f"  differs: {ddl}; given {_describe(given.field(positions[0]).type)}")
        elif pa.types.is_null(given.field(positions[0]).type) and not field.nullable:
            lines.append(f"  differs: {ddl}; given nothing but nulls")
    for field in given:
        if field.name not in RESERVED_NAMES and not wanted.get_all_field_indices(field.name):
            lines.append(f"  extra:   {field.name} {_describe(field.type)}")
    return "\n".join(dict.fromkeys(lines)) or None


def _describe(given: pa.DataType) -> str:
    value = _to_spark(given)
    return f"the Arrow type {given}" if value is None else type_ddl(value)


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of `given` have equal values in the canonical type `wanted`.

    Widths of text and lists, units of time and nullability are judged by the values themselves
    when they are cast.
    """
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return fits(given.value_type, wanted)
    if types.is_signed_integer(given) and types.is_signed_integer(wanted):
        return given.bit_width <= wanted.bit_width
    if types.is_float32(given):
        return types.is_float64(wanted)
    if types.is_decimal(given) and types.is_decimal(wanted):
        whole: int = wanted.precision - wanted.scale
        return bool(given.scale <= wanted.scale) and given.precision - given.scale <= whole
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if types.is_date(given):
        return types.is_date(wanted)
    if _is_text(given) or _is_bytes(given):
        return types.is_string(wanted) if _is_text(given) else types.is_binary(wanted)
    return _nested_fits(given, wanted)


def _nested_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if _is_list(given) and types.is_list(wanted):
        return fits(given.value_type, wanted.value_type)
    if types.is_map(given) and types.is_map(wanted):
        same_key = fits(given.key_type, wanted.key_type)
        return same_key and fits(given.item_type, wanted.item_type)
    if types.is_struct(given) and types.is_struct(wanted):
        if [field.name for field in given] != [field.name for field in wanted]:
            return False
        return all(fits(mine.type, its.type) for mine, its in zip(given, wanted, strict=True))
    return False


# ---------------------------------------------------------------- conforming


def conform(batch: pa.RecordBatch, schema: Schema, topic: str) -> pa.RecordBatch:
    """The batch exactly as the topic's Arrow schema has it, values unchanged.

    Columns are ordered by name, reserved metadata columns left out, types cast where nothing is
    lost. Raises `SchemaMismatch` naming the columns: for a difference, a null in a column (or in
    a part of one) that is NOT NULL, a value that the cast would change.
    """
    wanted = arrow_schema(schema)
    same = batch.schema.equals(wanted)
    problem = None if same else difference(schema, batch.schema)
    if problem is not None:
        raise SchemaMismatch(topic=topic, difference=problem)
    columns = []
    for field in wanted:
        column = batch.column(field.name)
        try:
            column = _cast(column, field.type)
        except pa.ArrowException as error:
            line = f"  {field.name}: {error}"
            raise SchemaMismatch(topic=topic, difference=line) from error
        part = _forbidden_null(column, field)
        if part is not None:
            line = f"  {part}: a null, where the topic allows none"
            raise SchemaMismatch(topic=topic, difference=line)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def batch_from_rows(
    rows: Sequence[Mapping[str, Any]], schema: Schema, topic: str
) -> pa.RecordBatch:
    """A batch of plain Python rows; a key that a row lacks is null.

    Raises `SchemaMismatch` for a key that is no column (metadata names are passed over), a value
    of another type, or a null where the topic allows none. A datetime without a zone is UTC.
    """
    wanted = arrow_schema(schema)
    extra = set().union(*rows) - set(wanted.names) - set(RESERVED_NAMES)
    if extra:
        lines = "\n".join(f"  extra:   {name}" for name in sorted(extra, key=str))
        raise SchemaMismatch(topic=topic, difference=lines)
    columns = []
    for field in wanted:
        values = [row.get(field.name) for row in rows]
        try:
            line = _lost_unseen(values, field.type, field.name)
            columns.append(pa.array(values, _relaxed(field.type)))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            line = f"  differs: {field.name} {type_ddl(spark_type(field.type))}: {error}"
        if line is not None:
            raise SchemaMismatch(topic=topic, difference=line)
    return conform(pa.RecordBatch.from_arrays(columns, names=wanted.names), schema, topic)


def _lost_unseen(values: Sequence[Any], kind: pa.DataType, path: str) -> str | None:
    """What of Python values `pa.array` would drop without a word, or None.

    It leaves out keys that a struct lacks, and cuts 1.5 to 1 and a datetime to its date. Values
    are looked at in bulk, by the set of their types.
    """
    if pa.types.is_integer(kind) or pa.types.is_date(kind):
        types = set(map(type, values)) - {type(None)}
        if pa.types.is_integer(kind):
            cut = sorted(found.__name__ for found in types if not issubclass(found, Integral))
        else:
            cut = sorted(found.__name__ for found in types if issubclass(found, datetime))
        if cut:
            return f"  differs: {path} {type_ddl(spark_type(kind))}; given {', '.join(cut)}"
    elif pa.types.is_list(kind):
        members = [m for value in values if isinstance(value, (list, tuple)) for m in value]
        return _lost_unseen(members, kind.value_type, path)
    elif pa.types.is_map(kind):
        maps = [value.items() if isinstance(value, dict) else value for value in values if value]
        keys = [key for pairs in maps for key, _ in pairs]
        items = [item for pairs in maps for _, item in pairs]
        below = _lost_unseen(keys, kind.key_type, path)
        return below or _lost_unseen(items, kind.item_type, path)
    elif pa.types.is_struct(kind):
        rows = [value for value in values if isinstance(value, dict)]
        extra = set().union(*rows) - {part.name for part in kind}
        if extra:
            return f"  extra:   {path}.{min(extra, key=str)}"
        for part in kind:
            below = _lost_unseen(
                [row.get(part.name) for row in rows], part.type, f"{path}.{part.name}"
            )
            if below is not None:
                return below
    return None


def _cast(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """Raises ArrowException where a value would change. Nulls are not looked at."""
    if column.type == wanted:
        return column
    relaxed = _relaxed(wanted)
    if column.type != relaxed:
        column = column.cast(relaxed)
    return column if relaxed == wanted else _relabel(column, wanted)


@lru_cache(maxsize=256)
def _relaxed(wanted: pa.DataType) -> pa.DataType:
    """The type with all its parts nullable.

    Arrow refuses to cast a part to NOT NULL for a null below a null, which is none to us.
    """
    if pa.types.is_list(wanted):
        return pa.list_(pa.field("element", _relaxed(wanted.value_type)))
    if pa.types.is_map(wanted):
        return _map_of(
            pa.field("key", _relaxed(wanted.key_type), nullable=False),
            pa.field("value", _relaxed(wanted.item_type)),
        )
    if pa.types.is_struct(wanted):
        return pa.struct([pa.field(field.name, _relaxed(field.type)) for field in wanted])
    return wanted


def _relabel(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """The same buffers under a type that differs in nullability only, by way of a message."""
    message = pa.RecordBatch.from_arrays([column], names=["column"]).serialize()
    schema = pa.schema([pa.field("column", wanted)])
    return pa.ipc.read_record_batch(message, schema).column(0)


def _forbidden_null(column: pa.Array[Any], field: pa.Field[Any], path: str = "") -> str | None:
    """The path of the first part that holds a null and must not; nulls below nulls are fine."""
    path = f"{path}.{field.name}" if path else field.name
    if not field.nullable and column.null_count:
        return path
    for part, below in _parts(column, field.type) if _is_strict(field.type) else ():
        found = _forbidden_null(part, below, path)
        if found is not None:
            return found
    return None


def _parts(column: Any, kind: pa.DataType) -> list[tuple[pa.Array[Any], pa.Field[Any]]]:
    """The columns within a nested array, without what lies below a null."""
    if column.null_count:
        column = column.drop_null()
    if pa.types.is_list(kind):
        return [(column.flatten(), kind.value_field)]
    if pa.types.is_map(kind):
        # Keys and items are those of the whole array even where `column` is a slice of it.
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return [
            (column.keys[start:end], kind.key_field),
            (column.items[start:end], kind.item_field),
        ]
    if pa.types.is_struct(kind):
        return list(zip(column.flatten(), kind, strict=True))
    return []


@lru_cache(maxsize=256)
def _is_strict(kind: pa.DataType) -> bool:
    """Whether some part of a nested type must not be null."""
    if pa.types.is_list(kind):
        return not kind.value_field.nullable or _is_strict(kind.value_type)
    if pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(not field.nullable or _is_strict(field.type) for field in kind)
    return False
