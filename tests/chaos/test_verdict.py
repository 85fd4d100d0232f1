"""The judge of chaos tests, shown histories that break one promise each."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest

from raftlog.chaos.history import (
    Episode,
    Fate,
    History,
    MarkRead,
    Read,
    Replica,
    Write,
    record_number,
)
from raftlog.chaos.verdict import Verdict, judge

TOPIC = "t"
NODES = (1, 2, 3)
FLOOR_PER_S = 1.0


def record(place: int, origin: int = 1) -> int:
    return record_number(origin, place)


def read(start: int, numbers: list[int], *, mark: int, node: int = 1) -> Read:
    return Read(topic=TOPIC, node=node, mark=mark, start=start, numbers=array("q", numbers))


def write(first: int, count: int, end_s: float, **other: object) -> Write:
    acknowledged = Write(
        topic=TOPIC,
        origin=1,
        first=first,
        count=count,
        begin_s=end_s - 0.1,
        end_s=end_s,
        fate=Fate.ACKNOWLEDGED,
        start=first,
        end=first + count,
    )
    return replace(acknowledged, **other)


def mark_read(begin_s: float, mark: int) -> MarkRead:
    return MarkRead(topic=TOPIC, asked="node 2", begin_s=begin_s, end_s=begin_s + 0.05, mark=mark)


def sound() -> History:
    """Ten records in ten writes, one each second, read as they came, and equal on three nodes."""
    numbers = [record(place) for place in range(10)]
    history = History(began_s=0.0, ended_s=10.0)
    history.writes = [write(place, 1, end_s=place + 0.5) for place in range(10)]
    history.marks = [mark_read(place + 0.6, place + 1) for place in range(10)]
    history.reads = [read(0, numbers[:4], mark=4), read(4, numbers[4:9], mark=9)]
    relog(history, numbers)
    return history


def relog(history: History, numbers: list[int], nodes: tuple[int, ...] = NODES) -> None:
    """Give these nodes other logs at the end."""
    logs = history.logs.setdefault(TOPIC, {})
    for node in nodes:
        logs[node] = [read(0, numbers, mark=len(numbers), node=node)]
    history.replicas[TOPIC] = [
        Replica(node=node, applied_index=12, state_hash="ab") for node in NODES
    ]


def verdict(history: History) -> Verdict:
    return judge(history, floor_per_s=FLOOR_PER_S)


def test_a_sound_history_breaks_nothing() -> None:
    found = verdict(sound())
    assert found.broken == ()
    assert found.acknowledged_records == 10
    assert found.read_records == 9
    assert (found.lost, found.duplicated, found.reordered) == (0, 0, 0)
    assert found.replicas_equal


def log_of(history: History) -> list[int]:
    return list(history.logs[TOPIC][1][0].numbers)


def lose_one(history: History) -> None:
    numbers = log_of(history)
    relog(history, [*numbers[:9], record(0, origin=2)])


def duplicate_one(history: History) -> None:
    relog(history, [*log_of(history), record(3)])


def swap_two_of_one_write(history: History) -> None:
    """As one append, whose offsets do not tell the order within it."""
    history.writes = [write(0, 10, end_s=1.0)]
    history.reads = []
    history.marks = []
    numbers = log_of(history)
    relog(history, [numbers[1], numbers[0], *numbers[2:]])


def move_one(history: History) -> None:
    """Both are there, in their origin's order, but not where the acknowledgement said."""
    history.writes[9] = replace(history.writes[9], start=3, end=4)


def leave_a_gap(history: History) -> None:
    del history.reads[0]


def gap_in_a_log(history: History) -> None:
    numbers = log_of(history)
    history.logs[TOPIC][3] = [
        read(0, numbers[:5], mark=10, node=3),
        read(6, numbers[5:], mark=11, node=3),
    ]


def end_below_the_mark(history: History) -> None:
    for node in NODES:
        history.logs[TOPIC][node] = [read(0, log_of(history), mark=11, node=node)]


def read_above_the_mark(history: History) -> None:
    history.reads[1] = replace(history.reads[1], mark=8)


def read_what_did_not_stay(history: History) -> None:
    history.reads[1].numbers[2] = record(7, origin=9)


def differ_in_content(history: History) -> None:
    relog(history, [*log_of(history)[:9], record(0, origin=5)], nodes=(3,))


def differ_in_length(history: History) -> None:
    relog(history, log_of(history)[:9], nodes=(2,))


def differ_in_state(history: History) -> None:
    history.replicas[TOPIC][2] = replace(history.replicas[TOPIC][2], state_hash="cd")


def never_catch_up(history: History) -> None:
    history.replicas[TOPIC][2] = replace(history.replicas[TOPIC][2], applied_index=11)


def stale_mark(history: History) -> None:
    """It began after record 5's acknowledgement and does not cover it."""
    history.marks = [mark_read(5.55, 5)]


def mark_that_goes_back(history: History) -> None:
    history.writes = [replace(each, end_s=9.9) for each in history.writes]
    history.marks = [mark_read(2.0, 2), mark_read(2.1, 1)]


def mark_of_the_future(history: History) -> None:
    history.marks = [mark_read(1.0, 8)]


def mark_beyond_the_log(history: History) -> None:
    history.marks = [mark_read(9.9, 11)]


def invent_one(history: History) -> None:
    relog(history, [*log_of(history), record(0, origin=8)])


def show_what_was_given_up(history: History) -> None:
    relog(history, [*log_of(history), record(0, origin=8)])
    history.writes.append(write(0, 1, end_s=9.9, origin=8, fate=Fate.NEVER))


def half_an_epoch(history: History) -> None:
    history.writes.append(write(10, 4, end_s=9.9, fate=Fate.UNKNOWN, whole=True))
    relog(history, [*log_of(history), record(10), record(11)])


def an_epoch_apart(history: History) -> None:
    history.writes.append(write(10, 2, end_s=9.9, fate=Fate.UNKNOWN, whole=True))
    history.writes.append(write(0, 1, end_s=9.9, fate=Fate.UNKNOWN, origin=2))
    relog(history, [*log_of(history), record(10), record(0, origin=2), record(11)])


def fail_a_patient_writer(history: History) -> None:
    history.writes.append(write(10, 1, end_s=9.9, fate=Fate.UNKNOWN, patient=True))


def lose_a_node(history: History) -> None:
    history.troubles.append("node 2 ended by itself")


def stall(history: History) -> None:
    history.ended_s = 20.0


@pytest.mark.parametrize(
    ("plant", "sentence"),
    [
        (lose_one, "record 1:9 was acknowledged in [9, 10) and is lost"),
        (duplicate_one, "record 1:3 is at 3 and at 10"),
        (swap_two_of_one_write, "record 1:1 is at 0, one before it at 1"),
        (move_one, "record 1:9 was acknowledged in [3, 4) and is at 9"),
        (leave_a_gap, "reading from node 1: offset 4 came, 0 was expected"),
        (gap_in_a_log, "the log of node 3: offset 6 came, 5 was expected"),
        (end_below_the_mark, "node 1 ended at 10, below its mark 11"),
        (read_above_the_mark, "node 1 gave [.., 9) at mark 8"),
        (read_what_did_not_stay, "offset 6: node 1 gave 9:7, and it holds 1:6"),
        (differ_in_content, "node 3 differs from node 1 at offset 9"),
        (differ_in_length, "node 2 differs from node 1 at offset 9"),
        (differ_in_state, "state hashes differ at index 12"),
        (never_catch_up, "the replicas have applied up to [11, 12]"),
        (stale_mark, "node 2 answered the mark 5 to a read that began when 6 was known"),
        (mark_that_goes_back, "node 2 answered the mark 1 to a read that began when 2 was known"),
        (mark_of_the_future, "node 2 answered 8 before that was written"),
        (mark_beyond_the_log, "node 2 answered 11, the log ends at 10"),
        (invent_one, "record 8:0 at 10 may not be visible"),
        (show_what_was_given_up, "record 8:0 at 10 may not be visible"),
        (half_an_epoch, "of the 4 records of an epoch from 1:10 on, 2 are visible"),
        (an_epoch_apart, "of the 2 records of an epoch from 1:10 on, 2 are visible, in [10, 13)"),
        (fail_a_patient_writer, "a write that waited 0.1 s, begun 9.8 s after the start, failed"),
        (lose_a_node, "node 2 ended by itself"),
        (stall, "0.5 records/s were acknowledged, below the floor of 1"),
    ],
)
def test_each_broken_promise_is_noticed(plant: Callable[[History], None], sentence: str) -> None:
    history = sound()
    plant(history)
    found = verdict(history)
    assert any(sentence in each for each in found.broken), found.broken


def test_what_is_lost_duplicated_and_reordered_is_counted() -> None:
    history = sound()
    lose_one(history)
    assert verdict(history).lost == 1
    history = sound()
    duplicate_one(history)
    assert verdict(history).duplicated == 1
    history = sound()
    swap_two_of_one_write(history)
    assert verdict(history).reordered == 1
    history = sound()
    differ_in_content(history)
    assert not verdict(history).replicas_equal


def test_a_topic_that_no_replica_gave_is_reported_once() -> None:
    history = sound()
    history.logs = {}
    history.troubles.append("node 1 was to give all of 't'")
    assert verdict(history).broken == ("node 1 was to give all of 't'",)


def test_a_write_of_unknown_fate_may_be_there_or_not() -> None:
    history = sound()
    history.writes.append(write(10, 1, end_s=9.9, fate=Fate.UNKNOWN))
    assert verdict(history).broken == ()
    relog(history, [*log_of(history), record(10)])
    assert verdict(history).broken == ()


def test_an_epoch_that_was_replayed_is_judged_by_its_first_try() -> None:
    history = sound()
    history.writes.append(write(10, 2, end_s=9.7, fate=Fate.UNKNOWN, whole=True))
    history.writes.append(write(10, 2, end_s=9.9, whole=True))
    history.marks.append(mark_read(9.75, 12))
    relog(history, [*log_of(history), record(10), record(11)])
    assert verdict(history).broken == ()


def test_a_gap_counts_for_the_fault_that_it_meets() -> None:
    history = sound()
    del history.writes[3:6]
    relog(history, [n for n in log_of(history) if n not in map(record, (3, 4, 5))])
    history.episodes = [
        Episode(
            number=number, kinds=kinds, text="", begin_s=at, end_s=at, healed_s=at + 1, elections=1
        )
        for number, kinds, at in ((1, ("kill",), 3.0), (2, ("cut",), 7.2), (3, ("kill", "cut"), 9))
    ]
    kill, cut = verdict(history).faults[1], verdict(history).faults[0]
    assert (kill.name, kill.count, kill.longest_gap_s) == ("kill", 2, 4.0)
    assert (cut.name, cut.count, cut.longest_gap_s) == ("cut", 2, 1.0)


def test_the_first_of_many_broken_promises_of_one_kind_are_reported_and_all_are_counted() -> None:
    history = sound()
    relog(history, [record(place, origin=7) for place in range(100)])
    history.writes.append(write(0, 100, end_s=0.1, origin=7))
    history.writes.append(write(10, 90, end_s=0.2))
    found = verdict(history)
    assert found.lost == 100
    assert "lost: 80 more" in found.broken
