"""Torn or damaged: what opening makes of bytes that were truncated, flipped, lost or left over.

Whatever is done to a file, a log either holds every synced entry that a later frame bears witness
to, or does not open; and it never holds an entry that was not written.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from raftlog.core.types import Entry
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.frames import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from raftlog.storage.header_repair import rebuilt_segment_header
from raftlog.storage.log import GroupLog
from tests.storage.disks import (
    BARE,
    FOLDER,
    GROUP,
    ONE_SEGMENT,
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

FIRST = f"{1:020d}.log"
SYNCED = 3
"""Entries 1 to 3 were synced one by one, 4 to 6 in one last write."""


def end_of(last: int) -> int:
    """Where the frame of entry `last` ends if no marker comes before it."""
    return SEGMENT_HEADER_BYTES + sum(
        FRAME_HEADER_BYTES + item.payload.size for item in entries(1, last)
    )


def log_bytes(*, marker: bool = False) -> bytes:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    for item in entries(1, SYNCED):
        log.append([item])
        write(log)
    log.append(entries(SYNCED + 1, 6))
    write(log)
    if marker:
        log.close()
    return files_of(disk)[FIRST]


def open_bytes(data: bytes) -> tuple[GroupLog, MemoryFileSystem]:
    disk = disk_of({FIRST: data})
    return GroupLog.open(disk, FOLDER, GROUP, BARE), disk


def prefix_length(found: list[Entry]) -> int:
    assert found == entries(1, len(found)), "only what was written"
    return len(found)


def test_a_log_truncated_at_any_byte_keeps_the_whole_frames_before() -> None:
    whole = log_bytes()
    ends = [end_of(last) for last in range(7)]
    for size in range(SEGMENT_HEADER_BYTES, len(whole) + 1):
        log, disk = open_bytes(whole[:size])
        kept = max(last for last in range(7) if ends[last] <= size)
        assert prefix_length(content(log)) == kept
        assert log.durable_index == kept
        torn = size - ends[kept]
        if whole[ends[kept] : size].rstrip(b"\0"):
            assert log.report.torn_position == ends[kept]
            assert 0 < log.report.torn_bytes <= torn
            assert log.report.torn_file == f"{FOLDER}/{FIRST}"
            assert len(files_of(disk)[FIRST]) == ends[kept], "the tail is truncated"
        log.append([entry(kept + 1, term=2)])
        write(log)
        disk.crash()
        again = GroupLog.open(disk, FOLDER, GROUP, BARE)
        assert content(again) == [*entries(1, kept), entry(kept + 1, term=2)]


def test_a_log_zeroed_from_any_byte_keeps_the_whole_frames_before() -> None:
    whole = log_bytes()
    for size in range(SEGMENT_HEADER_BYTES, len(whole) + 1):
        log, _ = open_bytes(whole[:size] + bytes(len(whole) - size + 500))
        kept = prefix_length(content(log))
        assert end_of(kept) <= size or not any(whole[size : end_of(kept)])


def in_header(position: int) -> bool:
    """Is the byte in the header of one of the entries?"""
    return any(0 <= position - end_of(last) < FRAME_HEADER_BYTES for last in range(6))


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_of_a_payload_is_truncated_in_the_unwitnessed_tail_and_damage_below_it(
    mask: int,
) -> None:
    whole = log_bytes()
    witnessed = end_of(SYNCED)  # entry 4's frame says that 1 to 3 were durable
    for position in range(SEGMENT_HEADER_BYTES, len(whole)):
        if in_header(position):
            continue
        data = flipped(whole, position, mask)
        last_before = max(last for last in range(7) if end_of(last) <= position)
        if position >= witnessed:
            log, disk = open_bytes(data)
            assert prefix_length(content(log)) == last_before
            assert log.report.torn_position == end_of(last_before)
            assert log.report.torn_bytes == len(whole) - end_of(last_before)
            continue
        disk = disk_of({FIRST: data})
        with pytest.raises(CorruptFile) as caught:
            content(GroupLog.open(disk, FOLDER, GROUP, BARE))
        assert caught.value.file == f"{FOLDER}/{FIRST}"
        assert caught.value.position == end_of(last_before)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("marker", [True, False])
def test_a_flipped_byte_of_a_header_is_written_again_as_it_was(mask: int, marker: bool) -> None:
    """Of the segment's header and those of the last write as well, where a crash may have left it:
    that is no damage."""
    whole = log_bytes(marker=marker)
    last_write = open_bytes(whole)[0]._segments[-1].proven_to
    for position in range(len(whole)):
        if position >= SEGMENT_HEADER_BYTES and not in_header(position):
            continue
        log, disk = open_bytes(flipped(whole, position, mask))
        for damage in log.report.rebuilt:
            assert damage.position <= position < damage.position + SEGMENT_HEADER_BYTES
        is_damage = position < max(SEGMENT_HEADER_BYTES, last_write)
        assert len(log.report.rebuilt) == is_damage
        assert prefix_length(content(log)) == 6
        assert log.report.torn_bytes == 0
        assert files_of(disk)[FIRST] == whole
        disk.crash()
        assert files_of(disk)[FIRST] == whole


def test_once_a_marker_bears_witness_every_flipped_byte_of_a_payload_is_damage() -> None:
    whole = log_bytes(marker=True)
    for position in range(SEGMENT_HEADER_BYTES, end_of(6)):
        if not in_header(position):
            with pytest.raises(CorruptFile):
                content(open_bytes(flipped(whole, position))[0])
    for position in range(end_of(6), len(whole)):  # the marker itself holds nothing
        assert prefix_length(content(open_bytes(flipped(whole, position))[0])) == 6


def test_a_header_that_is_gone_with_a_byte_of_its_payload_is_damage() -> None:
    whole = log_bytes(marker=True)
    for last in range(6):
        disk = disk_of({FIRST: without_frame(whole, end_of(last))})
        with pytest.raises(CorruptFile) as caught:
            GroupLog.open(disk, FOLDER, GROUP, BARE)
        assert caught.value.position == end_of(last)
        assert files_of(disk)[FIRST] == without_frame(whole, end_of(last))
    disk = disk_of({FIRST: bytes(SEGMENT_HEADER_BYTES) + whole[SEGMENT_HEADER_BYTES:]})
    with pytest.raises(CorruptFile) as caught:
        GroupLog.open(disk, FOLDER, GROUP, BARE)
    assert caught.value.position == 0


def test_several_damaged_headers_are_written_again_also_one_after_another() -> None:
    whole = log_bytes(marker=True)
    for damaged in ([0, 3], [1, 2], [4, 5], [0, 1, 2, 3, 4, 5]):
        for offset in range(FRAME_HEADER_BYTES):
            data = whole
            for last in damaged:
                data = flipped(data, end_of(last) + offset)
            log, disk = open_bytes(data)
            assert [each.position for each in log.report.rebuilt] == list(map(end_of, damaged))
            assert files_of(disk)[FIRST] == whole


@pytest.mark.parametrize(("start", "length"), [(0, 5), (8, 4), (12, 4), (16, 16), (32, 24)])
def test_whole_fields_of_a_header_are_written_again_as_they_were(start: int, length: int) -> None:
    """As long as one of the two lengths is left: the next frame tells where this one ends."""
    whole = log_bytes(marker=True)
    for last in range(6):
        at = end_of(last) + start
        log, disk = open_bytes(whole[:at] + b"\xa5" * length + whole[at + length :])
        assert prefix_length(content(log)) == 6
        assert files_of(disk)[FIRST] == whole


def test_the_whole_header_of_an_entry_without_a_body_is_written_again_as_it_was() -> None:
    whole = log_bytes(marker=True)
    start = end_of(3)
    assert not entry(4).payload.body
    data = whole[:start] + bytes(FRAME_HEADER_BYTES) + whole[start + FRAME_HEADER_BYTES :]
    log, disk = open_bytes(data)
    assert prefix_length(content(log)) == 6
    assert files_of(disk)[FIRST] == whole


def test_a_crash_while_headers_are_written_again_leaves_a_log_that_opens() -> None:
    whole = log_bytes(marker=True)
    data = whole
    for last in range(6):
        data = flipped(data, end_of(last) + 9)
    for seed in range(30):
        disk = disk_of({FIRST: data})
        left = [seed % 12]

        def stop(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise InterruptedError

        disk.interrupt = stop
        with suppress(InterruptedError):
            GroupLog.open(disk, FOLDER, GROUP, BARE)
        disk.interrupt = None
        disk.crash()
        log = GroupLog.open(disk, FOLDER, GROUP, BARE)
        assert prefix_length(content(log)) == 6
        assert files_of(disk)[FIRST] == whole


def test_damage_found_while_reading_is_never_returned() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    log.append([entry(1, body=b"x" * 70_000), entry(2)])
    write(log)
    file = disk.open(f"{FOLDER}/{FIRST}", create=False)
    whole = file.read_at(0, file.size())
    at_body = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + len(entry(1).payload.command)
    for position in (SEGMENT_HEADER_BYTES + 20, at_body - 1, at_body + 69_000):
        file.write_at(0, [flipped(whole, position)])
        with pytest.raises(CorruptFile) as caught:
            log.entries(1, 2, 1 << 30)
        assert caught.value.position == SEGMENT_HEADER_BYTES
        if position < at_body:
            with pytest.raises(CorruptFile):
                log.command(1)
        else:
            assert log.command(1)[2] == entry(1).payload.command
    file.truncate(at_body + 10)
    with pytest.raises(CorruptFile):
        log.entries(1, 1, 1 << 30)
    with pytest.raises(CorruptFile):
        log.body_slices(1, [(0, 11)])


# ---------------------------------------------------------------- bytes left over


def test_frames_of_another_segment_behind_the_end_are_no_entries() -> None:
    whole = log_bytes()
    other = _other_log_bytes()
    for behind in (other[end_of(6) :], other[SEGMENT_HEADER_BYTES:]):
        log, _ = open_bytes(whole + behind)
        assert prefix_length(content(log)) == 6
        assert log.report.torn_bytes == len(behind)


def _other_log_bytes() -> bytes:
    """A longer log of as long entries in another segment: its frames lie where ours would. Each was
    synced before the next, so each bears witness to those before it.
    """
    disk = new_disk(seed=2)
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    for item in entries(1, 9, term=2):
        log.append([item])
        write(log)
    return files_of(disk)[FIRST]


def test_a_recycled_segment_shows_nothing_of_what_it_held() -> None:
    """Its old frames are no entries, nor witnesses that would turn a torn write into damage."""
    old, new = _other_log_bytes(), log_bytes()
    for end in range(end_of(2), end_of(3) + 1):
        data = new[:end] + old[end:]
        is_whole = data[: end_of(3)] == new[: end_of(3)]
        log, _ = open_bytes(data)
        assert prefix_length(content(log)) == (3 if is_whole else 2)


def test_frames_left_of_a_truncated_tail_do_not_pass_for_entries() -> None:
    """As if the truncation had kept the bytes: same segment, same file positions, another chain."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    log.append(entries(1, 6))
    write(log)
    before = files_of(disk)[FIRST]
    log.truncate_from(3)
    changed = entry(3, term=2, body=entry(3).payload.body)
    log.append([changed])
    write(log)
    after = files_of(disk)[FIRST]
    assert len(after) == end_of(3), "entry 4 of the old tail would follow directly"
    log, _ = open_bytes(after + before[len(after) :])
    assert content(log) == [*entries(1, 2), changed]
    assert log.report.torn_bytes > 0


def test_a_truncated_tail_leaves_no_witness() -> None:
    """After a truncation no witness covers the old bytes: a torn write there is torn, not
    damage."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, BARE)
    for item in entries(1, 6):
        log.append([item])
        write(log)
    log.truncate_from(2)
    log.append(entries(2, 4, term=2))
    write(log)
    data = files_of(disk)[FIRST]
    log, _ = open_bytes(without_frame(data, end_of(1)))
    assert content(log) == entries(1, 1)


def test_a_torn_tail_leaves_no_witness() -> None:
    """Frames behind a torn one are truncated durably, before the next append can be torn as
    well."""
    whole = log_bytes()
    log, disk = open_bytes(without_frame(whole, end_of(3)))
    log.append([entry(4, term=2)])
    work = log.take_write()
    assert work is not None
    work.run()
    data = files_of(disk)[FIRST]
    assert prefix_length(content(open_bytes(without_frame(data, end_of(3)))[0])) == 3


def test_a_log_whose_torn_tail_was_truncated_still_writes_its_marker() -> None:
    whole = log_bytes()
    log, disk = open_bytes(flipped(whole, end_of(6) - 1))
    assert prefix_length(content(log)) == 5
    log.close()
    data = files_of(disk)[FIRST]
    for last in range(5):
        with pytest.raises(CorruptFile):
            open_bytes(without_frame(data, end_of(last)))


def test_a_witness_found_behind_a_bad_frame_guards_payloads_too() -> None:
    """Entry 3's payload is damaged, and of the frame that is its witness the chain and the
    payload."""
    whole = log_bytes()
    data = flipped(whole, end_of(3) - 1)
    data = flipped(data, end_of(3) + FRAME_HEADER_BYTES - 1)
    data = flipped(data, end_of(4) + 3)
    data = flipped(data, end_of(4) - 1)
    log, _ = open_bytes(data)
    assert log.last_index == 3, "entry 3 was durable: it is damaged, not torn"
    with pytest.raises(CorruptFile):
        log.entries(3, 3, 1 << 30)


@pytest.mark.parametrize("search_bytes", [FRAME_HEADER_BYTES, 61, 100, 1000])
def test_witnesses_are_found_however_the_search_is_divided(
    search_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.storage.recovery._SEARCH_BYTES", search_bytes)
    whole = log_bytes() + bytes(500)
    for position in range(end_of(2), end_of(2) + 9):
        zeroed = whole[:position] + bytes(end_of(3) - position) + whole[end_of(3) :]
        with pytest.raises(CorruptFile):
            open_bytes(zeroed)
    for position in range(end_of(2), end_of(2) + FRAME_HEADER_BYTES):
        log, _ = open_bytes(flipped(whole, position))
        assert prefix_length(content(log)) == 6


def test_headers_are_found_behind_payloads_of_any_size() -> None:
    sizes = [0, 1, 4000, 4096 - 56, 5000, 300_000, 10, 262_144, 3, 8192, 70_000, 0]
    wanted = [entry(i, body=b"x" * size) for i, size in enumerate(sizes, 1)]
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    log.append(wanted)
    log.close()
    assert content(GroupLog.open(disk, FOLDER, GROUP, ONE_SEGMENT)) == wanted


# ---------------------------------------------------------------- several segments


def several() -> dict[str, bytes]:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 25))
    write(log)
    return files_of(disk)


@pytest.mark.slow
def test_every_byte_of_a_sealed_segment_is_checked_and_headers_are_written_again() -> None:
    files = several()
    name = sorted(files)[1]
    for position in range(len(files[name])):
        disk = disk_of({**files, name: flipped(files[name], position)})
        log = opened(disk)
        if log is not None and log.report.rebuilt:
            assert content(log) == entries(1, 25)
            assert files_of(disk) == files
            continue
        with pytest.raises(CorruptFile) as caught:
            content(log or GroupLog.open(disk, FOLDER, GROUP, SMALL))
        assert caught.value.file == f"{FOLDER}/{name}"
        assert files_of(disk)[name] == flipped(files[name], position)
        assert position >= SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES


def opened(disk: MemoryFileSystem) -> GroupLog | None:
    try:
        return GroupLog.open(disk, FOLDER, GROUP, SMALL)
    except CorruptFile:
        return None


def test_a_sealed_segment_truncated_at_any_byte_is_damage() -> None:
    files = several()
    name = sorted(files)[1]
    for size in range(len(files[name])):
        with pytest.raises(CorruptFile):
            GroupLog.open(disk_of({**files, name: files[name][:size]}), FOLDER, GROUP, SMALL)


def test_bodies_of_sealed_segments_are_not_read_when_opening() -> None:
    files = several()
    name = sorted(files)[1]
    body_end = len(files[name]) - 1
    log = GroupLog.open(
        disk_of({**files, name: flipped(files[name], body_end)}), FOLDER, GROUP, SMALL
    )
    assert log.last_index == 25


def test_a_missing_segment_is_damage() -> None:
    files = several()
    first, second, *_ = sorted(files)
    for missing in (first, second):
        kept = {name: data for name, data in files.items() if name != missing}
        with pytest.raises(CorruptFile):
            GroupLog.open(disk_of(kept), FOLDER, GROUP, SMALL)
    with pytest.raises(CorruptFile):
        GroupLog.open(disk_of({}), FOLDER, GROUP, SMALL)


def test_a_segment_of_another_history_is_damage() -> None:
    """Same group, same indexes, same lengths: only chain and id differ."""
    files = several()
    disk = new_disk(seed=3)
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 25))
    write(log)
    other = files_of(disk)
    assert sorted(other) == sorted(files)
    for name in sorted(files)[:-1]:
        with pytest.raises(CorruptFile):
            GroupLog.open(disk_of({**files, name: other[name]}), FOLDER, GROUP, SMALL)


def test_another_groups_log_is_refused() -> None:
    with pytest.raises(CorruptFile, match="belongs to group 7, not to group 8"):
        GroupLog.open(disk_of(several()), FOLDER, 8, SMALL)


def test_a_renamed_segment_is_damage() -> None:
    files = several()
    first = files.pop(FIRST)
    with pytest.raises(CorruptFile):
        GroupLog.open(disk_of({**files, f"{2:020d}.log": first}), FOLDER, GROUP, SMALL)


def test_another_format_is_refused_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.storage.frames.FORMAT_VERSION", 2)
    data = log_bytes()
    monkeypatch.undo()
    disk = disk_of({FIRST: data})
    with pytest.raises(FormatUnsupported) as caught:
        GroupLog.open(disk, FOLDER, GROUP, BARE)
    assert (caught.value.found, caught.value.supported) == ("2", "1")
    assert files_of(disk)[FIRST] == data


def test_unfinished_files_go_and_strange_ones_stay() -> None:
    unfinished = f"{26:020d}.log.new"
    disk = disk_of({**several(), unfinished: b"half", "manifest": b"{}", "notes.log": b"?"})
    log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
    assert log.last_index == 25
    assert not disk.exists(f"{FOLDER}/{unfinished}")
    assert disk.exists(f"{FOLDER}/manifest")
    assert disk.exists(f"{FOLDER}/notes.log")


def test_zeros_reserved_ahead_are_no_torn_tail() -> None:
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, ONE_SEGMENT)
    log.append(entries(1, 5))
    write(log)
    size = len(files_of(disk)[FIRST])
    log = GroupLog.open(disk, FOLDER, GROUP, ONE_SEGMENT)
    assert log.report.torn_bytes == 0
    assert len(files_of(disk)[FIRST]) == size, "the space stays reserved"
    assert content(log) == entries(1, 5)


def test_a_segments_header_without_frames_is_proven_by_its_own_crc() -> None:
    """What is known of it is put in its place: its purpose, its group and its first index."""
    disk = new_disk()
    GroupLog.create(disk, FOLDER, GROUP, BARE).abandon()
    (name,) = files_of(disk)
    whole = files_of(disk)[name][:SEGMENT_HEADER_BYTES]
    at = whole.index(GROUP.to_bytes(8, "little"))
    bad = whole[:at] + b"\xff" * 8 + whole[at + 8 :]
    file = disk_of({name: bad}).open(f"{FOLDER}/{name}", create=False)
    header = rebuilt_segment_header(file, GROUP, 1)
    assert header is not None
    assert header.encode() == whole
    assert rebuilt_segment_header(file, GROUP + 1, 1) is None
