"""What a predicate can come to for the records of a batch, by the batch's statistics.

The answer is a set of SQL's truth values that holds every one that any record has, and may hold
more: so a batch for which it lacks "true" can be skipped. Negation needs no rule of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, assert_never

from raftlog.predicates.predicate import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    Value,
)


class Statistics(NamedTuple):
    """What is known of one column of a batch."""

    record_count: int
    """From 1."""
    null_count: int
    """0 to `record_count`."""
    minimum: Value | None = None
    """No value is below it; None: not known. Neither bound is known of a column with a NaN."""
    maximum: Value | None = None
    """No value is above it; None: not known."""


class Outcomes(NamedTuple):
    """Which truth values records may have."""

    true: bool
    false: bool
    null: bool


StatisticsOf: TypeAlias = Callable[[Column], Statistics | None]
"""None: nothing is known of the column."""

ANY = Outcomes(true=True, false=True, null=True)


def outcomes(predicate: Predicate, statistics_of: StatisticsOf) -> Outcomes:
    """All truth values that the predicate may have for the batch's records."""
    match predicate:
        case Compare() | In() | StartsWith():
            return _test(predicate, statistics_of(predicate.column))
        case IsNull(column=column):
            known = statistics_of(column)
            if known is None:
                return Outcomes(true=True, false=True, null=False)
            return Outcomes(
                true=known.null_count > 0, false=known.null_count < known.record_count, null=False
            )
        case Not(part=part):
            found = outcomes(part, statistics_of)
            return Outcomes(true=found.false, false=found.true, null=found.null)
        case And(parts=parts):
            return _all([outcomes(part, statistics_of) for part in parts])
        case Or(parts=parts):
            found = _all([_swapped(outcomes(part, statistics_of)) for part in parts])
            return _swapped(found)
        case Constant(value=value):
            return Outcomes(true=value is True, false=value is False, null=value is None)
        case Unknown():
            return ANY
        case _:
            assert_never(predicate)


def _all(parts: list[Outcomes]) -> Outcomes:
    return Outcomes(
        true=all(part.true for part in parts),
        false=any(part.false for part in parts),
        null=all(part.true or part.null for part in parts) and any(part.null for part in parts),
    )


def _swapped(found: Outcomes) -> Outcomes:
    """Of the negation: "or" is the negated "and" of what is negated."""
    return Outcomes(true=found.false, false=found.true, null=found.null)


def _test(predicate: Compare | In | StartsWith, known: Statistics | None) -> Outcomes:
    if known is None:
        return ANY
    null = known.null_count > 0
    if known.null_count >= known.record_count:
        return Outcomes(true=False, false=False, null=null)
    match predicate:
        case Compare(operator=operator, value=value):
            true, false = _compared(operator, value, known)
        case In(values=values):
            true, false = _among(values, known)
        case StartsWith(prefix=prefix):
            true, false = _starting(prefix, known)
        case _:
            assert_never(predicate)
    return Outcomes(true=true, false=false, null=null)


def _compared(operator: str, value: Value, known: Statistics) -> tuple[bool, bool]:
    """Whether the comparison can be true, and whether it can be false, for some value between the
    bounds."""
    low, high = _comparable(known.minimum, value), _comparable(known.maximum, value)
    below = low is None or low < value  # type: ignore[operator]  # of one type
    above = high is None or high > value  # type: ignore[operator]
    at = (below or low == value) and (above or high == value)
    match operator:
        case "<":
            return below, high is None or not high < value  # type: ignore[operator]
        case ">=":
            return high is None or not high < value, below  # type: ignore[operator]
        case ">":
            return above, low is None or not low > value  # type: ignore[operator]
        case "<=":
            return low is None or not low > value, above  # type: ignore[operator]
        case _:
            return at, not _is_only(value, low, high)


def _among(values: tuple[Value, ...], known: Statistics) -> tuple[bool, bool]:
    low, high = _comparable(known.minimum, values[0]), _comparable(known.maximum, values[0])
    first = 0 if low is None else bisect_left(values, low)
    true = first < len(values) and (high is None or values[first] <= high)  # type: ignore[operator]
    return true, not (true and _is_only(values[first], low, high))


def _starting(prefix: str, known: Statistics) -> tuple[bool, bool]:
    low, high = _comparable(known.minimum, prefix), _comparable(known.maximum, prefix)
    start = low[: len(prefix)] if isinstance(low, str) else None
    end = high[: len(prefix)] if isinstance(high, str) else None
    true = (start is None or start <= prefix) and (end is None or end >= prefix)
    return true, not start == prefix == end


def _comparable(bound: Value | None, value: Value) -> Value | None:
    """The bound, if it can be compared with the value: a bound of another type says nothing."""
    return bound if type(bound) is type(value) else None


def _is_only(value: Value, low: Value | None, high: Value | None) -> bool:
    """Whether every value of the column equals this one. Never of a float: Spark takes 0.0 and -0.0
    for equal in one place and not in another."""
    return low == value == high and not isinstance(value, float)
