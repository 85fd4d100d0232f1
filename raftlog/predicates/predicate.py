"""The types of a predicate: a small tree of tests on columns, with SQL's three truth values.

A value is as in the bounds of a column chunk (`raftlog.wire.batch.Bound`): a date as days and a
timestamp as microseconds since 1970, UTC. What a tree cannot say is `Unknown`, so a predicate may
always stand for a condition that is stricter or different in that place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

Column: TypeAlias = int | str
"""A topic's column by its field id or, before it is known which topic, by name; a metadata column
by name."""

Value: TypeAlias = bool | int | float | str | bytes
"""What a column is compared with: never null, and never NaN."""

OPERATORS = ("=", "<", "<=", ">", ">=")

NODES_MAX = 256
"""Tests and connectives of one predicate, at most: a node judges each batch with all of them."""

DEPTH_MAX = 24
"""Connectives within each other. Protobuf reads messages of at most 100 levels, and a connective
takes two."""

IN_VALUES_MAX = 1_000
"""Values of one `In`, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """`column operator value`; null where the column is."""

    column: int | str
    """As `In.column`."""
    operator: str
    """=, <, <=, > or >=."""
    value: bool | int | float | str | bytes
    """As each of `In.values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The column is one of the values; null where the column is."""

    column: int | str
    """A topic's or metadata column by name. Within raftlog also a topic's by its field id."""
    values: tuple[bool | int | float | str | bytes, ...]
    """At least one, of one type, in rising order: at most 1,000. A date is days since 1970, a
    timestamp microseconds since 1970 UTC. None is null or NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith:
    """The text column begins with the prefix; null where the column is."""

    column: int | str
    """As `In.column`."""
    prefix: str
    """How the text begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """The column is null. Itself never null."""

    column: int | str
    """As `In.column`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """True where the part is false, and null where it is null."""

    part: Predicate
    """What is negated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """True if all parts are, of which there may be none; false if one is."""

    parts: tuple[Predicate, ...]
    """What all must be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """False if all parts are, of which there may be none; true if one is."""

    parts: tuple[Predicate, ...]
    """Of what one must be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The same for every record; None: null."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Anything, for each record."""


Predicate: TypeAlias = Compare | In | StartsWith | IsNull | Not | And | Or | Constant | Unknown
"""A condition on records: a test such as `Compare`, or `And`, `Or` and `Not` of several."""


def parts_of(predicate: Predicate) -> tuple[Predicate, ...]:
    """The predicates directly within this one."""
    match predicate:
        case Not(part=part):
            return (part,)
        case And(parts=parts) | Or(parts=parts):
            return parts
        case _:
            return ()


def node_count(predicate: Predicate) -> int:
    """Tests and connectives of the predicate; a value of `In` counts as a fifth of one."""
    values = len(predicate.values) // 5 if isinstance(predicate, In) else 0
    return 1 + values + sum(map(node_count, parts_of(predicate)))


def depth(predicate: Predicate) -> int:
    """How many nodes lie within each other, from 1."""
    return 1 + max(map(depth, parts_of(predicate)), default=0)


def columns_of(predicate: Predicate) -> frozenset[Column]:
    """All columns that the predicate tests."""
    return frozenset(_columns(predicate))


def _columns(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case Compare() | In() | StartsWith() | IsNull():
            yield predicate.column
        case Not() | And() | Or():
            for part in parts_of(predicate):
                yield from _columns(part)
        case Constant() | Unknown():
            pass
        case _:
            assert_never(predicate)


def bound_to(predicate: Predicate, columns: Mapping[Column, Column]) -> Predicate:
    """The predicate with each column replaced by the one that `columns` has for it. A column that
    it lacks is null in every record."""
    match predicate:
        case IsNull(column=column):
            if column not in columns:
                return Constant(value=True)
            return IsNull(column=columns[column])
        case Compare() | In() | StartsWith():
            if predicate.column not in columns:
                return Constant(value=None)
            return _moved(predicate, columns[predicate.column])
        case Not(part=part):
            return Not(part=bound_to(part, columns))
        case And(parts=parts):
            return And(parts=tuple(bound_to(part, columns) for part in parts))
        case Or(parts=parts):
            return Or(parts=tuple(bound_to(part, columns) for part in parts))
        case Constant() | Unknown():
            return predicate
        case _:
            assert_never(predicate)


def _moved(predicate: Compare | In | StartsWith, column: Column) -> Predicate:
    match predicate:
        case Compare(operator=operator, value=value):
            return Compare(column=column, operator=operator, value=value)
        case In(values=values):
            return In(column=column, values=values)
        case StartsWith(prefix=prefix):
            return StartsWith(column=column, prefix=prefix)
        case _:
            assert_never(predicate)
