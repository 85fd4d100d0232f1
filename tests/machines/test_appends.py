"""Plain producers, and where their records lie: dense offsets, timestamps, extents, splits."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.byte_index import JoinedIndex
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    BatchSummary,
    TopicCommand,
)
from raftlog.machines.extents import NO_EPOCH, Extent
from raftlog.machines.limits import INTEGER_MAX, PRODUCER_APPENDS_KEPT
from raftlog.machines.outcomes import Appended, EpochCommitted, Refused
from tests.machines.scenes import Scene, batch, code, ended, expire, key


def appended(start: int, end: int, *, repeated: bool = False) -> Appended:
    return Appended(start=Offset(start), end=Offset(end), repeated=repeated)


# ---------------------------------------------------------------- producers


def test_resend_of_an_append_is_answered_with_the_offsets_it_got() -> None:
    """CHECKLIST row 26: a retry over a failover gives one entry's records and one offset."""
    scene = Scene()
    batches = [scene.new_batch(records) for records in (3, 4, 5)]
    for sequence, data in enumerate(batches):
        scene.append(sequence, data)
    assert scene.append(1, batches[1]) == appended(3, 7, repeated=True)
    assert scene.append(2, batches[2]) == appended(7, 12, repeated=True)
    assert scene.visible() == [(1, 3), (2, 4), (3, 5)]


def test_resend_beyond_what_is_remembered_is_still_no_second_append() -> None:
    scene = Scene()
    batches = [scene.new_batch(1) for _ in range(PRODUCER_APPENDS_KEPT + 1)]
    for sequence, data in enumerate(batches):
        scene.append(sequence, data)
    assert scene.append(0, batches[0]) == appended(-1, -1, repeated=True)
    assert scene.append(1, batches[1]) == appended(1, 2, repeated=True)
    assert scene.machine.high_water_mark == len(batches)


def test_other_records_under_a_taken_sequence_are_refused() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch())
    refusal = scene.append(0, scene.new_batch())
    assert refusal.code == "SequenceReused"
    assert dict(refusal.values) == {"producer": "p", "sequence": 0}


def test_gap_in_a_producers_sequence_is_refused_with_the_sequence_due() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch())
    refusal = scene.append(2, scene.new_batch())
    assert refusal.code == "SequenceGap"
    assert dict(refusal.values) == {"producer": "p", "sequence": 2, "expected": 1}


def test_expired_producer_is_unknown_never_a_fresh_start() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(), now_us=10)
    scene.append(1, scene.new_batch(), now_us=11)
    assert not scene.machine.is_due(expire(15, 5))
    assert scene.apply(expire(15, 5)) == ended(), "it appended during its lease"
    assert scene.machine.state().producers.names == ("p",)
    assert scene.apply(expire(16, 5)) == ended(producers=1)
    assert scene.apply(expire(16, 5)) == ended()
    for sequence in (0, 2):
        refusal = scene.append(sequence, scene.new_batch())
        assert refusal.code == "UnknownProducer"
    assert scene.machine.state().producers.names == ()


# ---------------------------------------------------------------- what is where


def test_timestamps_never_fall_along_the_offsets() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(1), now_us=500)
    scene.append(1, scene.new_batch(1), now_us=300)
    ready = scene.stage_all(key(0), "a", 1, 1)
    scene.append(2, scene.new_batch(1), now_us=600)
    scene.commit_epoch(key(0), ready, now_us=550)
    scene.append(3, scene.new_batch(1), now_us=700)
    extents = scene.machine.extents_between(Offset(0), scene.machine.high_water_mark)
    assert [extent.timestamp_us for extent in extents] == [500, 500, 600, 600, 600, 700]


def test_extents_say_entry_writer_epoch_and_bytes() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(3, body_bytes=30), now_us=7)
    scene.commit_epoch(key(0), scene.stage_all(key(0), "a", 5), now_us=8)
    assert list(scene.machine.extents_between(Offset(0), Offset(8))) == [
        Extent(Offset(0), 3, LogIndex(1), 7, NO_EPOCH, "", 30),
        Extent(Offset(3), 5, LogIndex(2), 8, 0, "w", 1000),
    ]
    assert scene.machine.record_bytes == 1030


@pytest.mark.parametrize(
    ("start", "end", "starts"),
    [
        (0, 0, []), (0, 1, [0]), (2, 3, [0]), (2, 4, [0, 3]), (3, 4, [3]), (3, 7, [3]),
        (6, 8, [3, 7]), (7, 12, [7]), (0, 12, [0, 3, 7]), (12, 12, []),
    ],
)  # fmt: skip
def test_extents_of_a_range_are_exactly_those_that_meet_it(start, end, starts) -> None:
    scene = Scene()
    for sequence, records in enumerate((3, 4, 5)):
        scene.append(sequence, scene.new_batch(records))
    found = scene.machine.extents_between(Offset(start), Offset(end))
    assert [extent.start for extent in found] == starts


def test_walk_over_extents_does_not_see_what_becomes_visible_meanwhile() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(3))
    walk = scene.machine.extents_between(Offset(0), Offset(3))
    scene.append(1, scene.new_batch(4))
    assert [(extent.start, extent.count) for extent in walk] == [(0, 3)]


@pytest.mark.parametrize(("start", "end"), [(0, 4), (-1, 2), (3, 2)])
def test_no_query_reaches_beyond_the_high_water_mark(start: int, end: int) -> None:
    """CHECKLIST row 23."""
    scene = Scene()
    scene.append(0, scene.new_batch(3))
    scene.stage_all(key(0), "a", 5)
    with pytest.raises(AssertionError):
        scene.machine.extents_between(Offset(start), Offset(end))
    index = JoinedIndex([scene.machine.byte_index(Offset(0))])
    with pytest.raises(AssertionError):
        index.split(Offset(start), Offset(end), 2)


def test_a_range_is_split_at_extents_into_pieces_of_about_equal_bytes() -> None:
    scene = Scene()
    for sequence, size in enumerate((100, 100, 100, 300, 100, 100)):
        scene.append(sequence, scene.new_batch(10, body_bytes=size))
    split = JoinedIndex([scene.machine.byte_index(Offset(0))]).split
    assert split(Offset(0), Offset(60), 1) == ((0, 60), (800,))
    assert split(Offset(0), Offset(60), 2) == ((0, 40, 60), (600, 200))
    assert split(Offset(0), Offset(60), 4) == ((0, 20, 40, 60), (200, 400, 200))
    assert split(Offset(5), Offset(15), 9) == ((5, 10, 15), (50, 50))
    assert split(Offset(32), Offset(37), 9) == ((32, 37), (150,))
    assert split(Offset(30), Offset(30), 9) == ((30,), ())


def test_any_split_covers_its_range_once_with_all_its_bytes() -> None:
    for seed in range(20):
        _covers_its_range_once(seed)


def _covers_its_range_once(seed: int) -> None:
    random = Random(seed)
    scene = Scene()
    for sequence in range(random.randrange(1, 40)):
        size = random.choice((0, 0, 7, 100, 5000))
        scene.append(sequence, scene.new_batch(random.randrange(1, 9), body_bytes=size))
    end = scene.machine.high_water_mark
    pieces_max = random.choice((1, 2, 3, 10, 10**12))
    index = JoinedIndex([scene.machine.byte_index(Offset(0))])
    offsets, sizes = index.split(Offset(0), end, pieces_max)
    assert (offsets[0], offsets[-1]) == (0, end)
    assert list(offsets) == sorted(set(offsets))
    assert len(sizes) == len(offsets) - 1 <= pieces_max
    assert sum(sizes) == scene.machine.record_bytes
    starts = {extent.start for extent in scene.machine.extents_between(Offset(0), end)}
    assert starts.issuperset(offsets[:-1])


# ---------------------------------------------------------------- entries that make no sense


def _append(sequence: int = 0, producer: str = "p", now_us: int = 0, **of: int) -> Append:
    data = {"record_count": 1, "schema_version": 1, "body_bytes": 1, "crc": 1, **of}
    return Append(
        producer=producer, sequence=sequence, timestamp_us=now_us, batch=BatchSummary(**data)
    )


@pytest.mark.parametrize(
    "command",
    [
        _append(sequence=-1),
        _append(sequence=2**64 - 1),
        _append(producer=""),
        _append(producer="p" * 5000),
        _append(now_us=2**64),
        _append(record_count=0),
        _append(record_count=2**64 - 1),
        _append(body_bytes=-1),
        _append(body_bytes=2**64 - 1),
        _append(crc=2**32),
        _append(crc=-1),
        AbortEpoch(key=key(-1)),
        AbortEpoch(key=key(INTEGER_MAX)),
        AbortEpoch(key=key(0, writer="")),
        AbortEpoch(key=key(0, run="r" * 5000)),
        AbortEpoch(key=key(0), owner="o" * 5000),
    ],
)
def test_senseless_entry_is_refused_not_fatal(command: TopicCommand) -> None:
    scene = Scene()
    before = scene.machine.fingerprint()
    assert code(scene.apply(command)) == "MalformedRequest"
    assert scene.machine.fingerprint() == before


def test_senseless_stage_and_commit_are_refused_too() -> None:
    scene = Scene()
    for outcome in (
        scene.stage(key(0), "a", -1, batch(1)),
        scene.stage(key(0), "", 0, batch(1)),
        scene.stage(key(0), "a", 0, batch(1, records=0)),
        scene.stage(key(-1), "a", 0, batch(1)),
        scene.commit_epoch(key(-1)),
        scene.commit_epoch(key(0), transient=True),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.code == "MalformedRequest"


def test_largest_numbers_that_are_allowed_fit_the_state() -> None:
    scene = Scene()
    last = key(INTEGER_MAX - 1, streaming=False)
    scene.append(
        0, batch(2**32 - 1, records=2**31 - 1, body_bytes=2**31 - 1), now_us=INTEGER_MAX - 1
    )
    assert isinstance(scene.commit_epoch(last), EpochCommitted)
    assert isinstance(scene.write_epoch(key(0, writer="x"), 2**31 - 1), EpochCommitted)
    assert len(scene.machine.fingerprint()) == 16


def test_entry_at_or_below_the_last_one_is_a_defect() -> None:
    scene = Scene()
    scene.append(0, batch(1))
    with pytest.raises(AssertionError):
        scene.machine.apply(LogIndex(1), _append(sequence=1))
