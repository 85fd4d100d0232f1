"""A node: many replicas, one event loop, a bounded pool of threads for writes and syncs.

Everything that decides happens on the loop, in turns: inputs (peer messages, calls, ticks, writes
that became durable) mark a group, and the next turn advances every marked group once, so what came
in together is proposed, sent and synced together. A thread only ever runs a `LogWrite` or a
journal write, which touch files and nothing else.

A failed write or sync ends the process through `fail`, and so does whatever a turn, a tick or a
note of a finished write raises (the loop's exception handler, `raftlog.server.main`): going on
would mean to acknowledge what may not be there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from raftlog.config import Settings
from raftlog.core.messages import GroupDeleted, PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Payload
from raftlog.discovery.static import parse_routes
from raftlog.errors import (
    IdentityRefused,
    NotLeader,
    Overloaded,
    RaftlogError,
    TopicRecreated,
)
from raftlog.machines.commands import TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Outcome
from raftlog.server.groups import GroupStore
from raftlog.server.hosted import HostedReplica
from raftlog.storage.folder import Identity
from raftlog.storage.write import LogWrite
from raftlog.transport.link import PeerLink
from raftlog.wire.calls import NodeAddress, PeerHello, PeerWelcome

T = TypeVar("T")

_IDLE_MARKER_S = 1.0
"""A log that was not written for so long gets its synced marker, which bears witness to the end
of it (docs/ARCHITECTURE.md, "Torn or damaged")."""

log = structlog.get_logger(__name__)


class Node:
    """The running node. All methods belong to the loop's thread."""

    def __init__(
        self,
        *,
        settings: Settings,
        identity: Identity,
        addresses: dict[NodeId, str],
        store: GroupStore,
        boot_id: str,
        fail: Callable[[BaseException], None],
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.node = NodeId(identity.node)
        self.addresses = addresses
        self.boot_id = boot_id
        self._store = store
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(settings.server.sync_threads_max, thread_name_prefix="sync")
        self._groups: dict[GroupId, HostedReplica] = {}
        self._opening: set[GroupId] = set()
        self._marked: dict[GroupId, None] = {}
        self._turn_scheduled = False
        self._request_bytes = 0
        self._journal_writing = False
        self._idle_journal_ticks = 0
        self._tick_s = settings.raft.tick_interval_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writes: set[asyncio.Future[None]] = set()
        self._stopping = False
        hello = PeerHello(
            cluster_id=identity.cluster_id,
            node=self.node,
            store_uuid=identity.store_uuid,
            boot_id=boot_id,
            address=addresses[self.node],
        )
        routes = parse_routes(settings.server.peer_routes)
        self.links = {
            peer: PeerLink(
                peer=peer,
                address=routes.get((self.node, peer), address),
                hello=hello,
                outbox_bytes_max=settings.server.peer_queue_bytes_max,
                reconnect_wait_s=settings.server.peer_reconnect_delay_min_s,
                known_store=self.known_store,
                on_open=self._link_opened,
                on_lost=self.peer_closed,
                on_refused=self._refused,
            )
            for peer, address in addresses.items()
            if peer != self.node
        }

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Open the controller's replica and every group of the data folder, then run."""
        for replica, topic in await self._in_pool(self._store.open_all):
            self._groups[replica.group] = HostedReplica(replica, topic)
            self.mark(replica.group)
        assert CONTROLLER_GROUP in self._groups, "every node carries the controller's group"
        for link in self.links.values():
            self.spawn(link.run())
        self._next_tick_s = self._loop.time() + self._tick_s
        self._loop.call_at(self._next_tick_s, self._tick)

    async def stop(self) -> None:
        """End tasks, finish what is being written, close the files."""
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # No turn starts another write now; those under way must have been noted before the logs
        # are closed, which write and sync the rest.
        await asyncio.gather(*self._writes, return_exceptions=True)
        for hosted in self._groups.values():
            hosted.abandon_all(NotLeader(group=hosted.group))
        self._pool.shutdown(wait=True)
        self._store.close(hosted.replica for hosted in self._groups.values())

    def spawn(self, work: Any) -> None:
        """Run a coroutine as the node's own: its failure is the node's failure."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    async def _in_pool(self, work: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(self._pool, work)

    # ------------------------------------------------------------ turns

    def mark(self, group: GroupId) -> None:
        """Something happened to the group: advance it in the next turn."""
        self._marked[group] = None
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._stopping:
            return
        marked, self._marked = self._marked, {}
        for group in marked:
            hosted = self._groups.get(group)
            if hosted is not None:
                self._advance(hosted)
        self._write_journal()

    def _advance(self, hosted: HostedReplica) -> None:
        output = hosted.replica.advance()
        self._send(output.messages)
        hosted.settle(output)
        if output.soft_state is not None:
            log.info(
                "leadership",
                group=hosted.group,
                topic=hosted.topic.name if hosted.topic else "(controller)",
                role=output.soft_state.role.value,
                term=output.soft_state.term,
                leader=output.soft_state.leader,
            )
        if hosted.group == CONTROLLER_GROUP and output.applied and not output.more:
            self._follow_controller()
        if output.more:
            self.mark(hosted.group)
        self._write_log(hosted)

    def _send(self, messages: Sequence[PeerMessage]) -> None:
        by_peer: dict[NodeId, list[PeerMessage]] = {}
        for message in messages:
            by_peer.setdefault(message.to, []).append(message)
        for peer, batch in by_peer.items():
            link = self.links.get(peer)
            if link is not None:
                link.send(batch)

    def _write_log(self, hosted: HostedReplica) -> None:
        if hosted.writing:
            return
        write = hosted.replica.take_write()
        if write is None:
            return
        hosted.writing = True
        hosted.idle_ticks = 0

        def durable() -> None:
            hosted.writing = False
            hosted.replica.written(write)
            if hosted.group in self._groups:
                self.mark(hosted.group)

        self._run_write(write, durable)

    def _write_journal(self) -> None:
        if self._journal_writing:
            return
        journal = self._store.journal
        write = journal.take_write()
        if write is None:
            return
        self._journal_writing = True
        self._idle_journal_ticks = 0

        def durable() -> None:
            self._journal_writing = False
            journal.written(write)
            # Any group may have messages that waited for this.
            for group in self._groups:
                self.mark(group)

        self._run_write(write, durable)

    def _run_write(self, write: LogWrite, durable: Callable[[], None]) -> None:
        """Run the write on a thread, then `durable` on the loop. One that fails ends the node."""
        done = self._loop.run_in_executor(self._pool, write.run)
        self._writes.add(done)

        def ran(future: asyncio.Future[None]) -> None:
            self._writes.discard(future)
            if (error := future.exception()) is not None:
                self._fail(error)
            else:
                durable()

        done.add_done_callback(ran)

    def _tick(self) -> None:
        """One tick for all, also after a pause: time that was slept through is not made up for."""
        if self._stopping:
            return
        idle_ticks_max = max(1, round(_IDLE_MARKER_S / self._tick_s))
        for group, hosted in self._groups.items():
            if not hosted.deleted_elsewhere:
                hosted.replica.raft.tick()
            hosted.idle_ticks += 1
            if hosted.idle_ticks == idle_ticks_max:
                hosted.replica.log.idle_marker()
            self.mark(group)
        self._idle_journal_ticks += 1
        if self._idle_journal_ticks == idle_ticks_max:
            self._store.journal.idle_marker()
        self._next_tick_s = max(self._next_tick_s + self._tick_s, self._loop.time())
        self._loop.call_at(self._next_tick_s, self._tick)

    # ------------------------------------------------------------ peers

    def cluster_id(self) -> str:
        """Whose nodes may speak to this one."""
        return self.identity.cluster_id

    def welcome(self) -> PeerWelcome:
        """What a peer that connects is told of this node."""
        return PeerWelcome(
            node=self.node, store_uuid=self.identity.store_uuid, boot_id=self.boot_id
        )

    def known_store(self, node: NodeId) -> str | None:
        """The store bound to the node id by the controller, as far as this node has applied."""
        known = self.controller.nodes.get(node)
        return known.store_uuid if known is not None else None

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Messages of one frame, in the order they were sent.

        They are taken by the loop and not by the stream's handler: what a replica asserts must end
        the process, and grpc would make it the stream's status and go on.
        """
        self._loop.call_soon(self._take, peer, messages)

    def _take(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        for message in messages:
            hosted = self._groups.get(message.group)
            if isinstance(message, GroupDeleted):
                self._group_deleted(message)
            elif hosted is not None:
                hosted.replica.step(message)
                self.mark(message.group)
            elif self.controller.is_deleted(message.group):
                self._send([GroupDeleted(group=message.group, sender=self.node, to=peer)])
            # Otherwise the group is not here yet: the controller's log will bring it.

    def _group_deleted(self, message: GroupDeleted) -> None:
        hosted = self._groups.get(message.group)
        if hosted is not None and not hosted.deleted_elsewhere:
            hosted.deleted_elsewhere = True
            log.info("group deleted elsewhere", group=message.group, peer=message.sender)

    def _link_opened(self, _: NodeId) -> None:
        """With a majority in reach again, groups without a leader need not wait for a timeout."""
        reached = 1 + sum(link.connected for link in self.links.values())
        if reached * 2 <= len(self.addresses):
            return
        for group, hosted in self._groups.items():
            hosted.replica.raft.voters_reachable()
            self.mark(group)

    def _refused(self, error: RaftlogError) -> None:
        """A wiped folder learns here that it must not serve: no peer lets it reach a leader."""
        if isinstance(error, IdentityRefused) and error.node == self.node:
            self._fail(error)

    def peer_opened(self, hello: PeerHello) -> None:
        log.info("peer connected", peer=hello.node, boot_id=hello.boot_id)

    def peer_closed(self, peer: NodeId) -> None:
        """The peer's process died or its connection was reset: its groups may elect at once."""
        # After what it sent before, which may still wait to be taken.
        self._loop.call_soon(self._look_for_leaders, peer)

    def _look_for_leaders(self, peer: NodeId) -> None:
        if self._stopping:
            return
        for group, hosted in self._groups.items():
            raft = hosted.replica.raft
            if raft.leader == peer:
                raft.leader_lost(peer, raft.term)
                self.mark(group)

    # ------------------------------------------------------------ groups

    @property
    def controller(self) -> ControllerMachine:
        """The controller's state, as far as this node has applied it."""
        machine = self._groups[CONTROLLER_GROUP].machine
        assert isinstance(machine, ControllerMachine)
        return machine

    def groups(self) -> Sequence[HostedReplica]:
        """Every replica here, the controller's among them."""
        return list(self._groups.values())

    def hosted(self, group: GroupId) -> HostedReplica | None:
        """The group's replica, if it is here."""
        return self._groups.get(group)

    def topic_replica(self, group: GroupId, incarnation: str) -> HostedReplica | None:
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
        if self._groups[CONTROLLER_GROUP].replica.applied_index < self._store.deletions_index:
            return
        controller = self.controller
        for topic in controller.topics():
            here = topic.group in self._groups or topic.group in self._opening
            if self.node in topic.voters and not here:
                self._opening.add(topic.group)
                self.spawn(self._open_group(topic))
        for group in [group for group in self._groups if controller.is_deleted(group)]:
            hosted = self._groups.pop(group)
            assert hosted.topic is not None, "the controller's group is never deleted"
            hosted.abandon_all(
                TopicRecreated(topic=hosted.topic.name, wanted=hosted.topic.incarnation)
            )
            self.spawn(self._remove_group(hosted))

    async def _open_group(self, topic: TopicInfo) -> None:
        made = await self._in_pool(lambda: self._store.make_log(topic))
        self._opening.discard(topic.group)
        self._groups[topic.group] = HostedReplica(self._store.replica(topic, made), topic)
        log.info("group opened", group=topic.group, topic=topic.name)
        self._follow_controller()

    async def _remove_group(self, hosted: HostedReplica) -> None:
        applied = self._groups[CONTROLLER_GROUP].replica.applied_index
        while hosted.writing:
            await asyncio.sleep(self._tick_s)
        await self._in_pool(lambda: self._store.remove(hosted.replica, applied))
        self._store.journal.forget(hosted.group)
        self._write_journal()
        log.info("group removed", group=hosted.group, topic=hosted.topic.name)

    # ------------------------------------------------------------ proposals and reads

    def leader_hint(self, hosted: HostedReplica) -> NotLeader:
        """The error that sends a client on to the leader, as far as this replica knows it."""
        leader = hosted.replica.raft.leader
        return NotLeader(group=hosted.group, leader=leader, address=self.addresses.get(leader, ""))

    def require_leader(self, hosted: HostedReplica) -> None:
        """Raises `NotLeader` with the hint unless this node leads the group."""
        if hosted.replica.raft.role is not Role.LEADER:
            raise self.leader_hint(hosted)

    def propose(self, hosted: HostedReplica, payload: Payload) -> asyncio.Future[Outcome]:
        """Give a command its place in the log; the future of what applying it comes to.

        Raises `NotLeader`, `Overloaded` (nothing was written). The future may end with `NoQuorum`
        (it may have been written).
        """
        self.require_leader(hosted)
        limit = self.settings.server.request_bytes_max
        if self._request_bytes and self._request_bytes + payload.size > limit:
            raise Overloaded(queue="server.request_bytes_max", limit=limit)
        done = self._decided(lambda: hosted.propose(payload))
        self.mark(hosted.group)
        self._request_bytes += payload.size
        done.add_done_callback(lambda _: self._release(payload.size))
        return done

    def _release(self, request_bytes: int) -> None:
        self._request_bytes -= request_bytes

    async def read_barrier(self, hosted: HostedReplica) -> None:
        """Wait until a read of the machine here is linearizable.

        Raises `NotLeader`, `NoQuorum`.
        """
        self.require_leader(hosted)
        done = self._decided(hosted.read_barrier)
        self.mark(hosted.group)
        await done

    def _decided(self, decide: Callable[[], asyncio.Future[T]]) -> asyncio.Future[T]:
        """What a replica decides for a call. What it asserts must end the process: grpc would make
        it the call's status and go on with a replica half done."""
        try:
            return decide()
        except AssertionError as error:
            self._fail(error)
            raise

    def now_us(self) -> int:
        """The wall clock that a leader writes into entries, microseconds since 1970 UTC."""
        return time.time_ns() // 1000

    def cluster_nodes(self) -> tuple[NodeAddress, ...]:
        return tuple(NodeAddress(node, self.addresses[node]) for node in sorted(self.addresses))


def new_random() -> random.Random:
    """Chance for election timeouts, seeded by the operating system."""
    return random.Random()
