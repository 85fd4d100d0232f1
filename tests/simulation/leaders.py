"""Leaders that hand their role over, and nodes that are drained or stop as they should, between all
the faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.errors import NotLeader, TransferRefused
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.machines.commands import Command, RegisterNode, SetDuty
from raftlog.machines.outcomes import DutySet
from raftlog.machines.rules import RULES_LATEST
from tests.simulation.members import command_controller
from tests.simulation.node import SimulatedNode
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings


class Leading:
    """Moves leaders now and then, as an operator does, until `stop`."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        settings: Settings,
        nodes: dict[NodeId, SimulatedNode],
        groups: Callable[[], list[GroupId]],
    ) -> None:
        self._simulator = simulator
        self._settings = settings
        self._nodes = nodes
        self._groups = groups
        self._random = simulator.random("leaders")
        self._drains = simulator.random("drains")
        self._stopped = False
        self._to_end: dict[NodeId, Callable[[], None]] = {}
        """What ends each node that was told to stop."""

    def start(self) -> None:
        if self._settings.moves_leaders and len(self._nodes) > 1:
            self._plan()
            self._plan_drain()

    def stop(self) -> None:
        """Move no leader any more; a node that was told to stop is started again at once, and
        drained ones may lead again."""
        self._stopped = True
        for node, ends in list(self._to_end.items()):
            ends()
            if node in self._nodes:
                self._nodes[node].start_unless_running()

    def _plan(self) -> None:
        self._simulator.at(self._random.randrange(1, 8 * self._settings.tick_us), self._happen)

    def _happen(self) -> None:
        if self._stopped:
            return
        if self._random.randrange(6):
            self._move()
        else:
            self._restart()
        self._plan()

    def _plan_drain(self) -> None:
        self._simulator.at(self._drains.randrange(1, 16 * self._settings.tick_us), self._drain)

    def _drain(self) -> None:
        """As an operator does: a node is to lead nothing, or may lead again."""
        controller = self._controller()
        drained = controller is not None and self._change_duty(controller)
        if not self._stopped or drained or controller is None:
            self._plan_drain()

    def _change_duty(self, leader: SimulatedNode) -> bool:
        """Ask for the duty of one node, any or, in the end, one that is drained; is there one?"""
        known = leader.multiraft.replicas.controller.nodes
        nodes = [each for each in self._nodes.values() if not self._stopped or _drains(known, each)]
        if not nodes:
            return False
        node = self._drains.choice(nodes)
        now = known.get(node.node)
        if now is None:
            self._ask(
                leader,
                RegisterNode(
                    node=node.node,
                    store_uuid=node.store,
                    address=f"node-{node.node}:1",
                    rules=RULES_LATEST,
                ),
            )
        elif not now.leaving:
            drain = not now.draining
            self._ask(leader, SetDuty(node=node.node, draining=drain, leaving=False))
        return True

    def _ask(self, leader: SimulatedNode, command: Command) -> None:
        def answered(outcome: object) -> None:
            drained = isinstance(outcome, DutySet) and outcome.draining
            self._simulator.counts["nodes drained"] += drained

        command_controller(leader, command, answered)

    def _controller(self) -> SimulatedNode | None:
        """A node that leads the controller."""
        for node in self._nodes.values():
            if node.leads(CONTROLLER_GROUP) and not node.paused:
                return node
        return None

    def _move(self) -> None:
        """Ask for another leader of a group, at whoever leads it; it may be told so late, and it
        may be deposed and not know it."""
        group = self._random.choice(self._groups())
        to = self._random.choice(list(self._nodes))
        led = [node for node in self._nodes.values() if node.leads(group) and not node.paused]
        if not led:
            return
        leader = self._random.choice(led)
        local = leader.local(group)
        assert local is not None
        term = local.raft.term
        try:
            leader.multiraft.transfer_leadership(local, to, wished=self._random.randrange(2) > 0)
        except (NotLeader, TransferRefused):
            self._simulator.counts["transfers refused"] += 1
            return
        self._simulator.counts["transfers begun"] += 1

        def look() -> None:
            node = self._nodes.get(to)
            local = node.local(group) if node is not None else None
            led = local is not None and local.raft.role is Role.LEADER and local.raft.term > term
            self._simulator.counts["leaders moved"] += led

        self._simulator.at(self._settings.election_us, look)

    def _restart(self) -> None:
        """A node is told to stop: it hands over what it leads, ends, and is started again."""
        node = self._random.choice(list(self._nodes.values()))
        if not node.running or node.paused or node.node in self._to_end:
            return
        node.multiraft.leader_moves.stop()
        self._simulator.counts["nodes told to stop"] += 1
        multiraft = node.multiraft

        def ends() -> None:
            if self._to_end.get(node.node) is not ends:
                return
            del self._to_end[node.node]
            if node.running and node.multiraft is multiraft:
                self._simulator.counts["nodes that stopped as leaders of nothing"] += not any(
                    node.leads(group) for group in self._groups()
                )
                node.end(power=False)
                self._simulator.at(self._settings.tick_us, node.start_unless_running)

        self._to_end[node.node] = ends
        patience_us = self._random.randrange(1, 2 * self._settings.election_us)
        self._simulator.at(patience_us, ends)


def _drains(known: Mapping[NodeId, KnownNode], node: SimulatedNode) -> bool:
    return node.node in known and known[node.node].draining
