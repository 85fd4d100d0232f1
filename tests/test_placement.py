"""Plans of which nodes hold a group."""

from __future__ import annotations

from collections import Counter
from random import Random

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.machines.group_info import KV_LABEL
from raftlog.placement import (
    Held,
    balanced,
    chosen,
    load_of,
    own_replicas,
    replaced,
    resized,
    without,
)


def nodes(*racks: str) -> dict[NodeId, str]:
    """Nodes 1, 2, ... with these racks."""
    return {NodeId(number): rack for number, rack in enumerate(racks, 1)}


def held(group: int, *voters: int) -> Held:
    name = f"t{group}" if group else ""
    return Held(GroupId(group), name, tuple(map(NodeId, voters)))


def test_racks_come_first_then_load_then_lower_ids() -> None:
    racks = nodes("a", "a", "b", "c")
    assert chosen(3, racks, {}) == (1, 3, 4)
    assert chosen(3, racks, {NodeId(1): 5}) == (2, 3, 4)
    assert chosen(2, nodes("", "", ""), {NodeId(1): 1}) == (2, 3), "each is a rack of its own"
    assert chosen(3, racks, {}, kept=[NodeId(2)]) == (2, 3, 4)
    assert chosen(4, racks, {}) == (1, 2, 3, 4)


def test_what_leaves_a_node_goes_where_least_is() -> None:
    groups = [held(0, 1, 2, 3), held(1, 1, 2, 3), held(2, 1, 4), held(3, 2, 4)]
    left = {node: "" for node in nodes("", "", "", "", "") if node != 1}
    moves = {move.group: move.after for move in without(NodeId(1), groups, left)}
    assert moves == {0: (2, 3, 5), 1: (2, 3, 5), 2: (3, 4)}
    assert not without(NodeId(9), groups, left)


def test_the_controller_s_group_shrinks_with_the_cluster() -> None:
    left = {node: "" for node in nodes("", "", "", "", "") if node != 2}
    (move,) = without(NodeId(2), [held(0, 1, 2, 3, 4, 5)], left)
    assert len(move.after) == 3
    assert set(move.after) <= set(left)
    (last,) = without(NodeId(2), [held(0, 1, 2)], {NodeId(1): ""})
    assert last.after == (1,)


def test_a_new_node_takes_exactly_the_places_of_another() -> None:
    groups = [held(0, 1, 2, 3), held(1, 2, 3), held(2, 1)]
    moves = replaced(NodeId(1), NodeId(9), groups, {})
    assert [(move.group, move.after) for move in moves] == [(0, (2, 3, 9)), (2, (9,))]
    begun = [held(0, 2, 3, 9), held(2, 1)]
    assert [move.group for move in replaced(NodeId(1), NodeId(9), begun, {})] == [2]


def test_a_group_that_the_new_node_holds_already_keeps_its_number_of_replicas() -> None:
    left = {node: "" for node in nodes("", "", "", "") if node != 1}
    moves = replaced(NodeId(1), NodeId(4), [held(1, 1, 2, 4), held(2, 1, 2, 3)], left)
    assert [(move.group, move.after) for move in moves] == [(1, (2, 3, 4)), (2, (2, 3, 4))]


def test_the_key_value_store_grows_and_shrinks_with_the_cluster_up_to_three_nodes() -> None:
    store = Held(GroupId(1), KV_LABEL, (NodeId(1),))
    grown = [balanced([store], nodes(*[""] * count)) for count in (1, 2, 3, 5)]
    assert [len(moves[0].after) if moves else 1 for moves in grown] == [1, 1, 3, 3]
    (fewer,) = without(NodeId(3), [store._replace(voters=(1, 2, 3))], nodes("", ""))
    assert fewer.after == (1,)


def test_fewer_replicas_go_from_crowded_racks() -> None:
    racks = nodes("a", "a", "b", "c")
    group = held(1, 1, 2, 3)
    assert resized(group, 2, racks, {NodeId(2): 1}).after == (1, 3)
    assert resized(group, 4, racks, {}).after == (1, 2, 3, 4)


def test_the_controller_has_an_odd_number_of_voters() -> None:
    wanted = [own_replicas(held(0, 1), count) for count in range(1, 9)]
    assert wanted == [1, 1, 3, 3, 5, 5, 5, 5]
    (move,) = balanced([held(0, 1)], nodes("", "", ""))
    assert move.after == (1, 2, 3)


def test_silent_nodes_keep_what_they_hold_and_are_given_nothing() -> None:
    left, silent = nodes("", "", "", "", ""), {NodeId(3), NodeId(4)}
    groups = [held(0, 1, 2, 3), *(held(number, 1, 2, 3) for number in range(1, 7))]
    moves = balanced(groups, left, silent)
    assert moves
    assert all(3 in move.after and 4 not in move.after for move in moves)
    racks = nodes("a", "a", "b", "c", "d")
    (spread,) = balanced([held(1, 1, 2, 3)], racks, silent)
    assert spread.after == (1, 3, 5)
    del left[NodeId(1)]
    (move,) = without(NodeId(1), [held(1, 1, 2, 3)], left, silent)
    assert move.after == (2, 3, 5)
    assert not without(NodeId(1), [held(1, 1, 2, 5)], left, {*silent, NodeId(2)})
    assert resized(held(1, 2, 3, 5), 1, left, {NodeId(2): 9, NodeId(5): 8}, silent).after == (5,)


def test_a_balanced_cluster_is_even_keeps_its_replicas_and_needs_no_other_move() -> None:
    for seed in range(50):
        _is_balanced_once(seed)


def _is_balanced_once(seed: int) -> None:
    random = Random(seed)
    racks = nodes(*[random.choice(("", "a", "b", "c")) for _ in range(random.randrange(3, 8))])
    groups = [held(0, *sorted(random.sample(sorted(racks), 3)))]
    for number in range(1, random.randrange(2, 20)):
        count = random.randrange(1, min(5, len(racks)) + 1)
        groups.append(held(number, *sorted(random.sample(sorted(racks), count))))
    moves = balanced(groups, racks)
    after = {group.group: group.voters for group in groups} | {m.group: m.after for m in moves}
    for group in groups:
        if group.group != CONTROLLER_GROUP:
            assert len(after[group.group]) == len(group.voters)
        used = Counter(racks[voter] or voter for voter in after[group.group])
        distinct = len({rack or node for node, rack in racks.items()})
        assert len(used) == min(len(after[group.group]), distinct), "as many racks as it can"
    again = [Held(group.group, group.name, after[group.group]) for group in groups]
    assert balanced(again, racks) == []
    if not any(racks.values()):
        load = load_of(again)
        assert max(load[node] for node in racks) - min(load[node] for node in racks) <= 1 + (
            CONTROLLER_GROUP in after
        )
