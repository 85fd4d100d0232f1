"""The base of a table of the settings: keys with their reasons and bounds.

The arguments of the Python API are checked here too, by the bounds of the same tables.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from numbers import Integral, Real
from reprlib import repr as shortened
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raftlog.errors import InvalidOption

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def setting(default: Any, reason: str, **bounds: Any) -> Any:
    """Declare one key: its default, the reason for the key and the default, and its bounds."""
    return Field(default=default, description=reason, **bounds)


class Section(BaseModel):
    """One table of the file. Frozen. An unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    @classmethod
    def bounds(cls, key: str) -> tuple[float | None, float | None]:
        """The least and the greatest value that the key may have; None where there is no bound."""
        declared = cls.model_fields[key].metadata
        least = (getattr(each, "ge", None) for each in declared)
        greatest = (getattr(each, "le", None) for each in declared)
        return (
            next((bound for bound in least if bound is not None), None),
            next((bound for bound in greatest if bound is not None), None),
        )

    def with_arguments(self, **given: Any) -> Self:
        """A copy with the arguments of a Python call that are not None; checks every value.

        A value must have its key's type: no text is read as a number. Raises `InvalidOption`.
        """
        return self.with_values(
            **{name: value for name, value in given.items() if value is not None}
        )

    def with_values(self, **given: Any) -> Self:
        """The same with arguments that have to be given: None is a value, of the wrong type."""
        chosen = {name: _plain(value) for name, value in given.items()}
        values = {name: getattr(self, name) for name in self.model_fields_set} | chosen
        try:
            return type(self).model_validate(values, strict=True)
        except ValidationError as error:
            name = str(error.errors(include_url=False)[0]["loc"][0])
            facts = type(self).model_json_schema()["properties"][name]
            allowed = limits(name, facts)
            raise InvalidOption(
                option=name,
                problem=f"is {shortened(values[name])}",
                advice=f"Allowed: {allowed[0].lower()}{allowed[1:]}",
            ) from None


def _plain(value: object) -> object:
    """Numbers of other libraries, such as numpy's, as Python's; anything else as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def shown(given: object) -> str:
    """What was given for a key, in a message: a number as it is, never a text: it may be a
    secret. Of anything else only its kind."""
    match given:
        case bool():
            return "true or false"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case datetime.date() | datetime.time():
            return "a date or a time"
    text = str(given)
    try:
        float(text)
    except ValueError:
        return "a text that is not allowed" if text else "empty"
    return text


def limits(key: str, facts: Mapping[str, Any]) -> str:
    """Unit and bounds of a key in words, such as `Seconds; above 0, at most 60.`

    `facts` is the key's part of its table's JSON schema.
    """
    if "enum" in facts:
        return "One of " + ", ".join(facts["enum"]) + "."
    words = []
    if "exclusiveMinimum" in facts:
        words.append(f"above {facts['exclusiveMinimum']:g}")
    if "minimum" in facts:
        words.append(f"at least {facts['minimum']}")
    if "maximum" in facts:
        words.append(f"at most {facts['maximum']}")
    return f"{_unit(key, facts)}; {', '.join(words)}." if words else f"{_unit(key, facts)}."


def _unit(key: str, facts: Mapping[str, Any]) -> str:
    if facts["type"] == "array":
        return "A list of texts"
    if facts["type"] == "string":
        return "One text"
    if facts["type"] == "boolean":
        return "true or false"
    if key.endswith("_s"):
        return "Seconds"
    if key.endswith("_us"):
        return "Microseconds since 1970 UTC"
    if key.endswith("_share_max"):
        return "A share of 1"
    return "Bytes" if "bytes" in key else "A count" if key != "port" else "A port number"


def half_given(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Of options that go together: the first one that is given, and the names of those that are
    missing; None if all are given, or none is."""
    missing = [name for name, value in options.items() if not value]
    if len(missing) in (0, len(options)):
        return None
    return next(name for name, value in options.items() if value), " and ".join(missing)
