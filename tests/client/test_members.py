"""What an operator asks of nodes that come and go, against a real controller without replicas."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.client import group_moves
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import (
    AddressTaken,
    ChangeUnfinished,
    GroupUnknown,
    InvalidOption,
    NodeInUse,
    NodeRemoved,
    PlacementOutdated,
    TooFewNodes,
)
from raftlog.machines.commands import SetDuty
from raftlog.placement import Move
from tests.client.members_scene import MembersScene, scene


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes time here."""
    monkeypatch.setattr(group_moves, "_LOOK_S", 0.01)


def grow(cluster: MembersScene, *nodes: int) -> None:
    """These are added and come."""
    with cluster.members() as members:
        for node in nodes:
            assert members.add(node, cluster.addresses[NodeId(node)])
            cluster.come(node)


def at_once(*deeds: Callable[[], object]) -> None:
    """Do these at the same time. Raises what any of them raised."""
    together = threading.Barrier(len(deeds))

    def run(deed: Callable[[], object]) -> None:
        together.wait(PATIENCE_S)
        deed()

    with ThreadPoolExecutor(len(deeds)) as pool:
        for each in [pool.submit(run, deed) for deed in deeds]:
            each.result(PATIENCE_S)


def test_two_nodes_are_replaced_at_the_same_time() -> None:
    with scene(5) as cluster, cluster.members() as one, cluster.members() as other:
        cluster.topic("a", 1, 2, 3)
        cluster.topic("b", 1, 2, 3)
        grow(cluster, 4, 5)
        at_once(
            lambda: list(one.replace(1, 4, timeout_s=PATIENCE_S)),
            lambda: list(other.replace(2, 5, timeout_s=PATIENCE_S)),
        )
        assert cluster.places() == {"": (3, 4, 5), "a": (3, 4, 5), "b": (3, 4, 5)}
        assert sorted(cluster.machine.nodes) == [3, 4, 5]


def test_a_node_is_removed_while_another_is_replaced() -> None:
    with scene(6) as cluster, cluster.members() as one, cluster.members() as other:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4, 5, 6)
        at_once(
            lambda: list(one.remove(1, timeout_s=PATIENCE_S)),
            lambda: list(other.replace(2, 6, timeout_s=PATIENCE_S)),
        )
        assert all(set(each) <= {3, 4, 5, 6} for each in cluster.places().values())
        assert sorted(cluster.machine.nodes) == [3, 4, 5, 6]


def test_a_command_given_again_waits_for_what_it_had_begun() -> None:
    with scene(4) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4)
        assert next(members.remove(3, at_once=1, timeout_s=PATIENCE_S))[1:] == (1, 2)
        cluster.looks_to_move = 1_000_000
        while not list(cluster.machine.placements.under_way()):  # as often as a slow machine needs
            with pytest.raises(ChangeUnfinished):
                list(members.remove(3, timeout_s=0.05))
        cluster.looks_to_move = 20
        list(members.remove(3, timeout_s=PATIENCE_S))
        assert sorted(cluster.machine.nodes) == [1, 2, 4]


def test_a_removal_ends_when_the_node_is_told_to_stay() -> None:
    with scene(4) as cluster, cluster.members() as members, cluster.members() as undoing:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4)
        removal = members.remove(3, at_once=1, timeout_s=PATIENCE_S)
        next(removal)
        list(undoing.keep(3, timeout_s=PATIENCE_S))
        with pytest.raises(NodeInUse, match="told to stay"):
            list(removal)
        assert 3 in cluster.machine.nodes


def test_a_plan_that_somebody_overtook_is_not_carried_out() -> None:
    with scene(5) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4, 5)
        old = members.plan_removal(3)
        now = Move(old[1].group, "a", (NodeId(1), NodeId(2), NodeId(3)), (NodeId(1), NodeId(5)))
        list(members.carry_out([now], timeout_s=PATIENCE_S))
        with pytest.raises(PlacementOutdated):
            list(members.carry_out(old[1:], timeout_s=PATIENCE_S))
        assert cluster.places()["a"] == (1, 5)


def test_the_address_of_another_node_is_taken_by_whatever_name_it_is_given() -> None:
    with scene(4) as cluster, cluster.members() as members:
        other_name = cluster.addresses[NodeId(2)].replace("127.0.0.1", "localhost")
        with pytest.raises(AddressTaken, match="is node 2's"):
            members.add(4, other_name)
        assert 4 not in cluster.machine.nodes
        assert members.add(4, cluster.addresses[NodeId(4)])


# ---------------------------------------------------------------- observers


def tree(cluster: MembersScene) -> None:
    """4 pulls from 1 and 2, 5 from 4, 6 from 1 and 4."""
    with cluster.members() as members:
        for node, parents in ((4, [1, 2]), (5, [4]), (6, [1, 4])):
            address = cluster.addresses[NodeId(node)]
            members.add(node, address, observer=True, parents=parents)
            cluster.come(node)


def parents(cluster: MembersScene) -> dict[int, tuple[int, ...]]:
    nodes = cluster.machine.nodes
    return {node: its.parents for node, its in nodes.items() if its.observer}


def test_an_observer_is_replaced_by_an_observer_at_the_same_place_in_the_tree() -> None:
    with scene(7) as cluster, cluster.members() as members:
        cluster.topic("t", 1, 2, 3)
        tree(cluster)
        assert members.add_replacement(4, 7, cluster.addresses[NodeId(7)])
        assert not members.add_replacement(4, 7, cluster.addresses[NodeId(7)]), "given again"
        cluster.come(7)
        assert list(members.replace(4, 7, timeout_s=PATIENCE_S)) == []
        assert parents(cluster) == {5: (7,), 6: (1, 7), 7: (1, 2)}
        assert not members.add_replacement(4, 7, cluster.addresses[NodeId(7)]), "after all"
        assert cluster.places()["t"] == (1, 2, 3)


def test_an_observer_stays_until_the_one_that_replaces_it_is_filled() -> None:
    with scene(7) as cluster, cluster.members() as members:
        cluster.topic("t", 1, 2, 3)
        tree(cluster)
        members.add_replacement(4, 7, cluster.addresses[NodeId(7)])
        cluster.come(7)
        cluster.applied[NodeId(7)] = 3
        with pytest.raises(ChangeUnfinished, match="it lacks 7 entries"):
            list(members.replace(4, 7, timeout_s=0.1))
        assert parents(cluster)[5] == (4,)
        assert not cluster.machine.nodes[NodeId(4)].leaving


def test_what_pulls_from_a_voter_pulls_from_the_node_that_replaces_it() -> None:
    with scene(8) as cluster, cluster.members() as members:
        cluster.topic("t", 1, 2, 3)
        tree(cluster)
        assert members.add_replacement(1, 7, cluster.addresses[NodeId(7)])
        cluster.come(7)
        list(members.replace(1, 7, timeout_s=PATIENCE_S))
        assert parents(cluster) == {4: (2, 7), 5: (4,), 6: (4, 7)}
        assert cluster.places()["t"] == (2, 3, 7)
        with pytest.raises(NodeRemoved):
            members.add_replacement(1, 8, cluster.addresses[NodeId(8)])


def test_a_node_of_another_kind_takes_nobody_s_place() -> None:
    with scene(8) as cluster, cluster.members() as members:
        tree(cluster)
        grow(cluster, 7)
        for old, new, kinds in (
            (4, 7, "is 7, which is no observer, and node 4 is an observer"),
            (1, 4, "is 4, which is an observer, and node 1 is no observer"),
        ):
            for refused in (
                lambda: members.plan_replacement(old, new),  # noqa: B023
                lambda: list(members.replace(old, new, timeout_s=PATIENCE_S)),  # noqa: B023
                lambda: members.add_replacement(old, new, "h:1"),  # noqa: B023
            ):
                with pytest.raises(InvalidOption, match=kinds) as error:
                    refused()
                assert "raftlog cluster remove" in error.value.remedy
        assert not any(each.leaving for each in cluster.machine.nodes.values())


# ---------------------------------------------------------------- what cannot be


def test_plans_without_enough_nodes_are_refused() -> None:
    with scene(4) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        members.add(4, cluster.addresses[NodeId(4)])
        with pytest.raises(TooFewNodes, match="needs 3 nodes, and 2 can") as error:
            members.plan_removal(3)
        assert "Start what was added and has not come, 4" in error.value.remedy
    with scene(3) as cluster, cluster.members() as members:
        for node in (1, 2):
            cluster.apply(SetDuty(node=NodeId(node), draining=True, leaving=True))
        with pytest.raises(TooFewNodes, match="the controller's group needs 3 nodes, and 1 can"):
            members.plan_rebalance()
        cluster.apply(SetDuty(node=NodeId(3), draining=True, leaving=True))
        with pytest.raises(TooFewNodes, match="and 0 can"):
            members.plan_rebalance()


def test_of_two_removals_at_once_the_second_is_refused_and_changes_nothing() -> None:
    """Each was planned while the other node stayed."""
    with scene(4) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4)
        first = SetDuty(node=NodeId(1), draining=True, leaving=True)
        # It looks whether the node was removed, and then what to plan with.
        cluster.after_looks = [lambda: None, lambda: cluster.apply(first)]
        with pytest.raises(TooFewNodes, match="topic 'a' needs 3 nodes, and 2 can"):
            list(members.remove(2, timeout_s=PATIENCE_S))
        assert cluster.machine.nodes[NodeId(1)].leaving
        assert not cluster.machine.nodes[NodeId(2)].leaving


def test_nothing_is_moved_to_a_node_that_does_not_answer() -> None:
    with scene(5) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4, 5)
        cluster.lose(4)
        told: list[str] = []
        plans = [
            members.plan_removal(3, tell=told.append),
            members.plan_rebalance(tell=told.append),
            members.plan_replicas(GroupId(1), 4, tell=told.append),
        ]
        assert [move.after for move in plans[0]] == [(1, 2, 5), (1, 2, 5)]
        assert all(move.after.count(NodeId(4)) == 0 for plan in plans for move in plan)
        assert told == ["left out: node 4 does not answer"] * 3
        with pytest.raises(TooFewNodes, match="needs 5 nodes, and 4 can") as error:
            members.plan_replicas(GroupId(1), 5)
        assert error.value.remedy.startswith("Start what does not answer, node 4, or ")
        list(members.remove(3, timeout_s=PATIENCE_S))
        assert cluster.places() == {"": (1, 2, 5), "a": (1, 2, 5)}


def test_a_dead_node_is_not_told_to_be_started_where_it_is_removed() -> None:
    with scene(4) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4)
        for node in (3, 4):
            cluster.lose(node)
        with pytest.raises(TooFewNodes, match="needs 3 nodes, and 2 can") as error:
            list(members.remove(3, timeout_s=PATIENCE_S))
        assert error.value.remedy.startswith("Start what does not answer, node 4, or ")


@pytest.mark.parametrize("replacing", [False, True])
def test_what_is_on_its_way_to_a_lost_node_goes_back_when_that_is_removed(replacing: bool) -> None:
    with scene(5) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4, 5)
        cluster.looks_to_move = 1_000_000
        move = Move(GroupId(1), "a", (1, 2, 3), (1, 2, 4))
        cluster.lose(4)
        with pytest.raises(ChangeUnfinished):
            list(members.carry_out([move], timeout_s=0.1))
        plan = members.plan_replacement(4, 5) if replacing else members.plan_removal(4)
        assert plan == [Move(GroupId(1), "a", (1, 2, 4), (1, 2, 3))]
        gone = members.replace if replacing else members.remove
        for _ in range(2):  # given again while it still goes back
            with pytest.raises(ChangeUnfinished):
                list(gone(4, *([5] if replacing else []), timeout_s=0.1))
            assert cluster.places()["a"] == (1, 2, 3)
            assert 4 in cluster.machine.nodes
        cluster.looks_to_move = 2
        list(gone(4, *([5] if replacing else []), timeout_s=PATIENCE_S))
        assert cluster.places()["a"] == (1, 2, 3)
        assert sorted(cluster.machine.nodes) == [1, 2, 3, 5]


def test_moves_tell_which_nodes_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moves, "_SILENT_S", 0.01)
    with scene(4) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4)
        cluster.looks_to_move = 1_000_000
        told: list[str] = []
        moves = members.plan_removal(3)
        cluster.lose(4)
        with pytest.raises(ChangeUnfinished):
            list(members.carry_out(moves, timeout_s=0.1, tell=told.append))
        assert told == ["node 4 does not answer: moves there wait"]
        with pytest.raises(ChangeUnfinished):
            list(members.remove(3, timeout_s=0.1, tell=told.append))
        assert told[1:].count(told[0]) == 1, "once, between other lines"


def test_moves_tell_of_a_full_disk_that_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moves, "_SILENT_S", 0.01)
    with scene(5) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2, 3)
        grow(cluster, 4, 5)
        cluster.looks_to_move = 1_000_000
        told: list[str] = []
        moves = [each for each in members.plan_removal(3) if NodeId(4) in each.after]
        cluster.full = {NodeId(1), NodeId(4), NodeId(5)}
        cluster.lose(2)
        with pytest.raises(ChangeUnfinished, match="and the disk of node 4 is full"):
            list(members.carry_out(moves, timeout_s=0.2, tell=told.append))
        assert told == [
            "node 2 does not answer, and the disk of node 1 is full, and the disk of node 4 is "
            "full: moves there wait"
        ]


def test_wrong_arguments_are_named() -> None:
    with scene(3) as cluster, cluster.members() as members:
        cluster.topic("a", 1, 2)
        wrong: Any = members  # of which a type checker would know
        asked: list[tuple[str, Callable[[], object]]] = [
            ("replicas", lambda: wrong.plan_replicas(0, -1)),
            ("replicas", lambda: wrong.plan_replicas(0, 8)),
            ("replicas", lambda: wrong.plan_replicas(0, None)),
            ("group", lambda: wrong.plan_replicas(-1, 3)),
            ("address", lambda: wrong.add(99, -1)),
            ("address", lambda: wrong.add(99, None)),
            ("address", lambda: wrong.add_replacement(1, 99, None)),
            ("node", lambda: wrong.add(None, "h:1")),
            ("parents", lambda: wrong.add(99, "h:1", observer=True, parents=None)),
            ("parents", lambda: wrong.add(99, "h:1", observer=True, parents="1")),
            ("with", lambda: wrong.plan_replacement(1, "")),
            ("with", lambda: wrong.plan_replacement(1, None)),
            ("node", lambda: wrong.plan_replacement("", 1)),
            ("at_once", lambda: list(wrong.remove(3, at_once=0, timeout_s=PATIENCE_S))),
            ("at_once", lambda: list(wrong.carry_out([], at_once=0, timeout_s=PATIENCE_S))),
            ("timeout_s", lambda: wrong.wait_for(3, None)),
        ]
        for option, ask in asked:
            with pytest.raises(InvalidOption, match=f"'{option}' is"):
                ask()
        with pytest.raises(GroupUnknown):
            wrong.plan_replicas(77, 3)
        assert sorted(cluster.machine.nodes) == [1, 2, 3]
        assert not any(each.leaving for each in cluster.machine.nodes.values())
