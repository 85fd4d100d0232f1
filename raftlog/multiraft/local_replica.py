"""A replica of this node: what the node does with it, and the calls that wait for it.

`raftlog.replica.Replica` is synchronous and knows neither callers nor writes in flight, so a test
drives it in a few lines. What a node adds is here. The others of the group are on other nodes, and
this node sees of them only messages.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from raftlog.comparison import Trust
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, GroupId, LogIndex, NodeId, Offset, Payload, Term
from raftlog.damage_table import Trouble, serves_everything
from raftlog.errors import (
    HistoryDisputed,
    NoQuorum,
    NotLeader,
    NotYet,
    Overloaded,
    RaftlogError,
    ReplicaDiverged,
    RulesTooOld,
    StateDisputed,
)
from raftlog.image.damage import applied_header
from raftlog.image.machine import NO_PROGRESS, progress
from raftlog.image.manifest import Image
from raftlog.image.open_image import OpenImage
from raftlog.image.outvoted import NEVER_OUTVOTED, Outvoted
from raftlog.image.stages_file import StagesFile
from raftlog.machines.byte_index import ByteIndex
from raftlog.machines.commands import Command, TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.group_info import ControllerInfo, GroupInfo, label_of, words_for
from raftlog.machines.kv import KvMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.rules import rules_needed
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.clocks import ClockSteps
from raftlog.multiraft.effects import HistoryCompared, StateCompared
from raftlog.multiraft.group_events import GroupEvents, GroupStatus
from raftlog.replica import Output, Replica
from raftlog.storage.log import GroupLog
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import encode_command
from raftlog.wire.runs import Runs

WriteReply = Callable[[Outcome | RaftlogError], None]
"""Called once: with the command's outcome, or with why there is none."""

ReadReply = Callable[[RaftlogError | None], None]
"""Called once: with None when the read may be answered, or with why it may not."""


class StoredBatch(NamedTuple):
    """A batch of visible records on this node's disk. Its body has not been read yet."""

    start: Offset
    header: BatchHeader
    runs: Runs
    body_slices: Callable[[Sequence[tuple[int, int]]], list[bytes]]
    """Raw bytes [position, position + length) of the body for each slice, unchecked."""
    check: Callable[[], object]
    """Reads the whole body and checks it. Raises `CorruptFile`."""

    @property
    def end(self) -> Offset:
        """The first offset after it."""
        return Offset(self.start + self.header.record_count)

    @property
    def body_bytes(self) -> int:
        """The length of its body."""
        return sum(column.length for column in self.header.columns)


class _Write(NamedTuple):
    term: Term
    reply: WriteReply


class _Wait(NamedTuple):
    is_over: Callable[[], bool]
    reply: ReadReply


class HeldBack(NamedTuple):
    """What a topic's retention keeps only because a reader group may not have read it."""

    kept: Offset
    """Where the topic would begin otherwise."""
    group: str
    """The reader group that has read least; "": positions could not be read."""


class LocalReplica:
    """Joins one replica to the calls that wait for it.

    Every reply is called once. It gets the outcome, if the entry was applied with its own term. It
    gets `NoQuorum` if another leader took over or this one stepped down, and `DiskFull` if this
    node's disk has no room: a client may resend after both, because every write is idempotent. It
    gets another error if the group is gone from here. A caller whose deadline passed ignores it.
    """

    def __init__(
        self,
        replica: Replica,
        info: GroupInfo,
        image: OpenImage,
        outvoted: Outvoted = NEVER_OUTVOTED,
    ) -> None:
        self.replica, self.raft, self.info = replica, replica.raft, info
        self.image = image
        """What this replica holds besides its log."""
        self.outvoted = outvoted
        """What its folder says of having been outvoted."""
        self.deleted_by: set[NodeId] = set()
        """The nodes that have said that the group is deleted."""
        self.deleted_elsewhere = False
        """A majority of the controller's voters have, so the replica does not campaign any more."""
        self.writing = False
        """A write of its log is in flight."""
        self.reads_out: set[int] = set()
        """Reads of its files that are in flight, for other nodes and of past states."""
        self._reads_begun = 0
        self.compacting = False
        """The compaction of a snapshot point of it is in flight."""
        self.damaged_files: frozenset[str] = frozenset()
        """Files of its image that are to be healed: no other node is given them."""
        self.mending = False
        """A damaged segment of its log is written again: write nothing to the log."""
        self.adopting = False
        """Files that another node gave for a repair are here, to be published."""
        self.installing = False
        """Another node's image takes the place of what is here: do nothing with the replica."""
        self.observing = False
        """It gets its entries by pulls, and all that are in its log are committed."""
        self.parents: tuple[NodeId, ...] = ()
        """The nodes that it pulls from."""
        self.below_parent = False
        """Its parents' logs have dropped what it lacks: it serves no read until it has an image."""
        self.point_proposed: tuple[Term, LogIndex] | None = None
        """In which term a snapshot point was proposed here last, and the point before it."""
        self.point_keeps_from = LogIndex(0)
        """The first entry that this point keeps for followers."""
        self.point_seen = LogIndex(0)
        self.point_seen_at = 0
        """The last snapshot point, and since which tick it is known to be the last."""
        self.idle_ticks = 0
        """Ticks since its log was last written."""
        self.rules_proposed: tuple[Term, int] | None = None
        """The version of the rules that was proposed here last, and in which term."""
        self.settings_proposed: tuple[Term, LogIndex] | None = None
        """The version of the topic's settings that was proposed here last, and in which term."""
        self.schema_proposed: tuple[Term, int] | None = None
        """The same of its schema."""
        self.clock_steps, self._opened_to = ClockSteps(), replica.log.last_index
        """How far its entries' time was set forward; the last entry that it was opened with."""
        self.held_back: HeldBack | None = None
        """Of a topic that is led here: what its retention waited for when it last looked."""
        self._recovering = replica.raft.recovering
        """Its recovery lasted when this was last asked."""
        self._numbers = itertools.count(1)
        self._writes: dict[LogIndex, _Write] = {}
        self._paused: list[tuple[Payload, WriteReply]] = []
        """What was to be proposed while the leader hands its role over, in order. Calls in flight
        are bounded, and so are their bytes."""
        self._reads: dict[int, ReadReply] = {}
        self._waits: dict[int, _Wait] = {}
        """For entries to be applied here."""
        self.events = GroupEvents()
        """What watchers are told."""
        self._note_history()

    @property
    def group(self) -> GroupId:
        return self.replica.group

    @property
    def busy(self) -> bool:
        """Is anything in flight that uses the group's files?"""
        return (
            self.writing
            or bool(self.reads_out)
            or self.compacting
            or self.mending
            or self.installing
        )

    def begin_read(self) -> int:
        """A read of the replica's files begins. `end_read` takes the number, which is above that of
        every read before."""
        self._reads_begun += 1
        self.reads_out.add(self._reads_begun)
        return self._reads_begun

    def end_read(self, number: int) -> None:
        """The read has ended."""
        self.reads_out.remove(number)

    @property
    def last_read(self) -> int:
        """The number of the read that began last; 0 if none has."""
        return self._reads_begun

    def reads_up_to(self, number: int) -> bool:
        """Is that read in flight, or one that began before it?"""
        return any(each <= number for each in self.reads_out)

    @property
    def may_campaign(self) -> bool:
        """Is it a replica that votes, of a group that is not known to be deleted?"""
        return not (self.installing or self.deleted_elsewhere or self.observing)

    @property
    def serves_reads(self) -> bool:
        """Is its state one that may be read, for all that is known here?"""
        return not self.installing and not self.below_parent

    @property
    def others(self) -> list[NodeId]:
        """The other nodes that may have what is damaged or missing here."""
        nodes = self.parents if self.observing else self.raft.membership.members
        return [each for each in nodes if each != self.replica.node]

    @property
    def machine(self) -> StateMachine[Any, Outcome]:
        return self.replica.machine

    def payload(
        self, command: Command, batch: BatchHeader | None = None, body: bytes = b""
    ) -> Payload:
        """The command as a proposal to this group; `batch` and `body` go with records.

        Raises `RulesTooOld` if the group's rules do not know the command.
        """
        needed, rules = rules_needed(command), self.replica.machine.rules
        if rules < needed:
            what = type(command).__name__
            raise RulesTooOld(topic=label_of(self.info), what=what, rules=rules, needed=needed)
        return Payload(encode_command(command, batch), body)

    @property
    def topic_machine(self) -> TopicMachine:
        """The machine of a topic's group; the controller has neither records nor marks."""
        machine = self.replica.machine
        assert isinstance(machine, TopicMachine), "only topics have marks"
        return machine

    @property
    def kv_machine(self) -> KvMachine:
        """The machine of the key-value store's group."""
        machine = self.replica.machine
        assert isinstance(machine, KvMachine), "only the key-value store has keys"
        return machine

    def not_leader(self) -> NotLeader:
        """The error of a call that this replica cannot serve, with the leader that it knows."""
        return NotLeader(
            group=self.group,
            node=self.raft.node,
            what=words_for(self.info),
            leader=self.raft.leader,
        )

    def propose(self, payload: Payload, reply: WriteReply) -> None:
        """Put a command into the log. Raises `NotLeader` or `Overloaded`: then it is not there,
        and `reply` is never called.

        While the leader hands its role over nothing is written. Then `reply` gets these errors
        later, or the command is written once the transfer has failed.
        """
        if self.raft.transferring_to != NO_NODE:
            self._paused.append((payload, reply))
            return
        span = self.raft.propose([payload])
        self._writes[span.first] = _Write(self.raft.term, reply)

    def go_on(self) -> bool:
        """Propose what waited for a transfer, if that has failed; if it has not, tell who leads
        now, as soon as that is known. Returns whether anything was proposed."""
        raft = self.raft
        awaits_leader = raft.role is Role.FOLLOWER and raft.leader == NO_NODE
        if not self._paused or raft.transferring_to != NO_NODE or awaits_leader:
            return False
        paused, self._paused = self._paused, []
        for payload, reply in paused:
            try:
                self.propose(payload, reply)
            except (NotLeader, Overloaded) as error:
                reply(error)
        return raft.role is Role.LEADER

    def read_barrier(self, reply: ReadReply, now_us: int | None) -> None:
        """Reply when a read of the machine here is linearizable (ReadIndex). `now_us` is what the
        clock of leases shows; None: they are off.

        Raises `NotLeader` or `Overloaded`: then `reply` is never called.
        """
        number = next(self._numbers)
        self.raft.read_index(number, now_us=now_us)
        self._reads[number] = reply

    def await_high_water_mark(self, mark: Offset, reply: ReadReply) -> int:
        """Reply once this replica has applied the topic up to `mark`, which it has not yet.

        Returns the number by which `forget_wait` ends the wait.
        """
        assert self.topic_machine.high_water_mark < mark, "there is nothing to wait for"
        return self._await(lambda: self.topic_machine.high_water_mark >= mark, reply)

    def await_applied(self, index: LogIndex, reply: ReadReply) -> int:
        """Reply once this replica has applied entry `index`, which it has not yet; the rest as
        `await_high_water_mark`."""
        assert self.replica.applied_index < index, "there is nothing to wait for"
        return self._await(lambda: self.replica.applied_index >= index, reply)

    def _await(self, is_over: Callable[[], bool], reply: ReadReply) -> int:
        number = next(self._numbers)
        self._waits[number] = _Wait(is_over, reply)
        return number

    def forget_wait(self, number: int) -> None:
        """End the wait that has this number; it may have been answered."""
        self._waits.pop(number, None)

    def status(self) -> GroupStatus:
        """What watchers get, as this node knows it."""
        raft = self.raft
        return GroupStatus(
            leader=raft.leader,
            term=raft.term,
            applied_index=self.replica.applied_index,
            voters=tuple(sorted(raft.membership.voters or self._made_with)),
            learners=tuple(sorted(raft.membership.learners)),
        )

    @property
    def _made_with(self) -> tuple[NodeId, ...]:
        """The voters that the group began with, where neither log nor snapshot names others."""
        return () if isinstance(self.info, ControllerInfo) else self.info.voters

    def require_agreed(self, start: Offset, end: Offset) -> None:
        """May records [start, end) be read from this replica now, for all that is known of its
        state and its history?

        Raises `ReplicaDiverged`, `StateDisputed`, `HistoryDisputed` or `NotYet`.
        """
        if not self.serves_reads:
            machine = self.topic_machine
            raise NotYet(topic=machine.info.name, have=machine.high_water_mark, need=end)
        states, histories = self.replica.states, self.replica.histories
        if serves_everything(self.troubles):
            return
        topic, node = self.topic_machine.info.name, self.replica.node
        if states.trust is Trust.DIVERGED:
            raise ReplicaDiverged(topic=topic, node=node, what="state")
        doubtful_start, doubtful_end = self.doubtful_history
        if histories.trust is Trust.DIVERGED:
            what = f"history of records [{doubtful_start}, {doubtful_end})"
            raise ReplicaDiverged(topic=topic, node=node, what=what)
        if states.trust is Trust.DISPUTED and end > states.agreed_mark:
            raise StateDisputed(topic=topic, agreed=states.agreed_mark)
        if histories.trust is Trust.DISPUTED and start < doubtful_end and end > doubtful_start:
            raise HistoryDisputed(topic=topic, start=doubtful_start, end=doubtful_end)

    @property
    def troubles(self) -> frozenset[Trouble]:
        """What is known to be wrong with what this replica has."""
        if self.damaged_files:
            return self.replica.troubles | {Trouble.FILE}
        return self.replica.troubles

    @property
    def doubtful_history(self) -> tuple[Offset, Offset]:
        """The records [start, end) in history that came after the last agreement about it."""
        image = self.image.manifest
        start = max(self.replica.histories.agreed_mark, image.history_start)
        return min(start, image.history_end), image.history_end

    def batch_at(self, offset: Offset) -> StoredBatch:
        """The batch that holds the topic's record at `offset`, which is visible and not trimmed.

        It comes from history up to where that ends, and from the log's extents beyond. An entry
        that the log has dropped already is among the carried stages. Raises `CorruptFile`.
        """
        if offset < self.image.manifest.history_end:
            file = self.image.history_file_with(offset)
            group = next(file.row_groups_between(offset, Offset(offset + 1)))
            return StoredBatch(
                group.start,
                group.header,
                group.runs,
                partial(file.body_slices, group),
                partial(file.check_row_group, group),
            )
        extent = next(self.topic_machine.extents_between(offset, Offset(offset + 1)))
        entries: GroupLog | StagesFile = self.replica.log
        if extent.index <= self.replica.log.base_index:
            entries = self.image.stages_with(extent.index)
        term, _, command = entries.command(extent.index)
        header = applied_header(command, extent)
        runs = Runs.of_one(
            count=extent.count,
            timestamp_us=extent.timestamp_us,
            term=term,
            epoch=extent.epoch,
            writer=extent.writer,
        )
        return StoredBatch(
            extent.start,
            header,
            runs,
            partial(entries.body_slices, extent.index),
            partial(entries.check_entry, extent.index),
        )

    def byte_index_at(self, offset: Offset) -> ByteIndex:
        """Where bytes lie in the history file that holds the record at `offset`, or in the log from
        it on. `offset` is not trimmed and not above the high-water mark. Raises `CorruptFile`."""
        if offset < self.image.manifest.history_end:
            return self.image.history_file_with(offset).byte_index()
        return self.topic_machine.byte_index(offset)

    def offset_at(self, timestamp_us: int) -> Offset:
        """The first offset whose record has this timestamp or a later one; the high-water mark if
        there is none. Timestamps never fall along the offsets. Raises `CorruptFile`."""
        start, history = self.topic_machine.log_start_offset, self.image.manifest.history
        starts = [max(each.start, start) for each in history if each.end > start]
        after = bisect_left(starts, timestamp_us, key=self._row_group_timestamp)
        if starts:
            begin = starts[max(after - 1, 0)]
            found = self.image.history_file_with(begin).offset_at(timestamp_us, begin)
            if found < self.image.manifest.history_end:
                return found
        return self.topic_machine.offset_at(timestamp_us)

    def _row_group_timestamp(self, offset: Offset) -> int:
        return self.image.history_file_with(offset).first_timestamp_at(offset)

    def timestamp_at(self, offset: int) -> int:
        """The timestamp of the record at `offset`, which is visible and not trimmed, in
        microseconds since 1970 UTC. Raises `CorruptFile`."""
        batch = self.batch_at(Offset(offset))
        return batch.runs.slice(offset - batch.start, 1).timestamps_us[0]

    def note_records(self, start: Offset, boottime_us: int) -> None:
        """The topic's records from `start` on were applied now. Those that were not in the log when
        it was opened came just now, whatever their timestamps say."""
        if self.replica.applied_index <= self._opened_to:
            return
        machine = self.topic_machine
        start = max(start, machine.log_start_offset)
        for extent in machine.extents_between(start, machine.high_water_mark):
            if extent.index > self._opened_to:
                self.clock_steps.note(extent.timestamp_us, boottime_us)
                return

    def take_image(self, image: Image, received: frozenset[str] = frozenset()) -> frozenset[str]:
        """Give readers the new image, whose manifest is durable. Its history stands in for the
        machine's extents. Files of the names in `received` came from another node. Returns the
        names of the files that nothing refers to any more."""
        obsolete = self.image.take(image, received)
        machine = self.replica.machine
        if isinstance(machine, TopicMachine):
            machine.drop_extents_before(image.history_end)
        self._note_history()
        return obsolete

    def _note_history(self) -> None:
        """What is in history now can be compared with the other replicas'."""
        image = self.image.manifest
        if isinstance(self.info, TopicInfo) and image.snapshots:
            self.replica.history_reached(image.index, image.history_digest, image.settled)

    @property
    def progress(self) -> Mapping[str, int]:
        """What the replica has reached: no image of a later entry is behind it. Empty if that is
        known to be wrong; the word of one leader is not enough."""
        if Trouble.DIVERGED in self.troubles:
            return NO_PROGRESS
        return progress(self.machine, self.raft.memberships.at(self.replica.applied_index))

    def may_go_on_from(self, image: Image) -> bool:
        """Does the log go on from this image, which may be older than what is applied?

        The log must hold the image's last entry durably. A snapshot of the same entry with another
        state would have the name of the own one.
        """
        newest, log = image.snapshots[-1], self.replica.log
        if not log.base_index <= newest.index <= log.durable_index:
            return False
        own = [each for each in self.image.manifest.snapshots if each.index == newest.index]
        same_term = self.raft.log.term_at(newest.index) == newest.term
        return same_term and (not own or own == [newest])

    def needs_image(self, index: LogIndex, term: Term) -> bool:
        """Does the replica lack what an image at this entry has, and cannot get it by the log?

        If its log holds the entry, it agrees with the leader's up to there: only time is missing.
        """
        raft = self.raft
        if index <= self.replica.applied_index:
            return False
        return index > raft.log.last_index or raft.log.term_at(index) != term

    def reopen(self, replica: Replica, image: OpenImage, outvoted: Outvoted) -> None:
        """The replica stands at another node's image now, as after a restart.

        What was proposed here may be in that image or not: a client that sends it again learns it.
        Calls that wait for records go on waiting, or are answered.
        """
        self.abandon_writes(NoQuorum(what="a write"))
        self._abandon_paused(NoQuorum(what="a write"))
        reads, self._reads = self._reads, {}
        for reply in reads.values():
            reply(NoQuorum(what="a read"))
        replica.raft.note_acknowledged(self.raft.acknowledged)
        self.replica, self.raft, self.image = replica, replica.raft, image
        self.outvoted = outvoted
        self.point_proposed = self.rules_proposed = None
        self.idle_ticks = 0
        self.observing = self.below_parent = False
        self._note_history()
        self._settle_waits()

    def has_recovered(self) -> bool:
        """Has the recovery of a lost log ended since this was last asked?"""
        before, self._recovering = self._recovering, self.raft.recovering
        return before and not self._recovering

    def settle(self, output: Output) -> None:
        """Answer whatever the replica's output decides."""
        for applied in output.applied:
            write = self._writes.pop(applied.index, None)
            if write is not None:
                if write.term != applied.term:
                    write.reply(NoQuorum(what="a write"))
                else:
                    assert applied.outcome is not None, "a command has an outcome"
                    write.reply(applied.outcome)
        for read in output.reads:
            self._reads.pop(read.request_id)(None)
        for request_id in output.reads_dropped:
            self._reads.pop(request_id)(NoQuorum(what="a read"))
        if output.soft_state is not None and output.soft_state.role is not Role.LEADER:
            self.abandon_writes(NoQuorum(what="a write"))
        if output.applied:
            self._settle_waits()
        if self.events.watched:
            self.events.note(self.status())

    def abandon_all(self, error: RaftlogError) -> None:
        """The group is gone from this node, so this is the last chance to answer."""
        self.abandon_writes(NoQuorum(what="a write"))
        self._abandon_paused(NoQuorum(what="a write"))
        waits = [
            *self._reads.values(),
            *(wait.reply for wait in self._waits.values()),
        ]
        self._reads.clear()
        self._waits.clear()
        self.events.end(error)
        for reply in waits:
            reply(error)

    def abandon_writes(self, error: RaftlogError) -> None:
        """Answer the writes in flight with `error`. What becomes of them is not known here:
        another leader decides, or there is no room yet. A client that resends one learns it."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            write.reply(error)

    def _abandon_paused(self, error: RaftlogError) -> None:
        paused, self._paused = self._paused, []
        for _, reply in paused:
            reply(error)

    def _settle_waits(self) -> None:
        over = [number for number, wait in self._waits.items() if wait.is_over()]
        for number in over:
            self._waits.pop(number).reply(None)


def compared_events(
    local: LocalReplica, output: Output
) -> Iterator[StateCompared | HistoryCompared]:
    """What the output says of the replica's state and history, for the output's reader."""
    group, info = local.group, local.info
    if (trust := output.state_trust) is not None:
        yield StateCompared(group=group, info=info, trust=trust)
    if (trust := output.history_trust) is not None:
        start, end = local.doubtful_history
        yield HistoryCompared(group=group, info=info, trust=trust, start=start, end=end)
