"""A full disk of a real node: its reserve lets topics be trimmed, and all heals by itself.

The disk is a small tmpfs, which needs root: without it the test is skipped by name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.small_disk import SmallDisk
from raftlog.client.log_client import LogClient
from raftlog.errors import DeadlineExceeded
from tests.cluster.waiting import leader_of, let_lead, wait_serving

MIB = 1024 * 1024
DISK_BYTES = 48 * MIB
RESERVE_BYTES = 8 * MIB
TOPIC = "blobs"
SETTINGS = (
    f"storage.full_disk_reserve_bytes={RESERVE_BYTES}",
    f"storage.segment_bytes_max={4 * MIB}",
    "storage.preallocate_bytes=0",
    f"server.entry_bytes_max={2 * MIB}",
    "client.batch_bytes=1048576",
    "raft.preferred_leaders=false",
)

needs_tmpfs = pytest.mark.skipif(
    os.geteuid() != 0, reason="not made here: a full disk needs root, to mount a tmpfs"
)


def append_until_refused(client: LogClient, topic: str) -> tuple[int, DeadlineExceeded]:
    """How many were acknowledged, and the error that says that a disk is full. On a slow machine a
    deadline may pass before."""
    count = 0
    while True:
        try:
            client.append(topic, [{"blob": os.urandom(MIB)}])
        except DeadlineExceeded as error:
            if "is full" in str(error):
                return count, error
        else:
            count += 1


def refusal_of(client: LogClient, topic: str) -> str:
    """What an append is refused with."""
    with pytest.raises(DeadlineExceeded) as caught:
        client.append(topic, [{"blob": b""}])
    return str(caught.value)


@needs_tmpfs
def test_a_full_disk_takes_a_trim_and_heals_by_it(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data", nodes=1, settings=SETTINGS) as cluster:
        disk = SmallDisk(cluster.data, 1, DISK_BYTES)
        cluster.kill(1)
        disk.move_in()
        reserve = cluster.data / "node-1" / "reserve"
        try:
            cluster.serve(1)
            with cluster.client() as client, cluster.client(request_timeout_s=5.0) as hasty:
                wait_serving(cluster)
                wait_for(reserve.exists, "the reserve", PATIENCE_S)
                client.create_topic(TOPIC, "blob binary")
                client.create_topic("other", "blob binary")
                count, refusal = append_until_refused(hasty, TOPIC)
                assert "The disk of node 1 is full" in str(refusal)
                assert not reserve.exists(), "it is in use"
                wait_for(
                    lambda: "The disk of node 1 is full" in refusal_of(hasty, "other"),
                    "the other topic to be refused as well",
                    PATIENCE_S,
                )
                held = client.read_high_water_mark(TOPIC)
                assert held.high_water_mark >= count
                assert sum(batch.num_rows for batch in client.read(TOPIC)) == held.high_water_mark
                assert client.trim(TOPIC, before=held.high_water_mark) == held.high_water_mark
                wait_for(reserve.exists, "the reserve again", PATIENCE_S)
                client.append("other", [{"blob": b""}])
                client.append(TOPIC, [{"blob": os.urandom(MIB)}])
                assert client.read_high_water_mark(TOPIC).high_water_mark == (
                    held.high_water_mark + 1
                )
        finally:
            cluster.kill(1)
            disk.move_out()


@needs_tmpfs
def test_a_leader_with_room_takes_no_records_that_a_majority_has_no_room_for(
    tmp_path: Path,
) -> None:
    """It names the nodes. What it took before has room in their reserves, and so a trim passes."""
    with (
        ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as cluster,
        cluster.client() as client,
        cluster.client(request_timeout_s=5.0) as hasty,
    ):
        topic = client.create_topic(TOPIC, "blob binary")
        leader = leader_of(client, TOPIC)
        first, second = (node for node in (1, 2, 3) if node != leader)
        disks = {node: SmallDisk(cluster.data, node, DISK_BYTES) for node in (first, second)}
        reserves = [cluster.data / f"node-{node}" / "reserve" for node in disks]
        try:
            for node, disk in disks.items():  # one after another: the leader stays
                cluster.kill(node)
                disk.move_in()
                cluster.serve(node)
                cluster.wait_caught_up(client, TOPIC)
            wait_for(lambda: all(each.exists() for each in reserves), "reserves", PATIENCE_S)
            both = f"The disk of node {first} and of node {second} is full"

            def are_both_named() -> bool:
                if leader_of(client, TOPIC) != leader:  # an election on a slow machine
                    let_lead(client, topic.group, leader)
                return both in refusal_of(hasty, TOPIC)

            append_until_refused(hasty, TOPIC)
            wait_for(are_both_named, "a refusal by both", PATIENCE_S)
            mark = client.read_high_water_mark(TOPIC).high_water_mark
            assert client.trim(TOPIC, before=mark) == mark
            wait_for(lambda: all(each.exists() for each in reserves), "reserves", PATIENCE_S)
            client.append(TOPIC, [{"blob": b""}])
        finally:
            for node, disk in disks.items():
                cluster.kill(node)
                disk.move_out()
