"""The settings of a topic: which there are, and how a change is joined with what was set before.

The controller's log holds what an operator wants. The topic's leader carries it into the topic's
own log (`Configure`). What is done by the settings follows from that log, so a leader whose
controller's replica is behind never goes back to older ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftlog.core.types import LogIndex
from raftlog.machines.digest import StateDigest
from raftlog.machines.limits import INTEGER_MAX

RULES_WITH_SETTINGS = 3
"""Older rules know no settings."""

RETENTION_S = "retention_s"
RETENTION_BYTES = "retention_bytes"
RETENTION_RECORDS = "retention_records"

SETTINGS = {
    RETENTION_S: INTEGER_MAX // 1_000_000,
    RETENTION_BYTES: INTEGER_MAX,
    RETENTION_RECORDS: INTEGER_MAX,
}
"""Every setting with its largest value. 0 is the default of each: nothing is removed by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One setting and its value."""

    name: str
    """One of `retention_s`, `retention_bytes` and `retention_records`."""
    value: int
    """How much is kept: seconds, bytes or records. 0: as much as there is."""


def value_of(settings: Sequence[TopicSetting], name: str) -> int:
    """The setting's value; 0 if it is not set."""
    return next((setting.value for setting in settings if setting.name == name), 0)


def changed(
    settings: Sequence[TopicSetting], changes: Sequence[TopicSetting]
) -> tuple[TopicSetting, ...]:
    """The settings after the changes, by name; those with the default value are left out."""
    values = {setting.name: setting.value for setting in (*settings, *changes)}
    return tuple(
        TopicSetting(name=name, value=value) for name, value in sorted(values.items()) if value
    )


def problem_of_setting(setting: TopicSetting) -> str | None:
    """What is wrong with the setting, as the rest of a sentence that begins with its name."""
    largest = SETTINGS.get(setting.name)
    if largest is None:
        return "is no setting of a topic"
    if not 0 <= setting.value <= largest:
        return f"is {setting.value}; 0 to {largest} are allowed"
    return None


def digest_settings(
    digest: StateDigest, version: LogIndex, settings: Sequence[TopicSetting]
) -> None:
    """Write the settings into `digest`, if any were ever set."""
    if version:
        digest.number(version)
        for setting in settings:
            digest.text(setting.name)
            digest.number(setting.value)


ADVICE = f"A topic's settings are {', '.join(SETTINGS)}."
