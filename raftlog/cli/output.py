"""The output of a verb: a table for people or JSON for programs; errors on standard error."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import decimal
import errno
import io
import json
import logging
import math
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from raftlog.errors import ExitCode, InvalidOption, OutputUnwritable, RaftlogError
from raftlog.errors.document import anchor
from raftlog.redaction import without_controls, without_keys

if TYPE_CHECKING:
    from raftlog import Watermark

PIPE_COLUMNS = 240
"""Width of a table that goes into a file or pipe: no cell is truncated there."""

NARROW_COLUMNS = 100
"""On a terminal narrower than this, columns are closer together."""


BASE64_PREFIX = "base64:"
"""Bytes that are no UTF-8 are written after it, in base64."""


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"


INCOMPLETE = (
    "{topic}, replica {node} lacks the end of its log, which it had acknowledged, so it gives no "
    'vote: see "a log lacks what it had acknowledged" in `raftlog docs OPERATIONS`'
)
_FORMAT = "raftlog.format"
"""What the verb's context knows `-o` by, for an error that ends it."""


def _note_format(context: typer.Context, chosen: Format) -> Format:
    context.meta[_FORMAT] = chosen
    return chosen


FormatOption = Annotated[
    Format,
    typer.Option(
        "-o",
        "--output",
        help="A table for people, or JSON for programs.",
        callback=_note_format,
    ),
]


class _StandardOutput(io.FileIO):
    """Raises `OutputUnwritable` for a write that fails, and discards what comes after that."""

    _failed = False

    def write(self, data: Any) -> int:
        if self._failed:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            raise  # typer ends the process silently
        except OSError as error:
            self._failed = True
            problem = "it is closed" if error.errno == errno.EBADF else str(error.strerror)
            raise OutputUnwritable(problem=problem) from error


def open_standard_streams() -> None:
    """Let standard output take every text whatever the locale is, and raise `OutputUnwritable` if
    it is closed or full. Without standard error, messages are discarded."""
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    file = os.open(os.devnull, os.O_RDONLY) if sys.stdout is None else sys.stdout.fileno()
    raw = _StandardOutput(file, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives


def say(text: str) -> None:
    """Print a line of progress or advice to standard error, as `one_line`: names and problems in it
    may be another's. It is never part of the result, so an error of writing it changes nothing."""
    with contextlib.suppress(OSError):
        sys.stderr.write(one_line(text) + "\n")
        sys.stderr.flush()


class _Teller(logging.Handler):
    """Prints what a logger says to standard error, as it is now."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


_teller = _Teller()


def tell(logger: str) -> None:
    """Print from now on what this logger says, also at the level INFO."""
    logging.getLogger(logger).setLevel(logging.INFO)
    logging.getLogger(logger).addHandler(_teller)


def say_error(error: RaftlogError, context: typer.Context | None = None) -> None:
    """Print the error's name and cause, and its remedy on a line of its own. With -o json one
    object on one line."""
    name = type(error).__name__
    if context is None or context.meta.get(_FORMAT) is not Format.JSON:
        text = without_keys(f"error: {name}: {error.cause.rstrip()}\n  {error.remedy}")
        for line in text.split("\n"):
            say(line)
        return
    values = {field.name: getattr(error, field.name) for field in dataclasses.fields(error)}
    found = {
        "error": name,
        "message": error.cause.rstrip(),
        "remedy": error.remedy,
        "retriable": error.retriable,
        "exit_code": int(error.exit_code),
        "option": values.get("option"),
        "page": anchor(type(error)),
        "values": values,
    }
    say(
        without_keys(json.dumps(plain(found)))
    )  # in ASCII, which every terminal and pipe carries whole


def confirm(question: str) -> None:
    """Ask on the terminal, or read the answer from standard input; all but a yes ends the verb.

    Raises `InvalidOption` if there is no answer, because standard input is closed or empty.
    """
    try:
        if sys.stdin is None:  # closed, which typer takes for a defect
            raise typer.Abort
        shown = f"{one_line(question)} (use --yes to skip this prompt)"
        with contextlib.redirect_stdout(sys.stderr):  # which gets a part of the prompt
            agreed = typer.confirm(shown, err=True)
    except typer.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise  # Ctrl-C or Ctrl-D
        say("")  # ends the prompt's line
        raise InvalidOption(
            option="--yes",
            problem="is needed: standard input holds no answer. Nothing was changed",
            advice="Add --yes to the command, or answer on a terminal (`y` on standard input).",
        ) from None
    if not agreed:
        say("Nothing was changed.")
        raise typer.Exit(ExitCode.FAILED)


def show_json(value: object) -> None:
    """Print one JSON document on one line. Characters that are not printable are escaped."""
    in_ascii = sys.stdout.encoding.lower() != "utf-8"
    text = json.dumps(plain(value), ensure_ascii=in_ascii)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    show_line(text)


def show_line(*cells: str) -> None:
    """Print a line of text, or cells with tabs between them, each as `one_line`."""
    sys.stdout.write("\t".join(map(one_line, cells)) + "\n")
    sys.stdout.flush()


def show_bytes(value: bytes) -> None:
    """Write the bytes as they are. A terminal gets them as lines of text, each as `one_line`."""
    if sys.stdout.isatty():
        for line in value.decode(errors="backslashreplace").split("\n"):
            show_line(line)
    else:
        sys.stdout.buffer.write(value)
        sys.stdout.flush()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table of texts and numbers (right-aligned). Without rows: only the head."""
    console().print(make_table(columns, rows))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """The table of `show_table`, for callers that print it themselves."""
    gap = 1 if console().width < NARROW_COLUMNS else 2
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for column, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        table.add_column(one_line(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def console() -> Console:
    """Standard output as it is now; wide if it is not a terminal."""
    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else PIPE_COLUMNS,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def time_text(timestamp_us: int) -> str | None:
    """The time so many microseconds after 1970 UTC, in whole seconds; None for 0: not known."""
    if not timestamp_us:
        return None
    moment = datetime.datetime.fromtimestamp(timestamp_us / 1_000_000, tz=datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def one_line(text: str) -> str:
    """The text with its control characters spelled out: neither a new line nor a command to the
    terminal can come out of a name or a value."""
    return without_controls(text)


def _cell(value: object) -> str:
    return "-" if value is None else one_line(str(value))


DOUBTS = {
    "diverged": "its state differs from the majority's, so it serves no reads. "
    "Restart this node: it replays its log",
    "disputed": "the replicas' states differ and none has a majority, so new records are not "
    "served. Start all nodes",
    "history diverged": "its history differs from the majority's, so it serves no reads. "
    "It fetches another replica's automatically, at most twice a day",
    "history disputed": "the replicas' histories differ and none has a majority, so what they have "
    "compacted since they last agreed is not served. Start all nodes",
}
"""What a replica's state means for people; every other state is sound or unknown."""


def doubts(state: str, history: str) -> list[str]:
    """Those of `DOUBTS` that hold for a replica whose state and history are so."""
    return [each for each in (state, f"history {history}") if each in DOUBTS]


def doubt(topic: str, node: int, state: str) -> str:
    """A line about a replica whose state is one of `DOUBTS`."""
    return f"{topic or 'the controller'}, replica {node} is {state}: {DOUBTS[state]}."


def held_line(topic: str, records: int, held_for: str) -> str:
    """A line about records that a topic's retention keeps only for a reader group."""
    if not held_for:
        return (
            f"{topic} keeps {records:,} records longer, because its leader cannot read how far "
            "reader groups are: does the key-value store have a leader?"
        )
    return (
        f"{topic} keeps {records:,} records longer, because reader group {held_for} has not read "
        f"them. If it is gone for good: raftlog groups forget {shlex.quote(held_for)}"
    )


def show_problems(mark: Watermark) -> None:
    """A line for each replica that is in doubt, is quarantined, has lost its log, or whose node
    gave no answer; and one if the marks are not known."""
    for replica in mark.replicas:
        if replica.role == "recovering":
            say(f"{mark.topic}, replica {replica.node} lost its log and is copying it")
        if replica.role == "incomplete":
            say(INCOMPLETE.format(topic=mark.topic, node=replica.node))
        for each in doubts(replica.state, replica.history):
            say(doubt(mark.topic, replica.node, each))
        if replica.problem:
            say(f"{mark.topic}, replica {replica.node}: {replica.problem}")
    if not mark.is_known:
        say(
            f"{mark.topic}: no replica answers that has its records, so its offsets are unknown. "
            "`raftlog status` tells what to do"
        )


def exit_if_unknown(marks: Iterable[Watermark]) -> None:
    """End the command with `ExitCode.UNAVAILABLE` unless all the marks are known."""
    if not all(mark.is_known for mark in marks):
        raise typer.Exit(int(ExitCode.UNAVAILABLE))


def plain(value: Any) -> Any:
    """The value in JSON's types: dataclasses as objects, times as ISO text, intervals as
    `DAYS HH:MM:SS`, bytes as UTF-8 text (base64 if they are not UTF-8), and numbers that JSON lacks
    as Spark's words for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {key_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _interval_text(value)
    if isinstance(value, bytes):
        return _text_of(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _interval_text(value: datetime.timedelta) -> str:
    """As Spark shows an interval: days, then hours to seconds, the sign before all of it."""
    size = abs(value)
    clock = size - datetime.timedelta(days=size.days)
    text = str(clock).rjust(8, "0") if not clock.microseconds else str(clock).rjust(15, "0")
    return f"{'-' if value < size else ''}{size.days} {text}"


def key_text(value: object) -> str:
    """A map's key as that of a JSON object: a text as it is, everything else as its JSON."""
    key = plain(value)
    return key if isinstance(key, str) else json.dumps(key)


def _text_of(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = BASE64_PREFIX
    # A text that begins so would be taken for base64.
    encoded = text.startswith(BASE64_PREFIX)
    return BASE64_PREFIX + base64.b64encode(value).decode() if encoded else text
