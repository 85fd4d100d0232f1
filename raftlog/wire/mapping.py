"""Values to protobuf messages and back, by the names and types of their fields.

A frozen dataclass or NamedTuple and the message of the same name have the same field names; the
type hints say how each is converted. Everything is worked out once, at import, and a value whose
message lacks a field fails there. What is encoded a thousand times a second is written by hand in
the codec instead and given here as `known`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from raftlog.wire.framing import Unreadable

V = TypeVar("V")

_SCALARS = (bool, int, str, bytes)

LIST_VALUES_MAX = 100_000
"""Values of one list, and fields of a command or request (`raftlog.wire.codec_fields`), at most:
more than any sound message has. Two bytes of a frame can be a value, which takes a hundred bytes of
memory and its time. Lists of requests have lower bounds (`raftlog.wire.codec_texts`)."""


class Conversion(NamedTuple, Generic[V]):
    """How values of one type become messages (`encode`) and messages values (`decode`).

    `decode` raises `Unreadable` where a message lacks a part that its value cannot be without.
    """

    encode: Callable[[V], Any]
    decode: Callable[[Any], V]


class Conversions:
    """The conversions of all types met so far; `messages` is the generated module."""

    def __init__(self, messages: ModuleType, known: Mapping[Any, Conversion[Any]]) -> None:
        """`known`: by type, by union of types, or by tuple of one type."""
        self._messages = messages
        self._known: dict[Any, Conversion[Any]] = dict(known)

    def of(self, value_type: type[V]) -> Conversion[V]:
        """The conversion of a dataclass or NamedTuple; raises AssertionError if names differ."""
        found = self._known.get(value_type)
        if found is None:
            found = self._known[value_type] = self._derive(value_type)
        return found

    def _derive(self, value_type: type[V]) -> Conversion[V]:
        message_type = getattr(self._messages, value_type.__name__)
        hints = get_type_hints(value_type)
        names = _field_names(value_type)
        told = {field.name for field in message_type.DESCRIPTOR.fields}
        assert set(names) == told, f"{value_type.__name__}: {set(names) ^ told} only on one side"
        plain = [name for name in names if _is_scalar(hints[name])]
        values_of = _getter(plain)
        lists = [name for name in names if get_origin(hints[name]) is tuple]
        nested = [name for name in names if name not in plain and name not in lists]
        encoders = [(name, self._list(hints[name]).encode) for name in lists]
        encoders += [(name, self.of(hints[name]).encode) for name in nested]
        list_decoders = [(name, self._list(hints[name]).decode) for name in lists]
        nested_decoders = [(name, self.of(hints[name]).decode) for name in nested]

        def encode(value: V) -> Any:
            parts = dict(zip(plain, values_of(value), strict=True))
            for name, encode_part in encoders:
                parts[name] = encode_part(getattr(value, name))
            return message_type(**parts)

        def decode(message: Any) -> V:
            parts = dict(zip(plain, values_of(message), strict=True))
            for name, decode_part in list_decoders:
                parts[name] = decode_part(getattr(message, name))
            for name, decode_part in nested_decoders:
                if not message.HasField(name):
                    raise Unreadable(f"{value_type.__name__} lacks {name}")
                parts[name] = decode_part(getattr(message, name))
            return value_type(**parts)

        return Conversion(encode, decode)

    def _list(self, hint: Any) -> Conversion[tuple[Any, ...]]:
        if hint in self._known:
            return self._known[hint]
        member, rest = get_args(hint)
        assert rest is Ellipsis, f"{hint} is no tuple of any length"
        if _is_scalar(member):
            return Conversion(list, tuple)
        conversion = self.of(member)
        return Conversion(
            lambda values: [conversion.encode(value) for value in values],
            lambda messages: tuple([conversion.decode(message) for message in bounded(messages)]),
        )


def bounded(messages: Any) -> Any:
    """The repeated field, if it has no more than `LIST_VALUES_MAX` values; else `Unreadable`."""
    if len(messages) > LIST_VALUES_MAX:
        raise Unreadable(f"a list of {len(messages)} values; {LIST_VALUES_MAX} are allowed")
    return messages


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads these attributes of a value, in one call where there are several."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _is_scalar(hint: Any) -> bool:
    return getattr(hint, "__supertype__", hint) in _SCALARS


def _field_names(value_type: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(value_type):
        return tuple(field.name for field in dataclasses.fields(value_type))
    return tuple(inspect.get_annotations(value_type))
