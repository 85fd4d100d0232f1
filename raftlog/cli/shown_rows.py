"""A topic's records in JSON's types: also times beyond those that Python's own types hold."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from raftlog.cli.output import key_text
from raftlog.records.batching import split

SHOWN_BYTES_MAX = 16 * 1024 * 1024
SHOWN_ELEMENTS_MAX = 1024 * 1024
"""Of a value of a large record: the bytes of its texts, and the elements of its lists and maps, at
all levels. Python's objects take a hundred times as much memory as Arrow's."""

_PIECE_BYTES = 64 * 1024
"""So many bytes of several records are made into Python's objects at a time: at most so many values
as twice as many bytes have bits."""

_EPOCH = datetime.date(1970, 1, 1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The Gregorian calendar repeats itself after so many."""
_DAY_US = 86_400_000_000


def shown_rows(batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
    """The rows, in lists of a bounded size. Times are ISO texts, of years above 9999 with a sign; a
    map is an object, or a list of pairs where it has a key twice; bytes of a text that are not
    UTF-8 are escaped; other values are as Arrow gives them to Python.

    Of a large record only the beginning of a value is shown that has more than `SHOWN_BYTES_MAX` or
    `SHOWN_ELEMENTS_MAX`. Its end says how much there is.
    """
    for piece in split(batch, _PIECE_BYTES):
        is_large = piece.nbytes > 2 * _PIECE_BYTES
        yield _rows(piece, _cut_values if is_large else _values)


def _rows(
    batch: pa.RecordBatch, shown: Callable[[pa.Array[Any], pa.DataType], list[Any]]
) -> list[dict[str, Any]]:
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        counted = _counted(field.type)
        values: Any = column if counted == field.type else column.cast(counted)
        columns.append(shown(values, field.type))
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array[Any], kind: pa.DataType) -> list[Any]:
    """The values of a column of `_counted` type, which stands for one of type `kind`."""
    return [_shown(value, kind) for value in column.to_pylist()]


def _cut_values(column: pa.Array[Any], kind: pa.DataType) -> list[Any]:
    """The same, each cut."""
    return [_Cut().shown(value, kind) for value in column]


def _counted(kind: Any) -> Any:
    """The type with days, microseconds, and nanoseconds as numbers, and texts as their bytes."""
    types = pa.types
    if types.is_string(kind):
        return pa.binary()
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
    if types.is_string(kind):
        return value.decode(errors="backslashreplace")
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
        return _object(
            [(_shown(key, kind.key_type), _shown(item, kind.item_type)) for key, item in value]
        )
    return value


def _object(pairs: list[tuple[Any, Any]]) -> dict[str, Any] | list[list[Any]]:
    """A map of these keys and items."""
    texts = [(key_text(key), item) for key, item in pairs]
    shown = dict(texts)
    return shown if len(shown) == len(texts) else [list(pair) for pair in texts]


class _Cut:
    """What of one value may still be shown."""

    def __init__(self) -> None:
        self._bytes = SHOWN_BYTES_MAX
        self._elements = SHOWN_ELEMENTS_MAX

    def shown(self, value: Any, kind: Any) -> Any:
        """An Arrow scalar of `_counted` type, which stands for one of type `kind`."""
        types = pa.types
        if not value.is_valid:
            return None
        if types.is_string(kind) or types.is_binary(kind):
            raw = value.as_buffer()
            taken = raw.slice(0, self._bytes).to_pybytes()
            self._bytes -= len(taken)
            rest = f"... ({raw.size} bytes)".encode() if len(taken) < raw.size else b""
            return _shown(taken + rest, kind)
        if types.is_struct(kind):
            return {part.name: self.shown(value[part.name], part.type) for part in kind}
        if types.is_list(kind):
            listed = [self.shown(each, kind.value_type) for each in self._first(value.values)]
            return listed + self._rest(value.values, len(listed))
        if types.is_map(kind):
            pairs = [
                (self.shown(each[0], kind.key_type), self.shown(each[1], kind.item_type))
                for each in self._first(value.values)
            ]
            return _object(pairs + [("...", each) for each in self._rest(value.values, len(pairs))])
        return _shown(value.as_py(), kind)

    def _first(self, elements: Any) -> Iterator[Any]:
        for each in elements:
            if self._elements == 0:
                return
            self._elements -= 1
            yield each

    def _rest(self, elements: Any, shown: int) -> list[str]:
        return [f"... ({len(elements)} elements)"] if shown < len(elements) else []


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
