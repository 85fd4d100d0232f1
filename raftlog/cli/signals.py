"""How a verb handles the signals that end this process, for as long as the verb runs."""

from __future__ import annotations

import contextlib
import queue
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


class Stop:
    """Tells the main thread to stop, from a handler of signals.

    A handler runs between any two instructions of the main thread, also within the wait that it is
    to end, or within another handler. With the lock of a `threading.Event` it would wait for itself
    without end; a `SimpleQueue` may be put to by a handler.
    """

    def __init__(self) -> None:
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_told = False

    def tell(self, *_: object) -> None:
        """Say that it is time to stop. It is a handler itself."""
        self._is_told = True
        self._told.put(None)

    def is_told(self) -> bool:
        """Whether it is time to stop."""
        return self._is_told

    def wait(self, timeout_s: float) -> None:
        """Return after this time, or as soon as it is time to stop."""
        if not self._is_told:
            with contextlib.suppress(queue.Empty):
                self._told.get(timeout=timeout_s)


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
