"""Rows and batches brought into a topic's types: differences, and casts that lose nothing."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from raftlog.errors import SchemaMismatch
from raftlog.machines.schema import RESERVED_NAMES, Field, Schema
from raftlog.records.arrow_types import (
    arrow_schema,
    arrow_type,
    is_bytes,
    is_list,
    is_text,
    map_of,
    nulls,
    spark_type_or_none,
)
from raftlog.records.metadata import is_metadata
from raftlog.records.nested import Difference, Tree, differences, forms_of
from raftlog.records.schema_text import field_ddl, type_ddl, type_text
from raftlog.records.spark_types import JsonType

# ---------------------------------------------------------------- differences


def difference(schema: Schema, given: pa.Schema) -> str | None:
    """Why batches of `given` do not fit a topic, one line for each column; None if they fit.

    Columns are matched by name. Metadata columns that were read are skipped. A type fits if the
    topic's type has an equal value for each of its values (int fits bigint, any zone fits UTC). A
    nullable column fits one that is NOT NULL, because `conform` checks the values. A column that
    may be null, or a field that was added to a struct in the topic, may be missing: its values are
    null. If there is a column that the topic lacks, such columns are named: it may be one of them.
    """
    # Older versions of Arrow cannot hash a schema with metadata.
    given = given.remove_metadata()
    if not _RESERVED.isdisjoint(given.names):
        given = pa.schema([field for field in given if not is_metadata(field)])
    return _difference(schema, given)


@lru_cache(maxsize=256)
def _difference(schema: Schema, given: pa.Schema) -> str | None:
    lines = []
    wanted = arrow_schema(schema)
    extra = [field for field in given if not wanted.get_all_field_indices(field.name)]
    for column, field in zip(schema.fields, wanted, strict=True):
        positions = given.get_all_field_indices(field.name)
        ddl = field_ddl(column.name, json.loads(column.type), column.nullable)
        if not positions:
            if extra or not field.nullable:
                lines.append(f"  missing: {ddl}")
        elif len(positions) > 1:
            lines.append(f"  twice:   {field.name}")
        elif pa.types.is_null(given.field(positions[0]).type):
            if not field.nullable:
                lines.append(f"  differs: {ddl}; given nothing but nulls")
        else:
            lines += _type_lines(schema, column, given.field(positions[0]).type)
    for field in extra:
        kind = type_name(field.type)
        lines.append(f"  extra:   {field.name} {kind}{reserved_name(field.name)}")
    return "\n".join(dict.fromkeys(lines)) or None


def reserved_name(name: str) -> str:
    """What to say behind a column's name that is not its topic's; "" if it is no reserved one."""
    return f"; {_IS_RESERVED}" if name in RESERVED_NAMES else ""


_RESERVED = frozenset(RESERVED_NAMES)
_IS_RESERVED = "the name is reserved for metadata: leave the column out or rename it"


def _type_lines(schema: Schema, column: Field, given: pa.DataType) -> Iterator[str]:
    """A line for each part of a column with which it does not fit."""
    forms = forms_of(schema, column)
    for each in differences(_tree(given), forms[-1], forms, column.name, _fits):
        if each.path == column.name:
            ddl = field_ddl(column.name, forms[-1], column.nullable)
            yield f"  differs: {ddl}; given {type_name(given)}{_zone_advice(each)}"
        elif each.wanted is None:
            yield f"  extra:   {each.path} {type_name(_arrow(each.given))}"
        elif each.given is None:
            yield f"  missing: {each.path} {type_ddl(each.wanted)}"
        else:
            told = f"{type_name(_arrow(each.given))}{_zone_advice(each)}"
            yield f"  differs: {each.path} {type_ddl(each.wanted)}; given {told}"


def _zone_advice(found: Difference) -> str:
    # One with a zone would fit.
    naive = found.wanted == "timestamp" and pa.types.is_timestamp(_arrow(found.given))
    return "; give its values a time zone, with pandas by .dt.tz_localize('UTC')" if naive else ""


def type_name(given: pa.DataType) -> str:
    """The type as `raftlog topic describe` writes it; Arrow's name if topics have no such type."""
    value = spark_type_or_none(given)
    return f"the Arrow type {given}" if value is None else type_ddl(value)


def _tree(given: pa.DataType) -> Tree:
    """A nested type with Arrow's types as its plain ones, and beside its parts."""
    types = pa.types
    if types.is_dictionary(given):
        return _tree(given.value_type)
    if is_list(given):
        return {"type": "array", "elementType": _tree(given.value_type), "arrow": given}
    if types.is_map(given):
        key, item = _tree(given.key_type), _tree(given.item_type)
        return {"type": "map", "keyType": key, "valueType": item, "arrow": given}
    if types.is_struct(given):
        fields = [{"name": field.name, "type": _tree(field.type)} for field in given]
        return {"type": "struct", "fields": fields, "arrow": given}
    return given


def _arrow(tree: Tree) -> pa.DataType:
    found: pa.DataType = tree["arrow"] if isinstance(tree, dict) else tree
    return found


def _fits(tree: Tree, kind: JsonType) -> bool:
    """Whether a topic's type has an equal value for each value of a type, which is not nested
    alike.

    Widths of text and lists, units of time and nullability are not compared: the cast checks the
    values.
    """
    given, wanted = _arrow(tree), arrow_type(type_text(kind))
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
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
    if types.is_time(given):
        return types.is_time(wanted)
    if types.is_duration(given):
        return types.is_duration(wanted)
    if is_text(given) or is_bytes(given):
        return types.is_string(wanted) if is_text(given) else types.is_binary(wanted)
    return kind == "variant" and _is_like_variant(tree)


def _is_like_variant(tree: Tree) -> bool:
    if not isinstance(tree, dict) or tree["type"] != "struct":
        return False
    parts = {field["name"]: field["type"] for field in tree["fields"]}
    binary = all(_fits(kind, "binary") for kind in parts.values())
    return binary and parts.keys() == {"value", "metadata"} and len(tree["fields"]) == 2


# ---------------------------------------------------------------- casts


def conform(
    batch: pa.RecordBatch, schema: Schema, topic: str, rows_before: int = 0
) -> pa.RecordBatch:
    """The same values in the topic's Arrow schema.

    Columns are taken by name and put into the topic's order, and cast where no value changes. One
    that may be null is so where the batch lacks it. Metadata columns that were read
    are left out. Raises `SchemaMismatch` with the names of the columns for a difference, for a null
    in a column (or part of one) that is NOT NULL, and for a value that the cast would change. The
    row of a null is counted from `rows_before`.
    """
    wanted = arrow_schema(schema)
    same = batch.schema.equals(wanted)
    problem = None if same else difference(schema, batch.schema)
    if problem is not None:
        raise SchemaMismatch(topic=topic, difference=problem)
    columns = []
    names = set(batch.schema.names)
    for field in wanted:
        if field.name not in names:
            columns.append(nulls(batch.num_rows, field.type))
            continue
        column = batch.column(field.name)
        try:
            column = _cast(column, field.type)
        except pa.ArrowException as error:
            line = f"  {field.name}: {error}"
            raise SchemaMismatch(topic=topic, difference=line) from error
        if _forbidden_null(column, field) is not None:
            row = _first_row(column, field)
            part = _forbidden_null(column.slice(row, 1), field)
            line = f"  {part}: a null, where the topic allows none"
            raise mismatch(topic, line, (rows_before + row,))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def mismatch(topic: str, line: str, rows: tuple[int, ...]) -> SchemaMismatch:
    """The error of a value in the first of `rows`; of a column if there are none."""
    error = SchemaMismatch(topic=topic, difference=line)
    error.rows = rows
    return error


def _cast(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """The column as `wanted`. Parts of structs are taken by name, and are null where the column has
    none. Raises ArrowException if a value would change. Ignores nulls."""
    if column.type == wanted:
        return column
    relaxed = _relaxed(wanted)
    if column.type != relaxed:
        column = column.cast(relaxed)
    return column if relaxed == wanted else _relabel(column, wanted)


@lru_cache(maxsize=256)
def _relaxed(wanted: pa.DataType) -> pa.DataType:
    """The type with all its parts nullable.

    Arrow refuses to cast a part to NOT NULL if it holds a null below a null. Such a null is no
    value of the column, so it is allowed here.
    """
    if pa.types.is_list(wanted):
        return pa.list_(pa.field("element", _relaxed(wanted.value_type)))
    if pa.types.is_map(wanted):
        return map_of(
            pa.field("key", _relaxed(wanted.key_type), nullable=False),
            pa.field("value", _relaxed(wanted.item_type)),
        )
    if pa.types.is_struct(wanted):
        return pa.struct([pa.field(field.name, _relaxed(field.type)) for field in wanted])
    return wanted


def _relabel(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """The same values under a type that differs only in nullability.

    Arrow has no cast for this, so the column is written as a message and read as `wanted`.
    """
    message = pa.RecordBatch.from_arrays([column], names=["column"]).serialize()
    schema = pa.schema([pa.field("column", wanted)])
    return pa.ipc.read_record_batch(message, schema).column(0)


def _forbidden_null(column: pa.Array[Any], field: pa.Field[Any], path: str = "") -> str | None:
    """The path of the first NOT NULL part that holds a null; a null below a null is allowed."""
    path = f"{path}.{field.name}" if path else field.name
    if not field.nullable and column.null_count:
        return path
    for part, below in _parts(column, field.type) if _is_strict(field.type) else ():
        found = _forbidden_null(part, below, path)
        if found is not None:
            return found
    return None


def _first_row(column: pa.Array[Any], field: pa.Field[Any]) -> int:
    """The first row with a null that is forbidden, of a column that has one."""

    def is_in_first(count: int) -> bool:
        return _forbidden_null(column.slice(0, count), field) is not None

    return bisect.bisect_left(range(1, len(column)), x=True, key=is_in_first)


def _parts(column: Any, kind: pa.DataType) -> list[tuple[pa.Array[Any], pa.Field[Any]]]:
    """The columns within a nested array, without the values below a null."""
    if column.null_count:
        column = column.drop_null()
    if pa.types.is_list(kind):
        return [(column.flatten(), kind.value_field)]
    if pa.types.is_map(kind):
        # `keys` and `items` are those of the whole array, even if `column` is a slice of it.
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
    """Whether some part of a nested type is NOT NULL."""
    if pa.types.is_list(kind):
        return not kind.value_field.nullable or _is_strict(kind.value_type)
    if pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(not field.nullable or _is_strict(field.type) for field in kind)
    return False
