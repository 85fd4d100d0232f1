"""Append requests whose entries must come from disk: read off the loop, sent in their order.

A follower that is close to the end of the log gets its entries from memory, at once. One that lacks
more waits here, in one line for each group. A line reads one request at a time, so that requests
leave in the order in which the core decided them. Peers take turns, and so do the groups of each:
all share what may be read in a tick and be in flight. So a peer that lacks little, whose copy a
majority may need, does not wait until one that lacks much has it all.

Time passes while a read is in flight. When it has ended, `Replica.request` decides whether its
entries may still be sent. What waits in a line is dropped as soon as the core decides otherwise.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from raftlog.core.messages import PeerMessage, Replicate
from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import CorruptFile
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.read import LogRead

_UNFIT_TICKS = 200
"""For so long, at most, another node should lead a group of which this one cannot send what a
follower lacks. No setting: any time in which an election is over is as good."""


class _Line:
    """What one follower of one group is still to be sent: contiguous and bounded.

    The core sends a bounded number of requests ahead. A request that does not continue where the
    line ends replaces all that waits.
    """

    __slots__ = ("end", "local", "reading", "wishes")

    def __init__(self, local: LocalReplica) -> None:
        self.local = local
        self.wishes: deque[Replicate] = deque()
        self.reading: Replicate | None = None
        self.end = (0, LogIndex(0))
        """Term and index with which the next wish must continue."""

    def add(self, wish: Replicate) -> None:
        if (wish.term, wish.prev_index) != self.end:
            # The core went back, or past what the follower turned out to hold.
            self.clear()
        elif wish.span is None and self.wishes and self.wishes[-1].span is None:
            return  # a check that was asked for again
        self.wishes.append(wish)
        self.end = (wish.term, wish.span.last if wish.span is not None else wish.prev_index)

    def clear(self) -> None:
        """What waits is not sent any more, nor what is being read."""
        self.wishes.clear()
        self.reading = None


class CatchUp:
    """The lines of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        effects: Effects,
        budget: CatchUpBudget,
        ended: Callable[[LocalReplica], None],
        unfit: Callable[[LocalReplica, CorruptFile], None],
    ) -> None:
        """`ended` is called after each read, `unfit` with a replica that cannot send what a
        follower lacks, and so should not lead for a while."""
        self._effects = effects
        self._tell_unfit = unfit
        self._unfit: dict[GroupId, LocalReplica] = {}
        self._ticks = 0
        self._budget = budget
        self._ended = ended
        self._lines: OrderedDict[NodeId, OrderedDict[GroupId, _Line]] = OrderedDict()
        """The peer for which a read began last is the last one."""
        self._stopped = False

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self._ticks += 1
        if self._ticks % _UNFIT_TICKS == 0:
            for local in list(self._unfit.values()):
                self.mended(local)

    def mended(self, local: LocalReplica) -> None:
        """What followers of the replica lack can be read here again, as far as is known."""
        if self._unfit.pop(local.group, None) is not None:
            local.replica.note_damage(damaged=False)

    def stop(self) -> None:
        """Begin no read from now on, and send nothing."""
        self._stopped = True

    def forget(self, local: LocalReplica) -> None:
        """The group is gone from here. Reads in flight end as usual, unused."""
        self._unfit.pop(local.group, None)
        for lines in self._lines.values():
            line = lines.pop(local.group, None)
            if line is not None:
                line.clear()

    def requests(self, local: LocalReplica, wishes: Iterable[Replicate]) -> list[PeerMessage]:
        """The wishes that can be sent now; the others wait for `go_on`."""
        ready: list[PeerMessage] = []
        for wish in wishes:
            lines = self._lines.setdefault(wish.to, OrderedDict())
            line = lines.get(local.group)
            if line is None:
                read = local.replica.plan_read(wish)
                if not read.from_disk:
                    request = local.replica.request(wish, read)
                    assert request is not None, "it was decided just now"
                    ready.append(request)
                    continue
                line = lines[local.group] = _Line(local)
            line.add(wish)
        return ready

    def go_on(self) -> None:
        """Begin the reads, and send what needs none, for which there is room now."""
        if self._stopped:
            return
        for peer, lines in list(self._lines.items()):
            for _ in range(len(lines)):
                if not self._budget.has_room(peer):
                    break
                group, line = lines.popitem(last=False)
                self._go_on(peer, line)
                if line.wishes or line.reading is not None:
                    lines[group] = line

    def _go_on(self, peer: NodeId, line: _Line) -> None:
        replica = line.local.replica
        while line.wishes and line.reading is None and self._budget.has_room(peer):
            wish = line.wishes.popleft()
            if not replica.stands(wish):
                line.clear()
                return
            read = replica.plan_read(wish)
            if read.from_disk:
                self._read(peer, line, wish, read)
                return
            request = replica.request(wish, read)
            assert request is not None, "it stands"
            self._effects.send(peer, [request])

    def _read(self, peer: NodeId, line: _Line, wish: Replicate, read: LogRead) -> None:
        line.reading = wish
        number = line.local.begin_read()
        self._budget.began(peer, read.byte_count)
        self._lines.move_to_end(peer)

        def ran() -> None:
            line.local.end_read(number)
            self._budget.ended(peer, read.byte_count)
            if line.reading is wish and not self._stopped:
                line.reading = None
                try:
                    request = line.local.replica.request(wish, read)
                except CorruptFile as damage:
                    line.clear()
                    self._unfit[line.local.group] = line.local
                    line.local.replica.note_damage(damaged=True)
                    self._tell_unfit(line.local, damage)
                else:
                    if request is not None:
                        self._effects.send(peer, [request])
            self._ended(line.local)

        self._effects.run_read(read, ran)
