"""The options that a query was given, as text, and how single values are read from it.

Options arrive as text, their names in lower case. An unknown name and a bad value raise an
`InvalidOption` that says what to do.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX
from raftlog.redaction import shown_value
from raftlog.spark.declarations import (
    ASYNC_PROGRESS,
    BY_KEY,
    FOUND,
    PREDICATE,
    SOURCES,
    SPARKS_OWN,
    Endpoint,
)
from raftlog.spark.foreign_options import advice_for

if TYPE_CHECKING:
    from raftlog.config import ClientSettings


_OF_CREDENTIALS = frozenset({"raftlog.auth.token", "raftlog.tls.cert.file", "raftlog.tls.key.file"})
"""What a credential's definition says, and no option: who sets options must not run programs, nor
send a secret to servers of their own."""

_settings: dict[frozenset[tuple[str, str]], ClientSettings] = {}
"""By the variables that say what they are."""


def client_settings() -> ClientSettings:
    """The client's settings that this process has from raftlog.toml and the environment.

    They are read once, because every micro-batch wants them several times, and reading them takes
    as long as a call to the cluster.
    """
    variables = frozenset(item for item in os.environ.items() if item[0].startswith("RAFTLOG_"))
    if variables not in _settings:
        from raftlog.config import load

        _settings[variables] = load().client
    return _settings[variables]


class OptionValues:
    """The given options. Names are checked against `endpoints` at once, values when read."""

    def __init__(self, given: Mapping[str, str], endpoints: frozenset[Endpoint]) -> None:
        self._endpoints = endpoints
        self._given: dict[str, str] = {}
        self._sparks_own: dict[str, str] = {}
        self.found = ""
        """The nodes that ZooKeeper named before."""
        self.predicate = ""
        """The text of the predicate that a source's rows are tested with, or ""."""
        for key, value in given.items():
            lowered = key.lower()
            if lowered == FOUND:
                self.found = value
                continue
            if lowered == PREDICATE and endpoints & SOURCES:
                self.predicate = value
                continue
            if lowered in SPARKS_OWN:
                self._sparks_own[lowered] = value
                continue
            if lowered == ASYNC_PROGRESS.lower() and Endpoint.STREAM_SINK in endpoints:
                _refuse_async_progress(value)
                continue
            if lowered == "schema":
                _refuse_schema(endpoints)
            _check_name(key, endpoints)
            self._given[lowered] = value.strip()

    def sparks_own(self, name: str) -> str:
        """What Spark added under this name, or ""."""
        assert name in SPARKS_OWN, name
        return self._sparks_own.get(name, "")

    def text(self, name: str) -> str | None:
        """The option's text, its default, or None. An option given as "" is ""."""
        option = BY_KEY[name.lower()]
        assert self._endpoints & option.endpoints, f"{name} is not an option of {self._endpoints}"
        given = self._given.get(name.lower())
        if given is None and option.setting is not None:
            return self._setting(option.setting)
        return option.default if given is None else given

    def _setting(self, key: str) -> str:
        """A client setting as an option's text, with seconds as the option's milliseconds."""
        value = getattr(client_settings(), key)
        return str(round(value * 1000)) if key.endswith("_s") else str(value)

    def given(self, name: str) -> str | None:
        """The option's own text, without a default."""
        return self._given.get(name.lower())

    def optional_count(self, name: str) -> int | None:
        """A whole number from 1 on, or None if the option is not given."""
        return None if self.text(name) is None else self.count(name)

    def count(self, name: str, least: int = 1, greatest: int = INTEGER_MAX) -> int:
        """A whole number within the bounds, and within those of the setting behind the option."""
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        setting = BY_KEY[name.lower()].setting
        if setting is not None:
            least, greatest = _bounds_of(setting, least, greatest)
        digits = text.lstrip("0") or text[:1]  # int() refuses thousands of digits in its own way
        whole = text.isascii() and text.isdecimal() and len(digits) <= len(str(greatest))
        if not (whole and least <= int(digits) <= greatest):
            raise InvalidOption(
                option=name,
                problem=f"is {reprlib.repr(text)}, which is not a whole number from {least} to "
                f"{greatest}",
                advice=doc_of(name),
            )
        return int(digits)

    def optional_byte_count(self, name: str) -> int | None:
        """Bytes from 1 on, as a number or as Spark writes sizes (64m); None if not given."""
        text = self.text(name)
        return None if text is None else _scaled(name, text, _BYTES, least=1)

    def duration_s(self, name: str) -> float:
        """A time as Spark writes it (15m), as seconds. A bare number is milliseconds."""
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        return _scaled(name, text, _MICROSECONDS, least=0) / 1e6

    def share(self, name: str) -> float:
        """A number from 0 to 1."""
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise InvalidOption(
                option=name,
                problem=f"is {shown_value(text)}, which is not a number from 0 to 1",
                advice=doc_of(name),
            )
        return value

    def truth(self, name: str) -> bool:
        """Whether the option is true; it can be true or false."""
        return self.choice(name, ("true", "false")) == "true"

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of the allowed values, which are in lower case."""
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        if text.lower() not in allowed:
            raise InvalidOption(
                option=name,
                problem=f"is {shown_value(text)}; it can be {', '.join(allowed)}",
                advice=doc_of(name),
            )
        return text.lower()


_BYTES = {"": 1, "b": 1} | {
    unit: 1024**power for power, letter in enumerate("kmgtp", 1) for unit in (letter, f"{letter}b")
}
"""Spark's units of sizes."""

_MICROSECONDS = {
    "": 1000,
    "us": 1,
    "ms": 1000,
    "s": 10**6,
    "m": 60 * 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}
"""Spark's units of times."""


def _scaled(name: str, text: str, units: Mapping[str, int], *, least: int) -> int:
    """A whole number with one of the units, or with none."""
    found = re.fullmatch(r"([0-9]{1,19})\s*([a-z]*)", text.lower())
    if found is not None and found[2] in units:
        value = int(found[1]) * units[found[2]]
        if least <= value <= INTEGER_MAX:
            return value
    known = ", ".join(filter(None, units))
    raise InvalidOption(
        option=name,
        problem=f"is {reprlib.repr(text)}, which is not a whole number from {least} with one of "
        f"the units {known}",
        advice=doc_of(name),
    )


def _bounds_of(setting: str, least: int, greatest: int) -> tuple[int, int]:
    """The bounds of an option whose default is the client's setting, seconds as milliseconds."""
    from raftlog.config import ClientSettings

    low, high = ClientSettings.bounds(setting)
    scale = 1000 if setting.endswith("_s") else 1
    return (
        least if low is None else max(least, round(low * scale)),
        greatest if high is None else min(greatest, round(high * scale)),
    )


def _refuse_async_progress(value: str) -> None:
    if value.strip().lower() == "false":
        return
    raise InvalidOption(
        option=ASYNC_PROGRESS,
        problem=f"is {shown_value(value)}: a restart then replays batches before the last, which "
        "the log cannot tell from an older copy of the checkpoint",
        advice="Leave it out: exactly once needs a query that logs every batch.",
    )


def _refuse_schema(endpoints: frozenset[Endpoint]) -> None:
    """Spark passes on what `.schema(...)` was given in another way, so this option is a mistake."""
    raise InvalidOption(
        option="schema",
        problem=f"is not known to {places(endpoints)}: the topic has its columns",
        advice="Leave it out. To read some of the columns, call .schema('id BIGINT, text STRING') "
        "on the reader, or .select(...) afterwards."
        if endpoints <= SOURCES
        else "Leave it out: the first write creates the topic with the DataFrame's columns.",
    )


def _check_name(key: str, endpoints: frozenset[Endpoint]) -> None:
    option = BY_KEY.get(key.lower())
    if option is not None and endpoints & option.endpoints:
        return
    if option is not None:
        raise InvalidOption(
            option=option.name,
            problem=f"is not an option of {places(endpoints)}",
            advice=f"It belongs to {places(option.endpoints)}: remove it here.",
        )
    if key.lower() in _OF_CREDENTIALS:
        raise InvalidOption(
            option=key,
            problem="is no option: options stand in plans, views and the metastore",
            advice="Name a credential, 'raftlog.auth.credential', that raftlog.toml or the "
            "environment defines (`raftlog docs SPARK`).",
        )
    known = {name: one.name for name, one in BY_KEY.items() if endpoints & one.endpoints}
    near = difflib.get_close_matches(key.lower(), known, n=1)
    names = ", ".join(sorted(known.values()))
    nearest = f"Did you mean {known[near[0]]!r}?" if near else f"The known ones are: {names}."
    raise InvalidOption(
        option=key,
        problem=f"is not known to {places(endpoints)} (Spark passes names in lower case)",
        advice=advice_for(key) or nearest,
    )


def places(endpoints: frozenset[Endpoint]) -> str:
    """The places where an option is valid, for messages."""
    return " and ".join(sorted(endpoint.value for endpoint in endpoints))


def doc_of(name: str) -> str:
    """What the option is, as the advice of an error."""
    return f"{name}: {BY_KEY[name.lower()].doc}"
