"""Names of Spark's types, and the error for a schema that no topic can have."""

from __future__ import annotations

from typing import Any

from raftlog.errors import InvalidOption

PRIMITIVES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "string": "STRING",
    "binary": "BINARY",
}
"""Spark's JSON name of each plain type, and its DDL name."""

DECIMAL_DEFAULT = "decimal(10,0)"
"""What a bare `decimal` means in Spark."""

JsonType = str | dict[str, Any]
"""A type as `json.loads` returns it for the canonical text."""


NESTING_MAX = 32
"""How deep types may be nested: deeper than anyone needs, well below Python's stack limit."""

_ADVICE = (
    "Give Spark DDL such as 'id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>' "
    "(put a name that is a keyword in backquotes), or the JSON of a Spark schema."
)


def nested_too_deep() -> InvalidOption:
    """The error for a schema that is nested too deep for a topic, or even to be read."""
    return refusal(f"is nested more than {NESTING_MAX} deep")


def refusal(problem: str) -> InvalidOption:
    """The error for a schema that no topic can have; `problem` is a sentence part."""
    return InvalidOption(option="schema", problem=problem, advice=_ADVICE)
