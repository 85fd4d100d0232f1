"""Conditions on records, as of `raftlog tail --where`: a small part of SQL, read by sqlglot.

They become expressions of Arrow. Only what is named below is taken, so nothing is evaluated but
comparisons of columns with values. sqlglot takes long to import, so this is imported where it is
needed.
"""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from raftlog.errors import InvalidOption
from raftlog.records.conform import type_name

_Node: TypeAlias = "exp.Expr"

_OPTION = "--where"

_ADVICE = (
    "Compare columns with values: delay > 10 AND carrier IN ('AA', 'B6'). There are =, <>, <, <=, "
    ">, >=, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT. Put texts and times in single quotes; name "
    "parts of structs as in a.b."
)

_COMPARISONS: dict[type[_Node], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_MIRRORED: dict[type[_Node], type[_Node]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""What a comparison becomes when its sides change places."""


class Condition(NamedTuple):
    """Which records are wanted."""

    expression: pc.Expression
    """For `filter`. A comparison with a null is neither true nor false: that record is left out."""
    columns: list[str]
    """The columns that it needs, by first use."""


def parse_condition(text: str, schema: pa.Schema) -> Condition:
    """The condition, about columns of this schema. Raises `InvalidOption`, which says what is
    wrong."""
    try:
        found = sqlglot.parse(text, dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)
    except RecursionError:
        raise _refused("is nested too deep") from None
    except (sqlglot.errors.SqlglotError, AttributeError, LookupError, TypeError, ValueError):
        # sqlglot trips over some texts that are no SQL at all.
        raise _refused(f"is {text!r}, which is no condition") from None
    if len(found) != 1 or found[0] is None:
        raise _refused(f"is {text!r}, which is not one condition")
    reading = _Reading(schema)
    expression = reading.condition(found[0])
    return Condition(expression, reading.columns)


class _Column(NamedTuple):
    name: str
    type: pa.DataType
    value: pc.Expression


class _Reading:
    """Turns sqlglot's tree into Arrow's."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.columns: list[str] = []

    def condition(self, node: _Node) -> pc.Expression:
        """What is true or false of a record."""
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return self.condition(node.left) & self.condition(node.right)
            case exp.Or():
                return self.condition(node.left) | self.condition(node.right)
            case exp.Not():
                return ~self.condition(node.this)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return self._column(node.this).value.is_null()
            case exp.In() if node.expressions:
                column = self._column(node.this)
                any_of = [column.value == _value(each, column) for each in node.expressions]
                return reduce(operator.or_, any_of)
            case exp.Between():
                column = self._column(node.this)
                low, high = _value(node.args["low"], column), _value(node.args["high"], column)
                return (column.value >= low) & (column.value <= high)
            case exp.Like():
                return self._like(node)
            case exp.Column():
                return self._truth(node)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node)
            case _:
                raise _refused(f"has {node.sql(dialect='spark')!r}, which is none of its parts")

    def _comparison(self, node: exp.Binary) -> pc.Expression:
        kind: type[_Node] = type(node)
        left, right = node.left, node.right
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            kind, left, right = _MIRRORED.get(kind, kind), right, left
        column = self._column(left)
        made: pc.Expression = _COMPARISONS[kind](column.value, _value(right, column))
        return made

    def _like(self, node: exp.Like) -> pc.Expression:
        column, pattern = self._column(node.this), node.expression
        if not pa.types.is_string(column.type) or not _is_text(pattern):
            raise _refused(f"has LIKE for {column.name}, but it compares text with 'a pattern%'")
        return pc.match_like(column.value, pattern.this)

    def _truth(self, node: exp.Column) -> pc.Expression:
        column = self._column(node)
        if not pa.types.is_boolean(column.type):
            raise _refused(f"has {column.name} without a comparison, and it is no BOOLEAN")
        return column.value

    def _column(self, node: _Node) -> _Column:
        if not isinstance(node, exp.Column):
            raise _refused(f"has {node.sql(dialect='spark')!r} where a column should be")
        path = [part.name for part in node.parts]
        name = ".".join(path)
        if path[0] not in self._schema.names:
            known = ", ".join(self._schema.names)
            raise _refused(f"names {path[0]!r}, which is no column", f"There are: {known}.")
        kind: pa.DataType = self._schema.field(path[0]).type
        for part in path[1:]:
            if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
                raise _refused(f"names {name}, and {part!r} is no part of a struct there")
            kind = kind.field(part).type
        if path[0] not in self.columns:
            self.columns.append(path[0])
        return _Column(name, kind, pc.field(*path))


def _value(node: _Node, column: _Column) -> pa.Scalar[Any]:
    """The value to compare the column with, of its type where that has it."""
    if isinstance(node, exp.Paren):
        return _value(node.this, column)
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", node.this
    if isinstance(node, exp.Cast) and _is_text(node.this):
        node = node.this  # DATE '2026-01-31': the column says what it is
    if isinstance(node, exp.Boolean) and pa.types.is_boolean(column.type):
        return pa.scalar(bool(node.this))
    if isinstance(node, exp.Null):
        raise _refused(f"compares {column.name} with NULL", "Write IS NULL or IS NOT NULL.")
    if not isinstance(node, exp.Literal):
        raise _refused(f"compares {column.name} with {node.sql(dialect='spark')!r}, no value")
    text = sign + node.this
    try:
        return _as_number(text, column.type) if node.is_number else _as_text(text, column.type)
    except (pa.ArrowException, decimal.InvalidOperation, ValueError):
        kind = type_name(column.type)
        raise _refused(f"compares {column.name} ({kind}) with {text!r}, which is none") from None


def _as_number(text: str, kind: pa.DataType) -> pa.Scalar[Any]:
    types = pa.types
    if types.is_integer(kind):
        number = decimal.Decimal(text)
        if number == number.to_integral_value():
            try:
                return pa.scalar(int(number), kind)
            except (OverflowError, pa.ArrowInvalid):
                pass  # no value of the column is equal, yet all are above or below
        return pa.scalar(float(text))
    if types.is_floating(kind):
        return pa.scalar(float(text), kind)
    if types.is_decimal(kind):
        return pa.scalar(decimal.Decimal(text))
    raise pa.ArrowInvalid("no number")


def _as_text(text: str, kind: pa.DataType) -> pa.Scalar[Any]:
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        moment = datetime.datetime.fromisoformat(text)
        utc = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
        value: pa.Scalar[Any] = pa.scalar(utc, kind)
        return value
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _as_number(text.strip(), kind)
    if types.is_nested(kind):
        raise pa.ArrowInvalid("no single value")
    return pa.scalar(text).cast(kind)


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _refused(problem: str, advice: str = _ADVICE) -> InvalidOption:
    return InvalidOption(option=_OPTION, problem=problem, advice=advice)
