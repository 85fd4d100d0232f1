"""The nodes of a cluster, as the controller knows them: a part of its state.

A node id is a member's number: it is bound to one store (`store_uuid`) and never to another one,
and the id of a node that was removed is never given again. So a group's log may name its members
by these ids alone: the node that votes under one has all that was ever promised under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, Protocol

from raftlog.core.types import NO_INDEX, LogIndex, NodeId
from raftlog.machines.commands import AddNode, RegisterNode, RetireNode, SetDuty, SetParents
from raftlog.machines.digest import StateDigest
from raftlog.machines.outcomes import (
    DutySet,
    NodeAdded,
    NodeRegistered,
    NodeRetired,
    ParentsSet,
    Refused,
    refused,
)
from raftlog.machines.state import NodeState


class NodeProcess(Protocol):
    """What a process of a node says of itself (`RegisterNode`)."""

    @property
    def boot_id(self) -> str: ...
    @property
    def earlier_boot_ids(self) -> tuple[str, ...]: ...
    @property
    def registered_at(self) -> LogIndex: ...


class KnownNode(NamedTuple):
    """A node as the cluster knows it."""

    store_uuid: str
    """"": the node was added and has not come yet."""
    address: str
    rules: int
    """The highest version of the rules that its program knows; 0: it has not come yet."""
    rack: str = ""
    """Nodes of one rack may fail together; "": it says none."""
    draining: bool = False
    """It should lead nothing."""
    leaving: bool = False
    """It should hold nothing: what it has goes to other nodes, and then it is removed."""
    observer: bool = False
    """It never votes, holds every group, and pulls what is committed."""
    parents: tuple[NodeId, ...] = ()
    """Of an observer: the nodes that it pulls from, rising; (): any that are no observers."""
    boot_id: str = ""
    """Of its process that registered last; "": none has."""
    registered_at: LogIndex = NO_INDEX
    """The index of that registration."""

    def has_other_copy(self, process: NodeProcess) -> bool:
        """Did the process that registered last run with another copy of the folder than this one?
        Then it started after the copy was made, and the copy does not know it.

        Who knows of a later registration than this is not judged: here its entry is not applied.
        """
        known = ("", process.boot_id, *process.earlier_boot_ids)
        return self.registered_at >= process.registered_at and self.boot_id not in known


class ClusterNodes(Mapping[NodeId, KnownNode]):
    """The nodes by id. A refused command changes nothing."""

    def __init__(self, nodes_max: int) -> None:
        self._nodes_max = nodes_max
        self._nodes: dict[NodeId, KnownNode] = {}
        self._retired: set[NodeId] = set()

    @classmethod
    def restore(
        cls, nodes: Iterable[NodeState], retired: Iterable[NodeId], nodes_max: int
    ) -> ClusterNodes:
        """Those of a state."""
        restored = cls(nodes_max)
        for node in nodes:
            restored._nodes[node.node] = KnownNode(
                node.store_uuid,
                node.address,
                node.rules,
                node.rack,
                node.draining,
                node.leaving,
                node.observer,
                node.parents,
                node.boot_id,
                node.registered_at,
            )
        restored._retired.update(retired)
        return restored

    def state(self) -> tuple[tuple[NodeState, ...], tuple[NodeId, ...]]:
        """The nodes, and the ids of those that were removed, rising."""
        nodes = [NodeState(node=node, **known._asdict()) for node, known in self._nodes.items()]
        return tuple(nodes), tuple(sorted(self._retired))

    def __getitem__(self, node: NodeId) -> KnownNode:
        return self._nodes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def retired(self) -> Set[NodeId]:
        """The ids of nodes that were removed: they are never used again."""
        return self._retired

    # ------------------------------------------------------------ commands

    def register(self, index: LogIndex, command: RegisterNode) -> NodeRegistered | Refused:
        """A node says who it is, in the entry at this index."""
        known = self._nodes.get(command.node)
        if command.node in self._retired:
            return refused("NodeRemoved", node=command.node)
        if known is not None and known.store_uuid not in ("", command.store_uuid):
            return refused(
                "IdentityRefused",
                node=command.node,
                store_uuid=command.store_uuid,
                known_store_uuid=known.store_uuid,
            )
        if known is not None and known.has_other_copy(command):
            return refused(
                "StoreCopied",
                node=command.node,
                boot_id=command.boot_id,
                known_boot_id=known.boot_id,
            )
        if known is None and len(self._nodes) >= self._nodes_max:
            return self._too_many()
        bound = known is not None and known.store_uuid == command.store_uuid
        self._nodes[command.node] = (known or _STRANGER)._replace(
            store_uuid=command.store_uuid,
            address=command.address,
            rules=command.rules,
            rack=command.rack,
            boot_id=command.boot_id,
            registered_at=index,
        )
        return NodeRegistered(known_before=bound)

    def add(self, command: AddNode) -> NodeAdded | Refused:
        """Let a node with this id come from this address."""
        node, address = command.node, command.address
        if node in self._retired:
            return refused("NodeRemoved", node=node)
        known = self._nodes.get(node)
        if known is not None and known.address != address:
            return refused("NodeExists", node=node, address=known.address)
        for other, its in self._nodes.items():
            if other != node and its.address == address:
                return refused("AddressTaken", address=address, node=other)
        if known is not None:
            if (known.observer, known.parents) != (command.observer, command.parents):
                before = f"it was added before, as {_described(known)}"
                return refused("ObserverRefused", node=node, problem=before)
            return NodeAdded(known_before=True)
        if (problem := self._problem_of_parents(node, command.parents)) is not None:
            return refused("ObserverRefused", node=node, problem=problem)
        if len(self._nodes) >= self._nodes_max:
            return self._too_many()
        self._nodes[node] = _STRANGER._replace(
            address=address, observer=command.observer, parents=command.parents
        )
        return NodeAdded(known_before=False)

    def set_parents(self, command: SetParents) -> ParentsSet | Refused:
        """Say which nodes an observer pulls from."""
        node = command.node
        known = self._nodes.get(node)
        if known is None:
            return self._unknown(node)
        problem: str | None = "it is no observer"
        if known.observer:
            problem = self._problem_of_parents(node, command.parents)
        if problem is not None:
            return refused("ObserverRefused", node=node, problem=problem)
        self._nodes[node] = known._replace(parents=command.parents)
        return ParentsSet(parents=command.parents)

    def _problem_of_parents(self, node: NodeId, parents: Iterable[NodeId]) -> str | None:
        """Why the node cannot pull from these: each must be known, and the way up end at one that
        is no observer."""
        for parent in parents:
            if parent not in self._nodes:
                return f"node {parent}, which it would pull from, is not known"
            if node in self._above(parent):
                return f"node {parent}, which it would pull from, pulls from it"
        return None

    def _above(self, node: NodeId) -> set[NodeId]:
        """The node, and all that its entries may have come through."""
        found: set[NodeId] = set()
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each not in found and each in self._nodes:
                found.add(each)
                waiting.extend(self._nodes[each].parents)
        return found

    def set_duty(self, command: SetDuty) -> DutySet | Refused:
        """Say whether a node should lead, and whether it should hold anything."""
        known = self._nodes.get(command.node)
        if known is None:
            return self._unknown(command.node)
        leaving = known.leaving if command.keeps_leaving else command.leaving
        changed = known._replace(draining=command.draining, leaving=leaving)
        self._nodes[command.node] = changed
        return DutySet(draining=changed.draining, leaving=changed.leaving)

    def retire(self, command: RetireNode) -> NodeRetired | Refused:
        """Remove a node that is leaving, permanently. Nothing is placed on it any more."""
        node = command.node
        if node in self._retired:
            return NodeRetired(known_before=False)
        known = self._nodes.get(node)
        if known is None:
            return self._unknown(node)
        if not known.leaving:
            return refused("NodeInUse", node=node, what="it is not leaving")
        del self._nodes[node]
        for child, its in self._nodes.items():
            if node in its.parents:
                left = tuple(each for each in its.parents if each != node)
                self._nodes[child] = its._replace(parents=left)
        self._retired.add(node)
        return NodeRetired(known_before=True)

    def _unknown(self, node: NodeId) -> Refused:
        if node in self._retired:
            return refused("NodeRemoved", node=node)
        known = ", ".join(map(str, sorted(self._nodes)))
        return refused("NodeUnknown", node=node, known=known)

    def _too_many(self) -> Refused:
        return refused("TooMany", what="The cluster", limit=self._nodes_max, unit="nodes")

    # ------------------------------------------------------------ queries

    def is_observer(self, node: NodeId) -> bool:
        """Was the node added as one?"""
        known = self._nodes.get(node)
        return known is not None and known.observer

    def level_of(self, node: NodeId) -> int:
        """How many pulls an entry takes at most to come to the node; 0: it is no observer."""
        level, layer = 0, {node}
        while layer := {each for each in layer if self.is_observer(each)}:
            level += 1
            layer = {parent for each in layer for parent in self._nodes[each].parents}
        return level

    def digest_into(self, digest: StateDigest) -> None:
        """Write every node into `digest`, and the ids of removed ones."""
        digest.number(len(self._nodes))
        for node in sorted(self._nodes):
            known = self._nodes[node]
            digest.number(node)
            digest.text(known.store_uuid)
            digest.text(known.address)
            digest.number(known.rules)
            digest.text(known.rack)
            digest.number(known.draining)
            digest.number(known.leaving)
            digest.number(known.observer)
            digest.text(known.boot_id)
            digest.number(known.registered_at)
            digest.number(len(known.parents))
            for parent in known.parents:
                digest.number(parent)
        digest.number(len(self._retired))
        for node in sorted(self._retired):
            digest.number(node)


_STRANGER = KnownNode(store_uuid="", address="", rules=0)


def _described(known: KnownNode) -> str:
    if not known.observer:
        return "a node that is no observer"
    parents = ", ".join(map(str, known.parents))
    return f"an observer of {parents or 'any node'}"
