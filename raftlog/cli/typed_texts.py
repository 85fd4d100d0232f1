"""Columns as Arrow's readers of text give them, brought into the topic's types.

Arrow reads neither dates and times of day from JSON nor maps, no intervals and no base64, and of a
local time with a zone it drops the zone silently. So these are read as texts, as lists of pairs and
as bytes, and become what they are here, a batch at a time.
"""

from __future__ import annotations

import binascii
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.cli.output import BASE64_PREFIX
from raftlog.records.arrow_types import is_variant
from raftlog.records.interval_text import intervals

ZONED = r":.*(Z|[+-]\d\d(:?\d\d)?)$"
"""A time with its zone. For Arrow's regular expressions, which never go back: Python's would, from
each colon."""


def readable_type(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow's JSON reader is asked for, with all parts nullable."""
    types = pa.types
    if types.is_date(kind) or types.is_time(kind) or types.is_duration(kind) or is_local_time(kind):
        return pa.string()
    if types.is_map(kind):
        pair = [("key", readable_type(kind.key_type)), ("value", readable_type(kind.item_type))]
        return pa.list_(pa.struct(pair))
    if types.is_list(kind):
        return pa.list_(readable_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, readable_type(part.type)) for part in kind])
    return kind


def typed(found: pa.Array[Any], kind: pa.DataType, path: str, *, base64: bool) -> pa.Array[Any]:
    """A column that was read as `readable_type(kind)`, with the values that it stands for.

    Raises `ValueError` for a text that is no such value, and for a struct's field that the topic
    does not have. `base64`: every binary value is base64, not only one with `BASE64_PREFIX`.
    """
    types = pa.types
    if types.is_null(found.type):
        return found
    if types.is_date(kind) or is_local_time(kind):
        return pc.cast(found, kind)  # refuses a zone
    if types.is_time(kind) and types.is_string(found.type):
        return _times_of_day(found)
    if types.is_duration(kind):
        return intervals(found)
    if types.is_binary(kind):
        return _bytes_of(pc.cast(found, kind), base64=base64)
    if types.is_map(kind):
        pairs: Any = typed_list(found, _pair_of(kind), path, base64=base64)
        keys, items = pairs.values.field("key"), pairs.values.field("value")
        mask = pairs.is_null()
        return pa.MapArray.from_arrays(pairs.offsets, keys, items, mask=mask)
    if types.is_list(kind):
        return typed_list(found, kind.value_type, path, base64=base64)
    if is_variant(kind):
        if found.null_count == len(found):
            mark: Any = kind  # the stubs make another array of each type
            return pa.nulls(len(found), mark)  # type: ignore[no-any-return]
        raise ValueError(f"column '{path}' is a VARIANT, which no text can hold: use Parquet")
    if types.is_struct(kind):
        return _typed_struct(found, kind, path, base64=base64)
    return found


def is_local_time(kind: Any) -> bool:
    """Whether the type is TIMESTAMP_NTZ."""
    return pa.types.is_timestamp(kind) and kind.tz is None


def typed_list(found: Any, part: pa.DataType, path: str, *, base64: bool) -> pa.Array[Any]:
    """A list's column with its values as `typed` gives them. The column is no slice."""
    values = typed(found.values, part, path, base64=base64)
    made: pa.Array[Any] = pa.ListArray.from_arrays(found.offsets, values, mask=found.is_null())
    return made


def _typed_struct(found: Any, kind: Any, path: str, *, base64: bool) -> pa.Array[Any]:
    known = {part.name for part in kind}
    for part in found.type:
        if part.name not in known:
            raise ValueError(f"the topic has no column '{path}.{part.name}'")
    parts = [
        typed(found.field(part.name), part.type, f"{path}.{part.name}", base64=base64)
        for part in kind
    ]
    fields = [pa.field(part.name, each.type) for part, each in zip(kind, parts, strict=True)]
    made: pa.Array[Any] = pa.StructArray.from_arrays(parts, fields=fields, mask=found.is_null())
    return made


def _pair_of(kind: Any) -> pa.DataType:
    return pa.struct([("key", kind.key_type), ("value", kind.item_type)])


def _times_of_day(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Times such as 12:34:56.5: Arrow casts no text to them, but times with a date."""
    day: Any = "1970-01-01T"  # the stubs know columns only, not a text beside one
    dated = pc.binary_join_element_wise(day, texts, "")
    times: pa.Array[Any] = pc.cast(pc.cast(dated, pa.timestamp("ns")), pa.time64("ns"))
    return times


def _bytes_of(found: Any, *, base64: bool) -> pa.Array[Any]:
    """The bytes that binary values stand for. Raises `ValueError` for what is no base64."""
    marked = pc.starts_with(found, BASE64_PREFIX)
    if not base64 and not pc.any(marked).as_py():
        return found  # type: ignore[no-any-return]
    cut = len(BASE64_PREFIX)
    values = (
        value[cut:] if mark else value if base64 else None
        for value, mark in zip(found.to_pylist(), marked.to_pylist(), strict=True)
    )
    decoded = pa.array(
        [None if each is None else binascii.a2b_base64(each, strict_mode=True) for each in values],
        pa.binary(),
    )
    return decoded if base64 else pc.if_else(marked, decoded, found)
