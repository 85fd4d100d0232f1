"""Schemas as text: Spark's DDL and Spark's JSON, checked and brought into canonical form.

The canonical form of a type is what PySpark's `DataType.json()` gives (sorted keys, no spaces),
without metadata: Spark writes a collation there, and here it is part of the type's name (`string
collate UNICODE_CI`), as Spark reads it too. Types: those of `spark_types.PRIMITIVES`, decimal(p,s),
strings with a collation, and struct, array and map of these. Spark's other types (char, varchar,
year-month and calendar intervals, void, its spatial ones and those of users) are refused, because a
topic could only hold something else in their place.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from raftlog.errors import InvalidOption
from raftlog.machines.schema import METADATA_MARK, RESERVED_NAMES, Field, Schema
from raftlog.records.spark_types import (
    COLLATED,
    DECIMAL_DEFAULT,
    NESTING_MAX,
    PRIMITIVES,
    JsonType,
    collated,
    nested_too_deep,
    refusal,
    unknown_type,
)

DECIMAL_PRECISION_MAX = 38

_KEYWORDS = ("not", "select")
"""Words that `parse_ddl` takes as a column's name only in backquotes."""

_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def parse_schema(text: str) -> Schema:
    """The schema that Spark DDL or Spark JSON text describes, as version 1 with ids from 1.

    Metadata columns that were read are left out of JSON, which comes from a DataFrame. Raises
    `InvalidOption`, also for a column of the user's under the name of one.
    """
    return parse_json(text) if text.lstrip().startswith("{") else parse_ddl(text)


def parse_json(text: str) -> Schema:
    """The schema of a Spark StructType's JSON, without metadata. Raises `InvalidOption`."""
    try:
        given = json.loads(text)
    except RecursionError:
        raise nested_too_deep() from None
    except ValueError as error:
        raise refusal(f"is not JSON: {error}") from error
    if isinstance(given, dict) and isinstance(given.get("fields"), list):
        given["fields"] = [field for field in given["fields"] if not _is_metadata(field)]
    value = canonical(given)
    if not isinstance(value, dict) or value["type"] != "struct":
        raise refusal("is the JSON of a type that is not a struct")
    return _schema(_without_reserved(value["fields"]))


def parse_ddl(text: str) -> Schema:
    """The schema of Spark DDL, with or without `STRUCT<...>` around. Raises `InvalidOption`."""
    # Imported here because sqlglot takes long to import, and only DDL needs it.
    from raftlog.records.ddl import read_ddl

    value = canonical(read_ddl(text))
    assert isinstance(value, dict), "DDL gives a struct"
    return _schema(_without_reserved(value["fields"]))


def _is_metadata(field: object) -> bool:
    """Whether a field of a DataFrame's schema is a metadata column that was read."""
    if not isinstance(field, dict) or not isinstance(field.get("metadata"), dict):
        return False
    name = field.get("name")
    return name in RESERVED_NAMES and field["metadata"].get(METADATA_MARK) == name


def _without_reserved(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields, after checking that none has a reserved name."""
    for field in fields:
        if field["name"] in RESERVED_NAMES:
            raise refusal(f"names the column {field['name']!r}, which is reserved for metadata")
    return fields


def make_schema(fields: Sequence[tuple[str, JsonType, bool]]) -> Schema:
    """Version 1 of a schema of (name, type, nullable), ids from 1. Raises `InvalidOption`."""
    parts = [{"name": name, "type": kind, "nullable": nullable} for name, kind, nullable in fields]
    value = canonical({"type": "struct", "fields": parts})
    assert isinstance(value, dict), "a struct stays one"
    return _schema(_without_reserved(value["fields"]))


def _schema(fields: list[dict[str, Any]]) -> Schema:
    if not fields:
        raise refusal("has no columns but metadata")
    return Schema(
        version=1,
        fields=tuple(
            Field(
                id=number,
                name=field["name"],
                type=type_text(field["type"]),
                nullable=field["nullable"],
            )
            for number, field in enumerate(fields, start=1)
        ),
    )


_COLLATIONS = "__COLLATIONS"
"""The key in a column's metadata under which Spark has the collations of its strings, each by its
path: `name`, and `name.element`, `name.key`, `name.value` below that."""

_Collations = Mapping[str, Any]
_NONE: _Collations = {}


def canonical(value: object) -> JsonType:
    """A type of Spark's JSON in canonical form. Raises `InvalidOption`."""
    return _canonical(value, 0, "", _NONE)


def _canonical(value: object, depth: int, path: str, collations: _Collations) -> JsonType:
    """`path`, `collations`: where the type stands in its column, and what the column's metadata
    says."""
    if depth > NESTING_MAX:
        raise nested_too_deep()
    if isinstance(value, str):
        return _canonical_name(value, collations.get(path))
    if not isinstance(value, dict):
        raise refusal(f"has {value!r} in the place of a type")
    below = depth + 1
    match value.get("type"):
        case "struct":
            return _canonical_struct(value, depth)
        case "array":
            element = value.get("elementType")
            return {
                "type": "array",
                "elementType": _canonical(element, below, f"{path}.element", collations),
                "containsNull": _flag(value, "containsNull"),
            }
        case "map":
            key, item = value.get("keyType"), value.get("valueType")
            return {
                "type": "map",
                "keyType": _canonical(key, below, f"{path}.key", collations),
                "valueType": _canonical(item, below, f"{path}.value", collations),
                "valueContainsNull": _flag(value, "valueContainsNull"),
            }
        case other:
            raise unknown_type(repr(other))


def _canonical_name(name: str, collation: object) -> JsonType:
    """`collation`: what a column's metadata says of this place, such as `icu.UNICODE_CI`."""
    if name == "string" and collation is not None:
        return collated(str(collation).partition(".")[2])
    if name in PRIMITIVES:
        return name
    if name.startswith(COLLATED):
        return collated(name.removeprefix(COLLATED))
    plain = DECIMAL_DEFAULT if name == "decimal" else name.replace(" ", "")
    match = _DECIMAL.fullmatch(plain)
    if match is None:
        raise unknown_type(repr(name))
    precision, scale = (int(digits[:4]) for digits in match.groups())
    if not (1 <= precision <= DECIMAL_PRECISION_MAX and scale <= precision):
        raise refusal(
            f"has {name}: a precision is 1 to {DECIMAL_PRECISION_MAX}, a scale at most that"
        )
    return f"decimal({precision},{scale})"


def _canonical_struct(value: dict[str, Any], depth: int) -> JsonType:
    given = value.get("fields")
    if not isinstance(given, list) or not given:
        raise refusal("has a struct without fields")
    fields = []
    for field in given:
        if not isinstance(field, dict):
            raise refusal(f"has {field!r} in the place of a field")
        name = field.get("name")
        if not isinstance(name, str) or not name:
            raise refusal("has a field without a name")
        if not _is_text(name):
            raise refusal(f"has the field name {name!r}, which is not valid Unicode")
        try:
            kind = _canonical(field.get("type"), depth + 1, name, _collations(field))
        except InvalidOption as error:
            problem = f"names the column {name!r}, which {error.problem}"
            raise refusal(problem, error.advice) from None
        fields.append(
            {
                "name": name,
                "type": kind,
                "nullable": _flag(field, "nullable"),
                "metadata": {},
            }
        )
    names = [field["name"] for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise refusal(f"names the field {name!r} twice")
    return {"type": "struct", "fields": fields}


def _collations(field: dict[str, Any]) -> _Collations:
    metadata = field.get("metadata")
    found = metadata.get(_COLLATIONS) if isinstance(metadata, dict) else None
    if found is None:
        return _NONE
    if not isinstance(found, dict):
        raise refusal(f"has {found!r} in the place of collations")
    return found


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _flag(value: dict[str, Any], name: str) -> bool:
    flag = value.get(name, True)
    if not isinstance(flag, bool):
        raise refusal(f"has {name}={flag!r}, which is neither true nor false")
    return flag


def type_text(value: JsonType) -> str:
    """The canonical text of a canonical type."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def command_to_move(topic: str, schema: Schema) -> str:
    """The command that makes a topic for the records of another one, in other columns."""
    return shlex.join(["raftlog", "topic", "create", f"{topic}-2", "--schema", schema_ddl(schema)])


def schema_ddl(schema: Schema) -> str:
    """Spark DDL of the schema, for people.

    DDL cannot say that an array's elements or a map's values are never null. `parse_ddl` gives back
    everything else.
    """
    return ", ".join(
        field_ddl(field.name, json.loads(field.type), field.nullable) for field in schema.fields
    )


def field_ddl(name: str, value: JsonType, nullable: bool) -> str:
    """One column's DDL: `name TYPE`, with NOT NULL if it is not nullable."""
    return f"{_quoted(name)} {type_ddl(value)}{'' if nullable else ' NOT NULL'}"


def type_ddl(value: JsonType) -> str:
    """The DDL of a canonical type."""
    if isinstance(value, str):
        if value.startswith(COLLATED):
            return COLLATED.upper() + value.removeprefix(COLLATED)
        return PRIMITIVES.get(value, value.upper())
    match value["type"]:
        case "array":
            return f"ARRAY<{type_ddl(value['elementType'])}>"
        case "map":
            return f"MAP<{type_ddl(value['keyType'])}, {type_ddl(value['valueType'])}>"
        case _:
            members = (
                f"{_quoted(field['name'])}: {type_ddl(field['type'])}"
                f"{'' if field['nullable'] else ' NOT NULL'}"
                for field in value["fields"]
            )
            return f"STRUCT<{', '.join(members)}>"


def _quoted(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"
