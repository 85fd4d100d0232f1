"""Which types hold each value of another type, as Iceberg promotes and evolves them.

A part of a nested type is known by its name within its column: it is neither renamed nor dropped,
and a name is used once. So the column's id and the path of names identify it as an id of its own
would.
"""

from __future__ import annotations

import json
import re
from typing import Any

from raftlog.machines.limits import TYPE_DEPTH_MAX

_INTEGERS = ("byte", "short", "integer", "long")
_REALS = ("float", "double")
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)", re.ASCII)


def widens(before: str, after: str, *, nested: bool = True) -> bool:
    """Whether each value of the type `before` is a value of the other type `after`.

    A type becomes a wider integer, double from float, or a decimal with more digits before the
    point. With `nested` that is so within structs, elements of arrays and values of maps too, and
    structs get more fields, which may be null and come last. Keys of maps never change.

    Args:
        before: Canonical text.
        after: Canonical text. Any other is wider than none.
        nested: Whether to look inside types.
    """
    if before == after:
        return False
    if before.startswith('"') and after.startswith('"'):
        return _plain_widens(before[1:-1], after[1:-1])
    if not nested:
        return False
    old, new = _tree(before), _tree(after)
    return old is not None and new is not None and _holds(old, new)


def widens_floats(before: str, after: str) -> bool:
    """Whether a float within the type `before` is a double in the wider type `after`: alone of all
    values, a double is rounded, and not refused, by who takes it for the narrower type.

    Args:
        before: Canonical text.
        after: Canonical text of a type that holds each of its values.
    """
    return _floats_widen(json.loads(before), json.loads(after))


def _floats_widen(old: Any, new: Any) -> bool:
    if isinstance(old, str):
        return bool((old, new) == _REALS)
    match old["type"]:
        case "array":
            return _floats_widen(old["elementType"], new["elementType"])
        case "map":
            return _floats_widen(old["valueType"], new["valueType"])
        case _:
            pairs = zip(old["fields"], new["fields"], strict=False)  # fields are added last
            return any(_floats_widen(one["type"], other["type"]) for one, other in pairs)


def _plain_widens(before: str, after: str) -> bool:
    for ladder in (_INTEGERS, _REALS):
        if before in ladder:
            return after in ladder and ladder.index(after) > ladder.index(before)
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if old is None or new is None:
        return False
    return old[2] == new[2] and int(old[1]) < int(new[1])


def _holds(old: Any, new: Any) -> bool:
    """Whether `new` is the same type or a wider one."""
    if old == new:
        return True
    if isinstance(old, str) or isinstance(new, str):
        return isinstance(old, str) and isinstance(new, str) and _plain_widens(old, new)
    match old["type"], new["type"]:
        case "array", "array":
            return old["containsNull"] == new["containsNull"] and _holds(
                old["elementType"], new["elementType"]
            )
        case "map", "map":
            same = ("keyType", "valueContainsNull")
            return all(old[key] == new[key] for key in same) and _holds(
                old["valueType"], new["valueType"]
            )
        case "struct", "struct":
            return _struct_holds(old["fields"], new["fields"])
        case _:
            return False


def _struct_holds(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> bool:
    kept, added = new[: len(old)], new[len(old) :]
    return (
        len(kept) == len(old)
        and all(
            before["name"] == after["name"]
            and before["nullable"] == after["nullable"]
            and _holds(before["type"], after["type"])
            for before, after in zip(old, kept, strict=True)
        )
        and all(field["nullable"] for field in added)
    )


# ---------------------------------------------------------------- texts of clients


def _tree(text: str) -> Any:
    """A nested type's canonical text as JSON's values; None for any other text.

    Each replica must come to the same answer, whichever Python it runs: so the depth is bounded
    before the text is read, and what is not written as `json.dumps` writes it is no type.
    """
    if _depth(text) > TYPE_DEPTH_MAX:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not _is_type(found) or json.dumps(found, sort_keys=True, separators=(",", ":")) != text:
        return None
    return found


def _depth(text: str) -> int:
    """How deep brackets are nested in it, outside of strings."""
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif in_string and char == "\\":
            escaped = True
        elif char == '"':
            in_string = not in_string
        elif in_string:
            pass
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _is_type(tree: Any) -> bool:
    match tree:
        case str():
            return True
        case {"type": "array", "elementType": element, "containsNull": bool(), **rest}:
            return not rest and _is_type(element)
        case {
            "type": "map",
            "keyType": key,
            "valueType": value,
            "valueContainsNull": bool(),
            **rest,
        }:
            return not rest and _is_type(key) and _is_type(value)
        case {"type": "struct", "fields": [_, *_] as fields, **rest}:
            names = [field.get("name") for field in fields if isinstance(field, dict)]
            return not rest and all(map(_is_field, fields)) and len(set(names)) == len(fields)
        case _:
            return False


def _is_field(tree: Any) -> bool:
    match tree:
        case {"name": str(), "type": kind, "nullable": bool(), "metadata": metadata, **rest}:
            return metadata == {} and not rest and _is_type(kind)
        case _:
            return False
