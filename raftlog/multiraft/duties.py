"""What a leader does for its groups besides what clients ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from raftlog.core.membership import Membership
from raftlog.core.types import Payload, RaftTiming
from raftlog.errors import CorruptFile
from raftlog.machines.commands import ReportPlacement
from raftlog.multiraft.awake import AwakeReplicas
from raftlog.multiraft.carried_settings import carry_settings
from raftlog.multiraft.clocks import VoterClocks
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.leader_moves import LeaderMoves
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.moves import move_groups, reports_due
from raftlog.multiraft.replicas import NodeReplicas
from raftlog.multiraft.retention import Retention
from raftlog.multiraft.upgrade import raise_rules

_DUE_HEARTBEATS = 100
"""Rules and settings that could not be proposed when they were due (a full disk, say) are tried
again so often. No setting: only an upgrade's end and a change of retention wait for it."""

_REPORT_HEARTBEATS = 10
"""A change of members that was reported, and is not known to be, is reported again so often."""


class LeaderDuties:
    """Of the groups that a node leads; which these are, is asked each time. Changes of members are
    reported by every voter."""

    def __init__(
        self,
        *,
        replicas: NodeReplicas,
        effects: Effects,
        clocks: VoterClocks,
        timing: RaftTiming,
        retention_ticks: int,
        propose: Callable[[LocalReplica, Payload], None],
        change: Callable[[LocalReplica, Membership], None],
        damaged: Callable[[LocalReplica, CorruptFile], None],
        awake: AwakeReplicas,
        leader_moves: LeaderMoves,
    ) -> None:
        """`propose` and `change` raise what `MultiRaft.propose` and `change_membership` raise."""
        self._replicas = replicas
        self._effects = effects
        self._timing = timing
        self._retention_ticks = retention_ticks
        self._propose = propose
        self._change = change
        self._awake = awake
        self._leader_moves = leader_moves
        self._retention = Retention(
            groups=replicas.values,
            clock=clocks.confirmed_us,
            propose=propose,
            effects=effects,
            damaged=damaged,
        )
        self._reported: dict[ReportPlacement, int] = {}
        """What was reported and is not known to have arrived, and at which tick."""

    def propose_due(self, groups: Collection[LocalReplica]) -> None:
        """Propose the rules and settings that are due in those of the groups."""
        controller = self._replicas.controller
        raise_rules(groups, controller, self._replicas.nodes, self._propose)
        carry_settings(groups, controller, self._propose)

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
        self._leader_moves.tick(ticks)
        heartbeat = self._timing.heartbeat_ticks
        if ticks % heartbeat == 0:
            move_groups(
                self._replicas,
                self._replicas.controller,
                self._change,
                patience_ticks=self._timing.election_ticks_min,
                silent=self._awake.silent,
            )
            self._report(ticks)
        if ticks % (_DUE_HEARTBEATS * heartbeat) == 0:
            self.propose_due(self._replicas.values())
        if ticks % self._retention_ticks == 0:
            self._retention.look()
