"""What a verb does when this process is told to end, for as long as the verb runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals(
    handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Have `handler` called for these signals; afterwards they do what they did before.

    A hang-up that is ignored already stays so: that is what `nohup` is for.
    """
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [each for each in numbers if each is not signal.SIGHUP or not ignored]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
