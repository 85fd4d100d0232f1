"""A stream whose tasks are sent to a replica that lags, and to one that hangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from raftlog.chaos.cluster import ProcessCluster, free_ports
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.chaos.workload import OneNode
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.errors import NotYet
from tests.spark.conftest import Lab, wait_until

NODES = (1, 2, 3)
TASKS = 6
"""Each asks another node first, so every node is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A cluster whose wires can be cut."""

    cluster: ProcessCluster
    links: PeerLinks

    def cut_off(self, node: int) -> None:
        """No bytes between the node and the others; clients still reach it."""
        for other in set(NODES) - {node}:
            self.links.set(node, other, Wire(cut=True))
            self.links.set(other, node, Wire(cut=True))

    def only(self, node: int) -> LogClient:
        """A client only of this node, which asks it once."""
        return LogClient(OneNode(load().client, self.cluster.address(node)))


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    with ExitStack() as stack:
        port = free_ports(len(NODES))
        addresses = {node: f"127.0.0.1:{port + node - 1}" for node in NODES}
        links = stack.enter_context(PeerLinks(addresses))
        cluster = stack.enter_context(
            ProcessCluster.start(
                tmp_path / "data", port=port, settings=[f"server.peer_routes={links.routes}"]
            )
        )
        yield Wired(cluster=cluster, links=links)


def test_tasks_sent_to_a_lagging_or_hanging_replica_read_the_same_rows(spark, wired, tmp_path):
    """One answers NotYet, the other does not answer: each time the next replica is asked."""
    with wired.cluster.client() as client:
        lab = Lab(spark, wired.cluster, client, tmp_path / "lab")
        lab.create()
        lab.append(*range(12))
        seen: list[int] = []
        stream = lab.read_stream(startingOffsets="earliest", minPartitions=TASKS)
        query = lab.collect(stream, seen, processingTime="0 seconds")
        wait_until(lambda: seen == list(range(12)), "the rows that every replica has", query)
        leader = lab.leader()
        follower = next(node for node in NODES if node != leader)

        wired.cut_off(follower)
        lab.append(*range(12, 24))
        wait_until(lambda: seen == list(range(24)), "the rows that one replica lacks", query)
        topic = client.describe_topic(lab.topic)
        with (
            wired.only(follower) as asked,
            pytest.raises(NotYet, match="has applied up to offset 12 of 24"),
        ):
            list(asked.read(topic, 12, 24, mark=24))

        wired.links.heal()
        wired.cluster.wait_caught_up(client, lab.topic)
        wired.cluster.pause(follower)
        lab.append(*range(24, 36))
        wait_until(lambda: seen == list(range(36)), "the rows while one replica hangs", query)
        query.stop()
