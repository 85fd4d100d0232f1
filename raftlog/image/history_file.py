"""History files: records of a topic that became visible between two snapshot points.

    header         64 bytes as of a segment: file id, group, first offset
    row group      its body: the column chunks of one batch; then its description
    ...
    footer         lengths, record counts and the CRC of each description
    trailer        32 bytes: length and CRC of the footer

A row group is one batch of consecutive records, in the format of a batch in the log, so a server
slices columns out of it without decoding, and clients check it as they check the log. Every byte
is covered by one checksum: the manifest has the footer's, which goes on from the header's; the
footer has the descriptions', and these have the column chunks'.

A small read needs the index (40 bytes a row group in memory), one description and the wanted
chunks. Descriptions are not kept: those of all topics would need more memory than extents do.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeVar

from raftlog.checksum import crc32c
from raftlog.core.types import GroupId, Offset
from raftlog.errors import CorruptFile, MalformedRequest
from raftlog.image.history_digest import digest_sum, row_group_digest
from raftlog.image.limits import (
    DESCRIPTION_BYTES_MAX,
    ENTRY_BYTES_MAX,
    RECEIVED_FOOTER_BYTES_MAX,
    RECEIVED_ROW_GROUPS_MAX,
)
from raftlog.image.manifest import (
    HISTORY_PREFIX,
    HistoryInfo,
    history_name,
    remove_earlier_tries,
)
from raftlog.machines.byte_index import ByteIndex
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import SEGMENT_HEADER_BYTES, Purpose, SegmentHeader
from raftlog.storage.recovery import read_segment_header
from raftlog.storage.unfinished import finish_file, unfinished_file
from raftlog.storage.write import NEW_FILE_ENDING
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import (
    decode_description,
    decode_first_timestamp,
    decode_footer,
    encode_description,
    encode_footer,
)
from raftlog.wire.history import HistoryFooter, RowGroupDescription
from raftlog.wire.runs import Runs

T = TypeVar("T")

_TRAILER = struct.Struct("<QQI8s")
_TRAILER_CRC = struct.Struct("<I")
_TRAILER_MAGIC = b"\nHISTORY"
TRAILER_BYTES = _TRAILER.size + _TRAILER_CRC.size

assert TRAILER_BYTES == 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A batch of consecutive records on its way into a history file."""

    start: Offset
    """The offset of its first record."""
    header: BatchHeader
    body: bytes
    record_bytes: int
    """Body bytes of these records as they lay in the log: what retention counts."""
    runs: Runs
    digest: bytes
    """Equal on two replicas if their records are (`raftlog.compaction.digest`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRowGroup:
    """A row group in a history file, without its body."""

    start: Offset
    header: BatchHeader
    runs: Runs
    digest: bytes
    record_bytes: int
    position: int
    """The file position of its body."""
    length: int
    """Bytes of its body."""

    @property
    def end(self) -> Offset:
        """The first offset after it."""
        return Offset(self.start + self.header.record_count)


# ---------------------------------------------------------------- write


def write_history_file(
    fs: FileSystem,
    folder: str,
    group: GroupId,
    row_groups: Iterable[RowGroup],
    *,
    kept: frozenset[str] = frozenset(),
) -> HistoryInfo:
    """Write the row groups into a file of the group's folder; durable when this returns.

    They are consecutive and at least one. One is held at a time. Files with the
    same start that are not in `kept` are earlier tries, and are removed. Raises `DiskFull`,
    `DiskFailed`, and what `row_groups` raises.
    """
    waiting = iter(row_groups)
    first = next(waiting, None)
    assert first is not None, "an interval without records has no history file"
    header = SegmentHeader(
        purpose=Purpose.HISTORY,
        segment_id=fs.new_id(),
        group=group,
        first_index=first.start,
        previous_end=0,
        previous_chain=0,
    )
    remove_earlier_tries(fs, folder, f"{HISTORY_PREFIX}{first.start:020}", kept)
    path = f"{folder}/{history_name(first.start, header.segment_id)}"
    with unfinished_file(fs, path + NEW_FILE_ENDING) as file:
        file.write_at(0, [header.encode()])
        writing = _Writing(file, first.start)
        writing.add(first)
        del first
        for row_group in waiting:
            writing.add(row_group)
        info = writing.finish(header)
    finish_file(fs, path + NEW_FILE_ENDING, path)
    return info


class _Writing:
    """A file that grows by row groups, and the columns of its footer."""

    def __init__(self, file: File, start: Offset) -> None:
        self._file = file
        self._start = start
        self._end = start
        self._position = SEGMENT_HEADER_BYTES
        self._digests: list[bytes] = []
        self._footer = HistoryFooter(
            record_counts=array("q"),
            record_bytes=array("q"),
            body_lengths=array("q"),
            description_lengths=array("q"),
            description_crcs=array("q"),
        )

    def add(self, row_group: RowGroup) -> None:
        """Write one row group behind those before it."""
        header, body = row_group.header, row_group.body
        assert row_group.start == self._end, "row groups are consecutive"
        assert header.record_count > 0, "a row group has records"
        assert row_group.record_bytes >= 0
        assert row_group.runs.problem(header.record_count) is None, "runs of these records"
        assert _is_tiled(header, len(body)), "every byte of a body is in one column"
        description = encode_description(
            RowGroupDescription(header=header, runs=row_group.runs, digest=row_group.digest)
        )
        self._file.write_at(self._position, [body, description])
        self._position += len(body) + len(description)
        self._end = Offset(self._end + header.record_count)
        self._digests.append(_digest_of(row_group))
        footer = self._footer
        footer.record_counts.append(header.record_count)
        footer.record_bytes.append(row_group.record_bytes)
        footer.body_lengths.append(len(body))
        footer.description_lengths.append(len(description))
        footer.description_crcs.append(crc32c(description))

    def finish(self, header: SegmentHeader) -> HistoryInfo:
        """Write footer and trailer. The caller syncs."""
        footer = encode_footer(self._footer)
        footer_crc = crc32c(footer, header.chain)
        trailer = _trailer(header, len(footer), footer_crc)
        self._file.write_at(self._position, [footer, trailer])
        return HistoryInfo(
            start=self._start,
            end=self._end,
            record_bytes=sum(self._footer.record_bytes),
            byte_count=self._position + len(footer) + len(trailer),
            file_id=header.segment_id,
            footer_crc=footer_crc,
            digest=digest_sum(self._digests),
        )


def _digest_of(row_group: RowGroup | StoredRowGroup) -> bytes:
    return row_group_digest(
        row_group.start, row_group.record_bytes, row_group.runs, row_group.digest
    )


def _trailer(header: SegmentHeader, footer_length: int, footer_crc: int) -> bytes:
    fields = _TRAILER.pack(footer_length, header.segment_id, footer_crc, _TRAILER_MAGIC)
    return fields + _TRAILER_CRC.pack(crc32c(fields, header.chain))


def _is_tiled(header: BatchHeader, body_length: int) -> bool:
    """Whether the columns cover the body without a gap: then their CRCs cover all its bytes."""
    position = 0
    for column in header.columns:
        if column.position != position:
            return False
        position += column.length
    return position == body_length


# ---------------------------------------------------------------- read


class RowGroupIndex(NamedTuple):
    """Where a file's row groups lie: packed columns, one row per row group in offset order."""

    starts: array[int]
    """First offsets, and at last the file's end."""
    bytes_before: array[int]
    """Body bytes, as they lay in the log, of the row groups before; at last, of all."""
    positions: array[int]
    """File positions of the bodies, and at last of the footer."""
    description_lengths: array[int]
    description_crcs: array[int]


class HistoryFile:
    """A history file for reading, for one thread at a time.

    Making the object does not touch the disk. The file is opened, and header, footer and trailer
    are checked, when it is first used. Every method raises `CorruptFile` (also if the file is
    missing, or not the one that the manifest means) and `FormatUnsupported`.
    """

    __slots__ = ("_direct", "_file", "_fs", "_group", "_index", "_path", "_received", "info")

    busy = False

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        group: GroupId,
        info: HistoryInfo,
        *,
        prefix: str = "",
        direct: bool = False,
        received: bool = False,
    ) -> None:
        """`prefix` goes before the name that the file has now. `direct`: read what the disk has,
        past the page cache. `received`: another node gave it (`raftlog.image.limits`)."""
        self._direct = direct
        self._received = received
        self._fs = fs
        self._path = f"{folder}/{prefix}{info.name}"
        self._group = group
        self.info = info
        self._file: File | None = None
        self._index: RowGroupIndex | None = None

    @property
    def index(self) -> RowGroupIndex:
        """All row groups by their numbers. They never change."""
        if self._index is None:
            self._index = _read_index(self.opened(), self._group, self.info, self._received)
        return self._index

    def byte_index(self) -> ByteIndex:
        """Where the bytes of the row groups lie, as they lay in the log."""
        return ByteIndex(self.index.starts, self.index.bytes_before)

    def digest(self) -> bytes:
        """What the manifest says of the file's records (`HistoryInfo.digest`), out of the
        descriptions of all row groups. The chunks are not read."""
        info = self.info
        return digest_sum(map(_digest_of, self.row_groups_between(info.start, info.end)))

    def row_groups_between(self, start: Offset, end: Offset) -> Iterator[StoredRowGroup]:
        """The row groups that overlap [start, end), whole, in offset order; none if start == end.

        The range must lie within [info.start, info.end]. Each description is read from the file
        and checked when its turn comes.
        """
        assert self.info.start <= start <= end <= self.info.end, (
            f"[{start}, {end}) is not within [{self.info.start}, {self.info.end}]"
        )
        if start == end:
            return iter(())
        starts = self.index.starts
        rows = range(bisect_right(starts, start) - 1, bisect_left(starts, end))
        return map(self._row_group, rows)

    def first_timestamp_at(self, offset: Offset) -> int:
        """The timestamp of the first record of the row group that holds `offset`, in microseconds
        since 1970 UTC."""
        return self._first_timestamp(bisect_right(self.index.starts, offset) - 1)

    def offset_at(self, timestamp_us: int, start: Offset) -> Offset:
        """The first offset from `start` on, which the file holds, whose record has this timestamp
        or a later one; the file's end if there is none. Decodes the runs of one row group."""
        starts = self.index.starts
        rows = range(bisect_right(starts, start) - 1, len(starts) - 1)
        after = bisect_left(rows, timestamp_us, key=self._first_timestamp)
        row_group = self._row_group(rows[max(after - 1, 0)])
        runs = row_group.runs
        skipped = sum(runs.counts[: bisect_left(runs.timestamps_us, timestamp_us)])
        return max(start, Offset(row_group.start + skipped))

    def body_slices(
        self, row_group: StoredRowGroup, slices: Sequence[tuple[int, int]]
    ) -> list[bytes]:
        """Raw bytes [position, position + length) of the row group's body, for each slice.

        They are not checked: `row_group.header` has the CRC of every chunk, and the reader checks
        them end to end.
        """
        file = self.opened()
        found = []
        for position, length in slices:
            assert 0 <= position <= position + length <= row_group.length, "exceeds the body"
            found.append(_read(file, row_group.position + position, length))
        return found

    def check_row_group(self, row_group: StoredRowGroup) -> None:
        """Read the whole body and check the CRC of every column."""
        for _ in self.check_columns(row_group):
            pass

    def check_columns(self, row_group: StoredRowGroup) -> Iterator[int]:
        """Check the CRC of every column, one at a time; yields the bytes of each."""
        for column in row_group.header.columns:
            (chunk,) = self.body_slices(row_group, [(column.position, column.length)])
            if crc32c(chunk) != column.crc:
                records = f"[{row_group.start}, {row_group.end})"
                raise CorruptFile(
                    file=self.opened().path,
                    position=row_group.position + column.position,
                    problem=f"the checksum of column {column.field_id} of records {records} "
                    "differs",
                )
            yield column.length

    def close(self) -> None:
        """Close the file and drop the index. The next use opens it again."""
        self._index = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def opened(self) -> File:
        """The file, opened unless it is open. Raises `CorruptFile` if it is missing."""
        if self._file is None:
            try:
                self._file = self._fs.open(self._path, create=False, direct=self._direct)
            except FileNotFoundError:
                raise CorruptFile(
                    file=self._fs.location(self._path), position=0, problem="it is missing"
                ) from None
        return self._file

    def _description(self, row: int, decode: Callable[[bytes], T]) -> T:
        """What `decode` reads in the description of a row group."""
        index, file = self.index, self.opened()
        length = index.description_lengths[row]
        position = index.positions[row + 1] - length
        data = _read(file, position, length)
        if crc32c(data) != index.description_crcs[row]:
            raise _damage(file, position, "the checksum of a description differs")
        try:
            return decode(data)
        except MalformedRequest as error:
            raise _damage(file, position, error.what) from error

    def _first_timestamp(self, row: int) -> int:
        return self._description(row, decode_first_timestamp)

    def _row_group(self, row: int) -> StoredRowGroup:
        description = self._description(row, decode_description)
        index, file, header = self.index, self.opened(), description.header
        start = index.starts[row]
        position = index.positions[row + 1] - index.description_lengths[row]
        body_length = position - index.positions[row]
        if header.record_count != index.starts[row + 1] - start:
            raise _damage(file, position, "a description counts other records than the footer")
        if not _is_tiled(header, body_length):
            raise _damage(file, position, f"its columns do not fit {body_length} bytes")
        return StoredRowGroup(
            start=Offset(start),
            header=header,
            runs=description.runs,
            digest=description.digest,
            record_bytes=index.bytes_before[row + 1] - index.bytes_before[row],
            position=index.positions[row],
            length=body_length,
        )


def _read_index(file: File, group: GroupId, info: HistoryInfo, received: bool) -> RowGroupIndex:
    if file.size() != info.byte_count:
        size = file.size()
        raise _damage(file, min(size, info.byte_count), f"it has {size} of {info.byte_count} bytes")
    header = read_segment_header(file, purpose=Purpose.HISTORY, group=group)
    if (header.segment_id, header.first_index) != (info.file_id, info.start):
        raise _damage(file, 0, "it is not the file that the manifest means")
    trailer_position = info.byte_count - TRAILER_BYTES
    trailer = _read(file, trailer_position, TRAILER_BYTES)
    length, _, _, _ = _TRAILER.unpack_from(trailer)
    if trailer != _trailer(header, length, info.footer_crc):
        raise _damage(file, trailer_position, "its trailer is not what was written")
    position = trailer_position - length
    if position < SEGMENT_HEADER_BYTES or (received and length > RECEIVED_FOOTER_BYTES_MAX):
        raise _damage(file, trailer_position, f"its footer would have {length} bytes")
    data = _read(file, position, length)
    if crc32c(data, header.chain) != info.footer_crc:
        raise _damage(file, position, "the checksum of its footer differs")
    try:
        footer = decode_footer(data, RECEIVED_ROW_GROUPS_MAX if received else None)
    except MalformedRequest as error:
        raise _damage(file, position, error.what) from error
    return _index_of(footer, file, info, position)


def _index_of(
    footer: HistoryFooter, file: File, info: HistoryInfo, footer_position: int
) -> RowGroupIndex:
    for what, lengths, most in (
        ("body", footer.body_lengths, ENTRY_BYTES_MAX),
        ("description", footer.description_lengths, DESCRIPTION_BYTES_MAX),
    ):
        if max(lengths, default=0) > most:
            problem = f"a {what} would have {max(lengths)} bytes; {most} are allowed"
            raise _damage(file, footer_position, problem)
    counts = footer.record_counts
    both = map(int.__add__, footer.body_lengths, footer.description_lengths)
    try:
        index = RowGroupIndex(
            starts=array("q", accumulate(counts, initial=info.start)),
            bytes_before=array("q", accumulate(footer.record_bytes, initial=0)),
            positions=array("q", accumulate(both, initial=SEGMENT_HEADER_BYTES)),
            description_lengths=footer.description_lengths,
            description_crcs=footer.description_crcs,
        )
    except OverflowError as error:
        raise _damage(file, footer_position, f"its footer counts too far: {error}") from None
    ends = (index.starts[-1], index.bytes_before[-1], index.positions[-1])
    if not counts or min(counts) < 1 or ends != (info.end, info.record_bytes, footer_position):
        raise _damage(file, footer_position, "its footer does not fit the file or the manifest")
    return index


def _read(file: File, position: int, length: int) -> bytes:
    data = file.read_at(position, length)
    if len(data) < length:
        raise _damage(file, position, f"it has {len(data)} of {length} bytes there")
    return data


def _damage(file: File, position: int, problem: str) -> CorruptFile:
    return CorruptFile(file=file.path, position=position, problem=problem)
