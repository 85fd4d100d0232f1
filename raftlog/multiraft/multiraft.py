"""All replicas of one node, driven in turns.

Whatever happens makes a group dirty (peer messages, calls, ticks, writes that became durable), and
the next turn advances every dirty group once, so what came in together is proposed, sent and synced
together. Then the turn applies what is committed, some entries of each group at a time. Nothing
here waits: what takes time is asked of `Effects`, and comes back as a call. A turn has a budget
over all groups, so that ticks and messages come between two turns however much there is to do:
after a restart a thousand groups replay their logs at once, and must answer heartbeats meanwhile.
What is left goes on in the next turn, in its order; the controller's group goes first.

`raftlog.multiraft.replicas` decides which replicas there are; `awake`, which of them are ticked.

An exception out of any method here is a defect, or a disk that failed: a replica may be half done,
so the host loop ends the process and never calls again; after `LogFromNewerVersion` or
`NodeRemoved` it may do so cleanly (`stop`, `close`). What methods document as raised are answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from raftlog.core import validity
from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership
from raftlog.core.messages import (
    AppendRequest,
    CopyRequest,
    EntryMessage,
    GroupDeleted,
    Heartbeat,
    ImageMessage,
    NodeHeartbeat,
    PeerMessage,
    PullMessage,
    RaftMessage,
    VoteReply,
)
from raftlog.core.ready import Role
from raftlog.core.timer import Random
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Payload, RaftTiming
from raftlog.errors import (
    AcknowledgedEntriesLost,
    CorruptFile,
    LogFromNewerVersion,
    NodeRemoved,
    PeerProtocolViolation,
    RaftlogError,
    ResourceShortage,
)
from raftlog.machines.outcomes import Outcome
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.admission import OF_THE_CLUSTER, Admission, RoomUse
from raftlog.multiraft.awake import AwakeReplicas
from raftlog.multiraft.campaigns import Campaigns
from raftlog.multiraft.catch_up import CatchUp
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.clocks import VoterClocks
from raftlog.multiraft.compaction import CompactionLimits, Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.disk_writers import JournalWriter, LogWriter
from raftlog.multiraft.duties import LeaderDuties
from raftlog.multiraft.effects import (
    DiskChanged,
    Effects,
    EntryDamaged,
    LeadershipChanged,
    ReplicaRecovered,
)
from raftlog.multiraft.group_queue import GroupQueue
from raftlog.multiraft.groups import GroupStore, OpenedGroup, Quarantine
from raftlog.multiraft.image_exchange import ImageExchange
from raftlog.multiraft.image_fetch import ImageLimits
from raftlog.multiraft.leader_moves import LeaderMoves
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.local_replica import LocalReplica, ReadReply, WriteReply, compared_events
from raftlog.multiraft.observing import Observing
from raftlog.multiraft.rebuild import Rebuilds
from raftlog.multiraft.refusals import Refusals, beginnings
from raftlog.multiraft.repair import Repairs
from raftlog.multiraft.replicas import NodeReplicas
from raftlog.multiraft.scrubs import ScrubLimits, Scrubs
from raftlog.replica import Budget, Output

TURN_ENTRIES_MAX = 4096
TURN_BYTES_MAX = 8 * 1024 * 1024
"""Entries, and bytes of their commands, applied in one turn. `turn_work_us` is the bound that a
user may set; these hold where the clock says too little, and no figure depends on them."""

APPLY_ENTRIES_MAX = 64
"""Entries applied of one group before it is another's turn: a millisecond or two of work, well
within `server.turn_work_max_s`, which is the setting."""


class MultiRaft:
    """The replicas of node `node`, which was started with these `nodes` and their addresses. One
    thread's own."""

    def __init__(
        self,
        *,
        node: NodeId,
        nodes: Mapping[NodeId, str],
        store: GroupStore,
        effects: Effects,
        timing: RaftTiming,
        boot_id: str,
        random: Random,
        limits: MultiRaftLimits,
    ) -> None:
        """`boot_id` is another one in every start of the process."""
        self.node = node
        self._effects, self._timing, self._boot_id = effects, timing, boot_id
        self._ticks, self._term_max = 0, validity.term_max(effects.clock_us())
        self._limits = limits
        self._clocks = VoterClocks(node, effects)
        self._disk = NodeDisk(
            effects,
            store.reserve(limits.reserve_bytes),
            slow_ticks=limits.slow_disk_ticks,
            full_ticks=limits.full_disk_ticks,
        )
        self._journal = JournalWriter(
            store.journal,
            self._disk,
            idle_ticks_max=limits.idle_ticks_max,
            durable=self._journal_durable,
        )
        self.replicas = NodeReplicas(
            node=node,
            configured=nodes,
            store=store,
            disk=self._disk,
            effects=effects,
            added=lambda local: self._awake.add(local),
            ended=self._ended,
            journal_changed=self._schedule_turn,
        )
        self.dirty, self._applying = GroupQueue(), GroupQueue()
        """Groups that must be advanced, and those with committed entries to apply."""
        self.campaigns = Campaigns(self.replicas, self.mark_dirty, limits.campaigns_max)
        self._awake = AwakeReplicas(
            node=node,
            nodes=nodes,
            replicas=self.replicas,
            effects=effects,
            timing=timing,
            random=random,
            limits=limits,
            campaigns=self.campaigns,
            dirty=self.dirty,
            mark_dirty=self.mark_dirty,
        )
        self.catch_up_budget = CatchUpBudget(effects, limits.catch_up, self._read_on)
        self._catch_up = CatchUp(effects, self.catch_up_budget, self._files_released, self._unfit)
        self.images = self._new_images(store, limits.images)
        self._compactions = self._new_compactions(store, limits.compaction)
        bytes_max = limits.request_bytes_max
        self.admission = Admission(node, self._disk, self._compactions, bytes_max=bytes_max)
        self._logs = LogWriter(self.replicas, self._disk, self.admission, self.mark_dirty)
        self.repairs = self._new_repairs(store)
        self._rebuilds = self._new_rebuilds(store)
        self.scrubs = self._new_scrubs(store, limits.scrubs)
        self._duties = self._new_duties()
        self._observing = self._new_observing(random)
        self.refusals = Refusals(effects)
        self._images_read_first = self._turn_scheduled = self._stopped = False

    def _new_compactions(self, store: GroupStore, limits: CompactionLimits) -> Compactions:
        return Compactions(
            effects=self._effects,
            disk=self._disk,
            store=store,
            pins=self.images.pins,
            groups=self.replicas,
            limits=limits,
            propose=self._propose_own,
            ended=self._files_changed,
            damaged=self._met,
        )

    def _new_repairs(self, store: GroupStore) -> Repairs:
        return Repairs(
            node=self.node,
            fs=store.fs,
            effects=self._effects,
            disk=self._disk,
            budget=self.catch_up_budget,
            images=self.images,
            compactions=self._compactions,
            quarantine=self.replicas.quarantine,
            released=self._files_changed,
            healed=self._catch_up.mended,
        )

    def _new_rebuilds(self, store: GroupStore) -> Rebuilds:
        return Rebuilds(
            effects=self._effects,
            disk=self._disk,
            store=store,
            images=self.images,
            groups=self.replicas,
            now_us=self.now_us,
        )

    def _new_scrubs(self, store: GroupStore, limits: ScrubLimits) -> Scrubs:
        return Scrubs(
            node=self.node,
            effects=self._effects,
            disk=self._disk,
            store=store,
            groups=self.replicas,
            limits=limits,
            found=self.repairs.found,
            mended=self.repairs.copy_mended,
            journal_changed=self._schedule_turn,
        )

    def _new_duties(self) -> LeaderDuties:
        self.leader_moves = LeaderMoves(
            node=self.node,
            replicas=self.replicas,
            timing=self._timing,
            limits=self._limits.leaders,
            disk=self._disk,
            full_disks=self.admission.full_disks,
            transfer=self.transfer_leadership,
        )
        return LeaderDuties(
            replicas=self.replicas,
            effects=self._effects,
            clocks=self._clocks,
            timing=self._timing,
            retention_ticks=self._limits.retention_ticks,
            propose=self._propose_own,
            change=self.change_membership,
            damaged=self.repairs.met,
            awake=self._awake,
            leader_moves=self.leader_moves,
        )

    def _new_observing(self, random: Random) -> Observing:
        return Observing(
            node=self.node,
            replicas=self.replicas,
            effects=self._effects,
            random=random,
            budget=self.catch_up_budget,
            pull_ticks=self._limits.pull_ticks,
            timing=self._timing,
            offer=self.images.offer_to,
            changed=self._awake.tick_again,
            refused=lambda violation: self.refusals.note(violation, self._ticks),
            term_max=lambda: self._term_max,
            damaged=self._met,
            ended=self._files_released,
        )

    def _new_images(self, store: GroupStore, limits: ImageLimits) -> ImageExchange:
        return ImageExchange(
            node=self.node,
            effects=self._effects,
            disk=self._disk,
            store=store,
            budget=self.catch_up_budget,
            limits=limits,
            now_us=self.now_us,
            groups=self.replicas,
            freeze=self._freeze,
            installed=self._installed,
            install_damaged=self._install_damaged,
            damaged=self._met,
            ended=self._files_released,
        )

    # ------------------------------------------------------------ life

    def start(self, opened: Iterable[OpenedGroup | Quarantine]) -> None:
        """Begin with what `GroupStore.open_all` found. Raises `NodeRemoved`."""
        self.replicas.start(opened)
        self._tell_nodes()

    def stop(self) -> None:
        """Start no turn, write, read or job from now on; those in flight are still to be noted."""
        self._stopped = True
        self._catch_up.stop()
        self.images.stop()
        self._observing.answers.stop()
        self._compactions.stop()
        self.repairs.stop()
        self._rebuilds.stop()
        self.scrubs.stop()
        self._disk.stop()

    def close(self) -> None:
        """After `stop`, with nothing in flight any more: answer everybody, close the files."""
        assert self._stopped, "it is stopped before it is closed"
        self.replicas.close()

    def _ended(self, local: LocalReplica) -> None:
        self._awake.forget(local.group)
        self.images.forget(local)
        self._freeze(local)

    def _freeze(self, local: LocalReplica) -> None:
        self._catch_up.forget(local)
        self._compactions.forget(local)
        self.scrubs.forget(local)
        self.repairs.forget(local)

    # ------------------------------------------------------------ turns

    def mark_dirty(self, group: GroupId) -> None:
        """Something happened to the group: advance it in the next turn."""
        self.dirty.add(group)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._effects.soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._stopped:
            return
        half_us = max(1, self._limits.turn_work_us // 2)
        until_us = self._effects.work_us() + half_us
        for _ in range(len(self.dirty)):
            local = self.replicas.get(self.dirty.take())
            if local is not None and not local.installing:
                self._advance(local)
            if self._effects.work_us() >= until_us:
                break
        # The other half of the turn is kept for this: with so many awake groups that messages
        # take all there is, logs must still be replayed, or they never quiesce.
        clock = self._effects.work_us
        budget = Budget(
            entries=TURN_ENTRIES_MAX, bytes_max=TURN_BYTES_MAX, work_us=half_us, clock_us=clock
        )
        while self._applying:
            local = self.replicas.get(self._applying.take())
            if local is not None and not local.installing:
                self._apply(local, budget)
            if budget.spent:
                break
        self._catch_up.go_on()
        self.images.go_on()
        self.repairs.go_on()
        self._observing.answers.go_on()
        self._journal.write()
        self.campaigns.start()
        if self.dirty or self._applying:
            self._schedule_turn()

    def _advance(self, local: LocalReplica) -> None:
        output = local.replica.advance()
        self._send(output.messages)
        self._send(self._catch_up.requests(local, output.replicate))
        self._send(self.images.offers(local, output.replicate))
        if local.group == CONTROLLER_GROUP and self.replicas.follow_log():
            self._tell_nodes()
        self._settle(local, output)
        if output.soft_state is not None:
            state = output.soft_state
            self._effects.tell(LeadershipChanged(group=local.group, info=local.info, state=state))
            self._duties.propose_due([local])
        self._logs.write(local)

    def _apply(self, local: LocalReplica, budget: Budget) -> None:
        machine, rules = local.machine, local.machine.rules
        mark = machine.high_water_mark if isinstance(machine, TopicMachine) else None
        try:
            output = local.replica.apply(budget, APPLY_ENTRIES_MAX)
        except CorruptFile as damage:
            if local.group == CONTROLLER_GROUP:
                raise
            self.replicas.quarantine(local, damage)
            return
        except ResourceShortage as short:
            self._disk.wait(local.group, short, lambda: self.mark_dirty(local.group))
            return
        except LogFromNewerVersion:
            # Nothing later is done here, in no group, while the host loop ends the process.
            self.stop()
            raise
        if mark is not None:
            local.note_records(mark, self._effects.boottime_us())
        self._settle(local, output)
        self._compactions.applied(local)
        if local.group == CONTROLLER_GROUP and not local.replica.has_to_apply:
            self._follow_controller()
            self._duties.propose_due(self.replicas.values())
        elif local.machine.rules != rules:
            self._duties.propose_due([local])

    def _follow_controller(self) -> None:
        """The controller's machine has got further."""
        try:
            if self.replicas.follow_nodes():
                self._tell_nodes()
        except NodeRemoved:
            self.stop()
            raise
        self.replicas.follow_controller()

    def _tell_nodes(self) -> None:
        """The cluster has other nodes than before, as far as this one knows."""
        self._awake.follow(self.replicas.voting_nodes)
        self._effects.follow_nodes(self.replicas.linked)

    def _settle(self, local: LocalReplica, output: Output) -> None:
        local.settle(output)
        if local.go_on():
            self.mark_dirty(local.group)
        if local.replica.has_to_apply:
            self._applying.add(local.group)
        if local.has_recovered():
            self._effects.tell(
                ReplicaRecovered(
                    group=local.group, info=local.info, index=local.raft.log.last_index
                )
            )
        for event in compared_events(local, output):
            self._awake.tick_again(local)
            self._effects.tell(event)
        if output.history_trust is not None:
            self._rebuilds.look_at(local)

    def _propose_own(self, local: LocalReplica, payload: Payload) -> None:
        """Propose what no client waits for. Raises what `propose` raises."""
        self.propose(local, payload, lambda _: None)

    def _send(self, messages: Sequence[PeerMessage]) -> None:
        by_peer: dict[NodeId, list[PeerMessage]] = {}
        for message in messages:
            by_peer.setdefault(message.to, []).append(message)
        for peer, batch in by_peer.items():
            if any(isinstance(message, VoteReply) for message in batch):
                batch.insert(0, self._heartbeat(peer))  # who is elected knows a majority's clocks
            self._effects.send(peer, batch)

    def _installed(self, local: LocalReplica) -> None:
        """The replica stands at another node's image now."""
        if self._stopped:
            return
        if self.replicas.get(local.group) is not local:
            self.replicas.let_go(local)
            return
        local.raft.note_disk(keeps_up=self._disk.keeps_up)
        self._awake.tick_again(local)
        if local.group == CONTROLLER_GROUP:
            self._follow_controller()

    def _install_damaged(self, local: LocalReplica, damage: CorruptFile) -> None:
        """The image that took the place of the replica's files cannot be read back."""
        if local.group == CONTROLLER_GROUP:
            raise damage  # no node serves without it: the next start recovers it
        if self._stopped:
            return
        if self.replicas.get(local.group) is local:
            self.replicas.quarantine(local, damage)
        else:
            self.replicas.let_go(local)

    def _files_released(self, local: LocalReplica) -> None:
        """Something that used the group's files has ended."""
        if local.group not in self.replicas:
            self.replicas.let_go(local)
        self._schedule_turn()

    def _files_changed(self, local: LocalReplica) -> None:
        """A repair ended, so the log may be written again; or a compaction, which has more to
        compare with the other replicas, also in a topic that is not written any more."""
        self._files_released(local)
        if local.group in self.replicas:
            self.mark_dirty(local.group)
            if local.raft.role is Role.LEADER and local.replica.histories.is_undecided:
                self._awake.wake(local)

    def _met(self, local: LocalReplica, damage: CorruptFile) -> None:
        """A file of the replica, whose group may be gone, cannot be read."""
        if self.replicas.get(local.group) is local:
            self.repairs.met(local, damage)

    def _unfit(self, local: LocalReplica, damage: CorruptFile) -> None:
        """A follower needs what is damaged here: the replica should not lead."""
        self._awake.tick_again(local)
        self._effects.tell(EntryDamaged(group=local.group, info=local.info, cause=damage.cause))
        self.repairs.met(local, damage)

    def _journal_durable(self) -> None:
        for group, local in self.replicas.items():
            if local.replica.awaits_disk:
                self.mark_dirty(group)
        self.replicas.journal_durable()
        self._schedule_turn()  # it writes what was put there meanwhile

    @property
    def silent_nodes(self) -> Collection[NodeId]:
        """The nodes that this one has not heard for an election timeout."""
        return self._awake.silent

    def tick(self) -> None:
        """One tick of the clock has passed, for all replicas."""
        if self._stopped:
            return
        if disk_changed := self._disk.tick():
            for local in self.replicas.values():
                local.raft.note_disk(keeps_up=self._disk.keeps_up)
        self._ticks += 1
        self._term_max = validity.term_max(self._effects.clock_us())
        self._catch_up.tick()
        self.images.tick()
        self._read_on()
        self._compactions.tick()
        self.scrubs.tick()
        self.repairs.tick()
        self._rebuilds.tick()
        self._awake.tick()
        if self.campaigns.waiting:
            self._schedule_turn()
        self._observing.pulls.tick()
        self.replicas.tick()
        if self._journal.tick():
            self._schedule_turn()
        if disk_changed or self._ticks % self._timing.node_heartbeat_ticks == 0:
            self._send([self._heartbeat(peer) for peer in self.replicas.heartbeat_peers])
        self._duties.tick(self._ticks)

    def _heartbeat(self, peer: NodeId) -> NodeHeartbeat:
        return NodeHeartbeat(
            sender=self.node,
            to=peer,
            boot_id=self._boot_id,
            clock_us=self._effects.clock_us(),
            disk_full=self._disk.told.full is not None,
        )

    def now_us(self, local: LocalReplica) -> int:
        """The time that the leader of a group writes into its entries: what a majority of the
        voters' clocks confirm, else the earliest that is known here: this node's own where programs
        tell none."""
        clocks, voters = self._clocks, local.raft.membership
        now_us = clocks.confirmed_us(voters) or clocks.earliest_us(voters)
        local.clock_steps.note(now_us, self._effects.boottime_us())
        return now_us

    def _read_on(self) -> None:
        """There is room for more reads. Entries and images take turns in being first."""
        self._observing.answers.go_on()
        self.repairs.go_on()
        self._images_read_first = not self._images_read_first
        reads = (self.images.go_on, self._catch_up.go_on)
        for go_on in reads if self._images_read_first else reversed(reads):
            go_on()

    # ------------------------------------------------------------ peers

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Messages of one frame from the peer, in the order they were sent."""
        self._awake.heard(peer)
        for message in beginnings(messages):
            try:
                self._receive(peer, message)
            except PeerProtocolViolation as violation:
                self.refusals.note(violation, self._ticks)

    def _receive(self, peer: NodeId, message: PeerMessage) -> None:
        """Raises `PeerProtocolViolation`: then nothing has changed."""
        if isinstance(message, NodeHeartbeat):
            self._awake.booted(message.sender, message.boot_id)
            self._clocks.heard(message.sender, message.clock_us)
            self.admission.full_disks.heard(message.sender, full=message.disk_full)
        elif isinstance(message, GroupDeleted):
            self.replicas.told_deleted(message.group, message.sender)
        elif isinstance(message, PullMessage):
            self._observing.receive(message)
            self._schedule_turn()
        elif (local := self.replicas.get(message.group)) is not None:
            if isinstance(message, CopyRequest):
                if not self.replicas.may_take(local, peer):
                    return
                self._schedule_turn()
            if isinstance(message, ImageMessage):
                self.images.receive(local, message)
            elif isinstance(message, EntryMessage):
                self.repairs.receive(local, message)
            elif not local.installing and self.replicas.takes_part(peer, message):
                self._step(local, message)
        elif message.group in self.replicas.quarantined:
            if isinstance(message, Heartbeat | AppendRequest):
                self.replicas.heard_leader(peer, message)
        elif self.replicas.controller.is_deleted(message.group):
            self._effects.send(peer, [GroupDeleted(group=message.group, sender=self.node, to=peer)])
        # Otherwise the group is not here yet: the controller's log will bring it.

    def _step(self, local: LocalReplica, message: RaftMessage) -> None:
        try:
            self._awake.step(local, message, term_max=self._term_max)
        except AcknowledgedEntriesLost as lost:
            self.refusals.note(lost, self._ticks)
        self.mark_dirty(local.group)

    def peer_reachable(self, reachable: int) -> None:
        """The way to a peer has opened; with this node, `reachable` nodes are in reach now.

        With a majority among them, groups without a leader need not wait for a timeout.
        """
        if not self._stopped and reachable * 2 > len(self.replicas.voting_nodes):
            self._awake.majority_reachable()

    def peer_closed(self, peer: NodeId) -> None:
        """The peer died or its connection was reset, after `receive` of what it sent: its groups
        may elect at once."""
        if not self._stopped:
            self._awake.peer_closed(peer)

    # ------------------------------------------------------------ what people are shown

    @property
    def disk(self) -> DiskChanged:
        """What was last reported of this node's disk; a full or slow one is noticed at a tick."""
        return self._disk.told

    def followers(self, local: LocalReplica) -> Sequence[FollowerView]:
        """Every voter as this leader sees it; () at any other member.

        While a leader is quiesced, a follower's contact is that of its process.
        """
        raft = local.raft
        if not raft.quiesced:
            return raft.followers()
        silent_ticks = self._awake.silent_ticks
        return tuple(
            view._replace(contact_ticks=silent_ticks.get(view.node, 0)) for view in raft.followers()
        )

    # ------------------------------------------------------------ proposals and reads

    def propose(
        self,
        local: LocalReplica,
        payload: Payload,
        reply: WriteReply,
        use: RoomUse = OF_THE_CLUSTER,
    ) -> None:
        """Give a command its place in the log; reply with what applying it comes to.

        Raises `NotLeader`, `Overloaded`, `ResourceShortage`, `TopicRecreated`: nothing was written
        and `reply` is never called. It may be called with `NoQuorum`, `ResourceShortage` or
        `TopicRecreated`: the command may be written, or may yet be. While the leader hands its role
        over, a proposal waits, and what is raised may be the reply.
        """
        self.replicas.check_here(local)
        if local.raft.role is Role.LEADER:
            self.admission.check(local, payload, use)
            self._awake.wake(local)

        def release(answer: Outcome | RaftlogError) -> None:
            self.admission.answered(payload)
            reply(answer)

        local.propose(payload, release)
        self.admission.took(payload)
        self.mark_dirty(local.group)

    def transfer_leadership(self, local: LocalReplica, to: NodeId, *, wished: bool = False) -> None:
        """As `Raft.transfer_leadership`. Raises `TopicRecreated` as well."""
        self.replicas.check_here(local)
        self._awake.wake(local)
        local.raft.transfer_leadership(to, wished=wished)
        self.mark_dirty(local.group)

    def change_membership(self, local: LocalReplica, goal: Membership) -> None:
        """As `Raft.change_membership`. Raises `TopicRecreated` as well."""
        self.replicas.check_here(local)
        self._awake.wake(local)
        local.raft.change_membership(goal)
        self.mark_dirty(local.group)

    def read_barrier(self, local: LocalReplica, reply: ReadReply) -> None:
        """Reply with None when a read of the machine here is linearizable.

        Raises `NotLeader`, `Overloaded`, `TopicRecreated`: then `reply` is never called.
        """
        self.replicas.check_here(local)
        if local.raft.role is Role.LEADER:
            self._awake.wake(local)
        local.read_barrier(reply, self._awake.lease_clock_us())
        self.mark_dirty(local.group)
