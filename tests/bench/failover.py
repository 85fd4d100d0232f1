"""How long no write is acknowledged after the leader is killed: many kills and groups, no Spark."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.cluster.waiting import leader_of

KILLS = 20
TOPICS = 50
_WARM_APPENDS = 20
_ROW = [{"payload": bytes(100)}]


def failover(place: Place) -> Iterator[Figure]:
    """From the signal to the first acknowledged append that was begun after it."""
    with place.cluster("failover") as cluster, cluster.client() as client:
        for number in range(TOPICS):
            client.create_topic(f"t-{number}", "payload binary not null")
        gaps_s = [_gap_s(cluster, client, f"t-{kill % TOPICS}") for kill in range(KILLS)]
    about = f"kill -9 of the leader to the next acknowledged append, {KILLS} kills, {TOPICS} topics"
    detail = {f"kill_{number}_s": gap_s for number, gap_s in enumerate(sorted(gaps_s), 1)}
    yield Figure(
        name="failover_p50_s",
        value=statistics.median(gaps_s),
        unit="s",
        about=about,
        detail=detail,
    )
    yield Figure(name="failover_max_s", value=max(gaps_s), unit="s", about="of the same kills")


def _gap_s(cluster: ProcessCluster, client: LogClient, topic: str) -> float:
    for _ in range(_WARM_APPENDS):
        client.append(topic, _ROW)
    leader = leader_of(client, topic)
    os.kill(cluster.pids[leader], signal.SIGKILL)
    killed_s = time.perf_counter()
    client.append(topic, _ROW)
    gap_s = time.perf_counter() - killed_s
    cluster.kill(leader)  # waits until it is gone
    cluster.serve(leader)
    for number in range(TOPICS):
        cluster.wait_caught_up(client, f"t-{number}")
    return gap_s
