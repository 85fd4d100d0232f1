"""When a topic's oldest records go because of its settings: its leader's duty.

The leader decides from its replica, and proposes a `Trim`; the log decides. So replicas agree
although each leader looks at its own files. By age only goes what a majority's clocks confirm; by
how much they were set forward since it was written does not count.

Never is less kept than the settings say, and hardly more: whole batches go as they are stored (an
extent of the log, or a row group of a history file), and parts of one once they are enough records.

If the settings say what is kept of records that a reader group has not read, the positions of the
groups are read first, which takes a while, and the leader decides after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from raftlog.comparison import Trust
from raftlog.core.membership import Membership
from raftlog.core.ready import Role
from raftlog.core.types import Offset, Payload
from raftlog.errors import CorruptFile, Overloaded, ResourceShortage
from raftlog.machines.commands import Trim
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.settings import (
    RETENTION_BYTES,
    RETENTION_RECORDS,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
    TopicSetting,
    value_of,
    waits_for_readers,
)
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.effects import Effects, RetentionFailed
from raftlog.multiraft.local_replica import HeldBack, LocalReplica
from raftlog.multiraft.unread import first_unread

_PORTIONS = 64
"""Less than this part of a topic goes only in whole stored batches. It bounds how many trims a
topic that is written slowly logs, and how much longer than its settings say it keeps a record: its
last row group may hold years."""

ConfirmedClock = Callable[[Membership], int | None]
"""The time in microseconds since 1970 UTC that a quorum confirms; None: unknown."""


class _Due(NamedTuple):
    """A topic from which records may go."""

    local: LocalReplica
    kept: Offset
    """The first record that its settings keep, read or not."""
    now_us: int | None


class Retention:
    """The retention of the topics that a node leads; which these are, is asked each time."""

    def __init__(
        self,
        *,
        groups: Callable[[], Iterable[LocalReplica]],
        clock: ConfirmedClock,
        propose: Callable[[LocalReplica, Payload], None],
        effects: Effects,
        damaged: Callable[[LocalReplica, CorruptFile], None],
    ) -> None:
        """`propose` raises `Overloaded` and `ResourceShortage`."""
        self._groups = groups
        self._clock = clock
        self._propose = propose
        self._effects = effects
        self._damaged = damaged
        self._reading = False
        """Positions are being read."""

    def look(self) -> None:
        """Propose the trims that are due; those that wait for readers once positions are read."""
        wait = False
        for due in self._due():
            if waits_for_readers(due.local.topic_machine.settings):
                wait = True
                continue
            due.local.held_back = None
            if not self._trim(due.local, due.kept):
                return
        if wait and not self._reading:
            self._reading = True
            self._effects.read_positions(self._positions_read)

    def _positions_read(self, positions: Sequence[KeyValue] | None) -> None:
        self._reading = False
        for due in self._due():
            if not waits_for_readers(due.local.topic_machine.settings):
                continue
            try:
                offset = self._kept_for_readers(due, positions)
            except CorruptFile as error:
                self._tell_damage(due.local, error)
                continue
            except ResourceShortage:
                continue  # the next look reads it
            if not self._trim(due.local, offset):
                return

    def _due(self) -> Iterator[_Due]:
        """The topics led here of which the settings do not keep all, read or not."""
        for local in self._groups():
            if not isinstance(local.machine, TopicMachine):
                continue
            due = self._due_in(local, local.machine)
            if due is None:
                local.held_back = None
            else:
                yield due

    def _due_in(self, local: LocalReplica, machine: TopicMachine) -> _Due | None:
        replica = local.replica
        if not machine.settings or local.raft.role is not Role.LEADER or replica.diverged:
            return None
        if replica.states.trust is not Trust.TRUSTED:
            return None
        now_us = self._clock(local.raft.membership)
        if now_us is not None:
            local.clock_steps.note(now_us, self._effects.boottime_us())
        try:
            kept = first_kept(local, machine.settings, now_us)
        except CorruptFile as error:
            self._tell_damage(local, error)
            return None
        except ResourceShortage:
            return None  # the next look reads it
        return _Due(local, kept, now_us) if kept > machine.log_start_offset else None

    def _kept_for_readers(self, due: _Due, positions: Sequence[KeyValue] | None) -> Offset:
        """The first record that is kept, also because a group has not read it. Raises
        `CorruptFile`."""
        machine = due.local.topic_machine
        due.local.held_back = None
        unread = first_unread(positions, machine.info, machine.high_water_mark)
        if unread.start >= due.kept:
            return due.kept
        offset = max(unread.start, first_kept_unread(due.local, machine.settings, due.now_us))
        if offset >= due.kept:
            return due.kept
        due.local.held_back = HeldBack(kept=due.kept, group=unread.group)
        return _whole_batches(due.local, max(offset, machine.log_start_offset))

    def _trim(self, local: LocalReplica, offset: Offset) -> bool:
        """Propose it, if it removes anything. Returns whether there is room for others."""
        if offset > local.topic_machine.log_start_offset:
            try:
                self._propose(local, local.payload(Trim(offset=offset)))
            except (Overloaded, ResourceShortage):
                return False  # writes go first; it is tried again
        return True

    def _tell_damage(self, local: LocalReplica, error: CorruptFile) -> None:
        """What cannot be read has no age. It stays, and so does what is above it."""
        topic = local.topic_machine.info
        event = RetentionFailed(group=local.group, topic=topic, cause=error.cause)
        self._effects.tell(event)
        self._damaged(local, error)


def first_kept(local: LocalReplica, settings: Iterable[TopicSetting], now_us: int | None) -> Offset:
    """The first record that the settings keep, or a few before it; the high-water mark if they keep
    none. Without a confirmed time `now_us` nothing goes by age. Raises `CorruptFile`."""
    given = tuple(settings)
    machine = local.topic_machine
    offset = _beyond(local, value_of(given, RETENTION_S), value_of(given, RETENTION_BYTES), now_us)
    if records := value_of(given, RETENTION_RECORDS):
        offset = max(offset, Offset(machine.high_water_mark - records))
    return _whole_batches(local, offset)


def first_kept_unread(
    local: LocalReplica, settings: Iterable[TopicSetting], now_us: int | None
) -> Offset:
    """The first record that the settings keep if a reader group has not read it; the rest as for
    `first_kept`."""
    given = tuple(settings)
    return _beyond(
        local, value_of(given, RETENTION_UNREAD_S), value_of(given, RETENTION_UNREAD_BYTES), now_us
    )


def _beyond(local: LocalReplica, age_s: int, byte_count: int, now_us: int | None) -> Offset:
    """The first record that is neither too old nor has so many bytes behind it; 0: no limit."""
    machine = local.topic_machine
    offset = machine.log_start_offset
    if byte_count:
        offset = max(offset, machine.offset_before_last(byte_count))
    if age_s and now_us is not None:
        age_us = age_s * 1_000_000
        set_us = local.clock_steps.within_us(age_us)
        offset = max(offset, _first_at(local, now_us - set_us - age_us))
    return offset


def _whole_batches(local: LocalReplica, offset: Offset) -> Offset:
    """The offset, or the beginning of its batch if what is below it is little."""
    machine = local.topic_machine
    start, mark = machine.log_start_offset, machine.high_water_mark
    if start < offset < mark and (offset - start) * _PORTIONS < mark - start:
        return max(start, local.batch_at(offset).start)
    return offset


def _first_at(local: LocalReplica, timestamp_us: int) -> Offset:
    """The first record of this time or later. Most of the time it is the first of all, which one
    look tells."""
    machine = local.topic_machine
    start = machine.log_start_offset
    if start == machine.high_water_mark or local.timestamp_at(start) >= timestamp_us:
        return start
    return local.offset_at(timestamp_us)
