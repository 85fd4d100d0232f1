"""The times that `raftlog topic trim --before` and `tail --since` take, and what a trim says."""

from __future__ import annotations

import pytest

from raftlog.cli.times import since_us, time_us
from raftlog.cli.topic import trim_outcome, trim_question
from raftlog.client.log_client import ReadableRange
from raftlog.core.types import Offset
from raftlog.errors import InvalidOption

NEW_YEAR_US = 1_767_225_600_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2026-01-01", NEW_YEAR_US),
        ("2026-01-01T00:00:00Z", NEW_YEAR_US),
        ("2026-01-01T01:00+01:00", NEW_YEAR_US),
        ("2026-01-01T00:00:00.000001", NEW_YEAR_US + 1),
        ("@1767225600", NEW_YEAR_US),
        ("@1767225600.000001", NEW_YEAR_US + 1),
        ("@-1", -1_000_000),
        ("1969-12-31T23:59:59Z", -1_000_000),
        ("9999-12-31T23:59:59.999999", 253_402_300_799_999_999),
    ],
)
def test_a_time_is_exact_to_the_microsecond(text: str, microseconds: int) -> None:
    assert time_us("--before", text, besides="an offset") == microseconds


@pytest.mark.parametrize(
    "text", ["", "-1", "yesterday", "@", "@nan", "@inf", "@1e99", "@1e999999999", "2026-13-01"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="neither an offset nor a time") as caught:
        time_us("--before", text, besides="an offset")
    assert "@SECONDS" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0s", NEW_YEAR_US),
        ("90s", NEW_YEAR_US - 90_000_000),
        ("10m", NEW_YEAR_US - 600_000_000),
        ("2h", NEW_YEAR_US - 7_200_000_000),
        ("1d", NEW_YEAR_US - 86_400_000_000),
        ("2026-01-01", NEW_YEAR_US),
        ("@5", 5_000_000),
    ],
)
def test_an_age_counts_back_from_now(text: str, microseconds: int) -> None:
    assert since_us("--since", text, NEW_YEAR_US) == microseconds


@pytest.mark.parametrize("text", ["10", "10 m", "-5m", "1w", "m", "9" * 19 + "d", "soon"])
def test_what_is_neither_an_age_nor_a_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="neither an age nor a time") as caught:
        since_us("--since", text, NEW_YEAR_US)
    assert "10m" in caught.value.remedy


def held(start: int, end: int) -> ReadableRange:
    return ReadableRange(
        log_start_offset=Offset(start), high_water_mark=Offset(end), record_bytes=100
    )


@pytest.mark.parametrize(
    ("offset", "question", "outcome"),
    [
        (7, "Remove the records [3, 7) of topic 't', permanently? [7, 10) stays.",
         "removed [3, 7) of topic t; it begins at offset 7"),
        (10, "Remove all records of topic 't', [3, 10), permanently? It holds no others and will "
         "be empty.", "removed [3, 10) of topic t, all the records that it had; it begins at "
         "offset 10"),
    ],
)  # fmt: skip
def test_a_trim_asks_and_says_whether_the_topic_is_emptied(
    offset: int, question: str, outcome: str
) -> None:
    assert trim_question("t", held(3, 10), offset) == question
    assert trim_outcome("t", held(3, 10), offset, offset) == outcome


def test_a_trim_that_removes_nothing_says_so_and_whether_the_topic_is_empty() -> None:
    nothing = trim_outcome("t", held(3, 10), 3, 3)
    assert nothing == "nothing to remove from topic t; it begins at offset 3"
    empty = trim_outcome("t", held(10, 10), 10, 10)
    assert empty == "nothing to remove from topic t, which is empty; it begins at offset 10"
