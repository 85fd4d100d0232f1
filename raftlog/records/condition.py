"""Conditions on records, as of `raftlog tail --where` and `where` of the client's reads: a small
part of SQL, read by sqlglot, or a predicate.

They become expressions of Arrow, which choose records, and predicates, by which whole batches are
skipped. Only what is named below is taken, so nothing is evaluated but comparisons of columns with
values. They are compared as Spark compares them. sqlglot takes long to import, so this is imported
where it is needed.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX
from raftlog.machines.schema import Schema
from raftlog.predicates.making import compared, fitted, one_of, starting
from raftlog.predicates.predicate import (
    DEPTH_MAX,
    NODES_MAX,
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
    columns_of,
    depth,
    node_count,
)
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.conform import type_name
from raftlog.records.interval_text import intervals
from raftlog.records.metadata import METADATA_FIELDS

_Node: TypeAlias = "exp.Expr"

_OPTION = "where"

_ADVICE = (
    "Compare columns with values: delay > 10 AND carrier IN ('AA', 'B6'). There are =, <>, <, <=, "
    ">, >=, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT. Put texts and times in single quotes; name "
    "parts of structs as in a.b."
)


class _Sql(Spark):
    """Spark's SQL, in which a quote is also written twice, as in standard SQL."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'"]  # noqa: RUF012


_COMPARISONS: dict[type[_Node], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_OPERATORS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED: dict[type[_Node], type[_Node]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""What a comparison becomes when its sides change places."""

_ARGUMENTS = frozenset(["this", "expression", "expressions", "low", "high"])
"""The parts of conditions that are looked at: what another part says must not be left out."""

_PATTERN = re.compile(r"([^%_]*)%")
"""A pattern of LIKE that only says how the text begins."""

_SETTINGS_MATTER = ('"', "''", "\\", "$", "--", "/*")
"""What Spark reads in one way or another as it is set, or that may be read in several ways: quotes,
escapes, variables, comments."""

_OWN_LITERALS = {
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    exp.DataType.Type.TIMESTAMPNTZ: pa.timestamp("us"),
}
"""Literals that say their type, and the columns that Spark compares with them as they are."""

_FLOATS = {exp.DataType.Type.FLOAT: pa.float32(), exp.DataType.Type.DOUBLE: pa.float64()}
"""What 0.1f, double('NaN') and the like are for a FLOAT or DOUBLE."""

_UNITS_US = {
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
}
_WHOLE_SPAN = ("DAY", "SECOND")

_BEYOND = decimal.Decimal(10) ** 20
"""Above every whole number of a column."""


class Condition(NamedTuple):
    """Which records are wanted."""

    expression: pc.Expression
    """For `filter`. A comparison with a null is neither true nor false: that record is left out."""
    columns: list[str]
    """The columns that it needs, by first use."""
    predicate: Predicate
    """What is true of every record that is wanted, as far as predicates can say it."""


def condition_of(where: str | Predicate, schema: Schema, option: str) -> Condition:
    """The condition on a topic's and metadata columns. Raises `InvalidOption`, which names the
    option and says what is wrong."""
    fields = pa.schema([*arrow_schema(schema), *METADATA_FIELDS.values()])
    try:
        if isinstance(where, str):
            return parse_condition(where, fields)
        if isinstance(where, Predicate):
            return _said_by(where, fields)
        raise _refused(f"is of type {type(where).__name__}", "Give SQL text or a Predicate.")
    except InvalidOption as error:
        raise replace(error, option=option) from None


def parse_condition(text: str, schema: pa.Schema) -> Condition:
    """The condition, about columns of this schema. Raises `InvalidOption`, which says what is
    wrong."""
    reading = _Reading(schema, datetime.UTC)
    test = reading.condition(_parsed(text))
    return Condition(test.expression, reading.columns, fitted(test.predicate))


def sparks_predicate(text: str, schema: pa.Schema, zone: datetime.tzinfo | None) -> Predicate:
    """What is true of every row for which Spark finds the condition true, about columns of this
    schema, in a session with this time zone; None: one that Python does not know.

    The text may be any of Spark's. The parts of it that are more than a condition of ours restrict
    nothing; nor does a text that Spark reads as it is set.
    """
    if any(each in text for each in _SETTINGS_MATTER):
        return And(parts=())
    parts: list[Predicate] = []
    try:
        for node in _conjuncts(_parsed(text)):
            with contextlib.suppress(InvalidOption):
                parts.append(_Reading(schema, zone).condition(node).predicate)
    except (InvalidOption, RecursionError):
        return And(parts=())
    return fitted(And(parts=tuple(parts)))


def _parsed(text: str) -> _Node:
    try:
        found = sqlglot.parse(text, dialect=_Sql, error_level=sqlglot.ErrorLevel.RAISE)
    except RecursionError:
        raise _refused("is nested too deep") from None
    except (sqlglot.errors.SqlglotError, AttributeError, LookupError, TypeError, ValueError):
        # sqlglot trips over some texts that are no SQL at all.
        raise _refused(f"is {text!r}, which is no condition") from None
    if len(found) != 1 or found[0] is None:
        raise _refused(f"is {text!r}, which is not one condition")
    return found[0]


def _conjuncts(node: _Node) -> Iterator[_Node]:
    """The conditions that all must hold."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.And):
            waiting += [each.right, each.left]
        elif isinstance(each, exp.Paren):
            waiting.append(each.this)
        else:
            yield each


class _Test(NamedTuple):
    """A condition or a part of one, in both forms."""

    expression: pc.Expression
    predicate: Predicate


def _parts(predicate: Predicate, connective: type[And] | type[Or]) -> tuple[Predicate, ...]:
    """Of a chain of one connective, which SQL nests, all parts side by side."""
    return predicate.parts if isinstance(predicate, connective) else (predicate,)


def _negated(test: _Test) -> _Test:
    return _Test(~test.expression, Not(part=test.predicate))


class _Column(NamedTuple):
    name: str
    type: pa.DataType
    value: pc.Expression
    is_whole: bool
    """Whether it is a column of the topic, and no part of one."""


def _tested(column: _Column, name: str, value: pa.Scalar[Any]) -> pc.Expression:
    """The comparison, as Spark makes it: of a FLOAT as a DOUBLE, and of NaN as of a number that is
    equal to itself and larger than all others. Null for a null."""
    if not pa.types.is_floating(column.type):
        return _OPERATORS[name](column.value, value)
    is_nan = pc.is_nan(column.value)
    if math.isnan(value.as_py()):
        return _OPERATORS[name](is_nan.cast(pa.int8()), pa.scalar(1, pa.int8()))
    test = _OPERATORS[name](column.value.cast(pa.float64()), value)
    return is_nan | test if name in (">", ">=") else test


class _Literal(NamedTuple):
    """A value that a column is compared with."""

    scalar: pa.Scalar[Any]
    stored: Value | None
    """As bounds have it; None: they do not, or Arrow and Spark would not both compare with it."""


class _Reading:
    """Turns sqlglot's tree into Arrow's and into a predicate."""

    def __init__(self, schema: pa.Schema, zone: datetime.tzinfo | None) -> None:
        """`zone`: of times that name none; None: such times are not known."""
        self._schema = schema
        self._zone = zone
        self.columns: list[str] = []

    def condition(self, node: _Node) -> _Test:
        """What is true or false of a record."""
        if node.args.get("negate"):  # NOT LIKE has no node of its own
            plain = node.copy()
            plain.set("negate", None)
            return _negated(self.condition(plain))
        others = [value for name, value in node.args.items() if name not in _ARGUMENTS]
        if any(others) and not isinstance(node, exp.Column):  # whose path is all looked at
            raise _refused(f"has {node.sql(dialect='spark')!r}, which is none of its parts")
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                one, other = self.condition(node.left), self.condition(node.right)
                both = [*_parts(one.predicate, And), *_parts(other.predicate, And)]
                return _Test(one.expression & other.expression, And(parts=tuple(both)))
            case exp.Or():
                one, other = self.condition(node.left), self.condition(node.right)
                either = [*_parts(one.predicate, Or), *_parts(other.predicate, Or)]
                return _Test(one.expression | other.expression, Or(parts=tuple(either)))
            case exp.Not():
                return _negated(self.condition(node.this))
            case exp.Is() if isinstance(node.expression, exp.Null):
                column = self._column(node.this)
                test = IsNull(column=column.name) if column.is_whole else Unknown()
                return _Test(column.value.is_null(), test)
            case exp.In() if node.expressions:
                return self._membership(node)
            case exp.Between():
                column = self._column(node.this)
                low, high = (
                    self._value(node.args["low"], column),
                    self._value(node.args["high"], column),
                )
                return _Test(
                    _tested(column, ">=", low.scalar) & _tested(column, "<=", high.scalar),
                    And(
                        parts=(
                            compared(column.name, ">=", low.stored),
                            compared(column.name, "<=", high.stored),
                        )
                    ),
                )
            case exp.Like():
                return self._like(node)
            case exp.Column():
                return self._truth(node)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node)
            case _:
                raise _refused(f"has {node.sql(dialect='spark')!r}, which is none of its parts")

    def _comparison(self, node: exp.Binary) -> _Test:
        kind: type[_Node] = type(node)
        left, right = node.left, node.right
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            kind, left, right = _MIRRORED.get(kind, kind), right, left
        column = self._column(left)
        value = self._value(right, column)
        name = _COMPARISONS[kind]
        if name == "<>":
            predicate: Predicate = Not(part=compared(column.name, "=", value.stored))
        else:
            predicate = compared(column.name, name, value.stored)
        return _Test(_tested(column, name, value.scalar), predicate)

    def _membership(self, node: exp.In) -> _Test:
        column = self._column(node.this)
        values = [self._value(each, column) for each in node.expressions]
        any_of = [_tested(column, "=", value.scalar) for value in values]
        stored = one_of(column.name, [value.stored for value in values], has_null=False)
        return _Test(reduce(operator.or_, any_of), stored)

    def _like(self, node: exp.Like) -> _Test:
        column, pattern = self._column(node.this), node.expression
        if not pa.types.is_string(column.type) or not _is_text(pattern):
            raise _refused(f"has LIKE for {column.name}, but it compares text with 'a pattern%'")
        prefix = _PATTERN.fullmatch(pattern.this)
        known = prefix[1] if prefix and column.is_whole and "\\" not in prefix[1] else None
        return _Test(pc.match_like(column.value, pattern.this), starting(column.name, known))

    def _truth(self, node: exp.Column) -> _Test:
        column = self._column(node)
        if not pa.types.is_boolean(column.type):
            raise _refused(f"has {column.name} without a comparison, and it is no BOOLEAN")
        stored = True if column.is_whole else None
        return _Test(column.value, compared(column.name, "=", stored))

    def _value(self, node: _Node, column: _Column) -> _Literal:
        scalar = _value(node, column, self._zone)
        known = column.is_whole and (
            self._zone is not None or not pa.types.is_timestamp(column.type)
        )
        return _Literal(scalar, _stored(node, scalar, column.type) if known else None)

    def _column(self, node: _Node) -> _Column:
        if not isinstance(node, exp.Column):
            raise _refused(f"has {node.sql(dialect='spark')!r} where a column should be")
        path = [part.name for part in node.parts]
        if path[0] not in self._schema.names:  # no two columns differ only in case
            folded = path[0].lower()
            path[0] = next((n for n in self._schema.names if n.lower() == folded), path[0])
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
        return _Column(name, kind, pc.field(*path), is_whole=len(path) == 1)


def _value(node: _Node, column: _Column, zone: datetime.tzinfo | None) -> pa.Scalar[Any]:
    """The value to compare the column with, of its type where that has it."""
    if isinstance(node, exp.Paren):
        return _value(node.this, column, zone)
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", node.this
    kind = pa.float64() if pa.types.is_floating(column.type) else column.type
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        if pa.types.is_floating(kind) and node.to.this in _FLOATS:
            kind, node = _FLOATS[node.to.this], node.this
        elif _is_text(node.this):
            node = node.this  # DATE '2026-01-31': the column says what it is
    if isinstance(node, exp.Boolean) and pa.types.is_boolean(column.type):
        return pa.scalar(bool(node.this))
    if isinstance(node, exp.Null):
        raise _refused(f"compares {column.name} with NULL", "Write IS NULL or IS NOT NULL.")
    of_interval = isinstance(node, exp.Interval) and pa.types.is_duration(column.type)
    if not (of_interval or isinstance(node, exp.Literal)):
        raise _refused(f"compares {column.name} with {node.sql(dialect='spark')!r}, no value")
    text = node.sql(dialect="spark") if of_interval else sign + node.this
    try:
        if isinstance(node, exp.Interval):
            return _as_interval(node, sign)
        if node.is_number:
            return _as_number(text, kind)
        return _as_text(text, kind, zone)
    except (pa.ArrowException, decimal.InvalidOperation, OverflowError, ValueError):
        named = f"{column.name} ({type_name(column.type)})"
        raise _refused(f"compares {named} with {text!r}, which is none") from None


def _as_number(text: str, kind: pa.DataType) -> pa.Scalar[Any]:
    types = pa.types
    if types.is_integer(kind):
        return _among_whole(decimal.Decimal(text), kind)
    if types.is_floating(kind):
        return pa.scalar(float(text), kind)
    if types.is_decimal(kind):
        return pa.scalar(decimal.Decimal(text))
    raise pa.ArrowInvalid("no number")


def _among_whole(number: decimal.Decimal, kind: pa.DataType) -> pa.Scalar[Any]:
    """A number that whole numbers are compared with, exactly: Arrow compares them with a fraction
    as floats. No value of the column is equal to what is no value of it, yet all are above or
    below."""
    near = max(-_BEYOND, min(_BEYOND, number))
    whole = near.to_integral_value(decimal.ROUND_FLOOR)
    if near != whole:
        return pa.scalar(whole + decimal.Decimal("0.5"))
    try:
        return pa.scalar(int(whole), kind)
    except (OverflowError, pa.ArrowInvalid):
        return pa.scalar(whole)


def _as_text(text: str, kind: pa.DataType, zone: datetime.tzinfo | None) -> pa.Scalar[Any]:
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        moment = datetime.datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        value: pa.Scalar[Any] = pa.scalar(zoned, kind)
        return value
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _as_number(text.strip(), kind)
    if types.is_nested(kind):
        raise pa.ArrowInvalid("no single value")
    if types.is_duration(kind):
        one: pa.Scalar[Any] = intervals(pa.array([text]))[0]
        return one
    if types.is_time(kind):  # Arrow casts no text to one, but times with a date
        return pa.scalar(f"1970-01-01T{text}").cast(pa.timestamp("ns")).cast(kind)
    return pa.scalar(text).cast(kind)


def _as_interval(node: exp.Interval, sign: str) -> pa.Scalar[Any]:
    """INTERVAL '5' DAY, or INTERVAL '1 02:03:04' DAY TO SECOND."""
    text, unit = node.this.this, node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan) and (unit.this.name, unit.expression.name) == _WHOLE_SPAN:
        us = decimal.Decimal(intervals(pa.array([text])).cast(pa.int64())[0].as_py())
    elif isinstance(unit, exp.Var) and unit.name.removesuffix("S") in _UNITS_US:
        us = decimal.Decimal(text) * _UNITS_US[unit.name.removesuffix("S")]
    else:
        raise ValueError("no such unit")
    whole = int(us)
    if whole != us:
        raise ValueError("less than a microsecond")
    value: pa.Scalar[Any] = pa.scalar(-whole if sign else whole).cast(pa.duration("us"))
    return value


def _stored(node: _Node, scalar: pa.Scalar[Any], kind: pa.DataType) -> Value | None:
    """The value as bounds of a column of this type have it, if Spark takes the same value."""
    types = pa.types
    if isinstance(node, exp.Paren):
        return _stored(node.this, scalar, kind)
    if isinstance(node, exp.Cast):
        if _OWN_LITERALS.get(node.to.this) != kind:
            return None
        node = node.this
    if types.is_integer(kind) and not _is_text(node):
        return _whole(scalar)
    if types.is_floating(kind) and not _is_text(node):
        return _real(scalar, kind)
    if types.is_boolean(kind):
        return scalar.as_py() if isinstance(node, exp.Boolean) else None
    if not _is_text(node):
        return None
    if types.is_string(kind):
        return str(node.this)
    if types.is_date32(kind):
        return int(scalar.cast(pa.int32()).as_py())
    if types.is_timestamp(kind) and kind.unit == "us":
        return int(scalar.cast(pa.int64()).as_py())
    return None


def _whole(scalar: pa.Scalar[Any]) -> int | None:
    number = scalar.as_py()
    return number if isinstance(number, int) and abs(number) <= INTEGER_MAX else None


def _real(scalar: pa.Scalar[Any], kind: pa.DataType) -> float | None:
    """Spark compares a FLOAT with 0.1 as doubles, or as floats as it is set: so with a value of
    both. No bound is a NaN."""
    number: float = scalar.as_py()
    return number if pa.scalar(number, kind).as_py() == number else None


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _refused(problem: str, advice: str = _ADVICE) -> InvalidOption:
    return InvalidOption(option=_OPTION, problem=problem, advice=advice)


# ---------------------------------------------------------------- predicates


def _said_by(predicate: Predicate, schema: pa.Schema) -> Condition:
    """The condition that a predicate says, about columns of this schema."""
    try:
        fits = node_count(predicate) <= NODES_MAX and depth(predicate) <= DEPTH_MAX
    except RecursionError:
        fits = False
    if not fits:
        advice = f"Give at most {NODES_MAX} tests and connectives, {DEPTH_MAX} within each other."
        raise _refused("is too large a predicate", advice)
    columns = sorted(map(str, columns_of(predicate)))
    return Condition(_expression(predicate, schema), columns, predicate)


def _expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    match predicate:
        case And(parts=parts):
            return reduce(
                operator.and_, [_expression(part, schema) for part in parts], _CONSTANTS[True]
            )
        case Or(parts=parts):
            return reduce(
                operator.or_, [_expression(part, schema) for part in parts], _CONSTANTS[False]
            )
        case Not(part=part):
            return ~_expression(part, schema)
        case Constant(value=bool() | None as value):
            return _CONSTANTS[value]
        case IsNull(column=column):
            return _field(column, schema).value.is_null()
        case Compare(column=column, operator=name, value=value) if name in _OPERATORS:
            field = _field(column, schema)
            return _tested(field, name, _scalar(value, field))
        case In(column=column, values=values) if values:
            field = _field(column, schema)
            return reduce(
                operator.or_, [_tested(field, "=", _scalar(each, field)) for each in values]
            )
        case StartsWith(column=column, prefix=str(prefix)):
            field = _field(column, schema)
            if pa.types.is_string(field.type):
                return pc.starts_with(field.value, prefix)
    problem = f"has {shortened(predicate)}, which no row can be tested with"
    raise _refused(problem, _ADVICE_ON_PREDICATES)


_CONSTANTS: dict[bool | None, pc.Expression] = {
    True: pc.scalar(True),
    False: pc.scalar(False),
    None: pc.scalar(pa.scalar(None, pa.bool_())),  # type: ignore[arg-type]  # the stubs lack it
}
_ADVICE_ON_PREDICATES = (
    "Compare a column with a value of its type, a date as days and a timestamp as microseconds "
    "since 1970 UTC, by one of =, <, <=, >, >=. SQL text says more."
)


def _field(name: Column, schema: pa.Schema) -> _Column:
    if name not in schema.names:
        known = ", ".join(schema.names)
        raise _refused(f"names {shortened(name)}, which is no column", f"There are: {known}.")
    return _Column(str(name), schema.field(name).type, pc.field(name), is_whole=True)


def _scalar(value: Value, column: _Column) -> pa.Scalar[Any]:
    """A value of a predicate, to compare the column with."""
    types, kind = pa.types, column.type
    with contextlib.suppress(pa.ArrowException, OverflowError):
        match value:
            case bool() if types.is_boolean(kind):
                return pa.scalar(value)
            case bool():
                pass
            case int() if types.is_integer(kind):
                return _among_whole(decimal.Decimal(value), kind)
            case int() if types.is_decimal(kind):
                return pa.scalar(decimal.Decimal(value))
            case int() if types.is_date32(kind):
                return pa.scalar(value, pa.int32()).cast(kind)
            case int() if types.is_timestamp(kind):
                return pa.scalar(value, pa.int64()).cast(kind)
            case int() | float() if types.is_floating(kind) and value == value:
                return pa.scalar(float(value), pa.float64())
            case str() if types.is_string(kind):
                return pa.scalar(value)
            case bytes() if types.is_binary(kind):
                return pa.scalar(value)
    problem = f"compares {column.name} ({type_name(kind)}) with {shortened(value)}, which is none"
    raise _refused(problem, _ADVICE_ON_PREDICATES)
