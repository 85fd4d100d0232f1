"""How long no write is acknowledged while a cluster is restarted, one node after the other."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from tests.bench.figures import Figure

RESTARTS = 20
WITHOUT = 5
"""Restarts of the whole cluster; and so many where a node does not hand over what it leads."""
WRITERS = 3
TOPICS = 12
_ROW = [{"payload": bytes(100)}]


class _Writer:
    """Appends to a topic, one row after the other, and notes the longest time without an answer."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        self.longest_s = 0.0
        self.failed = 0
        self._client = cluster.client()
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last_s = time.perf_counter()
        while not self._stop.is_set():
            try:
                self._client.append(self._topic, _ROW)
            except RaftlogError:
                self.failed += 1
            now_s = time.perf_counter()
            self.longest_s = max(self.longest_s, now_s - last_s)
            last_s = now_s

    def take(self) -> float:
        """The longest time since this was last asked."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()


def rolling(folder: Path) -> Iterator[Figure]:
    """Every node is told to stop, and started again when it is gone, under writes."""
    handed, failed = _gaps(folder / "rolling", RESTARTS, ())
    elected, _ = _gaps(folder / "elected", WITHOUT, ("server.drain_timeout_s=0",))
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
            **{f"restart_{n}_ms": gap_s * 1000 for n, gap_s in enumerate(sorted(handed), 1)},
            "by_election_p50_ms": statistics.median(elected) * 1000,
            "by_election_max_ms": max(elected) * 1000,
        },
    )
    yield Figure(
        name="rolling_gap_max_ms", value=max(handed) * 1000, unit="ms", about="of the same restarts"
    )
    yield Figure(
        name="rolling_failed_calls", value=failed, unit="calls", about="of the same writers"
    )


def _gaps(folder: Path, restarts: int, settings: tuple[str, ...]) -> tuple[list[float], int]:
    with (
        ProcessCluster.start(folder, settings=settings) as cluster,
        cluster.client() as client,
    ):
        names = [f"t-{number}" for number in range(TOPICS)]
        for name in names:
            client.create_topic(name, "payload binary not null")
        writers = [_Writer(cluster, name) for name in names[:WRITERS]]
        gaps_s = []
        try:
            _settle(cluster, client, names)
            for _ in range(restarts):
                for writer in writers:
                    writer.take()
                for node in (1, 2, 3):
                    cluster.terminate(node)
                    cluster.serve(node)
                    _settle(cluster, client, names)
                gaps_s.append(max(writer.take() for writer in writers))
        finally:
            for writer in writers:
                writer.end()
    return gaps_s, sum(writer.failed for writer in writers)


def _settle(cluster: ProcessCluster, client: LogClient, names: list[str]) -> None:
    for name in names:
        cluster.wait_caught_up(client, name, lag_entries_max=64)
