"""A replica of this node: what the node does with it, and the calls that wait for it.

`raftlog.replica.Replica` is synchronous and knows neither callers nor writes in flight, so a test
drives it in a few lines. What a node adds is here. The others of the group are on other nodes, and
this node sees of them only messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from raftlog.core.ready import Role
from raftlog.core.types import GroupId, LogIndex, Offset, Payload, Term
from raftlog.errors import NoQuorum, RaftlogError, ReplicaDiverged, StateDisputed
from raftlog.machines.commands import TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.topic import TopicMachine
from raftlog.replica import Output, Replica
from raftlog.state_comparison import StateTrust

WriteReply = Callable[[Outcome | RaftlogError], None]
"""Called once: with the command's outcome, or with why there is none."""

ReadReply = Callable[[RaftlogError | None], None]
"""Called once: with None when the read may be answered, or with why it may not."""


class _Write(NamedTuple):
    term: Term
    reply: WriteReply


class _HighWaterMarkWait(NamedTuple):
    mark: Offset
    reply: ReadReply


class LocalReplica:
    """Joins one replica to the calls that wait for it.

    Every reply is called once. It gets the outcome, if the entry was applied with its own term. It
    gets `NoQuorum` if another leader took over or this one stepped down, and `DiskFull` if this
    node's disk has no room: a client may resend after both, because every write is idempotent. It
    gets another error if the group is gone from here. A caller whose deadline passed ignores it.
    """

    def __init__(self, replica: Replica, topic: TopicInfo | None) -> None:
        self.replica = replica
        self.raft = replica.raft
        self.topic = topic
        self.deleted_elsewhere = False
        """A peer said that the group is deleted, so the replica must not campaign any more."""
        self.writing = False
        """A write of its log is in flight."""
        self.reads_out = 0
        """Reads of its log that are in flight, for followers that catch up."""
        self.idle_ticks = 0
        """Ticks since its log was last written."""
        self.rules_proposed: tuple[Term, int] | None = None
        """The version of the rules that was proposed here last, and in which term."""
        self._numbers = itertools.count(1)
        self._writes: dict[LogIndex, _Write] = {}
        self._reads: dict[int, ReadReply] = {}
        self._high_water_mark_waits: dict[int, _HighWaterMarkWait] = {}

    @property
    def group(self) -> GroupId:
        return self.replica.group

    @property
    def machine(self) -> StateMachine[Any, Outcome]:
        return self.replica.machine

    @property
    def topic_machine(self) -> TopicMachine:
        """The machine of a topic's group; the controller has neither records nor marks."""
        machine = self.replica.machine
        assert isinstance(machine, TopicMachine), "only topics have marks"
        return machine

    def propose(self, payload: Payload, reply: WriteReply) -> None:
        """Put a command into the log. Raises `NotLeader` or `Overloaded`: then it is not there,
        and `reply` is never called."""
        span = self.raft.propose([payload])
        self._writes[span.first] = _Write(self.raft.term, reply)

    def read_barrier(self, reply: ReadReply) -> None:
        """Reply when a read of the machine here is linearizable (ReadIndex).

        Raises `NotLeader` or `Overloaded`: then `reply` is never called.
        """
        number = next(self._numbers)
        self.raft.read_index(number)
        self._reads[number] = reply

    def await_high_water_mark(self, mark: Offset, reply: ReadReply) -> int:
        """Reply once this replica has applied the topic up to `mark`, which it has not yet.

        Returns the number by which `forget_high_water_mark` ends the wait.
        """
        assert self.topic_machine.high_water_mark < mark, "there is nothing to wait for"
        number = next(self._numbers)
        self._high_water_mark_waits[number] = _HighWaterMarkWait(mark, reply)
        return number

    def forget_high_water_mark(self, number: int) -> None:
        """End the wait that `await_high_water_mark` gave this number; it may have been answered."""
        self._high_water_mark_waits.pop(number, None)

    def require_agreed(self, end: Offset) -> None:
        """May records below `end` be read from this replica, for all that is known of its state?

        Raises `ReplicaDiverged` or `StateDisputed`.
        """
        comparison = self.replica.comparison
        trust = comparison.trust
        if trust is StateTrust.TRUSTED:
            return
        topic = self.topic_machine.info.name
        if trust is StateTrust.DIVERGED:
            raise ReplicaDiverged(topic=topic, node=self.replica.node)
        if end > comparison.agreed_mark:
            raise StateDisputed(topic=topic, agreed=comparison.agreed_mark)

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
        if output.applied and self._high_water_mark_waits:
            self._settle_high_water_marks()

    def abandon_all(self, error: RaftlogError) -> None:
        """The group is gone from this node, so this is the last chance to answer."""
        self.abandon_writes(NoQuorum(what="a write"))
        waits = [
            *self._reads.values(),
            *(wait.reply for wait in self._high_water_mark_waits.values()),
        ]
        self._reads.clear()
        self._high_water_mark_waits.clear()
        for reply in waits:
            reply(error)

    def abandon_writes(self, error: RaftlogError) -> None:
        """Answer the writes in flight with `error`. Nobody here can say what becomes of them:
        another leader decides, or there is no room yet. A client that resends one learns it."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            write.reply(error)

    def _settle_high_water_marks(self) -> None:
        reached = self.topic_machine.high_water_mark
        due = [
            number for number, wait in self._high_water_mark_waits.items() if wait.mark <= reached
        ]
        for number in due:
            self._high_water_mark_waits.pop(number).reply(None)
