"""The index of a topic's visible records: consecutive offsets, each extent in one log entry.

The index is packed columns, one row per extent in offset order. It grows at its end. Its beginning
may be dropped once the records are also elsewhere, or trimmed. So what the state says of all
extents since the topic began does not depend on the rows that are left: a running digest, the mark,
and byte positions.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.byte_index import ByteIndex
from raftlog.machines.byte_positions import BytePositions
from raftlog.machines.digest import DIGEST_BYTES, StateDigest
from raftlog.machines.state import ExtentsState

NO_EPOCH = -1
"""The epoch of a plain append. Its writer is the empty text."""

_LINK = struct.Struct(f"<{DIGEST_BYTES}sqqqqq")
"""What an extent adds to the running digest, besides its writer: the digest before it, its records,
index, timestamp, epoch and body bytes."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Records [start, start + count) of the topic: all records of log entry `index`."""

    start: Offset
    count: int
    index: LogIndex
    timestamp_us: int
    epoch: int
    writer: str
    body_bytes: int


class _Rows:
    """The columns. Rows are never changed, and those at the beginning never removed in place: they
    are left out of a copy, so an iterator over the rows before it stays valid."""

    __slots__ = (
        "byte_positions", "epochs", "indexes", "names", "starts", "timestamps", "writers",
    )  # fmt: skip

    def __init__(self, start: Offset, byte: int) -> None:
        self.starts = array("q", (start,))
        """Each row's first offset, and the high-water mark after them."""
        self.byte_positions = array("q", (byte,))
        """The body bytes of all records before each of `starts`, since the topic began."""
        self.indexes = array("q")
        self.timestamps = array("q")
        self.epochs = array("q")
        self.writers = array("q")
        self.names = [""]
        """Writers' names in order of first appearance; `writers` holds indexes into this list."""

    def __len__(self) -> int:
        return len(self.indexes)

    def from_row(self, first: int) -> _Rows:
        """A copy without the rows before `first`. Names that few rows use any more are left out."""
        kept = _Rows(Offset(0), 0)
        kept.starts = self.starts[first:]
        kept.byte_positions = self.byte_positions[first:]
        kept.indexes = self.indexes[first:]
        kept.timestamps = self.timestamps[first:]
        kept.epochs = self.epochs[first:]
        kept.writers = self.writers[first:]
        kept.names = self.names
        # Half of the names are unused then, so looking for them costs little for each name.
        if len(kept.names) > 2 * len(kept) + 1:
            used = dict.fromkeys((0, *kept.writers))
            kept.names = [self.names[number] for number in used]
            numbers = {number: new for new, number in enumerate(used)}
            kept.writers = array("q", [numbers[number] for number in kept.writers])
        return kept

    def extent(self, row: int) -> Extent:
        start = self.starts[row]
        return Extent(
            start=Offset(start),
            count=self.starts[row + 1] - start,
            index=LogIndex(self.indexes[row]),
            timestamp_us=self.timestamps[row],
            epoch=self.epochs[row],
            writer=self.names[self.writers[row]],
            body_bytes=self.byte_positions[row + 1] - self.byte_positions[row],
        )


class ExtentIndex:
    """The extents of [extents_start, high_water_mark), without a gap or an overlap."""

    __slots__ = ("_digest", "_numbers", "_positions", "_rows")

    def __init__(self) -> None:
        self._rows = _Rows(Offset(0), 0)
        self._numbers: dict[str, int] = {"": 0}
        self._positions = BytePositions()
        self._digest = bytes(DIGEST_BYTES)

    @classmethod
    def restore(cls, state: ExtentsState) -> ExtentIndex:
        """The index with this state, without any extent: it begins at the high-water mark."""
        restored = cls()
        restored._rows = _Rows(state.high_water_mark, state.published_bytes)
        restored._positions = BytePositions.restore(state.position_offsets, state.position_bytes)
        restored._digest = state.digest
        return restored

    def state(self) -> ExtentsState:
        """What the index says of all extents since the topic began."""
        offsets, positions = self._positions.packed()
        return ExtentsState(
            high_water_mark=self.high_water_mark,
            published_bytes=self._rows.byte_positions[-1],
            digest=self._digest,
            position_offsets=offsets,
            position_bytes=positions,
        )

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that was not trimmed."""
        return self._positions.start

    @property
    def extents_start(self) -> Offset:
        """The first offset whose extent the index holds; the high-water mark if it holds none."""
        return Offset(self._rows.starts[0])

    @property
    def high_water_mark(self) -> Offset:
        """The offset after the last extent."""
        return Offset(self._rows.starts[-1])

    @property
    def record_bytes(self) -> int:
        """Body bytes of [log_start_offset, high_water_mark). A log start that was within an extent
        or among extents that are close together counts in proportion (`BytePositions.byte_at`)."""
        return self._rows.byte_positions[-1] - self._positions.start_byte

    def offset_before_last(self, byte_count: int) -> Offset:
        """An offset, log_start_offset or above, from which at least the last `byte_count` body
        bytes follow: the highest one at which an extent that is held begins, or whose byte position
        is noted."""
        rows = self._rows
        limit = rows.byte_positions[-1] - byte_count
        found = self._positions.last_at(limit)
        row = bisect_right(rows.byte_positions, limit) - 1
        return found if row < 0 else Offset(max(found, rows.starts[row]))

    def append(
        self,
        *,
        count: int,
        index: LogIndex,
        timestamp_us: int,
        body_bytes: int,
        epoch: int = NO_EPOCH,
        writer: str = "",
    ) -> None:
        """Make `count` records visible at the high-water mark, which moves past them."""
        entry = (index, count, body_bytes)
        self.extend((entry,), timestamp_us=timestamp_us, epoch=epoch, writer=writer)

    def extend(
        self,
        entries: Iterable[tuple[int, int, int]],
        *,
        timestamp_us: int,
        epoch: int,
        writer: str,
    ) -> None:
        """Make the records of several entries visible, in order: (index, record count, body bytes)
        of each. Takes 0.7 us an entry, most of it for the digest."""
        rows, numbers, name = self._rows, self._numbers, writer.encode()
        number = numbers.get(writer)
        if number is None:
            number = numbers[writer] = len(numbers)
            rows.names.append(writer)
        starts, byte_positions, indexes = rows.starts, rows.byte_positions, rows.indexes
        timestamps, epochs, writers = rows.timestamps, rows.epochs, rows.writers
        note, blake2b, pack = self._positions.note, hashlib.blake2b, _LINK.pack
        start, byte, digest = starts[-1], byte_positions[-1], self._digest
        for index, count, body_bytes in entries:
            assert count > 0, "an extent holds at least one record"
            assert body_bytes >= 0
            note(start, byte)
            start += count
            byte += body_bytes
            starts.append(start)
            byte_positions.append(byte)
            indexes.append(index)
            timestamps.append(timestamp_us)
            epochs.append(epoch)
            writers.append(number)
            link = pack(digest, count, index, timestamp_us, epoch, body_bytes)
            # Cut to length here: naming a digest size triples the time, which every extent takes.
            digest = blake2b(link + name).digest()[:DIGEST_BYTES]
        self._digest = digest

    def trim(self, offset: Offset) -> None:
        """Move the log start up to `offset`, at most to the high-water mark, and drop the extents
        before it. Does nothing if the log start is there or beyond."""
        mark = self.high_water_mark
        start = max(self.log_start_offset, min(offset, mark))
        byte = self._positions.byte_at(start, mark, self._rows.byte_positions[-1])
        self._positions.trim(start, byte)
        self.drop_before(start)

    def drop_before(self, offset: Offset) -> None:
        """Forget the extents that end at or before `offset`. One that `offset` divides stays."""
        first = bisect_right(self._rows.starts, offset) - 1
        if first <= 0:
            return
        before, self._rows = self._rows, self._rows.from_row(first)
        if self._rows.names is not before.names:
            self._numbers = {name: number for number, name in enumerate(self._rows.names)}

    def between(self, start: Offset, end: Offset) -> Iterator[Extent]:
        """The extents that overlap [start, end), whole, in offset order; none if start == end.

        The range must begin at or above log_start_offset and extents_start, and end at or below
        high_water_mark. What becomes visible or is dropped while the iterator is used changes
        nothing about it.
        """
        self._check_range(start, end)
        rows = self._rows
        if start == end:
            return iter(())
        first = bisect_right(rows.starts, start) - 1
        last = bisect_left(rows.starts, end)
        return (rows.extent(row) for row in range(first, last))

    def offset_at(self, timestamp_us: int) -> Offset:
        """The first offset, at or above log_start_offset and extents_start, whose record has this
        timestamp or a later one; the high-water mark if there is none."""
        row = bisect_left(self._rows.timestamps, timestamp_us)
        return Offset(max(self._rows.starts[row], self.log_start_offset))

    def byte_index(self, start: Offset) -> ByteIndex:
        """Where the bytes of the extents lie, from the one that holds `start` on. It may
        be kept: extents that come or are dropped change nothing about those before.

        `start` must be in [extents_start, high_water_mark].
        """
        assert self.extents_start <= start <= self.high_water_mark
        rows = self._rows
        first = bisect_right(rows.starts, start) - 1
        return ByteIndex(rows.starts, rows.byte_positions, first)

    def digest_into(self, digest: StateDigest) -> None:
        """Write the range and every extent since the topic began into `digest`."""
        digest.number(self.log_start_offset)
        digest.number(self.high_water_mark)
        digest.number(self._rows.byte_positions[-1])
        digest.raw(self._digest)
        self._positions.digest_into(digest)

    def _check_range(self, start: Offset, end: Offset) -> None:
        first = max(self.log_start_offset, self.extents_start)
        assert first <= start <= end <= self.high_water_mark, (
            f"[{start}, {end}) is not within [{first}, {self.high_water_mark}]"
        )
