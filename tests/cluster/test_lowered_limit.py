"""A lower `server.entry_bytes_max` applies only to new writes: what is logged stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.chaos.cluster import ProcessCluster
from raftlog.errors import TooLarge

MIB = 1024 * 1024
LOWERED = [f"server.entry_bytes_max={2 * MIB}", f"raft.append_bytes_max={MIB}"]


@pytest.mark.soak
def test_entries_above_a_lowered_limit_reach_a_follower_and_are_read(tmp_path: Path) -> None:
    """The follower that lacks them takes messages of 5 MiB by its own settings."""
    large = [os.urandom(7 * MIB), os.urandom(6 * MIB)]
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("t", "payload binary not null")
        client.append("t", [{"payload": b"first"}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        for payload in large:
            client.append("t", [{"payload": payload}])
    with (
        ProcessCluster.start(tmp_path / "data", settings=LOWERED) as cluster,
        cluster.client() as client,
    ):
        cluster.wait_caught_up(client, "t")
        with pytest.raises(TooLarge, match="entry_bytes_max"):
            client.append("t", [{"payload": large[0]}])
        client.append("t", [{"payload": b"last"}])
        # Each node has everything: any two continue without the third.
        for node in (1, 2, 3):
            cluster.kill(node)
            rows = [row for table in client.read("t") for row in table.to_pylist()]
            assert [row["payload"] for row in rows] == [b"first", *large, b"last"]
            cluster.serve(node)
            cluster.wait_caught_up(client, "t")
