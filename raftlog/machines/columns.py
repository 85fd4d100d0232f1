"""Packed columns of 8-byte numbers as bytes: little-endian, whatever the processor."""

from __future__ import annotations

import sys
from array import array

NUMBER_BYTES = 8


def pack(values: array[int]) -> bytes:
    """The column's numbers in order, `NUMBER_BYTES` each, signed."""
    assert values.itemsize == NUMBER_BYTES
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def unpack(data: bytes) -> array[int]:
    """The column of these bytes, whose number must be a multiple of `NUMBER_BYTES`."""
    values = array("q")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
