"""How a verb handles the signals that end this process, for as long as the verb runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
