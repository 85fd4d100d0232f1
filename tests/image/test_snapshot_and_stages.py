"""Snapshots and carried stages: read as written, and never read wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from raftlog.core.types import Entry, GroupId, LogIndex
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image import stages_file
from raftlog.image.manifest import StagesInfo
from raftlog.image.snapshot_file import read_snapshot, write_snapshot
from raftlog.image.stages_file import StagesFile, write_stages
from raftlog.storage.contract import FileSystem
from raftlog.storage.write import NEW_FILE_ENDING
from tests.image.images import snapshot
from tests.storage.disks import FOLDER, GROUP, disk_of, entry, files_of, flipped, new_disk

STATE = bytes(range(256)) * 3


def damages(data: bytes) -> list[bytes]:
    """Every byte flipped, and every length cut."""
    return [flipped(data, position) for position in range(len(data))] + [
        data[:length] for length in range(len(data))
    ]


def test_a_snapshot_is_read_as_it_was_written() -> None:
    disk = new_disk()
    info = snapshot(10, 70)
    write_snapshot(disk, FOLDER, GROUP, info, STATE)
    assert read_snapshot(disk, FOLDER, GROUP, info) == STATE
    write_snapshot(disk, FOLDER, GROUP, info, STATE[1:])
    assert read_snapshot(disk, FOLDER, GROUP, info) == STATE[1:]


def test_a_damaged_or_another_snapshot_is_never_read() -> None:
    disk = new_disk()
    info = snapshot(10, 70)
    write_snapshot(disk, FOLDER, GROUP, info, STATE)
    ((name, data),) = files_of(disk).items()
    for bad in damages(data):
        with pytest.raises(CorruptFile):
            read_snapshot(disk_of({name: bad}), FOLDER, GROUP, info)
    other_format = data.replace(b"snapshot 1 ", b"snapshot 0 ", 1)
    assert other_format != data
    with pytest.raises(CorruptFile, match="says that its format is 0"):
        read_snapshot(disk_of({name: other_format}), FOLDER, GROUP, info)
    with pytest.raises(CorruptFile, match="missing"):
        read_snapshot(new_disk(), FOLDER, GROUP, info)
    with pytest.raises(CorruptFile):
        read_snapshot(disk, FOLDER, GroupId(GROUP + 1), info)
    with pytest.raises(CorruptFile):
        read_snapshot(disk_of({snapshot(11, 70).name: data}), FOLDER, GROUP, snapshot(11, 70))
    with pytest.raises(CorruptFile):
        read_snapshot(disk, FOLDER, GROUP, snapshot(10, 70, term=3))


INDEXES = (3, 4, 7, 19)


def written(disk: FileSystem) -> StagesInfo:
    return write_stages(
        disk,
        FOLDER,
        GROUP,
        [entry(index, term=1 + index // 10) for index in INDEXES],
        first=LogIndex(3),
        last=LogIndex(20),
    )


def read_all(disk: FileSystem, info: StagesInfo) -> list[Entry]:
    file = StagesFile(disk, FOLDER, GROUP, info)
    try:
        found = []
        for index in INDEXES:
            assert index in file
            term, kind, command = file.command(index)
            whole = entry(index, term=1 + index // 10)
            assert (term, kind, command) == (whole.term, whole.kind, whole.payload.command)
            length = len(whole.payload.body)
            body, nothing = file.body_slices(index, [(0, length), (0, 0)])
            assert nothing == b""
            found.append(Entry(LogIndex(index), term, kind, whole.payload._replace(body=body)))
        assert 5 not in file
        return found
    finally:
        file.close()


def entries_of(disk: FileSystem, info: StagesInfo) -> list[Entry]:
    file = StagesFile(disk, FOLDER, GROUP, info)
    try:
        return [file.entry(LogIndex(index)) for index in INDEXES]
    finally:
        file.close()


def test_carried_stages_are_read_as_they_were_written() -> None:
    disk = new_disk()
    info = written(disk)
    assert (info.first, info.last) == (3, 20)
    assert read_all(disk, info) == [entry(index, term=1 + index // 10) for index in INDEXES]
    assert entries_of(disk, info) == read_all(disk, info)


def test_a_half_written_file_is_replaced() -> None:
    disk = new_disk()
    info = written(disk)
    path = f"{FOLDER}/{info.name}{NEW_FILE_ENDING}"
    disk.open(path, create=True).write_at(0, [b"left by a crash"])
    again = written(disk)
    assert read_all(disk, again)
    assert not disk.exists(path)


def _bodies(entries: list[Entry]) -> list[bytes]:
    return [each.payload.body for each in entries]


@pytest.mark.parametrize("damage", [lambda data: damages(data)])
def test_a_damaged_stage_is_never_read(damage: Callable[[bytes], list[bytes]]) -> None:
    """Headers and commands are checked here; slices of a body by the CRCs in its command, but an
    entry that is copied is checked as a whole."""
    disk = new_disk()
    info = written(disk)
    ((name, data),) = files_of(disk).items()
    whole = read_all(disk, info)
    body_only = 0
    for bad in damage(data):
        try:
            found = read_all(disk_of({name: bad}), info)
        except (CorruptFile, FormatUnsupported, KeyError):
            continue
        assert _bodies(found) != _bodies(whole), "the damage lies in a body"
        with pytest.raises(CorruptFile):
            entries_of(disk_of({name: bad}), info)
        body_only += 1
    assert 0 < body_only < len(b"".join(_bodies(whole))) + 1


def test_another_stages_file_of_the_same_name_is_refused() -> None:
    disk, other = new_disk(1), new_disk(2)
    info = written(disk)
    written(other)
    with pytest.raises(CorruptFile):
        StagesFile(other, FOLDER, GROUP, info)
    with pytest.raises(CorruptFile, match="missing"):
        StagesFile(new_disk(), FOLDER, GROUP, info)
    with pytest.raises(CorruptFile):
        StagesFile(disk, FOLDER, GroupId(GROUP + 1), info)


def test_stages_whose_indexes_do_not_rise_are_damage() -> None:
    disk = new_disk()
    stages = [entry(3), entry(7), entry(7)]
    info = write_stages(disk, FOLDER, GROUP, stages, first=LogIndex(3), last=LogIndex(7))
    with pytest.raises(CorruptFile, match="entry 7 follows entry 7"):
        StagesFile(disk, FOLDER, GROUP, info)


@pytest.mark.parametrize(
    ("bound", "own", "problem"),
    [
        ("RECEIVED_FRAMES_MAX", True, "it has more than 3 frames"),
        ("ENTRY_BYTES_MAX", False, "entry 3 would have"),
    ],
)
def test_stages_have_bounds_before_they_are_read(
    bound: str, own: bool, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`own`: a file that the node has made itself is read all the same."""
    disk = new_disk()
    info = written(disk)
    assert StagesFile(disk, FOLDER, GROUP, info, received=True)
    monkeypatch.setattr(stages_file, bound, 3)
    with pytest.raises(CorruptFile, match=problem):
        StagesFile(disk, FOLDER, GROUP, info, received=True)
    if own:
        assert read_all(disk, info)


def test_a_stage_of_an_unknown_kind_is_damage() -> None:
    disk = new_disk()
    strange: Any = 7
    stage = replace(entry(3), kind=strange)
    info = write_stages(disk, FOLDER, GROUP, [stage], first=LogIndex(3), last=LogIndex(3))
    with pytest.raises(CorruptFile, match="the kind of its frame is 7"):
        StagesFile(disk, FOLDER, GROUP, info)
