"""`raftlog tail`: a topic's records as text, as they arrive."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from raftlog.cli.output import Format, FormatOption, one_line, plain, show_json
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.times import since_us
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from raftlog.client.log_client import ReadableRange, TopicInfo


LAST_DEFAULT = 10


def tail(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    last: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--last",
            min=0,
            help="Begin this many records before the end (10). Not with --start.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Begin at this offset, or at `earliest`. Not with -n.", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="AGE|TIME",
            help="Begin at an age (30s, 10m, 2h, 1d) or at a time (ISO 8601, UTC unless it says "
            "otherwise, or @SECONDS). Not with -n or --start.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas; also _topic, _offset, _timestamp, _epoch, _writer, "
            "_term. Default: _offset and all columns."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Continue until Ctrl-C, or stop at the present end.")
    ] = True,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a topic's records in order, from the last few on. Shows only what a majority holds.

    With -o json one object per line. Times are UTC. Binary values are shown as text if they are
    UTF-8, else as base64.
    """
    _refuse_two_beginnings({"--start": start, "-n": last, "--since": since})
    with session_of(context, servers).connect() as client:
        info = client.describe_topic(topic)
        mark = client.read_high_water_mark(info)
        begin = _begin(start, LAST_DEFAULT if last is None else last, mark)
        if since is not None:
            begin = client.find_offset(info, since_us("--since", since, time.time_ns() // 1000))
            begin = begin if follow else min(begin, mark.high_water_mark)
        names = _names(columns, info)
        if begin > mark.high_water_mark and not follow:
            raise InvalidOption(
                option="--start",
                problem=f"is {begin}, and {topic} ends at offset {mark.high_water_mark}",
                advice="Give a lower one, or follow the topic until it gets there.",
            )
        if follow:
            batches = client.follow(info, begin, columns=names)
        else:
            batches = client.read(
                info, begin, mark.high_water_mark, mark=mark.high_water_mark, columns=names
            )
        _show(batches, output)


def _names(columns: str | None, info: TopicInfo) -> list[str]:
    if columns is None:
        return ["_offset", *(field.name for field in info.schema.fields)]
    return [name.strip() for name in columns.split(",")]


def _show(batches: Iterator[pa.RecordBatch], output: Format) -> None:
    lines = TextLines()
    for batch in batches:
        rows = batch.to_pylist(maps_as_pydicts="strict")
        if output is Format.JSON:
            for row in rows:
                show_json(row)
        else:
            lines.show(batch.schema.names, rows)


def _refuse_two_beginnings(given: dict[str, object]) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InvalidOption(
            option=names[1],
            problem=f"is given with {names[0]}, and each of them says where to begin",
            advice="Give one of them: -n counts back from the end, --start names an offset, "
            "--since a time. --no-follow stops at the present end.",
        )


def _begin(start: str | None, last: int, mark: ReadableRange) -> int:
    """The offset to begin at, within [log_start_offset, high_water_mark] for -n."""
    if start is None:
        return max(mark.log_start_offset, mark.high_water_mark - last)
    if start == "earliest":
        return mark.log_start_offset
    if not start.isdecimal():
        raise InvalidOption(
            option="--start",
            problem=f"is {start!r}, which is neither an offset nor `earliest`",
            advice=f"The topic holds [{mark.log_start_offset}, {mark.high_water_mark}); "
            "`-n 0` begins at its end.",
        )
    return int(start)


class TextLines:
    """Rows as aligned text under one head. A column widens when a longer value comes."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def show(self, names: list[str], rows: list[dict[str, Any]]) -> None:
        """Write the rows, and before the first of them the names of their columns."""
        cells = [[_cell(row[name]) for name in names] for row in rows]
        if not self._widths:
            self._widths = [0] * len(names)
            cells.insert(0, names)
        self._widths = [
            max(width, *map(cell_len, column))
            for width, column in zip(self._widths, zip(*cells, strict=True), strict=True)
        ]
        for row in cells:
            padded = (
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(row, self._widths, strict=True)
            )
            sys.stdout.write("  ".join(padded).rstrip() + "\n")
        sys.stdout.flush()


def _cell(value: object) -> str:
    """On one line: texts as they are except for control characters, everything else as JSON."""
    text = plain(value)
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return one_line(text)
