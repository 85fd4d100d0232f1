"""What is wrong with a key or value of the settings, in words: the nearest key, the source.

Messages show numbers but never texts: a text may be a secret.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
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
    if known is not None and (key is None or key in known.model_fields):
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
        + "`raftlog docs conf/raftlog.toml` lists every key.",
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
    origin = _origin(section, key, flags)
    facts = sections[section].model_json_schema()["properties"][key]
    return InvalidOption(
        option=f"{section}.{key}",
        problem=f"is {shown(first['input'])}, from {origin or file}",
        advice=f"Allowed: {limits(key, facts)} What it is for: `raftlog docs conf/raftlog.toml`.",
    )


NotAbove = tuple[str, int, str, str]
"""(key, factor, other key, reason): the first, times the factor, must not exceed the other."""


NOT_ABOVE: tuple[NotAbove, ...] = (
    (
        "raft.heartbeat_interval_s", 2, "raft.election_timeout_min_s",
        "A follower must miss at least two heartbeats before it campaigns.",
    ),
    (
        "raft.tick_interval_s", 1, "raft.heartbeat_interval_s",
        "A heartbeat takes at least one tick.",
    ),
    (
        "server.turn_work_max_s", 1, "raft.heartbeat_interval_s",
        "A leader must get to its heartbeats between two turns.",
    ),
    (
        "client.retry_delay_min_s", 1, "client.retry_delay_max_s",
        "The first pause is the shortest.",
    ),
    (
        "client.batch_bytes", 2, "server.entry_bytes_max",
        "An entry must hold a batch with room for its header and for bytes that do not compress.",
    ),
    (
        "server.entry_bytes_max", 1, "server.request_bytes_max",
        "A node must be able to hold the largest entry.",
    ),
    (
        "server.entry_bytes_max", 1, "server.peer_queue_bytes_max",
        "The largest entry must reach a peer.",
    ),
    (
        "server.catch_up_peer_bytes_max", 1, "server.peer_queue_bytes_max",
        "What was read for a peer must not be dropped before it is sent.",
    ),
    (
        "server.entry_bytes_max", 1, "storage.segment_bytes_max",
        "A segment must hold the largest entry.",
    ),
    (
        "storage.preallocate_bytes", 1, "storage.segment_bytes_max",
        "Space is allocated within a segment.",
    ),
)  # fmt: skip


def contradiction(value: Callable[[str], float]) -> InvalidOption | None:
    """Every value above its bound, or above what its bound may be at most; None: there is none.

    So after all of them are lowered to what the error says, the next try succeeds. `value` gives
    the value of a key.
    """

    def allowed(key: str) -> float:
        limits = [_share(allowed(high), times) for low, times, high, _ in NOT_ABOVE if low == key]
        return min([value(key), *limits])

    broken = [pair for pair in NOT_ABOVE if value(pair[0]) > _share(allowed(pair[2]), pair[1])]
    if not broken:
        return None
    low, _, high, reason = broken[0]
    first, *others = (_too_high(pair, value, allowed(pair[2])) for pair in broken)
    if others:
        lowered = {key: f"{key} to {allowed(key)}" for key, *_ in broken}
        bounds = dict.fromkeys(high for _, _, high, _ in broken if high not in lowered)
        advice = f"Lower {', '.join(lowered.values())}, or raise {', '.join(bounds)}."
    else:
        advice = f"{reason} Lower {low} or raise {high}."
    problem = "; ".join(
        (first, *(f"{key!r} {text}" for (key, *_), text in zip(broken[1:], others, strict=True)))
    )
    return InvalidOption(option=low, problem=problem, advice=advice)


def _too_high(pair: NotAbove, value: Callable[[str], float], allowed: float) -> str:
    low, times, high, _ = pair
    part = f"1/{times} of " if times > 1 else ""
    is_ = "is" if allowed == value(high) else "may be at most"
    return f"is {value(low)} but may be at most {part}{high}, which {is_} {allowed}"


def _share(whole: float, parts: int) -> float:
    return whole // parts if isinstance(whole, int) else whole / parts


def _origin(section: str, key: str, flags: Mapping[str, Any]) -> str:
    """The flag or the variable that gives the key; "" if none does."""
    if key in flags.get(section, {}):
        return "--set"
    variable = f"{PREFIX}{section}__{key}".upper()
    return f"the variable {variable}" if variable in os.environ else ""
