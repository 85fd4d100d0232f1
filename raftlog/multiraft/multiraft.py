"""All replicas of one node, driven in turns.

Whatever happens makes a group dirty (peer messages, calls, ticks, writes that became durable), and
the next turn advances every dirty group once, so what came in together is proposed, sent and synced
together. Then the turn applies what is committed, some entries of each group at a time. Nothing
here waits: what takes time is asked of `Effects`, and comes back as a call.

A turn has a budget over all groups, so that ticks and messages come between two turns however
much there is to do: after a restart a thousand groups replay their logs at once, and must answer
heartbeats meanwhile. What is left goes on in the next turn, in its order; the controller's group
goes first.

A quiesced replica (`raftlog.core.quiescence`) is left alone: it is not ticked and costs nothing,
however many there are. One heartbeat of the process to each peer stands for all of them; a quiesced
replica is woken when the process it relies on falls silent or is another one, and now and then in
any case.

An exception out of any method here is a defect, or a disk that failed: a replica may be half done,
so the driver ends the process and never calls again; after `LogFromNewerVersion` it may do so
cleanly (`stop`, `close`). `NotLeader`, `Overloaded`, `DiskFull` and
`TopicRecreated` are answers, as documented.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from raftlog.core.leadership import FollowerView
from raftlog.core.messages import GroupDeleted, NodeHeartbeat, PeerMessage, RaftMessage
from raftlog.core.quorum import majority
from raftlog.core.ready import Role
from raftlog.core.timer import Random
from raftlog.core.types import (
    CONTROLLER_GROUP,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
)
from raftlog.errors import (
    DiskFull,
    LogFromNewerVersion,
    NotLeader,
    Overloaded,
    PeerProtocolViolation,
    RaftlogError,
    TopicRecreated,
)
from raftlog.machines.commands import RegisterNode, TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Outcome
from raftlog.multiraft.catch_up import CatchUp, CatchUpLimits
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import (
    DiskChanged,
    Effects,
    GroupDeletedElsewhere,
    GroupOpened,
    GroupRemoved,
    LeadershipChanged,
    PeerMessagesRefused,
)
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.hosted import GroupReplica, ReadReply, WriteReply
from raftlog.multiraft.peer_liveness import PeerLiveness
from raftlog.multiraft.upgrade import raise_rules
from raftlog.replica import Budget, Output, Replica
from raftlog.storage.log import GroupLog

_UPGRADE_HEARTBEATS = 100
"""Rules that could not be raised when they were due (a full disk, say) are tried again so often."""

_CHECK_HEARTBEATS = 10
"""Quiesced replicas are looked after every so many heartbeats: each of them every now and then."""

_REFUSALS_TOLD_TICKS = 100
"""A peer that breaks the protocol is told of once in so many ticks, however often it does."""

TURN_ENTRIES_MAX = 4096
TURN_BYTES_MAX = 8 * 1024 * 1024
"""Entries, and bytes of their commands, applied in one turn. `turn_work_us` is the bound that a
user may set; these hold where the clock says too little, and no figure depends on them."""

APPLY_ENTRIES_MAX = 64
"""Entries applied of one group before it is another's turn: a millisecond or two of work."""


class MultiRaft:
    """The replicas of node `node` in a cluster of `nodes`. One thread's own."""

    def __init__(
        self,
        *,
        node: NodeId,
        nodes: Sequence[NodeId],
        store: GroupStore,
        effects: Effects,
        timing: RaftTiming,
        boot_id: str,
        random: Random,
        idle_ticks_max: int,
        quiesce_refresh_ticks: int,
        request_bytes_max: int,
        slow_disk_ticks: int,
        full_disk_ticks: int,
        turn_work_us: int,
        catch_up: CatchUpLimits,
    ) -> None:
        """`boot_id` is another one in every run of the process. A log not written for
        `idle_ticks_max` ticks gets its synced marker, which bears witness to the end of it.
        A quiesced leader asks its followers after about `quiesce_refresh_ticks` whether they
        rest as well, and a quiesced follower that was not asked for twice as long wakes by
        itself: a bound on what nobody foresaw. `request_bytes_max` bounds what all
        unanswered proposals carry. A write that takes `slow_disk_ticks` makes the node let
        others lead; one that finds no room does so too, and is tried again every
        `full_disk_ticks`. A turn ends after `turn_work_us`.
        """
        self.node = node
        self._nodes = tuple(nodes)
        self._store = store
        self._effects = effects
        self._timing = timing
        self._boot_id = boot_id
        self._random = random
        self._quiesce_refresh_ticks = quiesce_refresh_ticks
        self._ticks = 0
        self._liveness = PeerLiveness(
            [peer for peer in nodes if peer != node], timing.election_ticks_min
        )
        self._awake: dict[GroupId, GroupReplica] = {}  # the others rest: they are not ticked
        self._checks: dict[int, list[GroupId]] = {}
        """By tick, the groups to look after then if they are still quiesced."""
        self._idle_ticks_max = idle_ticks_max
        self._request_bytes_max = request_bytes_max
        self._request_bytes = 0
        self._groups: dict[GroupId, GroupReplica] = {}
        self._opening: set[GroupId] = set()
        self._disk = NodeDisk(effects, slow_ticks=slow_disk_ticks, full_ticks=full_disk_ticks)
        self._catch_up = CatchUp(effects, catch_up, self._read_ended)
        self._dirty: OrderedDict[GroupId, None] = OrderedDict()
        self._applying: OrderedDict[GroupId, None] = OrderedDict()
        """Groups with committed entries to apply, the one that waits longest first."""
        self._turn_work_us = turn_work_us
        self._refused: dict[NodeId, tuple[int, int | None]] = {}
        """By peer, how many of its messages broke the protocol, and when that was last told."""
        self._turn_scheduled = False
        self._journal_writing = False
        self._journal_idle_ticks = 0
        self._stopped = False
        self._logged_nodes = ControllerMachine()
        """What the controller's log here says of nodes, committed or not."""
        self._logged_until = LogIndex(0)
        """Where that log ended when this process started."""

    # ------------------------------------------------------------ life

    def start(self, opened: Iterable[tuple[Replica, TopicInfo | None]]) -> None:
        """Begin with what `GroupStore.open_all` found."""
        for replica, topic in opened:
            self._add(GroupReplica(replica, topic))
        assert CONTROLLER_GROUP in self._groups, "every node carries the controller's group"
        self._read_logged_nodes()

    def _read_logged_nodes(self) -> None:
        controller = self.controller_replica.replica
        self._logged_until = controller.log.last_index
        for index, command in controller.logged_commands():
            if isinstance(command, RegisterNode):
                self._logged_nodes.apply(index, command)
                if len(self._logged_nodes.nodes) == len(self._nodes):
                    break

    def stop(self) -> None:
        """Start no turn, write, read or job from now on; those in flight are still to be noted."""
        self._stopped = True
        self._catch_up.stop()
        self._disk.stop()

    def close(self) -> None:
        """After `stop`, with nothing in flight any more: answer everybody, close the files."""
        assert self._stopped, "a host is stopped before it is closed"
        for hosted in self._groups.values():
            hosted.abandon_all(NotLeader(group=hosted.group))
        self._store.close(hosted.replica for hosted in self._groups.values())

    def _add(self, hosted: GroupReplica) -> None:
        self._groups[hosted.group] = self._awake[hosted.group] = hosted

    # ------------------------------------------------------------ turns

    def mark_dirty(self, group: GroupId) -> None:
        """Something happened to the group: advance it in the next turn."""
        self._dirty[group] = None
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._effects.soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._stopped:
            return
        half_us = max(1, self._turn_work_us // 2)
        until_us = self._effects.work_us() + half_us
        for _ in range(len(self._dirty)):
            hosted = self._groups.get(_next_of(self._dirty))
            if hosted is not None:
                self._advance(hosted)
            if self._effects.work_us() >= until_us:
                break
        # The other half of the turn is kept for this: with so many awake groups that messages
        # take all there is, logs must still be replayed, or they never quiesce.
        budget = Budget(
            entries=TURN_ENTRIES_MAX,
            bytes_max=TURN_BYTES_MAX,
            work_us=half_us,
            clock_us=self._effects.work_us,
        )
        while self._applying:
            hosted = self._groups.get(_next_of(self._applying))
            if hosted is not None:
                self._apply(hosted, budget)
            if budget.spent:
                break
        self._catch_up.go_on()
        self._write_journal()
        if self._dirty or self._applying:
            self._schedule_turn()

    def _advance(self, hosted: GroupReplica) -> None:
        output = hosted.replica.advance()
        self._send(output.messages)
        self._send(self._catch_up.requests(hosted, output.replicate))
        self._settle(hosted, output)
        if output.soft_state is not None:
            self._effects.tell(
                LeadershipChanged(group=hosted.group, topic=hosted.topic, state=output.soft_state)
            )
            self._raise_rules([hosted])
        self._write_log(hosted)

    def _apply(self, hosted: GroupReplica, budget: Budget) -> None:
        try:
            output = hosted.replica.apply(budget, APPLY_ENTRIES_MAX)
        except LogFromNewerVersion:
            # Nothing later is done here, in no group, while the driver ends the process.
            self.stop()
            raise
        self._settle(hosted, output)
        if hosted.group == CONTROLLER_GROUP and not hosted.replica.has_to_apply:
            self._follow_controller()
            self._raise_rules(self._groups.values())

    def _settle(self, hosted: GroupReplica, output: Output) -> None:
        hosted.settle(output)
        if hosted.replica.has_to_apply:
            self._applying[hosted.group] = None

    def _raise_rules(self, groups: Iterable[GroupReplica]) -> None:
        """Propose the rules that are due in those of the groups that this node leads."""

        def propose(hosted: GroupReplica, payload: Payload) -> None:
            self.propose(hosted, payload, lambda _: None)

        raise_rules(groups, self.controller, self._nodes, propose)

    def _send(self, messages: Sequence[PeerMessage]) -> None:
        by_peer: dict[NodeId, list[PeerMessage]] = {}
        for message in messages:
            by_peer.setdefault(message.to, []).append(message)
        for peer, batch in by_peer.items():
            self._effects.send(peer, batch)

    def _write_log(self, hosted: GroupReplica) -> None:
        if hosted.writing:
            return
        write = hosted.replica.take_write()
        if write is None:
            return
        hosted.writing = True

        def ended() -> None:
            hosted.writing = False
            hosted.idle_ticks = 0
            if write.done:
                hosted.replica.written(write)
            if hosted.group in self._groups:
                self.mark_dirty(hosted.group)
            else:
                self._remove(hosted)

        def no_room(full: DiskFull) -> bool:
            hosted.abandon_writes(self._own(full))
            # What a deleted topic had to write is not waited for: its end may make room.
            return hosted.group in self._groups

        self._disk.run(hosted.group, write, ended, no_room=no_room)

    def _read_ended(self, hosted: GroupReplica) -> None:
        if hosted.group not in self._groups:
            self._remove(hosted)
        self._schedule_turn()

    def _write_journal(self) -> None:
        if self._journal_writing or self._stopped:
            return
        journal = self._store.journal
        write = journal.take_write()
        if write is None:
            return
        self._journal_writing = True

        def durable() -> None:
            self._journal_writing = False
            self._journal_idle_ticks = 0
            journal.written(write)
            for group, hosted in self._groups.items():
                if hosted.replica.awaits_disk:
                    self.mark_dirty(group)

        self._disk.run(None, write, durable)

    def tick(self) -> None:
        """One tick of the clock has passed, for all replicas."""
        if self._stopped:
            return
        if self._disk.tick():
            for hosted in self._groups.values():
                hosted.raft.note_disk(keeps_up=self._disk.keeps_up)
        self._ticks += 1
        self._catch_up.tick()
        fallen_silent = self._liveness.tick()
        for hosted in list(self._awake.values()):
            self._tick_group(hosted)
        self._journal_idle_ticks += 1
        if self._journal_idle_ticks == self._idle_ticks_max and self._store.journal.idle_marker():
            self._schedule_turn()
        if self._ticks % self._timing.heartbeat_ticks == 0:
            self._send(
                [
                    NodeHeartbeat(sender=self.node, to=peer, boot_id=self._boot_id)
                    for peer in self._liveness.ticks
                ]
            )
        if self._ticks % (_UPGRADE_HEARTBEATS * self._timing.heartbeat_ticks) == 0:
            self._raise_rules(self._groups.values())
        # After the ticks: a leader that is woken sends what wakes its followers before it may
        # find that it must step down.
        for peer in fallen_silent:
            self._wake_relying_on(peer)
        for group in self._checks.pop(self._ticks, ()):
            self._check_quiesced(group)

    def _tick_group(self, hosted: GroupReplica) -> None:
        replica = hosted.replica
        campaigns = not hosted.deleted_elsewhere
        if campaigns and not replica.raft.quiesced and replica.raft.tick(self._liveness.silent):
            self.mark_dirty(hosted.group)
        hosted.idle_ticks += 1
        if hosted.idle_ticks == self._idle_ticks_max and replica.log.idle_marker():
            self.mark_dirty(hosted.group)
        has_marker = hosted.idle_ticks > self._idle_ticks_max and not hosted.writing
        if has_marker and (replica.raft.quiesced or not campaigns):
            del self._awake[hosted.group]
            self._plan_check(hosted)

    # ------------------------------------------------------------ quiesced replicas

    def _wake(self, hosted: GroupReplica, *, ask_again: bool = False) -> None:
        """Tick the replica again, if it is quiesced."""
        if hosted.raft.quiesced:
            hosted.raft.wake(self._liveness.ticks, ask_again=ask_again)
            self._awake[hosted.group] = hosted
            self.mark_dirty(hosted.group)

    def _wake_relying_on(self, peer: NodeId) -> None:
        """The peer has fallen silent: its followers here wait no longer, and a leader here looks
        whether it still hears a majority."""
        for hosted in self._groups.values():
            raft = hosted.raft
            if raft.leader == peer or (raft.leader == self.node and not self._hears_quorum(hosted)):
                self._wake(hosted)

    def _wake_led_with(self, peer: NodeId) -> None:
        """The peer is back, or it is another process now: what it may have missed, it is told."""
        for hosted in self._groups.values():
            raft = hosted.raft
            if raft.leader == self.node and peer in raft.membership.voters:
                if raft.quiesced:
                    self._wake(hosted)
                else:
                    hosted.raft.node_is_back(peer)

    def _hears_quorum(self, hosted: GroupReplica) -> bool:
        voters = hosted.raft.membership.voters
        heard = sum(1 for voter in voters if voter not in self._liveness.silent)
        return heard >= majority(len(voters))

    def _plan_check(self, hosted: GroupReplica) -> None:
        """A leader's comes at random, so that a thousand groups that quiesced together do not all
        ask at once; a follower's when it should have been asked twice. Those that come at about
        the same time come together: then what they ask shares a frame."""
        longest = self._quiesce_refresh_ticks
        if hosted.raft.role is Role.LEADER:
            due = self._ticks + self._random.randrange(longest // 2 + 1, longest + 1)
        else:
            due = max(hosted.heard_tick + 2 * longest, self._ticks + 1)
        step = _CHECK_HEARTBEATS * self._timing.heartbeat_ticks
        hosted.check_tick = -(-due // step) * step
        self._checks.setdefault(hosted.check_tick, []).append(hosted.group)

    def _check_quiesced(self, group: GroupId) -> None:
        hosted = self._groups.get(group)
        if hosted is None or group in self._awake or hosted.check_tick != self._ticks:
            return
        if hosted.raft.role is Role.LEADER:
            self._wake(hosted, ask_again=True)
        elif self._ticks < hosted.heard_tick + 2 * self._quiesce_refresh_ticks:
            self._plan_check(hosted)
        else:
            self._wake(hosted)

    # ------------------------------------------------------------ peers

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Messages of one frame from the peer, in the order they were sent."""
        if self._liveness.heard(peer):
            self._wake_led_with(peer)
        for message in messages:
            if isinstance(message, NodeHeartbeat):
                self._on_node_heartbeat(message)
                continue
            hosted = self._groups.get(message.group)
            if isinstance(message, GroupDeleted):
                self._group_deleted(message)
            elif hosted is not None:
                self._step(hosted, message)
            elif self.controller.is_deleted(message.group):
                deleted = GroupDeleted(group=message.group, sender=self.node, to=peer)
                self._effects.send(peer, [deleted])
            # Otherwise the group is not here yet: the controller's log will bring it.

    def _step(self, hosted: GroupReplica, message: RaftMessage) -> None:
        raft = hosted.raft
        if raft.quiesced and not raft.stays_quiesced_through(message):
            self._wake(hosted)
        try:
            hosted.raft.step(message)
        except PeerProtocolViolation as violation:
            self._refuse(NodeId(violation.peer), violation)
            return
        hosted.heard_tick = self._ticks
        self.mark_dirty(hosted.group)

    def _refuse(self, peer: NodeId, violation: PeerProtocolViolation) -> None:
        """The message is dropped. The stream stays: others of its groups may be sound, and a peer
        that opens it again to say the same would only cost more."""
        count, told_tick = self._refused.get(peer, (0, None))
        count += 1
        if told_tick is None or self._ticks >= told_tick + _REFUSALS_TOLD_TICKS:
            told_tick = self._ticks
            self._effects.tell(PeerMessagesRefused(latest=violation, count=count))
        self._refused[peer] = (count, told_tick)

    def refused_messages(self) -> Mapping[NodeId, int]:
        """How many messages of each peer were dropped because they broke the protocol."""
        return {peer: count for peer, (count, _) in self._refused.items()}

    def _on_node_heartbeat(self, message: NodeHeartbeat) -> None:
        if self._liveness.booted(message.sender, message.boot_id):
            self.peer_closed(message.sender)
            self._wake_led_with(message.sender)

    def _group_deleted(self, message: GroupDeleted) -> None:
        if message.group == CONTROLLER_GROUP:
            problem = "the controller's group is never deleted"
            violation = PeerProtocolViolation(
                group=message.group, peer=message.sender, kind="GroupDeleted", problem=problem
            )
            self._refuse(message.sender, violation)
            return
        hosted = self._groups.get(message.group)
        if hosted is not None and not hosted.deleted_elsewhere:
            hosted.deleted_elsewhere = True
            event = GroupDeletedElsewhere(group=message.group, peer=message.sender)
            self._effects.tell(event)

    def peer_reachable(self, reachable: int) -> None:
        """The way to a peer has opened; with this node, `reachable` nodes are in reach now.

        With a majority among them, groups without a leader need not wait for a timeout.
        """
        if self._stopped or reachable * 2 <= len(self._nodes):
            return
        for hosted in self._awake.values():
            hosted.raft.voters_reachable()

    def peer_closed(self, peer: NodeId) -> None:
        """The peer died or its connection was reset, after `receive` of what it sent: its groups
        may elect at once."""
        if self._stopped:
            return
        for group, hosted in self._groups.items():
            if hosted.raft.leader == peer:
                hosted.raft.leader_lost(peer, hosted.raft.term)
                self._awake[group] = hosted
                self.mark_dirty(group)

    # ------------------------------------------------------------ groups

    @property
    def controller_replica(self) -> GroupReplica:
        """The replica of the controller's group, which every node has."""
        return self._groups[CONTROLLER_GROUP]

    @property
    def controller(self) -> ControllerMachine:
        """The controller's state, as far as this node has applied it."""
        machine = self.controller_replica.machine
        assert isinstance(machine, ControllerMachine)
        return machine

    @property
    def disk(self) -> DiskChanged:
        """What was last told of this node's disk; a full or slow one is noticed at a tick."""
        return self._disk.told

    def known_store(self, node: NodeId) -> str | None:
        """The store bound to the node id, as far as this node can know; None: no word of it.

        A node that starts has the controller's log and does not know yet what of it is committed:
        that takes an election, in which a folder that was wiped must not vote already. So what is
        in the log counts until all of it is applied (or was truncated, and nothing of it is bound).
        """
        known = self.controller.nodes.get(node)
        if known is None and self.controller_replica.replica.applied_index < (self._logged_until):
            known = self._logged_nodes.nodes.get(node)
        return known.store_uuid if known is not None else None

    def groups(self) -> Sequence[GroupReplica]:
        """Every replica here, the controller's among them."""
        return list(self._groups.values())

    def hosted(self, group: GroupId) -> GroupReplica | None:
        """The group's replica, if it is here."""
        return self._groups.get(group)

    def followers(self, hosted: GroupReplica) -> Sequence[FollowerView]:
        """Every voter as this leader sees it; () at any other member.

        While a leader is quiesced its followers' processes answer in their stead.
        """
        raft = hosted.raft
        if not raft.quiesced:
            return raft.followers()
        silent_ticks = self._liveness.ticks
        return tuple(
            view._replace(contact_ticks=silent_ticks.get(view.node, 0)) for view in raft.followers()
        )

    def topic_replica(self, group: GroupId, incarnation: str) -> GroupReplica | None:
        """The replica of exactly this incarnation; None: not here (yet).

        Raises `TopicRecreated` when the incarnation is known to be gone.
        """
        hosted = self._groups.get(group)
        if hosted is not None and hosted.topic is not None:
            if hosted.topic.incarnation != incarnation or hosted.deleted_elsewhere:
                raise TopicRecreated(topic=hosted.topic.name, wanted=incarnation)
            return hosted
        if self.controller.is_deleted(group):
            former = self.controller.deleted_topic(incarnation)
            name = former.name if former is not None else f"group {group}"
            raise TopicRecreated(topic=name, wanted=incarnation)
        return None

    def _follow_controller(self) -> None:
        """Replicas come into being, and end, only by applying the controller's log.

        A node that starts replays it: what was deleted and removed here must not come into being
        for a moment, without the votes that it gave.
        """
        if self.controller_replica.replica.applied_index < self._store.deletions_index:
            return
        controller = self.controller
        for topic in controller.topics():
            here = topic.group in self._groups or topic.group in self._opening
            if self.node in topic.voters and not here:
                self._open(topic)
        for group in [group for group in self._groups if controller.is_deleted(group)]:
            hosted = self._groups.pop(group)
            self._awake.pop(group, None)
            self._catch_up.forget(hosted)
            assert hosted.topic is not None, "the controller's group is never deleted"
            hosted.abandon_all(
                TopicRecreated(topic=hosted.topic.name, wanted=hosted.topic.incarnation)
            )
            if hosted.writing:
                self._disk.give_up(group)
            else:
                self._remove(hosted)

    def _open(self, topic: TopicInfo) -> None:
        self._opening.add(topic.group)

        def made(log: GroupLog) -> None:
            self._opening.discard(topic.group)
            hosted = GroupReplica(self._store.replica(topic, log), topic)
            hosted.raft.note_disk(keeps_up=self._disk.keeps_up)
            self._add(hosted)
            self._effects.tell(GroupOpened(topic=topic))
            self._follow_controller()

        self._disk.queue_job(lambda: self._store.make_log(topic), made)

    def _remove(self, hosted: GroupReplica) -> None:
        """Drop the files of a group that was taken out of `_groups`, once nothing of it is out.

        Its hard state is forgotten after them: a crash in between leaves one nobody asks for.
        """
        topic = hosted.topic
        assert topic is not None, "the controller's group is never removed"
        if hosted.writing or hosted.reads_out:
            return  # whichever ends last comes here again
        applied = self.controller_replica.replica.applied_index

        def removed(_: None) -> None:
            self._store.journal.forget(hosted.group)
            self._schedule_turn()
            self._effects.tell(GroupRemoved(topic=topic))

        self._disk.queue_job(lambda: self._store.remove(hosted.replica, applied), removed)

    # ------------------------------------------------------------ proposals and reads

    def propose(self, hosted: GroupReplica, payload: Payload, reply: WriteReply) -> None:
        """Give a command its place in the log; reply with what applying it comes to.

        Raises `NotLeader`, `Overloaded`, `DiskFull`, `TopicRecreated`: nothing was written and
        `reply` is never called. It may be called with `NoQuorum`, `DiskFull` or `TopicRecreated`:
        then the command may have been written, or may yet be.
        """
        self._require_here(hosted)
        if hosted.raft.role is Role.LEADER:
            self._check_room(hosted, payload)
            self._wake(hosted)

        def release(answer: Outcome | RaftlogError) -> None:
            self._request_bytes -= payload.size
            reply(answer)

        hosted.propose(payload, release)
        self._request_bytes += payload.size
        self.mark_dirty(hosted.group)

    def _check_room(self, hosted: GroupReplica, payload: Payload) -> None:
        limit = self._request_bytes_max
        if self._request_bytes and self._request_bytes + payload.size > limit:
            raise Overloaded(queue="server.request_bytes_max", limit=limit)
        full = self._disk.full(hosted.group)
        if full is not None:
            raise self._own(full)

    def _own(self, full: DiskFull) -> DiskFull:
        """The error as a client is told it: it names the node."""
        return DiskFull(file=full.file, node=f"node {self.node}")

    def read_barrier(self, hosted: GroupReplica, reply: ReadReply) -> None:
        """Reply with None when a read of the machine here is linearizable.

        Raises `NotLeader`, `Overloaded`, `TopicRecreated`: then `reply` is never called.
        """
        self._require_here(hosted)
        if hosted.raft.role is Role.LEADER:
            self._wake(hosted)
        hosted.read_barrier(reply)
        self.mark_dirty(hosted.group)

    def _require_here(self, hosted: GroupReplica) -> None:
        """A caller that waited meanwhile may hold the replica of a group that is gone: it still
        believes that it leads, and nothing would ever answer."""
        if self._groups.get(hosted.group) is not hosted:
            assert hosted.topic is not None, "the controller's group is never deleted"
            raise TopicRecreated(topic=hosted.topic.name, wanted=hosted.topic.incarnation)


def _next_of(waiting: OrderedDict[GroupId, None]) -> GroupId:
    """Take the group whose turn it is out of `waiting`; the controller's goes first."""
    if CONTROLLER_GROUP in waiting:
        waiting.move_to_end(CONTROLLER_GROUP, last=False)
    return waiting.popitem(last=False)[0]
