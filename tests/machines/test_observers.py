"""Observers as the controller knows them: added, told what to pull from, removed."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog.core.types import NodeId
from raftlog.machines.commands import AddNode, RetireNode, SetParents
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.limits import PARENTS_MAX
from raftlog.machines.outcomes import NodeAdded, NodeRetired, ParentsSet
from tests.machines.test_placements import Cluster, code


def ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


def observe(cluster: Cluster, node: int, *parents: int) -> Any:
    return cluster.apply(
        AddNode(node=NodeId(node), address=f"host-{node}:1", observer=True, parents=ids(*parents))
    )


def set_parents(cluster: Cluster, node: int, *parents: int) -> Any:
    return cluster.apply(SetParents(node=NodeId(node), parents=ids(*parents)))


@pytest.fixture
def chain() -> Cluster:
    """4 pulls from voters, 5 from 4, 6 from 5 or from a voter."""
    cluster = Cluster()
    for node, parents in ((4, (1, 2)), (5, (4,)), (6, (1, 5))):
        assert observe(cluster, node, *parents) == NodeAdded(known_before=False)
        cluster.register(node)
    return cluster


def test_an_observer_is_known_with_its_parents_and_its_level(chain: Cluster) -> None:
    """CHECKLIST 45, 55."""
    nodes = chain.machine.nodes
    assert [nodes.level_of(NodeId(node)) for node in range(1, 7)] == [0, 0, 0, 1, 2, 3]
    assert [nodes.is_observer(NodeId(node)) for node in (1, 4, 9)] == [False, True, False]
    assert nodes[NodeId(6)].parents == ids(1, 5)
    assert observe(chain, 4, 1, 2) == NodeAdded(known_before=True)


def test_the_level_of_many_layers_is_found_without_walking_every_way_up() -> None:
    """Each of thirty layers doubles the number of ways."""
    cluster, above = Cluster(), (1, 2)
    for layer in range(30):
        here = (10 + 2 * layer, 11 + 2 * layer)
        for node in here:
            assert observe(cluster, node, *above) == NodeAdded(known_before=False)
        above = here
    assert cluster.machine.nodes.level_of(NodeId(above[0])) == 30


def test_registering_leaves_an_observer_one(chain: Cluster) -> None:
    assert chain.machine.nodes[NodeId(5)].observer
    assert chain.machine.nodes[NodeId(5)].store_uuid == "store-5"


@pytest.mark.parametrize(
    ("node", "parents"), [(4, (5,)), (4, (6,)), (4, (4,)), (4, (1, 9)), (1, (2,))]
)
def test_parents_that_lead_back_or_nowhere_are_refused(
    chain: Cluster, node: int, parents: tuple[int, ...]
) -> None:
    """A cycle of observers would pull from itself for ever (DESIGN 8b)."""
    assert code(set_parents(chain, node, *parents)) == "ObserverRefused"


def test_an_observer_has_as_many_parents_as_the_limit_says() -> None:
    cluster = Cluster()
    nodes = range(10, 10 + PARENTS_MAX + 1)
    for node in nodes:
        observe(cluster, node, 1)
    assert isinstance(set_parents(cluster, 10, *nodes[1:]), ParentsSet)
    assert code(set_parents(cluster, 10, 1, *nodes[1:])) == "MalformedRequest"


def test_parents_change_and_what_was_a_cycle_before_is_none(chain: Cluster) -> None:
    assert set_parents(chain, 6, 2) == ParentsSet(parents=ids(2))
    assert set_parents(chain, 4, 6) == ParentsSet(parents=ids(6))
    assert chain.machine.nodes.level_of(NodeId(5)) == 3


def test_an_observer_is_added_with_known_parents_only() -> None:
    cluster = Cluster()
    for parents in ((9,), (4,)):
        assert code(observe(cluster, 4, *parents)) == "ObserverRefused"
    for parents in ((2, 1), (1, 1), (0,)):
        assert code(observe(cluster, 4, *parents)) == "MalformedRequest"
    assert code(cluster.apply(AddNode(node=NodeId(4), address="h:1", parents=ids(1)))) == (
        "MalformedRequest"
    )
    assert code(set_parents(cluster, 9, 1)) == "NodeUnknown"


def test_a_node_does_not_become_an_observer_nor_the_reverse(chain: Cluster) -> None:
    assert code(chain.add(4)) == "ObserverRefused"
    chain.add(7)
    assert code(observe(chain, 7)) == "ObserverRefused"


def test_no_group_is_placed_on_an_observer(chain: Cluster) -> None:
    assert code(chain.place(1, 2, 4)) == "NodeUnknown"


def test_an_observer_that_goes_is_nobodys_parent_any_more(chain: Cluster) -> None:
    chain.leave(4)
    assert chain.apply(RetireNode(node=NodeId(4))) == NodeRetired(known_before=True)
    assert chain.machine.nodes[NodeId(5)].parents == ()
    assert chain.machine.nodes.level_of(NodeId(5)) == 1, "it pulls from any voter now"
    assert chain.machine.nodes[NodeId(6)].parents == ids(1, 5)


def test_a_restored_controller_knows_its_observers(chain: Cluster) -> None:
    machine = chain.machine
    restored = ControllerMachine.restore(machine.state())
    assert restored.fingerprint() == machine.fingerprint()
    assert dict(restored.nodes) == dict(machine.nodes)
    before = machine.fingerprint()
    set_parents(chain, 6, 5)
    assert machine.fingerprint() != before, "parents are part of what replicas compare"
