"""Private to `raftlog.wire`: the fields in a message's bytes, before a parser makes objects.

Two bytes of a peer, or of a client, can be a message or a text, which takes hundreds in memory. So
the fields of a long message are counted first, which takes no memory and ends at the bound.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from raftlog.wire.framing import Unreadable
from raftlog.wire.mapping import LIST_VALUES_MAX

M = TypeVar("M", bound=Message)

LENGTH_DELIMITED = 2
"""Protobuf's wire type of messages, texts, bytes and packed lists: a tag's lowest three bits."""
_VARINT = 0
_FIXED_BYTES = {1: 8, 5: 4}
"""By wire type."""
_WIDTHS = {
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_DOUBLE: 8,
}
"""Bytes of numbers that are no varints."""
_TAG_BYTES_MAX = _LENGTH_BYTES_MAX = 5
_VARINT_BYTES_MAX = 10
_CONTINUED = bytes(range(0x80, 0x100))
"""The bytes of a varint that are not its last one."""


def parse(kind: type[M], data: bytes, fields_max: int = LIST_VALUES_MAX) -> M:
    """The message of this kind. Raises `Unreadable` if it has more than `fields_max` fields and
    numbers in lists. Those within messages that contain neither messages nor lists do not count.

    A message of up to twice as many bytes is parsed at once: a field takes two or more.
    """
    if len(data) > 2 * fields_max:
        _check_count(data, kind, fields_max)
    return kind.FromString(data)


def field(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """The tag of the field that begins there, and where its value starts and stops. Raises
    `Unreadable` where it is not within the message that ends at `end`."""
    try:
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = _varint(data, position - 1, _TAG_BYTES_MAX)
        wire_type = tag & 7
        if wire_type == LENGTH_DELIMITED:
            length, position = data[position], position + 1
            if length > 0x7F:
                length, position = _varint(data, position - 1, _LENGTH_BYTES_MAX)
            stop = position + length
        elif wire_type == _VARINT:
            _, stop = _varint(data, position, _VARINT_BYTES_MAX)
        elif wire_type in _FIXED_BYTES:
            stop = position + _FIXED_BYTES[wire_type]
        else:
            raise Unreadable(f"a field of the unknown wire type {wire_type}")
    except IndexError:
        raise Unreadable("the header ends within a message") from None
    if stop > end:
        raise Unreadable("a message ends beyond what it is in")
    return tag, position, stop


def _varint(data: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """The number that begins there, and where it stops."""
    number = 0
    for shift in range(0, 7 * bytes_max, 7):
        byte, position = data[position], position + 1
        number |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return number, position
    raise Unreadable(f"a number of more than {bytes_max} bytes")


class _Shape(NamedTuple):
    """The fields of a kind of message that are looked into."""

    messages: dict[int, Descriptor]
    """By tag, without those that contain neither messages nor lists."""
    lists: dict[int, int]
    """By the tag of packed numbers, the bytes of each; 0: they are varints."""


def _check_count(data: bytes, kind: type[Message], fields_max: int) -> None:
    position, end, shape = 0, len(data), _shape(kind.DESCRIPTOR)
    around: list[tuple[int, int, _Shape]] = []
    count = 0
    while position < end or around:
        if position == end:
            position, end, shape = around.pop()
            continue
        tag, start, position = field(data, position, end)
        count += 1
        width = shape.lists.get(tag)
        if width == 0:
            count += len(data[start:position].translate(None, _CONTINUED))
        elif width is not None:
            count += (position - start) // width
        if count > fields_max:
            raise Unreadable(f"{kind.__name__} has more than {fields_max} fields")
        if tag in shape.messages:
            around.append((position, end, shape))
            position, end, shape = start, position, _shape(shape.messages[tag])


@cache
def _shape(kind: Descriptor) -> _Shape:
    tags = {each.number << 3 | LENGTH_DELIMITED: each for each in kind.fields}
    texts = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
    return _Shape(
        messages={
            tag: part
            for tag, each in tags.items()
            if (part := each.message_type) is not None
            and any(inner.is_repeated or inner.message_type for inner in part.fields)
        },
        lists={
            tag: _WIDTHS.get(each.type, 0)
            for tag, each in tags.items()
            if each.is_repeated and each.message_type is None and each.type not in texts
        },
    )
