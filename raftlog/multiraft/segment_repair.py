"""Healing damaged segments of logs: what is damaged is asked of the peers, entry by entry.

One segment is healed at a time. It is read and compared with what the open log knows of it
(`storage.mend`). For each payload that is damaged the peers are asked in turn; any of them that
holds the entry in the same term may answer, leader or not. Then the segment is written again as a
new file. Meanwhile nothing is written to this log, as while an image is installed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.messages import EntryReply, EntryRequest
from raftlog.core.types import EMPTY_PAYLOAD, Entry, LogIndex, NodeId, Payload
from raftlog.errors import CorruptFile, ResourceShortage
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.contract import FileSystem
from raftlog.storage.mend import Examined, SegmentPlan, examine, rewrite
from raftlog.storage.read import LogRead

_RESEND_TICKS = 40
"""A peer that has not answered after this is passed over. No setting: it is asked again when the
repair is tried again."""


class Mended(NamedTuple):
    """How the repair of a segment has ended."""

    whole: bool
    """Every byte is as it was written, or the segment is not needed any more."""
    missing: tuple[LogIndex, ...] = ()
    """Entries that no peer gave."""
    dropped: bool = False
    """Some peer has dropped one of them: its image stands in."""
    answered: bool = True
    """Every peer has answered for each of them."""
    written: bool = True
    """The segment was written again. If not, nothing is known."""
    can_open: bool = True
    """No more than payloads are missing."""


@dataclass(slots=True)
class _Mend:
    local: LocalReplica
    first: LogIndex
    """Of the segment."""
    wanted: deque[LogIndex] = field(default_factory=deque)
    """Entries to be asked for; the first one is asked for now."""
    peers: deque[NodeId] = field(default_factory=deque)
    """Those still to be asked for it; the first one was."""
    waited_ticks: int = 0
    given: dict[LogIndex, Payload] = field(default_factory=dict)
    dropped: bool = False
    answered: bool = True
    asking: bool = False
    to_write: bool = False
    ended: bool = False


class SegmentRepairs:
    """The repairs of one node's logs. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        fs: FileSystem,
        effects: Effects,
        disk: NodeDisk,
        budget: CatchUpBudget,
        ended: Callable[[LocalReplica, LogIndex, Mended], None],
        released: Callable[[LocalReplica], None],
    ) -> None:
        """`ended` is told how a repair went, `released` that the group's files are free again."""
        self._node = node
        self._fs = fs
        self._effects = effects
        self._disk = disk
        self._budget = budget
        self._ended = ended
        self._released = released
        self._waiting: OrderedDict[tuple[LocalReplica, LogIndex], None] = OrderedDict()
        self._running: _Mend | None = None
        self._asked: dict[NodeId, tuple[LocalReplica, EntryRequest]] = {}
        """By peer, its latest request. An honest peer asks for one entry at a time."""
        self._stopped = False

    def stop(self) -> None:
        """Begin nothing from now on; what is in flight is still to be noted."""
        self._stopped = True

    def forget(self, local: LocalReplica) -> None:
        """The replica is gone from here, or has another log now."""
        for key in [key for key in self._waiting if key[0] is local]:
            del self._waiting[key]
        for peer in [peer for peer, asked in self._asked.items() if asked[0] is local]:
            del self._asked[peer]
        if self._running is not None and self._running.local is local:
            self._running.ended = True
            self._running = None

    def begin(self, local: LocalReplica, first: LogIndex) -> None:
        """Heal the segment that begins with this entry, when its turn comes."""
        self._waiting[(local, first)] = None

    def tick(self) -> None:
        """One tick of the clock has passed."""
        if self._stopped:
            return
        mend = self._running
        if mend is None:
            self._start()
        elif mend.asking:
            mend.waited_ticks += 1
            if mend.waited_ticks > _RESEND_TICKS:
                mend.answered = False
                self._ask_next_peer(mend)
        elif mend.to_write:
            self._write(mend)

    # ------------------------------------------------------------ one repair

    def _start(self) -> None:
        if not self._waiting:
            return
        (local, first), _ = self._waiting.popitem(last=False)
        if not local.replica.log.has_segment(first):
            self._ended(local, first, Mended(whole=True))
            return
        plan = local.replica.log.plan_mend(first)
        if plan is None:
            self._waiting[(local, first)] = None  # a write is in flight
            return
        mend, fs = _Mend(local, first), self._fs
        self._running = mend
        self._disk.queue_job(lambda: examine(fs, plan), lambda found: self._examined(mend, found))

    def _examined(self, mend: _Mend, found: Examined | None) -> None:
        if mend.ended or self._stopped:
            return
        if found is None:
            self._end_without(mend)
        elif found.is_whole:
            self._end(mend, Mended(whole=True))
        else:
            mend.wanted.extend(found.missing)
            mend.peers.extend(mend.local.others)
            mend.asking = True
            self._ask(mend)

    def _ask(self, mend: _Mend) -> None:
        """Ask the next peer for the first entry that is wanted, or write the segment if none is
        left that the log still has and a peer may give."""
        log = mend.local.replica.log
        while mend.wanted:
            index = mend.wanted[0]
            if mend.peers and log.base_index < index <= log.durable_index:
                mend.waited_ticks = 0
                request = EntryRequest(
                    group=mend.local.group,
                    sender=self._node,
                    to=mend.peers[0],
                    index=index,
                    term=log.term_at(index),
                )
                self._effects.send(request.to, [request])
                return
            _go_on(mend)
        mend.asking = False
        mend.to_write = True
        self._write(mend)

    def _ask_next_peer(self, mend: _Mend) -> None:
        mend.peers.popleft()
        self._ask(mend)

    def entry_came(self, local: LocalReplica, reply: EntryReply) -> None:
        """A peer's answer. One that is damaged on the way is as if it were lost. An entry of
        another length than the log's is not kept: it could fill the memory. Nor is one that this
        program cannot read: its checksums may be forged, and the node would end when it applies
        the entry, again at each start."""
        mend = self._running
        if mend is None or mend.local is not local or not mend.asking or self._stopped:
            return
        index = mend.wanted[0]
        log = local.replica.log
        if reply.sender != mend.peers[0] or not log.base_index < index <= log.durable_index:
            return
        if (reply.index, reply.term) != (index, log.term_at(index)):
            return
        if not reply.held or reply.payload.size != log.size_at(index):
            mend.dropped = mend.dropped or reply.dropped
            self._ask_next_peer(mend)
        elif is_whole(reply):
            entry = Entry(index, reply.term, log.kind_at(index), reply.payload)
            if not local.replica.can_read(entry):
                mend.answered = False
                self._ask_next_peer(mend)
                return
            mend.given[index] = reply.payload
            _go_on(mend)
            self._ask(mend)

    def _write(self, mend: _Mend) -> None:
        """Write the segment again, once no write of the log is in flight."""
        local = mend.local
        if local.writing or local.installing:
            return
        plan = local.replica.log.plan_mend(mend.first)
        if plan is None:
            if not local.replica.log.has_segment(mend.first):
                self._end_without(mend)
            return
        mend.to_write = False
        local.mending = True
        fs, given = self._fs, mend.given

        def work() -> Examined | None:
            try:
                return rewrite(fs, plan, given)
            except ResourceShortage:
                return None  # what is there stays; the log's own writes need the room

        self._disk.queue_job(work, lambda found: self._written(mend, plan, found))

    def _written(self, mend: _Mend, plan: SegmentPlan, found: Examined | None) -> None:
        local = mend.local
        local.mending = False
        local.replica.log.mended(plan)
        self._released(local)
        if mend.ended or self._stopped:
            return
        if found is None:
            self._end_without(mend)
            return
        self._end(
            mend,
            Mended(
                whole=found.is_whole,
                missing=found.missing,
                dropped=mend.dropped,
                answered=mend.answered,
                can_open=found.can_open,
            ),
        )

    def _end_without(self, mend: _Mend) -> None:
        """The file is gone, or could not be written: try again, if the log still has it."""
        gone = not mend.local.replica.log.has_segment(mend.first)
        self._end(mend, Mended(whole=gone, written=False))

    def _end(self, mend: _Mend, how: Mended) -> None:
        mend.ended = True
        self._running = None
        self._ended(mend.local, mend.first, how)

    # ------------------------------------------------------------ for others

    def asked(self, local: LocalReplica, request: EntryRequest) -> None:
        """A peer's copy of an entry is damaged: answer in the next turn, with this one or that it
        is not here. Of many requests only the last is answered."""
        self._asked[request.sender] = local, request

    def go_on(self) -> None:
        """Answer the peers for which there is room now."""
        for peer, (local, request) in list(self._asked.items()):
            if not self._stopped and self._budget.has_room(peer):
                del self._asked[peer]
                self._answer(local, request)

    def _answer(self, local: LocalReplica, request: EntryRequest) -> None:
        log, index = local.replica.log, request.index
        dropped = index <= log.base_index
        is_here = not dropped and index <= log.durable_index and not local.installing
        if not is_here or log.term_at(index) != request.term:
            self._effects.send(request.sender, [_reply(request, None, dropped=dropped)])
            return
        answer = _Answer(request, log.plan_read(index, index))
        read = answer.read
        number = local.begin_read()
        self._budget.began(request.sender, read.byte_count)

        def ran() -> None:
            local.end_read(number)
            self._budget.ended(request.sender, read.byte_count)
            if not self._stopped:
                still = read.incarnation == local.replica.log.incarnation
                reply = answer.reply if still else _reply(request, None)
                self._effects.send(request.sender, [reply])
            self._released(local)

        self._effects.run_read(answer, ran)


class _Answer:
    """Reads an entry, also one that is in memory: its checksum takes time."""

    def __init__(self, request: EntryRequest, read: LogRead) -> None:
        self.read = read
        self._request = request
        self.reply = _reply(request, None)

    def run(self) -> None:
        if self.read.from_disk:
            self.read.run()
        self.reply = _reply(self._request, self.read)


def _go_on(mend: _Mend) -> None:
    """The next entry is asked for from now on, of each peer again."""
    mend.wanted.popleft()
    mend.peers = deque(mend.local.others)


def is_whole(reply: EntryReply) -> bool:
    """Are these the bytes that the sender read?"""
    return crc32c(reply.payload.body, crc32c(reply.payload.command)) == reply.crc


def _reply(request: EntryRequest, read: LogRead | None, *, dropped: bool = False) -> EntryReply:
    """The answer with what was read; no read, or a damaged entry: it is not to be had here."""
    payload: Payload | None = None
    if read is not None:
        try:
            payload = read.entries()[0].payload
        except CorruptFile:
            payload = None
    command, body = payload or EMPTY_PAYLOAD
    return EntryReply(
        group=request.group,
        sender=request.to,
        to=request.sender,
        index=request.index,
        term=request.term,
        held=payload is not None,
        dropped=dropped,
        crc=crc32c(body, crc32c(command)),
        payload=Payload(command, body),
    )
