"""Where the space of trimmed records goes: back, without another write."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.client.watermark import ReplicaWatermark
from tests.cluster.kept import Kept

TOPIC = "blobs"
MEGABYTE = 1_000_000
NODES = 3


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    settings = ("storage.snapshot_age_s=1", "storage.preallocate_bytes=0", "raft.quiesce_after_s=1")
    with Kept(tmp_path_factory.mktemp("freed"), nodes=NODES, settings=settings) as kept:
        yield kept


@pytest.fixture
def cluster(_kept: Kept) -> ProcessCluster:
    return _kept.whole()


def replicas(client: LogClient) -> tuple[ReplicaWatermark, ...]:
    return client.watermark(TOPIC).replicas


def append(client: LogClient, count: int) -> None:
    """So many megabytes that no codec makes smaller, each an entry."""
    for _ in range(count):
        client.append(TOPIC, [{"blob": os.urandom(MEGABYTE)}])


def bytes_on_disk(cluster: ProcessCluster, node: int) -> int:
    groups = cluster.data / f"node-{node}" / "groups"
    return sum(file.stat().st_blocks * 512 for file in groups.rglob("*") if file.is_file())


def test_an_idle_topic_gives_back_what_was_trimmed(cluster: ProcessCluster) -> None:
    with cluster.client() as client:
        client.create_topic(TOPIC, "blob binary")
        append(client, 4)
        wait_for(
            lambda: all(
                each.history_end == 4 and each.log_bytes < MEGABYTE for each in replicas(client)
            ),
            "history that stands in for the log",
            PATIENCE_S,
        )
        append(client, 3)
        wait_for(
            lambda: all(
                bytes_on_disk(cluster, node) > 7 * MEGABYTE for node in range(1, NODES + 1)
            ),
            "the records on every node",
            PATIENCE_S,
        )
        client.trim(TOPIC, before=7)
        wait_for(
            lambda: all(bytes_on_disk(cluster, node) < MEGABYTE for node in range(1, NODES + 1)),
            "the space of what was trimmed",
            PATIENCE_S,
        )
        at = [each.snapshot_index for each in replicas(client)]
        append(client, 1)
        assert client.read_high_water_mark(TOPIC).high_water_mark == 8
        assert len(set(at)) == 1, "replicas compact at the same points"


def test_a_small_history_file_is_written_again_without_what_is_trimmed(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client:
        client.create_topic(TOPIC, "blob binary")
        client.append(TOPIC, [{"blob": os.urandom(MEGABYTE // 4)} for _ in range(4)])
        wait_for(
            lambda: all(each.history_end == 4 for each in replicas(client)), "history", PATIENCE_S
        )
        before = [each.snapshot_index for each in replicas(client)]
        client.trim(TOPIC, before=3)
        wait_for(
            lambda: all(
                each.snapshot_index > was and each.points_behind == 0
                for each, was in zip(replicas(client), before, strict=True)
            ),
            "the next snapshot",
            PATIENCE_S,
        )
        assert all(0 < each.history_bytes < MEGABYTE // 2 for each in replicas(client))
        (left,) = client.read(TOPIC)
        assert left.num_rows == 1
        client.trim(TOPIC, before=4)
        wait_for(
            lambda: all(each.history_bytes == 0 for each in replicas(client)),
            "the file's end",
            PATIENCE_S,
        )
