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
from raftlog.multiraft.clocks import ClockSteps


def expiry_due(
    machine: TopicMachine, leases: TopicSettings, now_us: int, steps: ClockSteps
) -> Expire | None:
    """What to propose at wall clock `now_us`, microseconds since 1970 UTC; None: nothing is due.
    Leases last longer by how much the clock was set forward meanwhile, as `steps` says."""

    def lease_us(seconds: float) -> int:
        lease = round(seconds * 1_000_000)
        return lease + steps.within_us(lease)

    expire = Expire(
        timestamp_us=now_us,
        epoch_lease_us=lease_us(leases.epoch_lease_s),
        transient_writer_lease_us=lease_us(leases.transient_writer_lease_s),
        producer_lease_us=lease_us(leases.producer_lease_s),
    )
    return expire if machine.is_due(expire) else None
