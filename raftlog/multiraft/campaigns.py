"""Which replicas of a node campaign at the same time.

A campaign costs every voter messages and writes. If a node with a thousand groups started them all
at once, a slow event loop would not get through them within an election timeout. Then they would
start again, and the heartbeats of those that had won would come late and cost them their followers:
an election storm that does not end. So the groups of a node share one budget. At most
`MultiRaftLimits.campaigns_max` are in flight, from the pre-vote on. A loop that is behind campaigns
less: its groups have no ticks until it has caught up (`AwakeReplicas.tick`).

Nothing is lost by a wait. The replica stays as it is, votes for others, and loses its turn if it
hears a leader or votes meanwhile. A role that is handed over (`TimeoutNow`) does not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raftlog.core.ready import Role
from raftlog.core.types import GroupId
from raftlog.multiraft.group_queue import GroupQueue
from raftlog.multiraft.local_replica import LocalReplica


class Campaigns:
    """The campaigns of one node: those in flight, and those that wait. One thread's own."""

    def __init__(
        self,
        replicas: Mapping[GroupId, LocalReplica],
        mark_dirty: Callable[[GroupId], None],
        in_flight_max: int,
    ) -> None:
        """`mark_dirty`: the group must be advanced, as its campaign has started."""
        self._replicas = replicas
        self._mark_dirty = mark_dirty
        self._in_flight_max = in_flight_max
        self._waiting, self._cut_off = GroupQueue(), GroupQueue()
        """Those that hear no majority are in the second one, which goes last."""
        self._in_flight: set[GroupId] = set()

    @property
    def waiting(self) -> int:
        """How many replicas wait for their turn."""
        return len(self._waiting) + len(self._cut_off)

    def due(self, group: GroupId, *, hears_quorum: bool) -> None:
        """The replica's wait for a leader, or for answers to its last campaign, is over. Without a
        majority in reach it hardly wins, and its campaign lasts until its timeout: it goes last,
        and leaves half of the budget to others."""
        self._in_flight.discard(group)
        if hears_quorum:
            self._cut_off.discard(group)
            self._waiting.add(group)
        else:
            self._waiting.discard(group)
            self._cut_off.add(group)

    def start(self) -> None:
        """Start those that wait, as far as the budget lets them."""
        if not self.waiting:
            return
        self._in_flight = {group for group in self._in_flight if self._campaigns(group)}
        self._start(self._waiting, self._in_flight_max)
        self._start(self._cut_off, self._in_flight_max // 2)

    def _start(self, waiting: GroupQueue, in_flight_max: int) -> None:
        while waiting and len(self._in_flight) < in_flight_max:
            local = self._replicas.get(waiting.take())
            if local is not None and local.may_campaign and local.raft.campaign_due:
                local.raft.campaign()
                self._in_flight.add(local.group)
                self._mark_dirty(local.group)

    def _campaigns(self, group: GroupId) -> bool:
        local = self._replicas.get(group)
        return local is not None and local.raft.role in (Role.PRE_CANDIDATE, Role.CANDIDATE)
