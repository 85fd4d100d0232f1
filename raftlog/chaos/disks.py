"""The disks of a running cluster, which can be slowed and broken."""

from __future__ import annotations

from raftlog.chaos import faulty_disk
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.faulty_disk import NO_FAULTS, DiskFaults, faults_file
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError

PROGRAM = "raftlog.chaos.faulty_node"
"""The `program` of a `ProcessCluster` whose disks take commands."""


class ClusterDisks:
    """Commands the disks of a cluster that was started with `program=PROGRAM` or one around it."""

    def __init__(self, cluster: ProcessCluster) -> None:
        """Restart every node with the cluster's program: `raftlog up` starts a new cluster without
        it. All nodes answer when this returns."""
        self._cluster = cluster
        for node in cluster.pids:
            cluster.terminate(node)
            cluster.serve(node)
        self.wait_until_all_serve()

    def wait_until_all_serve(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until every node answers and knows the controller's leader. Raises
        `DeadlineExceeded`."""
        with self._cluster.client() as client:
            nodes = len(self._cluster.pids)
            wait_for(lambda: _all_serve(client, nodes), "every node to answer", timeout_s)

    def command(self, node: int, faults: DiskFaults) -> None:
        """Give the node's disk these faults from its next operation on. The node may be dead."""
        faulty_disk.command(faults_file(self._cluster.data, node), faults)

    def heal(self, node: int) -> None:
        """Remove all faults of the node's disk."""
        self.command(node, NO_FAULTS)


def _all_serve(client: LogClient, nodes: int) -> bool:
    try:
        answers = [answer for _, answer in client.describe_cluster()]
    except RaftlogError:
        return False  # no node answered yet
    described = [each for each in answers if not isinstance(each, RaftlogError) and each.leader]
    return len(described) == nodes
