"""`raftlog watermark`: log start, high-water mark, commit index, and every replica's lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from raftlog.cli import watching
from raftlog.cli.output import (
    Format,
    FormatOption,
    console,
    exit_if_unknown,
    make_table,
    show_json,
    show_problems,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.watching import IntervalOption, WatchOption

if TYPE_CHECKING:
    from raftlog import LogClient, Watermark

COLUMNS = (
    "TOPIC", "LOG START", "HIGH WATER MARK", "COMMIT INDEX", "LEADER", "TERM", "NODE", "ROLE",
    "MATCH INDEX", "ENTRY LAG", "RECORD LAG",
)  # fmt: skip


def watermark(
    context: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Default: all.", show_default=False),
    ] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 1.0,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Per topic: log start, high-water mark, commit index, leader, term; per replica: match index.

    Records [LOG START, HIGH WATER MARK) are readable. ENTRY LAG counts log entries that are not
    known to be durable at a replica, RECORD LAG readable records that it does not serve yet ("-":
    unknown, or its state is in doubt).

    Exits with 3 if no replica answers that has a topic's records: its offsets are unknown.
    """
    with session_of(context, servers).connect() as client:
        if watch:
            watching.watch(
                lambda: _marks(client, topics),
                as_json=lambda marks: marks,
                as_table=_table,
                output=output,
                interval_s=interval,
            )
        marks = _marks(client, topics)
        _show(marks, output)
        exit_if_unknown(marks)


def _marks(client: LogClient, topics: list[str] | None) -> list[Watermark]:
    wanted = [client.describe_topic(name) for name in topics] if topics else client.list_topics()
    return [client.watermark(topic) for topic in wanted]


def _show(marks: list[Watermark], output: Format) -> None:
    if output is Format.JSON:
        show_json(marks)
    else:
        console().print(_table(marks))
        for mark in marks:
            show_problems(mark)


def _table(marks: list[Watermark]) -> Table:
    rows = []
    for mark in marks:
        offsets = (mark.log_start_offset, mark.high_water_mark, mark.commit_index)
        head = [mark.topic, *(offsets if mark.is_known else [None] * len(offsets))]
        head += [mark.leader or "none", mark.term]
        for replica in mark.replicas:
            rows.append(
                [
                    *head,
                    replica.node,
                    replica.role or "no answer",
                    replica.match_index,
                    replica.lag_entries,
                    replica.lag_records,
                ]
            )
            head = [""] * len(head)
    return make_table(COLUMNS, rows)
