"""Where a damaged log ended, for every byte of its segments that may be damaged."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.types import LastEntry, LogIndex, Term
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    MARKER,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    encode_frame_header,
)
from raftlog.storage.last_entry import last_entry
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import NO_BASE
from tests.costs import seed_of_the_day
from tests.storage.disks import (
    BARE,
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
from tests.storage.memory import MemoryFileSystem

LAYOUTS = [SMALL, ONE_SEGMENT, BARE]
EVERY = 3
"""The short version damages one of this many places."""


def log_files(limits: LogLimits, *, closed: bool, at_once: int = 1) -> dict[str, bytes]:
    """The files of a log of 12 entries in terms 1 and 3, so many in one write."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, limits)
    for index in range(1, 13, at_once):
        log.append(entries(index, index + at_once - 1, 1 if index <= 6 else 3))
        write(log)
    if closed:
        log.close()
    else:
        log.abandon()
    return files_of(disk)


def opened(disk: MemoryFileSystem, limits: LogLimits) -> GroupLog | None:
    try:
        return GroupLog.open(disk, FOLDER, GROUP, limits)
    except (CorruptFile, FormatUnsupported):
        return None


def end_of(log: GroupLog) -> LastEntry:
    return LastEntry(log.last_term, log.last_index)


@pytest.mark.slow
@pytest.mark.parametrize("limits", LAYOUTS)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_damaged_place_hides_the_end_only_in_the_header_of_the_last_segment(
    limits: LogLimits, closed: bool, at_once: int
) -> None:
    """Other places each day. Replay: PLACES_SEED=<seed>."""
    seed = seed_of_the_day("PLACES_SEED")
    print(f"seed {seed}")
    damage_hides_the_end_only_there(limits, closed, at_once, slice(seed % EVERY, None, EVERY))


@pytest.mark.soak
@pytest.mark.parametrize("limits", LAYOUTS)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("at_once", [1, 3])
def test_any_damaged_place_hides_the_end_only_in_the_header_of_the_last_segment(
    limits: LogLimits, closed: bool, at_once: int
) -> None:
    damage_hides_the_end_only_there(limits, closed, at_once, slice(None))


def damage_hides_the_end_only_there(
    limits: LogLimits, closed: bool, at_once: int, places: slice
) -> None:
    """A log that opens ends where it says: damage in the last write may look like a torn one."""
    files = log_files(limits, closed=closed, at_once=at_once)
    whole = opened(disk_of(files), limits)
    assert whole is not None
    told = 0
    for name, data in files.items():
        for position in range(len(data.rstrip(b"\0")))[places]:
            length = min(SEGMENT_HEADER_BYTES, len(data) - position)
            bad = data[:position] + b"\xa5" * length + data[position + length :]
            disk = disk_of({**files, name: bad})
            found = last_entry(disk, FOLDER, GROUP, NO_BASE)
            log = opened(disk, limits)
            if log is not None:
                # Without the headers that were rebuilt it may look torn, or tell no end.
                rebuilt = not bad.startswith(files_of(disk)[name].rstrip(b"\0"))
                may_be_lower = rebuilt and (found is None or found < end_of(log))
                assert may_be_lower or found == end_of(log), (name, position)
            elif name == max(files) and position < SEGMENT_HEADER_BYTES:
                assert found is None
            else:
                assert found == end_of(whole), (name, position)
                told += 1
    assert told > 500 / (places.step or 1)


@pytest.mark.slow
@pytest.mark.parametrize("limits", LAYOUTS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_log_that_was_cut_off_ends_where_it_says(limits: LogLimits, at_once: int) -> None:
    files = log_files(limits, closed=False, at_once=at_once)
    name = max(files)
    for length in range(SEGMENT_HEADER_BYTES, len(files[name]) + 1):
        disk = disk_of({**files, name: files[name][:length]})
        found = last_entry(disk, FOLDER, GROUP, NO_BASE)
        log = opened(disk, limits)
        assert log is not None
        assert found == end_of(log), length


def test_the_end_is_not_told_if_the_entry_before_a_torn_one_is_damaged() -> None:
    """The torn one proves that the damaged one was durable, and nothing tells its index."""
    files = log_files(BARE, closed=False)
    (name,) = files
    data = files[name]
    eleventh, twelfth = (data.index(b"command %d " % number) for number in (11, 12))
    bad = flipped(flipped(data, eleventh - 40, 1), twelfth, 1)
    assert last_entry(disk_of({name: bad}), FOLDER, GROUP, NO_BASE) is None


def test_a_marker_that_does_not_say_the_last_entry_tells_no_end_after_damage() -> None:
    """It names entry 0, as the marker of an empty log does."""
    files = log_files(BARE, closed=True)
    (name,) = files
    data = files[name]
    header = decode_segment_header(data)
    assert isinstance(header, SegmentHeader)
    old, _ = encode_frame_header(
        kind=MARKER,
        index=0,
        term=0,
        synced_to=len(data) - FRAME_HEADER_BYTES,
        command=b"",
        body=b"",
        seed=header.seed,
        chain=0,
    )
    bad = flipped(data, data.index(b"command 12 ") - 40, 1)
    known = LastEntry(Term(3), LogIndex(12))
    assert last_entry(disk_of({name: bad}), FOLDER, GROUP, NO_BASE) == known
    bad = bad[:-FRAME_HEADER_BYTES] + old
    assert last_entry(disk_of({name: bad}), FOLDER, GROUP, NO_BASE) is None


def test_several_damaged_places_never_make_the_end_earlier_than_the_log_was_synced() -> None:
    """But for the tail above all that is proven, which looks like a torn write."""
    for seed in range(300):
        _ends_as_synced_or_unknown(seed)


def _ends_as_synced_or_unknown(seed: int) -> None:
    random = Random(seed)
    limits = random.choice(LAYOUTS)
    files = log_files(limits, closed=True)
    for _ in range(random.randint(1, 4)):
        name = random.choice(sorted(files))
        start = random.randrange(len(files[name]) - 60)
        length = random.choice([1, 1, 20, 100, 400])
        data = files[name]
        bad = bytes(min(length, len(data) - start)) if length > 1 else b"\x55"
        bad_end = start + len(bad)
        if name == max(files) and bad_end > len(data.rstrip(b"\0")) - 56:
            continue  # the marker at the end is damaged: what it proves is not
        files[name] = data[:start] + bad + data[bad_end:]
    found = last_entry(disk_of(files), FOLDER, GROUP, NO_BASE)
    assert found in (None, LastEntry(Term(3), LogIndex(12)))


def test_the_end_is_not_told_over_a_segment_that_is_missing() -> None:
    """All but the last are equally long."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    for index in range(1, 40):
        log.append([entry(index, body=b"equal")])
        write(log)
    log.abandon()
    files = files_of(disk)
    *_, before, last = sorted(files)
    files[last] = files[last][:SEGMENT_HEADER_BYTES]
    assert last_entry(disk_of(files), FOLDER, GROUP, NO_BASE) is not None
    del files[before]
    assert last_entry(disk_of(files), FOLDER, GROUP, NO_BASE) is None


def test_an_empty_log_ends_with_its_base() -> None:
    disk = new_disk()
    GroupLog.create(disk, FOLDER, GROUP, SMALL).close()
    assert last_entry(disk, FOLDER, GROUP, NO_BASE) == LastEntry(Term(0), LogIndex(0))
    assert last_entry(disk, FOLDER, GROUP, (LogIndex(5), Term(2))) is None
    assert last_entry(new_disk(), FOLDER, GROUP, NO_BASE) is None


def test_a_last_segment_without_an_entry_tells_by_its_predecessor() -> None:
    files = log_files(SMALL, closed=True)
    *_, before, last = sorted(files)
    files[last] = files[last][:SEGMENT_HEADER_BYTES]
    end = int(last[:20]) - 1
    found = last_entry(disk_of(files), FOLDER, GROUP, NO_BASE)
    assert found is not None
    assert found.index == end
    ends = set()
    for position in range(len(files[before])):
        disk = disk_of({**files, before: flipped(files[before], position, 1)})
        ends.add(last_entry(disk, FOLDER, GROUP, NO_BASE))
    assert ends == {found, None}, "the last entry's own frame cannot be told"
