"""Blocking code of the real client in a simulation: threads that run one at a time.

Each is a thread of the process, but only the simulation or one of them runs at any moment. It runs
until it waits: for a lock, for some time, or for an answer. An event of the simulation lets it go
on. At locks it may also lose its turn, as a thread may anywhere. So what the threads do is a
function of the seed. `client_modules` puts the simulation's time, locks and chance into the
client's modules.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from types import SimpleNamespace
from typing import Any

import tenacity

from raftlog.client import connection, producer, retries, shared_producers
from tests.simulation.planting import both, replaced
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import SECOND

LOSES_TURN = 0.2
"""Of a thread that takes or releases a lock."""


class SimulationEnds(BaseException):
    """Raised in a thread that waits when its simulation is over."""


class SimulatedThread:
    """One thread, which `wake` lets run until it waits again or has ended."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.ended = False
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._over = False
        self._thread = ThreadPoolExecutor(1, name)
        self._done = self._thread.submit(self._run, work)

    def wake(self) -> None:
        """Let it run. Raises what ended it."""
        assert not self.ended, f"{self.name} has ended"
        self._go.release()
        self._waits.acquire()
        if self.ended:
            self._done.result()

    def wait(self) -> None:
        """Called by the thread itself: return once it is woken."""
        if self._over:
            raise SimulationEnds
        self._waits.release()
        self._go.acquire()
        if self._over:
            raise SimulationEnds

    def end(self) -> None:
        """End it where it waits."""
        self._over = True
        if not self.ended:
            self.wake()
        self._thread.shutdown()

    def _run(self, work: Callable[[], None]) -> None:
        self._go.acquire()
        try:
            if not self._over:
                work()
        except SimulationEnds:
            pass
        finally:
            self.ended = True
            self._waits.release()


class Threads:
    """The threads of a simulation, and what their code sees of time and of each other."""

    def __init__(self, simulator: Simulator, turn_us: int) -> None:
        """A thread that loses its turn does so for `turn_us` at most."""
        self.simulator = simulator
        self._turn_us = turn_us
        self._random = simulator.random("threads")
        self._running: SimulatedThread | None = None
        self._all: list[SimulatedThread] = []
        self._over = False

    def start(self, name: str, work: Callable[[], None]) -> SimulatedThread:
        thread = SimulatedThread(name, work)
        self._all.append(thread)
        self.simulator.at(0, lambda: self.wake(thread))
        return thread

    def end(self) -> None:
        """End all of them where they wait."""
        self._over = True
        for thread in self._all:
            self._running = thread
            thread.end()
        self._running = None

    def wake(self, thread: SimulatedThread) -> None:
        """Called in an event: let the thread, which waits, go on."""
        self._running = thread
        try:
            thread.wake()
        finally:
            self._running = None

    def wait(self) -> None:
        assert self._running is not None, "a thread waits, not the simulation"
        self._running.wait()

    def running(self) -> SimulatedThread:
        assert self._running is not None, "a thread asks, not the simulation"
        return self._running

    def sleep(self, seconds: float) -> None:
        thread = self.running()
        self.simulator.at(int(seconds * SECOND), lambda: self.wake(thread))
        self.wait()

    def lose_turn(self) -> None:
        """Perhaps let other threads run."""
        if self._running is None or self._over or self._random.random() >= LOSES_TURN:
            return
        self.simulator.counts["threads that lost their turn"] += 1
        self.sleep(self._random.randrange(self._turn_us) / SECOND)

    def client_modules(self) -> Any:
        """A context in which the client's modules have this simulation's time, locks and chance."""
        simulator, random = self.simulator, self.simulator.random("client")

        def now_s() -> float:
            return simulator.now_us / SECOND

        time = SimpleNamespace(monotonic=now_s, time=now_s, sleep=self.sleep)
        locks = SimpleNamespace(Lock=lambda: Lock(self), current_thread=threading.current_thread)
        ids = SimpleNamespace(uuid4=lambda: _drawn_id(random))
        return both(
            replaced(tenacity.nap, "time", time),
            replaced(tenacity.wait, "random", random),
            *(replaced(module, "time", time) for module in (connection, producer, retries)),
            *(
                replaced(module, "threading", locks)
                for module in (connection, producer, shared_producers)
            ),
            replaced(connection, "random", random),
            replaced(producer, "uuid", ids),
        )


class Lock:
    """As `threading.Lock`, for simulated threads; those that wait get it in their order."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._held = False
        self._waiting: deque[_Waiter] = deque()

    def acquire(self, timeout: float = -1) -> bool:
        self._threads.lose_turn()
        if not self._held:
            self._held = True
            return True
        waiter = _Waiter(self._threads.running())
        self._waiting.append(waiter)
        if timeout >= 0:
            delay_us = int(timeout * SECOND)
            self._threads.simulator.at(delay_us, lambda: self._give_up(waiter))
        self._threads.wait()
        return waiter.has_lock

    def release(self) -> None:
        assert self._held, "who releases it has it"
        if self._waiting:
            waiter = self._waiting.popleft()
            waiter.has_lock = True
            self._threads.simulator.at(0, lambda: self._threads.wake(waiter.thread))
        else:
            self._held = False
        self._threads.lose_turn()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _give_up(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            self._threads.wake(waiter.thread)


class _Waiter:
    def __init__(self, thread: SimulatedThread) -> None:
        self.thread = thread
        self.has_lock = False


def _drawn_id(random: Random) -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128), version=4)
