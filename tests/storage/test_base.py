"""A log whose beginning was dropped: what goes, what stays, and what opening expects to find."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest

from raftlog.core.types import LogIndex, Term
from raftlog.errors import CorruptFile
from raftlog.storage.contract import FileSystem
from raftlog.storage.index import EntryTable
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.payload_cache import PayloadCache
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.prefix import Base
from tests.storage.disks import (
    FOLDER,
    GROUP,
    SMALL,
    content,
    disk_of,
    entries,
    entry,
    files_of,
    flipped,
    new_disk,
    without_frame,
    write,
)
from tests.storage.memory import MemoryFileSystem
from tests.storage.test_crashes import Killed, kill_at

LAST = 25


def full(disk: FileSystem, cache: PayloadCache | None = None) -> GroupLog:
    """A log of several segments: entries of term 1, from 12 on of term 2."""
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL, cache)
    log.append(entries(1, 11))
    write(log)
    log.append(entries(12, LAST, term=2))
    write(log)
    return log


def wanted() -> list[object]:
    return [*entries(1, 11), *entries(12, LAST, term=2)]


def firsts(disk: FileSystem) -> list[int]:
    """The first indexes of the segments on disk."""
    return [int(name[:20]) for name in disk.list(FOLDER) if name.endswith(".log")]


def base(index: int, term: int) -> Base:
    return LogIndex(index), Term(term)


def reopened(disk: FileSystem, at: Base) -> GroupLog:
    return GroupLog.open(disk, FOLDER, GROUP, SMALL, base=at)


# ---------------------------------------------------------------- dropping


def test_whole_segments_up_to_the_index_go_and_the_rest_stays(disk: FileSystem) -> None:
    log = full(disk)
    before = firsts(disk)
    assert len(before) >= 4
    for index in range(LAST + 1):
        expected = max(first - 1 for first in before if first - 1 <= index)
        term = 0 if not expected else 1 if expected < 12 else 2
        assert log.droppable(index) == (expected, term)
        removal = log.drop_to(index)
        assert removal.base == (log.base_index, log.base_term) == (expected, term)
        assert content(log) == wanted()[log.base_index :]
        removal.run()
        assert firsts(disk) == [first for first in before if first > log.base_index]
    assert log.base_index == before[-1] - 1, "all but the active segment are gone"
    log.close()
    log = reopened(disk, removal.base)
    assert content(log) == wanted()[log.base_index :]
    log.append(entries(LAST + 1, 40, term=3))
    write(log)
    assert content(log) == [*wanted(), *entries(LAST + 1, 40, term=3)][log.base_index :]
    log.close()


def test_a_removal_names_its_files_in_ascending_order_and_touches_nothing_before_it_runs() -> None:
    disk = new_disk()
    log = full(disk)
    before = files_of(disk)
    removal = log.drop_to(LAST)
    assert files_of(disk) == before
    assert list(removal.removed) == sorted(f"{FOLDER}/{name}" for name in before)[:-1]
    seen: list[tuple[str, str]] = []
    disk.interrupt = lambda operation, path: seen.append((operation, path))
    removal.run()
    assert seen == [*(("remove", path) for path in removal.removed), ("sync_folder", FOLDER)]
    seen.clear()
    again = log.drop_to(LAST)
    again.run()
    assert (again.removed, again.base, seen) == ((), removal.base, [])


def test_entries_that_are_not_durable_and_segments_of_a_write_in_flight_stay() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 3))
    write(log)
    log.append(entries(4, LAST))
    assert log.drop_to(LAST).removed == (), "nothing of it is planned yet"
    work = log.take_write()
    assert work is not None
    assert log.drop_to(LAST).removed == (), "the write seals the segment of entries 1 to 3"
    assert log.drop_to(3).removed == ()
    work.run()
    log.written(work)
    log.drop_to(LAST).run()
    assert firsts(disk) == [log.base_index + 1]
    assert content(log) == entries(1, LAST)[log.base_index :]


def test_a_segment_that_a_write_only_seals_stays_until_the_write_is_done() -> None:
    """All its entries are durable, but the write still truncates and syncs its file."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append([entry(1, body=b"x" * 600)])
    write(log)
    log.append([entry(2, body=b"x" * 600)])
    work = log.take_write()
    assert work is not None
    assert log.droppable(1) == (0, 0)
    work.run()
    log.written(work)
    assert log.droppable(1) == (1, 1)


def test_what_was_droppable_stays_so_when_the_next_entry_is_truncated() -> None:
    """So the manifest may name the base before the log drops to it. The entry that comes instead
    would fit into the segment before."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append([*entries(1, 3), entry(4, body=b"x" * 600)])
    write(log)
    planned = log.droppable(3)
    assert planned == (3, 1)
    log.truncate_from(4)
    log.append(entries(4, 5, term=2))
    write(log)
    assert log.droppable(3) == planned
    disk.crash()
    log = reopened(disk, planned)
    assert content(log) == entries(4, 5, term=2)


def test_a_dropped_log_may_lose_all_its_entries_and_keeps_the_term_of_its_base() -> None:
    disk = new_disk()
    log = full(disk)
    at = log.drop_to(LAST).base
    log.truncate_from(log.base_index + 1)
    write(log)
    assert (log.last_index, log.last_term, content(log)) == (*at, [])
    log = reopened(disk, at)
    assert (log.last_index, log.last_term, content(log)) == (*at, [])
    log.append([entry(log.last_index + 1, 2)])
    with pytest.raises(AssertionError, match="never falls"):
        log.append([entry(log.last_index + 1, 1)])


def test_what_is_below_the_base_cannot_be_asked_for() -> None:
    log = full(new_disk())
    log.drop_to(LAST)
    below = log.base_index
    for ask in (
        log.command,
        log.truncate_from,
        lambda index: log.entries(index, LAST, 1),
        lambda index: log.plan_read(index, LAST),
        lambda index: log.body_slices(index, []),
    ):
        with pytest.raises(AssertionError, match="are not in"):
            ask(below)
    with pytest.raises(AssertionError, match="is not in"):
        log.term_at(below - 1)
    with pytest.raises(AssertionError, match="is not in"):
        log.drop_to(below - 1)
    with pytest.raises(AssertionError, match="is not in"):
        log.drop_to(LAST + 1)


def test_files_of_dropped_segments_are_closed(tmp_path: Path) -> None:
    disk = PosixFileSystem(tmp_path)
    disk.make_folder(FOLDER)
    log = full(disk)
    content(log)
    removal = log.drop_to(LAST)
    links = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in removal.removed if tmp_path / path in links]
    log.close()


def test_dropped_payloads_leave_the_cache() -> None:
    cache = PayloadCache(1 << 20)
    log = full(new_disk(), cache)
    all_bytes = cache.used_bytes
    log.drop_to(LAST)
    kept = cache.used_bytes
    assert 0 < kept < all_bytes
    log.truncate_from(log.base_index + 1)
    assert cache.used_bytes == 0, "only entries above the base were left"


@pytest.mark.slow
def test_the_memory_of_dropped_entries_is_given_back() -> None:
    """A log's table takes 17 bytes an entry, for as many as it holds."""
    tracemalloc.start()
    try:
        table = EntryTable()
        for index in range(1, 100_001):
            table.add(index, 1, 2, 10, 10)
            table.place(64, 0)
        whole = tracemalloc.get_traced_memory()[0]
        table.drop_to(99_000)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert whole > 100_000 * 17
    assert left < 2_000 * 17


# ---------------------------------------------------------------- opening


def test_segments_at_or_below_the_base_are_removed_when_opening() -> None:
    disk = new_disk()
    full(disk).close()
    before = firsts(disk)
    at = base(before[2] - 1, 1 if before[2] <= 12 else 2)
    log = reopened(disk, at)
    assert firsts(disk) == before[2:]
    assert log.report.segments == len(before) - 2
    assert content(log) == wanted()[at[0] :]
    disk.crash()
    assert firsts(disk) == before[2:]


def test_a_damaged_segment_below_the_base_hinders_nothing() -> None:
    disk = new_disk()
    full(disk).close()
    files = files_of(disk)
    first, second, *_ = sorted(files)
    for damaged in (flipped(files[first], 5), flipped(files[first], 200), b""):
        log = reopened(disk_of({**files, first: damaged}), base(int(second[:20]) - 1, 1))
        assert log.last_index == LAST


def test_nothing_is_removed_while_the_rest_is_damaged() -> None:
    disk = new_disk()
    full(disk).close()
    files = files_of(disk)
    names = sorted(files)
    damaged = {**files, names[2]: without_frame(files[names[2]], 64)}
    disk = disk_of(damaged)
    with pytest.raises(CorruptFile):
        reopened(disk, base(int(names[1][:20]) - 1, 1))
    assert files_of(disk) == damaged


def test_a_log_that_begins_above_its_base_is_damage() -> None:
    disk = new_disk()
    full(disk).close()
    files = files_of(disk)
    first, second, *others = sorted(files)
    begin = int(second[:20])
    for at, present in [
        (base(0, 0), (second, *others)),
        (base(begin - 1, 1), (first, *others)),
    ]:
        missing_from, there = at[0] + 1, min(name for name in present if int(name[:20]) > at[0])
        with pytest.raises(CorruptFile) as caught:
            reopened(disk_of({name: files[name] for name in present}), at)
        assert caught.value.file == f"{FOLDER}/{there}"
        missing = f"entries {missing_from} to {int(there[:20]) - 1} are missing"
        assert missing in caught.value.problem


def test_a_base_that_is_no_end_of_a_segment_is_damage() -> None:
    """Neither inside a segment nor beyond the last entry."""
    disk = new_disk()
    full(disk).close()
    files = files_of(disk)
    bases = [int(name[:20]) - 1 for name in files]
    for index in range(LAST + 2):
        if index in bases:
            continue
        disk = disk_of(files)
        with pytest.raises(CorruptFile, match=f"the log's base is entry {index}"):
            reopened(disk, base(index, 1))
        assert files_of(disk) == files


def test_an_entry_of_an_earlier_term_than_the_base_is_damage() -> None:
    disk = new_disk()
    full(disk).close()
    second = firsts(disk)[1]
    with pytest.raises(CorruptFile, match="term 1 follows term 2"):
        reopened(disk, base(second - 1, 2))


@pytest.mark.parametrize("power_lost", [True, False], ids=["power-lost", "killed"])
def test_a_crash_while_leftovers_are_removed_leaves_a_log_that_opens(power_lost: bool) -> None:
    number = 0
    while True:
        disk = new_disk(seed=number)
        full(disk).close()
        before = firsts(disk)
        at = base(before[3] - 1, 2)
        kill_at(disk, number)
        try:
            reopened(disk, at)
        except Killed:
            number += 1
        else:
            break
        disk.interrupt = None
        if power_lost:
            disk.crash()
        left = firsts(disk)
        assert left == before[before.index(left[0]) :], "whatever is left has no gap"
        assert content(reopened(disk, at)) == wanted()[at[0] :]
    assert number >= 6, "a sync of the file and the folder, three removals, another sync"


def test_the_table_answers_like_a_list_whatever_is_dropped() -> None:
    for seed in range(20):
        _answers_like_a_list(seed)


def _answers_like_a_list(seed: int) -> None:
    random = Random(seed)
    table = EntryTable()
    rows: list[tuple[int, int, int]] = []
    bottom, term = 0, 0
    for _ in range(60):
        last = len(rows)
        action = random.randrange(4)
        if action < 2:
            term += random.randrange(2) if term else 1
            for index in range(last + 1, last + random.randrange(2, 6)):
                rows.append((term, index % 7, index % 5))
                table.add(index, term, index % 3, index % 7, index % 5)
                table.place(1000 + index, index)
        elif action == 2 and last > bottom:
            index = random.randrange(bottom + 1, last + 1)
            table.truncate(index)
            del rows[index - 1 :]
        elif action == 3:
            bottom = random.randrange(bottom, last + 1)
            table.drop_to(bottom)
        _same(table, rows, bottom)


def _same(table: EntryTable, rows: list[tuple[int, int, int]], bottom: int) -> None:
    terms = [0, *(term for term, _, _ in rows)]
    assert (table.base_index, table.base_term) == (bottom, terms[bottom])
    assert (table.last_index, table.placed, table.last_term) == (len(rows), len(rows), terms[-1])
    assert table.sizes() == [command + body for _, command, body in rows[bottom:]]
    runs: dict[int, int] = {}
    for index in range(bottom, len(rows) + 1):
        assert table.term_at(index) == terms[index]
        if index > bottom:
            runs.setdefault(terms[index], index)
            assert table.position_at(index) == 1000 + index
            assert table.chain_at(index) == index
            assert table.lengths_at(index) == rows[index - 1][1:]
            assert table.kind_at(index) == index % 3
    assert table.terms() == [(index, term) for term, index in runs.items()]


def test_limits_that_give_every_entry_its_own_segment_can_drop_to_any() -> None:
    limits = LogLimits(segment_bytes_max=100, preallocate_bytes=0)
    disk: MemoryFileSystem = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, limits)
    log.append(entries(1, 9))
    write(log)
    for index in range(9):
        assert log.drop_to(index).base[0] == index
    assert log.drop_to(9).base[0] == 8, "never the active one"
