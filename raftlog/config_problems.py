"""What is wrong with a key or value of the settings, in words: the nearest key, the source.

Messages show numbers but never texts: a text may be a secret.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from raftlog.config_section import Section, limits, shown
from raftlog.errors import InvalidOption

PREFIX = "RAFTLOG_"

Sections = Mapping[str, type[Section]]
"""The tables of the file by name."""


def refuse_unknown_variables(sections: Sections, variables: Iterable[str]) -> None:
    """Refuse a RAFTLOG_ variable that names no key: a misspelt one must not be ignored silently."""
    for variable in sorted(variables):
        if not variable.startswith(PREFIX):
            continue
        section, _, key = variable.removeprefix(PREFIX).lower().partition("__")
        refuse_unknown(sections, section, key, variable)


def refuse_unknown(sections: Sections, section: str, key: str | None, written: str) -> None:
    """`key` is None for a whole section. `written` is the name as in the file or variable."""
    known = sections.get(section)
    if known is not None and (key is None or key in known.model_fields or key in known.renamed):
        return
    as_variable = written.startswith(PREFIX)
    names = [f"{name}.{key}" for name, of in sections.items() for key in of.model_fields]
    near = difflib.get_close_matches(f"{section}.{key or ''}", names, n=1, cutoff=0.5)
    if as_variable:
        near = [PREFIX + name.replace(".", "__").upper() for name in near]
    raise InvalidOption(
        option=written,
        problem="is not a key of the configuration",
        advice=(f"Did you mean {near[0]}? " if near else "")
        + "conf/raftlog.toml lists every key (`python -m raftlog.config` prints it).",
    )


def invalid_value(
    sections: Sections,
    error: ValidationError,
    flags: Mapping[str, Any],
    file: Path | str | None,
) -> InvalidOption:
    """The first error that pydantic found, in our words. Shows numbers, never texts."""
    first = error.errors(include_url=False)[0]
    section, key = (str(part) for part in first["loc"][:2])
    origin = _origin(sections[section], section, key, flags)
    facts = sections[section].model_json_schema()["properties"][key]
    return InvalidOption(
        option=f"{section}.{key}",
        problem=f"is {shown(first['input'])}, from {origin or file}",
        advice=f"Allowed: {limits(key, facts)} conf/raftlog.toml says what it is for.",
    )


def _origin(table: type[Section], section: str, key: str, flags: Mapping[str, Any]) -> str:
    """The flag or the variable that gives the key, by its name now or an earlier one; "" if none
    does."""
    former = (old for old, renamed in table.renamed.items() if renamed.now == key)
    names = {key, *former}
    if names & flags.get(section, {}).keys():
        return "--set"
    variables = (f"{PREFIX}{section}__{name}".upper() for name in sorted(names))
    return next((f"the variable {each}" for each in variables if each in os.environ), "")
