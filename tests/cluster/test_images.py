"""A node that was away while its peers dropped their logs gets their images, whoever dies then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.machines.commands import TopicInfo
from tests.cluster.waiting import leader_of

SETTINGS = [
    "storage.segment_bytes_max=1048576",
    "storage.snapshot_bytes=1048576",
    "storage.log_behind_bytes_max=0",
    "storage.payload_cache_bytes_max=0",
    "client.batch_bytes=262144",
    "server.entry_bytes_max=524288",
    "raft.append_bytes_max=262144",
    "server.catch_up_bytes_per_s_max=1048576",
]
"""Points and segments every few appends, and images that take some seconds."""

ROWS = 120
ROW_BYTES = 100_000


def append(client: LogClient, topic: TopicInfo, start: int, end: int) -> None:
    for number in range(start, end):
        text = os.urandom(ROW_BYTES // 2).hex()
        client.append(topic, [{"number": number, "text": text}])


def numbers(client: LogClient, topic: TopicInfo) -> list[int]:
    """All rows' numbers, from whichever node runs: the mark is known, so no leader is needed."""
    batches = client.read(topic, 0, mark=ROWS, columns=["number"])
    return [row["number"] for batch in batches for row in batch.to_pylist()]


def test_a_node_that_was_away_comes_back_by_an_image(tmp_path: Path) -> None:
    """CHECKLIST 50. The receiver is killed midway, and then the sender; all rows are there once."""
    with (
        ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("t", "number bigint, text string")
        append(client, topic, 0, 10)
        away = leader_of(client, "t") % 3 + 1
        cluster.wait_caught_up(client, "t")
        last_index = client.watermark("t").last_index
        cluster.kill(away)
        append(client, topic, 10, ROWS)
        wait_for(
            lambda: _first_kept(client) > last_index + 1,
            "the others to drop their logs",
            PATIENCE_S,
        )

        folder = cluster.data / f"node-{away}" / "groups" / str(topic.group)
        cluster.serve(away)
        _wait_received(folder, lambda received: received > 1_000_000)
        cluster.kill(away)
        before = _received(folder)
        cluster.serve(away)
        _wait_received(folder, lambda received: received > before + 500_000)
        assert _received(folder) >= before, "what was received is kept"
        leader = leader_of(client, "t")
        cluster.kill(leader)
        wait_for(
            lambda: "installed an image" in cluster.logs[away].read_text(), "an image", PATIENCE_S
        )
        cluster.serve(leader)
        cluster.wait_caught_up(client, "t", timeout_s=PATIENCE_S)
        for node in {1, 2, 3} - {away}:
            cluster.kill(node)
        assert numbers(client, topic) == list(range(ROWS))


def _first_kept(client: LogClient) -> int:
    """The first entry that the leader's log still holds."""
    mark = client.watermark("t")
    return next((each.log_start_index for each in mark.replicas if each.role == "leader"), 0)


def _received(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("incoming-*"))


def _wait_received(folder: Path, enough: Callable[[int], bool]) -> None:
    wait_for(lambda: enough(_received(folder)), "some of an image", PATIENCE_S)
