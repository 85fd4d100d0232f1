"""The calls about where groups are, as typed values (`raftlog.wire.calls` says what a call is)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from raftlog.core.types import GroupId, NodeId
from raftlog.founders import Founder


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceGroupCall:
    """Leader of the controller: wish a group elsewhere, as `raftlog.machines.commands.PlaceGroup`
    says. Answered by `GroupPlaced`."""

    group: GroupId
    voters: tuple[NodeId, ...]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribePlacements:
    """Leader of the controller (linearizable): what is where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlaces:
    """A node of the cluster."""

    node: NodeId
    """The node's number, from 1."""
    address: str
    """`host:port`, as clients and peers reach it."""
    rack: str
    """Where it stands: nodes of one rack may fail together. "" is a rack of its own."""
    registered: bool
    """Whether it has come; before that nothing is placed on it."""
    draining: bool
    """Whether it should lead nothing."""
    leaving: bool
    """Whether it should hold nothing."""
    observer: bool = False
    """Whether it is an observer: it holds every group, and never votes."""
    parents: tuple[NodeId, ...] = ()
    """Of an observer: the nodes that it pulls from; none named: any that are no observers."""
    level: int = 0
    """Of an observer: through how many nodes an entry comes to it at most, from 1."""


def takes_replicas(node: NodePlaces) -> bool:
    """May groups be put on the node, if it answers?"""
    return node.registered and not node.leaving and not node.observer


def not_started(nodes: Iterable[NodePlaces]) -> str:
    """Those that were added to hold groups and have not come, for people."""
    waited_for = [each.node for each in nodes if not (each.registered or each.observer)]
    return ", ".join(map(str, waited_for))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """Where a group should be."""

    group: GroupId
    """The Raft group; 0 is the controller's."""
    topic: str
    """The topic's name; "": the controller's group."""
    voters: tuple[NodeId, ...]
    """The nodes that should hold it."""
    former: tuple[NodeId, ...]
    """Where it was when its last change was complete."""
    generation: int
    """How often it was placed elsewhere, from 0."""
    reached: bool
    """Whether its log has committed these voters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementsReply:
    """All nodes and groups, by id."""

    nodes: tuple[NodePlaces, ...]
    """Every node."""
    groups: tuple[GroupPlace, ...]
    """Every group, the controller's first."""
    founders: tuple[Founder, ...]
    """The nodes that the cluster began with."""
    removed: tuple[NodeId, ...] = ()
    """The ids of nodes that were removed permanently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCall:
    """Leader of the group: hand the role to this voter, and wait for what comes of it. Raises
    `NotAVoter` if it is none, `TransferRefused` if it cannot be given the role now."""

    group: GroupId
    to: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReply:
    """What came of it."""

    leader: NodeId
    """Who leads the group now; another than was asked for: the transfer has failed."""
