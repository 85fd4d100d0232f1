"""What it costs to be closed to strangers: TLS, identities, an audit log and scraped metrics, in
turns with a cluster that has none of them."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

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

_NODES = 3
_TURNS = 3
_PLAN = Plan(seconds=5.0, warm_up_s=1.0)
_TOKEN_VARIABLE = "TOKEN_OF_THE_BENCHMARK"


def closed(folder: Path) -> Iterator[Figure]:
    """Two clusters side by side, one of which idles while the other is measured."""
    folder = folder / "closed"
    folder.mkdir()
    os.environ[_TOKEN_VARIABLE] = add_token(folder / "tokens", "bench", (), None, datetime.now(UTC))
    os.environ["RAFTLOG_CLIENT__TOKEN"] = f"env:{_TOKEN_VARIABLE}"
    try:
        protected = _protected(folder)
    finally:
        del os.environ["RAFTLOG_CLIENT__TOKEN"]
    bare = ProcessCluster.start(folder / "open", nodes=_NODES)
    found: dict[str, list[dict[str, float]]] = {"open": [], "closed": []}
    with bare, protected, _client(bare) as stranger, _client(protected) as known:
        for turn in range(_TURNS + 1):
            for name, client in (("open", stranger), ("closed", known)):
                measured = _measured(client)
                if turn:  # the first one warms up
                    found[name].append(measured)
        scrapes_ms = [_scrape_ms(protected.port + 2 * _NODES + node) for node in range(_NODES)]
    for name in ("append_p50_ms", "batches_mb_per_s", "read_mb_per_s"):
        yield _ratio(name, {side: [each[name] for each in runs] for side, runs in found.items()})
    yield Figure(
        name="closed_scrape_ms",
        value=max(scrapes_ms),
        unit="ms",
        about="the slowest scrape of a node's metrics",
        detail={},
    )


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


def _scrape_ms(port: int) -> float:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics",
        headers={"Authorization": f"Bearer {os.environ[_TOKEN_VARIABLE]}"},
    )
    times_ms = []
    for _ in range(5):
        began_s = time.perf_counter()
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
        times_ms.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(times_ms)


def _ratio(name: str, runs: dict[str, list[float]]) -> Figure:
    medians = {side: statistics.median(found) for side, found in runs.items()}
    pairs = enumerate(zip(runs["open"], runs["closed"], strict=True), 1)
    turns = {f"turn_{number}": closed / bare for number, (bare, closed) in pairs}
    return Figure(
        name=f"closed_{name}_ratio",
        value=statistics.median(turns.values()),
        unit="x",
        about="with TLS, identities, audit log and metrics, over without, median of the turns",
        detail={**medians, **turns},
    )
