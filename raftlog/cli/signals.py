"""How a verb handles the signals that end this process, for as long as the verb runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer


@contextmanager
def on_signals(
    handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Call `handler` for these signals. Afterwards the previous handlers are back.

    A hang-up signal that is ignored already stays ignored: `nohup` relies on that.
    """
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [each for each in numbers if each is not signal.SIGHUP or not ignored]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Take these signals as Ctrl-C, so that the verb can tidy up; then exit with 128 and the
    signal's number, as a shell says of a process that the signal ended."""
    heard: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    with on_signals(interrupt, *numbers):
        try:
            yield
        except KeyboardInterrupt:
            if not heard:
                raise
            raise typer.Exit(128 + heard[0]) from None
