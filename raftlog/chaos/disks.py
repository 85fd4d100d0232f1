"""The disks of a running cluster, to be slowed, filled, broken and cut off from power."""

from __future__ import annotations

from random import Random

from raftlog.chaos import faulty_disk, power_loss
from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.chaos.faulty_disk import NO_FAULTS, DiskFaults, DiskPlaces
from raftlog.chaos.power_loss import PowerLoss
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError

PROGRAM = "raftlog.chaos.faulty_node"
"""The `program` of a `ProcessCluster` whose disks can be commanded."""

_RESTART_TIMEOUT_S = 60.0


class ClusterDisks:
    """Commands the disks of a cluster that was started with `program=PROGRAM`."""

    def __init__(self, cluster: ProcessCluster) -> None:
        """Every node is restarted, because a cluster is first started by `raftlog up`; all answer
        when it returns."""
        assert cluster.program == PROGRAM, f"the nodes are run by {cluster.program}"
        self._cluster = cluster
        for node in cluster.pids:
            cluster.terminate(node)
            cluster.serve(node)
        self.wait_until_all_serve()

    def wait_until_all_serve(self, timeout_s: float = _RESTART_TIMEOUT_S) -> None:
        """Return when every node answers and knows the controller's leader. Raises
        `DeadlineExceeded`."""
        with self._cluster.client() as client:
            nodes = len(self._cluster.pids)
            wait_for(lambda: _all_serve(client, nodes), "every node to answer", timeout_s)

    def command(self, node: int, faults: DiskFaults) -> None:
        """Let the node's disk do this from its next operation on; the node may be dead now."""
        faulty_disk.command(self._places(node), faults)

    def heal(self, node: int) -> None:
        """Let the node's disk do all that is asked of it."""
        self.command(node, NO_FAULTS)

    def lose_power(self, node: int, random: Random) -> PowerLoss:
        """Take from a dead node's disk what a power loss may take, drawn from the generator."""
        cluster = self._cluster
        assert not cluster.runs(node), "a process must be dead before its disk is touched"
        return power_loss.lose_power(cluster.data / f"node-{node}", self._places(node), random)

    def _places(self, node: int) -> DiskPlaces:
        return DiskPlaces.of(self._cluster.data, node)


def _all_serve(client: LogClient, nodes: int) -> bool:
    try:
        answers = [answer for _, answer in client.describe_cluster()]
    except RaftlogError:
        return False  # nobody answered yet
    described = [each for each in answers if not isinstance(each, RaftlogError) and each.leader]
    return len(described) == nodes
