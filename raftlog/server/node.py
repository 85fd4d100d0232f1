"""A node's asyncio side: one event loop, a clock, bounded pools of threads, links to the peers.

Everything is decided in `raftlog.multiraft`, on the loop. A thread runs only a `LogWrite`, a
`LogRead`, a journal write or a job on the data folder. These touch files and nothing else.

A write or sync that fails ends the process through `fail`. So does an exception from a turn, a tick
or the end of a write (through the loop's exception handler in `raftlog.server.main`): a node that
went on might acknowledge what is not there.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from raftlog.auth.principals import node_caller
from raftlog.config import Settings, StorageSettings
from raftlog.core.messages import PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    FORMAT_STAMP,
    NO_NODE,
    GroupId,
    LogIndex,
    NodeId,
    Offset,
)
from raftlog.errors import (
    AddressTaken,
    Forbidden,
    GroupUnknown,
    IdentityRefused,
    NodeRemoved,
    NotLeader,
    RaftlogError,
    StoreCopied,
    TooLarge,
)
from raftlog.machines.commands import Command, ReportPlacement
from raftlog.machines.group_info import words_for
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.outcomes import Outcome, PlacementReported
from raftlog.metrics.counts import Counts
from raftlog.multiraft.admission import RoomUse
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.effects import DamagePassedOver, MultiRaftEvent
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.moves import PlacementReports
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.multiraft.repair import RepairCounts
from raftlog.multiraft.scrubs import ScrubLimits
from raftlog.server.calling import caller
from raftlog.server.compactor import Compactor
from raftlog.server.leader_calls import LeaderCalls
from raftlog.server.loop_effects import LoopEffects
from raftlog.server.node_links import NodeLinks
from raftlog.server.open_file_limit import share_of_open_files
from raftlog.server.peer_routes import parse_routes
from raftlog.server.refused import accepted
from raftlog.server.traces import Traces
from raftlog.server.workers import Workers
from raftlog.storage.folder import DataFolder
from raftlog.storage.limits import LogLimits
from raftlog.transport.callers import LogLimit
from raftlog.transport.link import CHANNEL_OPTIONS, PeerLink
from raftlog.transport.peer_channels import PeerChannels
from raftlog.transport.peer_processes import PeerProcesses
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import REPORT_PLACEMENT
from raftlog.wire.group_calls import NodeAddress
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome
from raftlog.wire.traced import TracedEntry

_IDLE_MARKER_S = 1.0
"""A log that was not written for so long gets its synced marker, which bears witness to the end
of it (docs/FORMAT.md, "Torn or damaged"). No setting: it costs one small write after a burst, and
shorter would only write more of them."""

_READ_THREADS = 2
"""Threads that read entries for followers that catch up. Not those that sync: a sync must not wait
behind a read. No setting: two keep a disk busy, and more would only take turns at Python's lock."""

_REPORTS_MAX = 16
"""Placements that are reported at a time. No setting: the controller's leader takes few calls of
one node (`raftlog.server.meters`), and each takes milliseconds."""

log = structlog.get_logger(__name__)


class Node:
    """The running node. All methods belong to the loop's thread."""

    def __init__(
        self,
        *,
        settings: Settings,
        folder: DataFolder,
        compactor: Compactor,
        addresses: Mapping[NodeId, str],
        channels: PeerChannels,
        fail: Callable[[BaseException], None],
    ) -> None:
        """`addresses`: nodes to start with; `channels` lead there."""
        self.settings = settings
        self.identity = folder.identity
        self.node = NodeId(self.identity.node)
        self.channels = channels
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(settings.server.sync_threads_max, fail)
        self._readers = Workers(_READ_THREADS, fail)
        self._compactions = Workers(1, fail)
        self._compactor = compactor
        self._tick_s = settings.raft.tick_interval_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._address = addresses[self.node]
        self._routes = parse_routes(settings.server.peer_routes)
        self._reporting: set[ReportPlacement] = set()
        self._report_turns = asyncio.Semaphore(_REPORTS_MAX)
        self._reports = PlacementReports()
        self._rejected_by: dict[NodeId, str] = {}
        """The nodes that have said last that this one must not serve, and why."""
        self.positions: Callable[[], Awaitable[Sequence[KeyValue]]] | None = None
        """Reads the positions of reader groups; `Services` sets it."""
        self.links = NodeLinks(self.node, self._link, fail)
        self._moved_limit = LogLimit("peer listens elsewhere")
        self.peer_processes = PeerProcesses()
        """Those of other nodes that speak to this one."""
        self.counts = Counts()
        """What the node counts for Prometheus."""
        self.traces = Traces(settings.tracing, self.node, self._replica)
        """What the node tells a collector of spans."""
        self._effects = self._on_loop()
        self._passed_over: deque[DamagePassedOver] = deque()
        """What was met when files were opened, on any thread; still to be counted."""
        chance, timing = random.Random(), settings.raft.timing()
        self._store = GroupStore(
            folder=folder,
            timing=timing,
            log_limits=_log_limits(settings.storage),
            random=chance,
            open_files_max=share_of_open_files(),
            tell=self._told_by_store,
        )
        *earlier, own = self._store.journal.boot_ids
        self.boot_id, self.earlier_boot_ids = own, tuple(earlier)
        self.registered_at = self._store.journal.registered_at
        """What tells this process from one with a copy of its folder (`RegisterNode`)."""
        self.multiraft = MultiRaft(
            node=self.node,
            nodes=addresses,
            store=self._store,
            effects=self._effects,
            timing=timing,
            boot_id=self.boot_id,
            random=chance,
            limits=_limits(settings),
        )

    def _on_loop(self) -> LoopEffects:
        return LoopEffects(
            links=self.links,
            writers=self._workers,
            readers=self._readers,
            compactions=self._compactions,
            compactor=self._compactor,
            counts=self.counts,
            traces=self.traces,
            report=self._report,
            read_positions=self._read_positions,
        )

    def _told_by_store(self, event: MultiRaftEvent) -> None:
        self._effects.tell(event)
        if isinstance(event, DamagePassedOver):
            self._passed_over.append(event)

    def _link(self, peer: NodeId, address: str) -> PeerLink:
        at = self._routes.get((self.node, peer)) or self.channels.address(address)
        return PeerLink(
            peer=peer,
            address=at,
            open_channel=lambda: self.channels.to_node(peer, at, CHANNEL_OPTIONS),
            hello=PeerHello(
                format=FORMAT_STAMP,
                cluster_id=self.identity.cluster_id,
                node=self.node,
                store_uuid=self.identity.store_uuid,
                boot_id=self.boot_id,
                earlier_boot_ids=self.earlier_boot_ids,
                registered_at=self.registered_at,
                address=self._address,
            ),
            outbox_bytes_max=self.settings.server.peer_queue_bytes_max,
            reconnect_wait_s=self.settings.server.peer_reconnect_delay_min_s,
            known_store=self.known_store,
            on_open=self._link_opened,
            on_lost=self.peer_closed,
            on_refused=self._refused,
        )

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Open the controller's replica and every group of the data folder, then run."""
        self.multiraft.start(await asyncio.to_thread(self._store.open_all))
        self._count_passed_over()
        for folder, byte_count in self.set_aside.items():
            log.warning("a damaged folder is kept for a person", folder=folder, bytes=byte_count)
        self._next_tick_s = self._loop.time() + self._tick_s
        self._loop.call_at(self._next_tick_s, self._tick)

    async def hand_over(self, is_enough: Callable[[], bool]) -> None:
        """Before `stop`: let other nodes lead what this one leads, as far as they can, within
        `server.drain_timeout_s` and until `is_enough`. It leads nothing new from now on."""
        moves = self.multiraft.leader_moves
        moves.stop()
        until_s = self._loop.time() + self.settings.server.drain_timeout_s
        while moves.under_way and self._loop.time() < until_s and not is_enough():
            await asyncio.sleep(self._tick_s)
        if left := moves.under_way:
            log.warning("stops as the leader of groups that others could lead", groups=left)

    async def stop(self) -> None:
        """End tasks, finish what is being written, close the files."""
        self._stopping = True
        self.multiraft.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.links.stop()
        await self.channels.close()
        # No turn starts another write now; those in flight must have been noted before the logs
        # are closed, which write and sync the rest.
        await self._workers.stop()
        await self._readers.stop()
        self._compactor.stop()
        await self._compactions.stop()
        self.multiraft.close()
        await asyncio.to_thread(self.traces.stop)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as the node's own: its failure is the node's failure."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _tick(self) -> None:
        """One tick for all, also after a pause: time that was slept through is not made up for."""
        if self._stopping:
            return
        self.counts.tick_was_late(self._loop.time() - self._next_tick_s, self._tick_s)
        self.multiraft.tick()
        self._next_tick_s = max(self._next_tick_s + self._tick_s, self._loop.time())
        self._loop.call_at(self._next_tick_s, self._tick)

    def damage(self, group: GroupId) -> RepairCounts:
        """What was found damaged in the group's files since this process started."""
        self._count_passed_over()
        return self.multiraft.repairs.counts(group)

    def _count_passed_over(self) -> None:
        while self._passed_over:
            event = self._passed_over.popleft()
            self.multiraft.repairs.passed_over(event.group, event.cause)

    @property
    def set_aside(self) -> Mapping[str, int]:
        """Damaged folders that are kept and never read, with the bytes in each."""
        return self._store.set_aside

    # ------------------------------------------------------------ peers

    def cluster_id(self) -> str:
        """Whose nodes may speak to this one."""
        return self.identity.cluster_id

    def welcome(self) -> PeerWelcome:
        """What a peer that connects gets to know of this node."""
        return PeerWelcome(
            format=FORMAT_STAMP,
            node=self.node,
            store_uuid=self.identity.store_uuid,
            boot_id=self.boot_id,
            message_bytes_max=self.settings.message_bytes_max(),
        )

    @property
    def addresses(self) -> Mapping[NodeId, str]:
        """The cluster's nodes, this one included, and where they listen, as far as it can know."""
        return self.multiraft.replicas.nodes

    def may_lead(self, group: GroupId) -> dict[NodeId, str]:
        """The other nodes that may lead the group, as far as this one knows, and where they
        listen."""
        others = [each for each in self.multiraft.replicas.may_lead(group) if each != self.node]
        return {each: self.addresses[each] for each in others}

    def is_peer(self, node: NodeId) -> bool:
        """Is it another node of this cluster? Raises `NodeRemoved` if it was one. False while the
        controller's log here removes it, and that is not known to be committed: then it must not
        be told, because it ends when a majority tells it."""
        if node in self.multiraft.replicas.controller.nodes.retired:
            raise NodeRemoved(node=node)
        return node != self.node and node in self.addresses

    def known_store(self, node: NodeId) -> str | None:
        """The store bound to the node id by the controller, as far as this node can know."""
        return self.multiraft.replicas.known_store(node)

    def check_copy(self, hello: PeerHello) -> None:
        """Raises `StoreCopied` if the peer's process that registered last had another copy of its
        folder, as far as the controller's log here says."""
        known = self.multiraft.replicas.known_node(hello.node)
        if known is not None and known.has_other_copy(hello):
            raise StoreCopied(node=hello.node, boot_id=hello.boot_id, known_boot_id=known.boot_id)

    def is_registered(self, node: NodeId, boot_id: str) -> bool:
        """Is it the process of the node that registered last, as far as the controller's log here
        says?"""
        known = self.multiraft.replicas.known_node(node)
        return known is not None and known.boot_id == boot_id

    async def check_alone(self, node: NodeId, boot_id: str) -> None:
        """Raises `StoreCopied` if another process than this speaks for the node."""
        if node != self.node:
            await self.peer_processes.check_alone(node, boot_id)
        elif boot_id != self.boot_id:
            raise StoreCopied(node=node, boot_id=boot_id, known_boot_id=self.boot_id)

    def greeted(self, hello: PeerHello) -> None:
        """Another process of a peer has come, perhaps to another address. Which store is the
        peer's must be known: its greeting was checked against that."""
        if self.known_store(hello.node) is not None:
            self._loop.call_soon(self._listens, hello.node, hello.address)

    def _listens(self, peer: NodeId, address: str) -> None:
        replicas = self.multiraft.replicas
        if not self._stopping and replicas.nodes.greeted(peer, address):
            if self._moved_limit.admits(peer):
                log.info("peer listens elsewhere", peer=peer, address=address)
            if replicas.follow_nodes():
                self._effects.follow_nodes(replicas.linked)

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Messages of one frame, in the order they were sent.

        They are taken by the loop and not by the stream's handler: what a replica asserts must end
        the process, and grpc would make it the stream's status and go on.
        """
        self._loop.call_soon(self.multiraft.receive, peer, messages)

    def traced(self, entries: Sequence[TracedEntry]) -> None:
        """The frame whose messages come next carries entries of spans."""
        self.traces.told(entries)

    def _replica(self, group: GroupId) -> LocalReplica | None:
        found: LocalReplica | None = self.multiraft.replicas.get(group)
        return found  # None also where it is quarantined: an error would end the node

    def _link_opened(self, peer: NodeId) -> None:
        self._rejected_by.pop(peer, None)
        self.multiraft.peer_reachable(1 + self.links.connected)

    def _refused(self, peer: NodeId, error: RaftlogError) -> None:
        """A wiped or copied folder and a node that was removed learn here that they must not serve:
        no peer lets them reach a leader. One peer may lie: a majority of the voters must say it."""
        if not isinstance(error, IdentityRefused | StoreCopied | NodeRemoved):
            return
        if error.node != self.node:
            return
        if self._rejected_by.get(peer) != error.cause:
            self._rejected_by[peer] = error.cause
            log.warning(
                "a node rejects this one", peer=peer, cause=error.cause, remedy=error.remedy
            )
        if self.multiraft.replicas.decide(self._rejected_by):
            self._fail(error)

    def peer_closed(self, peer: NodeId) -> None:
        """The peer's process died or its connection was reset: its groups may elect at once."""
        # After what it sent before, which may still wait to be taken.
        self._loop.call_soon(self.multiraft.peer_closed, peer)

    # ------------------------------------------------------------ proposals and reads

    def check_leads(self, local: LocalReplica) -> None:
        """Raises `NotLeader` with a hint unless this node leads the group.

        Only the core's answer to a proposal or a read counts. This comes before work that would
        be for nothing elsewhere.
        """
        if local.raft.role is not Role.LEADER:
            raise self.not_leading(local)

    def check_free(self, node: NodeId, address: str) -> None:
        """Raises `AddressTaken` if another node than `node` listens at the address now. One that is
        known by it, and cannot be reached there, may have moved: two may have changed places."""
        for other, known in self.addresses.items():
            if known == address and other != node:
                link = self.links.get(other)
                if other == self.node or (link is not None and link.connected):
                    raise AddressTaken(address=address, node=other)

    def not_leading(self, local: LocalReplica) -> NotLeader:
        """The error of a call that this node cannot serve, with a hint of the leader."""
        return self._hinted(local.not_leader())

    def not_here(self, group: GroupId) -> NotLeader:
        """The error of a call for a group that has no replica here. It names a node that should
        have one, if there is another."""
        controller = self.multiraft.replicas.controller
        info = controller.info_of(group)
        voters = controller.voters_of(info) if info is not None else ()
        others = [each for each in voters if each != self.node]
        leader = random.choice(others) if others else NO_NODE
        return self._hinted(NotLeader(group=group, node=self.node, leader=leader))

    def is_elsewhere(self, group: GroupId) -> bool:
        """Is the group on other nodes, as far as this one knows, and is it not to come here?"""
        replicas = self.multiraft.replicas
        info = replicas.controller.info_of(group)
        if info is None or self.node in replicas.nodes.observers:
            return False
        return self.node not in replicas.controller.voters_of(info)

    def group_here(self, group: GroupId) -> LocalReplica:
        """The replica of the group. Raises `NotLeader` where there is none (yet), `GroupUnknown`
        if it was deleted, and `ReplicaQuarantined` when its files here are damaged."""
        local = self.multiraft.replicas.of_group(group)
        if local is None:
            if self.multiraft.replicas.controller.is_deleted(group):
                raise GroupUnknown(group=group)
            raise self.not_here(group)
        return local

    def _hinted(self, error: NotLeader) -> NotLeader:
        """The error with the leader's address and what the group holds, which its core does not
        know; each if this node does."""
        error.address = self.addresses.get(NodeId(error.leader), "")
        if not error.what:
            replicas, group = self.multiraft.replicas, GroupId(error.group)
            local = replicas.get(group)
            info = local.info if local is not None else replicas.controller.info_of(group)
            error.what = words_for(info)
        return error

    def propose(
        self,
        local: LocalReplica,
        command: Command,
        batch: BatchHeader | None = None,
        body: bytes = b"",
        share: str = "",
    ) -> asyncio.Future[Outcome]:
        """Give a command its place in the log; the future of what applying it comes to. `share`:
        see `RoomUse`.

        Raises `NotLeader`, `Overloaded`, `DiskFull`, `TooLarge`, `TopicRecreated`, `RulesTooOld`:
        nothing was written. The future may end with `NoQuorum`: it may have been written.
        """
        payload = local.payload(command, batch, body)
        limit = self.settings.server.entry_bytes_max
        if payload.size > limit:
            raise TooLarge(
                what="An entry", size=payload.size, limit=limit, option="server.entry_bytes_max"
            )
        done: asyncio.Future[Outcome] = self._loop.create_future()

        def reply(answer: Outcome | RaftlogError) -> None:
            if done.done():
                return  # its caller's deadline passed
            if isinstance(answer, NotLeader):
                answer = self._hinted(answer)
            if isinstance(answer, RaftlogError):
                done.set_exception(answer)
            else:
                done.set_result(answer)

        use = RoomUse.of(command, share)
        self._decided(lambda: self.multiraft.propose(local, payload, reply, use))
        self._effects.write_stages.proposed(local)
        return done

    async def read_barrier(self, local: LocalReplica) -> None:
        """Wait until a read of the machine here is linearizable.

        Raises `NotLeader`, `NoQuorum`.
        """
        done, reply = self._awaited()
        self._decided(lambda: self.multiraft.read_barrier(local, reply))
        await done

    async def transfer_leadership(self, local: LocalReplica, to: NodeId) -> NodeId:
        """Hand the group's leadership to that voter on request; returns the leader after that.

        Raises `NotLeader`, `TransferRefused`.
        """
        raft = local.raft
        self._decided(lambda: self.multiraft.transfer_leadership(local, to, wished=True))
        while raft.transferring_to == to or raft.leader == NO_NODE:
            await asyncio.sleep(self._tick_s)
        return raft.leader

    async def high_water_mark_reached(self, local: LocalReplica, mark: Offset) -> None:
        """Wait until the topic's replica here has applied `mark`."""
        if local.topic_machine.high_water_mark >= mark:
            return
        done, reply = self._awaited()
        number = local.await_high_water_mark(mark, reply)
        try:
            await done
        finally:
            local.forget_wait(number)

    async def applied(self, local: LocalReplica, index: LogIndex) -> None:
        """Wait until the replica here has applied entry `index`."""
        if local.replica.applied_index >= index:
            return
        done, reply = self._awaited()
        number = local.await_applied(index, reply)
        try:
            await done
        finally:
            local.forget_wait(number)

    def _awaited(self) -> tuple[asyncio.Future[None], Callable[[RaftlogError | None], None]]:
        """A future, and the reply that ends it."""
        done: asyncio.Future[None] = self._loop.create_future()

        def reply(error: RaftlogError | None) -> None:
            if done.done():
                return  # its caller's deadline passed
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        return done, reply

    def _decided(self, decide: Callable[[], None]) -> None:
        """Let a replica decide for a call. Raises `NotLeader` with the leader's address.

        An assertion that fails, or no memory, must end the process: grpc would make it the call's
        status and go on with a replica half done.
        """
        try:
            decide()
        except NotLeader as error:
            raise self._hinted(error) from None
        except (AssertionError, MemoryError) as error:
            self._fail(error)
            raise

    def _report(self, report: ReportPlacement) -> None:
        """Tell the controller's leader; what gets lost is reported again."""
        if report not in self._reporting and not self._stopping:
            self._reporting.add(report)
            self.spawn(self._tell_controller(report))

    async def _tell_controller(self, report: ReportPlacement) -> None:
        try:
            async with self._report_turns:
                leader = LeaderCalls(self.may_lead(CONTROLLER_GROUP), self.channels)
                await leader.ask(
                    REPORT_PLACEMENT, lambda own: self._count_report(own, self.node), report
                )
        except RaftlogError as error:
            log.info("a placement is not reported yet", group=report.group, cause=error.cause)
        finally:
            self._reporting.discard(report)

    async def report_placement(self, report: ReportPlacement) -> PlacementReported:
        """Put a caller's report into the controller's log: that of a node once enough of the
        group's voters, new and former, have made it. One of a change that has ended comes late, and
        does nothing. Raises `Forbidden` for the report of another node, and what `propose` raises.
        """
        who, replicas = caller(), self.multiraft.replicas
        if who is None or not who.is_node:
            return await self._put_report(report)
        self.check_leads(replicas.of_controller)
        if not replicas.controller.placements.is_under_way(report.group, report.generation):
            return PlacementReported(done=False)
        reporters = replicas.placed_nodes(report.group)
        reporter = next((each for each in reporters if node_caller(each) == who), None)
        if reporter is None:
            raise Forbidden(principal=who.principal, right="cluster", kind="all")
        return await self._count_report(report, reporter)

    async def _count_report(self, report: ReportPlacement, reporter: NodeId) -> PlacementReported:
        """This node's own report counts as any other: what its log has may be forged."""
        replicas = self.multiraft.replicas
        self.check_leads(replicas.of_controller)
        heard = set(replicas.voting_nodes).difference(self.multiraft.silent_nodes)
        if not self._reports.are_enough(report, reporter, replicas.controller, heard=heard):
            return PlacementReported(done=False)
        return await self._put_report(report)

    async def _put_report(self, report: ReportPlacement) -> PlacementReported:
        outcome = await self.propose(self.multiraft.replicas.of_controller, report)
        return accepted(PlacementReported, outcome)

    def _read_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        if not self._stopping:
            self.spawn(self._tell_positions(done))

    async def _tell_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        assert self.positions is not None, "set before the node was started"
        found: Sequence[KeyValue] | None = None
        try:
            found = await self.positions()
        except RaftlogError as error:
            log.warning("positions of reader groups are not known", cause=error.cause)
        done(found)

    def now_us(self, local: LocalReplica) -> int:
        """The time that a leader writes into entries, microseconds since 1970 UTC."""
        return self.multiraft.now_us(local)

    def cluster_nodes(self) -> tuple[NodeAddress, ...]:
        """The cluster's nodes by id, this one included, as far as it can know."""
        addresses = self.addresses
        return tuple(NodeAddress(node, addresses[node]) for node in sorted(addresses))

    def unregistered(self) -> tuple[NodeId, ...]:
        """Those that have never come, as far as it can know."""
        has_registered = self.multiraft.replicas.has_registered
        return tuple(each for each in sorted(self.addresses) if not has_registered(each))

    def racks(self) -> tuple[str, ...]:
        """Where those stand, as far as it can know."""
        known = self.multiraft.replicas.controller.nodes
        return tuple(known[node].rack if node in known else "" for node in sorted(self.addresses))


def _log_limits(storage: StorageSettings) -> LogLimits:
    return LogLimits(
        segment_bytes_max=storage.segment_bytes_max,
        preallocate_bytes=storage.preallocate_bytes,
        payload_cache_bytes_max=storage.payload_cache_bytes_max,
        sealed_files_max=storage.sealed_files_max,
    )


def _limits(settings: Settings) -> MultiRaftLimits:
    """The bounds in ticks, bytes and microseconds."""
    tick_s = settings.raft.tick_interval_s
    server, storage = settings.server, settings.storage
    return MultiRaftLimits(
        quiesce_refresh_ticks=settings.raft.quiesce_refresh_ticks(),
        idle_ticks_max=max(1, round(_IDLE_MARKER_S / tick_s)),
        request_bytes_max=server.request_bytes_max,
        slow_disk_ticks=settings.raft.slow_disk_ticks(),
        full_disk_ticks=max(1, round(storage.full_disk_retry_s / tick_s)),
        reserve_bytes=storage.full_disk_reserve_bytes,
        retention_ticks=max(1, round(settings.topic.retention_check_s / tick_s)),
        pull_ticks=max(1, round(server.observer_pull_interval_s / tick_s)),
        turn_work_us=max(1, round(server.turn_work_max_s * 1_000_000)),
        leaders=LeaderLimits(
            spread=settings.raft.preferred_leaders,
            delay_ticks=settings.raft.preferred_leader_delay_ticks(),
            look_ticks=settings.raft.ticks_per_s(),
            moves_max=settings.raft.preferred_leader_moves_per_s_max,
        ),
        catch_up=CatchUpLimits(
            peer_bytes_max=server.catch_up_peer_bytes_max,
            node_bytes_max=server.catch_up_bytes_max,
            bytes_per_s=server.catch_up_bytes_per_s_max,
        ),
        compaction=CompactionLimits(
            entries_max=storage.snapshot_entries,
            bytes_max=storage.snapshot_bytes,
            behind_bytes_max=storage.log_behind_bytes_max,
            backlog_max=storage.compaction_backlog_max,
            age_ticks=max(1, round(storage.snapshot_age_s / tick_s)),
            node_entries_max=storage.snapshot_entries_of_node,
        ),
        scrubs=ScrubLimits(
            period_us=round(storage.scrub_period_s * 1_000_000),
            bytes_per_tick=max(1, round(storage.scrub_bytes_per_s_max * tick_s)),
        ),
    )
