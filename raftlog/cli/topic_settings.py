"""A topic's settings as options, and their values as people write them: 7d, 10GiB, none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.amounts import NONE, UNITS_BYTES, amount, amount_text
from raftlog.cli.output import say
from raftlog.cli.times import UNITS_S
from raftlog.errors import InvalidOption
from raftlog.machines.settings import (
    ADVICE_ON_SETTINGS,
    RETENTION_BYTES,
    RETENTION_RECORDS,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
    TopicSetting,
    problem_of_setting,
    value_of,
)

if TYPE_CHECKING:
    from raftlog import TopicInfo

RetentionSOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Remove records that are older, such as 7d, 12h, or a number of seconds.",
        show_default=False,
    ),
]
RetentionBytesOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Keep about this much of the newest records, as they were written, such as 10GiB.",
        show_default=False,
    ),
]
RetentionRecordsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", help="Keep about so many of the newest records.", show_default=False
    ),
]
RetentionUnreadSOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Keep a record that a reader group has not read, until it is older, such as 14d.",
        show_default=False,
    ),
]
RetentionUnreadBytesOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Keep a record that a reader group has not read, until more than this came after it.",
        show_default=False,
    ),
]
ReplicasOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=7,
        help="On how many nodes (3, or all if there are fewer).",
        show_default=False,
    ),
]

_UNITS: dict[str, dict[str, int]] = {
    RETENTION_S: UNITS_S,
    RETENTION_BYTES: UNITS_BYTES,
    RETENTION_UNREAD_S: UNITS_S,
    RETENTION_UNREAD_BYTES: UNITS_BYTES,
}
"""By setting, the units of its values, the largest first. Without one it is seconds, or bytes."""


def given_settings(
    retention_s: str | None,
    retention_bytes: str | None,
    retention_records: str | None,
    retention_unread_s: str | None,
    retention_unread_bytes: str | None,
) -> dict[str, int | None]:
    """The values of those options that are given. Raises `InvalidOption`."""
    given = {
        RETENTION_S: retention_s,
        RETENTION_BYTES: retention_bytes,
        RETENTION_RECORDS: retention_records,
        RETENTION_UNREAD_S: retention_unread_s,
        RETENTION_UNREAD_BYTES: retention_unread_bytes,
    }
    return {name: setting_value(name, text) for name, text in given.items() if text is not None}


def say_if_kept(topic: TopicInfo, wanted: Mapping[str, int | None]) -> None:
    """Say so if the topic was there before and has other settings."""
    if any(value_of(topic.settings, name) != (value or 0) for name, value in wanted.items()):
        say(
            f"{topic.name} exists already, and its settings are as before: "
            f"`raftlog topic config {shlex.quote(topic.name)} NAME=VALUE` changes them"
        )


def setting_value(name: str, text: str) -> int | None:
    """The setting's value; None: the default. Raises `InvalidOption`."""
    unknown = problem_of_setting(TopicSetting(name=name, value=0))
    if unknown is not None:
        raise InvalidOption(option=name, problem=unknown, advice=ADVICE_ON_SETTINGS)
    return amount(name, text, _UNITS.get(name, {}))


def setting_text(name: str, value: int | None) -> str:
    """The value in its largest whole unit; the default is marked."""
    return amount_text(value, _UNITS.get(name, {})) if value else f"{NONE} (default)"
