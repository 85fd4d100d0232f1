"""What a table of the settings is made of: keys with their reasons, and what they were called."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator


def setting(default: Any, reason: str, **bounds: Any) -> Any:
    """One key: its default, why it is there and is so, and the bounds of its value."""
    return Field(default=default, description=reason, **bounds)


class Renamed(NamedTuple):
    """What became of a key; given under both names, the one of now counts."""

    now: str
    advice: str = ""


class Section(BaseModel):
    """One table of the file. Frozen; an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    renamed: ClassVar[dict[str, Renamed]] = {}
    """Keys as earlier versions call them: files of then still load, with a warning."""

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
