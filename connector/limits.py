"""How many of the records that wait one micro-batch of a stream takes. Pure logic.

Spark has no limit that is made of several, so it gets one (that there is one matters) and all of
them are applied here, when the end of a batch is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

FINENESS = 16
"""A piece of records that a limit in bytes ends in is divided in proportion to its records if it is
below this part of the limit; else its own pieces are asked for."""

Waiting = Mapping[str, tuple[int, int]]
"""The records [start, end) that wait, by topic."""

Pieces = tuple[Sequence[int], Sequence[int]]
"""Rising offsets, and the bytes between each two of them."""

SizesOf = Callable[[str, int, int], Pieces]
"""How the bytes of a topic's records [start, end) lie; at least one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a stream's micro-batches, over all of its topics; None: there is none."""

    records_max: int | None = None
    bytes_max: int | None = None
    records_min: int | None = None
    """With fewer records no batch begins before `delay_max_s` has passed since the last one."""
    delay_max_s: float = 0.0

    def without_minimum(self) -> Limits:
        """For a trigger that ends the query, which must not wait."""
        return replace(self, records_min=None)


NONE = Limits()


def due(limits: Limits, waiting: Waiting, since_last_s: float | None) -> bool:
    """Whether a batch begins now. `since_last_s` is None before the first one of a run, which does
    not wait, as with Kafka's source."""
    if limits.records_min is None or since_last_s is None:
        return True
    return _count(waiting) >= limits.records_min or since_last_s >= limits.delay_max_s


def admitted(limits: Limits, waiting: Waiting, sizes_of: SizesOf) -> Mapping[str, int]:
    """How many records each topic gives, at most all that wait and what each maximum allows.

    `sizes_of` is asked only if there is a limit in bytes, about once for each topic.
    """
    counts = {topic: end - start for topic, (start, end) in waiting.items()}
    takes = share(counts, limits.records_max)
    if limits.bytes_max is None:
        return takes
    left = {topic: (waiting[topic][0], waiting[topic][0] + takes[topic]) for topic in waiting}
    return share_bytes(left, limits.bytes_max, sizes_of)


def share(counts: Mapping[str, int], records_max: int | None) -> dict[str, int]:
    """How many records each topic gives: all, or exactly `records_max` in proportion."""
    total = sum(counts.values())
    if records_max is None or total <= records_max:
        return dict(counts)
    takes = {topic: count * records_max // total for topic, count in counts.items()}
    missing = records_max - sum(takes.values())
    for topic in sorted(counts, key=lambda name: (takes[name] - counts[name], name)):
        more = min(missing, counts[topic] - takes[topic], 1)
        takes[topic] += more
        missing -= more
    assert sum(takes.values()) == records_max, f"{takes} is not {records_max} in all"
    return takes


def share_bytes(waiting: Waiting, bytes_max: int, sizes_of: SizesOf) -> dict[str, int]:
    """How many records each topic gives: all, or about `bytes_max` in proportion to its bytes.

    A topic's share ends with the record that reaches it, so each topic that has records gives one.
    """
    assert bytes_max >= 1
    pieces = {
        topic: sizes_of(topic, start, end) for topic, (start, end) in waiting.items() if start < end
    }
    own = {topic: sum(body_bytes) for topic, (_, body_bytes) in pieces.items()}
    total = sum(own.values())
    if total <= bytes_max:
        return {topic: end - start for topic, (start, end) in waiting.items()}
    takes = dict.fromkeys(waiting, 0)
    for topic, found in pieces.items():
        wanted_bytes = bytes_max * own[topic] // total
        end = _reach(found, wanted_bytes, lambda *bounds, name=topic: sizes_of(name, *bounds))
        takes[topic] = end - waiting[topic][0]
        assert 1 <= takes[topic] <= waiting[topic][1] - waiting[topic][0], (topic, takes)
    return takes


def _reach(pieces: Pieces, wanted_bytes: int, sizes_of: Callable[[int, int], Pieces]) -> int:
    """The offset after the record with which `wanted_bytes` are reached, in a range that has them.

    The piece that they end in is divided by asking for its own pieces, as long as it is large and
    has any.
    """
    coarse = max(1, wanted_bytes // FINENESS)
    while True:
        start, end, before, size = _crossed(pieces, wanted_bytes)
        wanted_bytes -= before
        if size <= coarse or end - start == 1 or len(pieces[1]) == 1:
            break
        pieces = sizes_of(start, end)
    if size == 0:
        return end
    return start + min(max(1, -(-wanted_bytes * (end - start) // size)), end - start)


def _crossed(pieces: Pieces, wanted_bytes: int) -> tuple[int, int, int, int]:
    """(start, end, bytes before it, its bytes) of the piece within which the bytes are reached."""
    offsets, body_bytes = pieces
    assert len(offsets) == len(body_bytes) + 1, (len(offsets), len(body_bytes))
    before = 0
    for (start, end), size in zip(pairwise(offsets), body_bytes, strict=True):
        if before + size >= wanted_bytes:
            return start, end, before, size
        before += size
    return offsets[-2], offsets[-1], before - body_bytes[-1], body_bytes[-1]


def _count(waiting: Waiting) -> int:
    return sum(end - start for start, end in waiting.values())
