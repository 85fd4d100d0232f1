"""Which open epochs, silent producers and transient writers have lived past their lease.

Only the leader watches, by its monotonic clock, and only from when it began to lead or first saw
the thing in its present state: a new leader starts all leases anew, so a lease is never shorter
than asked. What ran out is proposed as an `Expire` entry; log order then decides whether something
renewed it first (docs/ARCHITECTURE.md, "Exactly once", rules 4 and 6).
"""

from __future__ import annotations

from collections.abc import Hashable

from raftlog.config import TopicSettings
from raftlog.machines.commands import ExpireEpoch, ExpireProducer, ExpireWriter
from raftlog.machines.topic import TopicMachine

Expiry = ExpireEpoch | ExpireProducer | ExpireWriter


class LeaseWatch:
    """The leases of one topic while this node leads it."""

    def __init__(self, limits: TopicSettings) -> None:
        self._limits = limits
        self._since: dict[Hashable, float] = {}

    def restart(self) -> None:
        """This node leads no more: forget all."""
        self._since.clear()

    def due(self, machine: TopicMachine, now_s: float) -> list[Expiry]:
        """What ran out at monotonic time `now_s`. Call it every so often while leading."""
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
