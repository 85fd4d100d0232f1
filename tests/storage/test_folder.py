"""The data folder: one owner, one identity, whole groups, and nothing removed unread."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from raftlog.core.types import (
    CONTROLLER_GROUP,
    FORMAT_STAMP,
    GroupId,
    HardState,
    LogIndex,
    NodeId,
    Term,
)
from raftlog.errors import (
    CorruptFile,
    DataFolderForeign,
    DataFolderLocked,
    FormatUnsupported,
    RaftlogError,
    StoreMissing,
    StoreUnfinished,
)
from raftlog.storage.checked_file import (
    TEXT,
    read_checked,
    read_copies,
    write_checked,
    write_copies,
)
from raftlog.storage.contract import FileSystem
from raftlog.storage.folder import (
    DataFolder,
    Identity,
    complete_store,
    make_store,
    read_identity,
)
from raftlog.storage.hard_state import JOURNAL_COPIES
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem
from tests.storage.disks import SMALL, content, entries, files_of, flipped, write
from tests.storage.memory import MemoryFileSystem
from tests.stores import founders, opened_folder

MANIFEST = '{"name": "flights", "schema": "größe"}'


FOUNDERS = (1, 2, 3)


def opened(
    disk: FileSystem, *, cluster_id: str = "c1", node: int = 2, store_uuid: str = ""
) -> DataFolder:
    return opened_folder(disk, node, FOUNDERS, cluster_id=cluster_id, store_uuid=store_uuid)


def test_a_store_is_made_completed_and_keeps_its_identity(empty_disk: FileSystem) -> None:
    assert read_identity(empty_disk) is None
    made = make_store(empty_disk, node=NodeId(2), new_store_uuid="store-2")
    assert made == Identity(cluster_id="", node=NodeId(2), store_uuid="store-2")
    with pytest.raises(StoreUnfinished):
        DataFolder.open(empty_disk, cluster_id="c1", node=NodeId(2))
    assert make_store(empty_disk, node=NodeId(2), new_store_uuid="another") == made
    folder = opened(empty_disk, store_uuid="another")
    identity = Identity(
        cluster_id="c1", node=NodeId(2), store_uuid="store-2", founders=founders(FOUNDERS)
    )
    assert folder.identity == identity
    assert identity.first_voters == FOUNDERS
    assert folder.groups() == [CONTROLLER_GROUP]
    folder.close()
    again = opened(empty_disk, store_uuid="another")
    assert again.identity == identity == read_identity(empty_disk)
    again.close()


def test_an_empty_folder_is_no_store_and_stays_empty(empty_disk: FileSystem) -> None:
    for _ in range(2):
        with pytest.raises(StoreMissing, match="no store of node 2"):
            DataFolder.open(empty_disk, cluster_id="c1", node=NodeId(2))
        empty_disk.make_folder("")
    assert [name for name in empty_disk.list("") if name != "lock"] == []
    with pytest.raises(StoreMissing):
        complete_store(empty_disk, cluster_id="c1", node=NodeId(2), founders=(), manifest="{}")


def test_another_store_of_a_founder_has_no_first_voters(empty_disk: FileSystem) -> None:
    """It may have forgotten votes: its node must be named by the log before it votes."""
    folder = opened(empty_disk, store_uuid="another")
    assert folder.identity.founders == founders(FOUNDERS)
    assert folder.identity.first_voters == ()
    folder.close()


def test_a_store_that_has_voted_is_neither_made_nor_completed_again(
    empty_disk: FileSystem,
) -> None:
    voted(empty_disk)
    before = read_identity(empty_disk)
    with pytest.raises(DataFolderForeign, match="node 2 of cluster c1"):
        make_store(empty_disk, node=NodeId(2), new_store_uuid="another")
    with pytest.raises(DataFolderForeign):
        complete_store(empty_disk, cluster_id="c2", node=NodeId(2), founders=(), manifest="{}")
    assert read_identity(empty_disk) == before


def test_a_new_store_of_another_node_is_not_taken(empty_disk: FileSystem) -> None:
    make_store(empty_disk, node=NodeId(2), new_store_uuid="u")
    with pytest.raises(DataFolderForeign, match="belongs to node 2"):
        make_store(empty_disk, node=NodeId(3), new_store_uuid="another")


def test_one_process_has_the_folder(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    with pytest.raises(DataFolderLocked):
        opened(empty_disk)
    folder.close()
    opened(empty_disk).close()


@pytest.mark.parametrize("written", ['"format": "0-2020-01-01"', '"other": 1'])
def test_a_folder_of_another_format_is_rejected_with_what_to_do_and_left_unchanged(
    empty_disk: FileSystem, written: str
) -> None:
    """A program from before the identity had a format wrote none."""
    opened(empty_disk).close()
    copies = ("identity", "identity.2")
    text = read_copies(empty_disk, copies, TEXT).contents[0].decode()
    other = text.replace(f'"format": "{FORMAT_STAMP}"', written)
    assert other != text
    write_copies(empty_disk, copies, TEXT, [other.encode()])
    with pytest.raises(FormatUnsupported, match="new data folders") as caught:
        opened(empty_disk)
    assert caught.value.supported == FORMAT_STAMP
    assert caught.value.found in ("0-2020-01-01", "unknown")
    assert read_copies(empty_disk, copies, TEXT).contents == (other.encode(),) * 2


@pytest.mark.parametrize("content", ["[" * 100_000, '{"format": ' + "9" * 5_000 + "}", "[]", "7"])
def test_an_identity_of_hostile_json_is_an_error_and_no_traceback(
    empty_disk: FileSystem, content: str
) -> None:
    opened(empty_disk).close()
    write_copies(empty_disk, ("identity", "identity.2"), TEXT, [content.encode()])
    with pytest.raises(CorruptFile, match="it is not an identity"):
        opened(empty_disk)


@pytest.mark.parametrize(("cluster_id", "node"), [("c2", 2), ("c1", 3)])
def test_another_nodes_folder_is_refused_and_left_unchanged(
    empty_disk: FileSystem, cluster_id: str, node: int
) -> None:
    opened(empty_disk).close()
    with pytest.raises(DataFolderForeign) as caught:
        DataFolder.open(empty_disk, cluster_id=cluster_id, node=NodeId(node))
    assert "node 2 of cluster c1" in str(caught.value)
    opened(empty_disk).close()


def test_a_folder_with_other_things_in_it_is_refused(empty_disk: FileSystem) -> None:
    empty_disk.make_folder("")
    empty_disk.open("thesis.txt", create=True).close()
    with pytest.raises(DataFolderForeign, match=r"thesis\.txt"):
        opened(empty_disk)
    assert [name for name in empty_disk.list("") if name != "lock"] == ["thesis.txt"]


def test_a_group_is_there_with_its_manifest_or_not_at_all(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    for group in (12, 3, 0):
        path = folder.create_group(GroupId(group), MANIFEST)
        assert path == folder.group_folder(GroupId(group))
        log = GroupLog.create(empty_disk, path, group, SMALL)
        log.append(entries(1, group))
        log.close()
    folder.create_group(GroupId(3), "{}")
    folder.close()
    folder = opened(empty_disk)
    assert folder.groups() == [0, 3, 12]
    assert folder.manifest(GroupId(12)) == MANIFEST
    assert folder.manifest(GroupId(3)) == "{}"
    log = GroupLog.open(empty_disk, folder.group_folder(GroupId(12)), 12, SMALL)
    assert content(log) == entries(1, 12)


def test_a_removed_group_is_gone(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    for group in (1, 2):
        path = folder.create_group(GroupId(group), MANIFEST)
        GroupLog.create(empty_disk, path, group, SMALL).close()
    folder.remove_group(GroupId(1))
    assert folder.groups() == [0, 2]
    folder.close()
    assert empty_disk.list("groups") == ["0", "2"]
    assert opened(empty_disk).groups() == [0, 2]


def test_removing_a_group_does_not_disturb_another_removal(
    empty_disk: FileSystem,
) -> None:
    """Two topics deleted at once, each on a thread: neither may take the other's files away."""
    folder = opened(empty_disk)
    folder.create_group(GroupId(1), MANIFEST)
    empty_disk.make_folder("groups/2.removed")
    folder.remove_group(GroupId(1))
    assert empty_disk.list("groups") == ["0", "2.removed"]
    folder.close()
    opened(empty_disk).close()
    assert empty_disk.list("groups") == ["0"]


def test_files_that_nobody_will_finish_are_gone_before_anything_is_written(
    empty_disk: FileSystem,
) -> None:
    """A killed compaction may have taken a disk's last room, and a start writes the journal."""
    folder = opened(empty_disk)
    group = folder.create_group(GroupId(7), MANIFEST)
    folder.close()
    before = empty_disk.list(group)
    for name in ("history-1-2.new", "history-1-1"):
        empty_disk.open(f"{group}/{name}", create=True).close()
    opened(empty_disk).close()
    assert empty_disk.list(group) == sorted([*before, "history-1-1"])


def test_hard_states_live_beside_the_groups(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    journal = folder.open_journal()
    journal.put(GroupId(4), HardState(Term(2), NodeId(1)))
    journal.close()
    folder.close()
    folder = opened(empty_disk)
    assert folder.open_journal().get(GroupId(4)) == HardState(Term(2), NodeId(1))


def voted(disk: FileSystem) -> None:
    folder = opened(disk)
    journal = folder.open_journal()
    journal.put(GroupId(4), HardState(Term(2), NodeId(1)))
    journal.close()
    folder.create_group(GroupId(4), MANIFEST)
    folder.note_deletions(LogIndex(17))
    folder.close()


@pytest.mark.parametrize("lost", [("identity", "identity.2"), JOURNAL_COPIES, ("groups",)])
def test_a_folder_with_a_part_missing_is_refused(
    empty_disk: FileSystem, lost: tuple[str, ...]
) -> None:
    voted(empty_disk)
    for name in lost:
        empty_disk.remove(name)
    with pytest.raises((CorruptFile, DataFolderForeign)):
        opened(empty_disk).open_journal()


def test_votes_without_an_identity_are_not_taken_for_a_new_folder(empty_disk: FileSystem) -> None:
    voted(empty_disk)
    for name in ("identity", "identity.2", "deletions", "deletions.2", "groups"):
        empty_disk.remove(name)
    with pytest.raises(CorruptFile, match="votes"):
        opened(empty_disk)


COPIES = [
    ("identity", "identity.2"),
    ("deletions", "deletions.2"),
    ("groups/4/manifest", "groups/4/manifest.2"),
]


def damages(whole: bytes) -> list[bytes]:
    """Each byte flipped, and the text cut anywhere."""
    flips = [flipped(whole, position, 0x01) for position in range(len(whole))]
    return flips + [whole[:size] for size in range(len(whole))]


def overwrite(disk: FileSystem, path: str, data: bytes) -> None:
    file = disk.open(path, create=False)
    file.truncate(0)
    file.write_at(0, [data])


def told(disk: FileSystem) -> tuple[Identity, str, LogIndex]:
    """What the texts of a folder say."""
    folder = opened(disk, store_uuid="another")
    folder.mend()
    folder.mend_manifest(GroupId(4))
    folder.close()
    return folder.identity, folder.manifest(GroupId(4)), folder.deletions_index()


@pytest.mark.slow
@pytest.mark.parametrize("paths", COPIES)
def test_a_text_is_read_from_the_other_copy_and_mended_at_every_byte(
    paths: tuple[str, str],
) -> None:
    disk = MemoryFileSystem(Random(1))
    voted(disk)
    sound = told(disk)
    for path in paths:
        file = disk.open(path, create=False)
        whole = file.read_at(0, file.size())
        for bad in damages(whole):
            overwrite(disk, path, bad)
            assert told(disk) == sound
            assert file.read_at(0, 1 << 20) == bad, "the file that is open is the damaged one"
            file = disk.open(path, create=False)
            assert file.read_at(0, 1 << 20) == whole, "mended"
        disk.remove(path)
        assert told(disk) == sound
        assert disk.exists(path)


@pytest.mark.parametrize("paths", COPIES)
def test_a_text_with_both_copies_damaged_is_refused(paths: tuple[str, str]) -> None:
    disk = MemoryFileSystem(Random(1))
    voted(disk)
    for path in paths:
        file = disk.open(path, create=False)
        overwrite(disk, path, flipped(file.read_at(0, file.size()), 5))
    with pytest.raises(RaftlogError):
        told(disk)


@pytest.mark.parametrize("paths", COPIES)
def test_a_folder_with_one_copy_of_a_text_gets_the_second(paths: tuple[str, str]) -> None:
    disk = MemoryFileSystem(Random(1))
    voted(disk)
    sound = told(disk)
    disk.remove(paths[1])
    folder = opened(disk)
    assert folder.mend() == []
    assert folder.mend_manifest(GroupId(4)) is None, "nothing was damaged"
    folder.close()
    disk.remove(paths[0])
    assert told(disk) == sound


def test_folders_set_aside_are_listed_with_their_bytes(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    assert folder.set_aside_folders() == {}
    for number in (1, 2):
        path = folder.create_group(GroupId(4), MANIFEST)
        GroupLog.create(empty_disk, path, 4, SMALL).close()
        byte_count = sum(map(len, files_of(empty_disk, path).values()))
        folder.set_aside(GroupId(4), number)
        kept = folder.set_aside_folders()
        assert kept[empty_disk.location(f"groups/4.damaged-{number}")] == byte_count > 0
        assert len(kept) == number
    assert folder.groups() == [CONTROLLER_GROUP]
    empty_disk.remove("groups/4.damaged-1")
    assert len(folder.set_aside_folders()) == 1


def test_a_folder_set_aside_spares_what_has_its_name_and_what_was_made_since(
    empty_disk: FileSystem,
) -> None:
    folder = opened(empty_disk)
    path = folder.create_group(GroupId(4), MANIFEST)
    empty_disk.make_folder("groups/4.damaged-1")
    empty_disk.open("groups/4.damaged-2", create=True).close()
    folder.set_aside(GroupId(4), 1)
    assert not empty_disk.exists(path)
    assert "manifest" in empty_disk.list("groups/4.damaged-3")
    folder.create_group(GroupId(4), MANIFEST)
    folder.set_aside(GroupId(4), 1)
    assert folder.groups() == [CONTROLLER_GROUP, 4]
    kept = folder.set_aside_folders()
    assert [name[-1] for name, byte_count in kept.items() if byte_count] == ["3"]
    assert len(kept) == 3


@pytest.mark.parametrize("copied", [JOURNAL_COPIES, JOURNAL_COPIES[:1], JOURNAL_COPIES[1:]])
def test_votes_of_another_store_are_never_taken_for_the_own(copied: tuple[str, ...]) -> None:
    disk, other = (MemoryFileSystem(Random(seed)) for seed in (1, 2))
    voted(disk)
    opened(other, store_uuid="another").open_journal().close()

    def copy() -> None:
        for name in copied:
            file = other.open(name, create=False)
            overwrite(disk, name, file.read_at(0, file.size()))

    copy()
    folder = opened(disk)
    if copied == JOURNAL_COPIES:
        with pytest.raises(CorruptFile, match="it belongs to another store"):
            folder.open_journal()
        return
    journal = folder.open_journal()
    assert journal.report.damaged is not None
    assert journal.get(GroupId(4)) == HardState(Term(2), NodeId(1))
    for found in (0, 1):
        check = journal.plan_check()
        assert check is not None
        assert len(check.run()) == found, "opening has written it again"
        copy()


def test_a_store_left_without_an_identity_makes_room_for_another(empty_disk: FileSystem) -> None:
    """A crash came before the identity. Nothing ran from it."""
    opened(empty_disk, store_uuid="another").close()
    for name in ("identity", "identity.2", "groups"):
        empty_disk.remove(name)
    folder = opened(empty_disk)
    assert folder.open_journal().report.damaged is None
    folder.close()


def test_a_text_of_another_length_is_refused_and_not_read(tmp_path: Path) -> None:
    disk = PosixFileSystem(tmp_path)
    write_checked(disk, "text", TEXT, [b"what was written"])
    os.truncate(tmp_path / "text", 1 << 40)
    with pytest.raises(CorruptFile, match="1099511627776 bytes"):
        read_checked(disk, "text", TEXT)


def test_another_disk_format_is_refused(
    empty_disk: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.storage.checked_file.FORMAT_VERSION", 9)
    opened(empty_disk).close()
    monkeypatch.undo()
    before = files_of(empty_disk, "groups/0")
    with pytest.raises(FormatUnsupported) as caught:
        opened(empty_disk)
    assert (caught.value.found, caught.value.supported) == ("9", "1")
    assert files_of(empty_disk, "groups/0") == before


class Killed(BaseException):
    """The process died here."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_crash_anywhere_leaves_a_folder_that_opens(seed: int) -> None:
    """It has an identity or is created again; a group has a manifest or is not there at all."""
    number = 0
    finished = False
    while not finished:
        disk = MemoryFileSystem(Random(1000 * seed + number))
        left = [number]

        def count(operation: str, path: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        disk.interrupt = count
        durable: set[int] = set()
        wanted: set[int] = set()
        uuid = ""
        try:
            folder = opened(disk)
            uuid = folder.identity.store_uuid
            for group in (1, 2):
                wanted.add(group)
                path = folder.create_group(GroupId(group), MANIFEST)
                log = GroupLog.create(disk, path, group, SMALL)
                log.append(entries(1, 5))
                write(log)
                durable.add(group)
            wanted.discard(1)
            folder.remove_group(GroupId(1))
            durable.discard(1)
            finished = True
        except Killed:
            number += 1
        disk.interrupt = None
        disk.crash()
        folder = opened(disk, store_uuid="u2")
        assert not uuid or folder.identity.store_uuid == uuid
        groups = set(folder.groups()) - {CONTROLLER_GROUP}
        assert durable & wanted <= groups <= durable | wanted
        for group in groups & durable:
            assert folder.manifest(GroupId(group)) == MANIFEST
            log = GroupLog.open(disk, folder.group_folder(GroupId(group)), group, SMALL)
            assert content(log) == entries(1, 5)
        folder.open_journal().close()
    assert number > 30


def test_the_index_of_deletions_is_kept_and_never_falls(empty_disk: FileSystem) -> None:
    folder = opened(empty_disk)
    assert folder.deletions_index() == 0
    folder.note_deletions(LogIndex(7))
    folder.note_deletions(LogIndex(5))
    folder.close()
    assert opened(empty_disk).deletions_index() == 7


SPARSE_BYTES = 200 << 30


def lengthened(path: Path) -> None:
    """Make the file 200 GiB long; it takes no room."""
    with path.open("r+b") as file:
        file.truncate(SPARSE_BYTES)


def test_files_longer_than_any_that_is_written_are_refused_at_once(tmp_path: Path) -> None:
    disk = PosixFileSystem(tmp_path)
    folder = opened(disk)
    path = folder.create_group(GroupId(1), MANIFEST)
    log = GroupLog.create(disk, path, 1, SMALL)
    log.append(entries(1, 3))
    write(log)
    log.close()
    [segment] = (tmp_path / path).glob("*.log")
    lengthened(segment)
    began_s = time.process_time()
    with pytest.raises(CorruptFile, match=str(SPARSE_BYTES)):
        GroupLog.open(disk, path, 1, SMALL)
    assert segment.stat().st_size == SPARSE_BYTES, "nothing is changed"
    for name in JOURNAL_COPIES:
        lengthened(tmp_path / name)
    with pytest.raises(CorruptFile, match=str(SPARSE_BYTES)):
        folder.open_journal()
    assert time.process_time() - began_s < 1, "it reads them"
    folder.close()


@pytest.mark.parametrize("names", [JOURNAL_COPIES, JOURNAL_COPIES[:1], JOURNAL_COPIES[1:]])
def test_a_folder_in_the_place_of_a_journal_is_named(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    folder = opened(PosixFileSystem(tmp_path))
    for name in names:
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
    with pytest.raises(CorruptFile) as caught:
        folder.open_journal()
    assert caught.value.file == str(tmp_path / names[0])
    assert "a folder is in its place" in caught.value.problem
    assert (tmp_path / names[0]).is_dir(), "it stays"
    folder.close()
