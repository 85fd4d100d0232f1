"""Spark DDL as a type of Spark's JSON, read by sqlglot.

sqlglot is lenient and knows the types of many systems. So its errors are raised, and a type counts
only if it is in the tables below. A module of its own because sqlglot takes long to import.
"""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from sqlglot import exp

from raftlog.records.spark_types import (
    DECIMAL_DEFAULT,
    TIME_DEFAULT,
    JsonType,
    collated,
    nested_too_deep,
    refusal,
    unknown_type,
)
from raftlog.redaction import without_keys

_Type = exp.DataType.Type
_PLAIN = {
    _Type.BOOLEAN: "boolean",
    _Type.TINYINT: "byte",
    _Type.SMALLINT: "short",
    _Type.INT: "integer",
    _Type.BIGINT: "long",
    _Type.FLOAT: "float",
    _Type.DOUBLE: "double",
    _Type.DATE: "date",
    _Type.TIMESTAMPTZ: "timestamp",
    _Type.TIMESTAMPLTZ: "timestamp",
    _Type.TIMESTAMPNTZ: "timestamp_ntz",
    _Type.TEXT: "string",
    _Type.BINARY: "binary",
    _Type.VARIANT: "variant",
}
_REST_OF_COLUMN = re.compile(r"[^,<>\n]{0,40}")
_MARKUP = re.compile(r"\x1b\[[0-9;]*m")


def read_ddl(text: str) -> JsonType:
    """The struct that the DDL describes. Raises `InvalidOption`."""
    try:
        return _read(text)
    except RecursionError:  # in sqlglot, or here in what it read
        raise nested_too_deep() from None


def _read(text: str) -> JsonType:
    if not text.strip():
        raise refusal("is empty")
    if (shown := without_keys(text)) != text:
        raise refusal(f"cannot be read as DDL: {shown!r}")
    inner = text.strip().rstrip(";").rstrip()
    if inner.endswith(","):  # which sqlglot takes
        raise refusal("ends with a comma")
    if not re.match(r"struct\s*<", inner, re.IGNORECASE):
        # Within STRUCT<...> Spark's grammar allows both `a INT` and `a: INT`.
        inner = f"STRUCT<{inner}\n>"
    try:
        found = sqlglot.parse_one(
            inner, dialect="spark", into=exp.DataType, error_level=sqlglot.ErrorLevel.RAISE
        )
    except sqlglot.errors.SqlglotError as error:
        raise refusal(f"cannot be read as DDL: {_first_problem(error)}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # sqlglot trips over some texts that are no SQL at all, such as `(0{:`.
        raise refusal(f"cannot be read as DDL: {text!r}") from error
    if not isinstance(found, exp.DataType) or found.this != _Type.STRUCT:
        raise refusal(f"cannot be read as DDL: {text!r}")
    return _read_type(found)


def _first_problem(error: Exception) -> str:
    """Where the DDL cannot be read. sqlglot stops at the name of a column whose type it does not
    know, so the words after it belong to the place."""
    if isinstance(error, sqlglot.errors.ParseError) and error.errors:
        first = error.errors[0]
        rest = _REST_OF_COLUMN.match(first["end_context"])
        assert rest is not None, "the pattern matches an empty text too"
        return f"near {(first['highlight'] + rest.group()).rstrip()!r}"
    return _MARKUP.sub("", str(error)).splitlines()[0]


def _read_type(node: exp.Expression) -> JsonType:
    if not isinstance(node, exp.DataType):
        raise unknown_type(node.sql("spark"))
    if isinstance(node.this, exp.Interval) and node.this.unit is not None:
        return f"interval {node.this.unit.sql('spark').lower()}"
    if not isinstance(node.this, _Type):
        raise unknown_type(node.sql("spark"))
    arguments = node.expressions
    match node.this:
        case _Type.STRUCT:
            return {"type": "struct", "fields": [_read_field(member) for member in arguments]}
        case _Type.ARRAY if len(arguments) == 1:
            return {"type": "array", "elementType": _read_type(arguments[0])}
        case _Type.MAP if len(arguments) == 2:
            key, value = (_read_type(argument) for argument in arguments)
            return {"type": "map", "keyType": key, "valueType": value}
        case _Type.DECIMAL if len(arguments) <= 2:
            digits = [argument.name for argument in arguments]
            return f"decimal({','.join([*digits, '0'][:2])})" if digits else DECIMAL_DEFAULT
        case _Type.TIME if len(arguments) <= 1:
            return f"time({arguments[0].name})" if arguments else TIME_DEFAULT
        case _Type.TEXT if "collate" in node.args and not arguments:
            return collated(node.args["collate"].sql("spark"))
        case plain if plain in _PLAIN and not arguments:
            return _PLAIN[plain]
        case _:
            raise unknown_type(node.this.value)


def _read_field(node: exp.Expression) -> dict[str, Any]:
    if not isinstance(node, exp.ColumnDef) or node.kind is None:
        raise refusal(f"has {node.sql('spark')!r} where a column should stand")
    kind = _read_type(node.kind)
    nullable = True
    for constraint in node.constraints:
        match constraint.kind:
            case exp.NotNullColumnConstraint() if not constraint.kind.args.get("allow_null"):
                nullable = False
            case exp.CommentColumnConstraint():
                pass  # for people; a topic keeps none
            case exp.CollateColumnConstraint() if kind == "string":
                kind = collated(constraint.kind.this.sql("spark"))
            case _:
                raise refusal(f"gives column {node.name!r} a constraint other than NOT NULL")
    return {"name": node.name, "type": kind, "nullable": nullable}
