"""Day-time intervals as texts, the way Spark shows them: `-1 02:03:04.5`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_INTERVAL = (
    r"^(?P<sign>-?)(?P<days>[0-9]{1,9}) (?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]):"
    r"(?P<seconds>[0-5][0-9])(?:\.(?P<parts>[0-9]{1,6}))?$"
)
"""Days, then a time of day; the sign is that of all of it."""


def intervals(texts: pa.Array[Any]) -> pa.Array[Any]:
    """The intervals that a column of texts says, in microseconds; nulls stay. Raises `ValueError`
    for a text that is none, and for one that is too long."""
    parts: Any = pc.extract_regex(texts, _INTERVAL)
    others: Any = pc.filter(texts, pc.and_(pc.is_valid(texts), pc.is_null(parts)))
    if len(others):
        raise ValueError(f"{others[0].as_py()!r} is no interval such as '1 02:03:04.5'")
    total: Any = pa.scalar(0, pa.int64())
    for name, factor in (("days", 1), ("hours", 24), ("minutes", 60), ("seconds", 60)):
        number = pc.cast(pc.struct_field(parts, name), pa.int64())
        total = pc.add_checked(pc.multiply_checked(total, factor), number)
    after = pc.utf8_rpad(pc.struct_field(parts, "parts"), 6, "0")
    us = pc.add_checked(pc.multiply_checked(total, 1_000_000), pc.cast(after, pa.int64()))
    negative = pc.starts_with(pc.struct_field(parts, "sign"), "-")
    signed: Any = pc.if_else(negative, pc.negate(us), us)
    return signed.cast(pa.duration("us"))  # type: ignore[no-any-return]
