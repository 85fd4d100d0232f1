"""Which of its voters leads a group, where there is a choice: the leader's duty.

Each voter is preferred by its share of the groups, in an order that follows from the group's number
and its voters: so nothing is stored, and all nodes agree. A leader hands its role to the first
voter of that order which could lead, once that has been so for a while, and few groups at a time. A
node that is drained or stops, or whose disk is full, hands over all it can.

The follower catches up and is elected (`raftlog.core.transfer`). If that fails, another voter is
tried, and the same one only after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.leadership import FollowerView
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, GroupId, LogIndex, NodeId, RaftTiming
from raftlog.errors import NotLeader, TransferRefused
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.full_disks import FullDisks
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.replicas import NodeReplicas

_ENTRIES_BEHIND_MAX = 64
"""A follower that lacks no more than this of the log has it within a few milliseconds, in which
nothing is written. No setting: it is what is in flight to a busy follower."""

_IN_FLIGHT_MAX = 32
"""So many groups are handed over at once by a node that stops. No setting: more would only wait for
the same disks, and their writes with them."""

_AGAIN_ELECTIONS = 10
"""A follower to which a transfer has failed is left alone for so many election timeouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLimits:
    """How leaders are spread, in ticks and counts."""

    spread: bool = True
    """False: a leader stays where an election put it."""
    delay_ticks: int = 100
    """A voter is preferred once it could have led for so long."""
    look_ticks: int = 20
    """A node looks so often whether it leads what others should."""
    moves_max: int = 10
    """Groups that are handed to a preferred voter after one look."""


class _Attempt(NamedTuple):
    to: NodeId
    tick: int


def by_preference(group: GroupId, voters: Sequence[NodeId]) -> tuple[NodeId, ...]:
    """The voters, rising, in the order in which they should lead the group.

    Each voter comes first in an equal share of consecutive groups. The order shifts by one more in
    each round, or a placement that repeats itself every so many groups could favour one voter.
    """
    first = _first(group, len(voters))
    return (*voters[first:], *voters[:first])


def _first(group: GroupId, count: int) -> int:
    """Which of so many voters is preferred most."""
    return (group + group // count) % count if count else 0


def able_followers(
    views: Sequence[FollowerView],
    nodes: Mapping[NodeId, KnownNode],
    *,
    last_index: LogIndex,
    patience_ticks: int,
) -> frozenset[NodeId]:
    """The followers that could lead in a moment: sound voters that answer, have nearly all of the
    log, and are not to be drained."""
    return frozenset(
        view.node
        for view in views
        if view.votes
        and view.may_lead
        and not view.recovering
        and view.contact_ticks < patience_ticks
        and view.match_index >= last_index - _ENTRIES_BEHIND_MAX
        and not (view.node in nodes and nodes[view.node].draining)
    )


def better_leader(
    node: NodeId,
    order: Sequence[NodeId],
    able: Collection[NodeId],
    *,
    leaves: bool,
) -> NodeId | None:
    """Which node should lead instead of `node`, which does; None: no other could, or should.

    `leaves`: any rather than `node`.
    """
    for voter in order:
        if voter == node and not leaves:
            return None
        if voter in able:
            return voter
    return None


class LeaderMoves:
    """Of the groups that a node leads. One thread's own."""

    def __init__(
        self,
        *,
        node: NodeId,
        replicas: NodeReplicas,
        timing: RaftTiming,
        limits: LeaderLimits,
        disk: NodeDisk,
        full_disks: FullDisks,
        transfer: Callable[[LocalReplica, NodeId], None],
    ) -> None:
        """`transfer` raises what `MultiRaft.transfer_leadership` raises."""
        self._node = node
        self._replicas = replicas
        self._timing = timing
        self._limits = limits
        self._disk = disk
        self._full_disks = full_disks
        self._full_ticks = 0
        """For how long the disk has been full."""
        self._transfer = transfer
        self._stops = False
        self._attempts: dict[GroupId, _Attempt] = {}
        """The last one of each group that this node led then, while it may matter."""
        self._able_since: dict[NodeId, int] = {}
        """Since which tick a follower could lead something that it is preferred for."""

    def stop(self) -> None:
        """The node will end soon: hand everything over, and lead nothing more."""
        self._stops = True
        self._stand_back()

    @property
    def under_way(self) -> int:
        """How many groups are led here that another node could lead, or is about to; or where this
        node stands for election, and the votes would be in vain."""
        return sum(self._holds_up(local) for local in self._replicas.values())

    def _holds_up(self, local: LocalReplica) -> bool:
        raft = local.raft
        if raft.role is Role.LEADER:
            return raft.transferring_to != NO_NODE or bool(self._able(local))
        return raft.role is Role.CANDIDATE  # until the election times out, at most

    def tick(self, ticks: int) -> None:
        """So many ticks of the clock have passed since the start."""
        heartbeat = self._timing.heartbeat_ticks
        if self._stops:
            self._stand_back()
        self._full_ticks = self._full_ticks + 1 if self._disk.told.full is not None else 0
        is_full = self._full_ticks >= self._timing.election_ticks_min
        if ticks % heartbeat == 0 and (self._stops or is_full or self._is_draining()):
            self._give_away(ticks)
        elif self._limits.spread and ticks % self._limits.look_ticks == 0:
            self._spread(ticks)

    def _is_draining(self) -> bool:
        nodes = self._replicas.controller.nodes
        return self._node in nodes and nodes[self._node].draining

    def _stand_back(self) -> None:
        """Lead nothing new. An election that others have begun to vote in is won first, and what is
        won handed over: they would wait for a timeout otherwise."""
        for local in self._replicas.values():
            if local.raft.role not in (Role.LEADER, Role.CANDIDATE):
                local.replica.stand_back()

    def _give_away(self, ticks: int) -> None:
        in_flight = sum(local.raft.transferring_to != NO_NODE for local in self._replicas.values())
        for local, better in self._better(ticks, leaves=True):
            if in_flight >= _IN_FLIGHT_MAX:
                return
            in_flight += self._begin(local, better, ticks)

    def _spread(self, ticks: int) -> None:
        wanted = [
            (local, better)
            for local, better in self._better(ticks, leaves=False)
            if not local.raft.is_wished
        ]
        able = {better for _, better in wanted}
        self._able_since = {node: self._able_since.get(node, ticks) for node in able}
        moves = 0
        for local, better in wanted:
            due = ticks - self._able_since[better] >= self._limits.delay_ticks
            if due and moves < self._limits.moves_max:
                moves += self._begin(local, better, ticks)

    def _better(self, ticks: int, *, leaves: bool) -> Iterator[tuple[LocalReplica, NodeId]]:
        """The groups led here that another node should lead, and which one."""
        for local in self._replicas.values():
            raft = local.raft
            if raft.role is not Role.LEADER or raft.transferring_to != NO_NODE:
                continue
            voters = raft.membership.voters
            if not leaves and voters and voters[_first(local.group, len(voters))] == self._node:
                continue  # a look at most groups ends here, each second at each of them
            order = by_preference(local.group, voters)
            able = self._able(local).difference(self._failed(local.group, ticks))
            better = better_leader(self._node, order, able, leaves=leaves)
            if better is not None:
                yield local, better

    def _able(self, local: LocalReplica) -> frozenset[NodeId]:
        raft = local.raft
        if raft.membership.is_joint:
            return frozenset()
        able = able_followers(
            raft.followers(),
            self._replicas.controller.nodes,
            last_index=raft.log.last_index,
            patience_ticks=self._timing.election_ticks_min,
        )
        if self._stops or self._is_draining() or not self._full_ticks:
            return able
        return frozenset(node for node in able if self._has_room(node))

    def _has_room(self, follower: NodeId) -> bool:
        """Could it take what finds no room here? One on this machine may share the disk: it would
        take the reserve that is free now, which trims need."""
        nodes = self._replicas.nodes
        hosts = {nodes[each].rpartition(":")[0] for each in (self._node, follower) if each in nodes}
        return len(hosts) > 1 and self._full_disks.has_room(follower)

    def _failed(self, group: GroupId, ticks: int) -> tuple[NodeId, ...]:
        """Who was to lead the group not long ago, and does not, as it is still led here."""
        attempt = self._attempts.get(group)
        if attempt is None:
            return ()
        if ticks - attempt.tick >= _AGAIN_ELECTIONS * self._timing.election_ticks_min:
            del self._attempts[group]
            return ()
        return (attempt.to,)

    def _begin(self, local: LocalReplica, to: NodeId, ticks: int) -> bool:
        try:
            self._transfer(local, to)
        except (NotLeader, TransferRefused):
            return False  # it has changed meanwhile: the next look finds it so
        self._attempts[local.group] = _Attempt(to, ticks)
        return True
