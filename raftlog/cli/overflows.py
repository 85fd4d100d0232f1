"""Numbers in a file that Arrow silently reads as others, because DOUBLE or FLOAT lacks them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.records.conform import type_name

_WRITTEN = re.compile(rb"(?i)inf")
"""How a file says that a number is infinite: `inf`, `Infinity`."""

EXACT_BELOW = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
"""Every integer between this and its negative is a value of the type."""


def holds_integer(kind: pa.DataType, value: int) -> bool:
    """Whether the floating-point type has exactly this number."""
    code = "f" if pa.types.is_float32(kind) else "d"
    try:
        return int(struct.unpack(code, struct.pack(code, value))[0]) == value
    except (OverflowError, struct.error):  # the latter beyond a double's range
        return False


def refuse_overflows(batch: pa.RecordBatch, text: bytes) -> None:
    """Refuse rows with more infinite numbers in a column than the text can mean. Raises
    `ValueError`, which names the column."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for leaf in _leaves(column):
            if not pa.types.is_floating(leaf.type):
                continue
            infinite = pc.sum(pc.is_inf(leaf)).as_py() or 0
            if infinite and infinite > len(_WRITTEN.findall(text)):
                raise ValueError(
                    f"column {name!r} ({type_name(leaf.type)}): a number is beyond its range"
                )


def _leaves(column: Any) -> Iterator[Any]:
    """The arrays of plain values in a column."""
    kind = column.type
    if pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _leaves(part)
    elif pa.types.is_map(kind):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif pa.types.is_list(kind):
        yield from _leaves(column.flatten())
    else:
        yield column
