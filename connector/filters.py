"""Spark's filters as predicates of raftlog: what a read learns of its `where`.

Whatever a predicate cannot say exactly is `Unknown` in its place, so nothing is skipped for it:
decimals, which have no bounds, text with a collation, and parts of nested columns. Spark evaluates
all filters again on the rows that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from raftlog.predicates.making import compared, fitted, one_of, same, starting
from raftlog.predicates.predicate import And, IsNull, Not, Predicate, Unknown, Value

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_YEAR_MIN = 1583
"""Dates and times before it are not taken from Spark, which brings literals to Python through the
calendar that Europe had before October 1582, and changes those of the days that it left out."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# ---------------------------------------------------------------- Spark's filters


def predicate_of(filters: Sequence[Filter], schema: StructType) -> Predicate:
    """What must hold of a row so that all filters, which Spark pushes to a batch read, hold."""
    return fitted(And(parts=tuple(_of_filter(each, schema) for each in filters)))


def _of_filter(given: Any, schema: StructType) -> Predicate:
    from pyspark.sql import datasource as spark

    if isinstance(given, spark.Not):
        return Not(part=_of_filter(given.child, schema))
    if len(given.attribute) != 1 or given.attribute[0] not in schema.names:
        return Unknown()
    column = given.attribute[0]
    kind = schema[column].dataType
    match given:
        case spark.IsNull():
            return IsNull(column=column)
        case spark.IsNotNull():
            return Not(part=IsNull(column=column))
        case spark.In():
            values = [value for value in given.value if value is not None]
            has_null = len(values) < len(given.value)
            return one_of(column, [literal(each, kind) for each in values], has_null=has_null)
        case spark.EqualNullSafe():
            return same(column, literal(given.value, kind), is_null=given.value is None)
        case spark.StringStartsWith():
            found = literal(given.value, kind)
            return starting(column, found if isinstance(found, str) else None)
    operator = _OPERATORS.get(type(given).__name__)
    return Unknown() if operator is None else compared(column, operator, literal(given.value, kind))


_OPERATORS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


def literal(value: Any, kind: DataType) -> Value | None:
    """A value as Python has it, of a column's type, as bounds have it; None: they do not."""
    match kind:
        case BooleanType():
            return value if isinstance(value, bool) else None
        case ByteType() | ShortType() | IntegerType() | LongType():
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case FloatType() | DoubleType():
            return value if isinstance(value, float) and not math.isnan(value) else None
        case DateType():
            return _days(value)
        case TimestampType():
            return _microseconds(value, zoned=True)
        case TimestampNTZType():
            return _microseconds(value, zoned=False)
        case StringType() | BinaryType():
            return _text(value, kind)
        case _:
            return None


def _days(value: Any) -> int | None:
    if isinstance(value, datetime) or not isinstance(value, date) or value.year < _YEAR_MIN:
        return None
    return value.toordinal() - _EPOCH.toordinal()


def _microseconds(value: Any, *, zoned: bool) -> int | None:
    if not isinstance(value, datetime) or (value.tzinfo is not None) != zoned:
        return None
    if value.year < _YEAR_MIN:
        return None
    return ((value if zoned else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _text(value: Any, kind: DataType) -> str | bytes | None:
    """Text is ordered by its bytes only without a collation."""
    wanted = bytes if isinstance(kind, BinaryType) else str
    if kind.jsonValue() not in ("string", "binary"):
        return None
    if isinstance(value, bytearray):
        value = bytes(value)
    return value if isinstance(value, wanted) else None
