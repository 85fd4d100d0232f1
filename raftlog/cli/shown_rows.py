"""A topic's records in JSON's types: also times beyond those that Python's own types hold."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from raftlog.cli.output import key_text

_EPOCH = datetime.date(1970, 1, 1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The Gregorian calendar repeats itself after so many."""
_DAY_US = 86_400_000_000


def shown_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows. Times are ISO texts, of years above 9999 with a sign; a map is an object, or a list
    of pairs where it has a key twice; other values are as Arrow gives them to Python."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        counted = _counted(field.type)
        values: Any = column if counted == field.type else column.cast(counted)
        columns.append([_shown(value, field.type) for value in values.to_pylist()])
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _counted(kind: Any) -> Any:
    """The type with days, microseconds, and nanoseconds as numbers."""
    types = pa.types
    if types.is_date(kind):
        return pa.int32()
    if types.is_timestamp(kind) or types.is_time(kind):
        return pa.int64()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([part.with_type(_counted(part.type)) for part in kind])
    if types.is_map(kind):
        key, item = _counted(kind.key_type), _counted(kind.item_type)
        fields: tuple[Any, Any] = (kind.key_field.with_type(key), kind.item_field.with_type(item))
        return pa.map_(*fields)
    return kind


def _shown(value: Any, kind: Any) -> Any:
    """A value of `_counted` type, which stands for one of type `kind`."""
    types = pa.types
    if value is None:
        return None
    if types.is_date(kind):
        return _day(value)
    if types.is_timestamp(kind):
        assert (kind.unit, kind.tz) in (("us", None), ("us", "UTC")), kind
        days, us = divmod(value, _DAY_US)
        seconds, us = divmod(us, 1_000_000)
        fraction = f".{us:06}" if us else ""
        return f"{_day(days)}T{_clock(seconds)}{fraction}{'+00:00' if kind.tz else ''}"
    if types.is_time(kind):
        assert kind.unit == "ns", kind
        seconds, ns = divmod(value, 1_000_000_000)
        return f"{_clock(seconds)}.{ns:09}"
    if types.is_list(kind):
        return [_shown(each, kind.value_type) for each in value]
    if types.is_struct(kind):
        return {part.name: _shown(value[part.name], part.type) for part in kind}
    if types.is_map(kind):
        pairs = [
            (key_text(_shown(key, kind.key_type)), _shown(item, kind.item_type))
            for key, item in value
        ]
        shown = dict(pairs)
        return shown if len(shown) == len(pairs) else [list(pair) for pair in pairs]
    return value


def _clock(seconds: int) -> str:
    """The time of day so many seconds after midnight."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}"


def _day(days: int) -> str:
    """The date so many days after 1970-01-01."""
    cycles, within = divmod(days, _CYCLE_DAYS)
    day = _EPOCH + datetime.timedelta(days=within)
    year = day.year + _CYCLE_YEARS * cycles
    sign = "+" if year > datetime.MAXYEAR else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{day:%m-%d}"
