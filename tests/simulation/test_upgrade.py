"""Rules are raised when all nodes know them, by each group's leader, and reach every replica."""

from __future__ import annotations

import pytest

from raftlog.core.types import CONTROLLER_GROUP, NodeId, Payload
from raftlog.machines.commands import RegisterNode
from raftlog.machines.outcomes import NodeRegistered
from raftlog.machines.rules import RULES_FIRST, RULES_LATEST
from raftlog.wire.codec import encode_command
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.test_quiescence import SEEDS


def register(cluster: CalmCluster, node: NodeId, rules: int) -> None:
    command = RegisterNode(
        node=node, store_uuid=f"store-{node}", address=f"node-{node}:1", rules=rules
    )
    outcome = cluster.write(CONTROLLER_GROUP, Payload(encode_command(command, None), b""))
    assert isinstance(outcome, NodeRegistered)


def rules(cluster: CalmCluster) -> set[int]:
    """The versions that the replicas of all groups apply by."""
    return {local.machine.rules for group in cluster.groups for local in cluster.replicas(group)}


@pytest.mark.parametrize("seed", SEEDS)
def test_one_node_that_is_older_holds_the_rules_back_until_it_knows_them(seed: int) -> None:
    cluster = CalmCluster(seed)
    for node in VOTERS[:2]:
        register(cluster, node, RULES_LATEST)
    cluster.pass_timeouts(4)
    assert rules(cluster) == {RULES_FIRST}, "node 3 has not registered"
    register(cluster, VOTERS[2], 0)
    cluster.pass_timeouts(4)
    assert rules(cluster) == {RULES_FIRST}, "node 3 runs an older program"
    register(cluster, VOTERS[2], RULES_LATEST)
    cluster.wait(lambda: rules(cluster) == {RULES_LATEST})
    cluster.create_topic("made-after")
    cluster.wait(lambda: bool(cluster.replicas(cluster.groups[-1])))
    made = cluster.replicas(cluster.groups[-1])[0].info
    assert made is not None
    assert made.rules == RULES_LATEST


@pytest.mark.parametrize("seed", SEEDS)
def test_a_later_leader_raises_the_rules_of_its_group(seed: int) -> None:
    """The leader's proposal was lost; a leader proposes once in a term, so its successor proposes
    it again."""
    cluster = CalmCluster(seed)
    group = cluster.groups[1]
    cluster.wait(lambda: cluster.leader(group) is not None)
    leader = cluster.leader(group)
    assert leader is not None
    local = cluster.local(leader, group)
    local.rules_proposed = (local.replica.raft.term, RULES_LATEST)
    for node in VOTERS:
        register(cluster, node, RULES_LATEST)
    cluster.pass_timeouts(2)
    assert {each.machine.rules for each in cluster.replicas(group)} == {RULES_FIRST}
    cluster.nodes[leader].end(power=False)
    cluster.wait(lambda: cluster.has_other_leaders(leader))
    cluster.wait(lambda: {each.machine.rules for each in cluster.replicas(group)} == {RULES_LATEST})
