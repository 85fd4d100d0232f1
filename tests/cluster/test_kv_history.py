"""Clients race for keys while leaders are killed and paused; what they were told is judged."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError, VersionConflict
from tests.cluster.waiting import leader_of_group
from tests.simulation.linearizable import (
    Operation,
    Step,
    conflicted,
    is_linearizable,
    read,
)

KEYS = ("a", "b", "c")
CLIENTS = 5
FAULTS = 6
FAULT_S = 1.5
CALM_S = 1.0
OPERATIONS_MIN = 300


class Racer:
    """A client that reads and writes keys, and notes what it was told."""

    def __init__(self, client: LogClient, number: int, history: History) -> None:
        self._kv = client.kv
        self._number = number
        self._history = history
        self._random = Random(number)
        self._seen: dict[str, int] = defaultdict(int)
        """The newest version of each key that it has written or found."""

    def step(self, sequence: int) -> None:
        key, chance = self._random.choice(KEYS), self._random.random()
        called = self._history.now()
        if chance < 0.5:
            expected = self._random.choice((None, 0, self._seen[key], self._seen[key]))
            self._put(key, called, expected, f"{self._number}-{sequence}".encode())
        elif chance < 0.8:
            consistency = self._random.choice(("strong", "two-step"))
            found = self._kv.get(key, consistency=consistency)
            version = found.version if found is not None else 0
            self._see(key, version)
            self._history.did(key, called, read(version), f"{self._number} reads {version}")
        else:
            found = self._kv.get(key, consistency="sequential")
            version = found.version if found is not None else 0
            assert version >= self._seen[key], "it went back behind what it had seen"
            self._see(key, version)

    def _put(self, key: str, called: int, expected: int | None, value: bytes) -> None:
        try:
            version = self._kv.put(key, value, expected=expected)
        except VersionConflict as conflict:
            assert expected is not None
            self._see(key, conflict.found)
            step, text = conflicted(conflict.found, expected), f"conflict, it is {conflict.found}"
        else:
            self._see(key, version)
            step, text = put(version, expected), f"to {version}"
        self._history.did(key, called, step, f"{self._number} puts if {expected}: {text}")

    def _see(self, key: str, version: int) -> None:
        self._seen[key] = max(self._seen[key], version)


def put(version: int, expected: int | None) -> Step:
    """A put was done. The store is never told to delete, so a version is above the former."""
    return lambda state: version if expected in (None, state) and version > state else None


class History:
    """Thread-safe."""

    def __init__(self) -> None:
        self._moments = itertools.count()
        self._lock = threading.Lock()
        self.operations: dict[str, list[Operation]] = defaultdict(list)

    def now(self) -> int:
        with self._lock:
            return next(self._moments)

    def did(self, key: str, called: int, step: Step, text: str) -> None:
        with self._lock:
            self.operations[key].append(Operation(called, next(self._moments), step, text))


@pytest.mark.soak
def test_races_over_killed_and_paused_leaders_are_linearizable(tmp_path: Path) -> None:
    settings = ["storage.snapshot_entries=100"]
    history, stop, failures = History(), threading.Event(), list[Exception]()

    def race(client: LogClient, number: int) -> None:
        racer = Racer(client, number, history)
        try:
            for sequence in itertools.count():
                if stop.is_set():
                    return
                racer.step(sequence)
        except (RaftlogError, AssertionError) as error:
            failures.append(error)

    with ProcessCluster.start(tmp_path / "data", settings=settings) as cluster:
        clients = [cluster.client() for _ in range(CLIENTS)]
        clients[0].kv.put("first", b"1")
        store = clients[0].kv._store(create=False)
        assert store is not None
        racers = [
            threading.Thread(target=race, args=(client, number), daemon=True)
            for number, client in enumerate(clients)
        ]
        for racer in racers:
            racer.start()
        for number in range(FAULTS):
            stop.wait(CALM_S)
            leader = leader_of_group(clients[0], store)
            if number % 2:
                os.kill(cluster.pids[leader], signal.SIGSTOP)
                stop.wait(FAULT_S + 1)
                os.kill(cluster.pids[leader], signal.SIGCONT)
            else:
                cluster.kill(leader)
                stop.wait(FAULT_S)
                cluster.serve(leader)
        stop.wait(CALM_S)
        stop.set()
        for racer in racers:
            racer.join(PATIENCE_S)
        assert failures == []
        for client in clients:
            client.close()
    assert sum(map(len, history.operations.values())) >= OPERATIONS_MIN
    for key, operations in history.operations.items():
        lines = "\n".join(f"{o.called}-{o.answered}: {o.text}" for o in operations)
        assert is_linearizable(operations), f"the history of key {key!r} is not:\n{lines}"
