"""Rows of Python objects as batches of a topic: each value is stored as it is, or rejected.

Lists, maps and structs are built from their parts, and times as the numbers that stand for them.
What Arrow builds of other values is read back and compared with what was given: Arrow truncates
some, and makes others infinite. pandas' and NumPy's nulls are nulls; a NaN is a number, not a null.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from raftlog.errors import SchemaMismatch
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import (
    arrow_schema,
    arrow_type,
    map_of,
    of_pandas,
    with_named_index,
)
from raftlog.records.conform import conform, mismatch, reserved_name
from raftlog.records.schema_text import type_ddl, type_text
from raftlog.records.spark_types import INTERVALS, TIMES, JsonType


def batch_from_rows(
    rows: Sequence[Mapping[str, Any]], schema: Schema, topic: str
) -> pa.RecordBatch:
    """A batch of the rows, which are mappings or tuples with names (Spark's `Row`).

    Where a row lacks a key, the value is null. A float is stored in a FLOAT as the nearest one. A
    datetime for a TIMESTAMP needs a zone. Raises `SchemaMismatch` for a key that is no column, a
    value of another type or one that would change, and a null where the topic allows none.
    """
    wanted = arrow_schema(schema)
    try:
        given = [_by_name(row) for row in rows]
    except TypeError as error:
        raise SchemaMismatch(topic=topic, difference=f"  a row: {error}") from error
    extra = set().union(*given) - set(wanted.names)
    if extra:
        names = sorted(extra, key=str)
        lines = "\n".join(f"  extra:   {name}{reserved_name(name)}" for name in names)
        raise SchemaMismatch(topic=topic, difference=lines)
    try:
        columns = [
            _whole([row.get(field.name) for row in given], json.loads(field.type), field.name)
            for field in schema.fields
        ]
    except _Rejected as rejected:
        raise mismatch(topic, str(rejected), rejected.rows) from rejected
    return conform(pa.RecordBatch.from_arrays(columns, names=wanted.names), schema, topic)


def table_from_frame(frame: Any, schema: Schema, topic: str) -> pa.Table:
    """The rows of a pandas DataFrame, with the named levels of its index; missing values are nulls.

    Arrow reads its columns, except those of Python objects, which are read as those of rows. Raises
    `SchemaMismatch` for a value that cannot be stored.
    """
    frame = with_named_index(frame)
    kinds = {field.name: json.loads(field.type) for field in schema.fields}
    names, columns = list(map(str, frame.columns)), []
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        try:
            if series.dtype == object and name in kinds:
                values = series.where(series.notna(), None).tolist()
                columns.append(_whole(values, kinds[name], name))
            else:
                _check_still_integers(series, kinds.get(name), name)
                columns.append(pa.array(series))
        except _Rejected as rejected:
            raise mismatch(topic, str(rejected), rejected.rows) from rejected
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            line = f"  {name}: {error}"
            raise SchemaMismatch(topic=topic, difference=line) from error
    return pa.Table.from_arrays(columns, names=names)


_PANDAS_INTEGERS = {"byte": "Int8", "short": "Int16", "integer": "Int32", "long": "Int64"}


def _check_still_integers(series: Any, kind: JsonType | None, name: str) -> None:
    """Raise `_Rejected` for integers that pandas made floats, because some are missing."""
    if not (isinstance(kind, str) and kind in _PANDAS_INTEGERS and series.dtype == "float64"):
        return
    there = series.dropna()
    if len(there) < len(series) and (there % 1 == 0).all():
        given = "given DOUBLE, as pandas makes integers of which some are missing"
        raise _rejected(name, kind, f"{given}: use .astype({_PANDAS_INTEGERS[kind]!r})")


class _Rejected(Exception):
    """A value that cannot be stored; the text is a line of `SchemaMismatch`."""

    rows = tuple[int, ...]()


def _rejected(path: str, kind: JsonType, problem: object) -> _Rejected:
    return _Rejected(f"  differs: {path} {type_ddl(kind)}; {problem}")


def _whole(values: Sequence[Any], kind: JsonType, path: str) -> pa.Array[Any]:
    """A column of the topic. Raises `_Rejected`, which names the first row that is wrong."""
    try:
        return _column(values, kind, path)
    except _Rejected:
        start, end = 0, len(values)
        while end - start > 1:  # each try looks at half of the rows that are left
            middle = (start + end) // 2
            try:
                _column(values[start:middle], kind, path)
                start = middle
            except _Rejected:
                end = middle
        try:
            _column(values[start:end], kind, path)
        except _Rejected as rejected:
            rejected.rows = (start,)
            raise
        raise


def _column(values: Sequence[Any], kind: JsonType, path: str) -> pa.Array[Any]:
    """The values as a column whose parts may all be null."""
    values = _without_foreign_nulls(values)
    try:
        if isinstance(kind, str):
            return _structs(values, _VARIANT, path) if kind == "variant" else _plain(values, kind)
        if kind["type"] == "array":
            return _lists(values, kind, path)
        return _maps(values, kind, path) if kind["type"] == "map" else _structs(values, kind, path)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise _rejected(path, kind, error) from error


def _without_foreign_nulls(values: Sequence[Any]) -> Sequence[Any]:
    pandas_nulls = of_pandas("NA", "NaT")
    types = {type(null) for null in pandas_nulls} | {np.datetime64, np.timedelta64}
    if types.isdisjoint(map(type, values)):
        return values

    def is_null(value: Any) -> bool:
        if isinstance(value, np.datetime64 | np.timedelta64):
            return bool(np.isnat(value))
        return any(value is null for null in pandas_nulls)

    return [None if is_null(value) else value for value in values]


# ---------------------------------------------------------------- nested values

_VARIANT: dict[str, Any] = {
    "type": "struct",
    "fields": [{"name": "value", "type": "binary"}, {"name": "metadata", "type": "binary"}],
}
"""The parts of a variant, as a row gives them."""


def _lists(values: Sequence[Any], kind: dict[str, Any], path: str) -> pa.Array[Any]:
    offsets, members = _flat(values, _members)
    column = _column(members, kind["elementType"], f"{path}.element")
    of = pa.list_(pa.field("element", column.type))
    array: Any = pa.ListArray  # the stubs lack `type`
    made: pa.Array[Any] = array.from_arrays(offsets, column, type=of)
    return made


def _maps(values: Sequence[Any], kind: dict[str, Any], path: str) -> pa.Array[Any]:
    offsets, pairs = _flat(values, _pairs)
    keys = _column([key for key, _ in pairs], kind["keyType"], f"{path}.key")
    items = _column([item for _, item in pairs], kind["valueType"], f"{path}.value")
    of = map_of(pa.field("key", keys.type, nullable=False), pa.field("value", items.type))
    array: Any = pa.MapArray  # the stubs lack `type`
    made: pa.Array[Any] = array.from_arrays(offsets, keys, items, type=of)
    return made


def _structs(values: Sequence[Any], kind: dict[str, Any], path: str) -> pa.Array[Any]:
    given = [None if value is None else _by_name(value) for value in values]
    parts = {part["name"]: part["type"] for part in kind["fields"]}
    extra = set().union(*filter(None, given)) - set(parts)
    if extra:
        raise _Rejected(f"  extra:   {path}.{min(extra, key=str)}")
    columns = [
        _column([None if row is None else row.get(name) for row in given], part, f"{path}.{name}")
        for name, part in parts.items()
    ]
    fields = [pa.field(name, column.type) for name, column in zip(parts, columns, strict=True)]
    is_null = pa.array([row is None for row in given], pa.bool_())
    return pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)


def _flat(
    values: Iterable[Any], parts_of: Callable[[Any], Iterable[Any]]
) -> tuple[pa.Array[Any], list[Any]]:
    """Where the parts of each value begin among those of all; null for a null."""
    offsets: list[int | None] = []
    parts: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(parts))
        if value is not None:
            parts.extend(parts_of(value))
    return pa.array([*offsets, len(parts)], pa.int32()), parts


def _members(value: Any) -> Any:
    """Those of a list, a tuple, or an array of NumPy's, pandas' or Arrow's."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.to_pylist()
    extension_arrays = [api.extensions.ExtensionArray for api in of_pandas("api")]
    arrays = (list, tuple, *of_pandas("Series", "Index"), *extension_arrays)
    if isinstance(value, arrays) or (isinstance(value, np.ndarray) and value.ndim):
        return value
    raise TypeError(f"given {type(value).__name__}")


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Those of a mapping, or of a list of pairs."""
    if isinstance(value, Mapping):
        return value.items()
    if not isinstance(value, list | tuple):
        raise TypeError(f"given {type(value).__name__}")
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError("given a list of something else than pairs")
    return value


def _by_name(value: Any) -> Mapping[str, Any]:
    """The fields of a mapping, or of a tuple with names, such as Spark's `Row`."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "__fields__", getattr(value, "_fields", None))
    if not isinstance(value, tuple) or names is None:
        raise TypeError(f"given {type(value).__name__}, which has no names for its values")
    if len(set(names)) != len(value):
        raise TypeError(f"given {type(value).__name__} with a name twice")
    return dict(zip(names, value, strict=True))


# ---------------------------------------------------------------- plain values


class _Taken(NamedTuple):
    """The Python types whose values a topic's type takes."""

    types: tuple[type, ...]
    but: tuple[type, ...] = ()
    """Of these, those that it does not: they are another type's."""
    number: Callable[[Any], int] | None = None
    """The number that stands for a value. None: Arrow builds the column of the values, and they are
    compared with what is read back. Raises `ValueError` for a value that no number stands for."""


def _plain(values: Sequence[Any], kind: str) -> pa.Array[Any]:
    taken = _taken(kind)
    others = {
        each
        for each in set(map(type, values)) - {type(None)}
        if not issubclass(each, taken.types) or issubclass(each, taken.but)
    }
    if others:
        raise TypeError(_other(next(value for value in values if type(value) in others)))
    if taken is _DECIMAL:
        values = [int(each) if isinstance(each, np.integer) else each for each in values]
    of = arrow_type(type_text(kind))
    if taken.number is not None:
        numbers = [None if value is None else taken.number(value) for value in values]
        width = pa.int32() if kind == "date" else pa.int64()
        return pa.array(numbers, width).cast(of)
    column: Any = pa.array(values, of)
    stored: list[Any] = column.to_pylist()
    if stored != values:
        for given, found in zip(values, stored, strict=True):
            if not _is_stored(given, found, kind):
                raise ValueError(f"{shortened(given)} would become {shortened(found)}")
    built: pa.Array[Any] = column
    return built


def _other(value: Any) -> str:
    """What is wrong with a value of a type that the column does not take."""
    text = f"given {type(value).__name__} {shortened(value)}"
    if isinstance(value, Real) and value != value:
        return f"{text}, no null: append the DataFrame itself, or use its convert_dtypes()"
    return text


def _is_stored(given: Any, found: Any, kind: str) -> bool:
    if given is None or found is None:
        return given is found
    if kind == "float" and not isinstance(given, Integral):
        if float(given) != given == given:
            return False  # more digits than a double has
        try:
            (given,) = struct.unpack("<f", struct.pack("<f", given))
        except OverflowError:
            return False
    return bool(given == found or (given != given and found != found))


_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_YEARS = ((datetime.min - _EPOCH) // _MICROSECOND, (datetime.max - _EPOCH) // _MICROSECOND)
_DAY_MICROSECONDS = timedelta(days=1) // _MICROSECOND


def _of_numpy(value: Any, unit: str) -> int:
    """A time or an interval of NumPy's in this unit."""
    found = value.astype(f"{value.dtype.kind}8[{unit}]")
    has_unit = np.datetime_data(value.dtype)[0] != "generic"
    if not has_unit or np.isnat(found) or found.astype(value.dtype) != value:
        raise ValueError(f"{shortened(value)} is not a whole number of {_UNITS[unit]}")
    return int(found.astype(np.int64))


_UNITS = {"us": "microseconds", "D": "days"}


def _within_years(microseconds: int) -> int:
    if not _YEARS[0] <= microseconds <= _YEARS[1]:
        raise ValueError("a time must be in the years 1 to 9999")
    return microseconds


def _of_python(value: Any) -> Any:
    """A datetime or timedelta of Python's, also in place of pandas' own."""
    if getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)):
        raise ValueError(f"{shortened(value)} is not a whole number of microseconds")
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def _instant(value: Any) -> int:
    is_numpy = isinstance(value, np.datetime64)
    if is_numpy or value.utcoffset() is None:
        zoned = "pandas.Timestamp(value, tz='UTC')" if is_numpy else ".replace(tzinfo=datetime.UTC)"
        raise ValueError(
            f"{shortened(value)} has no time zone: give it one, such as `{zoned}`, or make the "
            "column a TIMESTAMP_NTZ"
        )
    local = _of_python(value)
    offset = local.utcoffset() // _MICROSECOND
    microseconds = (local.replace(tzinfo=None) - _EPOCH) // _MICROSECOND - offset
    if not _YEARS[0] <= microseconds <= _YEARS[1]:
        raise ValueError(f"{shortened(value)} is not in the years 1 to 9999 in UTC")
    return int(microseconds)


def _local(value: Any) -> int:
    if isinstance(value, np.datetime64):
        return _within_years(_of_numpy(value, "us"))
    if value.tzinfo is not None:
        raise ValueError("given a datetime with a time zone, which it does not keep")
    return int((_of_python(value) - _EPOCH) // _MICROSECOND)


def _day(value: Any) -> int:
    if isinstance(value, np.datetime64):
        days = _of_numpy(value, "D")
        _within_years(days * _DAY_MICROSECONDS)
        return days
    return int(value.toordinal()) - _EPOCH.toordinal()


def _time_of_day(value: time) -> int:
    if value.tzinfo is not None:
        raise ValueError("given a time with a time zone, which it does not keep")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1_000


def _interval(value: Any) -> int:
    if isinstance(value, np.timedelta64):
        return _of_numpy(value, "us")
    return int(_of_python(value) // _MICROSECOND)


_BOOLS = (bool, np.bool_)
_INTEGER = _Taken((Integral,), _BOOLS)
_FLOATING = _Taken((Real,), _BOOLS)
_INTERVAL = _Taken((timedelta, np.timedelta64), number=_interval)
_TIME = _Taken((time,), number=_time_of_day)
_DECIMAL = _Taken((Decimal, Integral), _BOOLS)
_TEXT = _Taken((str,))

_TAKEN = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _INTEGER),
    **dict.fromkeys(("float", "double"), _FLOATING),
    **dict.fromkeys(TIMES, _TIME),
    **dict.fromkeys(INTERVALS, _INTERVAL),
    "boolean": _Taken(_BOOLS),
    "binary": _Taken((bytes, bytearray)),
    "date": _Taken((date, np.datetime64), (datetime,), number=_day),
    "timestamp": _Taken((datetime, np.datetime64), number=_instant),
    "timestamp_ntz": _Taken((datetime, np.datetime64), number=_local),
}


def _taken(kind: str) -> _Taken:
    return _TAKEN.get(kind) or (_DECIMAL if kind.startswith("decimal") else _TEXT)
