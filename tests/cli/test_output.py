"""What is shown: values as JSON that programs can read, rows aligned under one header."""

from __future__ import annotations

import datetime
import decimal
import json
from dataclasses import dataclass

import pytest

from raftlog.cli.output import make_table, plain, show_json
from raftlog.cli.tail import TextLines


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    at: datetime.date


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("1.20"), "1.20"),
        (b"text", "text"),
        (b"\xff", "base64:/w=="),
        (datetime.date(2013, 1, 2), "2013-01-02"),
        (datetime.datetime(2013, 1, 2, tzinfo=datetime.UTC), "2013-01-02T00:00:00+00:00"),
        ({"a": [1, (2, b"x")]}, {"a": [1, [2, "x"]]}),
        (Point(x=1, at=datetime.date(2013, 1, 2)), {"x": 1, "at": "2013-01-02"}),
    ],
)
def test_values_are_shown_in_jsons_own_types(value: object, shown: object) -> None:
    assert plain(value) == shown
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == shown


def test_json_is_one_line_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"text": "zwei\nZeilen"})
    assert capsys.readouterr().out == '{"text": "zwei\\nZeilen"}\n'


def test_tail_writes_one_head_and_keeps_columns_aligned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = TextLines()
    lines.show(["id", "text"], [{"id": 1, "text": "a"}, {"id": 22, "text": None}])
    lines.show(["id", "text"], [{"id": 333, "text": "a\tb\n"}])
    assert capsys.readouterr().out.splitlines() == [
        "id  text",
        "1   a",
        "22  null",
        "333  a\\tb\\n",
    ]


def test_a_table_has_a_row_for_each_row() -> None:
    assert make_table(["A", "B"], [[1, "x"], [None, ""]]).row_count == 2
