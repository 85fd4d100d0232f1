"""What is to be moved, planned from what is where: pure functions of what the controller says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from raftlog.client.group_moves import name_of
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import GroupUnknown, TooFewNodes
from raftlog.placement import (
    Held,
    Move,
    balanced,
    load_of,
    own_replicas,
    replaced,
    replicas_without,
    resized,
    without,
)
from raftlog.wire.placing_calls import GroupPlace, NodePlaces, PlacementsReply, not_started


def removal(node: int, reply: PlacementsReply) -> list[Move]:
    """What is still to be moved off a node. Raises `TooFewNodes`."""
    nodes, groups = _usable(reply.nodes, but=node), _held(reply.groups)
    _check_room([held for held in groups if node in held.voters], nodes, reply)
    return without(NodeId(node), groups, nodes)


def replacement(old: int, new: int, reply: PlacementsReply) -> list[Move]:
    """What is still to be moved from one node to the other. Raises `TooFewNodes`."""
    nodes, groups = _usable(reply.nodes, but=old), _held(reply.groups)
    _check_room([held for held in groups if {old, new} <= set(held.voters)], nodes, reply)
    return replaced(NodeId(old), NodeId(new), groups, nodes)


def rebalance(reply: PlacementsReply) -> list[Move]:
    """The moves that spread all groups evenly. Raises `TooFewNodes`."""
    nodes, groups = _usable(reply.nodes), _held(reply.groups)
    for held in groups:
        wanted = own_replicas(held, len(nodes))
        needed = 1 if wanted is None else max(len(held.voters), wanted)
        if needed > len(nodes):
            raise _too_few(held, needed, len(nodes), reply)
    return balanced(groups, nodes)


def replicas(group: GroupId, count: int, reply: PlacementsReply) -> list[Move]:
    """The move that puts the group on so many nodes. Raises `TooFewNodes`, `GroupUnknown`."""
    nodes, groups = _usable(reply.nodes), _held(reply.groups)
    held = next((each for each in groups if each.group == group), None)
    if held is None:
        raise GroupUnknown(group=group)
    if count > len(nodes):
        raise _too_few(held, count, len(nodes), reply)
    move = resized(held, count, nodes, load_of(groups))
    return [move] if move.before != move.after else []


def _usable(nodes: Iterable[NodePlaces], but: int = 0) -> dict[NodeId, str]:
    """The nodes that take replicas, each with its rack."""
    return {
        each.node: each.rack
        for each in nodes
        if each.registered and not each.leaving and not each.observer and each.node != but
    }


def _held(groups: Iterable[GroupPlace]) -> list[Held]:
    return [Held(each.group, each.topic, each.voters) for each in groups]


def _check_room(
    groups: Iterable[Held], nodes: Mapping[NodeId, str], reply: PlacementsReply
) -> None:
    for held in groups:
        needed = replicas_without(held, nodes)
        if needed > len(nodes):
            raise _too_few(held, needed, len(nodes), reply)


def _too_few(held: Held, needed: int, found: int, reply: PlacementsReply) -> TooFewNodes:
    unstarted = not_started(reply.nodes)
    return TooFewNodes(what=name_of(held), needed=needed, found=found, unstarted=unstarted)
