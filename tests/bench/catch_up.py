"""What other topics notice while a follower that was away catches up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from raftlog.bench.measure import MEGABYTE, latency_of
from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from tests.bench.disk import ASKED_EVERY_S
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.reopen import fill
from tests.cluster.waiting import leader_of

SCHEMA = "payload binary not null"
_WATCH_S = 10.0
_PATIENCE_S = 900.0


def catch_up(mib: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece in which a follower is `mib` MiB behind in one topic, and another is appended to."""

    def piece(place: Place) -> Iterator[Figure]:
        with place.cluster("catch-up") as cluster, cluster.client() as client:
            for topic in ("bulk", "other"):
                client.create_topic(topic, SCHEMA)
                client.append(topic, [{"payload": b""}])
            leaders = {leader_of(client, topic) for topic in ("bulk", "other")}
            away = min({1, 2, 3} - leaders)
            ends_s = time.monotonic() + _WATCH_S
            before = latency_of(append_until(client, lambda: time.monotonic() >= ends_s))
            cluster.kill(away)
            fill(client, "bulk", mib)
            began_s = time.monotonic()
            cluster.serve(away)
            caught_up = threading.Event()
            watcher = threading.Thread(
                target=await_caught_up, args=(cluster, caught_up), daemon=True
            )
            watcher.start()
            beside = latency_of(append_until(client, caught_up.is_set))
            watcher.join()
            seconds = time.monotonic() - began_s
        behind = f"a follower that is {mib:,} MiB behind in another topic, in entries of 1 MiB"
        yield Figure(
            name="catch_up_append_p99_ratio",
            value=beside.p99_ms / before.p99_ms,
            unit="times",
            about=f"p99 of single appends beside {behind}, while it catches up, over p99 before",
            detail={"before_ms": before.p99_ms, "p99_ms": beside.p99_ms, "p50_ms": beside.p50_ms},
        )
        yield Figure(
            name="catch_up_mb_per_s",
            value=mib * 1024 * 1024 / MEGABYTE / seconds,
            unit="MB/s",
            about="from the start of its process until it has every entry, beside those appends",
            detail={"seconds": seconds},
        )

    return piece


def append_until(client: LogClient, over: Callable[[], bool]) -> list[int]:
    """How long single appends to the topic `other` took, nanoseconds."""
    samples = []
    while not over():
        began_ns = time.perf_counter_ns()
        client.append("other", [{"payload": b"x" * 100}])
        samples.append(time.perf_counter_ns() - began_ns)
    return samples


def await_caught_up(cluster: ProcessCluster, caught_up: threading.Event) -> None:
    """Set the event when every replica of the topic `bulk` has every entry."""
    try:
        with cluster.client() as client:
            cluster.wait_caught_up(client, "bulk", timeout_s=_PATIENCE_S, every_s=ASKED_EVERY_S)
    finally:
        caught_up.set()
