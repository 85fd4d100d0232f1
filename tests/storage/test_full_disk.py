"""A disk without room: a write waits and continues, and a crash meanwhile does no harm."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from raftlog.core.types import GroupId, HardState, LogIndex, NodeId, Term
from raftlog.errors import DiskFailed, DiskFull
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.posix_file import PosixFile
from raftlog.storage.write import LogWrite
from tests.storage.disks import FOLDER, GROUP, SMALL, content, entries, new_disk, write
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

NEEDS_ROOM = ("write", "create", "rename", "make_folder")


class Room:
    """Interrupts a disk in memory: after `changes` that need room there is none."""

    def __init__(self, changes: int) -> None:
        self.changes: float = changes
        self.refused = 0

    def __call__(self, operation: str, path: str) -> None:
        if operation not in NEEDS_ROOM:
            return
        if self.changes <= 0:
            self.refused += 1
            raise DiskFull(file=path)
        self.changes -= 1

    def make(self) -> None:
        self.changes = float("inf")


def begun_log(disk: MemoryFileSystem) -> GroupLog:
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 5))
    write(log)
    return log


def waiting(log: GroupLog | HardStateJournal) -> LogWrite:
    """The write of what is pending, tried twice without finding room."""
    work = log.take_write()
    assert work is not None
    for _ in range(2):
        work.run()
        if work.done:
            break
        assert work.short is not None
    return work


@pytest.mark.parametrize("room_for", range(12))
def test_a_write_without_room_continues_once_there_is_some(room_for: int) -> None:
    """Over several segments, wherever the room ends."""
    disk = new_disk(room_for)
    log = begun_log(disk)
    disk.interrupt = room = Room(room_for)
    log.append(entries(6, 20))
    work = waiting(log)
    assert log.durable_index == 5, "no entry counts before the whole write does"
    assert content(log) == entries(1, 20), "what waits for room is readable"
    room.make()
    if not work.done:
        work.run()
    log.written(work)
    assert log.durable_index == 20
    disk.crash()
    disk.interrupt = None
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == entries(1, 20)


@pytest.mark.parametrize("power_fails", [True, False])
@pytest.mark.parametrize("room_for", range(8))
def test_a_crash_while_a_write_waits_for_room_costs_nothing_durable(
    room_for: int, power_fails: bool
) -> None:
    for seed in range(20):
        disk = new_disk(seed)
        log = begun_log(disk)
        disk.interrupt = Room(room_for)
        log.append(entries(6, 20))
        waiting(log)
        disk.interrupt = None
        if power_fails:
            disk.crash()
        found = content(GroupLog.open(disk, FOLDER, GROUP, SMALL))
        assert found[:5] == entries(1, 5)
        assert found == entries(1, len(found))


def test_a_log_can_be_closed_without_room() -> None:
    disk = new_disk()
    log = begun_log(disk)
    log.append(entries(6, 7))
    disk.interrupt = Room(0)
    waiting(log)
    log.close()
    disk.interrupt = None
    other = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    disk.interrupt = Room(0)
    other.append(entries(6, 6))
    other.close()
    disk.interrupt = None
    assert content(GroupLog.open(disk, FOLDER, GROUP, SMALL)) == entries(1, 5)


@pytest.mark.parametrize("room_for", range(6))
def test_a_discarded_log_releases_the_memory_of_its_unwritten_entries(room_for: int) -> None:
    disk = new_disk()
    log = begun_log(disk)
    disk.interrupt = Room(room_for)
    log.append(entries(6, 20))
    work = waiting(log)
    held = sum(disk.open(f"{FOLDER}/{name}", create=False).size() for name in disk.list(FOLDER))
    log.discard()
    log.discard()
    left = sum(disk.open(f"{FOLDER}/{name}", create=False).size() for name in disk.list(FOLDER))
    assert left < held or work.done
    disk.interrupt = None
    found = content(GroupLog.open(disk, FOLDER, GROUP, SMALL))
    assert found[:5] == entries(1, 5)


def test_votes_are_written_into_room_reserved_ahead() -> None:
    """A full disk stops no election: hundreds of votes fit what opening reserved."""
    disk = MemoryFileSystem(Random(1))
    journal = HardStateJournal.open(disk, ROOT)
    size = disk.open("hard-state.journal", create=False).size()
    for term in range(1, 500):
        journal.put(GroupId(1), HardState(Term(term), NodeId(1)))
        write(journal)
    assert disk.open("hard-state.journal", create=False).size() == size


@pytest.mark.parametrize("room_for", range(6))
def test_a_journal_without_room_keeps_the_states_it_had(room_for: int) -> None:
    disk = MemoryFileSystem(Random(room_for))
    journal = HardStateJournal.open(disk, ROOT)
    journal.put(GroupId(1), HardState(Term(1), NodeId(1)))
    write(journal)
    disk.interrupt = Room(0)
    journal.put(GroupId(1), HardState(Term(2), NodeId(2)))
    work = waiting(journal)
    assert journal.durable_ticket < journal.ticket
    disk.interrupt = None
    if room_for % 2:
        work.run()
        journal.written(work)
        assert journal.durable_ticket == journal.ticket
    else:
        journal.close()
    found = HardStateJournal.open(disk, ROOT).get(GroupId(1))
    number = 2 if room_for % 2 else 1
    assert found == HardState(Term(number), NodeId(number))


def test_a_group_without_room_is_made_later() -> None:
    """The same call may be repeated, however much of its folder was made already."""
    for room_for in range(12):
        disk = MemoryFileSystem(Random(room_for))
        folder = opened_folder(disk, 1, (1,))
        disk.interrupt = room = Room(room_for)
        try:
            GroupLog.create(disk, folder.create_group(GroupId(1), "text"), 1, SMALL)
        except DiskFull:
            room.make()
            made = folder.create_group(GroupId(1), "text")
            if not GroupLog.exists(disk, made):
                GroupLog.create(disk, made, 1, SMALL)
        assert folder.manifest(GroupId(1)) == "text"
        assert GroupLog.open(disk, folder.group_folder(GroupId(1)), 1, SMALL).last_index == 0


def test_a_sync_without_room_is_a_failed_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel had taken the bytes already, and may have dropped them."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = PosixFile("/dev/null", os.open("/dev/null", os.O_RDWR))
    monkeypatch.setattr(os, "fdatasync", full)
    for _ in range(2):
        with pytest.raises(DiskFailed):
            file.sync()
    file.close()


def test_a_text_that_finds_no_room_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again for as long as the disk is full, which may be hours."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = opened_folder(PosixFileSystem(tmp_path), 1, (1,))
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        for _ in range(3):
            with pytest.raises(DiskFull):
                folder.create_group(GroupId(1), "text")
            with pytest.raises(DiskFull):
                folder.note_deletions(LogIndex(7))
    assert len(os.listdir("/proc/self/fd")) == len(before)
    folder.close()
