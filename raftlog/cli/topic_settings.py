"""Values of a topic's settings as people write and read them: 7d, 10GiB, none."""

from __future__ import annotations

import re

from raftlog.cli.times import UNITS_S
from raftlog.errors import InvalidOption
from raftlog.machines.settings import (
    RETENTION_BYTES,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
    TopicSetting,
    advice_on_settings,
    problem_of_setting,
)

_UNITS_BYTES = {"TiB": 1024**4, "GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}

_UNITS: dict[str, dict[str, int]] = {
    RETENTION_S: UNITS_S,
    RETENTION_BYTES: _UNITS_BYTES,
    RETENTION_UNREAD_S: UNITS_S,
    RETENTION_UNREAD_BYTES: _UNITS_BYTES,
}
"""By setting, the units of its values, the largest first. Without one it is seconds, or bytes."""

_DEFAULT = "none"


def setting_value(name: str, text: str) -> int | None:
    """The setting's value; None: the default. Raises `InvalidOption`."""
    unknown = problem_of_setting(TopicSetting(name=name, value=0))
    if unknown is not None:
        raise InvalidOption(option=name, problem=unknown, advice=advice_on_settings())
    if text == _DEFAULT:
        return None
    units = {"": 1, **_UNITS.get(name, {})}
    found = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text)
    if found is None or found[2] not in units:
        known = ", ".join(filter(None, units))
        raise InvalidOption(
            option=name,
            problem=f"is {text!r}, which is no value",
            advice=f"Give a whole number{f', or one with a unit ({known}),' if known else ''} or "
            f"{_DEFAULT!r}.",
        )
    return int(found[1]) * units[found[2]]


def setting_text(name: str, value: int | None) -> str:
    """The value in its largest whole unit; the default is marked."""
    if not value:
        return f"{_DEFAULT} (default)"
    for unit, size in _UNITS.get(name, {}).items():
        if value % size == 0:
            return f"{value // size}{unit}"
    return str(value)
