"""The calls about nodes and about where groups are. Only the controller's leader answers them."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.errors import AddressTaken, NodeInUse, NotAVoter, TooFewNodes
from raftlog.machines.commands import (
    AddNode,
    CreateKv,
    CreateTopic,
    PlaceGroup,
    ReportPlacement,
    RetireNode,
    SetDuty,
    SetParents,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import label_of
from raftlog.machines.outcomes import (
    DutySet,
    GroupPlaced,
    NodeAdded,
    NodeRetired,
    Outcome,
    ParentsSet,
    PlacementReported,
    Refused,
)
from raftlog.machines.placements import Placement
from raftlog.placement import REPLICAS_DEFAULT, Held, chosen, load_of
from raftlog.server.fair_scans import WORK_PER_GROUP, FairScans
from raftlog.server.node import Node
from raftlog.server.refused import accepted, check_address
from raftlog.wire import placing_calls as calls


class PlacingServices:
    """Every method may raise any `RaftlogError`."""

    def __init__(self, node: Node, scans: FairScans) -> None:
        self._node = node
        self._scans = scans
        self._replicas = node.multiraft.replicas

    @property
    def _controller(self) -> ControllerMachine:
        return self._replicas.controller

    async def add_node(self, call: AddNode) -> NodeAdded:
        """Let a node join. Raises `NodeExists`, `AddressTaken`, `NodeRemoved`,
        `ObserverRefused`."""
        check_address("AddNode", call.address)
        self._node.check_leads(self._replicas.of_controller)
        for node, address in self._node.addresses.items():
            # Nodes that have not registered yet are known by their configuration only.
            if address == call.address and node != call.node:
                raise AddressTaken(address=address, node=node)
        outcome = await self._node.propose(self._replicas.of_controller, call)
        return accepted(NodeAdded, outcome)

    async def set_parents(self, call: SetParents) -> ParentsSet:
        """Say what an observer pulls from. Raises `ObserverRefused`, `NodeUnknown`."""
        outcome = await self._node.propose(self._replicas.of_controller, call)
        return accepted(ParentsSet, outcome)

    async def set_duty(self, call: SetDuty) -> DutySet:
        """Say what a node is to do. Raises `NodeUnknown`, `TooFewNodes`."""
        outcome = await self._node.propose(self._replicas.of_controller, call)
        return accepted(DutySet, outcome)

    async def retire_node(self, call: RetireNode) -> NodeRetired:
        """Remove a node permanently. Raises `NodeInUse`, `NodeUnknown`."""
        self._node.check_leads(self._replicas.of_controller)
        if call.node in self._replicas.of_controller.raft.membership.all_voters:
            raise NodeInUse(node=call.node, what="it votes in the controller's group")
        outcome = await self._node.propose(self._replicas.of_controller, call)
        return accepted(NodeRetired, outcome)

    async def place_group(self, call: calls.PlaceGroupCall) -> GroupPlaced:
        """Wish a group elsewhere. Raises `PlacementUnderWay`, `PlacementOutdated`, `NodeUnknown`,
        `GroupUnknown`."""
        self._node.check_leads(self._replicas.of_controller)
        info = self._controller.info_of(call.group)
        former = info.voters if info is not None else self._controller_voters()
        command = PlaceGroup(
            group=call.group, voters=call.voters, generation=call.generation, former=former
        )
        outcome = await self._node.propose(self._replicas.of_controller, command)
        return accepted(GroupPlaced, outcome)

    async def report_placement(self, call: ReportPlacement) -> PlacementReported:
        """A group's log has committed the change of this generation, one of its voters says."""
        return await self._node.report_placement(call)

    async def describe_placements(self, _: calls.DescribePlacements) -> calls.PlacementsReply:
        """What is where as of now, linearizable."""
        await self._node.read_barrier(self._replicas.of_controller)
        await self._scans.begin()
        controller = self._controller
        made = [(CONTROLLER_GROUP, "", self._controller_voters())]
        made += [(info.group, label_of(info), info.voters) for info in controller.groups()]
        self._scans.spend(WORK_PER_GROUP * len(made))
        groups = []
        for group, name, voters in sorted(made):
            found = controller.placements.get(group, Placement(voters, 0, 0, voters))
            groups.append(
                calls.GroupPlace(
                    group=group,
                    topic=name,
                    voters=found.voters,
                    former=found.former,
                    generation=found.generation,
                    reached=found.is_reached,
                )
            )
        return calls.PlacementsReply(
            nodes=self._nodes(),
            groups=tuple(groups),
            founders=self._node.identity.founders,
            removed=tuple(sorted(controller.nodes.retired)),
        )

    async def transfer_leadership(self, call: calls.TransferCall) -> calls.TransferReply:
        """Hand a group's leadership to another voter. Raises `NotAVoter`, `TransferRefused`,
        `NotLeader`."""
        local = self._node.group_here(call.group)
        self._node.check_leads(local)
        voters = local.raft.membership.voters
        if call.to not in voters:
            listed = ", ".join(map(str, voters))
            raise NotAVoter(group=call.group, node=call.to, voters=listed)
        if call.to == self._node.node:
            return calls.TransferReply(leader=call.to)
        return calls.TransferReply(leader=await self._node.transfer_leadership(local, call.to))

    async def make_group(
        self,
        what: str,
        replicas: int,
        command_on: Callable[[tuple[NodeId, ...]], CreateTopic | CreateKv],
    ) -> Outcome:
        """Create a group by a command, where `voters_for` says; elsewhere if one of these nodes was
        removed, and this leader had not applied that."""
        while True:
            command = command_on(self.voters_for(what, replicas))
            outcome = await self._node.propose(self._replicas.of_controller, command)
            if not (isinstance(outcome, Refused) and outcome.code == "NodeRemoved"):
                return outcome

    def voters_for(self, what: str, replicas: int) -> tuple[NodeId, ...]:
        """On which nodes a new group is put: those that are silent only if the others are too few.
        `replicas` 0: the default. Raises `TooFewNodes`, `NotLeader`."""
        self._node.check_leads(self._replicas.of_controller)
        controller = self._controller
        found = self._nodes()
        nodes = {each.node: each.rack for each in found if calls.takes_replicas(each)}
        if max(replicas, 1) > len(nodes):
            waited_for = calls.not_started(found)
            raise TooFewNodes(
                what=what, needed=max(replicas, 1), found=len(nodes), unstarted=waited_for
            )
        held = [
            Held(info.group, label_of(info), controller.voters_of(info))
            for info in controller.groups()
        ]
        count, load = replicas or min(REPLICAS_DEFAULT, len(nodes)), load_of(held)
        silent = self._node.multiraft.silent_nodes
        heard = {node: rack for node, rack in nodes.items() if node not in silent}
        if len(heard) >= count:
            return chosen(count, heard, load)
        return chosen(count, nodes, load, kept=tuple(heard))  # the others may come back

    def _nodes(self) -> tuple[calls.NodePlaces, ...]:
        """All nodes by id. One that the cluster began with may not have registered yet."""
        addresses, known = self._node.addresses, self._controller.nodes
        founders = self._controller_voters()
        found = []
        for node in sorted({*addresses, *known}):
            its = known.get(node)
            found.append(
                calls.NodePlaces(
                    node=node,
                    address=addresses.get(node, its.address if its is not None else ""),
                    rack=its.rack if its is not None else "",
                    registered=bool(its.store_uuid) if its is not None else node in founders,
                    draining=its is not None and its.draining,
                    leaving=its is not None and its.leaving,
                    observer=its is not None and its.observer,
                    parents=its.parents if its is not None else (),
                    level=known.level_of(node),
                )
            )
        return tuple(found)

    def _controller_voters(self) -> tuple[NodeId, ...]:
        return self._replicas.of_controller.raft.membership.voters
