"""The judge: whether a history keeps raftlog's promises. Pure; knows nothing of how it was made.

Each check turns a history into sentences, one for each way in which a promise is broken.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from raftlog.chaos.history import Episode, Fate, History, Read, Write, origin_and_ordinal

SENTENCES_MAX = 20
"""The most sentences of one check that are kept. Further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultClass:
    """What was seen around the faults of one class, in episodes without any other class."""

    name: str
    count: int
    longest_gap_s: float | None
    """The longest time without an acknowledged write in a topic. None: never the only class."""
    elections_max: int | None
    """The most terms in which any one group got a leader during one episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a chaos test showed. `broken` holds a sentence for each promise that was broken."""

    seconds: float
    acknowledged_records: int
    acknowledged_per_s: float
    floor_per_s: float
    unknown_records: int
    read_records: int
    mark_reads: int
    lost: int
    duplicated: int
    reordered: int
    replicas_equal: bool
    longest_gap_s: float
    episodes: int
    faults: tuple[FaultClass, ...]
    broken: tuple[str, ...]


def judge(history: History, *, floor_per_s: float) -> Verdict:
    """The verdict. A test with fewer acknowledged records a second than the floor has stalled."""
    case = Case.of(history)
    broken: list[str] = []
    counts: dict[str, int] = {}
    for name, check in CHECKS.items():
        sentences = list(check(case))
        counts[name] = len(sentences)
        broken += sentences[:SENTENCES_MAX]
        if len(sentences) > SENTENCES_MAX:
            broken.append(f"{name}: {len(sentences) - SENTENCES_MAX} more")
    seconds = history.ended_s - history.began_s
    acknowledged = _records(history, Fate.ACKNOWLEDGED)
    per_s = acknowledged / seconds if seconds > 0 else 0.0
    if per_s < floor_per_s:
        broken.append(
            f"{per_s:.1f} records/s were acknowledged, below the floor of {floor_per_s:g}: a test "
            "that stalls proves nothing"
        )
    return Verdict(
        seconds=seconds,
        acknowledged_records=acknowledged,
        acknowledged_per_s=per_s,
        floor_per_s=floor_per_s,
        unknown_records=_records(history, Fate.UNKNOWN),
        read_records=sum(len(read.numbers) for read in history.reads),
        mark_reads=len(history.marks),
        lost=counts["lost"],
        duplicated=counts["duplicated"],
        reordered=counts["reordered"],
        replicas_equal=counts["replicas"] == 0,
        longest_gap_s=max((end - begin for begin, end in _gaps(history)), default=seconds),
        episodes=len(history.episodes),
        faults=tuple(_fault_classes(history)),
        broken=tuple(broken),
    )


def _records(history: History, fate: Fate) -> int:
    """How many different records had this fate. A replay writes the same ones again."""
    return sum(
        {
            (write.topic, write.origin, write.first): write.count
            for write in history.writes
            if write.fate is fate
        }.values()
    )


# ---------------------------------------------------------------- what is judged

NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A history, and the offsets of its records in the topics' logs at the end.

    A topic's log is the one that its first replica gave. A separate check compares the replicas.
    """

    history: History
    logs: dict[str, array[int]]
    """By topic: the records' numbers by offset. A topic that no replica gave is missing, so nothing
    can be said about its records; the missing topic itself is reported as a trouble."""
    offsets: dict[tuple[str, int], array[int]]
    """By topic and origin: each record's offset by its ordinal, or NOWHERE."""
    second: dict[tuple[str, int], int]
    """By topic and number: a further offset of a record that is in the log more than once."""

    @classmethod
    def of(cls, history: History) -> Case:
        """Read the logs once, for all checks."""
        case = cls(history=history, logs={}, offsets={}, second={})
        for topic, replicas in history.logs.items():
            log = case.logs[topic] = _numbers(next(iter(replicas.values())))
            for offset, number in enumerate(log):
                origin, ordinal = origin_and_ordinal(number)
                offsets = case.offsets.setdefault((topic, origin), array("q"))
                if ordinal >= len(offsets):
                    offsets.extend([NOWHERE] * (ordinal + 1 - len(offsets)))
                if offsets[ordinal] == NOWHERE:
                    offsets[ordinal] = offset
                else:
                    case.second[topic, number] = offset
        return case

    def offsets_of(self, write: Write) -> array[int]:
        """The offsets of the write's records; NOWHERE for one that is not in the log."""
        found = self.offsets.get((write.topic, write.origin), _EMPTY)
        found = found[write.first : write.first + write.count]
        return found + array("q", [NOWHERE] * (write.count - len(found)))


_EMPTY = array("q")


def _numbers(reads: Sequence[Read]) -> array[int]:
    numbers = array("q")
    for read in reads:
        numbers.extend(read.numbers)
    return numbers


# ---------------------------------------------------------------- the promises


def lost(case: Case) -> Iterator[str]:
    """Every acknowledged record is in the log, within the offsets of its acknowledgement."""
    for write in case.history.writes:
        if write.fate is not Fate.ACKNOWLEDGED or write.topic not in case.logs:
            continue
        for ordinal, offset in enumerate(case.offsets_of(write), write.first):
            if not write.start <= offset < write.end:
                where = "lost" if offset == NOWHERE else f"at {offset}"
                yield (
                    f"{write.topic}: record {write.origin}:{ordinal} was acknowledged in "
                    f"[{write.start}, {write.end}) and is {where}"
                )


def duplicated(case: Case) -> Iterator[str]:
    """No record is in the log twice."""
    for (topic, number), offset in case.second.items():
        origin, ordinal = origin_and_ordinal(number)
        first = case.offsets[topic, origin][ordinal]
        yield f"{topic}: record {_name(number)} is at {first} and at {offset}"


def reordered(case: Case) -> Iterator[str]:
    """An origin's records are in the order in which it wrote them."""
    for (topic, origin), offsets in case.offsets.items():
        last = NOWHERE
        for ordinal, offset in enumerate(offsets):
            if offset == NOWHERE:
                continue
            if offset < last:
                yield f"{topic}: record {origin}:{ordinal} is at {offset}, one before it at {last}"
            last = offset


def invented(case: Case) -> Iterator[str]:
    """Every record in the log was written and is allowed to be visible."""
    may_be = {key: bytearray(len(offsets)) for key, offsets in case.offsets.items()}
    for write in case.history.writes:
        marks = may_be.get((write.topic, write.origin))
        if marks is not None and write.fate is not Fate.NEVER:
            end = min(write.first + write.count, len(marks))
            marks[write.first : end] = b"\1" * (end - write.first)
    for (topic, origin), marks in may_be.items():
        for ordinal, offset in enumerate(case.offsets[topic, origin]):
            if offset != NOWHERE and not marks[ordinal]:
                yield f"{topic}: record {origin}:{ordinal} at {offset} may not be visible"


def all_or_nothing(case: Case) -> Iterator[str]:
    """Either all of an epoch's records are visible, at consecutive offsets, or none."""
    for write in case.history.writes:
        if not write.whole or write.fate is Fate.NEVER:
            continue
        offsets = [offset for offset in case.offsets_of(write) if offset != NOWHERE]
        if offsets and (len(offsets), offsets[-1] - offsets[0]) != (write.count, write.count - 1):
            yield (
                f"{write.topic}: of the {write.count} records of an epoch from "
                f"{write.origin}:{write.first} on, {len(offsets)} are visible, "
                f"in [{offsets[0]}, {offsets[-1] + 1})"
            )


def dense(case: Case) -> Iterator[str]:
    """Every replica's log, and every read, goes from its start to its mark without a gap."""
    for topic, logs in case.history.logs.items():
        for node, reads in logs.items():
            yield from _gaps_in(f"{topic}, the log of node {node}", reads)
            end = reads[-1].start + len(reads[-1].numbers) if reads else 0
            if reads and end != reads[-1].mark:
                yield f"{topic}: node {node} ended at {end}, below its mark {reads[-1].mark}"
    by_reader: dict[tuple[str, int], list[Read]] = defaultdict(list)
    for read in case.history.reads:
        by_reader[read.topic, read.node].append(read)
    for (topic, node), reads in by_reader.items():
        yield from _gaps_in(f"{topic}, reading from node {node}", reads)


def _gaps_in(where: str, reads: Sequence[Read]) -> Iterator[str]:
    expected = 0
    for read in reads:
        if read.start != expected:
            yield f"{where}: offset {read.start} came, {expected} was expected"
        expected = read.start + len(read.numbers)


def below_the_mark(case: Case) -> Iterator[str]:
    """No reader gets a record at or above the mark."""
    logs = (reads for replicas in case.history.logs.values() for reads in replicas.values())
    for reads in (case.history.reads, *logs):
        for read in reads:
            end = read.start + len(read.numbers)
            if end > read.mark:
                yield f"{read.topic}: node {read.node} gave [.., {end}) at mark {read.mark}"


def as_it_stayed(case: Case) -> Iterator[str]:
    """The record that a reader got at an offset stays there."""
    for read in case.history.reads:
        log = case.logs.get(read.topic)
        if log is None:
            continue
        if log[read.start : read.start + len(read.numbers)] == read.numbers:
            continue
        for offset, number in enumerate(read.numbers, read.start):
            now = log[offset] if offset < len(log) else None
            if now != number:
                yield (
                    f"{read.topic}, offset {offset}: node {read.node} gave {_name(number)}, "
                    f"and it holds {_name(now) if now is not None else 'nothing'}"
                )


def replicas_equal(case: Case) -> Iterator[str]:
    """All replicas hold the same records, and the same state at the same index."""
    for topic, logs in case.history.logs.items():
        for node, reads in logs.items():
            theirs, first = _numbers(reads), case.logs[topic]
            if theirs != first:
                pairs = enumerate(zip(first, theirs, strict=False))
                at = next((i for i, (a, b) in pairs if a != b), min(len(first), len(theirs)))
                yield f"{topic}: node {node} differs from node {next(iter(logs))} at offset {at}"
    for topic, replicas in case.history.replicas.items():
        hashes: dict[int, set[str]] = defaultdict(set)
        for replica in replicas:
            hashes[replica.applied_index].add(replica.state_hash)
        if len(hashes) > 1:
            yield f"{topic}: the replicas have applied up to {sorted(hashes)}"
        for index, different in hashes.items():
            if len(different) > 1:
                yield f"{topic}: the replicas' state hashes differ at index {index}"


def marks_linearizable(case: Case) -> Iterator[str]:
    """A mark covers everything that was acknowledged, or returned as a mark, before its read began.
    It covers nothing whose write began after its read had ended."""
    begun = _begun(case.history.writes)
    for topic, log in case.logs.items():
        marks = [mark for mark in case.history.marks if mark.topic == topic]
        times, highest = _known_marks(topic, case.history)
        for mark in marks:
            before = bisect_left(times, mark.begin_s)
            if before and highest[before - 1] > mark.mark:
                yield (
                    f"{topic}: {mark.asked} answered the mark {mark.mark} to a read that began "
                    f"when {highest[before - 1]} was known"
                )
            if mark.mark > len(log):
                yield f"{topic}: {mark.asked} answered {mark.mark}, the log ends at {len(log)}"
            elif mark.mark and begun(topic, log[mark.mark - 1]) > mark.end_s:
                yield f"{topic}: {mark.asked} answered {mark.mark} before that was written"


def _known_marks(topic: str, history: History) -> tuple[list[float], list[int]]:
    """Times, and the highest offset known to be in the topic's log at each time."""
    known = [
        (write.end_s, write.end)
        for write in history.writes
        if write.topic == topic and write.fate is Fate.ACKNOWLEDGED
    ]
    known += [(mark.end_s, mark.mark) for mark in history.marks if mark.topic == topic]
    known.sort()
    return [moment for moment, _ in known], list(accumulate((end for _, end in known), max))


def _begun(writes: Sequence[Write]) -> Callable[[str, int], float]:
    """When the first try to write a record began, by topic and number; 0 if unknown."""
    firsts: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for write in writes:
        tries = firsts[write.topic, write.origin]
        tries[write.first] = min(write.begin_s, tries.get(write.first, write.begin_s))
    tables = {key: sorted(tries.items()) for key, tries in firsts.items()}

    def begun(topic: str, number: int) -> float:
        origin, ordinal = origin_and_ordinal(number)
        table = tables.get((topic, origin), [])
        at = bisect_right(table, ordinal, key=lambda each: each[0])
        return table[at - 1][1] if at else 0.0

    return begun


def patient_writes(case: Case) -> Iterator[str]:
    """A writer that waits longer than any fault lasts gets its acknowledgement."""
    for write in case.history.writes:
        if write.patient and write.fate is not Fate.ACKNOWLEDGED:
            yield (
                f"{write.topic}: a write that waited {write.end_s - write.begin_s:.1f} s, begun "
                f"{write.begin_s - case.history.began_s:.1f} s after the start, failed"
            )


def untroubled(case: Case) -> Iterable[str]:
    """Nodes end only by faults, and heal after them."""
    return case.history.troubles


Check = Callable[[Case], Iterable[str]]

CHECKS: dict[str, Check] = {
    "lost": lost,
    "duplicated": duplicated,
    "reordered": reordered,
    "invented": invented,
    "all or nothing": all_or_nothing,
    "dense": dense,
    "below the mark": below_the_mark,
    "as it stayed": as_it_stayed,
    "replicas": replicas_equal,
    "marks": marks_linearizable,
    "patient writes": patient_writes,
    "troubles": untroubled,
}


def _name(number: int) -> str:
    origin, ordinal = origin_and_ordinal(number)
    return f"{origin}:{ordinal}"


# ---------------------------------------------------------------- write gaps


def _gaps(history: History) -> Iterator[tuple[float, float]]:
    """The times between two acknowledgements in a topic. Its start and end count as such."""
    times: dict[str, list[float]] = defaultdict(list)
    for write in history.writes:
        if write.fate is Fate.ACKNOWLEDGED:
            times[write.topic].append(write.end_s)
    for each in times.values():
        yield from pairwise([history.began_s, *sorted(each), history.ended_s])


def _fault_classes(history: History) -> Iterator[FaultClass]:
    gaps = sorted(_gaps(history), key=lambda gap: gap[0] - gap[1])
    names = sorted({kind for episode in history.episodes for kind in episode.kinds})
    for name in names:
        single = [each for each in history.episodes if set(each.kinds) == {name}]
        yield FaultClass(
            name=name,
            count=sum(each.kinds.count(name) for each in history.episodes),
            longest_gap_s=max((_longest(each, gaps) for each in single), default=None),
            elections_max=max((each.elections for each in single), default=None),
        )


def _longest(episode: Episode, longest_first: Sequence[tuple[float, float]]) -> float:
    """The longest gap that overlaps the episode."""
    for begin_s, end_s in longest_first:
        if begin_s < episode.healed_s and end_s > episode.begin_s:
            return end_s - begin_s
    return 0.0
