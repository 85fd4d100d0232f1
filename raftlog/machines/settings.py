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

RETENTION_S = "retention_s"
RETENTION_BYTES = "retention_bytes"
RETENTION_RECORDS = "retention_records"
RETENTION_UNREAD_S = "retention_unread_s"
RETENTION_UNREAD_BYTES = "retention_unread_bytes"

SETTINGS = {
    RETENTION_S: INTEGER_MAX // 1_000_000,
    RETENTION_BYTES: INTEGER_MAX,
    RETENTION_RECORDS: INTEGER_MAX,
    RETENTION_UNREAD_S: INTEGER_MAX // 1_000_000,
    RETENTION_UNREAD_BYTES: INTEGER_MAX,
}
"""Every setting with its largest value. 0 is the default of each: nothing is removed by the first
three, and nothing waits for readers by the others."""

ADVICE_ON_SETTINGS = f"A topic's settings are {', '.join(SETTINGS)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One setting and its value."""

    name: str
    """`retention_s`, `retention_bytes` or `retention_records`: what is kept of the topic. Or
    `retention_unread_s` or `retention_unread_bytes`: what is kept while a reader group has not
    read it."""
    value: int
    """How much is kept: seconds, bytes or records. 0: as much as there is."""


def value_of(settings: Sequence[TopicSetting], name: str) -> int:
    """The setting's value; 0 if it is not set."""
    return next((setting.value for setting in settings if setting.name == name), 0)


def waits_for_readers(settings: Sequence[TopicSetting]) -> bool:
    """Does retention keep records longer while a reader group has not read them?"""
    return any(value_of(settings, name) for name in (RETENTION_UNREAD_S, RETENTION_UNREAD_BYTES))


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
