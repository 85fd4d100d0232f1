"""Where the time of writes goes on their leader, looked at from outside.

After each turn of the node's replicas, and each write to its disk, it is seen how far the entries
have got that calls wait for.
"""

from __future__ import annotations

import time
from collections import deque

from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, LogIndex, Term
from raftlog.metrics.counts import CallCount, Counts, WriteStage
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.calling import counted_call, span
from raftlog.server.traces import Traces
from raftlog.wire.traced import TracedEntry

_WATCHED_MAX = 256
"""So many writes of a group are watched at a time. No setting: of more at once a part says enough,
and a turn must not grow with them."""


class _Write:
    __slots__ = ("call", "carried", "committed_s", "durable_s", "index", "proposed_s", "term")

    def __init__(
        self, call: CallCount, term: Term, index: LogIndex, now_s: float, carried: str
    ) -> None:
        self.call = call
        self.carried = carried
        """Its span; "": it is not traced."""
        self.term = term
        self.index = index
        self.proposed_s = now_s
        self.durable_s: float | None = None
        """On this node's disk, or committed before that."""
        self.committed_s: float | None = None


class WriteStages:
    """Times the writes of one node. For the loop's thread."""

    def __init__(self, counts: Counts, traces: Traces) -> None:
        self._counts = counts
        self._traces = traces
        self._writes: dict[LocalReplica, deque[_Write]] = {}

    def proposed(self, local: LocalReplica) -> None:
        """The call that is being answered has just put a command into the group's log."""
        call, raft = counted_call(), local.raft
        if call is None or raft.transferring_to != NO_NODE:
            return  # no call waits for it; or it is not in the log yet
        writes = self._writes.setdefault(local, deque())
        if len(writes) < _WATCHED_MAX:
            now_s = time.monotonic()
            self._counts.stage(WriteStage.QUEUE, now_s - call.began_at_s)
            index, carried = raft.log.last_index, span()
            writes.append(_Write(call, raft.term, index, now_s, carried))
            if carried:
                self._traces.proposed(TracedEntry(local.group, index, raft.term, carried))

    def look(self) -> None:
        """See how far all of them have got."""
        if not self._writes:
            return
        now_s = time.monotonic()
        for local, writes in list(self._writes.items()):
            self._look(local, writes, now_s)
            if not writes:
                del self._writes[local]

    def _look(self, local: LocalReplica, writes: deque[_Write], now_s: float) -> None:
        raft = local.raft
        if raft.role is not Role.LEADER or raft.term != writes[-1].term:
            writes.clear()  # what becomes of them is not known here
            return
        durable, committed = local.replica.log.durable_index, raft.commit_index
        for write in writes:
            if write.index > max(durable, committed):
                break
            if write.durable_s is None:
                write.durable_s = now_s
            if write.committed_s is None and write.index <= committed:
                write.committed_s = now_s
        while writes and writes[0].index <= local.replica.applied_index:
            self._applied(writes.popleft(), now_s)

    def _applied(self, write: _Write, now_s: float) -> None:
        assert write.durable_s is not None, "it was seen before"
        assert write.committed_s is not None, "only what is committed is applied"
        self._counts.stage(WriteStage.DISK, write.durable_s - write.proposed_s)
        self._counts.stage(WriteStage.REPLICATE, write.committed_s - write.durable_s)
        self._counts.stage(WriteStage.APPLY, now_s - write.committed_s)
        write.call.applied_at_s = now_s
        if write.carried:
            self._traces.applied(
                write.carried,
                (
                    (WriteStage.QUEUE, write.call.began_at_s, write.proposed_s),
                    (WriteStage.DISK, write.proposed_s, write.durable_s),
                    (WriteStage.REPLICATE, write.durable_s, write.committed_s),
                    (WriteStage.APPLY, write.committed_s, now_s),
                ),
            )
