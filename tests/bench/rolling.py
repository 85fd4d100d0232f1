"""How long no write is acknowledged while a cluster is restarted, one node after the other."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftlog.chaos import node_logs
from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from tests.bench.figures import Figure
from tests.bench.place import Place

RESTARTS = 20
WITHOUT = 5
"""Restarts of the whole cluster; and so many where a node does not hand over what it leads."""
WRITERS = 3
TOPICS = 12
LONG_S = 0.3
"""A gap above this is told, with what happened meanwhile."""
BEGIN_S = 60.0
"""Within this the first append to each topic must be acknowledged."""
LOOK_S = 0.1
"""So seldom that looking at the nodes does not disturb the writers, which share this process."""
_ROW = [{"payload": bytes(100)}]


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """No append to a topic was acknowledged for `seconds`, up to `end_s` of the wall clock."""

    seconds: float
    end_s: float
    topic: str
    group: int

    @property
    def begin_s(self) -> float:
        return self.end_s - self.seconds


class _Writer:
    """Appends to a topic, one row after the other, and notes the longest time without an answer."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        self.failed = 0
        self.begun = threading.Event()
        """An append has been acknowledged."""
        self._client = cluster.client()
        self._topic = topic
        self._group = self._client.describe_topic(topic).group
        self._longest = self._gap(0.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last_s = time.perf_counter()
        while not self._stop.is_set():
            try:
                self._client.append(self._topic, _ROW)
                self.begun.set()
            except RaftlogError:
                self.failed += 1
            now_s = time.perf_counter()
            if now_s - last_s > self._longest.seconds:
                self._longest = self._gap(now_s - last_s)
            last_s = now_s

    def _gap(self, seconds: float) -> Gap:
        return Gap(seconds, time.time(), self._topic, self._group)

    def take(self) -> Gap:
        """The longest time since this was last asked."""
        longest, self._longest = self._longest, self._gap(0.0)
        return longest

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()


def rolling(place: Place) -> Iterator[Figure]:
    """Every node is told to stop, and started again when it is gone, under writes."""
    handed, failed = _gaps(place, "rolling", RESTARTS, ())
    elected, _ = _gaps(place, "elected", WITHOUT, ("server.drain_timeout_s=0",))
    about = (
        f"longest time without an acknowledged append in a rolling restart of three nodes, "
        f"{RESTARTS} restarts, {WRITERS} writers, {TOPICS} topics"
    )
    yield Figure(
        name="rolling_gap_p50_ms",
        value=statistics.median(handed) * 1000,
        unit="ms",
        about=about,
        detail={
            "p90_ms": statistics.quantiles(handed, n=10)[-1] * 1000,
            "min_ms": min(handed) * 1000,
            "by_election_p50_ms": statistics.median(elected) * 1000,
            "by_election_max_ms": max(elected) * 1000,
            **{f"restart_{n}_ms": gap_s * 1000 for n, gap_s in enumerate(sorted(handed), 1)},
        },
    )
    yield Figure(
        name="rolling_gap_max_ms", value=max(handed) * 1000, unit="ms", about="of the same restarts"
    )
    yield Figure(
        name="rolling_failed_calls", value=failed, unit="calls", about="of the same writers"
    )


def _gaps(
    place: Place, name: str, restarts: int, settings: tuple[str, ...]
) -> tuple[list[float], int]:
    """Of each restart the longest gap, and how many calls failed. Tells of long gaps."""
    with place.cluster(name, settings=settings) as cluster, cluster.client() as client:
        names = [f"t-{number}" for number in range(TOPICS)]
        for name in names:
            client.create_topic(name, "payload binary not null")
        writers = [_Writer(cluster, name) for name in names[:WRITERS]]
        gaps: list[Gap] = []
        try:
            _settle(cluster, client, names)
            assert all(writer.begun.wait(BEGIN_S) for writer in writers), "a topic has no leader"
            for _ in range(restarts):
                for writer in writers:
                    writer.take()
                steps = _restart(cluster, client, names)
                longest = max(writer.take() for writer in writers)
                gaps.append(longest)
                if longest.seconds > LONG_S:
                    said = _why(longest, steps, cluster.logs)
                    print(f"  restart {len(gaps)}: {said}", file=sys.stderr)
        finally:
            for writer in writers:
                writer.end()
    return [gap.seconds for gap in gaps], sum(writer.failed for writer in writers)


def _restart(
    cluster: ProcessCluster, client: LogClient, names: list[str]
) -> list[tuple[float, str]]:
    """Restart all nodes in turn; what was done when, by the wall clock."""
    steps = []
    for node in (1, 2, 3):
        steps.append((time.time(), f"node {node} was told to stop"))
        cluster.terminate(node)
        steps.append((time.time(), f"node {node} was started"))
        cluster.serve(node)
        _settle(cluster, client, names)
        steps.append((time.time(), f"node {node} had caught up"))
    return steps


def _why(gap: Gap, steps: Sequence[tuple[float, str]], logs: Mapping[int, Path]) -> str:
    """What the nodes did while there was a gap, as far as their logs and ours tell."""
    begun = [(at_s, what) for at_s, what in steps if at_s <= gap.begin_s][-1:] or steps[:1]
    meanwhile = [(at_s, what) for at_s, what in steps if gap.begin_s < at_s <= gap.end_s]
    since = "; ".join(
        f"{gap.begin_s - at_s:.2f} s after {what}" for at_s, what in begun + meanwhile
    )
    terms = [
        f"term {each.term} after {1000 * (each.wall_s - gap.begin_s):.0f} ms"
        for each in node_logs.leaderships(logs.values())
        if each.group == gap.group and gap.begin_s - LONG_S <= each.wall_s <= gap.end_s
    ]
    elected = ", ".join(terms) or "none, so the nodes or the client had no processor"
    return (
        f"{1000 * gap.seconds:.0f} ms without an append to {gap.topic}, from {since}; "
        f"leaders meanwhile: {elected}; load average {os.getloadavg()[0]:.1f}"
    )


def _settle(cluster: ProcessCluster, client: LogClient, names: list[str]) -> None:
    for name in names:
        cluster.wait_caught_up(client, name, lag_entries_max=64, every_s=LOOK_S)
