"""Bytes flipped on one node's disk are never served: another copy is read instead."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa

from raftlog.chaos.cluster import ProcessCluster, wait_for
from tests.cluster.waiting import leader_of

UNCACHED = ["storage.payload_cache_bytes_max=0"]


def test_a_damaged_body_is_read_from_another_replica(tmp_path: Path) -> None:
    """CHECKLIST 21, for bits flipped on a minority."""
    text = os.urandom(100_000).hex()
    with (
        ProcessCluster.start(tmp_path / "data", settings=UNCACHED) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("t", "text string")
        client.append("t", [{"text": text}])
        cluster.wait_caught_up(client, "t")
        segment = cluster.data / "node-1" / "groups" / str(topic.group) / "00000000000000000001.log"
        data = segment.read_bytes()
        place = data.index(text[1000:1100].encode())
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(b"!")
        for _ in range(6):
            (batch,) = client.read("t")
            assert pa.Table.from_batches([batch]).to_pylist() == [{"text": text}]


def test_a_node_whose_acknowledged_entries_are_gone_ends_and_says_so(tmp_path: Path) -> None:
    """An older copy of a log: with it a leader could be elected that lacks acknowledged entries."""
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        client.append("t", [{"number": 0}])
        cluster.wait_caught_up(client, "t")
        follower = leader_of(client, "t") % 3 + 1
        folder = cluster.data / f"node-{follower}" / "groups" / str(topic.group)
        cluster.kill(follower)
        shutil.copytree(folder, tmp_path / "older")
        cluster.serve(follower)
        for number in range(1, 6):
            client.append("t", [{"number": number}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(follower)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "older", folder)
        log = cluster.logs[follower]
        cluster.serve(follower)
        wait_for(lambda: "the node exits" in log.read_text(), "the node to exit", 20)
        assert "an acknowledged entry is gone from this log" in log.read_text()
        assert client.append("t", [{"number": 6}]).start == 6


def test_a_node_with_a_wiped_folder_is_refused_and_ends(tmp_path: Path) -> None:
    """It has forgotten its votes, and reports that instead of waiting for ever."""
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("t", "number bigint")
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        shutil.rmtree(cluster.data / "node-3")
        log = cluster.logs[3]
        cluster.serve(3)
        wait_for(lambda: "error: Node 3 is known with store" in log.read_text(), "the end", 20)
        said = "".join(cluster.logs[node].read_text() for node in (1, 2))
        assert said.count("peer refused") <= 10, "a refused peer does not fill the log"


def test_a_wiped_folder_helps_no_node_that_has_just_started_to_lead(tmp_path: Path) -> None:
    """Node 1 missed what 2 and 3 acknowledged. With the vote of a wiped node 3 it would be lost.
    All have just started, so no node knows yet how much of the controller's log is committed.
    """
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("old", "number bigint")
        cluster.wait_caught_up(client, "old")
        cluster.kill(1)
        client.create_topic("new", "number bigint")
        assert client.append("new", [{"number": 1}]).start == 0
        assert client.append("old", [{"number": 1}]).start == 0
        cluster.kill(2)
        cluster.kill(3)
        shutil.rmtree(cluster.data / "node-3")
        log_1, log_3 = cluster.logs[1], cluster.logs[3]
        before = len(log_1.read_text())
        cluster.serve(1)
        wait_for(lambda: '"serving"' in log_1.read_text()[before:], "node 1 to serve", 20)
        cluster.serve(3)
        wait_for(lambda: "error: Node 3 is known with store" in log_3.read_text(), "the end", 20)
        assert '"role": "leader"' not in log_1.read_text()[before:]
        cluster.serve(2)
        assert client.append("new", [{"number": 2}]).start == 1
        assert client.append("old", [{"number": 2}]).start == 1
