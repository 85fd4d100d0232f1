"""The files that one append passes through, in the client, the leader and the follower.

Two real nodes, so that each append needs both, and a producer in this process. All three note which
file ran when; an append's window is from the call until its reply. A file counts that ran in most
of the windows: ticks and heartbeats are in few. The follower applies an append in the next one's
window, when it learns that it is committed.
"""

from __future__ import annotations

import time
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from tests.cluster.waiting import LEADERS_STAY, leader_of, wait_serving
from tests.house import tracing
from tests.house.traced_node import trace_of

APPENDS = 50
FIRST_APPENDS = 10
"""Before these are done, connections are made and caches filled."""
NODES = (1, 2)
TOPIC = "traced"


def passed_files(data: Path) -> dict[str, set[str]]:
    """By process, the files of the product, as paths below `raftlog`."""
    with ProcessCluster.start(data, nodes=len(NODES), settings=[LEADERS_STAY]) as cluster:
        cluster.program = "tests.house.traced_node"
        for node in NODES:
            cluster.terminate(node)
        for node in NODES:
            cluster.serve(node)
        wait_serving(cluster)
        with tracing.traced() as times, cluster.client() as client:
            client.create_topic(TOPIC, "id bigint")
            windows = _append(client)
            leader = leader_of(client, TOPIC)
        for node in NODES:
            cluster.terminate(node)
    [follower] = set(NODES) - {leader}
    noted = {
        "client": times,
        "leader": tracing.read(trace_of(data, leader)),
        "follower": tracing.read(trace_of(data, follower)),
    }
    return {process: tracing.in_most(at, windows) for process, at in noted.items()}


def _append(client: LogClient) -> list[tuple[int, int]]:
    """Append one record after the other; when each call began and ended."""
    windows = []
    with client.producer(TOPIC) as producer:
        for number in range(FIRST_APPENDS + APPENDS):
            began_ns = time.monotonic_ns()
            producer.append_and_flush([{"id": number}])
            windows.append((began_ns, time.monotonic_ns()))
    return windows[FIRST_APPENDS:]
