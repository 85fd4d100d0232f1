"""Nested types part by part: how one differs from another, and what two of them come to.

A part has a path: `at.x` is a struct's field, `tags.element` what an array holds, `gates.key` and
`gates.value` what a map holds. Parts of structs are matched by name, in any order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from raftlog.machines.schema import Field, Schema
from raftlog.machines.widening import widens
from raftlog.records.schema_text import type_text
from raftlog.records.spark_types import JsonType

Tree = Any
"""A `JsonType`, or one whose plain types are of another kind, such as Arrow's."""


class Difference(NamedTuple):
    """A part that is only on one side, or that is of different types."""

    path: str
    wanted: JsonType | None
    """None: there is no such part."""
    given: Tree | None
    """None: it is missing."""


def forms_of(schema: Schema, field: Field) -> list[JsonType]:
    """All types that the column had, the oldest first, and the one that it has."""
    former = [old.type for old in schema.former if old.id == field.id]
    return [json.loads(text) for text in (*former, field.type)]


def differences(
    given: Tree,
    wanted: JsonType,
    forms: Sequence[JsonType],
    path: str,
    fits: Callable[[Tree, JsonType], bool],
) -> Iterator[Difference]:
    """Why values of one type are not taken for another, part by part.

    A field of a struct may be missing if it was added to that struct: its values are null.

    Args:
        given: The type of the values.
        wanted: The type that they should have.
        forms: What `wanted` was and is, the oldest first.
        path: Where the types stand.
        fits: Whether one type is taken for another where they are not both structs, both arrays or
            both maps.
    """
    if not _alike(given, wanted):
        if not fits(given, wanted):
            yield Difference(path, wanted, given)
        return
    assert isinstance(wanted, dict), "alike types are nested"
    if wanted["type"] == "struct":
        yield from _struct_differences(given, wanted, forms, path, fits)
        return
    keys = ("elementType",) if wanted["type"] == "array" else ("keyType", "valueType")
    for key in keys:
        below = [form[key] for form in forms if isinstance(form, dict)]
        part = f"{path}.{key.removesuffix('Type')}"
        yield from differences(given[key], wanted[key], below, part, fits)


def _struct_differences(
    given: Tree,
    wanted: dict[str, Any],
    forms: Sequence[JsonType],
    path: str,
    fits: Callable[[Tree, JsonType], bool],
) -> Iterator[Difference]:
    has, needs = _fields(given), _fields(wanted)
    stages = [_fields(form) for form in forms if isinstance(form, dict)]
    for name, kind in needs.items():
        if name in has:
            below = [stage[name] for stage in stages if name in stage]
            yield from differences(has[name], kind, below, f"{path}.{name}", fits)
        elif name in stages[0]:
            yield Difference(f"{path}.{name}", kind, None)
    seen: set[str] = set()
    for field in given["fields"]:
        if field["name"] not in needs or field["name"] in seen:
            yield Difference(f"{path}.{field['name']}", None, field["type"])
        seen.add(field["name"])


def merged(wanted: JsonType, given: JsonType) -> JsonType:
    """The type that holds the values of both, where that is one that `wanted` may widen to: with
    the fields that only structs of `given` have last. Anything else stays as `wanted` has it."""
    if not _alike(given, wanted):
        return given if widens(type_text(wanted), type_text(given), nested=False) else wanted
    assert isinstance(wanted, dict), "alike types are nested"
    assert isinstance(given, dict), "alike types are nested"
    match wanted["type"]:
        case "array":
            return wanted | {"elementType": merged(wanted["elementType"], given["elementType"])}
        case "map":
            return wanted | {"valueType": merged(wanted["valueType"], given["valueType"])}
    has = _fields(given)
    fields = [
        field | {"type": merged(field["type"], has.get(field["name"], field["type"]))}
        for field in wanted["fields"]
    ]
    taken = {name.lower() for name in _fields(wanted)}
    added = {
        field["name"].lower(): field
        for field in given["fields"]
        if field["name"].lower() not in taken
    }
    return wanted | {"fields": [*fields, *added.values()]}


def _alike(given: Tree, wanted: JsonType) -> bool:
    """Whether both are structs, both arrays or both maps."""
    if not isinstance(given, dict) or not isinstance(wanted, dict):
        return False
    return bool(given["type"] == wanted["type"])


def _fields(struct: Tree) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in struct["fields"]}
