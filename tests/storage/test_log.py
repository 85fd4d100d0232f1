"""One group's log while nothing goes wrong: order, durability, reading, truncation, segments."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from raftlog.core.types import EMPTY_PAYLOAD, Entry, EntryKind, LogIndex, Payload, Term
from raftlog.errors import CorruptFile, DiskFailed
from raftlog.storage.contract import ROOT, FileSystem
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.payload_cache import PAYLOAD_OVERHEAD_BYTES, PayloadCache
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.posix_file import PosixFile
from tests.storage.disks import (
    BARE,
    FOLDER,
    GROUP,
    ONE_SEGMENT,
    SMALL,
    content,
    entries,
    entry,
    files_of,
    new_disk,
    write,
)


def open_files(folder: Path) -> int:
    """How many files below the folder this process has open."""
    targets = [
        os.readlink(link) for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)
    ]
    return sum(target.startswith(f"{folder}/") for target in targets)


def test_reading_opens_no_more_sealed_segments_than_the_limit_says() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for index in range(1, 101):
        log.append([entry(index)])
        write(log)
    for order in (range(1, 101), range(100, 0, -1)):
        for index in order:
            assert log.entries(index, index, 1 << 20) == [entry(index)]
            assert disk.open_files <= 1 + SMALL.sealed_files_max
    log.close()
    assert disk.open_files == 0


@pytest.mark.slow
def test_a_log_keeps_few_of_its_segments_open(tmp_path: Path) -> None:
    """However many were written and read: the active one, and those read last."""
    disk = PosixFileSystem(tmp_path)
    disk.make_folder(FOLDER)
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for index in range(1, 101):
        log.append([entry(index)])
        write(log)
    assert logs_in(disk) > 3 * SMALL.sealed_files_max
    assert open_files(tmp_path) <= 1 + SMALL.sealed_files_max
    assert content(log) == entries(1, 100)
    assert open_files(tmp_path) <= 1 + SMALL.sealed_files_max
    log.truncate_from(50)
    assert content(log) == entries(1, 49)
    write(log)
    log.append(entries(50, 60, term=2))
    write(log)
    assert content(log) == entries(1, 49) + entries(50, 60, term=2)
    assert open_files(tmp_path) <= 1 + SMALL.sealed_files_max
    log.close()
    assert open_files(tmp_path) == 0


class _WatchedFileSystem(PosixFileSystem):
    """The real one, which counts how many files were open at once, at most."""

    most = 0

    def open(self, path: str, *, create: bool, direct: bool = False) -> PosixFile:
        file = super().open(path, create=create, direct=direct)
        self.most = max(self.most, open_files(Path(self.location(ROOT))))
        return file


@pytest.mark.slow
def test_opening_a_log_of_many_segments_opens_at_most_two_files_at_once_and_leaves_none_open(
    tmp_path: Path,
) -> None:
    disk = _WatchedFileSystem(tmp_path)
    disk.make_folder(FOLDER)
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 200))
    write(log)
    log.close()
    assert logs_in(disk) > 20
    disk.most = 0
    log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    assert disk.most <= 2
    assert open_files(tmp_path) == 0, "an idle topic has no file open"
    log.append(entries(201, 202))
    write(log)
    assert content(log) == entries(1, 202)
    log.close()


def logs_in(disk: FileSystem) -> int:
    return len([name for name in disk.list(FOLDER) if name.endswith(".log")])


def test_a_new_log_is_empty_before_and_after_reopening(disk: FileSystem) -> None:
    assert not GroupLog.exists(disk, FOLDER)
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for _ in range(2):
        assert (log.last_index, log.last_term, log.durable_index) == (0, 0, 0)
        assert (log.terms(), log.sizes(), log.term_at(0)) == ([], [], 0)
        assert log.take_write() is None
        log.close()
        log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    assert GroupLog.exists(disk, FOLDER)
    with pytest.raises(AssertionError):
        GroupLog.create(disk, FOLDER, GROUP, SMALL)


def test_entries_come_back_as_they_were_appended(disk: FileSystem) -> None:
    wanted = entries(1, 20) + entries(21, 30, term=4) + entries(31, 40, term=9)
    wanted += [Entry(LogIndex(41), Term(9), EntryKind.NOOP, EMPTY_PAYLOAD)]
    wanted += [Entry(LogIndex(42), Term(9), EntryKind.CONFIGURATION, Payload(b"", b"b" * 100_000))]
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for start in range(0, len(wanted), 5):
        log.append(wanted[start : start + 5])
        write(log)
    assert content(log) == wanted
    log.close()
    log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    assert content(log) == wanted
    assert (log.last_index, log.last_term, log.durable_index) == (42, 9, 42)
    assert log.terms() == [(1, 1), (21, 4), (31, 9)]
    assert log.report.torn_bytes == 0


@pytest.mark.parametrize("wrong", [entry(4), entry(6), entry(1), entry(5, term=1)])
def test_a_gap_or_a_falling_term_is_not_appended(wrong: Entry) -> None:
    log = GroupLog.create(new_disk(), FOLDER, GROUP, SMALL)
    log.append(entries(1, 4, term=2))
    with pytest.raises(AssertionError):
        log.append([wrong])
    assert log.last_index == 4


def test_entries_are_readable_at_once_and_durable_when_written(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 9))
    assert (content(log), log.durable_index) == (entries(1, 9), 0)
    work = log.take_write()
    assert work is not None
    log.append(entries(10, 12))
    with pytest.raises(AssertionError, match="one write at a time"):
        log.take_write()
    with pytest.raises(AssertionError, match="not been run"):
        log.written(work)
    work.run()
    assert log.durable_index == 0
    log.written(work)
    assert (content(log), log.durable_index) == (entries(1, 12), 9)
    write(log)
    assert log.durable_index == 12


@pytest.mark.slow
def test_a_write_runs_on_any_thread_while_the_owner_reads(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for first in range(1, 200, 20):
        log.append(entries(first, first + 19))
        work = log.take_write()
        assert work is not None
        thread = threading.Thread(target=work.run)
        thread.start()
        assert content(log) == entries(1, first + 19)
        thread.join()
        log.written(work)
    assert log.durable_index == 200


def test_one_sync_covers_all_that_is_pending() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    seen: list[str] = []
    disk.interrupt = lambda operation, path: seen.append(operation)
    for item in entries(1, 50):
        log.append([item])
    write(log)
    assert seen == ["reserve", "write", "sync"]


def test_reads_stop_at_the_bytes_asked_for_but_give_one_entry(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append([entry(index, body=b"x" * 100) for index in range(1, 11)])
    write(log)
    size = log.sizes()[0]
    assert [e.index for e in log.entries(3, 10, 3 * size + 1)] == [3, 4, 5]
    assert [e.index for e in log.entries(3, 10, 0)] == [3]
    assert [e.index for e in log.entries(3, 4, 1 << 30)] == [3, 4]


def test_a_planned_read_gives_what_a_read_gives_wherever_the_payloads_are(
    disk: FileSystem,
) -> None:
    appended = entries(1, 30)
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(appended)
    write(log)
    kept = in_memory(log, appended)
    for first, last in ((1, 30), (1, kept[0] - 1), (kept[0] - 1, kept[0]), (kept[0], 30)):
        read = log.plan_read(first, last)
        assert read.from_disk == (first < kept[0])
        assert read.byte_count == sum(each.payload.size for each in appended[first - 1 : last])
        if read.from_disk:
            read.run()
        assert list(read.entries()) == appended[first - 1 : last]


def test_a_planned_read_raises_what_it_met_on_disk() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    log.append(entries(1, 3))
    write(log)
    read = log.plan_read(1, 3)
    (name,) = disk.list(FOLDER)
    place = files_of(disk)[name].index(b"body 2/1")
    file = disk.open(f"{FOLDER}/{name}", create=False)
    file.write_at(place, [b"!"])
    read.run()
    with pytest.raises(CorruptFile, match="checksum"):
        read.entries()


def test_slices_of_a_body_are_read_without_the_rest(disk: FileSystem) -> None:
    body = bytes(range(256)) * 400
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append([entry(1, body=body), entry(2, body=body[::-1])])
    for _ in range(2):  # from memory, then from disk
        assert log.body_slices(1, [(0, 3), (102_399, 1), (5, 0)]) == [body[:3], body[-1:], b""]
        assert log.body_slices(2, [(70_000, 300)]) == [body[::-1][70_000:70_300]]
        with pytest.raises(AssertionError):
            log.body_slices(1, [(102_399, 2)])
        write(log)
        log.close()
        log = GroupLog.open(disk, FOLDER, GROUP, SMALL)


def test_configurations_are_found_after_any_entry(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, LogLimits())
    kinds = [
        EntryKind.CONFIGURATION if index in (1, 4, 5, 9) else EntryKind.COMMAND
        for index in range(1, 10)
    ]
    written = [replace(each, kind=kind) for each, kind in zip(entries(1, 9), kinds, strict=True)]
    log.append(written)
    for after in range(10):
        wanted = [each for each in written[after:] if each.kind is EntryKind.CONFIGURATION]
        assert log.configurations(after) == wanted
    log.close()


def in_memory(log: GroupLog, appended: list[Entry]) -> list[int]:
    """Which of the appended entries are answered from memory: they are the very same objects."""
    return [
        one.index
        for one in appended
        if log.entries(one.index, one.index, 1 << 30)[0].payload is one.payload
    ]


def test_the_newest_payloads_stay_in_memory_within_the_bound() -> None:
    limits = LogLimits(
        segment_bytes_max=700, payload_cache_bytes_max=5 * (PAYLOAD_OVERHEAD_BYTES + 60)
    )
    log = GroupLog.create(new_disk(), FOLDER, GROUP, limits)
    appended = entries(1, 40)
    log.append(appended)
    assert in_memory(log, appended) == list(range(1, 41)), "what is not written is only in memory"
    write(log)
    assert in_memory(log, appended) == list(range(36, 41))
    assert content(log) == appended


def test_logs_share_one_budget_and_the_one_used_least_recently_pays() -> None:
    cache = PayloadCache(10 * (PAYLOAD_OVERHEAD_BYTES + 60))
    disk, appended = new_disk(), {}
    logs = {}
    for name in ("idle", "busy", "gone"):
        disk.make_folder(name)
        logs[name] = GroupLog.create(disk, name, GROUP, SMALL, cache)
        appended[name] = entries(1, 5)
        logs[name].append(appended[name])
    assert cache.used_bytes == 0, "nothing is durable yet, so nothing may be evicted"
    for log in logs.values():
        write(log)
    held = {name: in_memory(log, appended[name]) for name, log in logs.items()}
    assert held == {"idle": [], "busy": [1, 2, 3, 4, 5], "gone": [1, 2, 3, 4, 5]}
    logs["gone"].discard()
    assert cache.used_bytes == sum(
        one.payload.size + PAYLOAD_OVERHEAD_BYTES for one in appended["busy"]
    )
    logs["busy"].truncate_from(3)
    assert cache.used_bytes == sum(
        one.payload.size + PAYLOAD_OVERHEAD_BYTES for one in appended["busy"][:2]
    )
    assert in_memory(logs["busy"], appended["busy"][:2]) == [1, 2]
    logs["busy"].close()
    assert cache.used_bytes == 0


def test_segments_are_bounded_and_an_entry_above_the_bound_has_its_own(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append([*entries(1, 10), entry(11, body=b"x" * 2000), *entries(12, 20)])
    write(log)
    sizes = {name: len(data) for name, data in files_of(disk).items()}
    assert len(sizes) > 3
    big = f"{11:020d}.log"
    assert sizes.pop(big) > 2000
    assert all(size <= 700 for size in sizes.values())
    log.close()
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL))[10].payload.body == b"x" * 2000


def test_space_is_reserved_ahead_and_given_back_when_a_segment_is_sealed() -> None:
    disk = new_disk()
    limits = LogLimits(segment_bytes_max=4000, preallocate_bytes=1000)
    log = GroupLog.create(disk, FOLDER, GROUP, limits)
    log.append(entries(1, 2))
    write(log)
    (data,) = files_of(disk).values()
    assert data.endswith(bytes(1000))
    log.append(entries(3, 100))
    write(log)
    *sealed, active = files_of(disk).values()
    assert all(not data.endswith(bytes(64)) for data in sealed)
    assert len(active) <= 4000


def test_a_log_opened_again_uses_the_space_that_is_reserved() -> None:
    disk = new_disk()
    limits = LogLimits(segment_bytes_max=4000, preallocate_bytes=1000)
    log = GroupLog.create(disk, FOLDER, GROUP, limits)
    log.append(entries(1, 2))
    write(log)
    log = GroupLog.open(disk, FOLDER, GROUP, limits)
    operations: list[str] = []
    disk.interrupt = lambda operation, path: operations.append(operation)
    log.append(entries(3, 3))
    write(log)
    assert operations == ["write", "sync"]


# ------------------------------------------------------------ truncation


@pytest.mark.parametrize("index", range(1, 31))
def test_a_conflict_truncation_reopens_clean(index: int) -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 30))
    write(log)
    assert logs_in(disk) > 3
    log.truncate_from(index)
    assert log.durable_index == log.last_index == index - 1
    write(log)
    wanted = entries(1, index - 1)
    assert content(log) == wanted
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == wanted
    log.append(entries(index, index + 6, term=2))
    write(log)
    disk.crash()
    log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    assert content(log) == wanted + entries(index, index + 6, term=2)
    assert log.report.torn_bytes == 0


def test_entries_truncated_while_pending_are_never_written(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 3))
    write(log)
    log.append(entries(4, 6))
    log.truncate_from(4)
    assert log.take_write() is None
    log.append(entries(4, 4, term=3))
    log.truncate_from(2)
    log.append(entries(2, 3, term=5))
    write(log)
    assert content(log) == entries(1, 1) + entries(2, 3, term=5)
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == content(log)


@pytest.mark.parametrize("index", [1, 2, 9, 10, 11, 12, 25])
def test_a_truncation_during_a_write_follows_it(index: int) -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 10))
    write(log)
    log.append(entries(11, 25))
    work = log.take_write()
    assert work is not None
    log.truncate_from(index)
    log.append(entries(index, 26, term=2))
    work.run()
    log.written(work)
    assert log.durable_index == index - 1
    wanted = entries(1, index - 1) + entries(index, 26, term=2)
    assert content(log) == wanted
    write(log)
    assert log.durable_index == 26
    disk.crash()
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == wanted


def test_a_truncation_is_synced_before_anything_is_written_behind_it() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    log.append(entries(1, 5))
    write(log)
    seen: list[str] = []
    disk.interrupt = lambda operation, path: seen.append(operation)
    log.truncate_from(3)
    log.append(entries(3, 4, term=2))
    write(log)
    assert seen == ["truncate", "sync", "reserve", "write", "sync"]


# ---------------------------------------------------------------- markers and failures


def test_an_idle_log_writes_one_marker_and_no_more(disk: FileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    assert not log.idle_marker(), "there is nothing to witness"
    log.append(entries(1, 3))
    assert not log.idle_marker(), "a log with pending entries is not idle"
    write(log)
    assert log.idle_marker()
    write(log)
    assert not log.idle_marker()
    assert log.take_write() is None
    log.append(entries(4, 4))
    write(log)
    assert log.idle_marker()
    log.append(entries(5, 5))  # wins over the marker
    write(log)
    log.truncate_from(5)
    write(log)
    assert log.idle_marker(), "the witness of entry 4 was truncated"
    log.close()
    log = GroupLog.open(disk, FOLDER, GROUP, ONE_SEGMENT)
    assert content(log) == entries(1, 4)
    assert not log.idle_marker()
    assert log.take_write() is None
    log.close()


def test_closing_writes_what_is_pending_and_a_marker() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    log.append(entries(1, 3))
    log.close()
    closed = files_of(disk)
    log = GroupLog.open(disk, FOLDER, GROUP, BARE)
    assert content(log) == entries(1, 3)
    log.close()
    assert files_of(disk) == closed, "a second marker would prove nothing more"


@pytest.mark.parametrize("fails", ["write", "sync", "truncate", "reserve", "create", "rename"])
def test_a_write_that_failed_is_never_tried_again(fails: str) -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 3))
    write(log)

    def fail(operation: str, path: str) -> None:
        if operation == fails:
            raise DiskFailed(file=path, problem="injected")

    disk.interrupt = fail
    log.truncate_from(2)
    log.append(entries(2, 30, term=2))
    work = log.take_write()
    assert work is not None
    with pytest.raises(DiskFailed):
        work.run()
    disk.interrupt = None
    with pytest.raises(AssertionError, match="never tried again"):
        work.run()
    with pytest.raises(AssertionError):
        log.written(work)
    with pytest.raises(AssertionError):
        log.take_write()
    assert log.durable_index == 1


def test_random_reads_agree_with_the_list_of_entries() -> None:
    random = Random(5)
    log = GroupLog.create(new_disk(), FOLDER, GROUP, SMALL)
    wanted = [entry(i, 1 + i // 40, random.randbytes(random.randrange(300))) for i in range(1, 200)]
    log.append(wanted)
    write(log)
    for _ in range(100):
        first = random.randrange(1, 200)
        last = random.randrange(first, 200)
        assert log.entries(first, last, 1 << 30) == wanted[first - 1 : last]
        size = len(wanted[first - 1].payload.body)
        start = random.randrange(size + 1)
        length = random.randrange(size - start + 1)
        body = wanted[first - 1].payload.body[start : start + length]
        assert log.body_slices(first, [(start, length)]) == [body]
