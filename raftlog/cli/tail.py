"""`raftlog tail`: a topic's records as text, as they come."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, console, make_table, plain, show_json
from raftlog.cli.session import session_of
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.wire.calls import MarkReply


def tail(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(show_default=False)],
    last: Annotated[
        int, typer.Option("-n", "--last", min=0, help="Begin so many records before the end.")
    ] = 10,
    start: Annotated[
        str | None,
        typer.Option(help="Begin at this offset, or at `earliest`; instead of -n."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas; also _topic, _offset, _timestamp, _epoch, _writer, "
            "_term. Default: _offset and all columns."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Go on until Ctrl-C, or stop at the end of now.")
    ] = True,
    output: FormatOption = Format.TABLE,
) -> None:
    """A topic's records, in order, from the last few on; only what a majority holds is shown.

    With -o json one object a line. Times are UTC; binary values are shown as text where they are
    UTF-8, else as base64.
    """
    with session_of(context).connect() as client:
        info = client.describe_topic(topic)
        mark = client.read_mark(info)
        begin = _begin(start, last, mark)
        names = ["_offset", *(field.name for field in info.schema.fields)]
        if columns is not None:
            names = [name.strip() for name in columns.split(",")]
        if follow:
            batches = client.follow(info, begin, columns=names)
        else:
            batches = client.read(
                info, begin, mark.high_water_mark, mark=mark.high_water_mark, columns=names
            )
        for batch in batches:
            _show(batch, output)


def _begin(start: str | None, last: int, mark: MarkReply) -> int:
    """The offset to begin at, within [log_start_offset, high_water_mark] for -n."""
    if start is None:
        return max(mark.log_start_offset, mark.high_water_mark - last)
    if start == "earliest":
        return mark.log_start_offset
    if not start.isdecimal():
        raise InvalidOption(
            option="--start",
            problem="is neither an offset nor `earliest`",
            advice=f"The topic holds [{mark.log_start_offset}, {mark.high_water_mark}).",
        )
    return int(start)


def _show(batch: pa.RecordBatch, output: Format) -> None:
    rows = batch.to_pylist(maps_as_pydicts="strict")
    if output is Format.JSON:
        for row in rows:
            show_json(row)
        return
    names = batch.schema.names
    shown = [[_cell(row[name]) for name in names] for row in rows]
    console().print(make_table(names, shown))
    sys.stdout.flush()


def _cell(value: object) -> object:
    """Numbers stay numbers, so that they stand to the right; texts stay as they are."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = plain(value)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
