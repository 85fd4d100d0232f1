"""History files: read as written, and damage anywhere is never read as a record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import crc32c
from raftlog.core.types import GroupId, Offset
from raftlog.errors import CorruptFile, DiskFull, FormatUnsupported
from raftlog.image import history_file
from raftlog.image.history_file import (
    TRAILER_BYTES,
    HistoryFile,
    RowGroup,
    write_history_file,
)
from raftlog.image.limits import DESCRIPTION_BYTES_MAX, ENTRY_BYTES_MAX
from raftlog.image.manifest import HistoryInfo
from raftlog.storage.frames import SEGMENT_HEADER_BYTES, SegmentHeader, decode_segment_header
from raftlog.storage.write import NEW_FILE_ENDING
from raftlog.wire.codec import decode_description, decode_footer, encode_description, encode_footer
from raftlog.wire.history import HistoryFooter, RowGroupDescription
from tests.image.row_groups import COUNTS, START, read_back, row_group, row_groups
from tests.storage.disks import FOLDER, GROUP, disk_of, files_of, flipped, new_disk
from tests.storage.memory import MemoryFileSystem

END = START + sum(COUNTS)
REFUSED = (CorruptFile, FormatUnsupported)


def written(
    counts: Sequence[int] = COUNTS, start: int = START, seed: int = 1
) -> tuple[MemoryFileSystem, HistoryInfo]:
    disk = new_disk(seed)
    return disk, write_history_file(disk, FOLDER, GROUP, row_groups(counts, start))


def read(disk: MemoryFileSystem, info: HistoryInfo) -> list[RowGroup]:
    """All row groups as clients get them. Their columns are not checked."""
    file = HistoryFile(disk, FOLDER, GROUP, info)
    try:
        return [read_back(file, each) for each in file.row_groups_between(info.start, info.end)]
    finally:
        file.close()


def scrub(disk: MemoryFileSystem, info: HistoryInfo) -> None:
    """Check every byte of the file."""
    file = HistoryFile(disk, FOLDER, GROUP, info)
    for each in file.row_groups_between(info.start, info.end):
        file.check_row_group(each)
    file.close()


def columns_are_whole(row_group: RowGroup) -> bool:
    """A client's check of what it was sent."""
    return all(
        crc32c(row_group.body[column.position : column.position + column.length]) == column.crc
        for column in row_group.header.columns
    )


# ---------------------------------------------------------------- as written


def test_row_groups_are_read_as_they_were_written() -> None:
    disk, info = written()
    assert (info.start, info.end) == (START, END)
    assert info.record_bytes == sum(each.record_bytes for each in row_groups())
    assert list(files_of(disk)) == [info.name]
    assert read(disk, info) == list(row_groups())
    scrub(disk, info)


def test_a_file_that_was_closed_can_be_used_again() -> None:
    disk, info = written()
    file = HistoryFile(disk, FOLDER, GROUP, info)
    (last,) = file.row_groups_between(Offset(END - 1), Offset(END))
    file.close()
    assert read_back(file, last) == row_group(START + 4, 4)
    assert list(file.index.starts) == [START, START + 3, START + 4, END]
    file.close()


def test_a_file_that_was_closed_is_checked_when_it_is_used_again() -> None:
    disk, info = written()
    file = HistoryFile(disk, FOLDER, GROUP, info)
    list(file.row_groups_between(info.start, info.end))
    file.close()
    disk.open(f"{FOLDER}/{info.name}", create=False).write_at(info.byte_count - 1, [b"x"])
    with pytest.raises(CorruptFile, match="trailer"):
        list(file.row_groups_between(info.start, info.end))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_a_range_gives_the_row_groups_that_it_meets(counts: list[int], data: st.DataObject) -> None:
    disk, info = written(counts)
    start = data.draw(st.integers(info.start, info.end))
    end = data.draw(st.integers(start, info.end))
    file = HistoryFile(disk, FOLDER, GROUP, info)
    found = [each.start for each in file.row_groups_between(Offset(start), Offset(end))]
    starts = list(accumulate(counts, initial=START))
    met = [
        first for first, after in pairwise(starts) if start < end and first < end and after > start
    ]
    assert found == met


def test_the_index_counts_logical_bytes() -> None:
    disk, info = written()
    sizes = [each.record_bytes for each in row_groups()]
    index = HistoryFile(disk, FOLDER, GROUP, info).index
    assert list(index.bytes_before) == list(accumulate(sizes, initial=0))


def test_one_row_group_is_held_at_a_time() -> None:
    disk = new_disk()

    def watched() -> Iterator[RowGroup]:
        size = SEGMENT_HEADER_BYTES
        for each in row_groups():
            yield each
            (data,) = files_of(disk).values()
            assert len(data) >= size + len(each.body), "it was written before the next was asked"
            size = len(data)

    write_history_file(disk, FOLDER, GROUP, watched())


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [row_group(0, 2), row_group(3, 1)],
        [replace(row_group(0, 2), body=row_group(0, 2).body + b"x")],
        [replace(row_group(0, 2), runs=row_group(0, 3).runs)],
    ],
    ids=["no records", "a gap", "bytes of no column", "runs of other records"],
)
def test_what_no_reader_could_read_is_not_written(wrong: list[RowGroup]) -> None:
    disk = new_disk()
    with pytest.raises(AssertionError):
        write_history_file(disk, FOLDER, GROUP, wrong)
    assert not [name for name in files_of(disk) if not name.endswith(NEW_FILE_ENDING)]


# ---------------------------------------------------------------- damage


def zeroed(data: bytes) -> Iterator[bytes]:
    """Ranges of several lengths set to zero, at every position."""
    for length in (2, 16, 64, len(data) // 2):
        for position in range(0, len(data) - length + 1, max(1, length // 4)):
            yield data[:position] + bytes(length) + data[position + length :]


def flips(data: bytes) -> Iterator[bytes]:
    """Every byte changed, wholly and in one bit."""
    for position in range(len(data)):
        yield flipped(data, position)
        yield flipped(data, position, 1 << position % 8)


def cuts(data: bytes) -> Iterator[bytes]:
    """Every shorter length; and longer ones."""
    for length in range(len(data)):
        yield data[:length]
    yield data + b"\0"
    yield data + data


@pytest.mark.slow
@pytest.mark.parametrize("damages", [flips, zeroed, cuts])
def test_damage_is_never_read_as_a_record(damages: Callable[[bytes], Iterator[bytes]]) -> None:
    """What the file's own checksums do not cover are bodies, whose columns have theirs."""
    disk, info = written()
    ((name, data),) = files_of(disk).items()
    whole = list(row_groups())
    in_bodies = 0
    for bad in damages(data):
        if bad == data:
            continue
        hurt = disk_of({name: bad})
        with pytest.raises(REFUSED) as refusal:
            scrub(hurt, info)
        if isinstance(refusal.value, CorruptFile):
            assert 0 <= refusal.value.position <= len(data)
        try:
            found = read(hurt, info)
        except REFUSED:
            continue
        in_bodies += 1
        for each, good in zip(found, whole, strict=True):
            assert replace(each, body=good.body) == good, "only a body may differ"
            assert columns_are_whole(each) == (each == good)
    assert damages is cuts or in_bodies > 0, "bodies were damaged too"


def test_another_file_of_the_same_name_is_refused() -> None:
    disk, info = written()
    other, other_info = written(seed=2)
    assert (other_info.start, other_info.byte_count) == (info.start, info.byte_count)
    other.rename(f"{FOLDER}/{other_info.name}", f"{FOLDER}/{info.name}")
    with pytest.raises(CorruptFile, match="not the file that the manifest means"):
        read(other, info)
    with pytest.raises(CorruptFile, match="missing"):
        read(new_disk(), info)
    with pytest.raises(CorruptFile, match="group"):
        HistoryFile(disk, FOLDER, GroupId(GROUP + 1), info).index  # noqa: B018


def test_the_end_of_another_file_is_refused_wherever_it_begins() -> None:
    """The same row groups: only the file id differs, which the footer's checksum goes on from."""
    disk, info = written()
    other, other_info = written(seed=2)
    ((name, data),) = files_of(disk).items()
    (other_data,) = files_of(other).values()
    for position in range(1, len(data)):
        mixed = disk_of({name: data[:position] + other_data[position:]})
        for each in (info, other_info):
            try:
                assert read(mixed, each) == list(row_groups())
            except CorruptFile:
                continue
            assert files_of(mixed)[name] in (data, other_data)


def test_a_footer_whose_numbers_still_add_up_is_damage() -> None:
    """Two row groups' shares of the bytes that retention counts are exchanged."""
    disk, info = written([3, 4])
    ((name, data),) = files_of(disk).items()
    length = int.from_bytes(data[-TRAILER_BYTES:][:8], "little")
    encoded = data[-TRAILER_BYTES - length : -TRAILER_BYTES]
    footer = decode_footer(encoded)
    footer.record_bytes.reverse()
    exchanged = encode_footer(footer)
    assert len(exchanged) == length
    assert exchanged != encoded
    with pytest.raises(CorruptFile, match="checksum of its footer"):
        read(disk_of({name: data.replace(encoded, exchanged)}), info)


def test_a_segment_of_a_log_is_no_history_file() -> None:
    disk, info = written()
    ((name, data),) = files_of(disk).items()
    header = decode_segment_header(data[:SEGMENT_HEADER_BYTES])
    assert isinstance(header, SegmentHeader)
    log = SegmentHeader(**{n: getattr(header, n) for n in SegmentHeader.__slots__} | {"purpose": 1})
    with pytest.raises(CorruptFile, match="it holds LOG"):
        read(disk_of({name: log.encode() + data[SEGMENT_HEADER_BYTES:]}), info)


Forge = Callable[[RowGroupDescription, HistoryFooter], RowGroupDescription]


def forged(change: Forge) -> tuple[MemoryFileSystem, HistoryInfo]:
    """A file of one row group whose description and footer were changed, with good checksums."""
    disk, info = written([3])
    ((name, data),) = files_of(disk).items()
    header = decode_segment_header(data[:SEGMENT_HEADER_BYTES])
    assert isinstance(header, SegmentHeader)
    footer_length = int.from_bytes(data[-TRAILER_BYTES:][:8], "little")
    footer_position = len(data) - TRAILER_BYTES - footer_length
    footer = decode_footer(data[footer_position:-TRAILER_BYTES])
    description_position = footer_position - footer.description_lengths[0]
    description = decode_description(data[description_position:footer_position])
    made = encode_description(change(description, footer))
    footer.description_lengths[0] = len(made)
    footer.description_crcs[0] = crc32c(made)
    made_footer = encode_footer(footer)
    crc = crc32c(made_footer, header.chain)
    trailer = len(made_footer).to_bytes(8, "little") + data[-TRAILER_BYTES:][8:16]
    trailer += crc.to_bytes(4, "little") + data[-TRAILER_BYTES:][20:28]
    trailer += crc32c(trailer, header.chain).to_bytes(4, "little")
    bad = data[:description_position] + made + made_footer + trailer
    return disk_of({name: bad}), replace(info, byte_count=len(bad), footer_crc=crc)


def _unchanged(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    return d


def _other_records(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    other = row_group(START, 4)
    return replace(d, runs=other.runs, header=replace(d.header, record_count=4))


def _other_columns(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    return replace(d, header=replace(d.header, columns=d.header.columns[:1]))


def _other_runs(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    return replace(d, runs=row_group(START, 4).runs)


def _other_count(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.record_counts[0] = 4
    return d


def _other_bytes(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.record_bytes[0] += 1
    return d


def _too_many_records(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.record_counts[0] = 2**63 - 1
    return d


def _other_length(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.body_lengths[0] -= 1
    return d


def _uneven_columns(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.record_bytes.append(1)
    return d


def _one_row_group_more(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    """Of no records, so all sums are as they were."""
    for column in (f.record_counts, f.record_bytes, f.body_lengths):
        column.append(0)
    f.description_lengths.append(0)
    f.description_crcs.append(0)
    return d


def test_what_is_forged_here_is_a_file_if_nothing_is_changed() -> None:
    assert read(*forged(_unchanged)) == [row_group(START, 3)]


def _long_body(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    f.body_lengths[0] = ENTRY_BYTES_MAX + 1
    return d


def _long_description(d: RowGroupDescription, f: HistoryFooter) -> RowGroupDescription:
    """It says that the row group after it has one."""
    _one_row_group_more(d, f)
    f.description_lengths[1] = DESCRIPTION_BYTES_MAX + 1
    return d


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_long_body, "a body would have 276824065 bytes; 276824064 are allowed"),
        (_long_description, "a description would have 25165825 bytes; 25165824 are allowed"),
        (_other_records, "counts other records"),
        (_other_columns, "do not fit"),
        (_other_runs, "runs of 4 records in a batch of 3"),
        (_other_count, "does not fit the file or the manifest"),
        (_other_bytes, "does not fit the file or the manifest"),
        (_too_many_records, "its footer counts too far"),
        (_other_length, "does not fit the file or the manifest"),
        (_uneven_columns, "differ in length"),
        (_one_row_group_more, "does not fit the file or the manifest"),
    ],
)
def test_good_checksums_over_nonsense_are_damage(change: Forge, problem: str) -> None:
    with pytest.raises(CorruptFile, match=problem):
        read(*forged(change))


@pytest.mark.parametrize(
    ("bound", "problem"),
    [
        ("RECEIVED_FOOTER_BYTES_MAX", "its footer would have"),
        ("RECEIVED_ROW_GROUPS_MAX", "has more than 15 fields"),
    ],
)
def test_another_nodes_footer_has_bounds_and_the_nodes_own_has_none(
    bound: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 MiB of it took 5 GiB of memory."""
    disk, info = written()
    monkeypatch.setattr(history_file, bound, 2)
    assert read(disk, info)
    with pytest.raises(CorruptFile, match=problem):
        assert HistoryFile(disk, FOLDER, GROUP, info, received=True).index


# ---------------------------------------------------------------- crashes


class Killed(BaseException):
    """The process died here."""


@pytest.mark.parametrize("seed", range(8))
def test_a_power_loss_leaves_a_whole_file_under_the_name_or_none(seed: int) -> None:
    operations = 0
    while True:
        disk = new_disk(seed)
        left = [operations]

        def count(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        disk.interrupt = count
        try:
            info = write_history_file(disk, FOLDER, GROUP, row_groups())
        except Killed:
            disk.interrupt = None
            disk.crash()
            for name in disk.list(FOLDER):
                if not name.endswith(NEW_FILE_ENDING):
                    # A file made by the same seed has the same id.
                    scrub(disk, written(seed=seed)[1])
            again = write_history_file(disk, FOLDER, GROUP, row_groups())
            assert read(disk, again) == list(row_groups())
            operations += 1
            continue
        disk.interrupt = None
        disk.crash()
        scrub(disk, info)
        assert operations > 5
        return


def test_a_later_try_succeeds_after_a_full_disk_and_leaves_nothing_of_the_earlier_ones() -> None:
    disk, info = written()

    def full(operation: str, path: str) -> None:
        if operation == "write":
            raise DiskFull(file=path)

    disk.interrupt = full
    for _ in range(2):
        with pytest.raises(DiskFull):
            write_history_file(disk, FOLDER, GROUP, row_groups([2, 9]))
    disk.interrupt = None
    again = write_history_file(disk, FOLDER, GROUP, row_groups([2, 9]))
    assert read(disk, again) == list(row_groups([2, 9]))
    assert list(files_of(disk)) == [again.name] != [info.name]


# ---------------------------------------------------------------- times


def test_a_time_is_found_by_the_runs_of_one_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: of the others only the first record's time is read."""
    counts = [6, 1, 9, 1, 7, 8, 1, 12] * 8
    disk, info = written(counts)
    file = HistoryFile(disk, FOLDER, GROUP, info)
    times: list[int] = []
    for each in file.row_groups_between(info.start, info.end):
        for count, timestamp_us in zip(each.runs.counts, each.runs.timestamps_us, strict=True):
            times += [timestamp_us] * count
    assert times == sorted(times)
    decoded: list[bytes] = []

    def noted(data: bytes) -> RowGroupDescription:
        decoded.append(data)
        return decode_description(data)

    monkeypatch.setattr(history_file, "decode_description", noted)
    for start in (info.start, Offset(info.start + 1), Offset(info.end - 1)):
        for timestamp_us in range(times[0] - 1, times[-1] + 2):
            decoded.clear()
            found = file.offset_at(timestamp_us, start)
            assert found == max(start, info.start + bisect_left(times, timestamp_us))
            assert len(decoded) == 1
