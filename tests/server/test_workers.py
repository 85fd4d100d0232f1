"""The node's worker threads: in order, bounded, nothing lost, failures reported to their owner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import DiskFailed
from raftlog.server.workers import Workers


def never(error: BaseException) -> None:
    raise AssertionError(f"no work failed, but {error!r}")


def test_one_worker_runs_what_it_is_given_in_order_and_tells_each_value_on_the_loop() -> None:
    async def scene() -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        loop_thread = threading.get_ident()
        workers = Workers(1, never)

        def piece(number: int) -> Callable[[], int]:
            def work() -> int:
                assert threading.get_ident() != loop_thread
                return number

            return work

        for number in range(100):
            workers.run(
                piece(number), lambda v: found.append((v, threading.get_ident() == loop_thread))
            )
        await workers.stop()
        return found

    assert asyncio.run(scene()) == [(number, True) for number in range(100)]


def test_no_more_pieces_run_at_a_time_than_there_are_workers_but_as_many() -> None:
    async def scene() -> int:
        workers = Workers(3, never)
        lock = threading.Lock()
        together = threading.Barrier(3)
        running, highest = 0, 0

        def work() -> None:
            nonlocal running, highest
            with lock:
                running += 1
                highest = max(highest, running)
            together.wait(PATIENCE_S)  # only three at once get past it
            with lock:
                running -= 1

        for _ in range(12):
            workers.run(work, lambda _: None)
        await workers.stop()
        return highest

    assert asyncio.run(scene()) == 3


def test_a_failure_is_reported_in_place_of_the_value_and_the_worker_continues() -> None:
    async def scene() -> list[object]:
        found: list[object] = []
        workers = Workers(1, found.append)
        failure = DiskFailed(file="log", problem="EIO")

        def fail() -> None:
            raise failure

        workers.run(fail, lambda _: found.append("done"))
        workers.run(lambda: "next", found.append)
        await workers.stop()
        assert found[0] is failure
        return found[1:]

    assert asyncio.run(scene()) == ["next"]


def test_stopping_waits_for_work_that_finished_work_began() -> None:
    async def scene() -> list[int]:
        found: list[int] = []
        workers = Workers(2, never)

        def again(left: int) -> None:
            found.append(left)
            if left:
                workers.run(lambda: left - 1, again)

        workers.run(lambda: 5, again)
        await workers.stop()
        return found

    assert asyncio.run(scene()) == [5, 4, 3, 2, 1, 0]
    assert not [t for t in threading.enumerate() if t.name.startswith("worker-")]


def test_without_further_threads_the_first_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scene() -> list[int]:
        found: list[int] = []
        workers = Workers(4, never)
        monkeypatch.setattr(threading.Thread, "start", no_more)
        for number in range(10):
            workers.run(partial(int, number), found.append)
        await workers.stop()
        return found

    assert asyncio.run(scene()) == list(range(10))
