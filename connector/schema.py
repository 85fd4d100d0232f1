"""Spark's schemas and a topic's: conversion, projection, and differences field by field.

A topic's field type is the JSON text of Spark's type, so a column keeps its exact type on its way
through the log. Nullability: a read may ask for `nullable` where the topic says never null, but
not the other way round. A write is judged by its rows, because Spark calls almost every column
nullable.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.machines.widening import widens
from raftlog.records.schema_text import canonical
from raftlog.spark.column_names import renamed
from raftlog.spark.metadata_columns import METADATA, without_metadata

if TYPE_CHECKING:
    from raftlog import TopicInfo

_NULLABILITY = ("nullable", "containsNull", "valueContainsNull")
"""The keys with which the JSON of a type allows nulls inside it."""


def check_types(given: StructType) -> None:
    """Check that a topic can hold each type of these columns, whatever topic there is. Raises
    `InvalidOption`, which lists what a topic can hold."""
    for field in given.fields:
        canonical(StructType([field]).jsonValue())


def topic_struct(topic: TopicInfo, *, include_metadata: bool) -> StructType:
    """The topic's columns as Spark's schema, followed by the metadata columns if asked for."""
    fields = [
        StructField.fromJson(
            {
                "name": field.name,
                "type": json.loads(field.type),
                "nullable": field.nullable,
                "metadata": {},
            }
        )
        for field in topic.schema.fields
    ]
    return StructType(fields + (list(METADATA) if include_metadata else []))


def check_projection(wanted: StructType, topic: TopicInfo) -> None:
    """Check that `wanted` (from `.schema(...)`) names columns of the topic or metadata columns,
    with their types.

    The order is free, and each column may be named once. Names may differ in case. Raises
    `SchemaMismatch`; for a type that no topic can hold `InvalidOption`.
    """
    check_types(wanted)
    have = topic_struct(topic, include_metadata=True)
    lines = projection_problems(wanted, have, "the topic")
    if lines:
        raise SchemaMismatch(
            topic=topic.name,
            difference="\n".join(lines),
            advice="Name in .schema(...) only columns of the topic, with its types "
            "(`raftlog topic describe`), and cast after the read; or leave .schema(...) out.",
        )


def projection_problems(wanted: StructType, have: StructType, what: str) -> list[str]:
    """A line for each of the `wanted` columns that `what`, which has columns `have`, cannot give.
    Names may differ in case.

    Raises `InvalidOption` if none is wanted.
    """
    if not wanted.fields:
        raise InvalidOption(
            option="schema",
            problem="names no column",
            advice=f"Name one, {have.names[-1]} for instance.",
        )
    known = {field.name: field for field in have.fields}
    lines = _repeated(wanted)
    for field in renamed(wanted, known).fields:
        found = known.get(field.name)
        if found is None:
            near = difflib.get_close_matches(field.name, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            lines.append(f"  {field.name}: asked for, not in {what}{hint}")
        elif not _readable(_tree(field.dataType), _tree(found.dataType)):
            lines.append(f"  {field.name}: asked for as {_words(field)}, is {_words(found)}")
        elif found.nullable and not field.nullable:
            lines.append(f"  {field.name}: asked for as NOT NULL, may be null")
    return lines


def check_writable(given: StructType, topic: TopicInfo) -> None:
    """Check that a DataFrame's columns, in any order, are the topic's. Raises `SchemaMismatch`.

    Names may differ in case, which a task refuses if Spark is case-sensitive (`check_case`). Those
    that were added to the topic may be missing: its records have null in them. One may have a type
    that the topic's type was widened from, or could be: the client casts it.
    """
    lines = _misfits(given, topic)
    if not lines:
        return
    try:
        advice = f"Set mergeSchema=true, which {merge_of(given, topic)}; or {_SELECT}"
    except SchemaMismatch:
        advice = ""  # no merge helps
    raise SchemaMismatch(topic=topic.name, difference="\n".join(lines), advice=advice)


_SELECT = "select and cast the columns to the topic's schema (`raftlog topic describe`)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a topic needs so that a DataFrame can be written to it."""

    add: tuple[StructField, ...]
    """Columns that only the DataFrame has. They may be null, and so may their parts."""
    types: tuple[StructField, ...]
    """Columns whose type in the DataFrame holds each value of the topic's, and more."""

    def __str__(self) -> str:
        parts = (("adds", self.add), ("widens", self.types))
        return " and ".join(
            f"{verb} {', '.join(field.name for field in fields)}"
            for verb, fields in parts
            if fields
        )


def merge_of(given: StructType, topic: TopicInfo) -> Merge:
    """What to change in the topic so that the DataFrame fits. Raises `SchemaMismatch` if it differs
    in anything else: then nothing should be changed.

    A column whose name differs from one of the topic's only in case is that one.
    """
    by_name = {field.name: field for field in topic.schema.fields}
    taken = {name.lower() for name in by_name}
    known = topic_struct(topic, include_metadata=False)
    add, types, rest = [], [], []
    for field in renamed(without_metadata(given), by_name).fields:
        if field.name.lower() not in taken:
            add.append(StructField(field.name, _all_nullable(field.dataType)))
        elif field.name in by_name and widens(by_name[field.name].type, _text(field)):
            types.append(StructField(field.name, field.dataType))
            rest.append(known[field.name])
        else:
            rest.append(field)
    lines = _repeated(given) + _misfits(StructType(rest), topic)
    if lines:
        raise SchemaMismatch(topic=topic.name, difference="\n".join(dict.fromkeys(lines)))
    return Merge(add=tuple(add), types=tuple(types))


def _misfits(given: StructType, topic: TopicInfo) -> list[str]:
    """One line for each column with which a DataFrame does not fit a topic."""
    known = topic_struct(topic, include_metadata=False)
    own = renamed(without_metadata(given), known.names)
    optional = {field.name for field in topic.schema.fields if topic.schema.was_added(field)}
    optional -= set(own.names)
    types = {field.name: field.type for field in topic.schema.fields}
    cast = [
        known[field.name]
        if field.name in types and widens(_text(field), types[field.name])
        else field
        for field in own.fields
    ]
    return _repeated(given) + _differences(
        StructType(cast),
        StructType([field for field in known.fields if field.name not in optional]),
        _Sides(given="in the DataFrame", wanted="in the topic", nullability=False),
    )


def _text(field: StructField) -> str:
    """The type as a topic's field has it, if it is not nested."""
    return json.dumps(field.dataType.jsonValue())


def creation_text(given: StructType) -> str:
    """Spark's JSON text of the schema that a first write gives a topic.

    Metadata columns and column metadata are left out. Every column, and every part of one, may be
    null, because what one DataFrame promises does not bind the next.
    """
    fields = without_metadata(given).fields
    if not fields:
        raise InvalidOption(
            option="topic", problem="has no columns to write", advice="Select at least one."
        )
    repeated = _repeated(given)
    if repeated:
        raise InvalidOption(
            option="topic",
            problem="cannot be created with these columns:\n" + "\n".join(repeated) + "\n",
            advice="Rename all but one.",
        )
    return _all_nullable(StructType(fields)).json()


def _all_nullable(given: DataType) -> DataType:
    match given:
        case StructType():
            return StructType(
                [StructField(field.name, _all_nullable(field.dataType)) for field in given.fields]
            )
        case ArrayType():
            return ArrayType(_all_nullable(given.elementType))
        case MapType():
            return MapType(given.keyType, _all_nullable(given.valueType))
        case _:
            return given


# ---------------------------------------------------------------- differences


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """The names of the two sides of a comparison, and whether nullability counts."""

    given: str
    wanted: str
    nullability: bool

    def equal(self, given: StructField, wanted: StructField) -> bool:
        """Whether two fields of one name are the same, as far as it counts."""
        if self.nullability and given.nullable != wanted.nullable:
            return False
        dropped = ("metadata",) if self.nullability else ("metadata", *_NULLABILITY)
        return bool(_tree(given.dataType, dropped) == _tree(wanted.dataType, dropped))

    def words(self, field: StructField) -> str:
        """The field's type, with NOT NULL if that counts."""
        return _words(field) if self.nullability else field.dataType.simpleString()


def _differences(given: StructType, wanted: StructType, sides: _Sides) -> list[str]:
    """One line for each column that is only on one side, or that differs."""
    has = {field.name: field for field in given.fields}
    needs = {field.name: field for field in wanted.fields}
    lines = []
    for name, need in needs.items():
        field = has.get(name)
        if field is None:
            lines.append(f"  {name}: {sides.words(need)} {sides.wanted}, missing {sides.given}")
        elif not sides.equal(field, need):
            lines.append(
                f"  {name}: {sides.words(need)} {sides.wanted}, {sides.words(field)} {sides.given}"
            )
    for name, field in has.items():
        if name not in needs:
            lines.append(f"  {name}: {sides.words(field)} {sides.given}, missing {sides.wanted}")
    return lines


def _repeated(schema: StructType) -> list[str]:
    lower = [name.lower() for name in schema.names]
    return [
        f"  {name}: named twice" + ("" if schema.names.count(name) > 1 else ", but for the case")
        for name in sorted(set(schema.names))
        if lower.count(name.lower()) > 1
    ]


def _words(field: StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " NOT NULL")


def _tree(data_type: DataType, dropped: tuple[str, ...] = ("metadata",)) -> Any:
    """A type as plain JSON values, without the keys that do not count."""
    return _plain(canonical(data_type.jsonValue()), dropped)


def _plain(tree: Any, dropped: tuple[str, ...]) -> Any:
    if isinstance(tree, dict):
        return {key: _plain(part, dropped) for key, part in tree.items() if key not in dropped}
    if isinstance(tree, list):
        return [_plain(part, dropped) for part in tree]
    return tree


def _readable(wanted: Any, have: Any) -> bool:
    """Whether types are equal, but that `wanted` may allow nulls inside where `have` does not."""
    if isinstance(wanted, dict) and isinstance(have, dict):
        if wanted.keys() != have.keys():
            return False
        return all(
            (value or not have[key]) if isinstance(value, bool) else _readable(value, have[key])
            for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(have, list):
        return len(wanted) == len(have) and all(map(_readable, wanted, have))
    return bool(wanted == have)
