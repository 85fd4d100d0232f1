"""Good bytes made bad: flipped bits, missing or repeated bytes, false lengths, extreme values.

`broken` knows nothing of what the bytes mean. `changed` takes a message's own fields to their
extremes, so that the result is well formed and senseless.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from raftlog.wire.framing import join, split

_LENGTHS = (0, 1, 7, 8, 9, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1)
_TEXTS = ("", "x", "x" * 1024, "x" * 1025, "\u65e5" * 1024, "x" * 100_000, "..", "a/b", "\0", "{}")
_SIGNED = (-(2**63), -(2**31), -1, 0, 1, 2, 2**31, 2**63 - 2, 2**63 - 1)
_UNSIGNED = (0, 1, 2, 3, 2**16, 2**31, 2**32, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 1)
_HALF = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1)
_NUMBERS = {
    FieldDescriptor.TYPE_INT64: _SIGNED,
    FieldDescriptor.TYPE_SINT64: _SIGNED,
    FieldDescriptor.TYPE_UINT64: _UNSIGNED,
    FieldDescriptor.TYPE_UINT32: _HALF,
    FieldDescriptor.TYPE_FIXED32: _HALF,
    FieldDescriptor.TYPE_BOOL: (False, True),
    FieldDescriptor.TYPE_DOUBLE: (0.0, -1.5, float("nan"), float("inf")),
}


def broken(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one to three of the faults below in them."""
    for _ in range(chance.randint(1, 3)):
        data = chance.choice(_FAULTS)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return b"\x01"
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 8))):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut_tail(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _cut_out(data: bytes, chance: random.Random) -> bytes:
    start, end = _slice(data, chance)
    return data[:start] + data[end:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, end = _slice(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 2, 50)) + data[end:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.randint(0, len(data))
    return data[:place] + chance.randbytes(chance.choice((1, 2, 8, 300))) + data[place:]


def _huge_number(data: bytes, chance: random.Random) -> bytes:
    """Replace a byte by a varint of ten bytes: lengths and values far beyond the message."""
    place = chance.randint(0, len(data))
    return (
        data[:place] + chance.choice((b"\xff" * 9 + b"\x01", b"\xff" * 4 + b"\x0f")) + data[place:]
    )


def _lie_about_length(data: bytes, chance: random.Random) -> bytes:
    """Put another header length, or version, into the frame's prefix."""
    start = chance.choice((0, 4, 4, 4))
    if len(data) < 8:
        return struct.pack("<II", 1, chance.choice(_LENGTHS)) + data
    length = chance.choice((*_LENGTHS, len(data), len(data) - 8, len(data) - 7))
    return data[:start] + struct.pack("<I", length) + data[start + 4 :]


def _noise(data: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 8, len(data), 1000)))


_FAULTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _flip,
    _flip,
    _cut_tail,
    _cut_out,
    _repeat,
    _insert,
    _huge_number,
    _lie_about_length,
    _noise,
)


def _slice(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, chance.randint(start, min(len(data), start + 64))


def changed(frame: bytes, kind: type[Message], chance: random.Random) -> bytes:
    """The frame with one to three of its message's fields, at any depth, set to extremes."""
    header, body = split(frame)
    message = kind.FromString(header)
    for _ in range(chance.randint(1, 3)):
        _change(message, chance)
    return join(message.SerializeToString(), bytes(body))


def _change(message: Any, chance: random.Random) -> None:
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    field = chance.choice(fields)
    value = getattr(message, field.name)
    if field.is_repeated:
        _change_list(value, field, chance)
    elif field.message_type is None:
        setattr(message, field.name, _extreme(field, chance))
    elif chance.random() < 0.1:
        message.ClearField(field.name)
    else:
        _change(value, chance)


def _change_list(values: Any, field: FieldDescriptor, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0:
            del values[chance.randint(0, len(values)) :]
        case 1 if values:
            values.extend(list(values) * chance.choice((1, 1, 500)))
        case 2 if values and field.message_type is not None:
            _change(chance.choice(values), chance)
        case _:
            if field.message_type is not None:
                values.add()
            else:
                values.append(_extreme(field, chance))


def _extreme(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return chance.choice(_TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.choice((0, 1, 64)))
    return chance.choice(_NUMBERS[field.type])
