"""Rules are raised when all nodes know them, by each group's leader, and reach every replica.

There is one version of them so far; these nodes' program knows another, which changes nothing.
"""

from __future__ import annotations

import pytest

from raftlog.core.types import CONTROLLER_GROUP, NodeId, Payload
from raftlog.errors import RulesTooOld
from raftlog.machines import rules as product
from raftlog.machines.commands import RegisterNode, Trim
from raftlog.machines.outcomes import NodeRegistered
from raftlog.machines.rules import RULES_FIRST, RULES_LATEST
from raftlog.multiraft import upgrade
from raftlog.wire.codec import encode_command
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.test_quiescence import SEEDS

NEXT = RULES_LATEST + 1


@pytest.fixture(autouse=True)
def newer_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node says that it knows is up to each test."""
    monkeypatch.setattr(product, "RULES_LATEST", NEXT)
    monkeypatch.setattr(upgrade, "RULES_LATEST", NEXT)


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
def test_one_node_that_is_older_keeps_the_former_rules_until_it_knows_the_next(seed: int) -> None:
    cluster = CalmCluster(seed)
    for node in VOTERS[:2]:
        register(cluster, node, NEXT)
    cluster.pass_timeouts(4)
    assert rules(cluster) == {RULES_FIRST}, "node 3 has not registered"
    register(cluster, VOTERS[2], RULES_FIRST)
    cluster.pass_timeouts(4)
    assert rules(cluster) == {RULES_FIRST}, "node 3 runs an older program"
    register(cluster, VOTERS[2], NEXT)
    cluster.wait(lambda: rules(cluster) == {NEXT})
    cluster.create_topic("made-after")
    cluster.wait(lambda: bool(cluster.replicas(cluster.groups[-1])))
    made = cluster.replicas(cluster.groups[-1])[0].info
    assert made is not None
    assert made.rules == NEXT


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
    local.rules_proposed = (local.replica.raft.term, NEXT)
    for node in VOTERS:
        register(cluster, node, NEXT)
    cluster.pass_timeouts(2)
    assert {each.machine.rules for each in cluster.replicas(group)} == {RULES_FIRST}
    cluster.nodes[leader].end(power=False)
    cluster.wait(lambda: cluster.has_other_leaders(leader))
    cluster.wait(lambda: {each.machine.rules for each in cluster.replicas(group)} == {NEXT})


def test_a_command_of_the_next_version_is_proposed_only_under_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(product.BROUGHT_BY, Trim, NEXT)
    cluster = CalmCluster(1)
    group = cluster.groups[1]
    local = cluster.replicas(group)[0]
    with pytest.raises(RulesTooOld) as caught:
        local.payload(Trim(offset=0))
    assert (caught.value.what, caught.value.topic) == ("Trim", "topic-0")
    assert (caught.value.rules, caught.value.needed) == (RULES_FIRST, NEXT)
    for node in VOTERS:
        register(cluster, node, NEXT)
    cluster.wait(lambda: rules(cluster) == {NEXT})
    assert local.payload(Trim(offset=0)).command == encode_command(Trim(offset=0), None)
