"""Observers beside the simulated nodes: a chain of them, or several that share their parents.

They come once the controller knows observers, crash, lose power, are paused and cut off, and at the
end have all that the nodes have. What an observer applies, the checker holds against what is
committed, as on every node.
"""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.machines.commands import AddNode
from raftlog.machines.outcomes import NodeAdded, Refused
from tests.simulation.checkers import Checker, same_states
from tests.simulation.members import command_controller
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode
from tests.simulation.promises import Promise
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings


class Observers:
    """Adds `settings.observers` nodes that pull, and troubles them until `heal`."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        network: Network,
        settings: Settings,
        checker: Checker,
        nodes: dict[NodeId, SimulatedNode],
        groups: Callable[[], list[GroupId]],
    ) -> None:
        self._simulator = simulator
        self._network = network
        self._settings = settings
        self._checker = checker
        self._nodes = nodes
        self._groups = groups
        self._random = simulator.random("observers")
        self._healed = False
        self._cuts: list[list[tuple[NodeId, NodeId]]] = []
        self._coming = [NodeId(len(nodes) + each) for each in range(1, settings.observers + 1)]
        self.nodes: dict[NodeId, SimulatedNode] = {}
        """Those that have come."""

    def start(self) -> None:
        if self._coming:
            self._plan()

    def heal(self) -> None:
        """End every fault."""
        self._healed = True
        for node in self.nodes.values():
            node.resume()
            if not node.running:
                node.start()

    def have_caught_up(self) -> bool:
        """Have all come, and applied what the nodes have?"""
        if self._coming:
            return False
        for group in self._groups():
            first = next(iter(self._nodes.values())).local(group)
            for node in self.nodes.values():
                local = node.local(group)
                if first is None or local is None or local.below_parent:
                    return False
                if local.replica.applied_index != first.replica.applied_index:
                    return False
        return True

    def check(self) -> None:
        """Equal states, equal logs, and no vote: for when they have caught up."""
        for group in self._groups():
            truth = self._checker.group(group)
            wanted = next(iter(self._nodes.values())).local(group)
            assert wanted is not None
            for node in self.nodes.values():
                local = node.local(group)
                assert local is not None
                if not same_states(local.replica, wanted.replica):
                    truth.fail(Promise.STATE_MACHINE_SAFETY, f"observer {node.node} differs")
                log = local.raft.log
                for index in range(log.base_index + 1, log.last_index + 1):
                    if truth.committed[index - 1].term != log.term_at(index):
                        truth.fail(Promise.LOG_MATCHING, f"observer {node.node} at {index}")
                if any(voter == node.node for voter, _ in truth.votes):
                    truth.fail(Promise.DURABLE_VOTES, f"observer {node.node} has voted")

    # ------------------------------------------------------------ private

    def _plan(self) -> None:
        self._simulator.at(self._random.randrange(1, 6 * self._settings.tick_us), self._happen)

    def _happen(self) -> None:
        if self._coming:
            self._add(self._coming[0])
        if self._healed and not self._coming:
            return
        if self.nodes and not self._healed and self._random.randrange(8) == 0:
            self._trouble()
        self._plan()

    def _add(self, node: NodeId) -> None:
        leaders = [each for each in self._nodes.values() if each.leads(CONTROLLER_GROUP)]
        if not leaders:
            return
        parents: tuple[NodeId, ...] = ()
        above = [*self._nodes, *self.nodes]
        if self._random.randrange(2):
            parents = tuple(sorted({above[-1], above[self._random.randrange(len(above))]}))
        command = AddNode(node=node, address=f"o{node}:1", observer=True, parents=parents)

        def answered(outcome: object) -> None:
            if (isinstance(outcome, NodeAdded) or _was_added(outcome)) and node in self._coming:
                self._coming.remove(node)
                self._simulator.counts["observers added"] += 1
                self.nodes[node] = SimulatedNode(
                    node=node,
                    voters=tuple(self._nodes),
                    simulator=self._simulator,
                    network=self._network,
                    settings=self._settings,
                    checker=self._checker,
                )
                self.nodes[node].start()

        command_controller(leaders[-1], command, answered)

    def _trouble(self) -> None:
        nodes = list(self.nodes.values())
        victim = nodes[self._random.randrange(len(nodes))]
        match self._random.randrange(3):
            case 0 if victim.running:
                self._simulator.counts["observer crashed"] += 1
                groups = [group for group in self._groups()[1:] if victim.local(group)]
                victim.end(power=bool(self._random.randrange(2)))
                if groups and self._settings.damage_weight:
                    self._simulator.counts["observer's log damaged"] += 1
                    victim.damage_log(self._random.choice(groups), self._random)
                self._later(lambda: victim.running or victim.start())
            case 1 if victim.running:
                self._simulator.counts["observer paused"] += 1
                victim.pause()
                self._later(victim.resume)
            case _:
                self._simulator.counts["observer cut off"] += 1
                peers = [each for each in (*self._nodes, *self.nodes) if each != victim.node]
                links = [(peer, victim.node) for peer in peers]
                links += [(victim.node, peer) for peer in peers if self._random.randrange(2)]
                self._network.cut(links)
                self._later(lambda: self._network.mend(links))

    def _later(self, end: Callable[[], object]) -> None:
        def over() -> None:
            if not self._healed:
                end()

        self._simulator.at(self._random.randrange(1, 2 * self._settings.fault_us), over)


def _was_added(outcome: object) -> bool:
    """Does the controller know the observer, perhaps with the parents of an earlier attempt? Other
    refusals say that a parent is not known yet."""
    return isinstance(outcome, Refused) and str(dict(outcome.values).get("problem", "")).startswith(
        "it was added before"
    )
