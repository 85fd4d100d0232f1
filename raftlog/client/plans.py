"""What is to be moved, planned from what is where: pure functions of what the controller says, and
of which nodes are silent. Those keep what they hold, and nothing is moved to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
    room_for,
    without,
)
from raftlog.wire.placing_calls import (
    GroupPlace,
    NodePlaces,
    PlacementsReply,
    not_started,
    takes_replicas,
)


def removal(node: int, reply: PlacementsReply, silent: Collection[NodeId]) -> list[Move]:
    """What is still to be moved off a node; what is on its way to it goes back where it is silent.
    Raises `TooFewNodes`."""
    back = _taken_back(node, reply, silent)
    nodes, groups = _usable(reply.nodes, but=node), _held(reply.groups, back)
    _check_room([held for held in groups if node in held.voters], nodes, reply, silent)
    return [*back, *without(NodeId(node), groups, nodes, silent)]


def replacement(
    old: int, new: int, reply: PlacementsReply, silent: Collection[NodeId]
) -> list[Move]:
    """What is still to be moved from one node to the other; what is on its way to the former goes
    back where that is silent. Raises `TooFewNodes`."""
    back = _taken_back(old, reply, silent)
    nodes, groups = _usable(reply.nodes, but=old), _held(reply.groups, back)
    _check_room([held for held in groups if {old, new} <= set(held.voters)], nodes, reply, silent)
    return [*back, *replaced(NodeId(old), NodeId(new), groups, nodes, silent)]


def rebalance(reply: PlacementsReply, silent: Collection[NodeId]) -> list[Move]:
    """The moves that spread all groups evenly. Raises `TooFewNodes`."""
    nodes, groups = _usable(reply.nodes), _held(reply.groups)
    for held in groups:
        room = room_for(held, nodes, silent)
        wanted = own_replicas(held, len(room))
        needed = 1 if wanted is None else max(len(held.voters), wanted)
        if needed > len(room):
            raise _too_few(held, needed, room, nodes, reply)
    return balanced(groups, nodes, silent)


def replicas(
    group: GroupId, count: int, reply: PlacementsReply, silent: Collection[NodeId]
) -> list[Move]:
    """The move that puts the group on so many nodes. Raises `TooFewNodes`, `GroupUnknown`."""
    nodes, groups = _usable(reply.nodes), _held(reply.groups)
    held = next((each for each in groups if each.group == group), None)
    if held is None:
        raise GroupUnknown(group=group)
    room = room_for(held, nodes, silent)
    if count > len(room):
        raise _too_few(held, count, room, nodes, reply)
    move = resized(held, count, nodes, load_of(groups), silent)
    return [move] if move.before != move.after else []


def _usable(nodes: Iterable[NodePlaces], but: int = 0) -> dict[NodeId, str]:
    """The nodes that take replicas, each with its rack."""
    return {each.node: each.rack for each in nodes if takes_replicas(each) and each.node != but}


def _taken_back(node: int, reply: PlacementsReply, silent: Collection[NodeId]) -> list[Move]:
    """What is on its way to the node, which may never come for it."""
    return [
        Move(each.group, each.topic, each.voters, each.former)
        for each in reply.groups
        if node in silent and not each.reached and node in {*each.voters} - {*each.former}
    ]


def _held(groups: Iterable[GroupPlace], moves: Iterable[Move] = ()) -> list[Held]:
    """Where the groups are, after the moves."""
    after = {move.group: move.after for move in moves}
    return [Held(each.group, each.topic, after.get(each.group, each.voters)) for each in groups]


def _check_room(
    groups: Iterable[Held],
    nodes: Mapping[NodeId, str],
    reply: PlacementsReply,
    silent: Collection[NodeId],
) -> None:
    for held in groups:
        needed, room = replicas_without(held, nodes), room_for(held, nodes, silent)
        if needed > len(room):
            raise _too_few(held, needed, room, nodes, reply)


def _too_few(
    held: Held,
    needed: int,
    room: Mapping[NodeId, str],
    nodes: Mapping[NodeId, str],
    reply: PlacementsReply,
) -> TooFewNodes:
    silent = [node for node in nodes if node not in room]
    return TooFewNodes(
        what=name_of(held),
        needed=needed,
        found=len(room),
        unstarted=not_started(reply.nodes),
        silent=", ".join(map(str, silent)),
    )
