"""A row of 64 MiB is written, replicated and read where the limits allow it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.chaos.cluster import ProcessCluster

MIB = 1024 * 1024
RAISED = (
    f"server.entry_bytes_max={80 * MIB}",
    f"server.peer_queue_bytes_max={160 * MIB}",
    f"storage.segment_bytes_max={160 * MIB}",
)
"""As docs/OPERATIONS.md says it, Current limits."""


@pytest.mark.soak
def test_rows_of_64_mib_are_on_every_node_and_survive_a_restart(tmp_path: Path) -> None:
    rows = [os.urandom(64 * MIB) for _ in range(3)]
    with (
        ProcessCluster.start(tmp_path / "data", settings=RAISED) as cluster,
        cluster.client() as client,
    ):
        client.create_topic("t", "payload binary not null")
        for row in rows:
            client.append("t", [{"payload": row}])
        for node in (1, 2, 3):
            cluster.wait_caught_up(client, "t")
            cluster.kill(node)
            read = [row for table in client.read("t") for row in table.to_pylist()]
            assert [row["payload"] for row in read] == rows
            cluster.serve(node)
