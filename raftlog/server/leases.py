"""When a leader proposes to expire what outlived its lease.

From rules 2 on, ages are log time, which is the same on every replica. The machine keeps what can
expire in order of age, so the leader asks only for the oldest, which costs nothing. It proposes one
`Expire` with its clock, which also moves the log time of an idle topic. What one `Expire` leaves
over, a later one takes.

Under rules 1 only the leader watches, by its monotonic clock. A lease counts from when it began to
lead or first saw the thing in its present state, so a new leader starts all leases again. The order
of the log decides whether something renewed a lease first (docs/EXACTLY_ONCE.md, rules 4 and 6).
"""

from __future__ import annotations

from collections.abc import Hashable

from raftlog.config import TopicSettings
from raftlog.machines.commands import Expire, ExpireEpoch, ExpireProducer, ExpireWriter
from raftlog.machines.topic import TopicMachine

Expiry = Expire | ExpireEpoch | ExpireProducer | ExpireWriter


class LeaseWatch:
    """The leases of one topic while this node leads it."""

    def __init__(self, limits: TopicSettings) -> None:
        self._limits = limits
        self._since: dict[Hashable, float] = {}

    def restart(self) -> None:
        """This node no longer leads: forget everything."""
        self._since.clear()

    def due(self, machine: TopicMachine, *, now_s: float, now_us: int) -> list[Expiry]:
        """What to propose at monotonic time `now_s` and wall clock `now_us`. Call it regularly
        while this node leads."""
        if machine.rules < 2:
            return self._due_since_the_election(machine, now_s)
        self._since.clear()
        limits = self._limits
        expire = Expire(
            timestamp_us=now_us,
            epoch_lease_us=_microseconds(limits.epoch_lease_s),
            transient_writer_lease_us=_microseconds(limits.transient_writer_lease_s),
            producer_lease_us=_microseconds(limits.producer_lease_s),
        )
        return [expire] if machine.is_due(expire) else []

    def _due_since_the_election(self, machine: TopicMachine, now_s: float) -> list[Expiry]:
        limits = self._limits
        watched: list[tuple[Expiry, float]] = []
        for writer, run, epoch, renewals in machine.open_epochs():
            expire: Expiry = ExpireEpoch(writer=writer, run=run, epoch=epoch, renewals=renewals)
            watched.append((expire, limits.epoch_lease_s))
        for writer, index in machine.transient_writers():
            expire = ExpireWriter(writer=writer, last_index=index)
            watched.append((expire, limits.transient_writer_lease_s))
        for producer, following in machine.producers():
            expire = ExpireProducer(producer=producer, next_sequence=following)
            watched.append((expire, limits.producer_lease_s))
        # The command holds the state it was seen in, so a renewed thing is another key.
        self._since = {command: self._since.get(command, now_s) for command, _ in watched}
        return [command for command, lease_s in watched if now_s - self._since[command] >= lease_s]


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
