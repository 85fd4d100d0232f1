"""A process that may open no more files loses nothing, and half does nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.core.types import HardState, NodeId, Term
from raftlog.errors import LimitReached
from raftlog.storage.hard_state import HardStateJournal, read_states
from raftlog.storage.log import GroupLog
from raftlog.storage.open_files import OpenFiles
from raftlog.storage.posix import PosixFileSystem
from tests.storage.disks import (
    FOLDER,
    GROUP,
    SMALL,
    content,
    entries,
    entry,
    no_more_files,
    write,
)

MOST = 3
LOGS = 10


@pytest.fixture
def disk(tmp_path: Path) -> PosixFileSystem:
    """With the folder of a log."""
    made = PosixFileSystem(tmp_path)
    made.make_folder(FOLDER)
    return made


def test_a_write_that_cannot_open_its_file_is_done_once_it_can(disk: PosixFileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 3))
    with no_more_files(), pytest.raises(LimitReached, match="open files"):
        log.take_write()
    write(log)
    log.append(entries(4, 60))
    work = log.take_write()
    assert work is not None
    with no_more_files():
        work.run()
        assert isinstance(work.short, LimitReached), "it begins a segment"
    work.run()
    assert work.done
    log.written(work)
    assert content(log) == entries(1, 60)
    log.close()
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == entries(1, 60)


def test_a_journal_that_cannot_open_its_files_forgets_no_vote(disk: PosixFileSystem) -> None:
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(GROUP, HardState(Term(3), NodeId(2)))
    with no_more_files(), pytest.raises(LimitReached, match="open files"):
        journal.take_write()
    write(journal)
    journal.close()
    states, _ = read_states(disk, FOLDER)
    assert states == {GROUP: HardState(Term(3), NodeId(2))}


def test_a_truncation_goes_on_where_it_got_no_file(disk: PosixFileSystem) -> None:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 60))
    write(log)
    log.truncate_from(2)
    work = log.take_write()
    assert work is not None
    with no_more_files():
        work.run()
        assert isinstance(work.short, LimitReached), "it syncs a folder"
    work.run()
    log.written(work)
    log.close()
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == entries(1, 1)


def test_folders_are_synced_listed_and_removed_from_the_reserve(disk: PosixFileSystem) -> None:
    disk.open(f"{FOLDER}/file", create=True).close()
    with no_more_files(), pytest.raises(LimitReached):
        disk.sync_folder(FOLDER)
    lock = disk.lock("lock")
    with no_more_files():
        for _ in range(2):
            disk.sync_folder(FOLDER)
            assert disk.list(FOLDER) == ["file"]
        disk.remove(FOLDER)
        with pytest.raises(LimitReached):
            disk.open("other", create=True)
    assert not disk.exists(FOLDER)
    lock.release()


def test_logs_keep_no_more_files_open_together_than_the_bound(tmp_path: Path) -> None:
    disk, open_files = PosixFileSystem(tmp_path), OpenFiles(MOST)
    logs = []
    for group in range(LOGS):
        disk.make_folder(f"log-{group}")
        logs.append(GroupLog.create(disk, f"log-{group}", GROUP, SMALL))
        logs[-1].join(open_files)
    for index in range(1, 4):
        for log in logs:
            log.append([entry(index)])
            write(log)
            assert len(open_files) <= MOST
            assert open_below(tmp_path) <= MOST
    assert all(content(log) == entries(1, 3) for log in logs)
    for log in logs:
        log.close()
    assert len(open_files) == 0
    assert open_below(tmp_path) == 0


def test_a_file_that_a_write_uses_stays_open(tmp_path: Path) -> None:
    disk, open_files = PosixFileSystem(tmp_path), OpenFiles(1)
    writes = []
    for group in range(LOGS):
        disk.make_folder(f"log-{group}")
        log = GroupLog.create(disk, f"log-{group}", GROUP, SMALL)
        log.join(open_files)
        log.append(entries(1, 3))
        writes.append((log, log.take_write()))
    for log, work in writes:
        assert work is not None
        work.run()
        log.written(work)
        log.close()
    for group in range(LOGS):
        assert content(GroupLog.open(disk, f"log-{group}", GROUP, SMALL)) == entries(1, 3)


def test_where_no_file_can_be_opened_an_idle_one_is_closed(tmp_path: Path) -> None:
    disk, open_files = PosixFileSystem(tmp_path), OpenFiles(LOGS)
    logs = []
    for group in range(2):
        disk.make_folder(f"log-{group}")
        logs.append(GroupLog.create(disk, f"log-{group}", GROUP, SMALL))
        logs[-1].join(open_files)
    logs[0].append([entry(1)])
    write(logs[0])
    logs[1].append([entry(1)])
    with no_more_files():
        write(logs[1])
        assert len(open_files) == 1


def open_below(folder: Path) -> int:
    """How many files below the folder this process has open."""
    links = list(Path("/proc/self/fd").iterdir())
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sum(target.startswith(f"{folder}/") for target in targets)
