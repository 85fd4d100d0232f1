"""The times that `raftlog topic trim --before` takes."""

from __future__ import annotations

import pytest

from raftlog.cli.topic import _time_us
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
    assert _time_us(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "-1", "yesterday", "@", "@nan", "@inf", "@1e99", "@1e999999999", "2026-13-01"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="neither an offset nor a time") as caught:
        _time_us(text)
    assert "@SECONDS" in caught.value.remedy
