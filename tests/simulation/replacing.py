"""A node that is wiped while it runs, and another one that takes its place.

Its machine is lost with its folder. An empty folder is started under its old id, as somebody may
do by mistake: that one must be refused, by its peers and by the controller, and never be counted.
Then a node with a new id is added, registers, gets every place of the old one, and the old id is
retired. One node at a time, and only while all others hold every group: nothing may be lost.
"""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.machines.commands import AddNode, Command, RegisterNode, RetireNode, SetDuty
from raftlog.machines.outcomes import DutySet, NodeAdded, NodeRegistered, NodeRetired, Refused
from raftlog.machines.rules import RULES_LATEST
from tests.simulation.checkers import Checker
from tests.simulation.members import Placing, command_controller
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode
from tests.simulation.promises import Promise, Violation
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings

ID_DISTANCE = 20
"""The node that replaces node 2 is node 22: above the ids of all observers."""


class Replacing:
    """Wipes one node and replaces it, if the seed says so."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        network: Network,
        settings: Settings,
        checker: Checker,
        nodes: dict[NodeId, SimulatedNode],
        placing: Placing,
    ) -> None:
        self._simulator = simulator
        self._network = network
        self._settings = settings
        self._checker = checker
        self._nodes = nodes
        self._placing = placing
        self._random = simulator.random("replacing")
        self._founders = tuple(nodes)
        self._healed = False
        self._condemned = False
        self._retiring = False
        self.gone: list[SimulatedNode] = []
        """The node that was wiped."""
        self._coming: SimulatedNode | None = None
        self._replaced = False
        self._retired = False

    def start(self) -> None:
        settings = self._settings
        if settings.replaces_nodes and settings.changes_members and not settings.damage_weight:
            self._simulator.at(self._random.randrange(self._settings.chaos_us // 2), self._condemn)

    def heal(self) -> None:
        """Choose no node any more. One that was chosen and could not be spared so far goes now."""
        self._healed = True

    def is_replaced(self) -> bool:
        """Is there another node for the one that was chosen, if one was?"""
        return self._replaced or not self._condemned

    def retire(self) -> None:
        """Let the old id be removed for ever: nothing is on it any more."""
        self._retiring = True

    def is_over(self) -> bool:
        """Do all nodes know that the old id is removed?"""
        return not self.gone or all(
            node.running and self.gone[0].node in node.multiraft.replicas.controller.nodes.retired
            for node in self._nodes.values()
        )

    # ------------------------------------------------------------ private

    def _condemn(self) -> None:
        """Let every node hold every group, and then lose one of them."""
        if self._healed:
            return
        self._condemned = True
        self._placing.full = True
        victim = self._random.choice(list(self._nodes.values()))
        self._repeat(lambda: self._wipe(victim))

    def _repeat(self, step: Callable[[], bool]) -> None:
        """Take the step again and again until it says that it is done."""

        def happen() -> None:
            if not step():
                self._repeat(step)

        self._simulator.at(self._random.randrange(1, 2 * self._settings.tick_us), happen)

    def _wipe(self, victim: SimulatedNode) -> bool:
        if not self._may_lose(victim):
            return False
        self._simulator.note("wiped", victim.node)
        self._simulator.counts["nodes wiped"] += 1
        self._placing.full, self._placing.held = False, True
        victim.end(power=True)
        victim.gone = True
        del self._nodes[victim.node]
        self.gone.append(victim)
        self._checker.wiped(victim.node)
        self._simulator.at(self._settings.tick_us, self._start_empty)
        self._repeat(self._replace)
        return True

    def _may_lose(self, victim: SimulatedNode) -> bool:
        """Do all nodes run, vote in every group, know the victim's store, and is no placement under
        way that somebody may still hear of?"""
        if not all(node.running for node in self._nodes.values()):
            return False
        if not self._placing.are_restored():
            return False
        ends = set()
        for node in self._nodes.values():
            replica = node.multiraft.replicas.of_controller.replica
            ends.add((replica.applied_index, replica.raft.log.last_index))
            controller = node.multiraft.replicas.controller
            if not node.multiraft.replicas.has_registered(victim.node):
                return False
            if list(controller.placements.under_way()):  # any() would pass over group 0
                return False
        return len(ends) == 1 and len(set(ends.pop())) == 1

    def _start_empty(self) -> None:
        """A process under the old id that knows nothing. It is not one of the nodes, and what it
        does counts nowhere: a checker of its own sees it."""
        old = self.gone[0].node
        empty = SimulatedNode(
            node=old,
            voters=self._founders,
            simulator=self._simulator,
            network=self._network,
            settings=self._settings,
            checker=Checker(self._simulator, len(self._founders), lambda: 1 << 62),
            store=f"store-{old}-empty",
        )
        empty.start()

        def ends() -> None:
            if empty.running:
                empty.end(power=True)
            empty.gone = True

        self._simulator.at(self._random.randrange(2 * self._settings.fault_us), ends)
        address = f"node-{old}:1"
        command = RegisterNode(
            node=old, store_uuid=empty.store, address=address, rules=RULES_LATEST
        )
        self._ask(command, NodeRegistered, self._let_in)

    def _let_in(self) -> None:
        raise Violation(Promise.EXPECTED_OUTCOMES, "an empty folder was registered under an old id")

    def _replace(self) -> bool:
        """Add the new node, start it and let it register."""
        old = self.gone[0].node
        new = NodeId(old + ID_DISTANCE)
        address = f"node-{new}:1"
        if self._coming is None:
            self._ask(AddNode(node=new, address=address), NodeAdded, lambda: self._come(new))
        elif not self._replaced:
            register = RegisterNode(
                node=new, store_uuid=self._coming.store, address=address, rules=RULES_LATEST
            )
            self._ask(register, NodeRegistered, self._takes_over)
        elif self._retiring and not self._retired:
            leaving = SetDuty(node=old, draining=False, leaving=True)
            retire = RetireNode(node=old)
            self._ask(leaving, DutySet, lambda: self._ask(retire, NodeRetired, self._end))
        return self._retired

    def _come(self, new: NodeId) -> None:
        if self._coming is not None:
            return
        self._coming = SimulatedNode(
            node=new,
            voters=self._founders,
            simulator=self._simulator,
            network=self._network,
            settings=self._settings,
            checker=self._checker,
        )
        self._coming.reports = self._placing.report
        self._coming.start()

    def _takes_over(self) -> None:
        if self._replaced or self._coming is None:
            return
        self._replaced = True
        self._nodes[self._coming.node] = self._coming
        self._placing.held = False
        self._simulator.counts["nodes replaced"] += 1

    def _end(self) -> None:
        self._retired = True

    def _ask(self, command: Command, done: type, then: Callable[[], None]) -> None:
        """Ask the controller's leader, if there is one that can be asked."""
        leaders = [node for node in self._nodes.values() if node.leads(CONTROLLER_GROUP)]
        if not leaders:
            return

        def answered(outcome: object) -> None:
            if isinstance(outcome, Refused):
                self._simulator.counts[f"replacing refused: {outcome.code}"] += 1
            if isinstance(outcome, done):
                then()

        command_controller(leaders[-1], command, answered)
