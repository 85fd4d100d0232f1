"""Which nodes the cluster has and where they listen, as far as one node can know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from raftlog.config_hosts import is_address
from raftlog.core.types import NO_INDEX, LastEntry, LogIndex, NodeId, Term
from raftlog.founders import Founder
from raftlog.machines.cluster_nodes import ClusterNodes, KnownNode
from raftlog.machines.commands import AddNode, Command, RegisterNode, RetireNode, SetDuty
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.limits import ControllerLimits
from raftlog.machines.outcomes import NodeRetired
from raftlog.machines.validity import problem_of_node, problem_of_node_command


class KnownNodes(Mapping[NodeId, str]):
    """The address of each node that this one speaks to, itself included.

    A node that starts has the controller's log and does not know yet what of it is committed. It
    takes an election to know: the others must be spoken to, and a folder that was wiped must not
    vote even in that one. So what is in the log counts until all of it is applied, or was
    truncated, and nothing of it was ever true. A node that the log removes is not spoken to from
    that entry on: its certificate may be stolen, and it could keep the entry from being applied.
    """

    def __init__(self, configured: Mapping[NodeId, str], founders: Iterable[Founder] = ()) -> None:
        """`configured`: what this node was started with. Where it differs from the log it is right,
        because a person wrote it when machines moved; what a node says itself is newer. The stores
        of `founders` are known before any of them has registered."""
        self._configured = dict(configured)
        self._addresses = dict(configured)
        self._founding = {each.node: each.store_uuid for each in founders}
        self.observers: frozenset[NodeId] = frozenset()
        """Those of them that are observers: they neither vote nor need to be heard."""
        self.parents: dict[NodeId, tuple[NodeId, ...]] = {}
        """What the observers pull from, as the controller's log has it so far."""
        self._greeted: dict[NodeId, str] = {}
        """Where nodes said last, to this process, that they listen."""
        self._logged = ClusterNodes(ControllerLimits().nodes_max)
        """Those of the machine, changed by the commands in the log that it has not applied."""
        self._retired_at: dict[NodeId, LogIndex] = {}
        """Nodes that the log removes, with the entry that does so."""
        self.read_until = LastEntry(Term(0), NO_INDEX)
        """Where the controller's log ended when it was read last."""

    def __getitem__(self, node: NodeId) -> str:
        return self._addresses[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def forget_log(self, known: ClusterNodes) -> None:
        """Start again from the nodes that the machine knows: what was read of the log has been
        applied, or truncated."""
        self._logged = ClusterNodes.restore(*known.state(), ControllerLimits().nodes_max)
        self._retired_at.clear()
        self.read_until = LastEntry(Term(0), NO_INDEX)

    def read_log(self, commands: Iterable[tuple[LogIndex, Command]], last: LastEntry) -> None:
        """What the controller's log holds beyond what was read of it and what its machine has
        applied; it ends at `last`."""
        self.read_until = last
        for index, command in commands:
            match command:
                case RegisterNode() if problem_of_node(command) is None:
                    self._logged.register(index, command)
                case AddNode() if problem_of_node_command(command) is None:
                    self._logged.add(command)
                case SetDuty() if problem_of_node_command(command) is None:
                    self._logged.set_duty(command)
                case RetireNode() if problem_of_node_command(command) is None:
                    if isinstance(self._logged.retire(command), NodeRetired):
                        self._retired_at[command.node] = index
                case _:
                    pass

    def follow(
        self,
        controller: ControllerMachine,
        applied_index: LogIndex,
        deciding: Collection[NodeId],
    ) -> bool:
        """The controller's machine has applied that entry; are there other nodes or addresses?

        Those of `deciding` stay until the machine itself has removed them: only they can commit
        what is in the log. No leader proposes the removal of one that votes in its group.

        A node whose address in the log or in the state is none is left out: everything that dials
        or reports an address takes it from here.
        """
        found: dict[NodeId, str] = {}
        if applied_index < self.read_until.index:
            found.update({node: known.address for node, known in self._logged.items()})
        found.update({node: known.address for node, known in controller.nodes.items()})
        found = {node: address for node, address in found.items() if is_address(address)}
        found.update(self._configured)
        found.update({node: at for node, at in self._greeted.items() if node in found})
        retired = {node for node, at in self._retired_at.items() if applied_index < at}
        for node in found.keys() & (retired.difference(deciding) | controller.nodes.retired):
            del found[node]
        logged = self._logged if applied_index < self.read_until.index else controller.nodes
        known = controller.nodes
        observers = frozenset(
            node for node in found if logged.is_observer(node) or known.is_observer(node)
        )
        parents = {node: known[node].parents for node in observers if node in known}
        changed = (found, observers, parents) != (self._addresses, self.observers, self.parents)
        self._addresses, self.observers, self.parents = found, observers, parents
        return changed

    def greeted(self, node: NodeId, address: str) -> bool:
        """The node's newest process listens there, as it has said; is that news? Until it has
        registered, which takes a leader, nothing else tells, and it may be needed to elect one."""
        if not is_address(address) or self._addresses.get(node, address) == address:
            return False
        self._greeted[node] = address
        return True

    def store_of(
        self, node: NodeId, controller: ControllerMachine, applied_index: LogIndex
    ) -> str | None:
        """The store that is bound to the node id; None: this node knows of none. A founder's is
        bound before it registers."""
        found = self.registered_store(node, controller, applied_index)
        return found or self._founding.get(node)

    def latest(
        self, node: NodeId, controller: ControllerMachine, applied_index: LogIndex
    ) -> KnownNode | None:
        """The node as the controller's log here has it last, applied or not: a node that has just
        started has applied nothing again."""
        if applied_index < self.read_until.index:
            return self._logged.get(node)
        return controller.nodes.get(node)

    def registered_store(
        self, node: NodeId, controller: ControllerMachine, applied_index: LogIndex
    ) -> str | None:
        """The store that the node has registered; None: this node knows of none."""
        known = controller.nodes.get(node)
        if known is None and applied_index < self.read_until.index:
            known = self._logged.get(node)
        return (known.store_uuid or None) if known is not None else None
