"""Reading all that a replica has at rest, to find damage before the data is needed.

Everything is read as it lies in the files: both copies of the manifest, the log up to an entry that
is durable and applied, snapshots, carried stages, history files. Every byte that was ever read back
by the rules of these formats is covered by a checksum, which is checked.

The replica goes on meanwhile: it appends, compacts, and drops what is read here. So what cannot be
read is looked up again in the manifest of the moment. What that does not name any more is no
damage. What came after the beginning is left to the next scrub.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image.damage import Damage, DamagedEntry, DamagedFile, DamagedLog
from raftlog.image.history_file import HistoryFile
from raftlog.image.manifest import (
    FileInfo,
    HistoryInfo,
    Image,
    SnapshotInfo,
    StagesInfo,
    read_image,
)
from raftlog.image.snapshot_file import read_snapshot
from raftlog.image.stages_file import StagesFile
from raftlog.storage.checked_file import damage_of
from raftlog.storage.contract import FileSystem
from raftlog.storage.folder import manifest_damage
from raftlog.storage.frames import FRAME_HEADER_BYTES
from raftlog.storage.scan import ProvenFrame, proven_frames, read_entry

PIECE_BYTES = 1024 * 1024
"""About so much is read in one step; a snapshot or a column is read at once."""

CHECK_BYTES = 4096
"""What checking one item costs besides reading it, as bytes that are read meanwhile. Small entries,
of three items each, take processor time, not disk. It makes a piece of 256 items. No setting: it is
part of what `storage.scrub_bytes_per_s_max` means."""


class DamagedCopy(NamedTuple):
    """A copy of a manifest. The other one stands in, or what the node knows without it."""

    cause: CorruptFile


class Piece(NamedTuple):
    """What one step has read."""

    byte_count: int
    cost: int
    """Its share of the throttle, in bytes."""
    damage: Damage | DamagedCopy | None


def scrub(
    fs: FileSystem, folder: str, group: GroupId, last: LogIndex, known: Image
) -> Generator[Piece]:
    """Read the group's files, the log up to entry `last`, which is durable and applied.

    `known` is the image as the node has it in memory: the one to read if no copy of it can be read.
    Each step may run on another thread, while no manifest is being written and no file is being
    removed. What is not healed is found again by the next scrub. Closing the generator closes the
    file that it reads.
    """
    if (text_damage := manifest_damage(fs, folder)) is not None:
        yield _damage(DamagedCopy(text_damage))
    try:
        image, damaged = read_image(fs, folder)
    except (CorruptFile, FormatUnsupported) as error:
        yield _damage(DamagedLog(damage_of(error)))
        image, damaged = known, None
    if damaged is not None:
        yield _damage(DamagedCopy(damage_of(damaged)))
    yield from _pieces(_log(fs, folder, group, LogIndex(image.base[0] + 1), last))
    for info in image.files():
        yield from _pieces(_file(fs, folder, group, info))


def size_at_rest(image: Image, log_bytes: int) -> int:
    """About what a scrub reads of an image and a log of so many bytes: snapshots, which are small,
    are not counted."""
    stages = sum(each.byte_count for each in image.stages)
    return log_bytes + stages + image.history_bytes


# ---------------------------------------------------------------- pieces

_Item = int | Damage
"""Bytes that were read and are whole, or what is damaged."""


def _damage(damage: Damage | DamagedCopy) -> Piece:
    return Piece(0, CHECK_BYTES, damage)


def _pieces(items: Iterator[_Item]) -> Iterator[Piece]:
    """The items put together into pieces; damage is told at once."""
    byte_count = count = 0
    for item in items:
        count += 1
        if isinstance(item, int):
            byte_count += item
        cost = byte_count + count * CHECK_BYTES
        if not isinstance(item, int):
            yield Piece(byte_count, cost, item)
        elif cost >= PIECE_BYTES:
            yield Piece(byte_count, cost, None)
        else:
            continue
        byte_count = count = 0
    if count:
        yield Piece(byte_count, byte_count + count * CHECK_BYTES, None)


# ---------------------------------------------------------------- the log


def _log(
    fs: FileSystem, folder: str, group: GroupId, wanted: LogIndex, last: LogIndex
) -> Iterator[_Item]:
    """Entries `wanted` to `last`. A log that is dropped meanwhile goes on after its new base."""
    while wanted <= last:
        try:
            for found in proven_frames(fs, folder, group, wanted, last):
                yield from _payload(fs, folder, found)
                wanted = LogIndex(found.entry_index + 1)
            return
        except (CorruptFile, FormatUnsupported) as error:
            base = _base(fs, folder)
            if wanted > base:
                yield DamagedLog(damage_of(error))
                return
            wanted = LogIndex(base + 1)


def _payload(fs: FileSystem, folder: str, found: ProvenFrame) -> Iterator[_Item]:
    """Check command and body of the entry, a large one piece by piece."""
    header = found.placed.header
    command_end, end = header.command_length, header.payload_bytes
    yield FRAME_HEADER_BYTES
    try:
        command_crc = yield from _crc(found, 0, command_end)
        body_crc = yield from _crc(found, command_end, end)
        if (command_crc, body_crc) == (header.command_crc, header.body_crc):
            return
        # A repair may have put another file in the place of the one that is open here.
        read_entry(fs, found.place)
    except CorruptFile as cause:
        if found.entry_index > _base(fs, folder):
            yield DamagedEntry(found.entry_index, cause)


def _crc(found: ProvenFrame, start: int, end: int) -> Generator[int, None, int]:
    """The CRC of bytes [start, end) of the payload, which are read piece by piece."""
    crc = 0
    for at in range(start, end, PIECE_BYTES):
        data = found.payload_bytes(at, min(PIECE_BYTES, end - at))
        crc = crc32c(data, crc)
        yield len(data)
    return crc


def _base(fs: FileSystem, folder: str) -> LogIndex:
    """The base of the log by the manifest of the moment; 0 if that cannot be read."""
    try:
        return read_image(fs, folder).image.base[0]
    except (CorruptFile, FormatUnsupported):
        return LogIndex(0)


# ---------------------------------------------------------------- files of the image


def _file(fs: FileSystem, folder: str, group: GroupId, info: FileInfo) -> Iterator[_Item]:
    """One file; the first damage ends it, because it is fetched as a whole."""
    try:
        match info:
            case SnapshotInfo():
                yield len(read_snapshot(fs, folder, group, info))
            case StagesInfo():
                yield from _stages(fs, folder, group, info)
            case HistoryInfo():
                yield from _history(fs, folder, group, info)
    except (CorruptFile, FormatUnsupported) as error:
        if _is_named(fs, folder, info.name):
            yield DamagedFile(info.name, damage_of(error))


class FileCheck:
    """A look at one file that the manifest names, because another node could not use it: a
    `BackgroundRead`."""

    def __init__(self, fs: FileSystem, folder: str, group: GroupId, info: FileInfo) -> None:
        self.damage: CorruptFile | None = None
        self._items = _file(fs, folder, group, info)

    def run(self) -> None:
        for item in self._items:
            if isinstance(item, DamagedFile):
                self.damage = item.cause


def _stages(fs: FileSystem, folder: str, group: GroupId, info: StagesInfo) -> Iterator[int]:
    file = StagesFile(fs, folder, group, info)
    try:
        yield from file.check()
    finally:
        file.close()


def _history(fs: FileSystem, folder: str, group: GroupId, info: HistoryInfo) -> Iterator[int]:
    file = HistoryFile(fs, folder, group, info, direct=True)
    try:
        for row_group in file.row_groups_between(info.start, info.end):
            yield from file.check_columns(row_group)
    finally:
        file.close()


def _is_named(fs: FileSystem, folder: str, name: str) -> bool:
    """Does the manifest of the moment name the file? If it cannot be read, the former one did."""
    try:
        return name in read_image(fs, folder).image.names()
    except (CorruptFile, FormatUnsupported):
        return True
