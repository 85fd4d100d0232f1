"""Terms and votes: durable together, never falling, never forgotten because of damaged bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.types import HardState, LastEntry, LogIndex, NodeId, Term, VotersAt
from raftlog.errors import CorruptFile, DiskFailed
from raftlog.storage import hard_state
from raftlog.storage.contract import FileSystem
from raftlog.storage.frames import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from raftlog.storage.hard_state import (
    JOURNAL_COPIES,
    JOURNAL_NAME,
    HardStateJournal,
    JournalReport,
)
from raftlog.storage.log import GroupLog
from tests.storage.disks import FOLDER, GROUP, SMALL, disk_of, files_of, flipped, new_disk, write
from tests.storage.memory import MemoryFileSystem


def state(term: int, vote: int = 0) -> HardState:
    return HardState(Term(term), NodeId(vote))


def states(journal: HardStateJournal) -> dict[int, HardState]:
    found = {group: journal.get(group) for group in range(10)}
    return {group: known for group, known in found.items() if known is not None}


def test_each_field_survives_a_restart(disk: FileSystem) -> None:
    journal = HardStateJournal.open(disk, FOLDER)
    assert journal.get(0) is None
    journal.put(0, state(3, 2))
    journal.put(7, state(5))
    write(journal)
    journal = HardStateJournal.open(disk, FOLDER)
    assert states(journal) == {0: state(3, 2), 7: state(5)}
    journal.put(0, state(4))
    journal.put(7, state(5, 1))
    journal.close()
    journal = HardStateJournal.open(disk, FOLDER)
    assert states(journal) == {0: state(4), 7: state(5, 1)}
    assert journal.report.boots == journal._boots[:1]
    report = replace(journal.report, boots=())
    assert report == JournalReport(groups=2), "nothing was torn or damaged"


@pytest.mark.parametrize("damaged", [*JOURNAL_COPIES, ""])
def test_a_journal_keeps_the_boot_ids_since_a_process_was_registered(damaged: str) -> None:
    """Also where one copy is damaged, and whatever was written since."""
    disk = new_disk()
    assert HardStateJournal.open(disk, FOLDER).boot_ids == (), "it is made"
    known: tuple[str, ...] = ()
    for number in range(1, 8):
        journal = HardStateJournal.open(disk, FOLDER, must_exist=True)
        assert journal.boot_ids[:-1] == known
        assert journal.boot_ids[-1] not in known
        known = journal.boot_ids
        journal.put(GROUP, state(number, 2))
        if number == 4:
            journal.registered(LogIndex(77))
            assert (known := known[-1:]) == journal.boot_ids
        assert journal.registered_at == (77 if number >= 4 else 0)
        if number % 3 == 0:
            journal.rewrite()
        write(journal)
        if damaged:
            file = disk.open(f"{FOLDER}/{damaged}", create=False)
            file.write_at(SEGMENT_HEADER_BYTES + 1, [b"\xff"])
            file.sync()
            file.close()


def test_of_many_processes_that_were_not_registered_the_first_and_the_last_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them was registered at least: the first."""
    monkeypatch.setattr(hard_state, "BOOT_IDS_MAX", 8)
    disk = new_disk()
    HardStateJournal.open(disk, FOLDER).close()
    boots = []
    for _ in range(20):
        journal = HardStateJournal.open(disk, FOLDER, must_exist=True)
        journal.close()
        boots.append(journal.boot_ids[-1])
    assert journal.boot_ids == (boots[0], *boots[-8:])


def test_who_decides_survives_a_restart_with_former_voters(disk: FileSystem) -> None:
    many = VotersAt(LogIndex(1 << 40), tuple(map(NodeId, range(1, 8))), (NodeId(9), NodeId(11)))
    held = {
        1: state(3, 2)._replace(voters=many),
        2: state(1, 1)._replace(voters=VotersAt(LogIndex(4), (NodeId(3),), term=Term(1 << 40))),
        3: state(2)._replace(recovery=1, lost=LastEntry(Term(2), LogIndex(8)), voters=many),
        4: state(3, 2)._replace(voters=many._replace(held=True)),
    }
    journal = HardStateJournal.open(disk, FOLDER)
    for group, its in held.items():
        journal.put(group, its)
    write(journal)
    journal = HardStateJournal.open(disk, FOLDER)
    assert states(journal) == held
    fewer = held[1]._replace(voters=VotersAt(LogIndex(9), (NodeId(2),)))
    journal.put(1, fewer)
    journal.close()
    assert states(HardStateJournal.open(disk, FOLDER)) == held | {1: fewer}


@pytest.mark.parametrize("copy", JOURNAL_COPIES)
def test_of_voters_that_only_one_copy_has_the_later_are_known(copy: str) -> None:
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(3, 2))
    write(journal)
    before = files_of(disk)
    later = state(3, 2)._replace(voters=VotersAt(LogIndex(4), (NodeId(1),)))
    journal.put(1, later)
    write(journal)
    after = files_of(disk)
    mixed = disk_of(before | {copy: after[copy]})
    assert states(HardStateJournal.open(mixed, FOLDER)) == {1: later}


def test_a_forgotten_group_stays_forgotten(disk: FileSystem) -> None:
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(3, 2))
    journal.put(2, state(3, 2))
    write(journal)
    journal.forget(1)
    journal.forget(9)
    assert states(journal) == {2: state(3, 2)}
    write(journal)
    assert states(HardStateJournal.open(disk, FOLDER)) == {2: state(3, 2)}


def test_a_vote_is_given_once_a_term_and_a_term_never_falls() -> None:
    journal = HardStateJournal.open(new_disk(), FOLDER)
    journal.put(1, state(3))
    journal.put(1, state(3, 2))
    journal.put(1, state(3, 2))
    with pytest.raises(AssertionError):
        journal.put(1, state(3, 1))
    with pytest.raises(AssertionError):
        journal.put(1, state(3))
    with pytest.raises(AssertionError):
        journal.put(1, state(2, 2))
    journal.put(1, state(4, 1))
    assert journal.get(1) == state(4, 1)


def test_where_a_lost_log_ended_survives_restarts_and_rewrites(disk: FileSystem) -> None:
    lost = LastEntry(Term(2), LogIndex(1 << 40))
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(3, 2)._replace(recovery=1, lost=lost))
    write(journal)
    journal.close()
    for _ in range(2):
        journal = HardStateJournal.open(disk, FOLDER)
        assert states(journal) == {1: state(3, 2)._replace(recovery=1, lost=lost)}
        journal.close()
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(3, 2)._replace(recovery=2))
    write(journal)
    journal.close()
    assert states(HardStateJournal.open(disk, FOLDER)) == {1: state(3, 2)._replace(recovery=2)}


def test_a_recovery_survives_a_restart_and_is_never_undone(disk: FileSystem) -> None:
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(3, 2)._replace(recovery=1))
    write(journal)
    journal.put(2, state(4))
    journal.put(1, state(3, 2)._replace(recovery=2))
    write(journal)
    journal = HardStateJournal.open(disk, FOLDER)
    assert states(journal) == {1: state(3, 2)._replace(recovery=2), 2: state(4)}
    with pytest.raises(AssertionError):
        journal.put(1, state(5))
    journal.forget(1)
    write(journal)
    assert states(HardStateJournal.open(disk, FOLDER)) == {2: state(4)}


def test_tickets_say_what_is_durable() -> None:
    journal = HardStateJournal.open(new_disk(), FOLDER)
    journal.put(1, state(1))
    first = journal.ticket
    assert journal.durable_ticket < first
    work = journal.take_write()
    assert work is not None
    journal.put(2, state(1))
    second = journal.ticket
    work.run()
    assert journal.durable_ticket < first
    journal.written(work)
    assert first <= journal.durable_ticket < second
    journal.put(2, state(1))
    assert journal.ticket == second, "nothing changed"
    write(journal)
    assert journal.durable_ticket == second
    assert journal.take_write() is None


def test_one_sync_of_each_copy_serves_many_groups() -> None:
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    seen: list[str] = []
    disk.interrupt = lambda operation, path: seen.append(operation)
    for group in range(100):
        journal.put(group, state(1, 1))
    write(journal)
    assert seen.count("sync") == len(JOURNAL_COPIES)


@pytest.mark.slow
def test_the_file_stays_bounded_and_loses_nothing_when_written_again(disk: FileSystem) -> None:
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(5, state(1, 3))
    sizes = []
    for term in range(1, 80):
        for group in range(10, 310):
            journal.put(group, state(term, 1))
        write(journal)
        sizes.append(len(files_of(disk)[JOURNAL_NAME]))
    assert max(sizes) <= 256 * 1024
    assert sizes != sorted(sizes), "it was rewritten at least once"
    assert sorted(disk.list(FOLDER)) == sorted(JOURNAL_COPIES)
    journal = HardStateJournal.open(disk, FOLDER)
    assert states(journal) == {5: state(1, 3)}
    assert {journal.get(group) for group in range(10, 310)} == {state(79, 1)}


def test_a_failed_sync_is_never_tried_again() -> None:
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)

    def fail(operation: str, path: str) -> None:
        if operation == "sync":
            raise DiskFailed(file=path, problem="injected")

    journal.put(1, state(1, 1))
    work = journal.take_write()
    assert work is not None
    disk.interrupt = fail
    with pytest.raises(DiskFailed):
        work.run()
    disk.interrupt = None
    with pytest.raises(AssertionError):
        work.run()
    with pytest.raises(AssertionError):
        journal.written(work)


# ---------------------------------------------------------------- torn or damaged


def journal_bytes(*, marker: bool = False) -> bytes:
    """Terms 1 to 4 of group 1, one write each; without a marker the last has no witness."""
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    for term in range(1, 5):
        journal.put(1, state(term, 2))
        write(journal)
    if marker:
        assert journal.idle_marker()
        write(journal)
        assert not journal.idle_marker()
    return files_of(disk)[JOURNAL_NAME].rstrip(b"\0")


def opened(data: bytes) -> tuple[HardStateJournal, MemoryFileSystem]:
    disk = disk_of({JOURNAL_NAME: data})
    return HardStateJournal.open(disk, FOLDER), disk


RECORD_BYTES = 25
FRAME_BYTES = FRAME_HEADER_BYTES + RECORD_BYTES
BEGINNING = SEGMENT_HEADER_BYTES + 2 * FRAME_HEADER_BYTES
"""The header, a frame with no state, and its marker."""


def test_a_journal_truncated_at_any_byte_keeps_the_whole_writes_before() -> None:
    whole = journal_bytes() + bytes(RECORD_BYTES)
    for size in range(BEGINNING, BEGINNING + 4 * FRAME_BYTES + 1):
        journal, disk = opened(whole[:size])
        kept = (size - BEGINNING) // FRAME_BYTES
        assert journal.get(1) in ((state(kept, 2) if kept else None), state(4, 2))
        disk.crash()
        assert HardStateJournal.open(disk, FOLDER).get(1) == journal.get(1)


def test_a_flipped_byte_in_a_journal_is_damage_unless_no_witness_follows_it() -> None:
    whole = journal_bytes() + bytes(RECORD_BYTES)
    end = BEGINNING + 4 * FRAME_BYTES
    last = end - FRAME_BYTES
    for position in range(end):
        data = flipped(whole, position)
        if position >= last:
            journal, _ = opened(data)
            assert journal.get(1) == state(3, 2)
            assert journal.report.torn_position == last
            continue
        disk = disk_of({JOURNAL_NAME: data})
        with pytest.raises(CorruptFile) as caught:
            HardStateJournal.open(disk, FOLDER)
        assert caught.value.file == f"{FOLDER}/{JOURNAL_NAME}"
        assert caught.value.position <= position
        assert files_of(disk)[JOURNAL_NAME] == data, "nothing is changed"


def test_once_a_marker_bears_witness_no_vote_is_lost_to_a_flipped_byte() -> None:
    whole = journal_bytes(marker=True)
    for position in range(BEGINNING + 4 * FRAME_BYTES):
        with pytest.raises(CorruptFile):
            opened(flipped(whole, position))
    for position in range(BEGINNING + 4 * FRAME_BYTES, len(whole)):
        assert opened(flipped(whole, position))[0].get(1) == state(4, 2)


@pytest.mark.parametrize("name", JOURNAL_COPIES)
def test_no_damage_to_one_copy_loses_a_vote(name: str) -> None:
    """Bytes flipped, and the file cut, and zeroed from there on."""
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    for term in range(1, 4):
        journal.put(1, state(term, 2))
        journal.put(term + 1, state(term)._replace(recovery=1))
        write(journal)
    kept = states(journal)
    whole = {each: data[:700] for each, data in files_of(disk).items()}
    end = len(whole[name].rstrip(b"\0"))
    assert end < 700
    for position in range(0, end, 7):
        cut = whole[name][:position]
        for damaged in (flipped(whole[name], position), cut, cut + bytes(700 - position)):
            disk = disk_of(whole | {name: damaged})
            journal = HardStateJournal.open(disk, FOLDER)
            assert states(journal) == kept
            report = journal.report
            was_flipped = any(damaged[position + 1 :])
            assert not was_flipped or report.damaged is not None or report.torn_bytes > 0
            again = HardStateJournal.open(disk, FOLDER)
            assert (states(again), again.report.damaged) == (kept, None)


@pytest.mark.parametrize("name", JOURNAL_COPIES)
def test_a_check_of_the_journal_names_the_copy_that_is_damaged(name: str) -> None:
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    for term in (1, 2, 3):
        journal.put(1, state(term, 2))
        write(journal)
    check = journal.plan_check()
    assert check is not None
    assert check.run() == []
    path = f"{FOLDER}/{name}"
    sound = files_of(disk)[name]
    file = disk.open(path, create=False)
    for position in range(0, len(sound.rstrip(b"\0")), 7):
        file.write_at(0, [flipped(sound, position)])
        assert [path in str(found.file) for found in check.run()] == [True], position
    file.write_at(0, [sound])
    assert check.run() == []


def test_damage_to_both_copies_is_refused_and_changes_nothing() -> None:
    disk = new_disk()
    journal = HardStateJournal.open(disk, FOLDER)
    journal.put(1, state(1, 2))
    write(journal)
    both = {name: flipped(data, 70) for name, data in files_of(disk).items()}
    disk = disk_of(both)
    with pytest.raises(CorruptFile):
        HardStateJournal.open(disk, FOLDER)
    assert files_of(disk) == both


def test_a_journal_of_an_older_version_has_one_copy_and_gets_another() -> None:
    journal, disk = opened(journal_bytes(marker=True))
    assert (journal.get(1), journal.report.damaged) == (state(4, 2), None)
    assert files_of(disk).keys() == set(JOURNAL_COPIES)


def test_a_log_is_no_journal() -> None:
    disk = new_disk()
    GroupLog.create(disk, FOLDER, GROUP, SMALL)
    (data,) = files_of(disk).values()
    with pytest.raises(CorruptFile, match="holds LOG, not HARD_STATES"):
        opened(data)
