"""Private to `raftlog.wire`: predicates as messages and, for an option of Spark's, as text."""

from __future__ import annotations

import math
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
    node_count,
)
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_bounds import get_bound, put_bound
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
        return _bounded(decode_predicate(json_format.Parse(text, pb.Predicate())))
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


def decode_predicate(message: pb.Predicate) -> Predicate:
    """The predicate; of a kind that later versions have it is `Unknown`. Raises `Unreadable`."""
    match message.WhichOneof("kind"):
        case "comparison":
            return _comparison(message.comparison)
        case "membership":
            return _membership(message.membership)
        case "prefix":
            column = _column_of(message.prefix.column)
            return StartsWith(column=column, prefix=message.prefix.prefix)
        case "is_null":
            return IsNull(column=_column_of(message.is_null))
        case "negation":
            return Not(part=decode_predicate(message.negation))
        case "all_of":
            return And(parts=tuple(map(decode_predicate, message.all_of.parts)))
        case "any_of":
            return Or(parts=tuple(map(decode_predicate, message.any_of.parts)))
        case "constant" if message.constant in _OF_TRUTHS:
            return Constant(value=_OF_TRUTHS[message.constant])
        case _:
            return Unknown()


def _bounded(predicate: Predicate) -> Predicate:
    count = node_count(predicate)
    if count > NODES_MAX:
        raise Unreadable(f"a predicate of {count} nodes; {NODES_MAX} are allowed")
    return predicate


def _comparison(message: pb.Comparison) -> Compare:
    if message.operator not in OPERATORS:
        raise Unreadable(f"a comparison by {message.operator[:20]!r}")
    value = _value(message.value)
    return Compare(column=_column_of(message.column), operator=message.operator, value=value)


def _membership(message: pb.Membership) -> In:
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
            return message.name
        case _:
            raise Unreadable("a test of no column")


PREDICATE: Conversion[Predicate] = Conversion(
    encode_predicate, lambda message: _bounded(decode_predicate(message))
)
"""Of the parts of calls."""
