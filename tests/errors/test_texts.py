"""What errors say where one wording does not fit every case."""

from __future__ import annotations

from raftlog.errors import OffsetTrimmed


def test_a_trimmed_offset_names_the_range_that_is_left_or_says_that_nothing_is() -> None:
    some = OffsetTrimmed(topic="t", requested=3, earliest=5, end=9)
    assert some.cause == "Offset 3 of topic 't' is trimmed: the log holds [5, 9)."
    none = OffsetTrimmed(topic="t", requested=3, earliest=9, end=9)
    assert "[9" not in none.cause
    assert none.cause.endswith("the log begins at offset 9, and holds no records from there on.")
