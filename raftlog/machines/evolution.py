"""How a topic's schema evolves: which changes of columns are legal, and what they come to.

A change never touches records. Each batch names the version that it was written under, and the
schema keeps every form that a column ever had (`FormerField`), so readers know which columns a
batch has and as what they were encoded. A column is its id: a renamed one keeps it, and a name that
was dropped may be used again under a new one. Only `widening` looks inside nested types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from raftlog.machines.digest import StateDigest
from raftlog.machines.limits import (
    CHANGES_AT_ONCE_MAX,
    FORMER_FIELDS_MAX,
    SCHEMA_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
)
from raftlog.machines.schema import (
    RESERVED_NAMES,
    Field,
    FormerField,
    Schema,
)
from raftlog.machines.widening import widens

ADD = "add"
SET_TYPE = "set type"
RENAME = "rename"
DROP = "drop"
DROP_NOT_NULL = "drop not null"
ACTIONS = (ADD, SET_TYPE, RENAME, DROP, DROP_NOT_NULL)

FIELD_TYPE_CHARACTERS_MAX = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """One change of one column."""

    action: str
    """One of `ACTIONS`."""
    name: str
    """The column; that of `ADD` is new, nullable and the last."""
    type: str = ""
    """The canonical text of the type that `ADD` and `SET_TYPE` give it."""
    to: str = ""
    """The name that `RENAME` gives it."""


def evolved(schema: Schema, changes: Sequence[ColumnChange]) -> Schema | str:
    """The next version of the schema, after all of the changes in order; or why there is none, as
    the rest of a sentence about them."""
    problem = problem_of_changes(changes)
    if problem is not None:
        return problem
    ids = [field.id for field in schema.fields]
    assert ids == sorted(ids), "a topic's columns stand in the order of their ids"
    version = schema.version + 1
    for change in changes:
        changed = _changed(schema, change, version)
        if isinstance(changed, str):
            return changed
        schema = changed
    if len(schema.former) > FORMER_FIELDS_MAX:
        return f"makes too many: a topic remembers {FORMER_FIELDS_MAX} former columns"
    return problem_of_schema(schema) or replace(schema, version=version)


def in_effect(schema: Schema, changes: Sequence[ColumnChange]) -> bool:
    """Whether the schema is already as the changes want it: a resend, or another client was
    faster."""
    by_name = {field.name: field for field in schema.fields}
    for change in changes:
        field = by_name.get(change.name)
        match change.action:
            case "add":
                done = field is not None and field.type == change.type and field.nullable
            case "set type":
                done = field is not None and field.type == change.type
            case "rename":
                done = field is None and change.to in by_name
            case "drop":
                done = field is None
            case _:
                done = field is not None and field.nullable
        if not done:
            return False
    return True


def problem_of_changes(changes: Sequence[ColumnChange]) -> str | None:
    """What is wrong with the changes, whatever the schema, as the rest of a sentence."""
    if not 1 <= len(changes) <= CHANGES_AT_ONCE_MAX:
        return f"has {len(changes)} changes; 1 to {CHANGES_AT_ONCE_MAX} are allowed"
    for change in changes:
        if change.action not in ACTIONS:
            return f"has the action {change.action[:TEXT_CHARACTERS_MAX]!r}"
    return None


def problem_of_schema(schema: Schema) -> str | None:
    """Why no topic can have this schema; None if one can. Does not look inside types."""
    if not schema.fields:
        return "has no columns"
    seen: set[str] = set()
    ids: set[int] = set()
    for field in schema.fields:
        name = field.name.lower()
        if not 0 < len(name) <= TEXT_CHARACTERS_MAX:
            return f"has a column name of {len(name)} characters"
        if name in RESERVED_NAMES:
            return f"names a column {field.name!r}, which is reserved"
        if name in seen:
            return f"names column {field.name!r} twice (names are compared without case)"
        if field.id < 1 or field.id in ids:
            return f"gives column {field.name!r} the id {field.id}: ids count from 1, each once"
        if not 0 < len(field.type) <= FIELD_TYPE_CHARACTERS_MAX:
            return f"gives column {field.name!r} a type of {len(field.type)} characters"
        seen.add(name)
        ids.add(field.id)
    for old in schema.former:
        if len(old.name) > TEXT_CHARACTERS_MAX or len(old.type) > FIELD_TYPE_CHARACTERS_MAX:
            return f"has a former column with {len(old.name)} and {len(old.type)} characters"
    forms: tuple[Field | FormerField, ...] = (*schema.fields, *schema.former)
    characters = sum(len(form.name) + len(form.type) for form in forms)
    if characters > SCHEMA_CHARACTERS_MAX:
        return (
            f"has {characters} characters in the names and types of its columns; "
            f"{SCHEMA_CHARACTERS_MAX} are allowed"
        )
    return None


def digest_schema(digest: StateDigest, schema: Schema) -> None:
    """Write all of the schema into `digest`."""
    digest.number(schema.version)
    digest.number(len(schema.fields))
    for field in schema.fields:
        digest.number(field.id)
        digest.text(field.name)
        digest.text(field.type)
        digest.number(int(field.nullable))
    if not schema.former and not any(field.since for field in schema.fields):
        return
    for field in schema.fields:
        digest.number(field.since)
    digest.number(len(schema.former))
    for old in schema.former:
        digest.number(old.id)
        digest.text(old.name)
        digest.text(old.type)
        digest.number(int(old.nullable))
        digest.number(old.until)
        digest.number(old.since)


# ---------------------------------------------------------------- one change


def _changed(schema: Schema, change: ColumnChange, version: int) -> Schema | str:
    """The schema, still under its version, after one change that becomes part of `version`."""
    named = repr(change.name[:TEXT_CHARACTERS_MAX])
    by_name = {field.name: field for field in reversed(schema.fields)}
    found = by_name.get(change.name)
    if change.action == ADD:
        if found is not None:
            return f"adds column {named}, which the topic has"
        return _with_column(schema, change, version)
    if found is None:
        return f"names column {named}, which the topic does not have"
    match change.action:
        case "set type" if not widens(found.type, change.type):
            new = change.type[:TEXT_CHARACTERS_MAX]
            return (
                f"turns column {named} from {found.type} into {new}, which does not hold each "
                "value of it"
            )
        case "set type":
            return _with_form(schema, replace(found, type=change.type, since=version), version)
        # A later change could not say which of the two it means.
        case "rename" if by_name.get(change.to, found) is not found:
            to = change.to[:TEXT_CHARACTERS_MAX]
            return f"renames column {named} to {to!r}, which the topic has"
        case "rename":
            return _with_form(schema, replace(found, name=change.to, since=version), version)
        case "drop not null":
            return _with_form(schema, replace(found, nullable=True, since=version), version)
        case _:
            return _without(schema, found, version)


def _with_column(schema: Schema, change: ColumnChange, version: int) -> Schema:
    ids = [field.id for field in schema.fields] + [old.id for old in schema.former]
    added = Field(id=max(ids) + 1, name=change.name, type=change.type, nullable=True, since=version)
    return replace(schema, fields=(*schema.fields, added))


def _with_form(schema: Schema, form: Field, version: int) -> Schema:
    """The schema with another form of one of its columns."""
    before = next(field for field in schema.fields if field.id == form.id)
    fields = tuple(form if field is before else field for field in schema.fields)
    return replace(schema, fields=fields, former=_remembered(schema, before, version))


def _without(schema: Schema, gone: Field, version: int) -> Schema:
    fields = tuple(field for field in schema.fields if field is not gone)
    return replace(schema, fields=fields, former=_remembered(schema, gone, version))


def _remembered(schema: Schema, form: Field, version: int) -> tuple[FormerField, ...]:
    """The former columns with this form too, if some version has it."""
    if form.since == version:
        return schema.former
    old = FormerField(
        id=form.id,
        name=form.name,
        type=form.type,
        nullable=form.nullable,
        since=form.since,
        until=version,
    )
    return (*schema.former, old)
