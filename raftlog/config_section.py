"""The base of a table of the settings: keys with their reasons, and their former names."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator


def setting(default: Any, reason: str, **bounds: Any) -> Any:
    """Declare one key: its default, the reason for the key and the default, and its bounds."""
    return Field(default=default, description=reason, **bounds)


class Renamed(NamedTuple):
    """The new name of a key. If both names are given, the new one counts."""

    now: str
    advice: str = ""


class Section(BaseModel):
    """One table of the file. Frozen. An unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    renamed: ClassVar[dict[str, Renamed]] = {}
    """Keys by their names in earlier versions. Files that use them load, with a warning."""

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

    @model_validator(mode="before")
    @classmethod
    def _by_their_names_now(cls, given: Any) -> Any:
        former = cls.renamed.keys() & given.keys() if isinstance(given, dict) else ()
        if not former:
            return given
        for old in sorted(former):
            now, advice = cls.renamed[old]
            advice = advice or f"{old} is now {now}: rename the key."
            warnings.warn(advice, FutureWarning, stacklevel=2)
        known = {name: value for name, value in given.items() if name not in former}
        return {cls.renamed[old].now: given[old] for old in former} | known
