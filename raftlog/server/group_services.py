"""The calls about any group: who holds it, how far it is applied, and what happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import assert_never

from raftlog.core.types import NO_INDEX, NO_NODE, Entry, LogIndex, NodeId, Term
from raftlog.errors import CorruptFile, IndexOverflow, IndexUnderflow, MalformedRequest
from raftlog.image.snapshot_file import SnapshotRead
from raftlog.multiraft.group_events import GroupEvent, LeaderChanged, StateChanged, VotersChanged
from raftlog.server.fair_scans import PERIOD_WORK_MAX, WORK_PER_WAKE, FairScans
from raftlog.server.node import Node
from raftlog.server.refused import check_sense
from raftlog.wire import group_calls as calls


class GroupServices:
    """Every method may raise any `RaftlogError`."""

    def __init__(self, node: Node, scans: FairScans) -> None:
        self._node = node
        self._scans = scans

    async def get_last_applied(self, call: calls.GetLastApplied) -> calls.LastApplied:
        """How far the group is applied, by a read round of its leader (ReadIndex)."""
        local = self._node.group_here(call.group)
        await self._node.read_barrier(local)
        return calls.LastApplied(index=local.replica.applied_index)

    async def get_servers(self, call: calls.GetServers) -> calls.Servers:
        """Who holds the group, as this node knows it. Until the controller's log names its voters,
        these are the nodes that the cluster began with."""
        status = self._node.group_here(call.group).status()
        return calls.Servers(
            voters=self._addresses(status.voters or self._founders),
            learners=self._addresses(status.learners),
            observers=self._addresses(sorted(self._node.multiraft.replicas.nodes.observers)),
            leader=status.leader,
            leader_address=self._address(status.leader),
            term=status.term,
            applied_index=status.applied_index,
        )

    async def get_entries(self, call: calls.GetEntries) -> calls.EntriesReply:
        """Committed entries of this node's log."""
        if call.entries_max < 1:
            raise MalformedRequest(call="GetEntries", what=f"entries_max is {call.entries_max}")
        await self._scans.begin()
        local = self._node.group_here(call.group)
        log = local.replica.log
        first = LogIndex(log.base_index + 1)
        committed = LogIndex(min(local.raft.commit_index, log.last_index))
        if call.index < first:
            raise IndexUnderflow(requested=call.index, earliest=first)
        if call.index > committed or not local.serves_reads:
            raise IndexOverflow(requested=call.index, latest=committed)
        count = min(call.entries_max, calls.ENTRIES_PER_REPLY_MAX)
        last = min(committed, call.index + count - 1)
        try:
            found = log.entries(call.index, last, calls.ENTRY_BYTES_PER_REPLY_MAX)
        except CorruptFile as damage:
            self._node.multiraft.repairs.met(local, damage)
            raise
        self._scans.spend(PERIOD_WORK_MAX)
        return calls.EntriesReply(
            first_index=first, commit_index=committed, entries=tuple(map(_logged, found))
        )

    async def get_state(self, call: calls.GetState) -> calls.StatePart:
        """A part of the machine's state at a snapshot of this node."""
        if call.offset < 0 or call.index < 0:
            what = f"index is {call.index} and offset {call.offset}"
            raise MalformedRequest(call="GetState", what=what)
        local = self._node.group_here(call.group)
        found: asyncio.Future[SnapshotRead] = asyncio.get_running_loop().create_future()

        def done(read: SnapshotRead) -> None:
            if not found.done():  # its caller may be gone
                found.set_result(read)

        copies = self._node.multiraft.images.copies
        snapshot = copies.read(local, call.index, call.offset, done)
        read = await found
        if read.damage is not None:
            raise read.damage
        if read.headline is None or call.crc not in (0, read.headline.crc):
            raise IndexUnderflow(requested=call.index, earliest=local.image.manifest.index)
        return calls.StatePart(
            index=snapshot.index,
            term=snapshot.term,
            offset=call.offset,
            data=read.data,
            byte_count=read.headline.length,
            crc=read.headline.crc,
        )

    async def watch_events(
        self, call: calls.WatchEvents
    ) -> AsyncIterator[tuple[calls.GroupEvent, bytes]]:
        """How the group is, and then what happens to it."""
        check_sense("WatchEvents", problem_of_seconds(call.seconds))
        local = self._node.group_here(call.group)
        happened = asyncio.Event()
        watcher = local.events.watch(local.status(), call.after, happened.set)
        end_s = asyncio.get_running_loop().time() + call.seconds
        try:
            while True:
                await self._scans.begin()
                self._scans.spend(WORK_PER_WAKE)
                for event in watcher.take():
                    yield self._told(event), b""
                async with asyncio.timeout_at(end_s):
                    await happened.wait()
                happened.clear()
        except TimeoutError:
            return
        finally:
            local.events.forget(watcher)

    def _told(self, event: GroupEvent) -> calls.GroupEvent:
        leader, term, index = NO_NODE, Term(0), NO_INDEX
        voters: tuple[NodeId, ...] = ()
        learners: tuple[NodeId, ...] = ()
        match event:
            case LeaderChanged():
                kind, leader, term = "leader_changed", event.leader, event.term
            case StateChanged():
                kind, index = "state_changed", event.index
            case VotersChanged():
                kind, learners = "voters_changed", event.learners
                voters = event.voters or self._founders
            case _:
                assert_never(event)
        return calls.GroupEvent(
            kind=kind,
            leader=leader,
            leader_address=self._address(leader),
            term=term,
            index=index,
            voters=self._addresses(voters),
            learners=self._addresses(learners),
        )

    @property
    def _founders(self) -> tuple[NodeId, ...]:
        return tuple(each.node for each in self._node.identity.founders)

    def _addresses(self, nodes: Iterable[NodeId]) -> tuple[calls.NodeAddress, ...]:
        return tuple(calls.NodeAddress(node, self._address(node)) for node in nodes)

    def _address(self, node: NodeId) -> str:
        return self._node.addresses.get(node, "")


def _logged(entry: Entry) -> calls.LogEntry:
    return calls.LogEntry(
        index=entry.index,
        term=entry.term,
        kind=entry.kind.name.lower(),
        command=entry.payload.command,
        body=entry.payload.body,
    )


def problem_of_seconds(seconds: int) -> str | None:
    """What is wrong with how long a call is to watch, or None."""
    longest = calls.WATCH_SECONDS_MAX
    return None if 0 <= seconds <= longest else f"seconds is {seconds}; 0 to {longest} are allowed"
