"""Amounts as people write them: 7d, 10GiB, none."""

from __future__ import annotations

import re
from collections.abc import Mapping

from raftlog.errors import InvalidOption

UNITS_BYTES = {"TiB": 1024**4, "GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
"""The units of a size in bytes, the largest first."""

NONE = "none"


def amount(option: str, text: str, units: Mapping[str, int]) -> int | None:
    """What a text says, in units of 1 or one of `units`; None for `none`. Raises
    `InvalidOption`."""
    if text == NONE:
        return None
    factors = {"": 1, **units}
    found = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text)
    if found is None or found[2] not in factors:
        known = ", ".join(units)
        raise InvalidOption(
            option=option,
            problem=f"is {text!r}, which is no value",
            advice=f"Give a whole number{f', or one with a unit ({known}),' if known else ''} or "
            f"{NONE!r}.",
        )
    return int(found[1]) * factors[found[2]]


def amount_text(value: int, units: Mapping[str, int]) -> str:
    """The value in its largest whole unit."""
    for unit, size in units.items():
        if value % size == 0:
            return f"{value // size}{unit}"
    return str(value)
