"""Times as people give them: ISO 8601, seconds since 1970, or how long ago."""

from __future__ import annotations

import datetime
import decimal
import re
import reprlib

from raftlog.errors import InvalidOption

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

OFFSET = re.compile("[0-9]{1,19}")
"""An offset where a time may also be given."""

UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of a duration in seconds, the largest first."""

_AGE_S_MAX = datetime.timedelta.max.days * UNITS_S["d"]


def time_us(option: str, text: str, *, besides: str = "") -> int:
    """Microseconds since 1970 UTC, of ISO 8601 or `@SECONDS`.

    `besides` is what the option also takes, for the error. Raises `InvalidOption`.
    """
    try:
        if text.startswith("@"):
            return _microseconds(decimal.Decimal(text[1:]))
        moment = datetime.datetime.fromisoformat(text)
    except (ValueError, ArithmeticError) as error:
        neither = f"neither {besides} nor a time" if besides else "no time"
        raise InvalidOption(
            option=option,
            problem=f"is {reprlib.repr(text)}, which is {neither}",
            advice="Give ISO 8601 for a time (2026-01-31T12:00:00Z), or @SECONDS since 1970 UTC"
            + (f"; {_EXAMPLES[besides]}." if besides else "."),
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


_EXAMPLES = {
    "an offset": "digits for an offset",
    "earliest, latest, an offset, an age": "digits for an offset; 10m, 2h, 30s or 1d for an age",
    "an age": "10m, 2h, 30s or 1d for an age",
}
"""What an option takes besides times, and how it is written."""


def since_us(option: str, text: str, now_us: int, *, besides: str = "an age") -> int:
    """A time in microseconds since 1970 UTC: an age (10m) before now, or as in `time_us`."""
    age = re.fullmatch(r"([0-9]{1,19})([dhms])", text)
    if age is None or int(age[1]) * UNITS_S[age[2]] > _AGE_S_MAX:
        return time_us(option, text, besides=besides)
    return now_us - int(age[1]) * UNITS_S[age[2]] * 1_000_000


def _microseconds(seconds: decimal.Decimal) -> int:
    if not abs(seconds) <= _AGE_S_MAX:
        raise ValueError("no time that people write")
    return round(seconds * 1_000_000)
