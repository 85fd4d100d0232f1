"""Which nodes should hold a group: plans, as pure functions of plain values.

Nodes that are silent may be lost or not: they keep what they hold and are given nothing. Racks come
first: replicas that may fail together are worth little. Then nodes that hold less are chosen, then
lower ids, so that the same state always gives the same plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.machines.group_info import KV_LABEL

REPLICAS_DEFAULT = 3
"""Voters of a topic, if there are so many nodes."""

CONTROLLER_REPLICAS_MAX = 5
"""Voters of the controller's group at most: it survives two nodes, and more would only be slower.
The other nodes have its log as learners."""


class Held(NamedTuple):
    """A group and the nodes that hold it, rising."""

    group: GroupId
    name: str
    """The topic's; "": the controller's group; `KV_LABEL`: the key-value store's."""
    voters: tuple[NodeId, ...]


class Move(NamedTuple):
    """A change of the nodes that hold a group."""

    group: GroupId
    """The Raft group; 0 is the controller's."""
    name: str
    """The topic's name; "": the controller's group; `KV_LABEL`: the key-value store's."""
    before: tuple[NodeId, ...]
    """The nodes that hold it now."""
    after: tuple[NodeId, ...]
    """The nodes that are to hold it."""


Racks = Mapping[NodeId, str]
"""The nodes that may hold groups, each with its rack; "": a rack of its own."""


def load_of(groups: Iterable[Held]) -> Counter[NodeId]:
    """How many groups each node holds."""
    return Counter(voter for group in groups for voter in group.voters)


def chosen(
    count: int, nodes: Racks, load: Mapping[NodeId, int], kept: Collection[NodeId] = ()
) -> tuple[NodeId, ...]:
    """`count` of the nodes, rising, with those `kept` among them. There must be so many."""
    voters = list(kept)
    while len(voters) < count:
        used = Counter(_rack(nodes, voter) for voter in voters)
        free = [node for node in nodes if node not in voters]
        voters.append(min(free, key=lambda n: (used[_rack(nodes, n)], load.get(n, 0), n)))
    return tuple(sorted(voters))


def room_for(held: Held, nodes: Racks, silent: Collection[NodeId]) -> dict[NodeId, str]:
    """The nodes that may hold the group: those that do, and those that are not silent."""
    return {n: rack for n, rack in nodes.items() if n in held.voters or n not in silent}


def without(
    node: NodeId, groups: Sequence[Held], nodes: Racks, silent: Collection[NodeId] = ()
) -> list[Move]:
    """The moves after which `node`, which is none of `nodes`, holds nothing. Groups with more
    voters than `nodes` have room for are left out: they have nowhere to go."""
    load = load_of(groups)
    moves = []
    for held in groups:
        count = replicas_without(held, nodes)
        if node in held.voters and count <= len(room_for(held, nodes, silent)):
            left = held._replace(voters=tuple(each for each in held.voters if each != node))
            moves.append(_moved(held, resized(left, count, nodes, load, silent).after, load))
    return moves


def replicas_without(held: Held, nodes: Racks) -> int:
    """How many voters the group should have when only these nodes are left: as many as it has, but
    one of the cluster's own groups never more than it should have."""
    count, wanted = len(held.voters), own_replicas(held, len(nodes))
    return count if wanted is None else min(count, max(1, wanted))


def replaced(
    old: NodeId,
    new: NodeId,
    groups: Sequence[Held],
    nodes: Racks,
    silent: Collection[NodeId] = (),
) -> list[Move]:
    """The moves that give `new` every place of `old`, which is none of `nodes`. A group that `new`
    holds already gets another node; without one it is left out, as in `without`."""
    both = [held for held in groups if {old, new} <= set(held.voters)]
    given = [
        Move(held.group, held.name, held.voters, tuple(sorted({*held.voters, new} - {old})))
        for held in groups
        if old in held.voters and new not in held.voters
    ]
    return sorted([*given, *without(old, both, nodes, silent)])


def resized(
    held: Held,
    count: int,
    nodes: Racks,
    load: Mapping[NodeId, int],
    silent: Collection[NodeId] = (),
) -> Move:
    """The change that gives the group so many voters; those that go are silent, of crowded racks,
    and hold much. There must be room for so many."""
    room = room_for(held, nodes, silent)
    kept = [voter for voter in held.voters if voter in nodes]
    while len(kept) > count:
        used = Counter(_rack(nodes, voter) for voter in kept)
        kept.remove(
            max(kept, key=lambda n: (n in silent, used[_rack(nodes, n)], load.get(n, 0), n))
        )
    return Move(held.group, held.name, held.voters, chosen(count, room, load, kept))


def balanced(groups: Sequence[Held], nodes: Racks, silent: Collection[NodeId] = ()) -> list[Move]:
    """The moves after which every group has its voters on as many racks as it can, and no two
    nodes differ by more than one in what they hold, as far as racks and silent nodes allow. One
    move of a group at most. The cluster's own groups get as many voters as they should have."""
    load = load_of(groups)
    after = {held.group: held.voters for held in groups}
    for held in groups:
        wanted = own_replicas(held, len(room_for(held, nodes, silent)))
        if wanted is not None:
            move = resized(held, max(len(held.voters), wanted), nodes, load, silent)
            after[held.group] = _moved(held, move.after, load).after
    for held in groups:
        spread = _spread(after[held.group], nodes, load, silent)
        after[held.group] = _moved(held._replace(voters=after[held.group]), spread, load).after
    while (step := _levelling(after, nodes, load, silent)) is not None:
        group, giver, taker = step
        after[group] = tuple(sorted({*after[group], taker} - {giver}))
        load[giver] -= 1
        load[taker] += 1
    return [
        Move(held.group, held.name, held.voters, after[held.group])
        for held in groups
        if after[held.group] != held.voters
    ]


def own_replicas(held: Held, node_count: int) -> int | None:
    """How many voters one of the cluster's own groups should have: an odd number. None: it is a
    topic's, and its users say."""
    if held.group == CONTROLLER_GROUP:
        most = min(node_count, CONTROLLER_REPLICAS_MAX)
    elif held.name == KV_LABEL:
        most = min(node_count, REPLICAS_DEFAULT)
    else:
        return None
    return most if most % 2 else most - 1


def _rack(nodes: Racks, node: NodeId) -> str | NodeId:
    return nodes.get(node) or node


def _moved(held: Held, voters: tuple[NodeId, ...], load: Counter[NodeId]) -> Move:
    load.subtract(held.voters)
    load.update(voters)
    return Move(held.group, held.name, held.voters, voters)


def _spread(
    voters: tuple[NodeId, ...],
    nodes: Racks,
    load: Mapping[NodeId, int],
    silent: Collection[NodeId],
) -> tuple[NodeId, ...]:
    """The voters, with one of each crowded rack exchanged for one of a rack that has none."""
    found = list(voters)
    while True:
        used = Counter(_rack(nodes, voter) for voter in found)
        crowded = [v for v in found if used[_rack(nodes, v)] > 1 and v not in silent]
        free = [node for node in nodes if not used[_rack(nodes, node)] and node not in silent]
        if not crowded or not free:
            return tuple(sorted(found))
        found.remove(max(crowded, key=lambda n: (load.get(n, 0), n)))
        found.append(min(free, key=lambda n: (load.get(n, 0), n)))


def _levelling(
    after: Mapping[GroupId, tuple[NodeId, ...]],
    nodes: Racks,
    load: Mapping[NodeId, int],
    silent: Collection[NodeId],
) -> tuple[GroupId, NodeId, NodeId] | None:
    """A group, a node that holds it and one that holds at least two groups less and may take it;
    None: there is none. Not the controller's: its voters change only where they must."""
    for giver, taker in _pairs([node for node in nodes if node not in silent], load):
        for group in sorted(after):
            voters = after[group]
            if group == CONTROLLER_GROUP or giver not in voters or taker in voters:
                continue
            racks = {_rack(nodes, voter) for voter in voters if voter != giver}
            if _rack(nodes, taker) not in racks or _rack(nodes, giver) in racks:
                return group, giver, taker
    return None


def _pairs(
    nodes: Collection[NodeId], load: Mapping[NodeId, int]
) -> Iterator[tuple[NodeId, NodeId]]:
    rising = sorted(nodes, key=lambda n: (load.get(n, 0), n))
    for giver in reversed(rising):
        for taker in rising:
            if load.get(giver, 0) - load.get(taker, 0) > 1:
                yield giver, taker
