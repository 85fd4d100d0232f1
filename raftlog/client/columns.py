"""What `alter_schema` is asked for, as changes of columns that a topic's machine takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from raftlog.client.arguments import text_argument, wrong_type
from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.machines.commands import TopicInfo
from raftlog.machines.evolution import (
    ADD,
    DROP,
    DROP_NOT_NULL,
    RENAME,
    SET_TYPE,
    ColumnChange,
)
from raftlog.machines.schema import Field, Schema
from raftlog.machines.widening import widens
from raftlog.records.arrow_types import schema_of
from raftlog.records.nested import differences
from raftlog.records.schema_text import command_to_move, make_schema, type_ddl, type_text
from raftlog.records.spark_types import JsonType

MIGRATE = (
    "A column only takes a type that holds each of its values: a wider integer, double for float, "
    "more digits before a decimal's point; also within structs, arrays and maps. Structs get more "
    "fields, last and without NOT NULL. For another type write a new topic: read this one, cast "
    "the columns, and write the result (`raftlog docs SPARK`: Schemas that change)."
)


def column_changes(
    topic: TopicInfo,
    add: str | pa.Schema | Schema | None,
    types: str | pa.Schema | Schema | None,
    rename: Mapping[str, str] | None,
    drop: Sequence[str],
    drop_not_null: Sequence[str],
) -> tuple[ColumnChange, ...]:
    """The changes, in an order in which they do not disturb each other. Raises `InvalidOption`,
    `SchemaMismatch`."""
    wider = _fields("types", types)
    _check_widening(topic, wider)
    if rename is not None and not isinstance(rename, Mapping):
        raise wrong_type("rename", rename, "Give a dict, such as {'gate': 'stand'}.")
    present = {(field.name, field.type) for field in topic.schema.fields}
    changes = [
        ColumnChange(action=SET_TYPE, name=field.name, type=field.type)
        for field in wider
        if (field.name, field.type) not in present
    ]
    changes += [
        ColumnChange(action=DROP_NOT_NULL, name=name)
        for name in _names("drop_not_null", drop_not_null)
    ]
    changes += [ColumnChange(action=DROP, name=name) for name in _names("drop", drop)]
    changes += [
        ColumnChange(
            action=RENAME, name=text_argument("rename", old), to=text_argument("rename", new)
        )
        for old, new in (rename or {}).items()
    ]
    for field in _fields("add", add):
        if not field.nullable:
            raise InvalidOption(
                option="add",
                problem=f"has column {field.name!r} as NOT NULL, which no record has a value for",
                advice="Add it without NOT NULL: it is null in the records that there are.",
            )
        changes.append(ColumnChange(action=ADD, name=field.name, type=field.type))
    return tuple(changes)


def _fields(option: str, given: str | pa.Schema | Schema | None) -> tuple[Field, ...]:
    if given is None:
        return ()
    try:
        return schema_of(given).fields
    except InvalidOption as error:
        raise InvalidOption(option=option, problem=error.problem, advice=error.advice) from None


def _names(option: str, given: Sequence[str]) -> Iterator[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise wrong_type(option, given, "Give a list of columns' names.")
    for name in given:
        yield text_argument(option, name)


def _check_widening(topic: TopicInfo, wider: Sequence[Field]) -> None:
    """What the machine would refuse, with a line for each column."""
    by_name = {field.name: field for field in topic.schema.fields}
    lines = [
        line
        for field in wider
        if (had := by_name.get(field.name)) is not None and not _becomes(had.type, field.type)
        for line in _narrower(field.name, json.loads(had.type), json.loads(field.type))
    ]
    if lines:
        types = {field.name: field.type for field in wider}
        parts = [
            (field.name, json.loads(types.get(field.name, field.type)), field.nullable)
            for field in topic.schema.fields
        ]
        advice = f"{MIGRATE} Begin with: {command_to_move(topic.name, make_schema(parts))}"
        raise SchemaMismatch(topic=topic.name, difference="\n".join(lines), advice=advice)


def _becomes(had: str, wanted: str) -> bool:
    return had == wanted or widens(had, wanted)


def _narrower(name: str, had: JsonType, wanted: JsonType) -> list[str]:
    """A line for each part that has another type, or for the whole column if all of them fit: then
    fields are in another order, or differ in NOT NULL."""
    found = differences(
        wanted, had, [had], name, lambda new, old: _becomes(type_text(old), type_text(new))
    )
    lines = [
        f"  {path}: {type_ddl(old)} in the topic, {_asked(new)}"
        for path, old, new in found
        if old is not None
    ]
    return lines or [f"  {name}: {type_ddl(had)} in the topic, {_asked(wanted)}"]


def _asked(kind: JsonType | None) -> str:
    return "missing in what is asked for" if kind is None else f"{type_ddl(kind)} asked for"
