"""Bytes turned over on one node's disk are never served: another copy is read instead."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from raftlog.chaos.cluster import ProcessCluster


def test_a_damaged_body_is_read_from_another_replica(tmp_path: Path) -> None:
    """CHECKLIST 21: FAULTS, flipped bits on a minority."""
    text = os.urandom(100_000).hex()
    with (
        ProcessCluster.start(tmp_path / "data", settings=["storage.cache_bytes_max=0"]) as cluster,
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
