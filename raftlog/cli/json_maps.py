"""Maps in JSON: objects, rewritten as the lists of pairs that Arrow can read.

Arrow reads an object as a struct, with a column for every key that a batch has, and takes a key
with a null for one that is missing. So the text is rewritten before Arrow reads it: values are
copied as they are written, and only the way to a map is followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

_DECODER = json.JSONDecoder(parse_int=str)
"""Finds where a value ends. Numbers are copied, so it need not make any of many digits."""
_SPACE = re.compile(r"[ \t\r\n]*")


class _Map(NamedTuple):
    """What to do with an object that is a map."""

    item: _Way
    raw_keys: bool
    """Whether its keys are texts in JSON as well."""


class _Struct(NamedTuple):
    """What to do with the fields of an object that lead to a map."""

    parts: Mapping[str, _Way]


class _List(NamedTuple):
    """What to do with the values of a list."""

    item: _Way


_Way: TypeAlias = _Map | _Struct | _List | None
"""The way to the maps within a value; None: there are none."""


def with_pairs(text: bytes, schema: pa.Schema) -> bytes:
    """The lines with each map as a list of `{"key": ..., "value": ...}`. Raises `ValueError`."""
    way = _way(pa.struct(list(schema)))
    if way is None:
        return text
    return "\n".join(_line(line, way) for line in text.decode().split("\n")).encode()


def _way(kind: Any) -> _Way:
    types = pa.types
    if types.is_map(kind):
        key = kind.key_type
        raw_keys = types.is_string(key) or types.is_binary(key) or types.is_temporal(key)
        return _Map(_way(kind.item_type), raw_keys)
    if types.is_list(kind):
        item = _way(kind.value_type)
        return None if item is None else _List(item)
    if types.is_struct(kind):
        parts = {part.name: way for part in kind if (way := _way(part.type)) is not None}
        return _Struct(parts) if parts else None
    return None


def _line(line: str, way: _Way) -> str:
    begin = after_space(line, 0)
    if begin == len(line):
        return line
    out: list[str] = []
    try:
        end = _copy(line, begin, way, out)
    except (IndexError, RecursionError) as error:
        raise ValueError("the line's JSON has no end, or is nested too deep") from error
    return "".join(out) + line[end:]


def _copy(text: str, begin: int, way: _Way, out: list[str]) -> int:
    """Copy the value that begins there; where it ends."""
    match way:
        case _Map() if text[begin] == "{":
            return _copy_map(text, begin, way, out)
        case _Struct() if text[begin] == "{":
            return _copy_struct(text, begin, way, out)
        case _List() if text[begin] == "[":
            return _copy_list(text, begin, way, out)
    _, end = _DECODER.raw_decode(text, begin)
    out.append(text[begin:end])
    return end


def _copy_map(text: str, begin: int, way: _Map, out: list[str]) -> int:
    names: set[str] = set()
    out.append("[")
    at = after_space(text, begin + 1)
    while text[at] != "}":
        if names:
            out.append(",")
            at = _after_sign(text, at, ",")
        name, written, at = _name(text, at)
        if name in names:
            raise ValueError(f"a map has the key {json.dumps(name)} twice")
        names.add(name)
        out.append(f'{{"key":{written if way.raw_keys else _key(name, written)},"value":')
        at = after_space(text, _copy(text, at, way.item, out))
        out.append("}")
    out.append("]")
    return at + 1


def _copy_struct(text: str, begin: int, way: _Struct, out: list[str]) -> int:
    copied = begin
    at = after_space(text, begin + 1)
    first = True
    while text[at] != "}":
        if not first:
            at = _after_sign(text, at, ",")
        first = False
        name, _, at = _name(text, at)
        part = way.parts.get(name)
        if part is None:
            _, end = _DECODER.raw_decode(text, at)
        else:
            out.append(text[copied:at])
            copied = end = _copy(text, at, part, out)
        at = after_space(text, end)
    out.append(text[copied : at + 1])
    return at + 1


def _copy_list(text: str, begin: int, way: _List, out: list[str]) -> int:
    out.append("[")
    at = after_space(text, begin + 1)
    first = True
    while text[at] != "]":
        if not first:
            out.append(",")
            at = _after_sign(text, at, ",")
        first = False
        at = after_space(text, _copy(text, at, way.item, out))
    out.append("]")
    return at + 1


def _name(text: str, at: int) -> tuple[str, str, int]:
    """An object's next key, how it is written, and where its value begins."""
    name, end = _DECODER.raw_decode(text, at)
    if not isinstance(name, str):
        raise ValueError("an object's key is no text")
    return name, text[at:end], _after_sign(text, after_space(text, end), ":")


def _key(name: str, written: str) -> str:
    """The JSON of a key that is a number or a boolean, and is written as a text."""
    try:
        _, end = _DECODER.raw_decode(name)
    except ValueError:
        end = -1
    return name if end == len(name) else written  # which Arrow refuses, and names


def after_space(text: str, at: int) -> int:
    """Where the next character that is no space is."""
    found = _SPACE.match(text, at)
    assert found is not None, "the pattern also matches nothing"
    return found.end()


def _after_sign(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise ValueError(f"JSON has {text[at]!r} where {sign!r} is due")
    return after_space(text, at + 1)
