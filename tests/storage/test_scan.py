"""The scan of a log's files by another process: what is asked for, whole, or an error."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.types import Entry, LogIndex
from raftlog.errors import CorruptFile
from raftlog.storage.contract import FileSystem
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Purpose,
    encode_frame_header,
)
from raftlog.storage.log import GroupLog
from raftlog.storage.recovery import read_segment_header
from raftlog.storage.scan import read_entry, scan
from tests.storage.disks import (
    FOLDER,
    GROUP,
    ONE_SEGMENT,
    SMALL,
    disk_of,
    entries,
    entry,
    files_of,
    flipped,
    new_disk,
    write,
)
from tests.storage.memory import MemoryFile

LAST = 60


def filled(disk: FileSystem) -> GroupLog:
    """60 entries over several segments, with markers between them."""
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for first in range(1, LAST, 5):
        log.append(entries(first, first + 4, term=1 + first // 20))
        write(log)
        log.idle_marker()
        write(log)
    return log


def scanned(disk: FileSystem, first: int, last: int) -> list[Entry]:
    """Entries [first, last] read by a scan, each checked against its command."""
    found = []
    for place, command in scan(disk, FOLDER, GROUP, LogIndex(first), LogIndex(last)):
        entry = read_entry(disk, place)
        assert entry.payload.command == command
        found.append(entry)
    return found


@pytest.mark.slow
def test_any_span_is_read_while_the_log_is_written(disk: FileSystem) -> None:
    log = filled(disk)
    whole = log.entries(1, LAST, 1 << 40)
    for first in range(1, LAST + 1, 7):
        for last in range(first, LAST + 1, 5):
            assert scanned(disk, first, last) == whole[first - 1 : last]
    log.append(entries(LAST + 1, LAST + 20, term=9))  # not on disk yet
    assert scanned(disk, 1, LAST) == whole
    assert list(scan(disk, FOLDER, GROUP, LogIndex(5), LogIndex(4))) == []
    log.close()


def test_segments_may_be_dropped_before_what_is_asked_for() -> None:
    disk = new_disk()
    log = filled(disk)
    whole = log.entries(1, LAST, 1 << 40)
    removal = log.drop_to(30)
    removal.run()
    first = removal.base[0] + 1
    assert first > 10
    assert scanned(disk, first, LAST) == whole[first - 1 :]
    with pytest.raises(CorruptFile):
        scanned(disk, first - 1, LAST)


def test_a_torn_tail_behind_what_is_asked_for_does_no_harm() -> None:
    disk = new_disk()
    log = filled(disk)
    whole = log.entries(1, LAST, 1 << 40)
    log.append(entries(LAST + 1, LAST + 3, term=9))
    work = log.take_write()
    assert work is not None
    work.run()
    name = max(files_of(disk))
    data = files_of(disk)[name]
    end = len(data.rstrip(b"\0"))
    cut = {**files_of(disk), name: data[: end - 20]}
    assert scanned(disk_of(cut), 1, LAST) == whole


def test_damage_is_never_read() -> None:
    """A flipped byte is an error or lies where nothing was asked for: never another entry."""
    for seed in range(40):
        _is_damage_or_whole(seed)


def _is_damage_or_whole(seed: int) -> None:
    random = Random(seed)
    disk = new_disk()
    whole = filled(disk).entries(1, LAST, 1 << 40)
    files = files_of(disk)
    name = random.choice(sorted(files))
    position = random.randrange(len(files[name].rstrip(b"\0")))
    damaged = disk_of({**files, name: flipped(files[name], position)})
    try:
        assert scanned(damaged, 1, LAST) == whole
    except CorruptFile as error:
        told = error.file
    else:
        told = ""
    assert told in ("", f"{FOLDER}/{name}")
    assert told or files[name][position:].count(b"command") == 0, "it lies behind the last entry"


def test_a_missing_segment_or_end_is_an_error() -> None:
    disk = new_disk()
    filled(disk)
    files = files_of(disk)
    for name in files:
        rest = {other: data for other, data in files.items() if other != name}
        with pytest.raises(CorruptFile):
            scanned(disk_of(rest), 1, LAST)
    with pytest.raises(CorruptFile):
        scanned(disk, 1, LAST + 1)
    for name in files:
        disk.remove(f"{FOLDER}/{name}")
    with pytest.raises(CorruptFile, match="does not hold entry 1"):
        scanned(disk, 1, LAST)


@pytest.mark.slow
def test_the_log_goes_on_between_two_entries_of_a_scan(disk: FileSystem) -> None:
    """It appends, begins segments, truncates what nobody asked for and drops what was read."""
    log = filled(disk)
    whole = log.entries(1, LAST, 1 << 40)
    log.append(entries(LAST + 1, LAST + 5, term=8))
    write(log)
    found = []
    for place, _ in scan(disk, FOLDER, GROUP, LogIndex(11), LogIndex(LAST)):
        found.append(read_entry(disk, place))
        last = log.last_index
        if len(found) % 3:
            log.append(entries(last + 1, last + 3, term=9 + len(found)))
        else:
            log.truncate_from(last - 1)
        write(log)
        if log.base_index < len(found):
            log.drop_to(len(found)).run()
    assert found == whole[10:]
    assert log.base_index > 30
    log.close()


def test_what_comes_after_the_last_entry_asked_for_is_not_looked_at() -> None:
    disk = new_disk()
    whole = filled(disk).entries(1, LAST, 1 << 40)
    files = files_of(disk)
    for last in range(1, LAST + 1):
        *_, (place, _) = scan(disk, FOLDER, GROUP, LogIndex(1), LogIndex(last))
        name = place.path.rpartition("/")[2]
        frame = place.frame
        end = frame.position + FRAME_HEADER_BYTES + frame.command_length + frame.body_length
        torn = {other: data for other, data in files.items() if other < name}
        torn[name] = files[name][:end] + Random(last).randbytes(300)
        assert scanned(disk_of(torn), 1, last) == whole[:last]
        with pytest.raises(CorruptFile) as caught:
            scanned(disk_of(torn), 1, last + 1)
        assert caught.value.file == place.path
        torn[name] = files[name][: end - 1]
        with pytest.raises(CorruptFile):
            scanned(disk_of(torn), 1, last)


def test_every_byte_before_the_last_command_is_proven_but_bodies_only_when_they_are_read() -> None:
    """An error names file and file position."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    log.append([entry(index, body=b"body" * 4) for index in range(1, 4)])
    write(log)
    places = [place for place, _ in scan(disk, FOLDER, GROUP, LogIndex(1), LogIndex(3))]
    ((name, data),) = files_of(disk).items()
    for position in range(places[2].frame.position + FRAME_HEADER_BYTES):
        at = max((p for p in places if p.frame.position <= position), default=None)
        in_frame = position - at.frame.position if at is not None else 0
        damaged = disk_of({name: flipped(data, position)})
        found = scan(damaged, FOLDER, GROUP, LogIndex(1), LogIndex(3))
        if at is not None and in_frame >= FRAME_HEADER_BYTES + at.frame.command_length:
            assert [place for place, _ in found] == places
            with pytest.raises(CorruptFile, match="the checksum of its body differs"):
                read_entry(damaged, at)
            continue
        with pytest.raises(CorruptFile) as caught:
            list(found)
        assert caught.value.file == f"{FOLDER}/{name}"
        assert caught.value.position == (at.frame.position if at is not None else 0)


def test_a_segment_must_continue_the_one_before_it() -> None:
    """Two logs with the same entries: only chains and ids tell their segments apart."""
    files, others = {}, {}
    for found, seed in ((files, 1), (others, 2)):
        disk = new_disk(seed)
        filled(disk)
        found.update(files_of(disk))
    assert sorted(files) == sorted(others)
    for name in sorted(files)[1:-1]:
        following = min(other for other in files if other > name)
        with pytest.raises(CorruptFile) as caught:
            scanned(disk_of({**files, name: others[name]}), 1, LAST)
        assert caught.value.file == f"{FOLDER}/{name}"
        begin = int(following[:20])
        scanned(disk_of({**files, name: others[name]}), begin, LAST)


def test_an_unknown_kind_of_frame_is_damage() -> None:
    disk = new_disk()
    filled(disk)
    name, data = min(files_of(disk).items())
    header = read_segment_header(
        disk.open(f"{FOLDER}/{name}", create=False), purpose=Purpose.LOG, group=GROUP
    )
    frame, _ = encode_frame_header(
        kind=9,
        index=1,
        term=1,
        synced_to=SEGMENT_HEADER_BYTES,
        command=b"",
        body=b"",
        seed=header.seed,
        chain=header.chain,
    )
    with pytest.raises(CorruptFile, match="the kind of its frame is 9"):
        scanned(disk_of({name: data[:SEGMENT_HEADER_BYTES] + frame}), 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body_bytes", "reads_max", "bytes_max"),
    [(2_000, 60, 3_000_000), (100_000, 1_100, 8_000_000)],
    ids=["small bodies are read along", "large ones are skipped"],
)
def test_a_scan_reads_little_and_seldom(
    body_bytes: int, reads_max: int, bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    body = bytes(body_bytes)
    log.append([entry(index, body=body) for index in range(1, 1_001)])
    write(log)
    reads: list[int] = []
    read_at = MemoryFile.read_at

    def counted(self: MemoryFile, position: int, length: int) -> bytes:
        reads.append(length)
        return read_at(self, position, length)

    monkeypatch.setattr(MemoryFile, "read_at", counted)
    assert sum(1 for _ in scan(disk, FOLDER, GROUP, LogIndex(1), LogIndex(1_000))) == 1_000
    assert len(reads) < reads_max
    assert sum(reads) < bytes_max
