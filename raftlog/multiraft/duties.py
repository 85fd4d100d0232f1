"""What a leader does for its groups besides what clients ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from raftlog.core.membership import Membership
from raftlog.core.ready import Role
from raftlog.core.types import NodeId, Payload, RaftTiming
from raftlog.errors import CorruptFile
from raftlog.machines.commands import ReportPlacement
from raftlog.multiraft.awake import AwakeReplicas
from raftlog.multiraft.carried_settings import carry_settings
from raftlog.multiraft.clocks import VoterClocks
from raftlog.multiraft.draining import others_can_lead
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.moves import move_groups, reports_due
from raftlog.multiraft.replicas import NodeReplicas
from raftlog.multiraft.retention import trim_expired
from raftlog.multiraft.upgrade import raise_rules

_DUE_HEARTBEATS = 100
"""Rules and settings that could not be proposed when they were due (a full disk, say) are tried
again so often. No setting: only an upgrade's end and a change of retention wait for it."""

_DRAIN_HEARTBEATS = 5
"""A drained node looks so often for groups that others can lead. Not at every one: an election must
have time to end."""

_REPORT_HEARTBEATS = 10
"""A change of members that was reported, and is not known to be, is reported again so often."""


class LeaderDuties:
    """Of the groups that a node leads; which these are, is asked each time."""

    def __init__(
        self,
        *,
        node: NodeId,
        replicas: NodeReplicas,
        effects: Effects,
        clocks: VoterClocks,
        timing: RaftTiming,
        retention_ticks: int,
        propose: Callable[[LocalReplica, Payload], None],
        change: Callable[[LocalReplica, Membership], None],
        damaged: Callable[[LocalReplica, CorruptFile], None],
        awake: AwakeReplicas,
    ) -> None:
        """`propose` and `change` raise what `MultiRaft.propose` and `change_membership` raise."""
        self._node = node
        self._replicas = replicas
        self._effects = effects
        self._clocks = clocks
        self._timing = timing
        self._retention_ticks = retention_ticks
        self._propose = propose
        self._change = change
        self._damaged = damaged
        self._awake = awake
        self._reported: dict[ReportPlacement, int] = {}
        """What was reported and is not known to have arrived, and at which tick."""

    def propose_due(self, groups: Collection[LocalReplica]) -> None:
        """Propose the rules and settings that are due in those of the groups."""
        controller = self._replicas.controller
        raise_rules(groups, controller, self._replicas.nodes, self._propose)
        carry_settings(groups, controller, self._propose)

    def _let_others_lead(self) -> None:
        """Give away the groups that others can lead, while this node is drained."""
        node, nodes = self._node, self._replicas.controller.nodes
        if node not in nodes or not nodes[node].draining:
            return
        for local in self._replicas.values():
            raft = local.raft
            if raft.role is Role.LEADER and others_can_lead(
                node,
                raft.membership,
                raft.followers(),
                nodes,
                commit_index=raft.commit_index,
                last_index=raft.log.last_index,
                patience_ticks=self._timing.election_ticks_min,
            ):
                local.replica.let_others_lead()
                self._awake.tick_again(local)

    def _report(self, ticks: int) -> None:
        due = list(reports_due(self._replicas, self._replicas.controller))
        self._reported = {each: at for each, at in self._reported.items() if each in due}
        again_after = _REPORT_HEARTBEATS * self._timing.heartbeat_ticks
        for report in due:
            if ticks - self._reported.get(report, -again_after) >= again_after:
                self._reported[report] = ticks
                self._effects.report(report)

    def tick(self, ticks: int) -> None:
        """So many ticks of the clock have passed since the start."""
        heartbeat = self._timing.heartbeat_ticks
        if ticks % heartbeat == 0:
            move_groups(
                self._replicas,
                self._replicas.controller,
                self._change,
                patience_ticks=self._timing.election_ticks_min,
            )
            self._report(ticks)
        if ticks % (_DRAIN_HEARTBEATS * heartbeat) == 0:
            self._let_others_lead()
        if ticks % (_DUE_HEARTBEATS * heartbeat) == 0:
            self.propose_due(self._replicas.values())
        if ticks % self._retention_ticks == 0:
            trim_expired(
                self._replicas.values(),
                self._clocks.confirmed_us,
                self._propose,
                self._effects,
                self._damaged,
            )
