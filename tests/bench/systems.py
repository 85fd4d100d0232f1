"""Systems that are measured in turns: a client's process and the nodes that it works with.

The machine's speed and its other load change from one second to the next. So all systems of a
measurement run at the same time, and each works for less than a second until it is the next one's
turn. What is counted of the work are sums over all its turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from raftlog.bench.measure import MEGABYTE, latency_of
from raftlog.chaos.cluster import ProcessCluster, wait_for
from tests.bench.client_process import ClientProcess
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import spent_s, thread_times_ns

_TRIES = 3
_SETTLED_S = 7.0
"""Nodes look every 5 s whether each group has the leader that it should have."""
_SETTLED_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A client and its nodes."""

    name: str
    clients: Sequence[ClientProcess]
    """One works after the other. The layout of a process's memory makes it up to 10 % faster or
    slower for as long as it lives, so a figure comes from several."""
    pids: Mapping[int, int]
    """The nodes' processes, by node."""

    @property
    def client(self) -> ClientProcess:
        """The first client."""
        return self.clients[0]

    def leader(self, topic: str) -> int:
        """The node that leads what the client writes."""
        node: int = self.client.call("leader", topic=topic)["node"]
        return node

    def work(self, tally: Tally, leader: int, call: str, **arguments: Any) -> None:
        """Let the next client do something, and add that to the tally."""
        client = self.clients[tally.turns % len(self.clients)]
        pids = {"client": [client.pid], "leader": [self.pids[leader]]}
        pids["followers"] = [pid for node, pid in self.pids.items() if node != leader]
        before = {pid: thread_times_ns(pid) for each in pids.values() for pid in each}
        done = client.call(call, **arguments)
        after = {pid: thread_times_ns(pid) for pid in before}
        tally.add(
            done,
            {
                process: sum(spent_s(before[pid], after[pid]) for pid in each)
                for process, each in pids.items()
            },
        )


@dataclass(slots=True)
class Tally:
    """What a system did in all its turns, and what that took."""

    followers: int
    turns: int = 0
    operations: int = 0
    data_bytes: int = 0
    seconds: float = 0.0
    samples_ns: list[int] = field(default_factory=list)
    """Of each operation, where they came one after the other."""
    cpu_s: dict[str, float] = field(default_factory=dict)

    def add(self, done: Mapping[str, Any], taken_s: Mapping[str, float]) -> None:
        """Add a turn: the client's answer, and the processor time of each process."""
        self.turns += 1
        self.operations += done["operations"]
        self.data_bytes += done["data_bytes"]
        self.seconds += done["seconds"]
        self.samples_ns += done.get("samples_ns", ())
        for process, seconds in taken_s.items():
            self.cpu_s[process] = self.cpu_s.get(process, 0.0) + seconds

    @property
    def megabytes(self) -> float:
        """Decimal MB of records."""
        return self.data_bytes / MEGABYTE


@contextmanager
def running(place: Place, cluster: ProcessCluster, *, clients: int = 1) -> Iterator[System]:
    """The place's clients of the cluster."""
    command = [sys.executable, "-m", "tests.bench.raftlog_client", cluster.servers]
    environment = place.client_environment(cluster)
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                ClientProcess(
                    place.name, command, place.folder / f"client-{number}.log", environment
                )
            )
            for number in range(clients)
        ]
        yield System(name=place.name, clients=started, pids=cluster.pids)


def settle(systems: Sequence[System]) -> None:
    """Wait until no leader changes any more: those of new topics are spread over the nodes after
    some seconds. Raises `DeadlineExceeded`."""
    terms = {system.name: system.client.call("terms") for system in systems}
    since_s = time.monotonic()

    def is_settled() -> bool:
        nonlocal terms, since_s
        before, terms = terms, {each.name: each.client.call("terms") for each in systems}
        if terms != before:
            since_s = time.monotonic()
        return time.monotonic() - since_s >= _SETTLED_S

    wait_for(is_settled, "leaders to stay", _SETTLED_WITHIN_S, every_s=1.0)


def in_turns(
    systems: Sequence[System], turns: int, call: str, topic: str, **arguments: Any
) -> list[Tally]:
    """Let a client of each system do so much in each turn, after each did it once uncounted.

    Leaders may move at any time, and then it cannot be told which process was the leader: a
    measurement in which that happened is repeated.
    """
    for _ in range(_TRIES):
        for system in systems:
            for client in system.clients:
                client.call(call, topic=topic, **arguments)
        leaders = [system.leader(topic) for system in systems]
        tallies = [Tally(followers=len(system.pids) - 1) for system in systems]
        places = list(zip(systems, leaders, tallies, strict=True))
        for turn in range(turns):
            for system, leader, tally in places if turn % 2 == 0 else reversed(places):
                system.work(tally, leader, call, topic=topic, **arguments)
        if [system.leader(topic) for system in systems] == leaders:
            return tallies
    raise AssertionError(f"a leader of {topic!r} moved in each of {_TRIES} measurements")


# ---------------------------------------------------------------- figures


def cpu_figures(name: str, tally: Tally, count: float, unit: str, scale: float) -> Iterator[Figure]:
    """Processor time for each of `count` units of work, of all processes and of each.

    `scale` is the number of `unit` in a second; `unit` begins with that of time, as in `us/record`.
    """
    each = {process: scale * spent_s / count for process, spent_s in tally.cpu_s.items()}
    each["follower"] = each.pop("followers") / tally.followers
    total = scale * sum(tally.cpu_s.values()) / count
    yield Figure(
        name=f"{name}_cpu", value=total, unit=unit, about="processor time of client and nodes"
    )
    for process, value in each.items():
        about = (
            "of one of the followers, on average" if process == "follower" else f"of the {process}"
        )
        yield Figure(name=f"{name}_cpu_{process}", value=value, unit=unit, about=about)


def latency_figures(name: str, tally: Tally, about: str) -> Iterator[Figure]:
    """The median of single operations, with others beside it, and the 99th percentile."""
    times = latency_of(tally.samples_ns)
    yield Figure(
        name=f"{name}_p50_ms",
        value=times.p50_ms,
        unit="ms",
        about=about,
        detail={
            "p90_ms": times.p90_ms,
            "p99_9_ms": times.p999_ms,
            "max_ms": times.max_ms,
            "count": tally.operations,
        },
    )
    yield Figure(name=f"{name}_p99_ms", value=times.p99_ms, unit="ms", about="of the same")
