"""What a node does for each call of `raftlog.wire.calls`: one method a call.

A write is judged twice: here, where a malformed batch or a wrong schema is refused before it costs
a log entry, and at apply, where the exactly-once rules decide on every replica alike.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from raftlog import errors
from raftlog.core.types import GroupId, NodeId, Offset
from raftlog.errors import (
    MalformedRequest,
    NotYet,
    RaftlogError,
    TooMany,
)
from raftlog.machines.byte_index import ByteIndex, JoinedIndex
from raftlog.machines.commands import (
    AbortEpoch,
    AlterSchema,
    AlterTopic,
    Append,
    BatchSummary,
    CommitEpoch,
    CreateTopic,
    DeleteTopic,
    EpochKey,
    RegisterNode,
    RemoveWriter,
    SetWriterOwner,
    Stage,
    TopicInfo,
    Trim,
)
from raftlog.machines.outcomes import (
    Appended,
    EpochAborted,
    EpochCommitted,
    NodeRegistered,
    Outcome,
    Staged,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
)
from raftlog.machines.rules import (
    RULES_LATEST,
)
from raftlog.machines.topic import TopicMachine
from raftlog.machines.validity import (
    problem_of_append,
    problem_of_stage,
)
from raftlog.metrics.counts import COMMITTED, KEPT, REPLAYED
from raftlog.multiraft.local_replica import LocalReplica, StoredBatch
from raftlog.server import views
from raftlog.server.allowed import Allowed
from raftlog.server.calling import caller, principal
from raftlog.server.fair_scans import (
    PERIOD_WORK_MAX,
    WORK_PER_GROUP,
    FairScans,
    batch_work,
    topic_work,
)
from raftlog.server.group_services import GroupServices
from raftlog.server.key_reads import KeyReads
from raftlog.server.kv_services import KvServices
from raftlog.server.matching import Matching
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.order import SenderOrder
from raftlog.server.placing import PlacingServices
from raftlog.server.record_batches import checked_summary, column_slices
from raftlog.server.refused import Accepted, accepted, check_address, check_sense
from raftlog.server.rights import Rights
from raftlog.server.staging import Staging
from raftlog.server.unchanged import Unchanged
from raftlog.wire import calls
from raftlog.wire.reader_positions import KEY_PREFIX as POSITIONS_PREFIX

_STARTS_IN_FLIGHT_MAX = 16
"""Of one node, whose registrations may still be in flight when it registers again."""

_WORK_PER_PART = 200
_WORK_PER_PIECE = 2
"""What it takes to open a history file and read its index, and to find where a piece of a range
begins, as `FairScans` counts work."""

_WORK_PER_FIELD = 2
"""What it takes to put a field's id into a set, where a caller has chosen ids that collide."""

_NUMBERS_PER_WORK = 64
"""Numbers of groups that are sorted for one unit of work."""

_WORK_PER_WRITER = 5
_BYTES_PER_WORK = 1024
"""What a writer's row and bytes of an answer take."""

_BODY_BYTES_PER_WORK = 8192
"""Bytes of a batch's body for one unit of work. Reading them takes 0.3 to 1.7 us, most for large
bodies, for which the kernel has to provide memory; their checksum takes 0.3 to 0.6 us."""


_REGISTRATION_PAUSE_S = 2.0
"""A node may register again at a leader after so long. No setting: a node registers once in the
life of its process."""


class Services:
    """The calls of one node. Every method may raise any `RaftlogError`."""

    def __init__(self, node: Node, rights: Rights, meters: Meters) -> None:
        self._node = node
        self._version = version("raftlog")
        self.rights = rights
        self.meters = meters
        self._multiraft = node.multiraft
        self._limits = node.settings.server
        self._staging = Staging(
            node.multiraft.replicas,
            meters,
            bytes_max=self._limits.staged_bytes_max,
            entries_max=self._limits.staged_entries_max,
        )
        self.allowed = Allowed(rights, node.multiraft.replicas, node.not_here)
        self.scans = FairScans()
        self.unchanged = Unchanged(node, rights, self.scans)
        self.groups = GroupServices(node, self.scans)
        self.placing = PlacingServices(node, self.scans)
        self.kv = KvServices(node, self.placing, self.allowed, self.scans)
        self.keys = KeyReads(node, self.kv)
        self._registered_s: dict[NodeId, float] = {}
        """When each node last tried to register here."""
        node.positions = partial(self.keys.read, POSITIONS_PREFIX)
        self._order = SenderOrder(
            wait_max_s=self._limits.reorder_wait_max_s,
            senders_max=self._limits.reorder_senders_max,
        )

    # ------------------------------------------------------------ the cluster

    async def describe_cluster(self, _: calls.DescribeCluster) -> calls.ClusterDescription:
        """This node's view of who is who."""
        node = self._node
        raft = self._multiraft.replicas.of_controller.raft
        disk = self._multiraft.disk
        controller = self._multiraft.replicas.controller
        known = caller()
        return calls.ClusterDescription(
            cluster_id=node.identity.cluster_id,
            node=node.node,
            store_uuid=node.identity.store_uuid,
            leader=raft.leader,
            term=raft.term,
            nodes=node.cluster_nodes(),
            version=self._version,
            registered=self._multiraft.replicas.has_registered(node.node),
            disk_keeps_up=disk.keeps_up,
            disk_full="a write" if disk.full is not None else "",
            rules=controller.rules,
            rules_known=RULES_LATEST,
            behind_rules=controller.behind_rules(node.addresses, RULES_LATEST),
            observers=tuple(sorted(self._multiraft.replicas.nodes.observers)),
            racks=node.racks(),
            unregistered=node.unregistered(),
            lease_us=node.settings.raft.lease_us(),
            caller=known.principal if known is not None else "",
            caller_groups=tuple(sorted(known.groups)) if known is not None else (),
        )

    async def check_registration(self, call: RegisterNode) -> None:
        """Reject a node that registers again at once: each time writes the controller's log and
        two lines of the audit log. Raises `NotLeader`, `RegisteredJustNow`."""
        self._node.check_leads(self._multiraft.replicas.of_controller)
        if self._is_unknown(call.node):
            return
        now_s = time.monotonic()
        if now_s < self._registered_s.get(call.node, -math.inf) + _REGISTRATION_PAUSE_S:
            raise errors.RegisteredJustNow(node=call.node, seconds=f"{_REGISTRATION_PAUSE_S:g}")
        self._registered_s[call.node] = now_s

    async def register_node(self, call: RegisterNode) -> NodeRegistered:
        """Bind a node id of this cluster to its store. Raises `IdentityRefused`, `StoreCopied`,
        `NodeUnknown`, `AddressTaken`."""
        check_address("RegisterNode", call.address)
        if self._is_unknown(call.node):
            # It may have been added just now. Who does not lead, or leads since then, has not heard
            # of that yet, and the node would end.
            await self._node.read_barrier(self._multiraft.replicas.of_controller)
        if self._is_unknown(call.node):
            raise errors.NodeUnknown(
                node=call.node, known=", ".join(map(str, sorted(self._node.addresses)))
            )
        self._node.check_leads(self._multiraft.replicas.of_controller)
        known = self._node.known_store(call.node)
        if known is not None and known != call.store_uuid:
            raise errors.IdentityRefused(
                node=call.node, store_uuid=call.store_uuid, known_store_uuid=known
            )
        self._node.check_free(call.node, call.address)
        await self._node.check_alone(call.node, call.boot_id)
        outcome = await self._node.propose(
            self._multiraft.replicas.of_controller,
            self._shortened(call),
            share=f"node:{call.node}",
        )
        return self._accepted(NodeRegistered, outcome)

    def _shortened(self, call: RegisterNode) -> RegisterNode:
        """The command with those earlier boot_ids alone that it can be judged by: the one that is
        registered, and the last ones, whose registrations may be in flight. There may be thousands,
        and a node registers on a full disk too."""
        known = self._multiraft.replicas.controller.nodes.get(call.node)
        first, last = (
            call.earlier_boot_ids[:-_STARTS_IN_FLIGHT_MAX],
            call.earlier_boot_ids[-_STARTS_IN_FLIGHT_MAX:],
        )
        before = (known.boot_id,) if known is not None and known.boot_id in first else ()
        return replace(call, earlier_boot_ids=(*before, *last))

    def _is_unknown(self, node: NodeId) -> bool:
        nodes = self._multiraft.replicas.controller.nodes
        return all(node not in each for each in (self._node.addresses, nodes, nodes.retired))

    async def create_topic(self, call: calls.CreateTopicCall) -> TopicCreated:
        """Create a topic; its group exists from that entry on. Raises `TopicExists`."""

        def command_on(voters: tuple[NodeId, ...]) -> CreateTopic:
            return CreateTopic(
                name=call.name,
                incarnation=call.incarnation,
                schema=call.schema,
                voters=voters,
                if_not_exists=call.if_not_exists,
                timestamp_us=self._node.now_us(self._multiraft.replicas.of_controller),
                settings=call.settings,
            )

        outcome = await self.placing.make_group(f"Topic {call.name!r}", call.replicas, command_on)
        return self._accepted(TopicCreated, outcome)

    async def alter_topic(self, call: calls.AlterTopicCall) -> TopicAltered:
        """Change a topic's settings. Its leader learns of it with the controller's log."""
        outcome = await self._node.propose(
            self._multiraft.replicas.of_controller,
            AlterTopic(name=call.name, incarnation=call.incarnation, settings=call.settings),
            share=self.allowed.share_of(caller()),
        )
        return self._accepted(TopicAltered, outcome)

    async def alter_schema(self, command: AlterSchema) -> TopicAltered:
        """Change columns of a topic. Its leader learns of it with the controller's log."""
        outcome = await self._node.propose(self._multiraft.replicas.of_controller, command)
        return self._accepted(TopicAltered, outcome)

    async def delete_topic(self, call: calls.DeleteTopicCall) -> TopicDeleted:
        """Delete a topic. Raises `TopicNotFound`."""
        outcome = await self._node.propose(
            self._multiraft.replicas.of_controller,
            DeleteTopic(name=call.name, incarnation=call.incarnation),
            share=self.allowed.share_of(caller()),
        )
        return self._accepted(TopicDeleted, outcome)

    async def describe_topic(self, call: calls.DescribeTopic) -> calls.TopicReply:
        """The topic as of now, linearizable; or as this node knows it. Raises `TopicNotFound`."""
        if not call.any_node:
            await self._node.read_barrier(self._multiraft.replicas.of_controller)
        await self.scans.begin()
        found = self.unchanged.topic(call.name)
        self.scans.spend(topic_work(found))
        return calls.TopicReply(topic=self._multiraft.replicas.controller.as_placed(found))

    async def list_topics(self, _: calls.ListTopics) -> calls.TopicsReply:
        """All topics as of now, linearizable."""
        await self._node.read_barrier(self._multiraft.replicas.of_controller)
        await self.scans.begin()
        controller = self._multiraft.replicas.controller
        topics = controller.topics()
        self.scans.spend(sum(map(topic_work, topics)))
        return calls.TopicsReply(topics=tuple(map(controller.as_placed, topics)))

    async def watch_groups(self, call: calls.WatchGroups) -> calls.NodeView:
        """This node's own replicas, as they stand."""
        await self.scans.begin()
        view = self._view(call.groups)
        numbers = len(call.groups) // _NUMBERS_PER_WORK
        self.scans.spend(WORK_PER_GROUP * len(self._multiraft.replicas) + numbers)
        return view

    async def scrub(self, call: calls.ScrubCall) -> calls.NodeView:
        """Begin to scrub this node's own replicas."""
        for group in call.groups or list(self._multiraft.replicas):
            self._multiraft.scrubs.begin(group)
        return self._view(call.groups)

    def _view(self, groups: Sequence[GroupId]) -> calls.NodeView:
        """The groups that the caller may see of those that are here; of `groups`, if it names any.
        Each of those here is looked for among the numbers, which are sorted and put into no set: a
        caller can repeat them, and choose some that collide there, which takes minutes."""
        asked = sorted(groups)
        sees = partial(self.allowed.sees_group, caller())

        def is_shown(group: GroupId) -> bool:
            place = bisect_left(asked, group)
            return (not asked or asked[place : place + 1] == [group]) and sees(group)

        replicas = self._multiraft.replicas
        shown = [each for group, each in replicas.items() if is_shown(group)]
        aside = [each for group, each in replicas.quarantined.items() if is_shown(group)]
        folders = self._node.set_aside if self.allowed.sees_folders(caller()) else {}
        return calls.NodeView(
            node=self._node.node,
            groups=tuple([views.group_view(self._node, each) for each in shown]),
            quarantined=tuple(map(views.quarantine_view, aside)),
            set_aside=views.set_aside_views(folders),
        )

    # ------------------------------------------------------------ writing

    async def append(self, call: calls.AppendCall, body: bytes) -> Appended:
        """Append one batch; answered once it is durable on a majority and applied here."""
        local = self._leading(call.group, call.incarnation)
        command = Append(
            producer=call.producer,
            sequence=call.sequence,
            timestamp_us=self._node.now_us(local),
            batch=self._checked(local, call, body),
            owner=principal(),
        )
        check_sense("Append", problem_of_append(command))
        await self._order.turn(call.producer, call.sequence)
        done = self._node.propose(local, command, call.batch, body)
        self._order.proposed(call.producer, call.sequence)
        return self._accepted(Appended, await done)

    async def stage(self, call: calls.StageCall, body: bytes) -> Staged:
        """Stage one batch of an open epoch; answered as an append is, and not visible."""
        local = self._leading(call.group, call.incarnation)
        command = Stage(
            key=call.key,
            attempt=call.attempt,
            number=call.number,
            timestamp_us=self._node.now_us(local),
            batch=self._checked(local, call, body),
            create_writer=call.create_writer,
            owner=principal(),
            any_owner=self._any_owner(local, call.key),
        )
        check_sense("Stage", problem_of_stage(command))
        ended = self._staging.begin(local, command, caller())
        with ExitStack() as unless_proposed:
            unless_proposed.callback(ended, None)
            await self._order.turn(call.attempt, call.number)
            done = self._node.propose(local, command, call.batch, body)
            unless_proposed.pop_all()
        done.add_done_callback(ended)
        self._order.proposed(call.attempt, call.number)
        # A caller that gives up takes nothing back.
        return self._accepted(Staged, await asyncio.shield(done))

    def _checked(
        self, local: LocalReplica, call: calls.AppendCall | calls.StageCall, body: bytes
    ) -> BatchSummary:
        """Raises as `checked_summary`. What the controller knows of the columns counts before the
        topic's log has it: who altered them has been told that they are altered."""
        info = local.topic_machine.info
        known = self._multiraft.replicas.controller.info_of(local.group)
        latest = info.schema
        if isinstance(known, TopicInfo) and known.schema.version > latest.version:
            latest = known.schema
        return checked_summary(info, call.batch, call.crc, body, latest=latest)

    async def commit_epoch(self, call: calls.CommitEpochCall) -> EpochCommitted:
        """Make an epoch's attempts visible. Raises what the exactly-once rules refuse."""
        local = self._here(call.group, call.incarnation)
        command = CommitEpoch(
            key=call.key,
            attempts=call.attempts,
            schema_version=call.schema_version,
            timestamp_us=self._node.now_us(local),
            keep_on_mismatch=call.keep_on_mismatch,
            create_writer=call.create_writer,
            transient_writer=call.transient_writer,
            plan=call.plan,
            overwrite=call.overwrite,
            owner=principal(),
            any_owner=self._any_owner(local, call.key),
        )
        outcome = await self._node.propose(local, command)
        counts = self._node.counts
        try:
            committed = self._accepted(EpochCommitted, outcome)
        except RaftlogError as error:
            counts.epoch(type(error).__name__)
            raise
        replayed = KEPT if committed.kept else REPLAYED
        counts.epoch(replayed if committed.replayed else COMMITTED)
        return committed

    async def abort_epoch(self, call: calls.AbortEpochCall) -> EpochAborted:
        """Drop the open attempts of one run's epoch."""
        local = self._here(call.group, call.incarnation)
        command = AbortEpoch(
            key=call.key, owner=principal(), any_owner=self._any_owner(local, call.key)
        )
        return self._accepted(EpochAborted, await self._node.propose(local, command))

    def _any_owner(self, local: LocalReplica, key: EpochKey) -> bool:
        return self.rights.any_owner(caller(), local.topic_machine.info.name, key.writer)

    # ------------------------------------------------------------ writers

    async def list_writers(self, call: calls.ListWriters) -> calls.WritersReply:
        """The topic's writers as of now, linearizable, a page at a time."""
        local = self._here(call.group, call.incarnation)
        await self._node.read_barrier(local)
        machine = local.topic_machine
        if call.writer:
            row = machine.writer(call.writer)
            one = () if row is None else (views.writer_view(row),)
            return calls.WritersReply(writers=one, more=False)
        await self.scans.begin()
        rows = self._here(call.group, call.incarnation).topic_machine.writers_after(
            call.after, calls.WRITERS_PER_PAGE_MAX + 1
        )
        found: list[calls.WriterView] = []
        byte_count = 0
        for row in rows[: calls.WRITERS_PER_PAGE_MAX]:
            if byte_count >= calls.WRITER_BYTES_PER_PAGE_MAX:
                break
            found.append(views.writer_view(row))
            byte_count += views.text_bytes(row)
        self.scans.spend(_WORK_PER_WRITER * len(found) + byte_count // _BYTES_PER_WORK)
        return calls.WritersReply(writers=tuple(found), more=len(rows) > len(found))

    async def remove_writer(self, call: calls.RemoveWriterCall) -> WriterRemoved:
        """Forget a writer row."""
        local = self._leading(call.group, call.incarnation)
        share = self.allowed.share_of(caller())
        outcome = await self._node.propose(local, RemoveWriter(writer=call.writer), share=share)
        return self._accepted(WriterRemoved, outcome)

    async def set_writer_owner(self, call: calls.SetWriterOwnerCall) -> WriterOwnerSet:
        """Give a writer row to another principal."""
        local = self._leading(call.group, call.incarnation)
        command = SetWriterOwner(writer=call.writer, owner=call.owner)
        return self._accepted(WriterOwnerSet, await self._node.propose(local, command))

    async def trim(self, call: calls.TrimCall) -> Trimmed:
        """Move the topic's log start up."""
        local = self._leading(call.group, call.incarnation)
        share = self.allowed.share_of(caller())
        outcome = await self._node.propose(local, Trim(offset=call.offset), share=share)
        return self._accepted(Trimmed, outcome)

    # ------------------------------------------------------------ reading

    async def read_high_water_mark(self, call: calls.ReadHighWaterMark) -> calls.ReadableRange:
        """The high-water mark by a read round of this leader (ReadIndex)."""
        local = self._here(call.group, call.incarnation)
        await self._node.read_barrier(local)
        machine = local.topic_machine
        return calls.ReadableRange(
            log_start_offset=machine.log_start_offset,
            high_water_mark=machine.high_water_mark,
            record_bytes=machine.record_bytes,
        )

    async def find_offset(self, call: calls.FindOffset) -> calls.OffsetFound:
        """The first offset at or after a time, by a read round of this leader (ReadIndex)."""
        local = self._here(call.group, call.incarnation)
        await self._node.read_barrier(local)
        await self.scans.begin()
        self._multiraft.replicas.check_here(local)
        with self._telling_damage(local):
            found = calls.OffsetFound(offset=local.offset_at(call.timestamp_us))
        self.scans.spend(PERIOD_WORK_MAX)
        return found

    async def read_sizes(self, call: calls.ReadSizes) -> calls.RangeSizes:
        """How the bytes of a range lie, at extents' boundaries; with predicates, see `Matching`."""
        _check_range("ReadSizes", call.start, call.end, call.mark)
        if call.pieces_max < 1:
            raise MalformedRequest(call="ReadSizes", what=f"pieces_max is {call.pieces_max}")
        if call.pieces_max > calls.READ_PIECES_MAX:
            raise TooMany(
                what="A split of a range", limit=calls.READ_PIECES_MAX, unit="pieces (pieces_max)"
            )
        local = await self._reached(call)
        if call.start == call.end:  # a client that waits for the mark, wherever the log starts
            return calls.RangeSizes(offsets=(call.start,), body_bytes=())
        _check_not_trimmed(local.topic_machine, call.start)
        if call.where:
            return await self._matching(call, local)
        return await self._split(call, local)

    async def _split(self, call: calls.ReadSizes, local: LocalReplica) -> calls.RangeSizes:
        """How the bytes of a range lie, which is not empty."""
        image = local.image.manifest
        parts: list[ByteIndex] = []
        position = call.start
        while position < call.end:
            await self.scans.begin()
            if image is not local.image.manifest:  # its files may hold other ranges
                image, parts, position = local.image.manifest, [], call.start
            self._check_still_read(call, local, position)
            with self._telling_damage(local):
                parts.append(local.byte_index_at(position))
            position = Offset(parts[-1].offsets[-1])
            self.scans.spend(_WORK_PER_PART)
        await self.scans.begin()
        offsets, sizes = JoinedIndex(parts).split(call.start, call.end, call.pieces_max)
        self.scans.spend(_WORK_PER_PIECE * len(offsets))
        return calls.RangeSizes(offsets=offsets, body_bytes=sizes)

    async def _matching(self, call: calls.ReadSizes, local: LocalReplica) -> calls.RangeSizes:
        """How the bytes of a range lie, and where no record can match the predicates."""
        found = Matching(call, local.topic_machine.info.name)
        async with self.scans.one_at_a_time():
            while not found.done:
                await self.scans.begin()
                batch = self._batch_at(call, local, found.position)
                self.scans.spend(found.judge(batch))
        return found.reply()

    async def read(self, call: calls.ReadCall) -> AsyncIterator[tuple[calls.BatchReply, bytes]]:
        """The batches that meet [start, end), each with the wanted chunks as its body."""
        _check_range("Read", call.start, call.end, call.mark)
        local = await self._reached(call)
        wanted = None if call.all_fields else frozenset(call.field_ids)
        self.scans.spend(_WORK_PER_FIELD * len(call.field_ids))
        budget = self._limits.read_bytes_per_turn_max
        position = call.start
        while position < call.end:
            await self.scans.begin()
            batch = self._batch_at(call, local, position)
            header, ranges = column_slices(batch.header, wanted)
            sent = sum(length for _, length in ranges)
            checked = batch.body_bytes if call.verify else 0  # each byte is read and summed
            self.scans.spend(batch_work(batch) + (sent + 2 * checked) // _BODY_BYTES_PER_WORK)
            with self._telling_damage(local):
                body = b"".join(batch.body_slices(ranges))
                if call.verify:
                    batch.check()
            skipped = position - batch.start
            position = Offset(min(batch.end, call.end))
            runs = batch.runs.known_within(skipped, position - batch.start - skipped)
            yield calls.BatchReply(start=batch.start, batch=header, runs=runs), body
            budget -= sent + checked
            if budget <= 0:
                budget = self._limits.read_bytes_per_turn_max
                await asyncio.sleep(0)

    # ------------------------------------------------------------ parts

    def _batch_at(
        self, call: calls.ReadCall | calls.ReadSizes, local: LocalReplica, position: Offset
    ) -> StoredBatch:
        """The next batch of a call that takes several turns of the loop."""
        self._check_still_read(call, local, position)
        with self._telling_damage(local):
            return local.batch_at(position)

    def _check_still_read(
        self, call: calls.ReadCall | calls.ReadSizes, local: LocalReplica, position: Offset
    ) -> None:
        """Since the last turn of the loop the topic may have been deleted or trimmed, the state
        found wrong, and what was in the log may be in history. A replica that took an image may
        still have to apply what its log has after it: `NotYet`, and another one is read."""
        self._multiraft.replicas.of_topic(call.group, call.incarnation)
        local.require_agreed(position, call.end)
        machine = local.topic_machine  # another one, if the replica took an image meanwhile
        _check_not_trimmed(machine, position)
        if call.end > machine.high_water_mark:
            raise NotYet(topic=machine.info.name, have=machine.high_water_mark, need=call.end)

    @contextmanager
    def _telling_damage(self, local: LocalReplica) -> Iterator[None]:
        """What a read finds damaged is healed, though this read fails."""
        try:
            yield
        except errors.CorruptFile as damage:
            self._multiraft.repairs.met(local, damage)
            raise

    def _accepted(self, kind: type[Accepted], outcome: Outcome) -> Accepted:
        """The outcome of a command that was not refused; else raise the error that it names."""
        try:
            return accepted(kind, outcome)
        except errors.UnknownWriter as error:
            # The writer may be another cluster's, so the error names this one.
            error.cluster = self._node.identity.cluster_id
            raise

    def _here(self, group: GroupId, incarnation: str) -> LocalReplica:
        """The topic's replica here. Raises `NotLeader` where there is none (yet),
        `TopicRecreated`."""
        local = self._multiraft.replicas.of_topic(group, incarnation)
        if local is None:
            raise self._node.not_here(group)
        return local

    def _leading(self, group: GroupId, incarnation: str) -> LocalReplica:
        """As `_here`, and it leads: else `NotLeader` with a hint, before a body is judged."""
        local = self._here(group, incarnation)
        self._node.check_leads(local)
        return local

    async def _reached(self, call: calls.ReadCall | calls.ReadSizes) -> LocalReplica:
        """The topic's replica here once it has applied the call's mark; waits briefly, then
        `NotYet`. Raises `NotLeader` where there is none and none will come, `ReplicaDiverged`,
        `StateDisputed` or `HistoryDisputed` where its state or its history is in doubt."""
        mark = call.mark
        local = self._multiraft.replicas.of_topic(call.group, call.incarnation)
        if local is None:
            if self._node.is_elsewhere(call.group):
                raise self._node.not_here(call.group)
            raise NotYet(topic=f"group {call.group}", have=0, need=mark)
        local.require_agreed(call.start, call.end)
        try:
            async with asyncio.timeout(self._limits.not_yet_wait_max_s):
                await self._node.high_water_mark_reached(local, mark)
        except TimeoutError:
            machine = local.topic_machine
            raise NotYet(topic=machine.info.name, have=machine.high_water_mark, need=mark) from None
        local.require_agreed(call.start, call.end)
        return local


def _check_not_trimmed(machine: TopicMachine, start: Offset) -> None:
    if start < machine.log_start_offset:
        raise errors.OffsetTrimmed(
            topic=machine.info.name,
            requested=start,
            earliest=machine.log_start_offset,
            end=machine.high_water_mark,
        )


def _check_range(call: str, start: Offset, end: Offset, mark: Offset) -> None:
    if not 0 <= start <= end <= mark:
        raise MalformedRequest(
            call=call, what=f"not 0 <= start {start} <= end {end} <= mark {mark}"
        )
