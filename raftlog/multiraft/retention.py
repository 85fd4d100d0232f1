"""When a topic's oldest records go because of its settings: its leader's duty.

The leader decides from its replica, and proposes a `Trim`; the log decides. So replicas agree
although each leader looks at its own files. By age only goes what a majority's clocks confirm.

Never is less kept than the settings say, and hardly more: whole batches go as they are stored (an
extent of the log, or a row group of a history file), and parts of one once they are enough records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftlog.comparison import Trust
from raftlog.core.membership import Membership
from raftlog.core.ready import Role
from raftlog.core.types import Offset, Payload
from raftlog.errors import CorruptFile, DiskFull, Overloaded
from raftlog.machines.commands import Trim
from raftlog.machines.settings import (
    RETENTION_BYTES,
    RETENTION_RECORDS,
    RETENTION_S,
    TopicSetting,
    value_of,
)
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.effects import Effects, RetentionFailed
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.wire.codec import encode_command

_PORTIONS = 64
"""Less than this part of a topic goes only in whole stored batches. It bounds how many trims a
topic that is written slowly logs, and how much longer than its settings say it keeps a record: its
last row group may hold years."""

ConfirmedClock = Callable[[Membership], int | None]
"""The time in microseconds since 1970 UTC that a quorum confirms; None: unknown."""


def trim_expired(
    groups: Iterable[LocalReplica],
    clock: ConfirmedClock,
    propose: Callable[[LocalReplica, Payload], None],
    effects: Effects,
    damaged: Callable[[LocalReplica, CorruptFile], None],
) -> None:
    """Propose the trims that are due in those of the groups that this node leads."""
    for local in groups:
        machine = local.machine
        if not isinstance(machine, TopicMachine) or not machine.settings:
            continue
        replica = local.replica
        if local.raft.role is not Role.LEADER or replica.diverged:
            continue
        if replica.states.trust is not Trust.TRUSTED:
            continue
        try:
            offset = first_kept(local, machine.settings, clock(local.raft.membership))
            if offset > machine.log_start_offset:
                propose(local, Payload(encode_command(Trim(offset=offset), None), b""))
        except CorruptFile as error:
            # What cannot be read has no age. It stays, and so does what is above it.
            effects.tell(RetentionFailed(group=local.group, topic=machine.info, cause=error.cause))
            damaged(local, error)
        except (Overloaded, DiskFull):
            return  # writes go first; it is tried again


def first_kept(local: LocalReplica, settings: Iterable[TopicSetting], now_us: int | None) -> Offset:
    """The first record that the settings keep, or a few before it; the high-water mark if they keep
    none. Without a confirmed time `now_us` nothing goes by age. Raises `CorruptFile`.

    What else must keep records, such as readers that have not read them yet, has its place here:
    as a lowest offset that no setting goes beyond.
    """
    given = tuple(settings)
    machine = local.topic_machine
    start, mark = machine.log_start_offset, machine.high_water_mark
    offset = start
    if records := value_of(given, RETENTION_RECORDS):
        offset = max(offset, Offset(mark - records))
    if byte_count := value_of(given, RETENTION_BYTES):
        offset = max(offset, machine.offset_before_last(byte_count))
    if (age_s := value_of(given, RETENTION_S)) and now_us is not None:
        offset = max(offset, _first_at(local, now_us - age_s * 1_000_000))
    if start < offset < mark and (offset - start) * _PORTIONS < mark - start:
        offset = max(start, local.batch_at(offset).start)
    return offset


def _first_at(local: LocalReplica, timestamp_us: int) -> Offset:
    """The first record of this time or later. Most of the time it is the first of all, which one
    look tells."""
    machine = local.topic_machine
    start = machine.log_start_offset
    if start == machine.high_water_mark or local.timestamp_at(start) >= timestamp_us:
        return start
    return local.offset_at(timestamp_us)
