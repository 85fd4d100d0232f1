"""Which replicas are ticked, and what wakes the others.

A quiesced replica (`raftlog.core.quiescence`) is not ticked and costs nothing, however many there
are. One heartbeat of the process to each peer stands for all of them. So a quiesced replica wakes
when a process that it relies on falls silent or is another one, and now and then in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from raftlog.core.messages import RaftMessage
from raftlog.core.quorum import is_quorum
from raftlog.core.ready import Role
from raftlog.core.timer import Random
from raftlog.core.types import NO_NODE, GroupId, NodeId, RaftTiming, Term
from raftlog.multiraft.campaigns import Campaigns
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.group_queue import GroupQueue
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.peer_liveness import PeerLiveness

_CHECK_HEARTBEATS = 10
"""Quiesced replicas are checked every so many heartbeats, many at once. It decides how many
messages share a frame, so it is no setting."""


class AwakeReplicas:
    """The replicas of node `node` that are ticked, and when the others are checked.

    `replicas` are all of the node. One thread's own.
    """

    def __init__(
        self,
        *,
        node: NodeId,
        nodes: Collection[NodeId],
        replicas: Mapping[GroupId, LocalReplica],
        effects: Effects,
        timing: RaftTiming,
        random: Random,
        limits: MultiRaftLimits,
        campaigns: Campaigns,
        dirty: GroupQueue,
        mark_dirty: Callable[[GroupId], None],
    ) -> None:
        """A log not written for `idle_ticks_max` of the limits gets its synced marker, which bears
        witness to the end of it; its replica is ticked until then. After about
        `quiesce_refresh_ticks` a quiesced leader asks its followers whether they are quiesced too,
        and a quiesced follower that was not asked for twice as long wakes: a safety
        limit. `campaigns` is called with each group whose wait has ended, `mark_dirty` with each
        that must be advanced, which is then in `dirty`."""
        self._node = node
        self._replicas = replicas
        self._effects = effects
        self._has_leases = timing.lease_us > 0
        self._liveness = PeerLiveness(
            [peer for peer in nodes if peer != node], timing.election_ticks_min
        )
        self._random = random
        self._idle_ticks_max = limits.idle_ticks_max
        self._refresh_ticks = limits.quiesce_refresh_ticks
        self._check_step = _CHECK_HEARTBEATS * timing.heartbeat_ticks
        self._campaigns = campaigns
        self._dirty = dirty
        self._mark_dirty = mark_dirty
        self._now = 0
        self._awake: dict[GroupId, LocalReplica] = {}
        self._heard: dict[GroupId, int] = {}
        """The tick at which a message of the group last came."""
        self._checks: dict[int, list[GroupId]] = {}
        """By tick, the groups to check then, if they are still quiesced."""
        self._check_due: dict[GroupId, int] = {}
        """The tick of each group's latest check in `_checks`; its earlier ones do not count."""

    def follow(self, nodes: Collection[NodeId]) -> None:
        """These are the cluster's nodes from now on."""
        self._liveness.follow([peer for peer in nodes if peer != self._node])

    @property
    def silent_ticks(self) -> Mapping[NodeId, int]:
        """Ticks since each peer's process was heard."""
        return self._liveness.ticks

    @property
    def silent(self) -> Collection[NodeId]:
        """The peers that were not heard for an election timeout."""
        return self._liveness.silent

    def add(self, local: LocalReplica) -> None:
        """The replica has come into being."""
        self._awake[local.group] = local
        self._heard[local.group] = 0

    def forget(self, group: GroupId) -> None:
        """The group is gone from here."""
        self._awake.pop(group, None)
        self._heard.pop(group, None)
        self._check_due.pop(group, None)

    def lease_clock_us(self) -> int | None:
        """What the clock of leases shows; None: they are off."""
        return self._effects.boottime_us() if self._has_leases else None

    def tick(self) -> None:
        """One tick of the clock has passed: tick the awake replicas, check quiesced ones.

        Not if groups that were dirty after the last one were not advanced since. Time that passes
        while the loop is behind is no evidence of a dead leader, and heartbeats more often than it
        can send them only put it further behind.
        """
        if not self._dirty.catches_up():
            return
        self._now += 1
        fallen_silent = self._liveness.tick()
        now_us = self.lease_clock_us()
        for local in list(self._awake.values()):
            self._tick(local, now_us)
        # After the ticks: a leader that is woken sends what wakes its followers before it may
        # find that it must step down.
        for peer in fallen_silent:
            self._wake_relying_on(peer)
        for group in self._checks.pop(self._now, ()):
            self._check(group)
        self._dirty.mark()

    def _tick(self, local: LocalReplica, now_us: int | None) -> None:
        if local.installing:
            return
        raft, may_campaign = local.raft, local.may_campaign
        if may_campaign and not raft.quiesced:
            if raft.tick(self._liveness.silent, now_us=now_us, may_campaign=False):
                self._mark_dirty(local.group)
            elif raft.campaign_due:
                self._campaigns.due(local.group, hears_quorum=self._hears_quorum(local))
        local.idle_ticks += 1
        if local.idle_ticks == self._idle_ticks_max and local.replica.log.idle_marker():
            self._mark_dirty(local.group)
        has_marker = local.idle_ticks > self._idle_ticks_max and not local.writing
        if has_marker and (raft.quiesced or not may_campaign):
            del self._awake[local.group]
            self._plan_check(local)

    # ------------------------------------------------------------ what wakes a replica

    def wake(self, local: LocalReplica, *, ask_again: bool = False) -> None:
        """Tick the replica again, if it is quiesced; `ask_again`: see `Raft.wake`."""
        if local.raft.quiesced:
            local.raft.wake(self._liveness.ticks, ask_again=ask_again)
            self.tick_again(local)

    def tick_again(self, local: LocalReplica) -> None:
        """The replica is not quiesced any more, whatever ended that: advance it, and tick it from
        now on."""
        self._awake[local.group] = local
        self._mark_dirty(local.group)

    def step(self, local: LocalReplica, message: RaftMessage, *, term_max: Term) -> None:
        """Hand the message to the replica, which wakes if it says something new.

        Raises `PeerProtocolViolation`: then the message changed nothing but that. Raises
        `AcknowledgedEntriesLost` as `Raft.step`, which says what `term_max` is.
        """
        if local.raft.quiesced and not local.raft.stays_quiesced_through(message):
            self.wake(local)
        local.replica.step(message, term_max=term_max)
        self._heard[local.group] = self._now

    def heard(self, peer: NodeId) -> None:
        """Something came from the peer's process."""
        if self._liveness.heard(peer):
            self._tell_missed(peer)

    def booted(self, peer: NodeId, boot_id: str) -> None:
        """The peer's process says which one it is; another one knows nothing of what was said."""
        if self._liveness.booted(peer, boot_id):
            self._lost(peer)
            self._tell_missed(peer)

    def peer_closed(self, peer: NodeId) -> None:
        """The peer's process died or its connection was reset: its groups may elect at once."""
        if self._liveness.closed(peer):
            self._lost(peer)

    def _lost(self, peer: NodeId) -> None:
        """What its process has promised does not count any more."""
        for local in self._replicas.values():
            raft = local.raft
            if raft.leader == peer:
                raft.leader_lost(peer, raft.term)
                self.tick_again(local)
            elif raft.leader == NO_NODE:
                raft.candidate_lost(peer)
            elif raft.leader == self._node:
                raft.report_unreachable(peer)
                if raft.transferring_to == peer:
                    self._mark_dirty(local.group)

    def majority_reachable(self) -> None:
        """A majority of the nodes is in reach: groups without a leader need not wait for a
        timeout."""
        for local in self._awake.values():
            local.raft.voters_reachable()

    def _wake_relying_on(self, peer: NodeId) -> None:
        """The peer has fallen silent: its followers here wait no longer, and leaders here check
        whether they still hear a majority."""
        for local in self._replicas.values():
            leader = local.raft.leader
            if leader == peer or (leader == self._node and not self._hears_quorum(local)):
                self.wake(local)

    def _tell_missed(self, peer: NodeId) -> None:
        """The peer is back, or is another process: leaders here tell it what it may have missed."""
        for local in self._replicas.values():
            raft = local.raft
            if raft.leader == self._node and peer in raft.membership.members:
                if raft.quiesced:
                    self.wake(local)
                else:
                    raft.node_is_back(peer)

    def _hears_quorum(self, local: LocalReplica) -> bool:
        membership, silent = local.raft.membership, self._liveness.silent
        return is_quorum(membership, {each for each in membership.members if each not in silent})

    # ------------------------------------------------------------ checks

    def _plan_check(self, local: LocalReplica) -> None:
        """A leader's check comes at random, so that a thousand groups that quiesced together do not
        all ask at once; a follower's comes when it should have been asked twice. Checks that are
        due at about the same time come together: then what leaders ask shares a frame."""
        longest = self._refresh_ticks
        if local.raft.role is Role.LEADER:
            due = self._now + self._random.randrange(longest // 2 + 1, longest + 1)
        else:
            due = max(self._heard[local.group] + 2 * longest, self._now + 1)
        tick = -(-due // self._check_step) * self._check_step
        self._check_due[local.group] = tick
        self._checks.setdefault(tick, []).append(local.group)

    def _check(self, group: GroupId) -> None:
        local = self._replicas.get(group)
        if local is None or group in self._awake or self._check_due[group] != self._now:
            return
        if local.raft.role is Role.LEADER:
            self.wake(local, ask_again=True)
        elif self._now < self._heard[group] + 2 * self._refresh_ticks:
            self._plan_check(local)
        else:
            self.wake(local)
