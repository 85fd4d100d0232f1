"""A parent's side: it answers observers out of its log, in any role.

It gives what it knows to be committed and nothing beyond. It keeps nothing of an observer but the
one request that it has not answered: what it must read from disk waits for its share of what may
be read (`raftlog.multiraft.catch_up_budget`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from raftlog.core.messages import (
    GroupDeleted,
    ImageOffer,
    PeerMessage,
    PullDone,
    PulledEntries,
    PullRequest,
    PullRow,
)
from raftlog.core.types import NO_INDEX, NO_NODE, LogIndex, NodeId, Span, Term
from raftlog.damage_table import gives_images
from raftlog.errors import CorruptFile
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.replicas import NodeReplicas
from raftlog.storage.read import LogRead

ANSWER_ENTRIES_MAX = 1024
"""Entries of one group in one answer: taking them must not hold up the observer's loop."""


@dataclass(slots=True)
class _Answer:
    """What is still to be said to one request."""

    request: PullRequest
    bytes_left: int
    rows: list[PullRow]
    """The last one is answered next."""
    reading: int = 0
    more: bool = False


class PullAnswers:
    """What one node answers. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        effects: Effects,
        budget: CatchUpBudget,
        bytes_max: int,
        replicas: NodeReplicas,
        offer: Callable[[LocalReplica, NodeId], list[ImageOffer]],
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """One request is answered with `bytes_max`, unless one entry is larger. `offer` gives a
        replica's image to a node that lacks what its log has dropped. `damaged` gets the damage of
        an entry that cannot be read, `ended` the replica of each read that has ended."""
        self._node = node
        self._effects = effects
        self._budget = budget
        self._bytes_max = bytes_max
        self._replicas = replicas
        self._offer = offer
        self._damaged = damaged
        self._ended = ended
        self._answers: OrderedDict[NodeId, _Answer] = OrderedDict()
        """By observer; a new request takes the place of the one before."""
        self._stopped = False

    def stop(self) -> None:
        """Begin no read from now on, and send nothing."""
        self._stopped = True
        self._answers.clear()

    def asked(self, request: PullRequest) -> None:
        """Answer in the next turn, as far as memory has it: of many requests in one frame only the
        last is answered, and of many rows for one group only one."""
        rows = {row.group: row for row in reversed(request.rows)}
        self._answers[request.sender] = _Answer(request, self._bytes_max, list(rows.values()))

    def go_on(self) -> None:
        """Answer what there is room for now."""
        for peer, answer in list(self._answers.items()):
            while answer.rows and self._answer_row(answer, answer.rows[-1]):
                answer.rows.pop()
            self._end_if_done(answer)
            if self._answers.get(peer) is answer:
                self._answers.move_to_end(peer)

    # ------------------------------------------------------------ parts

    def _answer_row(self, answer: _Answer, row: PullRow) -> bool:
        """Answer one row, or begin to; False: there is no room to read it now."""
        local = self._replicas.get(row.group)
        peer = answer.request.sender
        if local is None and self._replicas.controller.is_deleted(row.group):
            self._send(peer, GroupDeleted(group=row.group, sender=self._node, to=peer))
            return True
        if local is None or not _gives(local):
            self._send(peer, self._lacking(row, peer))
            return True
        if not self._replicas.may_take(local, peer):
            return True
        raft = local.raft
        is_news = raft.term >= row.leader_term and raft.leader != NO_NODE
        is_news = is_news and (raft.term, raft.leader) != (row.leader_term, row.leader)
        if row.index < raft.log.base_index:
            self._send(peer, self._pulled(local, row, peer), *self._offer(local, peer))
        elif (span := self._span(answer, local, row)) is not None:
            return self._give(answer, local, row, span)
        elif is_news:
            self._send(peer, self._pulled(local, row, peer))
        return True

    def _span(self, answer: _Answer, local: LocalReplica, row: PullRow) -> Span | None:
        """The entries that the row is answered with; None: there are none now."""
        log = local.raft.log
        # What the core has taken in this turn is not in the log before the next one.
        committed = min(local.raft.commit_index, local.replica.log.last_index)
        if row.index >= committed:
            return None
        if answer.bytes_left <= 0:
            answer.more = True
            return None
        first = LogIndex(row.index + 1)
        fit = log.fit(first, entries_max=ANSWER_ENTRIES_MAX, bytes_max=answer.bytes_left)
        last = LogIndex(min(fit.last, committed))
        answer.more = answer.more or last < committed
        return Span(first, last)

    def _give(self, answer: _Answer, local: LocalReplica, row: PullRow, span: Span) -> bool:
        peer = answer.request.sender
        read = local.replica.log.plan_read(span.first, span.last)
        if read.from_disk and not self._budget.has_room(peer):
            return False
        answer.bytes_left -= read.byte_count
        if not read.from_disk:
            self._send(peer, self._pulled(local, row, peer, read))
            return True
        answer.reading += 1
        number = local.begin_read()
        self._budget.began(peer, read.byte_count)

        def ran() -> None:
            answer.reading -= 1
            local.end_read(number)
            self._budget.ended(peer, read.byte_count)
            if not self._stopped:
                self._send(peer, self._read(local, row, peer, read))
                self._end_if_done(answer)
            self._ended(local)

        self._effects.run_read(read, ran)
        return True

    def _read(
        self, local: LocalReplica, row: PullRow, peer: NodeId, read: LogRead
    ) -> PulledEntries:
        """What was read. Meanwhile the log's beginning may have been dropped."""
        log = local.replica.log
        if read.incarnation != log.incarnation or row.index < local.raft.log.base_index:
            return self._lacking(row, peer)
        try:
            return self._pulled(local, row, peer, read)
        except CorruptFile as damage:
            self._damaged(local, damage)
            return self._lacking(row, peer)

    def _end_if_done(self, answer: _Answer) -> None:
        request = answer.request
        if answer.rows or answer.reading or self._answers.get(request.sender) is not answer:
            return
        del self._answers[request.sender]
        done = PullDone(
            sender=self._node, to=request.sender, number=request.number, more=answer.more
        )
        self._send(request.sender, done)

    def _pulled(
        self, local: LocalReplica, row: PullRow, peer: NodeId, read: LogRead | None = None
    ) -> PulledEntries:
        """The answer with the entries that were read. Raises `CorruptFile`."""
        raft = local.raft
        entries = read.entries() if read is not None else ()
        # What this node does not know to be committed may not be what an observer has there.
        known = raft.log.base_index <= row.index <= raft.commit_index
        return PulledEntries(
            group=row.group,
            sender=self._node,
            to=peer,
            term=raft.term,
            leader=raft.leader,
            held=True,
            base_index=raft.log.base_index,
            commit_index=raft.commit_index,
            prev_index=row.index if known else NO_INDEX,
            prev_term=raft.log.term_at(row.index) if known else Term(0),
            entries=entries,
        )

    def _lacking(self, row: PullRow, peer: NodeId) -> PulledEntries:
        return PulledEntries(
            group=row.group,
            sender=self._node,
            to=peer,
            term=Term(0),
            leader=NO_NODE,
            held=False,
            base_index=NO_INDEX,
            commit_index=NO_INDEX,
            prev_index=NO_INDEX,
            prev_term=Term(0),
            entries=(),
        )

    def _send(self, peer: NodeId, *messages: PeerMessage) -> None:
        self._effects.send(peer, messages)


def _gives(local: LocalReplica) -> bool:
    """May others have what this replica has?"""
    return not local.installing and not local.below_parent and gives_images(local.troubles)
