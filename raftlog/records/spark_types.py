"""Names of Spark's types, and the error for a schema that no topic can have."""

from __future__ import annotations

import re
from itertools import combinations_with_replacement
from typing import Any

from raftlog.errors import InvalidOption

TIMES = tuple(f"time({digits})" for digits in range(10))
"""Times of day, by the digits of their seconds' fraction. Each is held in nanoseconds."""

_UNITS = ("day", "hour", "minute", "second")

INTERVALS = tuple(
    f"interval {start}" if start == end else f"interval {start} to {end}"
    for start, end in combinations_with_replacement(_UNITS, 2)
)
"""Day-time intervals. Each is held in microseconds, also `interval day`: Spark truncates none."""

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
    "variant": "VARIANT",
    **{name: name.upper() for name in (*TIMES, *INTERVALS)},
}
"""Spark's JSON name of each plain type, and its DDL name."""

DECIMAL_DEFAULT = "decimal(10,0)"
"""What a bare `decimal` means in Spark."""

TIME_DEFAULT = "time(6)"
"""What a bare `time` means in Spark."""

COLLATED = "string collate "
"""What stands before a collation in the name of a type."""

COLLATION_DEFAULT = "UTF8_BINARY"
"""The collation of a bare `string`: strings compare by their bytes."""

_COLLATION = re.compile(
    "(UTF8_BINARY|UTF8_LCASE|UNICODE|[a-z]{2,3}(_[A-Z][a-z]{3})?(_[A-Z]{3})?)(_CI)?(_AI)?(_RTRIM)?"
)

JsonType = str | dict[str, Any]
"""A type as `json.loads` returns it for the canonical text."""


NESTING_MAX = 32
"""How deep types may be nested: deeper than anyone needs, well below Python's stack limit."""

_ADVICE = (
    "Give Spark DDL such as 'id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>' "
    "(put a name that is a keyword in backquotes), or the JSON of a Spark schema."
)

_TYPES_ADVICE = (
    "Cast it to a type that a topic can hold: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, "
    "DOUBLE, DECIMAL, STRING (with any collation), BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, TIME(0) "
    "to TIME(9), INTERVAL DAY TO SECOND and its parts, VARIANT, and STRUCT, ARRAY and MAP of these."
)


def nested_too_deep() -> InvalidOption:
    """The error for a schema that is nested too deep for a topic, or even to be read."""
    return refusal(f"is nested more than {NESTING_MAX} deep")


def refusal(problem: str, advice: str = _ADVICE) -> InvalidOption:
    """The error for a schema that no topic can have; `problem` is a sentence part."""
    return InvalidOption(option="schema", problem=problem, advice=advice)


def unknown_type(name: str) -> InvalidOption:
    """The error for a type that no topic can hold, with those that one can."""
    return refusal(f"has the type {name}, which a topic cannot hold", _TYPES_ADVICE)


def collated(collation: str) -> JsonType:
    """The type of strings that compare by a collation. Raises `InvalidOption`.

    Only Spark's own spelling is taken, in which a collation has one name.
    """
    if _COLLATION.fullmatch(collation) is None:
        raise refusal(
            f"has the collation {collation}, which is none of Spark's as its schemas write them",
            "Give a name such as UTF8_LCASE, UNICODE_CI_AI, de or en_USA_RTRIM: "
            "`SELECT NAME FROM collations()` lists them in Spark.",
        )
    return "string" if collation == COLLATION_DEFAULT else f"{COLLATED}{collation}"
