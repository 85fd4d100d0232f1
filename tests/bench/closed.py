"""What it costs to be closed to strangers: TLS, identities, rights, quotas, an audit log and
scraped metrics, in turns with a cluster that has none of them."""

from __future__ import annotations

import dataclasses
import os
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from raftlog.auth.quotas import Limit
from raftlog.auth.rights import Kind, Resource, Right, topic_named
from raftlog.auth.token_file import add_token
from raftlog.bench.workloads import (
    Plan,
    append_latency,
    large_batches,
    read_over_and_over,
    readable_topic,
)
from raftlog.chaos.cluster import ProcessCluster, free_ports
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from tests.bench.figures import Figure
from tests.bench.idle import make_topics, settle
from tests.bench.processes import cpu_s
from tests.bench.rows import SCHEMA_DDL, rows
from tests.bench.spark import (
    CONFIGURED,
    MICRO_BATCHES,
    MICRO_ROWS,
    MICRO_WARM_BATCHES,
    from_log,
    into_log,
    query,
    run_driver,
)

_NODES = 3
_TURNS = 3
_PLAN = Plan(seconds=5.0, warm_up_s=1.0)
_TOKEN_VARIABLE = "TOKEN_OF_THE_BENCHMARK"

_IDLE_TOPICS = 1000
_IDLE_S = 60.0
_SCRAPE_EVERY_S = 60.0
"""As Prometheus does by default."""

_SCANNED_ROWS = 4_000_000
_PIECE_ROWS = 250_000

_OTHERS = 20
"""So many other identities have rights and quotas."""


class _Side(NamedTuple):
    """A cluster, and who works with it."""

    cluster: ProcessCluster
    client: LogClient
    options: Mapping[str, str]
    """For Spark."""


def closed(folder: Path) -> Iterator[Figure]:
    """Two clusters side by side, one of which idles while the other is measured."""
    found: dict[str, list[dict[str, float]]] = {}
    with _both(folder / "closed") as sides:
        for turn in range(_TURNS + 1):
            for name, side in sides.items():
                measured = _measured(side.client)
                if turn:  # the first one warms up
                    found.setdefault(name, []).append(measured)
        scrapes_ms = [_scrape_ms(port) for port in _scraped_ports(sides["closed"].cluster)]
    for name in ("append_p50_ms", "batches_mb_per_s", "read_mb_per_s"):
        yield _ratio(name, {side: [each[name] for each in runs] for side, runs in found.items()})
    yield Figure(
        name="closed_scrape_ms",
        value=max(scrapes_ms),
        unit="ms",
        about="the slowest scrape of a node's metrics",
        detail={},
    )


def closed_idle(folder: Path) -> Iterator[Figure]:
    """Two idle clusters of many topics at the same time, one of them closed and scraped."""
    with _both(folder / "closed-idle") as sides:
        for side in sides.values():
            make_topics(side.client, range(_IDLE_TOPICS))
        for side in sides.values():
            settle(side.client)
        unscraped = _idle_percents(sides, [], [])
        scrapes_ms: list[float] = []
        found = _idle_percents(sides, _scraped_ports(sides["closed"].cluster), scrapes_ms)
    yield Figure(
        name="closed_idle_cpu_ratio",
        value=found["closed"] / found["open"],
        unit="x",
        about=f"CPU of three idle nodes with {_IDLE_TOPICS:,} topics in {_IDLE_S:g} s, closed and "
        f"scraped every {_SCRAPE_EVERY_S:g} s, over open",
        detail={
            **{f"{name}_percent": percent for name, percent in found.items()},
            "unscraped": unscraped["closed"] / unscraped["open"],
        },
    )
    yield Figure(
        name="closed_idle_scrape_ms",
        value=max(scrapes_ms),
        unit="ms",
        about=f"the slowest scrape of a node with {_IDLE_TOPICS:,} topics",
        detail={"median_ms": statistics.median(scrapes_ms)},
    )


def closed_spark(folder: Path) -> Iterator[Figure]:
    """Micro-batches from log to log, and a stream of many rows to nowhere, in turns in one JVM."""
    with _both(folder / "closed-spark") as sides:
        queries = []
        for side in sides.values():
            side.client.create_topic("small", SCHEMA_DDL)
            for start in range(0, MICRO_ROWS * MICRO_BATCHES, MICRO_ROWS):
                side.client.append("small", rows(start, MICRO_ROWS))
            side.client.create_topic("rows", SCHEMA_DDL)
            with side.client.producer("rows") as producer:
                for start in range(0, _SCANNED_ROWS, _PIECE_ROWS):
                    producer.append(rows(start, _PIECE_ROWS))
        for turn in range(_TURNS + 1):
            for name, side in sides.items():
                of_many = side.options | from_log(side.cluster, "rows")
                queries.append(query("raftlog", of_many, "noop", {}) | {"name": f"scan {name}"})
                small = side.options | from_log(side.cluster, "small")
                small["maxOffsetsPerTrigger"] = str(MICRO_ROWS)
                copy = side.options | into_log(side.cluster, f"copy-{turn}")
                queries.append(query("raftlog", small, "raftlog", copy) | {"name": f"micro {name}"})
        told = run_driver(folder / "closed-spark" / "driver", CONFIGURED, queries)
    yield _ratio("micro_batch_p50_ms", {name: _micro_ms(told, name) for name in sides})
    yield _ratio("spark_read_rows_per_s", {name: _scan_rates(told, name) for name in sides})


@contextmanager
def _both(folder: Path) -> Iterator[dict[str, _Side]]:
    """An open cluster and a closed one."""
    folder.mkdir()
    os.environ[_TOKEN_VARIABLE] = add_token(folder / "tokens", "bench", (), None, datetime.now(UTC))
    for number in range(_OTHERS):
        add_token(folder / "tokens", f"other-{number}", (), None, datetime.now(UTC))
    os.environ["RAFTLOG_CLIENT__TOKEN"] = f"env:{_TOKEN_VARIABLE}"
    try:
        protected = _protected(folder)
    finally:
        del os.environ["RAFTLOG_CLIENT__TOKEN"]
    with ExitStack() as stack:
        stack.enter_context(protected)
        bare = stack.enter_context(ProcessCluster.start(folder / "open", nodes=_NODES))
        options = {
            "raftlog.tls.ca.file": str(protected.data / "tls" / "ca.pem"),
            "raftlog.auth.token": f"env:{_TOKEN_VARIABLE}",
        }
        sides = {
            "open": _Side(bare, stack.enter_context(_client(bare)), {}),
            "closed": _Side(protected, stack.enter_context(_client(protected)), options),
        }
        _grant(sides["closed"].client)
        yield sides


def _grant(client: LogClient) -> None:
    """Rights and quotas of many, which hold nobody back here."""
    client.acl.grant("bench", list(Right), Resource(Kind.ALL, ""))
    far = {Limit.REQUESTS: 10**9, Limit.IN_BYTES: 10**15, Limit.OUT_BYTES: 10**15}
    client.quotas.set("bench", far)
    for number in range(_OTHERS):
        client.acl.grant(f"other-{number}", [Right.READ], topic_named(f"topic-{number}"))
        client.quotas.set(f"other-{number}", far)


def _scraped_ports(protected: ProcessCluster) -> list[int]:
    return [protected.port + 2 * _NODES + node for node in range(_NODES)]


def _cpu_s(cluster: ProcessCluster) -> float:
    return sum(cpu_s(pid) for pid in cluster.pids.values())


def _idle_percents(
    sides: Mapping[str, _Side], ports: Sequence[int], scrapes_ms: list[float]
) -> dict[str, float]:
    """What the nodes of each cluster use of a core while nobody calls them but scrapers."""
    before = {name: _cpu_s(side.cluster) for name, side in sides.items()}
    pause, end_s = threading.Event(), time.monotonic() + _IDLE_S
    while time.monotonic() < end_s:
        scrapes_ms += [_scrape_ms(port, times=1) for port in ports]
        pause.wait(min(_SCRAPE_EVERY_S, max(0.0, end_s - time.monotonic())))
    return {
        name: 100 * (_cpu_s(side.cluster) - before[name]) / _IDLE_S for name, side in sides.items()
    }


def _micro_ms(told: Sequence[Mapping[str, Any]], side: str) -> list[float]:
    """The median batch of each turn after the first."""
    runs = [run["batches"] for run in told if run["name"] == f"micro {side}"][1:]
    return [
        statistics.median(batch["milliseconds"] for batch in run[MICRO_WARM_BATCHES:])
        for run in runs
    ]


def _scan_rates(told: Sequence[Mapping[str, Any]], side: str) -> list[float]:
    runs = [run["batches"] for run in told if run["name"] == f"scan {side}"][1:]
    return [
        1000 * _SCANNED_ROWS / sum(batch["milliseconds"] for batch in batches) for batches in runs
    ]


def _protected(folder: Path) -> ProcessCluster:
    settings = {
        "tls.peer_port_offset": _NODES,
        "auth.tokens_file": folder / "tokens",
        "audit.file": folder / "audit-{node}.jsonl",
        "metrics.listen": f"127.0.0.1:+{2 * _NODES}",
        "metrics.token": f"env:{_TOKEN_VARIABLE}",
    }
    return ProcessCluster.start(
        folder / "protected",
        nodes=_NODES,
        port=free_ports(3 * _NODES),
        settings=[f"{key}={value}" for key, value in settings.items()],
        tls=True,
    )


def _client(cluster: ProcessCluster) -> LogClient:
    update = {"bootstrap_servers": cluster.servers}
    authority = cluster.data / "tls" / "ca.pem"
    if authority.exists():
        update |= {"tls_ca_file": str(authority), "token": f"env:{_TOKEN_VARIABLE}"}
    return connect(settings=load().client.model_copy(update=update))


def _measured(client: LogClient) -> dict[str, float]:
    latency = append_latency(client, _PLAN).latency
    assert latency is not None
    written = large_batches(client, _PLAN)
    with readable_topic(client, _PLAN) as (topic, end):
        read = read_over_and_over(client, dataclasses.replace(_PLAN, warm_up_s=0.5), topic, end)
    return {
        "append_p50_ms": latency.p50_ms,
        "batches_mb_per_s": written.mb_per_s,
        "read_mb_per_s": read.mb_per_s,
    }


def _scrape_ms(port: int, times: int = 5) -> float:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics",
        headers={"Authorization": f"Bearer {os.environ[_TOKEN_VARIABLE]}"},
    )
    times_ms = []
    for _ in range(times):
        began_s = time.perf_counter()
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
        times_ms.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(times_ms)


def _ratio(name: str, runs: Mapping[str, Sequence[float]]) -> Figure:
    medians = {side: statistics.median(found) for side, found in runs.items()}
    pairs = enumerate(zip(runs["open"], runs["closed"], strict=True), 1)
    turns = {f"turn_{number}": closed / bare for number, (bare, closed) in pairs}
    return Figure(
        name=f"closed_{name}_ratio",
        value=statistics.median(turns.values()),
        unit="x",
        about="with TLS, identities, rights, quotas, audit log and metrics, over without, "
        "median of the turns",
        detail={**medians, **turns},
    )
