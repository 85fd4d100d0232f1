"""`raftlog tail`: a topic's records as text, as they arrive."""

from __future__ import annotations

import bisect
import json
import sys
import time
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.cells import cell_len

from raftlog.cli.output import (
    Format,
    FormatOption,
    one_line,
    plain,
    say,
    show_json,
    show_line,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.times import since_us
from raftlog.errors import (
    DeadlineExceeded,
    ExitCode,
    InvalidOption,
    NodeUnreachable,
    TopicNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from raftlog import LogClient, TopicInfo
    from raftlog.records.condition import Condition


LAST_DEFAULT = 10

_PATIENCE_S = 5.0
"""So long the leaders are asked before the nodes that answer are. No setting: longer than an
election takes, and what comes then is marked as what it is."""

_CELL_CHARACTERS_MAX = 4_096
"""A longer text in a table is cut: all rows after it would be as wide. `-o json` shows it whole."""

_LOOKED_AT_MIN = 1_000
"""So many of the last records are looked at first for those that `--where` wants."""


LastOption = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--last",
        min=0,
        help="Begin this many records before the end (10). Not with --start.",
        show_default=False,
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(help="Begin at this offset, or at `earliest`. Not with -n.", show_default=False),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="AGE|TIME",
        help="Begin at an age (30s, 10m, 2h, 1d) or at a time (ISO 8601, UTC unless it says "
        "otherwise, or @SECONDS). Not with -n or --start.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help='Only the records for which this is true, such as "delay > 10 AND carrier IN '
        "('AA', 'B6')\". -n counts only these.",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Names separated by commas; also _topic, _offset, _timestamp, _epoch, _writer, "
        "_term. Default: _offset and all columns."
    ),
]
FollowOption = Annotated[
    bool | None,
    typer.Option(
        "--follow/--no-follow",
        "-f",
        help="Continue until Ctrl-C, or stop at the present end. Default: continue if standard "
        "output is a terminal.",
        show_default=False,
    ),
]


def tail(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    last: LastOption = None,
    start: StartOption = None,
    since: SinceOption = None,
    where: WhereOption = None,
    columns: ColumnsOption = None,
    follow: FollowOption = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a topic's records in order, from the last few on. Shows only what a majority holds.

    If no leader answers within 5 seconds, it shows what the nodes that answer know to be committed,
    and says so: newer records may exist. Then it ends with exit code 3, or waits for a leader if it
    follows.

    With -o json one object per line. Times are UTC. Binary values are shown as text if they are
    UTF-8, else as base64. Bytes of a text that are not UTF-8 are escaped. Long values are cut, and
    end with how long they are: in a table after 4,096 characters, with -o json after 16 MiB or
    1,048,576 elements.
    """
    _refuse_two_beginnings({"--start": start, "-n": last, "--since": since})
    follows = sys.stdout.isatty() if follow is None else follow
    session = session_of(context, servers)
    with session.connect() as client, session.connect(_PATIENCE_S) as hasty:
        known = _known(hasty, topic)
        rows = _Rows(client, known, _names(columns, known.info), _condition(where, known.info))
        if since is not None:
            begin = rows.begin_at(since_us("--since", since, time.time_ns() // 1000))
            begin = begin if follows else min(begin, known.end)
        elif start is not None:
            begin = _begin(start, known)
        else:
            begin = _begin_of_last(rows, LAST_DEFAULT if last is None else last)
        if begin > known.end and not follows:
            raise InvalidOption(
                option="--start",
                problem=f"is {begin}, and {topic} ends at offset {known.end}",
                advice="Give a lower one, or follow the topic until it gets there (--follow).",
            )
        present = rows.wanted(begin, known.end)
        coming = rows.follow(max(begin, known.end)) if follows else ()
        _show(chain(present, coming), output)
    if not known.by_leader:
        raise typer.Exit(int(ExitCode.UNAVAILABLE))


class _Known(NamedTuple):
    """The topic and its records [start, end), as its leader says or as nodes that answer know."""

    info: TopicInfo
    start: int
    end: int
    by_leader: bool


def _known(client: LogClient, topic: str) -> _Known:
    try:
        info = client.describe_topic(topic)
        mark = client.read_high_water_mark(info)
        return _Known(info, mark.log_start_offset, mark.high_water_mark, by_leader=True)
    except (DeadlineExceeded, NodeUnreachable) as error:
        try:
            info = client.describe_topic(topic, linearizable=False)
        except TopicNotFound:
            say(
                f"no leader answers, and no node that answers knows of a topic {topic!r}: it may "
                "exist nevertheless. `raftlog status` tells which nodes are missing"
            )
            raise error from None
        held = client.watermark(info)
        if not held.is_known:
            raise error from None
        answering = sum(not each.problem for each in held.replicas)
        by = f"{answering} of its {len(held.replicas)} voters" if answering else "an observer"
        say(
            f"no leader answers: showing the records below {held.high_water_mark}, the last "
            f"high-water mark of the topic that is known. It is told by {by}"
        )
        say("  Newer records may exist. `raftlog status` tells which nodes are missing.")
        return _Known(info, held.log_start_offset, held.high_water_mark, by_leader=False)


class _Rows:
    """A topic's records: those that are wanted, with the columns that are."""

    def __init__(
        self, client: LogClient, known: _Known, names: list[str], condition: Condition | None
    ) -> None:
        self._client = client
        self.known = known
        self.condition = condition
        self._names = names
        needed = condition.columns if condition else []
        self._columns = [*names, *(name for name in needed if name not in names)]

    def wanted(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Those of [begin, end) that are wanted; `end` is at most the known one."""
        return self._chosen(self._read(begin, end, self._columns))

    def wanted_offsets(self, begin: int, end: int) -> list[int]:
        """Their offsets."""
        columns = ["_offset", *(self.condition.columns if self.condition else [])]
        batches = map(self._filtered, self._read(begin, end, list(dict.fromkeys(columns))))
        return [int(each) for batch in batches for each in batch.column(0).to_numpy()]

    def follow(self, begin: int) -> Iterator[pa.RecordBatch]:
        """Those from `begin` on that are wanted, as they come; waits for nodes that answer."""
        return self._chosen(self._followed(begin))

    def _followed(self, begin: int) -> Iterator[pa.RecordBatch]:
        columns = list(dict.fromkeys(["_offset", *self._columns]))
        while True:
            try:
                for batch in self._client.follow(self.known.info, begin, columns=columns):
                    yield batch
                    begin = batch.column("_offset")[-1].as_py() + 1
            except (DeadlineExceeded, NodeUnreachable) as error:
                say(f"still waiting: {error.cause}")

    def begin_at(self, timestamp_us: int) -> int:
        """The first offset of a record that is no older; timestamps never fall along the offsets.
        Without a leader the records are looked at."""
        known = self.known
        if known.by_leader:
            return self._client.find_offset(known.info, timestamp_us)

        def time_of(offset: int) -> int:
            one = next(self._read(offset, offset + 1, ["_timestamp"]))
            return int(one.column(0).to_numpy().astype("int64")[0])

        offsets = range(known.start, known.end)
        return known.start + bisect.bisect_left(offsets, timestamp_us, key=time_of)

    def _read(self, begin: int, end: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if begin >= end:
            return iter(())
        mark = self.known.end
        return self._client.read(self.known.info, begin, end, mark=mark, columns=columns)

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(self.condition.expression) if self.condition else batch

    def _chosen(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in map(self._filtered, batches):
            if found.num_rows:
                yield found.select(self._names)


def _names(columns: str | None, info: TopicInfo) -> list[str]:
    if columns is None:
        return ["_offset", *(field.name for field in info.schema.fields)]
    return [name.strip() for name in columns.split(",")]


def _condition(where: str | None, info: TopicInfo) -> Condition | None:
    if where is None:
        return None
    from raftlog.records.condition import condition_of

    return condition_of(where, info.schema, "--where")


def _show(batches: Iterator[pa.RecordBatch], output: Format) -> None:
    from raftlog.cli.shown_rows import shown_rows

    lines = TextLines()
    for batch in batches:
        for rows in shown_rows(batch):
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


def _begin(start: str, known: _Known) -> int:
    """The offset that --start names."""
    if start == "earliest":
        return known.start
    if not (start.isascii() and start.isdecimal()):
        raise InvalidOption(
            option="--start",
            problem=f"is {start!r}, which is neither an offset nor `earliest`",
            advice=f"The topic holds [{known.start}, {known.end}); `-n 0` begins at its end.",
        )
    return int(start)


def _begin_of_last(rows: _Rows, count: int) -> int:
    """Where the last so many records begin that are wanted. Looks at ever more of the topic."""
    start, begin, width = rows.known.start, rows.known.end, _LOOKED_AT_MIN
    if rows.condition is None:
        return max(start, begin - count)
    while count > 0 and begin > start:
        end, begin = begin, max(start, begin - width)
        found = rows.wanted_offsets(begin, end)
        if len(found) >= count:
            return found[-count]
        count, width = count - len(found), 2 * width
    return begin


class TextLines:
    """Rows as aligned text under one head. A column widens when a longer value comes."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def show(self, names: list[str], rows: list[dict[str, Any]]) -> None:
        """Write the rows, and before the first of them the names of their columns."""
        cells = [[_cell(row[name]) for name in names] for row in rows]
        if not self._widths:
            self._widths = [0] * len(names)
            cells.insert(0, [_cell(name) for name in names])
        self._widths = [
            max(width, *map(cell_len, column))
            for width, column in zip(self._widths, zip(*cells, strict=True), strict=True)
        ]
        for row in cells:
            padded = (
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(row, self._widths, strict=True)
            )
            show_line("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    """On one line: texts as they are except for control characters, everything else as JSON."""
    text = plain(value)
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    if len(text) > _CELL_CHARACTERS_MAX:
        text = f"{text[:_CELL_CHARACTERS_MAX]}... ({len(text)} characters)"
    return one_line(text)
