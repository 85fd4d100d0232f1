"""Rows of any objects, DataFrames of them and Arrow data, against a slow, obvious reference: each
value is stored equal and can be read back, or it is rejected.

Replay: DIFFERENTIAL_SEED=<seed>. Prints how many values were compared, and how many differed.
"""

from __future__ import annotations

import datetime
import os
import struct
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from pyspark.sql import Row

from raftlog.errors import SchemaMismatch
from raftlog.machines.schema import Schema
from raftlog.records.conform import conform
from raftlog.records.rows import batch_from_rows, table_from_frame
from raftlog.records.schema_text import make_schema
from tests.costs import seed_of_the_day

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)

# ---------------------------------------------------------------- what is given

_ZONES = st.sampled_from([None, UTC, datetime.timezone(datetime.timedelta(hours=-5, minutes=-7))])
_EDGES = st.sampled_from(
    [0, 1, -1, 127, 128, 2**15, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**40]
)
_FLOATS = st.one_of(
    st.floats(), st.sampled_from([0.1, 1e300, -1e39, 2.0**24 + 1, float("inf"), float("nan")])
)


def _numpy_number(kind: str) -> st.SearchStrategy[Any]:
    code = np.dtype(kind)
    if code.kind in "iu":
        info = np.iinfo(code)
        return st.integers(int(info.min), int(info.max)).map(code.type)
    return _FLOATS.map(lambda value: _quietly(code.type, value))


def _quietly(make: Any, value: float) -> Any:
    with np.errstate(over="ignore"):
        return make(value)


_LIMITS = st.sampled_from(
    [
        limit + sign * datetime.timedelta(hours=hours)
        for limit, sign in ((datetime.datetime.min, 1), (datetime.datetime.max, -1))
        for hours in (0, 5, 6, 24)
    ]
)
"""Times at which a zone decides whether Python has them in UTC."""

_TIMES = st.one_of(
    st.datetimes(timezones=_ZONES),
    st.builds(lambda limit, zone: limit.replace(tzinfo=zone), _LIMITS, _ZONES),
)
_UNITS = st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.booleans().map(np.bool_),
    st.integers(),
    _EDGES,
    _FLOATS,
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "g"]).flatmap(
        _numpy_number
    ),
    st.decimals(),
    st.decimals(-999, 999, places=2),
    st.fractions(),
    st.complex_numbers(),
    st.text(),
    st.text(st.characters(codec="utf-8")).map(np.str_),
    st.binary(),
    st.binary().map(bytearray),
    st.binary().map(np.bytes_),
    st.dates(),
    _TIMES,
    st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1), timezones=_ZONES)
    .map(pd.Timestamp)
    .flatmap(lambda at: st.integers(0, 999).map(lambda more: at + pd.Timedelta(more, "ns"))),
    st.builds(np.datetime64, st.integers(-(2**40), 2**40), _UNITS),
    st.builds(np.timedelta64, st.integers(-(2**40), 2**40), _UNITS),
    st.times(timezones=_ZONES),
    st.timedeltas(),
    st.integers(-(2**50), 2**50).map(lambda ns: pd.Timedelta(ns, "ns")),
    st.sampled_from([pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("nan")]),
    st.uuids(),
    st.ip_addresses(),
)
_NAMES = ["a", "b", "c"]


def _with_names(values: list[Any]) -> st.SearchStrategy[Any]:
    """A value with these fields, in some order, of some class."""
    pairs = list(zip(_NAMES, values, strict=False))
    return st.permutations(pairs).flatmap(
        lambda order: st.sampled_from(
            [
                dict(order),
                OrderedDict(order),
                Row(**dict(order)),
                namedtuple("made", [name for name, _ in order])(**dict(order)),
            ]
        )
    )


def _of_objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return made


def _containers(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.lists(below, max_size=3)
    return st.one_of(
        members,
        members.map(tuple),
        members.map(_of_objects),
        members.map(lambda values: pd.Series(_of_objects(values))),
        st.lists(_FLOATS, max_size=3).map(np.array),
        st.lists(_FLOATS, max_size=3).map(lambda values: pd.Series(values, dtype="float64")),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(
            lambda values: np.array(values, dtype="int64")
        ),
        st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=3).map(
            lambda values: pd.Series(values, dtype="Int64")
        ),
        st.lists(st.integers(-(2**40), 2**40), max_size=3).map(
            lambda values: np.array(values, dtype="datetime64[s]")
        ),
        st.sets(st.integers(), max_size=3),
        st.frozensets(st.text(), max_size=3),
        st.dictionaries(st.text(max_size=3), below, max_size=3),
        st.lists(st.tuples(st.text(max_size=3), below), max_size=3),
        st.lists(below, min_size=3, max_size=3).flatmap(_with_names),
        st.iterables(st.integers(), max_size=3),
    )


ANYTHING = st.recursive(SCALARS, _containers, max_leaves=6)

# ---------------------------------------------------------------- types, and values meant for them

_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(5,2)": st.decimals(-999, 999, places=2),
    "decimal(38,0)": st.integers(-(10**37), 10**37).map(Decimal),
    "string": st.text(st.characters(codec="utf-8")),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": _TIMES.filter(lambda at: at.tzinfo is not None and _is_of_python(at)),
    "timestamp_ntz": _TIMES.filter(lambda at: at.tzinfo is None),
    "time(6)": st.times(),
    # In 64 bits of microseconds.
    "interval day to second": st.timedeltas(
        datetime.timedelta(days=-106_000_000), datetime.timedelta(days=106_000_000)
    ),
}


def _is_of_python(at: datetime.datetime) -> bool:
    """Whether UTC has the moment in the years 1 to 9999."""
    try:
        at.astimezone(UTC)
    except OverflowError:
        return False
    return True


def _nested(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def struct_of(kinds: list[Any]) -> dict[str, Any]:
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in zip(_NAMES, kinds, strict=True)
        ]
        return {"type": "struct", "fields": fields}

    return st.one_of(
        below.map(lambda kind: {"type": "array", "elementType": kind, "containsNull": True}),
        below.map(
            lambda kind: {
                "type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True
            }
        ),
        st.lists(below, min_size=3, max_size=3).map(struct_of),
    )  # fmt: skip


_ONE = st.sampled_from(sorted(_PLAIN))
KINDS = st.one_of(_ONE, _nested(_ONE), _nested(_nested(_ONE)), _nested(_nested(_nested(_ONE))))


def meant_for(kind: Any) -> st.SearchStrategy[Any]:
    """Values of Python's own that a column of this type holds."""
    if isinstance(kind, str):
        return st.one_of(st.none(), _PLAIN[kind])
    if kind["type"] == "array":
        return st.one_of(st.none(), st.lists(meant_for(kind["elementType"]), max_size=3))
    if kind["type"] == "map":
        keys = st.text(st.characters(codec="utf-8"), max_size=3)
        return st.one_of(st.none(), st.dictionaries(keys, meant_for(kind["valueType"]), max_size=3))
    return st.tuples(*(meant_for(field["type"]) for field in kind["fields"])).flatmap(
        lambda values: _with_names(list(values))
    )


# ---------------------------------------------------------------- the reference


class NotComparable(Exception):
    """No value of this type could be equal to it."""


def is_missing(value: Any) -> bool:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or value is pd.NA or value is pd.NaT


def meaning(value: Any, kind: Any) -> Any:
    """What the value means in a column of this type, in a form that can be compared."""
    if is_missing(value):
        return None
    if isinstance(kind, dict):
        return _meaning_of_parts(value, kind)
    plain = value.item() if isinstance(value, np.bool_ | np.number) else value
    if isinstance(value, np.longdouble):
        plain = Fraction(*value.as_integer_ratio()) if np.isfinite(value) else float(value)
    match kind:
        case "boolean" if isinstance(plain, bool):
            return plain
        case "byte" | "integer" | "long" if _is_integer(plain):
            return int(plain)
        case "float" | "double" if _is_integer(plain) or isinstance(plain, float | Fraction):
            return _number(plain, kind)
        case _ if kind.startswith("decimal") and (_is_integer(plain) or isinstance(plain, Decimal)):
            return Fraction(plain) if Decimal(plain).is_finite() else ("not finite", str(plain))
        case "string" if isinstance(plain, str):
            return str(plain)
        case "binary" if isinstance(plain, bytes | bytearray):
            return bytes(plain)
    return _meaning_of_time(value, kind)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any, kind: str) -> Any:
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, float) and kind == "float":
        try:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            return ("beyond", value)
    return value if value in (float("inf"), float("-inf")) else Fraction(value)


def _meaning_of_time(value: Any, kind: str) -> Any:
    """Nanoseconds since the epoch, or in the interval."""
    nanosecond = getattr(value, "nanosecond", getattr(value, "nanoseconds", 0))
    match kind:
        case "date" if isinstance(value, np.datetime64):
            return _of_numpy(value)
        case "date" if isinstance(value, datetime.date) and not isinstance(
            value, datetime.datetime
        ):
            return (value - EPOCH.date()).days * 86_400 * 10**9
        case "timestamp" if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            moved = pd.Timestamp.to_pydatetime(value, warn=False) if nanosecond else value
            naive = moved.replace(tzinfo=None)
            return _ns(naive - EPOCH) - _ns(moved.utcoffset()) + nanosecond
        case "timestamp_ntz" if isinstance(value, np.datetime64):
            return _of_numpy(value)
        case "timestamp_ntz" if isinstance(value, datetime.datetime) and value.tzinfo is None:
            moved = pd.Timestamp.to_pydatetime(value, warn=False) if nanosecond else value
            return _ns(moved - EPOCH) + nanosecond
        case "time(6)" if isinstance(value, datetime.time) and value.tzinfo is None:
            seconds = value.hour * 3600 + value.minute * 60 + value.second
            return seconds * 10**9 + value.microsecond * 1000
        case "interval day to second" if isinstance(value, np.timedelta64):
            return _of_numpy(value)
        case "interval day to second" if isinstance(value, datetime.timedelta):
            return _ns(value)
    raise NotComparable


def _ns(interval: Any) -> int:
    if isinstance(interval, pd.Timedelta):
        return int(interval.as_unit("ns").value)
    return ((interval.days * 86_400 + interval.seconds) * 10**6 + interval.microseconds) * 1000


def _of_numpy(value: Any) -> int:
    """Exact, in Python's numbers: NumPy's overflow."""
    unit, count = np.datetime_data(value.dtype)
    number = int(value.astype("int64")) * count
    if unit in "YM" and isinstance(value, np.datetime64):
        months = number * 12 if unit == "Y" else number
        year, month = 1970 + months // 12, months % 12 + 1
        if not 1 <= year <= 9999:
            raise NotComparable
        return (datetime.date(year, month, 1) - EPOCH.date()).days * 86_400 * 10**9
    sizes = {"W": 7 * 86_400 * 10**9, "D": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9}
    sizes |= {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    if unit not in sizes:
        raise NotComparable
    return number * sizes[unit]


def _meaning_of_parts(value: Any, kind: dict[str, Any]) -> Any:
    if kind["type"] == "array":
        if not isinstance(value, list | tuple | np.ndarray | pd.Series):
            raise NotComparable
        return [meaning(member, kind["elementType"]) for member in value]
    if kind["type"] == "map":
        pairs = value.items() if isinstance(value, dict) else value
        if not isinstance(pairs, list | tuple | type({}.items())):
            raise NotComparable
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise NotComparable
        return [(meaning(k, kind["keyType"]), meaning(v, kind["valueType"])) for k, v in pairs]
    if isinstance(value, tuple):
        names = getattr(value, "__fields__", getattr(value, "_fields", None))
        if names is None:
            raise NotComparable
        value = dict(zip(names, value, strict=True))
    if not isinstance(value, dict):
        raise NotComparable
    parts = {field["name"]: field["type"] for field in kind["fields"]}
    if not set(value) <= set(parts):
        raise NotComparable
    return {name: meaning(value.get(name), part) for name, part in parts.items()}


def numbers_of(column: pa.Array[Any], kind: Any) -> list[Any]:
    """What is stored, in the form of `meaning`."""
    if isinstance(kind, str):
        if kind in ("date", "timestamp", "timestamp_ntz", "time(6)", "interval day to second"):
            size = {"date": 86_400 * 10**9, "time(6)": 1}.get(kind, 1000)
            width = pa.int32() if kind == "date" else pa.int64()
            return [
                None if number is None else number * size
                for number in column.cast(width).to_pylist()
            ]
        return [meaning(value, kind) for value in column.to_pylist()]
    if kind["type"] == "struct":
        fields = kind["fields"]
        columns = [
            numbers_of(part, field["type"])
            for part, field in zip(column.flatten(), fields, strict=True)
        ]
        rows = zip(*columns, strict=True)
        return [
            dict(zip([field["name"] for field in fields], row, strict=True)) if valid else None
            for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    found = []
    for place in range(len(column)):
        if not column[place].is_valid:
            found.append(None)
        elif kind["type"] == "array":
            found.append(numbers_of(column[place].values, kind["elementType"]))
        else:
            entries = column[place].values
            keys = numbers_of(entries.field("key"), kind["keyType"])
            items = numbers_of(entries.field("value"), kind["valueType"])
            found.append(list(zip(keys, items, strict=True)))
    return found


# ---------------------------------------------------------------- Arrow data

_SIZES_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_ARROW_TIMES: dict[pa.DataType, tuple[str, int]] = {
    pa.date32(): ("date", 86_400 * 10**9),
    pa.date64(): ("date", 10**6),
    pa.time32("s"): ("time(6)", 10**9),
    pa.time64("us"): ("time(6)", 1000),
    pa.time64("ns"): ("time(6)", 1),
}
for _unit, _size in _SIZES_NS.items():
    _ARROW_TIMES[pa.duration(_unit)] = ("interval day to second", _size)
    _ARROW_TIMES[pa.timestamp(_unit)] = ("timestamp_ntz", _size)
    _ARROW_TIMES[pa.timestamp(_unit, "-05:07")] = ("timestamp", _size)
"""The type of a topic that such values are of, and how many nanoseconds 1 is."""

_ARROW_OTHERS = [
    *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal256(40, 1)),
    *(pa.string_view(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())),
]


@st.composite
def arrow_cases(draw: st.DrawFn) -> tuple[pa.Array[Any], Any, Any]:
    """A column of one value, the type of a topic's column, and the value in the form of `meaning`,
    or `NotComparable`."""
    given_type = draw(st.sampled_from([*_ARROW_TIMES, *_ARROW_OTHERS]))
    found: Any
    if given_type in _ARROW_TIMES:
        meant, size = _ARROW_TIMES[given_type]
        kind = draw(st.sampled_from([meant, *_PLAIN]))
        most = 2 ** draw(st.sampled_from([8, 31, given_type.bit_width - 1])) - 1
        step = draw(st.sampled_from([1, 1000, 86_400_000]))
        number = draw(st.integers(-(most // step), most // step)) * step
        width = pa.int32() if given_type.bit_width == 32 else pa.int64()
        column = pa.array([number], width).view(given_type)
        found = number * size if kind == meant else NotComparable
    else:
        kind = draw(_ONE)
        column = None
        with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):
            column = pa.array([draw(st.one_of(_PLAIN[kind], SCALARS))], given_type)
        assume(column is not None)
        try:
            found = meaning(column[0].as_py(), kind)
        except NotComparable:
            found = NotComparable
    for wrapping in draw(st.lists(st.sampled_from(["array", "map", "struct"]), max_size=3)):
        column, kind, found = _wrapped(wrapping, column, kind, found)
    return column, kind, found


def _wrapped(wrapping: str, column: Any, kind: Any, found: Any) -> tuple[pa.Array[Any], Any, Any]:
    ends = pa.array([0, 1], pa.int32())
    if wrapping == "array":
        kind = {"type": "array", "elementType": kind, "containsNull": True}
        column, parts = pa.ListArray.from_arrays(ends, column), [found]
    elif wrapping == "map":
        kind = {
            "type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True
        }  # fmt: skip
        column, parts = pa.MapArray.from_arrays(ends, pa.array(["k"]), column), [("k", found)]
    else:
        fields = [{"name": "b", "type": kind, "nullable": True, "metadata": {}}]
        kind = {"type": "struct", "fields": fields}
        column, parts = pa.StructArray.from_arrays([column], names=["b"]), {"b": found}
    return column, kind, NotComparable if found is NotComparable else parts


# ---------------------------------------------------------------- the comparison


def is_missing_in_frames(value: Any) -> bool:
    """As pandas has it: NaN is missing too."""
    return bool(pd.Series(_of_objects([value])).isna()[0])


def of_frame(column: pd.Series, schema: Schema) -> pa.RecordBatch:
    frame = pd.DataFrame({"a": column})
    (batch,) = table_from_frame(frame, schema, "t").to_batches()
    return conform(batch, schema, "t")


def in_objects(value: Any) -> pd.Series:
    return pd.Series(_of_objects([value]), dtype=object)


def typed(value: Any) -> Iterator[pd.Series]:
    """The value in a column of the type that pandas, and that NumPy, has for it."""
    for make in (list, np.array):
        with suppress(TypeError, ValueError, OverflowError):
            column = pd.Series(make([value]))
            if column.dtype != object:
                yield column


def compare(examples: int, seed: int) -> Counter[str]:
    """Write this number of values into columns of random types, and compare what is stored."""
    counts: Counter[str] = Counter()

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        KINDS.flatmap(lambda kind: st.tuples(st.just(kind), meant_for(kind), ANYTHING)),
        arrow_cases(),
    )
    def run(case: tuple[Any, Any, Any], arrow_case: tuple[pa.Array[Any], Any, Any]) -> None:
        run_arrow(*arrow_case)
        kind, fitting, anything = case
        schema = make_schema([("a", kind, True)])
        for value, must_fit in ((fitting, True), (anything, False)):
            run_typed(value, kind)
            counts["examples"] += 1
            try:
                batch = batch_from_rows([{"a": value}], schema, "t")
            except SchemaMismatch:
                if must_fit:
                    raise
                counts["rejected"] += 1
                if not is_missing_in_frames(value):
                    with pytest.raises(SchemaMismatch):
                        of_frame(in_objects(value), schema)
                continue
            (found,) = numbers_of(batch.column(0), kind)
            assert found == meaning(value, kind), (kind, value)
            assert len(batch.to_pylist()) == 1
            (found,) = numbers_of(of_frame(in_objects(value), schema).column(0), kind)
            wanted = None if is_missing_in_frames(value) else meaning(value, kind)
            assert found == wanted, (kind, value)

    def run_typed(value: Any, kind: Any) -> None:
        for column in typed(value):
            counts["examples"] += 1
            try:
                batch = of_frame(column, make_schema([("a", kind, True)]))
            except SchemaMismatch:
                counts["rejected"] += 1
                continue
            (found,) = numbers_of(batch.column(0), kind)
            inside = column.iloc[0]
            wanted = None if is_missing_in_frames(inside) else meaning(inside, kind)
            assert found == wanted, (kind, column)

    def run_arrow(column: pa.Array[Any], kind: Any, wanted: Any) -> None:
        counts["examples"] += 1
        schema = make_schema([("a", kind, True)])
        try:
            batch = conform(pa.RecordBatch.from_arrays([column], names=["a"]), schema, "t")
        except SchemaMismatch:
            counts["rejected"] += 1
            return
        (found,) = numbers_of(batch.column(0), kind)
        assert found == wanted, (kind, column)

    run()
    return counts


def differing(examples: int) -> None:
    seed = seed_of_the_day("DIFFERENTIAL_SEED") if "CI" not in os.environ else 1
    counts = compare(examples, seed)
    print(f"seed {seed}: {counts['examples']:,} examples, 0 differing", dict(counts))
    assert counts["rejected"] < counts["examples"]


@pytest.mark.slow
def test_each_value_is_stored_equal_or_rejected() -> None:
    differing(200)


@pytest.mark.soak
def test_each_of_very_many_values_is_stored_equal_or_rejected() -> None:
    differing(7_000)
