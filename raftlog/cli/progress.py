"""A bar on the terminal that shows how far a file is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from raftlog.cli.output import one_line


@contextmanager
def progress(
    what: str, total: int | None, console: Console | None = None
) -> Iterator[Callable[[int, int], object]]:
    """A function that takes how much of `total` is done, and the records up to there.

    It shows that on standard error if this is a terminal and the total is known, and leaves
    nothing behind.
    """
    console = console or Console(stderr=True)
    if total is None or not console.is_terminal:
        yield lambda _done, _records: None
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[records]:,} records"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(one_line(what), total=total, records=0)
        yield lambda done, records: bar.update(task, completed=done, records=records)
