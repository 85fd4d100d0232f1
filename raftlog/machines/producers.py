"""Plain producers: each append once, in the order of its sequence numbers (idempotent receiver).

A resend of a remembered append is answered with the offsets it got; a gap is refused. A producer
that expired is refused too, because whether its last append is in the log cannot be told any
more. (Sequence 0 of an unknown producer starts it: a producer's id is minted anew for each one,
and a resend comes seconds after the first try, an expiry a day later.)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from raftlog.core.types import Offset
from raftlog.machines.digest import StateDigest
from raftlog.machines.limits import PRODUCER_APPENDS_KEPT
from raftlog.machines.outcomes import Appended, Refused, refused

_ROW = 3
"""Numbers kept per append: start, end, CRC."""


class _Producer:
    """The next sequence due, and the last appends, oldest first, packed as start, end, CRC."""

    __slots__ = ("next_sequence", "recent")

    def __init__(self) -> None:
        self.next_sequence = 0
        self.recent = array("q")


class ProducerTable:
    """The producers of one topic, at most `producers_max` of them."""

    __slots__ = ("_producers", "_producers_max", "_topic")

    def __init__(self, *, topic: str, producers_max: int) -> None:
        self._topic = f"Topic {topic!r}"
        self._producers_max = producers_max
        self._producers: dict[str, _Producer] = {}

    def judge(self, producer: str, sequence: int, crc: int) -> Appended | Refused | None:
        """What is to be said about this append; None: it is due, `record` it. Changes nothing."""
        known = self._producers.get(producer)
        if known is None:
            if sequence > 0:
                return refused("UnknownProducer", producer=producer, sequence=sequence)
            if len(self._producers) >= self._producers_max:
                return refused(
                    "TooMany", what=self._topic, limit=self._producers_max, unit="producers"
                )
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

    def record(self, producer: str, sequence: int, start: Offset, end: Offset, crc: int) -> None:
        """Note that the due append lies at [start, end)."""
        known = self._producers.get(producer)
        if known is None:
            known = self._producers[producer] = _Producer()
        assert sequence == known.next_sequence, "only the append that is due is recorded"
        known.next_sequence += 1
        recent = known.recent
        recent.extend((start, end, crc))
        if len(recent) > _ROW * PRODUCER_APPENDS_KEPT:
            del recent[:_ROW]

    def expire(self, producer: str, next_sequence: int) -> bool:
        """Forget the producer if it stands at `next_sequence`; whether it was forgotten."""
        known = self._producers.get(producer)
        if known is None or known.next_sequence != next_sequence:
            return False
        del self._producers[producer]
        return True

    def rows(self) -> Iterator[tuple[str, int]]:
        """Each producer and the sequence due of it, in order of first append."""
        return ((name, known.next_sequence) for name, known in self._producers.items())

    def digest_into(self, digest: StateDigest) -> None:
        """Write every producer into `digest`, by name."""
        digest.number(len(self._producers))
        for name in sorted(self._producers):
            known = self._producers[name]
            digest.text(name)
            digest.number(known.next_sequence)
            digest.column(known.recent)
