"""What observers cost writers, what they give readers, and how far behind they are, by level."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

from raftlog.bench.measure import latency_of
from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import WATCH_GROUPS, WatchGroups
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.cluster.joining import Joined

MANY = 20
APPENDS = 1_000
LAG_SAMPLES = 60
READ_S = 8.0
READERS = 3
ROWS = 400_000
_PATIENCE_S = 120.0
_ROW = [{"id": 1, "payload": bytes(100)}]
_DDL = "id bigint, payload binary"


def observers(place: Place) -> Iterator[Figure]:
    """Three parts, each with a cluster of its own."""
    yield from _writes(replace(place, folder=place.folder / "writes"))
    yield from _lag(replace(place, folder=place.folder / "lag"))
    yield from _reads(replace(place, folder=place.folder / "reads"))


# ---------------------------------------------------------------- writes


def _writes(place: Place) -> Iterator[Figure]:
    """Appends one after the other, before many observers run, with them, and after them."""
    with (
        place.cluster(spare=MANY) as cluster,
        cluster.client() as client,
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
    ):
        topic = client.create_topic("t", _DDL)
        numbers = range(4, 4 + MANY)
        for node in numbers:
            client.members.add(node, cluster.address(node), observer=True, parents=())
        # They stand for twenty machines: what counts is what they ask of this one.
        command = ["nice", "-n", "19", sys.executable, "-m", "tests.bench.many_observers"]
        command += [f"--set={setting}" for setting in place.joining(cluster, spare=MANY)]
        listed = ",".join(cluster.address(node) for node in range(1, 4 + MANY))
        command += [memory, client.cluster_id(), listed, "4"]
        without = _append(client, topic, APPENDS)
        with (place.folder / "many.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for node in numbers:
                client.members.wait_for(node, _PATIENCE_S)
            with closing(Connection(client.settings)) as connection:
                for node in numbers:
                    _wait_at(connection, cluster.address(node), topic, APPENDS)
            with_many = _append(client, topic, 2 * APPENDS)
        finally:
            process.kill()
            process.wait(_PATIENCE_S)
        without += _append(client, topic, APPENDS)
    ratio = latency_of(with_many).p99_ms / latency_of(without).p99_ms
    about = (
        f"{2 * APPENDS} single appends of 100 B, those with none half before and half after; the "
        "observers in one process of low priority, with their disks in memory"
    )
    for name, samples in (("0", without), (f"{MANY}", with_many)):
        latency = latency_of(samples)
        yield Figure(
            name=f"observers_{name}_append_p99_ms",
            value=latency.p99_ms,
            unit="ms",
            about=f"{about}: {name} running",
            detail={"p50_ms": latency.p50_ms, "p90_ms": latency.p90_ms},
        )
    yield Figure(
        name="observers_append_p99_ratio",
        value=ratio,
        unit="times",
        about=f"the p99 with {MANY} observers by that with none",
    )


def _append(client: LogClient, topic: TopicInfo, count: int) -> list[int]:
    """Nanoseconds of each append."""
    samples = []
    for _ in range(count):
        before = time.perf_counter_ns()
        client.append(topic, _ROW)
        samples.append(time.perf_counter_ns() - before)
    return samples


# ---------------------------------------------------------------- lag


def _lag(place: Place) -> Iterator[Figure]:
    """From an acknowledged append until each of a chain of three serves it."""
    parents = {4: (1, 2, 3), 5: (4,), 6: (5,)}
    with ExitStack() as stack:
        cluster, client = _cluster_with(place, parents, stack)
        connection = stack.enter_context(closing(Connection(client.settings)))
        topic = client.create_topic("t", _DDL)
        _append(client, topic, 10)
        lags_s: dict[int, list[float]] = {node: [] for node in parents}
        for sample in range(11, 11 + LAG_SAMPLES):
            _append(client, topic, 1)
            acknowledged_s = time.perf_counter()
            for node in parents:
                _wait_at(connection, cluster.address(node), topic, sample)
                lags_s[node].append(time.perf_counter() - acknowledged_s)
    for level, node in enumerate(parents, 1):
        yield Figure(
            name=f"observers_lag_level_{level}_ms",
            value=statistics.median(lags_s[node]) * 1000,
            unit="ms",
            about=f"from an acknowledged append until an observer at level {level} serves it, "
            f"{LAG_SAMPLES} appends, observers ask every 100 ms: p50",
            detail={"max_ms": max(lags_s[node]) * 1000},
        )


# ---------------------------------------------------------------- reads


def _reads(place: Place) -> Iterator[Figure]:
    """Readers of the whole topic, each in a process, with more and more observers to read from."""
    parents: dict[int, tuple[int, ...]] = {4: (), 5: ()}
    with ExitStack() as stack:
        cluster, client = _cluster_with(place, parents, stack)
        connection = stack.enter_context(closing(Connection(client.settings)))
        topic = client.create_topic("t", _DDL)
        rows = [{"id": each, "payload": bytes(100)} for each in range(10_000)]
        with client.producer(topic) as producer:
            for _ in range(ROWS // len(rows)):
                producer.append_and_flush(rows)
        for node in parents:
            _wait_at(connection, cluster.address(node), topic, ROWS)
        for count in range(3):
            read_from = [cluster.address(node) for node in (1, 2, 3, *parents)][: 3 + count]
            total = _read_rows(topic, read_from, place.client_environment(cluster))
            yield Figure(
                name=f"observers_{count}_read_rows_per_s",
                value=total / READ_S,
                unit="rows/s",
                about=f"{READERS} readers, each a process, 3 nodes and "
                f"{count} observers, 100 B rows",
            )


def _read_rows(topic: TopicInfo, addresses: list[str], environment: dict[str, str]) -> int:
    """Rows that all readers have read within the time."""
    command = [sys.executable, "-m", "tests.bench.observer_reader", topic.name, str(READ_S)]
    readers = [
        subprocess.Popen([*command, *addresses], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(READERS)
    ]
    return sum(int(reader.communicate(timeout=READ_S + _PATIENCE_S)[0]) for reader in readers)


# ---------------------------------------------------------------- parts


def _cluster_with(
    place: Place, parents: dict[int, tuple[int, ...]], stack: ExitStack
) -> tuple[ProcessCluster, LogClient]:
    cluster = stack.enter_context(place.cluster(spare=len(parents)))
    client = stack.enter_context(cluster.client())
    settings = place.joining(cluster, spare=len(parents))
    for node, its in parents.items():
        client.members.add(node, cluster.address(node), observer=True, parents=its)
        joined = Joined(cluster.servers, node, place.folder / f"node-{node}", settings=settings)
        stack.callback(joined.end)
    for node in parents:
        client.members.wait_for(node, _PATIENCE_S)
    return cluster, client


def _wait_at(connection: Connection, address: str, topic: TopicInfo, mark: int) -> None:
    def is_there() -> bool:
        view = connection.ask(address, WATCH_GROUPS, WatchGroups(groups=(topic.group,)), 30.0)
        return any(each.high_water_mark >= mark for each in view.groups)

    wait_for(is_there, f"{address} to have {mark} records", _PATIENCE_S, every_s=0.002)
