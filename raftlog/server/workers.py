"""Threads that run blocking work, mostly writes and syncs, and tell the loop when it is done.

`loop.run_in_executor` would need two futures, their locks and a chain of callbacks for each piece
of work. For a small entry that costs as much as its sync. Here it is one queue and one callback.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Work(NamedTuple):
    run: Callable[[], Any]
    done: Callable[[Any], None]


class Workers:
    """Runs at most `count` pieces of work at a time, and begins them in the order given.

    Make it while the loop runs, and call it only from that loop's thread, where it calls `done` and
    `failed`. The owner bounds how much waits.
    """

    def __init__(self, count: int, failed: Callable[[BaseException], None]) -> None:
        """If a piece of work raises, `failed` gets the exception and `done` is not called."""
        assert count >= 1
        self._count = count
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._start_thread()  # so that there is one, even if the process may have no more later

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work()` on a thread, then `done(its value)` on the loop."""
        assert len(self._threads) <= self._count
        self._in_flight += 1
        self._idle.clear()
        if len(self._threads) < min(self._in_flight, self._count):
            with suppress(RuntimeError):  # no more threads: the others do it
                self._start_thread()
        self._waiting.put(_Work(work, done))

    def _start_thread(self) -> None:
        name = f"worker-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    async def stop(self) -> None:
        """Wait until all work is done and `done` was called for it, then end the threads."""
        while self._in_flight:  # a `done` may have begun more
            await self._idle.wait()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._waiting.get()) is not None:
            with _HandOver(self._tell_failure):
                value = work.run()
                self._loop.call_soon_threadsafe(self._note, work.done, value)

    def _tell_failure(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._note, self._failed, error)

    def _note(self, tell: Callable[[T], None], value: T) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._idle.set()
        tell(value)


class _HandOver:
    """Hands what its block raises to `to`, because the owner of the work decides about it."""

    __slots__ = ("_to",)

    def __init__(self, to: Callable[[BaseException], None]) -> None:
        self._to = to

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        self._to(error)
        return True
