"""Changes of who votes and who learns in a group, while everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftlog.core.membership import Membership
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import ChangeUnderWay, MemberBehind
from raftlog.multiraft.local_replica import LocalReplica
from tests.simulation.node import SimulatedNode
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings


class MemberChanges:
    """Asks leaders for changes, now and then, until `restore`."""

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
        self._random = simulator.random("members")
        self._restoring = False

    def start(self) -> None:
        if self._settings.changes_members and len(self._nodes) > 1:
            self._plan()

    def restore(self) -> None:
        """Let every node vote in every group again, as soon as it can."""
        self._restoring = True

    def are_restored(self) -> bool:
        """Does every node vote in every group, as all nodes know?"""
        everyone = tuple(self._nodes)
        for group in self._groups():
            for node in self._nodes.values():
                local = node.local(group)
                if local is None:
                    return False
                membership = local.raft.membership
                if (membership.voters, membership.is_joint) != (everyone, False):
                    return False
        return True

    def _plan(self) -> None:
        interval_us = self._settings.tick_us if self._restoring else self._settings.fault_us
        self._simulator.at(self._random.randrange(1, 4 * interval_us), self._happen)

    def _happen(self) -> None:
        groups = self._groups()
        if not self._restoring:
            groups = [groups[self._random.randrange(len(groups))]]
        for group in groups:
            for node in self._nodes.values():
                local = node.local(group) if node.leads(group) else None
                if local is not None:
                    self._change(node, local)
        if not (self._restoring and self.are_restored()):
            self._plan()

    def _change(self, node: SimulatedNode, local: LocalReplica) -> None:
        everyone = list(self._nodes)
        voters = everyone
        if not self._restoring:
            count = self._random.randrange(len(everyone) // 2 + 1, len(everyone) + 1)
            voters = self._random.sample(everyone, count)
        learners = [each for each in everyone if each not in voters and self._random.randrange(2)]
        now = local.raft.membership
        if self._restoring and (now.voters, now.is_joint) == (tuple(everyone), False):
            return
        try:
            node.multiraft.change_membership(local, _membership(voters, learners))
        except ChangeUnderWay:
            return
        except MemberBehind:
            others = [each for each in everyone if each not in now.voters]
            if now.learners == tuple(others):
                return  # they learn already
            node.multiraft.change_membership(local, _membership(now.voters, others))
        self._simulator.counts["members changed"] += 1


def _membership(voters: Iterable[NodeId], learners: Iterable[NodeId]) -> Membership:
    return Membership(tuple(sorted(voters)), learners=tuple(sorted(learners)))
