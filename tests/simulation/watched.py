"""Replicas that tell the simulation's checker what they do; the product's own otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raftlog.core.messages import AppendRequest, RaftMessage, Replicate
from raftlog.core.raft import Raft
from raftlog.core.types import EntryKind, LogIndex, NodeId, Payload, Span, Term
from raftlog.core.validity import TERM_MAX
from raftlog.replica import Budget, Output, Replica
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import PrefixRemoval
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite
from tests.simulation.checkers import WitnessedLog
from tests.simulation.disk import DurableLog

if TYPE_CHECKING:
    from tests.simulation.node import SimulatedNode

COMPARED_EVERY = 8
"""Entries between two points of comparison: simulations are short."""


class ReplicaView:
    """A replica as the checker sees it."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.group = replica.group
        self.seen: Any = None
        """The checker's memory of this replica."""


class WatchedRaft(Raft):
    """The real core; the checker is told of every input to it."""

    count: Callable[[str], None]
    stepped: Callable[[], None]

    def step(self, message: RaftMessage, *, term_max: Term = TERM_MAX) -> None:
        was_quiesced = self.quiesced
        super().step(message, term_max=term_max)
        if self.quiesced and not was_quiesced:
            self.count(f"a {self.role.value} quiesced")
        if message.sender != self.node:  # its own votes come in the middle of `Replica.advance`
            self.stepped()

    def campaign(self) -> bool:
        campaigns = super().campaign()
        self.stepped()
        return campaigns

    def tick(
        self,
        silent: Collection[NodeId] = (),
        *,
        now_us: int | None = None,
        may_campaign: bool = True,
    ) -> bool:
        something = super().tick(silent, now_us=now_us, may_campaign=may_campaign)
        self.stepped()
        return something

    def wake(self, silent_ticks: Mapping[NodeId, int], *, ask_again: bool = False) -> None:
        if ask_again:
            self.count("a quiesced leader asked again")
        elif self.leader in silent_ticks and silent_ticks[self.leader] > 0:
            self.count("a follower woke while its leader's node was silent")
        super().wake(silent_ticks, ask_again=ask_again)
        self.stepped()

    def propose(self, payloads: Sequence[Payload], kind: EntryKind = EntryKind.COMMAND) -> Span:
        span = super().propose(payloads, kind)
        self.stepped()
        return span

    def read_index(self, request_id: int, *, now_us: int | None = None) -> None:
        if now_us is not None and self.holds_lease(now_us):
            self.count("reads answered under a lease")
        super().read_index(request_id, now_us=now_us)

    def leader_lost(self, leader: NodeId, term: Term) -> None:
        super().leader_lost(leader, term)
        self.stepped()

    def voters_reachable(self) -> None:
        super().voters_reachable()
        self.stepped()


class WatchedReplica(Replica):
    """The real replica; the checker is told of each of its events, and what its writes will do."""

    def __init__(self, *, owner: SimulatedNode, log: GroupLog, **parts: Any) -> None:
        super().__init__(log=log, raft_type=WatchedRaft, **parts)
        assert isinstance(log, WitnessedLog)
        assert isinstance(self.raft, WatchedRaft)
        self._owner = owner
        self._checker = owner.checker
        self._view = ReplicaView(self)
        self.raft.count = owner.count
        self.states_compared_every = COMPARED_EVERY
        self.raft.stepped = lambda: self._checker.stepped(self._view)
        self._checker.opened(owner, self._view, log)

    def take_write(self) -> LogWrite | None:
        write = super().take_write()
        if write is not None:
            self._owner.planned(write, self.group, DurableLog.of(self.log))
        return write

    def written(self, write: LogWrite) -> None:
        super().written(write)
        self._checker.stepped(self._view)

    def advance(self) -> Output:
        output = super().advance()
        self._checker.advanced(self._view, output)
        for message in output.messages:
            self._checker.sent(self._owner, self._view, message)
        return output

    def drop_log_to(self, index: LogIndex) -> PrefixRemoval:
        before = self.log.base_index
        removal = super().drop_log_to(index)
        if self.log.base_index > before:
            self._checker.dropped(self._owner, self._view)
        return removal

    def request(self, wish: Replicate, read: LogRead) -> AppendRequest | None:
        found = super().request(wish, read)
        if found is None:
            self._owner.count("reads for a follower that came too late")
        else:
            self._owner.count("reads for a follower from disk", read.from_disk)
            self._checker.sent(self._owner, self._view, found)
        return found

    def apply(self, budget: Budget, entries_max: int) -> Output:
        output = super().apply(budget, entries_max)
        if self.has_to_apply and budget.spent:
            self._owner.count("entries left for the next turn")
        self._checker.advanced(self._view, output)
        return output
