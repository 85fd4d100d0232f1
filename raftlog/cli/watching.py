"""What `--watch` means, for every verb that has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.live import Live
from rich.table import Table

from raftlog.cli.output import Format, console, show_json

WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Continue until Ctrl-C; JSON: one line each time.")
]
IntervalOption = Annotated[
    float, typer.Option(help="Seconds between two updates of --watch.", min=0.1)
]

T = TypeVar("T")


def watch(
    look: Callable[[], T],
    *,
    as_json: Callable[[T], object],
    as_table: Callable[[T], Table],
    output: Format,
    interval_s: float,
) -> NoReturn:
    """Show what `look` finds, again and again, until Ctrl-C or the reader of a pipe has gone."""
    pause = threading.Event()
    if output is Format.JSON:
        while True:
            show_json(as_json(look()))
            pause.wait(interval_s)
    shown = console()
    if not shown.is_terminal:  # one table after the other
        while True:
            shown.print(as_table(look()))
            shown.file.flush()
            pause.wait(interval_s)
    with Live(console=shown, auto_refresh=False) as live:
        while True:
            live.update(as_table(look()), refresh=True)
            pause.wait(interval_s)
