"""Calls that would change nothing: they are answered or rejected without an entry.

So a caller that repeats them neither writes a log nor uses up what a full disk keeps for commands
that make room, and they are no audited operations, each of which has lines of its own.
"""

from __future__ import annotations

from raftlog.auth.principals import problem_of_principal
from raftlog.auth.rights import Right, topic_named
from raftlog.core.types import GroupId
from raftlog.errors import TopicExists
from raftlog.machines.commands import AlterSchema, RemoveWriter, SetWriterOwner, TopicInfo, Trim
from raftlog.machines.outcomes import (
    Refused,
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
)
from raftlog.machines.topic import TopicMachine
from raftlog.machines.validity import problem_of_owner, problem_of_removal, problem_of_trim
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.calling import caller, identity
from raftlog.server.fair_scans import FairScans
from raftlog.server.node import Node
from raftlog.server.refused import check_sense, error_of
from raftlog.server.rights import Rights
from raftlog.wire import calls

_WORK_PER_UNKNOWN_NAME = 250
"""What it takes to find the nearest of a thousand names."""


class Unchanged:
    """Judges them by a linearizable read. Each method returns None if the command is to be
    proposed: it changes something, or an entry is in flight after which it may. May raise any
    `RaftlogError`."""

    def __init__(self, node: Node, rights: Rights, scans: FairScans) -> None:
        self._node = node
        self._replicas = node.multiraft.replicas
        self._rights = rights
        self._scans = scans

    # ------------------------------------------------------------ topics

    def topic(self, name: str, incarnation: str = "") -> TopicInfo:
        """The topic, as far as it is applied here. Raises `TopicNotFound`, `TopicRecreated`."""
        controller = self._replicas.controller
        found = controller.topic(name, incarnation)
        if not isinstance(found, Refused):
            return found
        if controller.known_topic(name) is None:
            self._scans.spend(_WORK_PER_UNKNOWN_NAME)
        raise error_of(found)

    async def created(self, call: calls.CreateTopicCall) -> TopicCreated | None:
        """Raises `Forbidden`, `TopicExists`. A sink asks with `if_not_exists` for every batch: what
        is there needs only the right to write it."""
        asked = topic_named(call.name)
        is_settled = await self._is_settled(self._replicas.of_controller)
        identity().look_up()
        controller = self._replicas.controller
        found = controller.known_topic(call.name)
        # Who may not know of the topic is refused as if there were none.
        if call.if_not_exists and found is not None and self._rights.allow(caller(), None, asked):
            if not self._rights.allow(caller(), Right.CREATE, asked):
                self._rights.require(caller(), Right.WRITE, asked)
        else:
            self._rights.require(caller(), Right.CREATE, asked)
            if found is None or not is_settled:
                return None
        existed = found.incarnation != call.incarnation
        if existed and not call.if_not_exists:
            raise TopicExists(topic=call.name)
        return TopicCreated(topic=controller.as_placed(found), existed=existed)

    async def altered(self, call: calls.AlterTopicCall | AlterSchema) -> None:
        """Raises `TopicNotFound`, `TopicRecreated`."""
        if await self._is_settled(self._replicas.of_controller):
            self.topic(call.name, call.incarnation)

    async def deleted(self, call: calls.DeleteTopicCall) -> TopicDeleted | None:
        """Raises `TopicNotFound`, `TopicRecreated`."""
        if not await self._is_settled(self._replicas.of_controller):
            return None
        gone = self._replicas.controller.deleted_topic(call.incarnation)
        if gone is not None and gone.name == call.name:
            return TopicDeleted(topic=gone)
        self.topic(call.name, call.incarnation)
        return None

    # ------------------------------------------------------------ one topic

    async def trimmed(self, call: calls.TrimCall) -> Trimmed | None:
        """The log start is there or beyond."""
        check_sense("Trim", problem_of_trim(Trim(offset=call.offset)))
        machine = await self._settled(call.group, call.incarnation)
        if machine is None:
            return None
        start = machine.log_start_offset
        is_there = min(call.offset, machine.high_water_mark) <= start
        return Trimmed(log_start_offset=start) if is_there else None

    async def writer_removed(self, call: calls.RemoveWriterCall) -> WriterRemoved | None:
        """There is no such writer."""
        check_sense("RemoveWriter", problem_of_removal(RemoveWriter(writer=call.writer)))
        machine = await self._settled(call.group, call.incarnation)
        if machine is None or machine.writer(call.writer) is not None:
            return None
        return WriterRemoved(known=False, staged_bytes=0)

    async def owner_set(self, call: calls.SetWriterOwnerCall) -> WriterOwnerSet | None:
        """There is no such writer."""
        command = SetWriterOwner(writer=call.writer, owner=call.owner)
        check_sense("SetWriterOwner", problem_of_owner(command))
        check_sense("SetWriterOwner", problem_of_principal(call.owner, groups=False))
        machine = await self._settled(call.group, call.incarnation)
        if machine is None or machine.writer(call.writer) is not None:
            return None
        return WriterOwnerSet(known=False, former="")

    # ------------------------------------------------------------ parts

    async def _settled(self, group: GroupId, incarnation: str) -> TopicMachine | None:
        local = self._replicas.of_topic(group, incarnation)
        if local is None:
            raise self._node.not_here(group)
        return local.topic_machine if await self._is_settled(local) else None

    async def _is_settled(self, local: LocalReplica) -> bool:
        """Wait for a linearizable read of the machine. Returns whether it has applied all that is
        in the leader's log."""
        await self._node.read_barrier(local)
        await self._scans.begin()
        self._replicas.check_here(local)
        return local.replica.applied_index == local.raft.log.last_index
