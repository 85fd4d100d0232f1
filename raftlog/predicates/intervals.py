"""Between which values a whole-number column lies in all records for which a predicate is true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, assert_never

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
)


@dataclass(frozen=True, slots=True)
class Interval:
    """The values [low, high], both included; None: without end. `low` above `high`: none at all."""

    low: int | None = None
    high: int | None = None

    @property
    def empty(self) -> bool:
        """Whether it holds no value."""
        return self.low is not None and self.high is not None and self.low > self.high


EVERYTHING = Interval()
NOTHING = Interval(1, 0)


class _Both(NamedTuple):
    """Where the column lies if a predicate is true, and where if it is false."""

    true: Interval
    false: Interval


def interval(predicate: Predicate, column: Column) -> Interval:
    """The smallest interval that is known to hold the column's value in each record for which the
    predicate is true. The column is of whole numbers."""
    return _both(predicate, column).true


def _both(predicate: Predicate, column: Column) -> _Both:
    match predicate:
        case Compare() if predicate.column == column:
            return _of_comparison(predicate)
        case In(values=values) if predicate.column == column:
            numbers = [value for value in values if type(value) is int]
            if len(numbers) != len(values):
                return _Both(EVERYTHING, EVERYTHING)
            return _Both(Interval(numbers[0], numbers[-1]), EVERYTHING)
        case IsNull() if predicate.column == column:
            return _Both(NOTHING, EVERYTHING)
        case Not(part=part):
            found = _both(part, column)
            return _Both(found.false, found.true)
        case And(parts=parts):
            all_of = [_both(part, column) for part in parts]
            return _Both(_common(each.true for each in all_of), _hull(x.false for x in all_of))
        case Or(parts=parts):
            any_of = [_both(part, column) for part in parts]
            return _Both(_hull(each.true for each in any_of), _common(x.false for x in any_of))
        case Constant(value=value):
            true = EVERYTHING if value is True else NOTHING
            return _Both(true, EVERYTHING if value is False else NOTHING)
        case Compare() | In() | StartsWith() | IsNull() | Unknown():
            return _Both(EVERYTHING, EVERYTHING)
        case _:
            assert_never(predicate)


def _of_comparison(test: Compare) -> _Both:
    value = test.value
    if type(value) is not int:
        return _Both(EVERYTHING, EVERYTHING)
    match test.operator:
        case "<":
            return _Both(Interval(None, value - 1), Interval(value, None))
        case "<=":
            return _Both(Interval(None, value), Interval(value + 1, None))
        case ">":
            return _Both(Interval(value + 1, None), Interval(None, value))
        case ">=":
            return _Both(Interval(value, None), Interval(None, value - 1))
        case _:
            return _Both(Interval(value, value), EVERYTHING)


def _common(intervals: Iterable[Interval]) -> Interval:
    """What lies in all of them."""
    return reduce(_intersection, intervals, EVERYTHING)


def _intersection(one: Interval, other: Interval) -> Interval:
    lows = [each.low for each in (one, other) if each.low is not None]
    highs = [each.high for each in (one, other) if each.high is not None]
    return Interval(max(lows, default=None), min(highs, default=None))


def _hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval with all of them."""
    found = [each for each in intervals if not each.empty]
    if not found:
        return NOTHING
    lows, highs = [each.low for each in found], [each.high for each in found]
    low = None if None in lows else min(low for low in lows if low is not None)
    high = None if None in highs else max(high for high in highs if high is not None)
    return Interval(low, high)
