"""A replica on this node, and the calls that wait for it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple

from raftlog.core.ready import Role
from raftlog.core.types import GroupId, LogIndex, Offset, Payload, Term
from raftlog.errors import NoQuorum
from raftlog.machines.commands import TopicInfo
from raftlog.machines.outcomes import Outcome
from raftlog.machines.topic import TopicMachine
from raftlog.replica import Output, Replica


class _Write(NamedTuple):
    term: Term
    done: asyncio.Future[Outcome]


class _MarkWait(NamedTuple):
    mark: Offset
    done: asyncio.Future[None]


class HostedReplica:
    """Joins one replica to the futures of its clients. One event loop's own.

    Every future ends: applied with the entry's own term (the outcome), lost to another leader or a
    step-down (`NoQuorum`, which a client may resend because every write is idempotent), or given
    up by its caller's deadline.
    """

    def __init__(self, replica: Replica, topic: TopicInfo | None) -> None:
        self.replica = replica
        self.topic = topic
        self.deleted_elsewhere = False
        """A peer said that the group is deleted: it must not campaign any more."""
        self.writing = False
        self.idle_ticks = 0
        self._request_ids = itertools.count(1)
        self._writes: dict[LogIndex, _Write] = {}
        self._reads: dict[int, asyncio.Future[None]] = {}
        self._mark_waits: list[_MarkWait] = []

    @property
    def group(self) -> GroupId:
        return self.replica.group

    @property
    def machine(self) -> Any:
        return self.replica.machine

    def propose(self, payload: Payload) -> asyncio.Future[Outcome]:
        """The future of the command's outcome. Raises `NotLeader` or `Overloaded` at once."""
        span, term = self.replica.propose([payload])
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._writes[span.first] = _Write(term, done)
        return done

    def read_barrier(self) -> asyncio.Future[None]:
        """A future that ends when a read of the machine here is linearizable (ReadIndex)."""
        request_id = next(self._request_ids)
        self.replica.raft.read_index(request_id)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reads[request_id] = done
        return done

    def mark_reached(self, mark: Offset) -> asyncio.Future[None]:
        """A future that ends when this replica has applied the topic up to `mark`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.machine.high_water_mark >= mark:
            done.set_result(None)
        else:
            self._mark_waits = [wait for wait in self._mark_waits if not wait.done.done()]
            self._mark_waits.append(_MarkWait(mark, done))
        return done

    def settle(self, output: Output) -> None:
        """End the futures that the replica's output decides."""
        for index, term, outcome in output.applied:
            write = self._writes.pop(index, None)
            if write is not None:
                assert outcome is not None or write.term != term, "a command has an outcome"
                self._end(write, outcome if write.term == term else None)
        for read in output.reads:
            done = self._reads.pop(read.request_id)
            if not done.done():
                done.set_result(None)
        for request_id in output.reads_dropped:
            done = self._reads.pop(request_id)
            if not done.done():
                done.set_exception(NoQuorum(what="a read"))
        if output.soft_state is not None and output.soft_state.role is not Role.LEADER:
            self.abandon_writes()
        if output.applied and self._mark_waits:
            self._settle_marks()

    def abandon_writes(self) -> None:
        """This member leads no more: what it had not confirmed, another leader decides."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            self._end(write, None)

    def abandon_all(self, error: Exception) -> None:
        """The group is gone from this node: nobody here will ever be answered otherwise."""
        self.abandon_writes()
        waits = [*self._reads.values(), *(wait.done for wait in self._mark_waits)]
        self._reads.clear()
        self._mark_waits.clear()
        for done in waits:
            if not done.done():
                done.set_exception(error)

    def _end(self, write: _Write, outcome: Outcome | None) -> None:
        if write.done.done():
            return  # its caller's deadline passed
        if outcome is None:
            write.done.set_exception(NoQuorum(what="a write"))
        else:
            write.done.set_result(outcome)

    def _settle_marks(self) -> None:
        assert isinstance(self.machine, TopicMachine), "only topics have marks"
        reached = self.machine.high_water_mark
        waiting = []
        for wait in self._mark_waits:
            if wait.mark > reached:
                waiting.append(wait)
            elif not wait.done.done():
                wait.done.set_result(None)
        self._mark_waits = waiting
