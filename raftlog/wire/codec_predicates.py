"""Private to `raftlog.wire`: predicates as messages and, for an option of Spark's, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, assert_never

from google.protobuf import json_format

from raftlog.errors import MalformedRequest
from raftlog.predicates.predicate import (
    IN_VALUES_MAX,
    NODES_MAX,
    OPERATORS,
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
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_bounds import get_bound, put_bound
from raftlog.wire.codec_texts import text_limit
from raftlog.wire.framing import Unreadable
from raftlog.wire.mapping import Conversion

_TRUTHS: dict[bool | None, Any] = {None: pb.NULL, False: pb.FALSE, True: pb.TRUE}
_OF_TRUTHS = {number: value for value, number in _TRUTHS.items()}


def predicate_text(predicate: Predicate) -> str:
    """The predicate as one line of JSON, which `predicate_of_text` reads."""
    message = encode_predicate(predicate)
    return json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)


def predicate_of_text(text: str) -> Predicate:
    """The predicate of a text. Raises `MalformedRequest`."""
    try:
        return _Decoder().decode(json_format.Parse(text, pb.Predicate()))
    except (json_format.ParseError, Unreadable, RecursionError) as error:
        raise MalformedRequest(call="predicate", what=str(error)) from error


def encode_predicate(predicate: Predicate) -> pb.Predicate:
    """The message of a predicate."""
    match predicate:
        case Compare(operator=operator, value=value):
            bound = _bound(value)
            test = pb.Comparison(column=_column(predicate), operator=operator, value=bound)
            return pb.Predicate(comparison=test)
        case In(values=values):
            bounds = [_bound(value) for value in values]
            return pb.Predicate(membership=pb.Membership(column=_column(predicate), values=bounds))
        case StartsWith(prefix=prefix):
            return pb.Predicate(prefix=pb.Prefix(column=_column(predicate), prefix=prefix))
        case IsNull():
            return pb.Predicate(is_null=_column(predicate))
        case Not(part=part):
            return pb.Predicate(negation=encode_predicate(part))
        case And(parts=parts):
            return pb.Predicate(all_of=pb.Predicates(parts=map(encode_predicate, parts)))
        case Or(parts=parts):
            return pb.Predicate(any_of=pb.Predicates(parts=map(encode_predicate, parts)))
        case Constant(value=value):
            return pb.Predicate(constant=_TRUTHS[value])
        case Unknown():
            return pb.Predicate(unknown=True)
        case _:
            assert_never(predicate)


class _Decoder:
    """Decodes predicates that have at most `NODES_MAX` nodes together (`node_count`). It stops at
    the first one too many: two bytes of a message can be a node."""

    def __init__(self) -> None:
        self._left = NODES_MAX

    def decode(self, message: pb.Predicate) -> Predicate:
        """The predicate; of a kind that later versions have it is `Unknown`. Raises
        `Unreadable`."""
        self._take(1)
        match message.WhichOneof("kind"):
            case "comparison":
                return _comparison(message.comparison)
            case "membership":
                self._take(len(message.membership.values) // 5)
                return _membership(message.membership)
            case "prefix":
                prefix = _short(message.prefix, "prefix")
                return StartsWith(column=_column_of(message.prefix.column), prefix=prefix)
            case "is_null":
                return IsNull(column=_column_of(message.is_null))
            case "negation":
                return Not(part=self.decode(message.negation))
            case "all_of":
                return And(parts=self.decode_all(message.all_of.parts))
            case "any_of":
                return Or(parts=self.decode_all(message.any_of.parts))
            case "constant" if message.constant in _OF_TRUTHS:
                return Constant(value=_OF_TRUTHS[message.constant])
            case _:
                return Unknown()

    def decode_all(self, messages: Sequence[pb.Predicate]) -> tuple[Predicate, ...]:
        """The predicates, in order. Raises `Unreadable`."""
        if len(messages) > self._left:
            raise self._too_many()
        return tuple(map(self.decode, messages))

    def _take(self, nodes: int) -> None:
        self._left -= nodes
        if self._left < 0:
            raise self._too_many()

    def _too_many(self) -> Unreadable:
        return Unreadable(f"a predicate of more than {NODES_MAX} tests and connectives")


def _comparison(message: pb.Comparison) -> Compare:
    _short(message.column, "name")
    operator = _short(message, "operator")
    if operator not in OPERATORS:
        raise Unreadable(f"a comparison by {operator[:20]!r}")
    value = _value(message.value)
    return Compare(column=_column_of(message.column), operator=operator, value=value)


def _membership(message: pb.Membership) -> In:
    _short(message.column, "name")
    if not 1 <= len(message.values) <= IN_VALUES_MAX:
        raise Unreadable(f"{len(message.values)} values to be one of; 1 to {IN_VALUES_MAX} may be")
    values = tuple(map(_value, message.values))
    if len(set(map(type, values))) > 1 or list(values) != sorted(values):
        raise Unreadable("values to be one of that are not of one type and in order")
    return In(column=_column_of(message.column), values=values)


def _value(message: pb.Bound) -> Value:
    value = get_bound(message)
    if isinstance(value, float) and math.isnan(value):
        raise Unreadable("a comparison with NaN")
    return value


def _bound(value: Value) -> pb.Bound:
    message = pb.Bound()
    put_bound(message, value)
    return message


def _column(predicate: Compare | In | StartsWith | IsNull) -> pb.ColumnReference:
    column = predicate.column
    if isinstance(column, str):
        return pb.ColumnReference(name=column)
    return pb.ColumnReference(field_id=column)


def _column_of(message: pb.ColumnReference) -> Column:
    match message.WhichOneof("column"):
        case "field_id":
            return message.field_id
        case "name":
            return _short(message, "name")
        case _:
            raise Unreadable("a test of no column")


def _short(message: pb.Prefix | pb.ColumnReference | pb.Comparison, field: str) -> str:
    """The text, which is checked here: a check of its own would walk over all nodes first."""
    text: str = getattr(message, field)
    most = text_limit(message.DESCRIPTOR.name, field)
    if len(text) > most:
        raise Unreadable(f"a {field} of {len(text)} characters; {most} are allowed")
    return text


PREDICATES: Conversion[tuple[Predicate, ...]] = Conversion(
    lambda predicates: list(map(encode_predicate, predicates)),
    lambda messages: _Decoder().decode_all(messages),
)
"""Of the parts of calls: these all must be true."""
