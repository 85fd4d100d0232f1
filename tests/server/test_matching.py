"""A node says which stored batches may match, page by page, by headers and runs."""

from __future__ import annotations

from array import array

import pytest

from raftlog.core.types import Offset
from raftlog.multiraft.local_replica import StoredBatch
from raftlog.predicates.predicate import Compare, In, IsNull, Or, Predicate
from raftlog.server.fair_scans import PERIOD_WORK_MAX, batch_work
from raftlog.server.matching import PIECE_BYTES_MIN, WORK_MAX, Matching
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.calls import ReadSizes
from raftlog.wire.runs import Runs

NOTHING_READ = {"body_slices": lambda slices: [], "check": lambda: None}


def batch(start: int, low: int, *, length: int = 100, version: int = 1) -> StoredBatch:
    """Ten records; column 1 has values from `low` to `low + 9`."""
    chunk = ColumnChunk(
        field_id=1, position=0, length=length, crc=0, null_count=0, minimum=low, maximum=low + 9
    )
    header = BatchHeader(record_count=10, schema_version=version, columns=(chunk,))
    runs = Runs(
        counts=array("q", (4, 6)),
        timestamps_us=array("q", (start, start + 5)),
        terms=array("q", (1, 2)),
        epochs=array("q", (-1, 7)),
        writers=array("q", (0, 1)),
        names=("", "job"),
    )
    return StoredBatch(start=Offset(start), header=header, runs=runs, **NOTHING_READ)


def matching(where: Predicate, end: int, pieces_max: int = 100) -> Matching:
    call = ReadSizes(
        group=1, incarnation="a", start=Offset(0), end=Offset(end), mark=Offset(end),
        pieces_max=pieces_max, where=(where,), where_version=1,
    )  # fmt: skip
    return Matching(call, "flights")


def may_match(where: Predicate, stored: StoredBatch) -> bool:
    found = matching(where, 10)
    found.judge(stored)
    [matches] = found.reply().matches
    return matches


def test_adjacent_batches_that_are_alike_are_one_piece():
    found = matching(Compare(column=1, operator=">=", value=20), 45)
    for start in range(0, 50, 10):
        assert not found.done
        found.judge(batch(start, start))
    assert found.done
    reply = found.reply()
    assert (reply.offsets, reply.body_bytes) == ((0, 20, 45), (200, 300))
    assert reply.matches == (False, True)


def test_what_matches_is_cut_for_tasks_and_what_does_not_is_not():
    found = matching(Compare(column=1, operator=">=", value=20), 60)
    for start in range(0, 60, 10):
        found.judge(batch(start, start, length=PIECE_BYTES_MIN))
    assert found.reply().offsets == (0, 20, 30, 40, 50, 60)


def test_an_answer_ends_after_so_many_pieces_or_so_much_work():
    few = matching(Compare(column=1, operator="=", value=5), 100, pieces_max=2)
    few.judge(batch(0, 0))
    assert not few.done
    few.judge(batch(10, 10))
    assert few.done
    assert few.position == 20
    long = matching(Compare(column=1, operator="=", value=-5), 10**9)
    work = 0
    while not long.done:
        work += long.judge(batch(long.position, 0))
    assert 0 < long.position < 10 * WORK_MAX // batch_work(batch(0, 0))
    assert WORK_MAX <= work < WORK_MAX + PERIOD_WORK_MAX


class CountedNames(tuple[str, ...]):
    """Writers' names that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, number):
        self.looks += 1
        return super().__getitem__(number)


def test_a_batch_with_many_runs_is_looked_through_once_for_each_metadata_column():
    """However often the predicate tests it. The runs count as work, for each such column."""
    count = 8000
    names = CountedNames(("", *(f"job-{number}" for number in range(1, count))))
    runs = Runs(
        counts=array("q", [1] * count),
        timestamps_us=array("q", range(count)),
        terms=array("q", [1] * count),
        epochs=array("q", range(-1, count - 1)),
        writers=array("q", range(count)),
        names=names,
    )
    header = BatchHeader(record_count=count, schema_version=1, columns=())
    stored = StoredBatch(start=Offset(0), header=header, runs=runs, **NOTHING_READ)

    def work_of(*columns):
        tests = [Compare(column=each, operator="=", value="zz") for each in columns]
        return matching(Or(parts=tuple(tests)), count).judge(stored)

    once = work_of("_writer")
    looks, names.looks = names.looks, 0
    often = work_of(*["_writer"] * 250)
    assert 0 < looks == names.looks
    assert often == once + 249
    assert once > PERIOD_WORK_MAX, "the caller does nothing else in the same period"
    per_column = work_of("_writer", "_timestamp") - once
    assert per_column > PERIOD_WORK_MAX // 2


def test_a_batch_of_a_later_version_is_not_judged():
    test = Compare(column=1, operator="<", value=0)
    assert not may_match(test, batch(0, 0))
    assert may_match(test, batch(0, 0, version=2))


def test_a_column_that_a_batch_is_older_than_is_null():
    assert may_match(IsNull(column=2), batch(0, 0))
    assert not may_match(Compare(column=2, operator="=", value=1), batch(0, 0))


@pytest.mark.parametrize(
    ("column", "there", "not_there"),
    [
        ("_offset", 39, 40),
        ("_timestamp", 35, 36),
        ("_term", 2, 3),
        ("_epoch", 7, -1),
        ("_writer", "job", ""),
        ("_topic", "flights", "delays"),
    ],
)
def test_metadata_columns_have_statistics_of_the_runs(column, there, not_there):
    stored = batch(30, 0)
    assert may_match(In(column=column, values=(there,)), stored)
    assert not may_match(In(column=column, values=(not_there,)), stored)
    assert may_match(IsNull(column=column), stored) == (column in ("_epoch", "_writer"))
