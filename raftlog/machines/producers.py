"""Plain producers: each append takes effect once, in order of sequence (idempotent receiver).

A resend of a remembered append is answered with the offsets it got; a gap is refused. A forgotten
producer is refused too: whether its last append is in the log is not known any more.

Sequence 0 of an unknown producer starts it: every producer has an id of its own. A producer is
forgotten when it was silent for its lease. When there are too many, the owner with the most loses
its longest silent one, which may be seconds after its append. So the names forgotten last are kept,
as many as there may be producers, and a late sequence 0 under one of them starts nothing.
"""

from __future__ import annotations

from array import array

from raftlog.core.types import Offset
from raftlog.machines.ages import ByAge, Ended, Forgotten, LogClock, Shares
from raftlog.machines.columns import pack, unpack
from raftlog.machines.commands import Append
from raftlog.machines.digest import StateDigest
from raftlog.machines.limits import (
    APPEND_BYTES,
    PRODUCER_APPENDS_KEPT,
    PRODUCER_BYTES,
    TopicLimits,
)
from raftlog.machines.outcomes import Appended, Refused, refused
from raftlog.machines.state import ProducersState

_ROW = 3
"""Numbers kept per append: start, end, CRC."""


class _Producer:
    """The next sequence due, and the last appends, oldest first, packed as start, end, CRC."""

    __slots__ = ("next_sequence", "recent")

    def __init__(self) -> None:
        self.next_sequence = 0
        self.recent = array("q")


class ProducerTable:
    """The producers of one topic, bounded by `limits`. `clock` is the machine's."""

    __slots__ = ("_by_age", "_clock", "_forgotten", "_limits", "_producers", "_shares")

    def __init__(self, *, limits: TopicLimits, clock: LogClock) -> None:
        self._clock = clock
        self._limits = limits
        self._by_age: ByAge[str] = ByAge()
        """By their last append."""
        self._shares: Shares[str] = Shares()
        """By the principal that appended last."""
        self._forgotten = Forgotten(limits.producers_max)
        self._producers: dict[str, _Producer] = {}

    def restore(self, state: ProducersState) -> None:
        """Fill the empty table with a state."""
        assert not self._producers
        appends, position = unpack(state.appends), 0
        columns = zip(
            state.names, unpack(state.next_sequences), unpack(state.append_counts), strict=True
        )
        for name, next_sequence, count in columns:
            producer = self._producers[name] = _Producer()
            producer.next_sequence = next_sequence
            producer.recent = appends[position : position + _ROW * count]
            position += _ROW * count
        assert position == len(appends)
        self._by_age.restore(state.names, state.ages)
        owners = dict(zip(state.names, state.owners, strict=True))
        for name in self._by_age:
            self._count(name, owners[name])
        self._forgotten = Forgotten(self._limits.producers_max, state.forgotten)

    def state(self) -> ProducersState:
        """The table's state."""
        rows = self._producers.values()
        appends = array("q")
        for row in rows:
            appends.extend(row.recent)
        return ProducersState(
            names=tuple(self._producers),
            owners=tuple(map(self._shares.owner, self._producers)),
            next_sequences=pack(array("q", [row.next_sequence for row in rows])),
            append_counts=pack(array("q", [len(row.recent) // _ROW for row in rows])),
            appends=pack(appends),
            ages=self._by_age.state(self._producers),
            forgotten=self._forgotten.names(),
        )

    def judge(self, producer: str, sequence: int, crc: int) -> Appended | Refused | None:
        """The answer to this append without recording it; None if it is due: then `record` it.

        Changes nothing. `sequence` counts from 0, `crc` is the batch's CRC.
        """
        known = self._producers.get(producer)
        if known is None:
            if sequence > 0 or producer in self._forgotten:
                return refused("UnknownProducer", producer=producer, sequence=sequence)
            return None
        due = known.next_sequence
        if sequence == due:
            return None
        if sequence > due:
            return refused("SequenceGap", producer=producer, sequence=sequence, expected=due)
        back = _ROW * (due - sequence)
        if back > len(known.recent):
            return Appended(start=Offset(-1), end=Offset(-1), repeated=True)
        row = len(known.recent) - back
        start, end, known_crc = known.recent[row : row + _ROW]
        if known_crc != crc:
            return refused("SequenceReused", producer=producer, sequence=sequence)
        return Appended(start=Offset(start), end=Offset(end), repeated=True)

    def record(self, command: Append, start: Offset, end: Offset) -> None:
        """Record that the due append is at [start, end)."""
        producer = command.producer
        known = self._producers.get(producer)
        if known is None:
            known = self._producers[producer] = _Producer()
        assert command.sequence == known.next_sequence, "only the append that is due is recorded"
        known.next_sequence += 1
        recent = known.recent
        recent.extend((start, end, command.batch.crc))
        if len(recent) > _ROW * PRODUCER_APPENDS_KEPT:
            del recent[:_ROW]
        self._by_age.touch(producer, self._clock.now_us)
        self._count(producer, command.owner)
        limits = self._limits
        while (
            first := self._shares.first_to_go(limits.producers_max, limits.producer_bytes_max)
        ) is not None:
            self._forget(first)

    def _count(self, producer: str, owner: str) -> None:
        appends = len(self._producers[producer].recent) // _ROW
        texts = len((producer + owner).encode())
        self._shares.touch(producer, owner, PRODUCER_BYTES + texts + appends * APPEND_BYTES)

    def expire_by_age(self, lease_us: int, now_us: int, count_max: int) -> Ended:
        """Forget at most `count_max` producers that were silent for the lease, oldest first."""
        number = newest_us = 0
        for producer, active_us in self._by_age.silent_since(now_us - lease_us):
            if number == count_max:
                break
            number, newest_us = number + 1, active_us
            self._forget(producer)
        return Ended(number, newest_us)

    def _forget(self, producer: str) -> None:
        del self._producers[producer]
        self._by_age.drop(producer)
        self._shares.drop(producer)
        self._forgotten.add(producer)

    def oldest_us(self) -> int | None:
        """Log time of the longest silent producer's last append; None without a producer."""
        return self._by_age.oldest_us()

    def digest_into(self, digest: StateDigest) -> None:
        """Write every producer into `digest`, by name and by age."""
        digest.number(len(self._producers))
        for name in sorted(self._producers):
            known = self._producers[name]
            digest.text(name)
            digest.number(known.next_sequence)
            digest.column(known.recent)
        for name, active_us in self._by_age.items():
            digest.text(name)
            digest.text(self._shares.owner(name))
            digest.number(active_us)
        self._forgotten.digest_into(digest)
