"""`raftlog tail` shows every value that a topic can hold."""

from __future__ import annotations

import datetime
import json
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.cli import shown_rows as shown_rows_module
from raftlog.cli.output import plain
from raftlog.cli.shown_rows import SHOWN_BYTES_MAX, SHOWN_ELEMENTS_MAX, shown_rows

ZONED, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
US_OF_DAY = 86_400_000_000


def shown(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The values as `-o json` shows them."""
    batch = pa.record_batch({"it": pa.array(values, kind)})
    rows = chain.from_iterable(shown_rows(batch))
    return [json.loads(json.dumps(plain(row)))["it"] for row in rows]


@given(st.datetimes())
def test_times_that_python_has_are_shown_as_it_shows_them(moment: datetime.datetime) -> None:
    zoned = moment.replace(tzinfo=datetime.UTC)
    assert shown([moment], LOCAL) == [moment.isoformat()]
    assert shown([zoned], ZONED) == [zoned.isoformat()]
    assert shown([moment.date()], pa.date32()) == [moment.date().isoformat()]


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-719_163, "0000-12-31"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (2_932_897, "+10000-01-01"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_times_that_python_lacks_are_iso_texts(days: int, text: str) -> None:
    assert shown([days, None], pa.date32()) == [text, None]
    if abs(days) < 2**31 - 1:
        assert shown([days * US_OF_DAY + 1], LOCAL) == [f"{text}T00:00:00.000001"]
    if days == 2**31 - 1:
        latest = 2**63 - 1
        assert shown([latest], ZONED) == ["+294247-01-10T04:00:54.775807+00:00"]


def test_times_of_day_are_shown_to_the_nanosecond_also_within() -> None:
    time = pa.time64("ns")
    nanoseconds = 45_296_123_456_789
    assert shown([nanoseconds, None], time) == ["12:34:56.123456789", None]
    assert shown([[nanoseconds], None], pa.list_(time)) == [["12:34:56.123456789"], None]


def test_times_are_shown_wherever_they_stand() -> None:
    kind = pa.struct(
        [
            ("when", ZONED),
            ("by_day", pa.map_(pa.date32(), pa.list_(LOCAL))),
            ("took", pa.duration("us")),
        ]
    )
    far = 2_932_897
    value = {"when": far * US_OF_DAY, "by_day": [(far, [0, None])], "took": 1_000_000}
    assert shown([value], kind) == [
        {
            "when": "+10000-01-01T00:00:00+00:00",
            "by_day": {"+10000-01-01": ["1970-01-01T00:00:00", None]},
            "took": "0 00:00:01",
        }
    ]


def test_a_map_is_an_object_unless_a_key_is_there_twice() -> None:
    kind = pa.map_(pa.int64(), pa.string())
    assert shown([[(1, "a"), (2, None)], []], kind) == [{"1": "a", "2": None}, {}]
    assert shown([[(1, "a"), (1, "b")]], kind) == [[["1", "a"], ["1", "b"]]]
    pairs = pa.map_(pa.struct([("x", pa.date32())]), pa.binary())
    assert shown([[({"x": 0}, b"\xff")]], pairs) == [{'{"x": "1970-01-01"}': "base64:/w=="}]


def test_text_that_is_not_utf_8_is_escaped_wherever_it_stands() -> None:
    text = pa.array([b"caf\xe9 \x1b[", "café".encode()]).view(pa.string())
    shown_text = ["caf\\xe9 \x1b[", "café"]
    assert _of(text) == shown_text
    assert _of(pa.StructArray.from_arrays([text], ["x"])) == [{"x": each} for each in shown_text]
    assert _of(pa.ListArray.from_arrays([0, 2], text)) == [shown_text]
    mapped = pa.MapArray.from_arrays([0, 2], text, text)
    assert _of(mapped) == [dict(zip(shown_text, shown_text, strict=True))]


def _of(column: pa.Array[Any]) -> list[Any]:
    return [row["it"] for rows in shown_rows(pa.record_batch({"it": column})) for row in rows]


def test_records_are_shown_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values take much more memory in Python than in Arrow."""
    shown_max, piece_bytes = SHOWN_ELEMENTS_MAX // 100, shown_rows_module._PIECE_BYTES // 100
    monkeypatch.setattr(shown_rows_module, "_PIECE_BYTES", piece_bytes)
    batch = pa.record_batch({"it": pa.array([[True] * 100] * 300)})
    lists = list(shown_rows(batch))
    assert max(map(len, lists)) * 100 <= shown_max < 100 * batch.num_rows
    assert sum(map(len, lists)) == batch.num_rows


def test_a_large_value_is_cut_and_says_how_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    elements, shown_max = 2 * SHOWN_ELEMENTS_MAX, SHOWN_ELEMENTS_MAX // 1_000
    monkeypatch.setattr(shown_rows_module, "SHOWN_ELEMENTS_MAX", shown_max)
    bits = pa.Array.from_buffers(pa.bool_(), elements, [None, pa.py_buffer(bytes(elements // 8))])
    end = f"... ({elements} elements)"
    assert _of(pa.ListArray.from_arrays([0, elements], bits)) == [[False] * shown_max + [end]]
    numbers = pa.array(range(elements), pa.int32())
    (mapped,) = _of(pa.MapArray.from_arrays([0, elements], numbers, numbers))
    assert (len(mapped), mapped["..."]) == (shown_max + 1, end)
    pairs = pa.ListArray.from_arrays(pa.array(range(0, elements + 1, 2), pa.int32()), bits)
    (within,) = _of(pa.ListArray.from_arrays([0, len(pairs)], pairs))
    assert sum(map(len, within[:-1])) <= shown_max
    assert within[-1] == f"... ({len(pairs)} elements)"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_a_large_text_is_cut_and_says_how_large_it_is(kind: pa.DataType) -> None:
    text = b"x" * (3 * SHOWN_BYTES_MAX)
    (value,) = map(plain, _of(pa.array([text]).view(kind)))
    end = f"... ({len(text)} bytes)"
    assert len(value) == SHOWN_BYTES_MAX + len(end)
    assert value.endswith(end)
    whole = text[:SHOWN_BYTES_MAX]
    assert list(map(plain, _of(pa.array([whole]).view(kind)))) == [whole.decode()]
