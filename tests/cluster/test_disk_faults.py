"""Disks that fail, are slow or full below real nodes: what the others and the clients see."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.chaos.disks import PROGRAM, ClusterDisks
from raftlog.chaos.faulty_disk import DiskFaults
from raftlog.client.log_client import LogClient
from raftlog.errors import ExitCode, RaftlogError

TOPIC = "load"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster.start(tmp_path / "data", program=PROGRAM) as running:
        yield running


@pytest.fixture
def disks(cluster: ProcessCluster) -> ClusterDisks:
    return ClusterDisks(cluster)


class Load:
    """Appends numbered records from a thread, one after another, until told to stop."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        """(offset, number) of each append that was answered."""
        self.failed: list[str] = []
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        self.wait_for_more(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def wait_for_more(self, count: int) -> None:
        goal = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= goal, f"{goal} acknowledged appends", 60)

    def _run(self) -> None:
        number = 0
        with self._cluster.client() as client:
            while not self._stop.is_set():
                try:
                    reply = client.append(TOPIC, [{"number": number}])
                except RaftlogError as error:
                    self.failed.append(str(error))
                else:
                    self.acknowledged.append((reply.start, number))
                number += 1


def check(load: Load, client: LogClient) -> None:
    """Nothing acknowledged is lost, doubled or moved, and no append failed."""
    found: list[int] = []
    for batch in client.read(TOPIC, columns=["number"]):
        found += batch.column("number").to_pylist()
    assert [found[offset] for offset, _ in load.acknowledged] == [n for _, n in load.acknowledged]
    assert len(set(found)) == len(found)
    assert found == sorted(found)
    assert load.failed == []


@pytest.mark.parametrize(
    ("leads", "faults"),
    [
        (True, DiskFaults(sync_fails_after=5, only="/groups/")),
        (False, DiskFaults(sync_fails_after=3)),
        (True, DiskFaults(write_fails_after=2)),
    ],
    ids=["the leader's log is not synced", "a follower does not sync", "the leader cannot write"],
)
def test_a_disk_that_fails_once_ends_its_node_and_nobody_notices(
    cluster: ProcessCluster, disks: ClusterDisks, leads: bool, faults: DiskFaults
) -> None:
    """One failure, and all that follows would succeed: a node that tried again would live on."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with Load(cluster) as load:
            leader = cluster.leader(client, TOPIC)
            hit = leader if leads else leader % 3 + 1
            disks.command(hit, faults)
            wait_for(lambda: cluster.exit_code(hit) is not None, "the node to end", 20)
            assert cluster.exit_code(hit) == ExitCode.NODE_REFUSED
            said = cluster.logs[hit].read_text()
            assert "the node ends" in said
            assert "Input/output error (injected)" in said
            load.wait_for_more(20)
            disks.heal(hit)
            cluster.serve(hit)
            cluster.wait_caught_up(client, TOPIC, lag_entries_max=50)
        cluster.wait_caught_up(client, TOPIC)
        check(load, client)


def test_a_vote_that_cannot_be_synced_is_never_given(
    cluster: ProcessCluster, disks: ClusterDisks
) -> None:
    """CHECKLIST 31, 77: a node whose journal fails ends before it answers the candidate."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with Load(cluster) as load:
            leader = cluster.leader(client, TOPIC)
            voter = leader % 3 + 1
            disks.command(voter, DiskFaults(sync_fails_after=0, only="hard-state.journal"))
            cluster.kill(leader)
            wait_for(lambda: not cluster.runs(voter), "the voter to end", 20)
            assert "hard-state.journal" in cluster.logs[voter].read_text()
            disks.heal(voter)
            cluster.serve(voter)
            cluster.serve(leader)
            load.wait_for_more(20)
        cluster.wait_caught_up(client, TOPIC)
        check(load, client)
