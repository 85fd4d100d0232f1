"""Nodes whose processes may open few files: what needs more waits or is rejected, and none ends."""

from __future__ import annotations

import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient

FEW = 160
WRAPPER = ("prlimit", f"--nofile={FEW}:{FEW}")
TOPICS = 137
STRANGERS = 300


def records(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": [number]}, pa.schema({"id": pa.int64()}))


def written(client: LogClient, topic: str, number: int) -> None:
    with client.producer(topic) as producer:
        producer.append(records(number))


def all_run(cluster: ProcessCluster) -> bool:
    return all(cluster.runs(node) for node in cluster.pids)


@pytest.mark.soak
def test_nodes_serve_nearly_as_many_topics_as_they_may_open_files(tmp_path: Path) -> None:
    topics = [f"t{number}" for number in range(TOPICS)]
    data = tmp_path / "data"
    with ProcessCluster.start(data, wrapper=WRAPPER) as cluster, cluster.client() as client:
        for number, topic in enumerate(topics):
            client.create_topic(topic, "id bigint")
            written(client, topic, number)
        for number, topic in enumerate(topics):
            written(client, topic, -number)
        assert all_run(cluster)
    with ProcessCluster.start(data, wrapper=WRAPPER) as cluster, cluster.client() as client:
        for topic in topics:
            assert client.watermark(topic).high_water_mark == 2
            written(client, topic, 0)
        assert all_run(cluster)


def test_strangers_connections_leave_files_to_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ProcessCluster.start(data, wrapper=WRAPPER) as cluster, ExitStack() as strangers:
        with cluster.client() as client:
            client.create_topic("before", "id bigint")
            for node in cluster.pids:
                host, _, port = cluster.address(node).rpartition(":")
                for _ in range(STRANGERS):
                    strangers.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            client.create_topic("after", "id bigint")
            for topic in ("before", "after"):
                written(client, topic, 1)
                cluster.wait_caught_up(client, topic)
        assert all_run(cluster)
    with ProcessCluster.start(data, wrapper=WRAPPER) as cluster, cluster.client() as client:
        # Until a leader is elected, a node that has restarted knows of no committed entry.
        wait_for(lambda: client.watermark("after").high_water_mark == 1, "the record", PATIENCE_S)


def let_open(cluster: ProcessCluster, most: int | None) -> None:
    """Let the running nodes have so many files open; None: as many as they may."""
    for pid in cluster.pids.values():
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard if most is None else most, hard))


def test_nodes_that_can_open_nothing_wait_until_they_can(tmp_path: Path) -> None:
    """Not even what they keep for themselves: every file that they need they cannot open."""
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("before", "id bigint")
        written(client, "before", 1)
        with ThreadPoolExecutor() as threads:
            let_open(cluster, 4)
            created = threads.submit(client.create_topic, "after", "id bigint")
            appended = threads.submit(written, client, "before", 2)
            reached = '"the node has reached a limit'
            wait_for(
                lambda: any(reached in log.read_text() for log in cluster.logs.values()),
                "a node that has reached a limit",
                PATIENCE_S,
            )
            assert all_run(cluster)
            let_open(cluster, None)
            created.result(PATIENCE_S)
            appended.result(PATIENCE_S)
        for topic in ("before", "after"):
            written(client, topic, 3)
            cluster.wait_caught_up(client, topic)
        assert all_run(cluster)
