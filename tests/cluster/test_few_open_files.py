"""Nodes whose processes may open few files: what needs more waits or is rejected, and none ends."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
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
        assert client.watermark("after").high_water_mark == 1
