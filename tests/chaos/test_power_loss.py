"""What a power loss may take, and what it may not: only on files, without a node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.faulty_disk import DiskFaults, FaultyFileSystem, command
from raftlog.errors import DiskFailed
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem
from tests.chaos.disk_notes import DiskNotes, read_notes
from tests.chaos.noted_disk import NotedFileSystem, NoteFiles
from tests.chaos.power_loss import lose_power
from tests.storage.disks import FOLDER, GROUP, SMALL, content, entries, write

SEEDS = range(40)
Remains = dict[str, bytes]


@pytest.fixture(autouse=True)
def files_end_with_their_process(tmp_path: Path) -> Iterator[None]:
    """This process plays the processes that die here: it closes the files that they held."""
    yield
    for number in os.listdir("/proc/self/fd"):
        link = Path("/proc/self/fd", number)
        if link.is_symlink() and link.readlink().is_relative_to(tmp_path):
            os.close(int(number))


def remains(path: Path, prepare: Callable[[NotedFileSystem], None]) -> list[Remains]:
    """The files' bytes after a power loss, one for each seed, each time with the changes made
    again."""
    found = []
    for seed in SEEDS:
        data, files = path / f"data-{seed}", NoteFiles.of(path / f"of-{seed}", 1)
        data.mkdir()
        prepare(NotedFileSystem(PosixFileSystem(data), files))
        lose_power(data, files, Random(seed))
        assert not files.notes.exists(), "what is there after a power loss is durable"
        files = [each for each in data.rglob("*") if each.is_file()]
        found.append({str(each.relative_to(data)): each.read_bytes() for each in files})
    return found


@pytest.mark.slow
def test_what_was_synced_is_never_touched(tmp_path: Path) -> None:
    def prepare(fs: NotedFileSystem) -> None:
        file = fs.open("a", create=True)
        file.write_at(0, [b"durable!" * 1000])
        file.sync()
        fs.sync_folder("")
        file.write_at(8000, [b"lost?" * 1000])

    found = remains(tmp_path, prepare)
    assert all(each["a"][:8000] == b"durable!" * 1000 for each in found)
    tails = {each["a"][8000:] for each in found}
    assert b"" in tails
    assert b"lost?" * 1000 in tails
    assert any(tail and set(tail) == {0} for tail in tails)
    assert any(0 < len(tail) < 5000 for tail in tails), "a file may be truncated anywhere"
    assert len(tails) > 10


@pytest.mark.slow
def test_an_overwritten_byte_may_come_back(tmp_path: Path) -> None:
    def prepare(fs: NotedFileSystem) -> None:
        file = fs.open("a", create=True)
        file.write_at(0, [b"former"])
        file.sync()
        fs.sync_folder("")
        file.truncate(2)
        file.write_at(2, [b"latter"])

    found = {each["a"] for each in remains(tmp_path, prepare)}
    assert {b"former", b"folatter", b"fo"} <= found | {b"fo"}
    assert all(each[:2] == b"fo" for each in found)


@pytest.mark.slow
def test_names_that_were_not_synced_go_newest_first(tmp_path: Path) -> None:
    def prepare(fs: NotedFileSystem) -> None:
        file = fs.open("old", create=True)
        file.write_at(0, [b"old"])
        file.sync()
        fs.sync_folder("")
        fresh = fs.open("new", create=True)
        fresh.write_at(0, [b"new"])
        fresh.sync()
        fs.rename("new", "old")
        fs.make_folder("folder")
        fs.remove("old")

    found = remains(tmp_path, prepare)
    assert {tuple(sorted(each.items())) for each in found} == {
        (("old", b"old"),),
        (("new", b"new"), ("old", b"old")),
        (("old", b"new"),),
        (),
    }


def test_a_removed_folder_comes_back_whole_or_not(tmp_path: Path) -> None:
    def prepare(fs: NotedFileSystem) -> None:
        fs.make_folder("group")
        fs.sync_folder("")
        file = fs.open("group/log", create=True)
        file.write_at(0, [b"log"])
        file.sync()
        fs.sync_folder("group")
        fs.rename("group", "group.removed")
        fs.remove("group.removed")

    found = {tuple(each.items()) for each in remains(tmp_path, prepare)}
    assert found == {(("group/log", b"log"),), (("group.removed/log", b"log"),), ()}


def test_what_a_killed_process_left_unsynced_is_lost_after_the_next_one_too(
    tmp_path: Path,
) -> None:
    """The page cache outlives a process; the promise that it is written does not."""
    data, files = tmp_path / "data", NoteFiles.of(tmp_path, 1)
    data.mkdir()
    NotedFileSystem(PosixFileSystem(data), files).open("a", create=True).write_at(0, [b"x"])
    NotedFileSystem(PosixFileSystem(data), files).sync_folder("")
    unsynced = read_notes(files.notes)
    assert [len(changes) for changes in unsynced.files.values()] == [1]
    assert not unsynced.folders


@pytest.mark.slow
def test_a_log_keeps_its_durable_entries_over_any_power_loss(tmp_path: Path) -> None:
    for seed in range(60):
        random = Random(seed)
        data, files = tmp_path / f"data-{seed}", NoteFiles.of(tmp_path / f"of-{seed}", 1)
        data.mkdir()
        faults = tmp_path / f"faults-{seed}"
        fs = FaultyFileSystem(NotedFileSystem(PosixFileSystem(data), files), faults)
        fs.make_folder(FOLDER)
        fs.sync_folder("")
        log = GroupLog.create(fs, FOLDER, GROUP, SMALL)
        count = random.randrange(1, 30)
        log.append(entries(1, count))
        write(log)
        if random.randrange(2):
            count = random.randrange(1, count + 1)
            log.truncate_from(count)
            write(log)
            count -= 1
        log.append(entries(count + 1, count + 8, term=2))
        command(faults, DiskFaults(sync_fails_after=random.randrange(3)))
        work = log.take_write()
        assert work is not None
        try:
            work.run()
        except DiskFailed:
            pass
        else:
            count += 8
        lose_power(data, files, random)
        again = GroupLog.open(PosixFileSystem(data), FOLDER, GROUP, SMALL)
        assert again.last_index >= count, f"seed {seed}"
        assert [each.index for each in content(again)[:count]] == list(range(1, count + 1))


def test_notes_stay_small_however_much_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.chaos.disk_notes._GROWN_BYTES_MAX", 10_000)
    notes = DiskNotes(tmp_path / "notes")
    for position in range(1000):
        notes.file_changes(7, position, 1, size_before=position, before=b"")
        if position != 500:
            notes.file_synced(7, notes.number)
        assert (tmp_path / "notes").stat().st_size < 20_000
    notes.file_changes(7, 2000, 1, size_before=2000, before=b"")
    (left,) = read_notes(tmp_path / "notes").files[7]
    assert left.position == 2000
