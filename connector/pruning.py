"""What a read leaves out by its predicate: first whole ranges, then stored batches in them.

The offsets and timestamps that a predicate allows narrow a range, and nodes say which of the
batches that are left can have a record that matches, by their statistics. Tasks then read only
these. Everything is decided on the driver, when tasks are planned.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX
from raftlog.predicates.intervals import interval
from raftlog.predicates.outcomes import Statistics, outcomes
from raftlog.predicates.predicate import Column, Predicate, Value, bound_to, columns_of
from raftlog.spark.column_names import matched
from raftlog.spark.metadata_columns import METADATA_NAMES
from raftlog.spark.offsets import TopicRange

if TYPE_CHECKING:
    from raftlog import RangeSizes, TopicInfo

PIECES_MAX = 10_000
"""Pieces of a range that are kept apart, after which the rest is read whole. No setting: it bounds
what a plan holds."""

GAP_BYTES_MIN = 64 * 1024
"""Fewer bytes between two matches are read with them: another request costs more. No setting: it
is about the same on any network."""

LOG_INTERVAL_S = 10.0
"""How often a stream says at most what it skipped. No setting: its sums lose nothing."""

LOGGER = "raftlog.spark.pruning"

log = logging.getLogger(LOGGER)
log.setLevel(logging.INFO)


class Match(NamedTuple):
    """Records [start, end) among which some may match, and their stored bytes."""

    start: int
    end: int
    body_bytes: int


Ask = Callable[[int, int, Predicate], "RangeSizes"]
"""How the bytes of [start, end) lie, and where the predicate matches."""


def check_columns(where: Predicate, names: Sequence[str], option: str) -> None:
    """Check that a query reads every column of its predicate. Raises `InvalidOption`."""
    missing = sorted(map(str, columns_of(where) - set(names)))
    if missing:
        raise InvalidOption(
            option=option,
            problem=f"tests {', '.join(missing)}, which the query does not read",
            advice="Leave it to raftlog.spark.read and read_stream, which set it.",
        )


def of_topic(where: Predicate, names: Sequence[str], topic: TopicInfo) -> Predicate:
    """The predicate with the topic's names for the query's. What the topic lacks is null."""
    known = [*METADATA_NAMES, *(field.name for field in topic.schema.fields)]
    meant = dict(zip(names, matched(names, known), strict=True))
    columns: dict[Column, Column] = {given: name for given, name in meant.items() if name in known}
    return bound_to(where, columns)


def narrowed(where: Predicate, wanted: TopicRange, find: Callable[[int], int]) -> TopicRange | None:
    """The part of a range that has the topic, the offsets and the timestamps that the predicate
    allows; None if there is none. `find` gives the first offset of a time or later."""
    if not outcomes(where, _known_of(wanted)).true:
        return None
    offsets, times = interval(where, "_offset"), interval(where, "_timestamp")
    if times.empty or (times.low is not None and times.low > INTEGER_MAX):
        return None
    start, end = wanted.start, wanted.end
    if offsets.low is not None:
        start = max(start, offsets.low)
    if offsets.high is not None:
        end = min(end, offsets.high + 1)
    if start < end and times.low is not None:
        start = max(start, find(max(-INTEGER_MAX, times.low)))
    if start < end and times.high is not None and times.high < INTEGER_MAX:
        end = min(end, find(max(-INTEGER_MAX, times.high + 1)))
    return dataclasses.replace(wanted, start=start, end=end) if start < end else None


def holds_everywhere(where: Predicate, wanted: TopicRange) -> bool:
    """Whether the predicate is true for every record of a range, as far as topic and offsets
    tell."""
    found = outcomes(where, _known_of(wanted))
    return not (found.false or found.null)


def _known_of(wanted: TopicRange) -> Callable[[Column], Statistics | None]:
    count = wanted.end - wanted.start
    known: dict[Column, tuple[Value, Value]] = {
        "_topic": (wanted.topic, wanted.topic),
        "_offset": (wanted.start, wanted.end - 1),
    }

    def statistics(column: Column) -> Statistics | None:
        if column not in known:
            return None
        low, high = known[column]
        return Statistics(record_count=count, null_count=0, minimum=low, maximum=high)

    return statistics


def matches(where: Predicate, wanted: TopicRange, ask: Ask) -> list[Match]:
    """The parts of a range whose records may match, in order; gaps between them are not small."""
    found: list[Match] = []
    gap_bytes = 0
    for start, end, size, matching in _pieces(where, wanted, ask):
        if not matching:
            gap_bytes += size
            continue
        if found and (found[-1].end < start and gap_bytes < GAP_BYTES_MIN):
            found[-1] = Match(found[-1].start, end, found[-1].body_bytes + gap_bytes + size)
        else:
            found.append(Match(start, end, size))
        gap_bytes = 0
        if len(found) == PIECES_MAX:
            found.append(Match(end, wanted.end, 0))
            break
    return [each for each in found if each.start < each.end]


def _pieces(where: Predicate, wanted: TopicRange, ask: Ask) -> Iterator[tuple[int, int, int, bool]]:
    """(start, end, bytes, whether some record may match), page by page."""
    begin = wanted.start
    while begin < wanted.end:
        sizes = ask(begin, wanted.end, where)
        assert sizes.offsets[-1] > begin, f"{sizes} makes no progress from {begin}"
        starts, ends = sizes.offsets[:-1], sizes.offsets[1:]
        yield from zip(starts, ends, sizes.body_bytes, sizes.matches, strict=True)
        begin = sizes.offsets[-1]


class SkipLog:
    """Says what a reader skipped, at most every `LOG_INTERVAL_S`."""

    def __init__(self) -> None:
        self._skipped = 0
        self._records = 0
        self._topics: dict[str, None] = {}
        self._said_s = float("-inf")

    def add(self, topic: str, *, records: int, read: int) -> None:
        """Of so many records of a topic, these are read."""
        self._records += records
        self._skipped += records - read
        self._topics[topic] = None

    def tell(self) -> None:
        """Log what was added since the last line, unless that was a moment ago."""
        now_s = time.monotonic()
        if not self._records or now_s - self._said_s < LOG_INTERVAL_S:
            return
        log.info(
            "Filters skip %s of %s records of %s",
            f"{self._skipped:,}",
            f"{self._records:,}",
            ", ".join(sorted(self._topics)),
        )
        self._skipped = self._records = 0
        self._topics.clear()
        self._said_s = now_s
