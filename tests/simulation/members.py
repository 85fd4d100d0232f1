"""Groups that are placed on other nodes, while everything else goes on.

Wishes go to the controller's leader, as an operator's do. The groups' leaders do the rest, and
their reports take the same way. So replicas come into being empty, catch up, vote, and are removed
again, on nodes that once promised something in the same group.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Payload
from raftlog.machines.commands import Command, PlaceGroup, ReportPlacement
from raftlog.machines.outcomes import GroupPlaced, PlacementReported
from raftlog.machines.placements import Placement
from raftlog.multiraft.moves import PlacementReports
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.wire.codec import encode_command
from tests.simulation.network import Network
from tests.simulation.node import Reply, SimulatedNode
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings


def command_controller(leader: SimulatedNode, command: Command, reply: Reply) -> None:
    """Have the controller's leader replicate a command; reply with its outcome."""
    payload = Payload(encode_command(command, None), b"")
    leader.propose(CONTROLLER_GROUP, lambda _: payload, reply)


class Placing:
    """Wishes groups elsewhere, now and then, until `restore`; and carries voters' reports."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        network: Network,
        settings: Settings,
        nodes: dict[NodeId, SimulatedNode],
        groups: Callable[[], list[GroupId]],
    ) -> None:
        self._simulator = simulator
        self._network = network
        self._settings = settings
        self._nodes = nodes
        self._groups = groups
        self._random = simulator.random("members")
        self._restoring = False
        self.full = False
        """Is every group to be on every node for the moment?"""
        self.held = False
        """Is nothing to be placed for the moment?"""
        self._founders = tuple(nodes)
        self._counted: WeakKeyDictionary[MultiRaft, PlacementReports] = WeakKeyDictionary()
        for node in nodes.values():
            node.reports = self.report

    def start(self) -> None:
        if self._settings.changes_members and len(self._nodes) > 1:
            self._plan()

    def restore(self) -> None:
        """Let every node hold every group again, as soon as it can."""
        self._restoring = True

    def are_restored(self) -> bool:
        """Does every node vote in every group, as all nodes know?"""
        everyone = tuple(sorted(self._nodes))
        for group in self._groups():
            for node in self._nodes.values():
                local = node.local(group)
                if local is None or local.raft.recovering:
                    return False
                membership = local.raft.membership
                if (membership.voters, membership.is_joint) != (everyone, False):
                    return False
        return True

    def _plan(self) -> None:
        self._simulator.at(self._random.randrange(1, 6 * self._settings.tick_us), self._happen)

    def _happen(self) -> None:
        groups = [] if self.held else self._groups()
        if groups and not (self._restoring or self.full):
            groups = [groups[self._random.randrange(len(groups))]]
        for group in groups:
            self._wish(group)
        self._plan()  # also when all is restored: an earlier wish may still be under way

    def _wish(self, group: GroupId) -> None:
        leader = self._controllers_leader()
        if leader is None:
            return
        controller = leader.multiraft.replicas.controller
        everyone = tuple(sorted(self._nodes))
        info = controller.info_of(group)
        made = info.voters if info is not None else self._founders
        now = controller.placements.get(group, Placement(made, 0, 0, made))
        voters = everyone
        if not (self._restoring or self.full):
            count = self._random.randrange(len(everyone) // 2 + 1, len(everyone) + 1)
            voters = tuple(sorted(self._random.sample(everyone, count)))
        if not now.is_reached and not set(now.voters) <= set(everyone):
            voters = now.former  # it waits for a node whose machine is lost, and is taken back
        if voters == now.voters:
            return
        command = PlaceGroup(group=group, voters=voters, generation=now.generation, former=made)
        self._ask(leader, command, GroupPlaced, "groups placed elsewhere")

    def report(self, reporter: NodeId, report: ReportPlacement) -> None:
        """Carry a voter's report to the controller's leader, which counts them until it crashes."""

        def arrive() -> None:
            leader = self._controllers_leader()
            if leader is None:
                return
            multiraft = leader.multiraft
            counted = self._counted.setdefault(multiraft, PlacementReports())
            replicas = multiraft.replicas
            heard = set(replicas.voting_nodes).difference(multiraft.silent_nodes)
            if counted.are_enough(report, reporter, replicas.controller, heard=heard):
                self._ask(leader, report, PlacementReported, "placements reported")

        self._network.call(arrive)

    def _ask(self, leader: SimulatedNode, command: Command, done: type, what: str) -> None:
        def answered(outcome: object) -> None:
            self._simulator.counts[what] += isinstance(outcome, done)

        command_controller(leader, command, answered)

    def _controllers_leader(self) -> SimulatedNode | None:
        leaders = [node for node in self._nodes.values() if node.leads(CONTROLLER_GROUP)]
        return leaders[-1] if leaders else None
