"""When a leader proposes to expire what outlived its lease.

Ages are log time, which is the same on every replica. The machine keeps what can expire in order of
age, so the leader asks only for the oldest, which costs nothing. It proposes one `Expire` with its
clock, which also moves the log time of an idle topic. What one `Expire` leaves over, a later one
takes (docs/EXACTLY_ONCE.md, rules 4 and 6).
"""

from __future__ import annotations

from raftlog.config import TopicSettings
from raftlog.machines.commands import Expire
from raftlog.machines.topic import TopicMachine


def expiry_due(machine: TopicMachine, leases: TopicSettings, now_us: int) -> Expire | None:
    """What to propose at wall clock `now_us`, microseconds since 1970 UTC; None: nothing is due."""
    expire = Expire(
        timestamp_us=now_us,
        epoch_lease_us=_microseconds(leases.epoch_lease_s),
        transient_writer_lease_us=_microseconds(leases.transient_writer_lease_s),
        producer_lease_us=_microseconds(leases.producer_lease_s),
    )
    return expire if machine.is_due(expire) else None


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
