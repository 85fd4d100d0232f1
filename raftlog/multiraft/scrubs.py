"""Which replica of a node is scrubbed, when, and how fast.

One replica at a time is read, in pieces, by jobs off the loop (`raftlog.image.scrub`). A piece is
begun only within a budget of bytes for each tick, and not while the disk is slow or full. Jobs that
wait go first, because they are queued first.

Each replica is read once in a period, the one that waits longest first, or on request. When
each was read is noted on disk: a restart neither begins again nor forgets. Replicas of which
nothing is noted are spread over a period.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.errors import CorruptFile
from raftlog.image.damage import Damage
from raftlog.image.scrub import DamagedCopy, Piece, scrub, size_at_rest
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.looks import looks_at

_DUE_TICKS = 10
"""How often it is looked which replica is due (`looks_at`). No setting: periods are days."""

ScrubState = Literal["", "waiting", "running"]


class ScrubLimits(NamedTuple):
    """How often, and how fast."""

    period_us: int = 0
    """Each replica is read once in so many microseconds; 0: only on request."""
    bytes_per_tick: int = 1024 * 1024
    """For the whole node; exceeded by one piece at most, which the next ticks make up for."""


class ScrubProgress(NamedTuple):
    """Where the scrub of one replica stands."""

    state: ScrubState
    read_bytes: int
    """By the one that runs, or else by the last one since the process started."""
    total_bytes: int
    """About what there was to read when that one began."""
    ended_us: int
    """When one read the whole replica last, in microseconds since 1970 UTC; 0: not known."""


@dataclass(slots=True)
class _Scrub:
    local: LocalReplica
    pieces: Generator[Piece]
    total_bytes: int
    read_bytes: int = 0


class Scrubs:
    """The scrubs of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        effects: Effects,
        disk: NodeDisk,
        store: GroupStore,
        groups: Mapping[GroupId, LocalReplica],
        limits: ScrubLimits,
        found: Callable[[LocalReplica, Damage], None],
        mended: Callable[[LocalReplica, CorruptFile], None],
        journal_changed: Callable[[], None],
    ) -> None:
        """`found` is called with damage, `mended` with a damaged copy that was rewritten.
        `journal_changed`: the journal has something to write."""
        self._node = node
        self._effects = effects
        self._disk = disk
        self._store = store
        self._groups = groups
        self._limits = limits
        self._found = found
        self._mended = mended
        self._journal_changed = journal_changed
        self._waiting: dict[GroupId, None] = {}
        self._running: _Scrub | None = None
        self._reading = False
        """A piece is being read, maybe of a scrub that is not wanted any more."""
        self._allowance = limits.bytes_per_tick
        self._last: dict[GroupId, _Scrub] = {}
        self._ended_us = store.scrub_times()
        self._guessed: set[GroupId] = set()
        """Of these nothing was noted."""
        self._journal_unread = False
        """The journal is still to be read."""
        self._ticks = 0
        self._stopped = False

    def begin(self, group: GroupId) -> None:
        """Scrub the group's replica here as soon as those before it are done. One that runs is as
        good. Nothing if there is no such replica."""
        if group in self._groups and self._state(group) == "":
            self._waiting[group] = None
            self._go_on()

    def progress(self, group: GroupId) -> ScrubProgress:
        """Where the scrub of the group's replica stands."""
        last = self._last.get(group)
        return ScrubProgress(
            state=self._state(group),
            read_bytes=last.read_bytes if last is not None else 0,
            total_bytes=max(last.total_bytes, last.read_bytes) if last is not None else 0,
            ended_us=0 if group in self._guessed else self._ended_us.get(group, 0),
        )

    def _state(self, group: GroupId) -> ScrubState:
        if self._running is not None and self._running.local.group == group:
            return "running"
        return "waiting" if group in self._waiting else ""

    def tick(self) -> None:
        """One tick has passed."""
        self._ticks += 1
        self._allowance = min(self._allowance, 0) + self._limits.bytes_per_tick
        if self._limits.period_us and looks_at(self._ticks, _DUE_TICKS, self._groups):
            self._wait_for_due()
        if self._journal_unread and not self._stopped:
            self._read_journal()
        self._go_on()

    def stop(self) -> None:
        """Begin nothing from now on; the piece in flight is still to be noted."""
        self._stopped = True

    def forget(self, local: LocalReplica) -> None:
        """The replica is gone from here, or gets other files."""
        self._waiting.pop(local.group, None)
        self._last.pop(local.group, None)
        if self._running is not None and self._running.local is local:
            self._abandon()

    # ------------------------------------------------------------ which

    def _wait_for_due(self) -> None:
        """The replica that was read longest ago waits, if that is a period ago."""
        if self._waiting or self._running is not None:
            return
        now_us = self._effects.clock_us()
        self._guessed |= self._groups.keys() - self._ended_us.keys()
        self._guessed &= self._groups.keys()
        for group in self._guessed - self._ended_us.keys():
            since_us = (now_us - self._phase_us(group)) % self._limits.period_us
            self._ended_us[group] = now_us - since_us
        # A clock that was set back delays nothing.
        self._ended_us = {group: min(self._ended_us[group], now_us) for group in self._groups}
        oldest = min(self._ended_us, key=self._ended_us.__getitem__, default=CONTROLLER_GROUP)
        if self._ended_us.get(oldest, now_us) + self._limits.period_us <= now_us:
            self._waiting[oldest] = None

    def _phase_us(self, group: GroupId) -> int:
        """Where in a period the group's first scrub comes, other groups and nodes elsewhere.

        Periods are counted from 1970, so that a node which is restarted often gets there too.
        """
        place = crc32c(f"{self._node} {group}".encode())
        return place * self._limits.period_us >> 32

    def _begin_next(self) -> _Scrub | None:
        for group in self._waiting:
            local = self._groups[group]
            if not local.installing:
                break
        else:
            return None
        del self._waiting[group]
        replica, image = local.replica, local.image
        last = LogIndex(min(replica.applied_index, replica.log.durable_index))
        pieces = scrub(self._store.fs, image.folder, group, last, image.manifest)
        total_bytes = size_at_rest(image.manifest, replica.log.byte_count)
        self._running = self._last[group] = _Scrub(local, pieces, total_bytes)
        return self._running

    # ------------------------------------------------------------ reading

    def _go_on(self) -> None:
        if self._reading or self._stopped or self._allowance <= 0 or not self._disk.keeps_up:
            return
        reading = self._running or self._begin_next()
        if reading is not None:
            self._reading = True
            step = partial(next, reading.pieces, None)
            self._disk.queue_job(step, partial(self._read, reading))

    def _read(self, reading: _Scrub, piece: Piece | None) -> None:
        self._reading = False
        if reading is not self._running:
            reading.pieces.close()
        elif piece is not None:
            self._take(reading, piece)
        elif reading.local.group == CONTROLLER_GROUP:
            self._reading = True
            self._disk.queue_job(self._store.mend, partial(self._own_read, reading))
        else:
            self._end(reading)
        self._go_on()

    def _take(self, reading: _Scrub, piece: Piece) -> None:
        self._allowance -= piece.cost
        reading.read_bytes += piece.byte_count
        if piece.damage is not None:
            self._tell(reading.local, piece.damage)

    def _own_read(self, reading: _Scrub, damages: list[CorruptFile]) -> None:
        """The node's own texts were read with the controller's replica. The journal is next."""
        self._reading = False
        self._mended_all(reading.local, damages)
        self._journal_unread = True
        if reading is self._running:
            self._end(reading)
        self._go_on()

    def _abandon(self) -> None:
        reading, self._running = self._running, None
        if reading is not None and not self._reading:
            reading.pieces.close()

    def _tell(self, local: LocalReplica, damage: Damage | DamagedCopy) -> None:
        if not isinstance(damage, DamagedCopy):
            self._found(local, damage)
            return
        cause = damage.cause

        def mended(done: bool) -> None:
            if done:
                self._mended(local, cause)

        mend = partial(self._store.mend_copies, local.info)
        self._disk.queue_job(mend, mended)

    # ------------------------------------------------------------ the end of one

    def _end(self, reading: _Scrub) -> None:
        """All of the replica was read."""
        self._running = None
        local = reading.local
        self._ended_us[local.group] = self._effects.clock_us()
        self._guessed.discard(local.group)
        known = self._ended_us.keys() & self._groups.keys() - self._guessed
        times = {group: self._ended_us[group] for group in known}
        self._disk.queue_job(partial(self._store.note_scrubs, times), lambda _: None)

    def _mended_all(self, local: LocalReplica, damages: list[CorruptFile]) -> None:
        for damage in damages:
            self._mended(local, damage)

    def _read_journal(self) -> None:
        """Read the journal, once no write of it is in flight."""
        check = self._store.journal.plan_check()
        if check is not None:
            self._journal_unread = False
            self._disk.queue_job(check.run, self._journal_read)

    def _journal_read(self, damages: list[CorruptFile]) -> None:
        if damages:
            self._store.journal.rewrite()
            self._journal_changed()
            self._mended_all(self._groups[CONTROLLER_GROUP], damages)
