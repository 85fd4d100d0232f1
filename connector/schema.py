"""Spark's schemas and a topic's: conversion, projection, and differences field by field.

A topic's field type is the JSON text of Spark's type, so a column keeps its exact type on its way
through the log. Nullability: a read may ask for `nullable` where the topic says never null, but
not the other way round. A write is judged by its rows, because Spark calls almost every column
nullable.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import operator
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.records.nested import Difference, differences, forms_of, merged
from raftlog.records.schema_text import canonical, command_to_move, parse_schema
from raftlog.records.spark_types import JsonType
from raftlog.spark.column_names import renamed
from raftlog.spark.metadata_columns import METADATA, without_metadata

if TYPE_CHECKING:
    from raftlog import TopicInfo


_EMPTY = "''"
"""How messages name a column without a name, which no topic has."""


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
            advice="With .schema(...): name only columns of the topic, with its types "
            "(`raftlog topic describe`), and cast after the read. Without: the topic was altered "
            "after load(), so load it again.",
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
        elif not _readable(*(canonical(one.dataType.jsonValue()) for one in (field, found))):
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
        advice = f"S{_SELECT[1:]}"  # no merge helps
        has = {name.lower() for name in without_metadata(given).names}
        gone = [
            f"--drop={field.name}"
            for field in topic.schema.fields
            if field.name.lower() not in has and not topic.schema.was_added(field)
        ]
        if gone and has <= {field.name.lower() for field in topic.schema.fields}:
            command = f"raftlog topic alter {shlex.join([topic.name, *gone])}"
            advice += f" To remove what the DataFrame no longer has from the topic: {command}"
    raise SchemaMismatch(topic=topic.name, difference="\n".join(lines), advice=advice)


_SELECT = "select and cast the columns to the topic's schema (`raftlog topic describe`)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a topic needs so that a DataFrame can be written to it."""

    add: tuple[StructField, ...]
    """Columns that only the DataFrame has. They may be null, and so may their parts."""
    types: tuple[StructField, ...]
    """Columns whose type also holds what the DataFrame has of them, and the topic's type does not.
    New fields of structs in them are the last there, and may be null."""
    added: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    """Paths of the fields that structs in `types` get."""
    widened: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    """Paths of what is widened in `types`."""

    def __str__(self) -> str:
        added = [*(column.name for column in self.add), *self.added]
        parts = (("adds", added), ("widens", self.widened))
        return " and ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)


def merge_of(given: StructType, topic: TopicInfo) -> Merge:
    """What to change in the topic so that the DataFrame fits. Raises `SchemaMismatch` if it differs
    in anything else: then nothing should be changed.

    A column whose name differs from one of the topic's only in case is that one.
    """
    by_name = {column.name: column for column in topic.schema.fields}
    taken = {name.lower() for name in by_name}
    add, rest, after = [], [], {}
    changes: list[Difference] = []
    for column in renamed(without_metadata(given), by_name).fields:
        if column.name.lower() not in taken:
            add.append(StructField(column.name, _all_nullable(column.dataType)))
            continue
        rest.append(column)
        if column.name in by_name:
            before = json.loads(by_name[column.name].type)
            wider = merged(before, canonical(_all_nullable(column.dataType).jsonValue()))
            changes += differences(wider, before, [before], column.name, operator.eq)
            if wider != before:
                after[column.name] = wider
    lines = _repeated(given) + _misfits(StructType(rest), topic, after)
    if lines:
        raise SchemaMismatch(
            topic=topic.name,
            difference="\n".join(dict.fromkeys(lines)),
            advice="" if _repeated(given) else _beyond_merging(given, topic),
        )
    return Merge(
        add=tuple(add),
        types=tuple(StructField(name, _spark_type(tree)) for name, tree in after.items()),
        added=tuple(each.path for each in changes if each.wanted is None),
        widened=tuple(each.path for each in changes if each.wanted is not None),
    )


def _beyond_merging(given: StructType, topic: TopicInfo) -> str:
    command = command_to_move(topic.name, parse_schema(creation_text(given)))
    return (
        "mergeSchema adds columns and widens types. Select and cast the columns to the topic's "
        f"schema (`raftlog topic describe`), or write a new topic, for example: {command} "
        "(`raftlog docs SPARK`: Schemas that change)."
    )


def _misfits(
    given: StructType, topic: TopicInfo, after: Mapping[str, JsonType] | None = None
) -> list[str]:
    """One line for each column, or part of one, with which a DataFrame does not fit a topic, once
    its columns have the types `after`."""
    has = {
        column.name: column
        for column in renamed(
            without_metadata(given), [column.name for column in topic.schema.fields]
        ).fields
    }
    found: list[Difference] = []
    for known in topic.schema.fields:
        column = has.pop(known.name, None)
        forms = forms_of(topic.schema, known)
        if column is not None:
            forms += [after[known.name]] if after and known.name in after else []
            tree = canonical(column.dataType.jsonValue())
            found += differences(tree, forms[-1], forms, known.name, _is_cast)
        elif not topic.schema.was_added(known):
            found.append(Difference(known.name, forms[-1], None))
    found += [Difference(name, None, column.dataType.jsonValue()) for name, column in has.items()]
    return _repeated(given) + [_line(each) for each in found]


def _is_cast(given: JsonType, wanted: JsonType) -> bool:
    """Whether the client casts values of one type to the other."""
    return given == wanted or merged(given, wanted) == wanted


def _line(each: Difference) -> str:
    wanted, given = (
        "missing" if tree is None else _spark_type(tree).simpleString()
        for tree in (each.wanted, each.given)
    )
    if each.wanted is None:
        return f"  {each.path or _EMPTY}: {given} in the DataFrame, missing in the topic"
    return f"  {each.path}: {wanted} in the topic, {given} in the DataFrame"


def _spark_type(tree: JsonType) -> DataType:
    part = {"name": "part", "type": tree, "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [part]})["part"].dataType


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


def _repeated(schema: StructType) -> list[str]:
    lower = [name.lower() for name in schema.names]
    return [
        f"  {name or _EMPTY}: named twice"
        + ("" if schema.names.count(name) > 1 else ", but for the case")
        for name in sorted(set(schema.names))
        if lower.count(name.lower()) > 1
    ]


def _words(field: StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " NOT NULL")


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
