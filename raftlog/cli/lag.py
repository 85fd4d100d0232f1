"""`raftlog lag`: how far reader groups have got in their topics, and how far they are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from raftlog.cli import watching
from raftlog.cli.output import (
    Format,
    FormatOption,
    console,
    make_table,
    show_json,
    time_text,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.watching import IntervalOption, WatchOption
from raftlog.errors import ReaderGroupNotFound

if TYPE_CHECKING:
    from raftlog import ReaderLag

COLUMNS = (
    "GROUP", "TOPIC", "POSITION", "END", "RECORDS BEHIND", "BYTES BEHIND", "SECONDS BEHIND",
    "TRIMMED", "HELD", "PUBLISHED", "BY",
)  # fmt: skip


def lag(
    context: typer.Context,
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Default: all.", show_default=False)
    ] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 1.0,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Per reader group and topic: published position, the topic's end, and what lies in between.

    RECORDS BEHIND is negative if the position is above the topic's end: the group cannot continue
    there. SECONDS BEHIND is the age of the first record that is not processed. TRIMMED counts
    records that were removed before the group got to them. HELD counts those that the topic's
    retention keeps only because this group, or another one too, has not read them
    (retention_unread_s, retention_unread_bytes). "-": that incarnation of the topic is gone, or the
    value is not known.

    `raftlog groups` moves positions and removes them. Exits with 4 if GROUP has none.
    """
    with session_of(context, servers).connect() as client:
        if watch:
            watching.watch(
                lambda: client.positions.lag(group),
                as_json=_as_objects,
                as_table=_table,
                output=output,
                interval_s=interval,
            )
        lags = client.positions.lag(group)
    if group is not None and not lags:
        raise ReaderGroupNotFound(group=group)
    _show(lags, output)


def _show(lags: list[ReaderLag], output: Format) -> None:
    if output is Format.JSON:
        show_json(_as_objects(lags))
    else:
        console().print(_table(lags))


def _as_objects(lags: list[ReaderLag]) -> list[dict[str, object]]:
    return [_as_object(each) for each in lags]


def _as_object(found: ReaderLag) -> dict[str, object]:
    position = found.position
    return {
        "group": position.group,
        "topic": position.topic,
        "incarnation": position.incarnation,
        "position": position.offset,
        "high_water_mark": found.high_water_mark,
        "records_behind": found.records_behind,
        "bytes_behind": found.bytes_behind,
        "seconds_behind": found.seconds_behind,
        "records_trimmed": found.records_trimmed,
        "records_held": found.records_held,
        "published": time_text(position.published_us),
        "publisher": position.publisher or None,
    }


def _table(lags: list[ReaderLag]) -> Table:
    rows = [
        [
            each.position.group,
            each.position.topic,
            each.position.offset,
            each.high_water_mark,
            each.records_behind,
            each.bytes_behind,
            None if each.seconds_behind is None else round(each.seconds_behind, 1),
            each.records_trimmed,
            each.records_held,
            time_text(each.position.published_us),
            each.position.publisher or None,
        ]
        for each in lags
    ]
    return make_table(COLUMNS, rows)
