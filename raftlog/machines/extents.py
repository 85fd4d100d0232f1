"""The index of a topic's visible records: consecutive offsets, each extent in one log entry.

The index is packed columns of equal length, one row per extent in offset order. It only grows;
rows are never changed, so a reader may iterate over it while entries are applied.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.digest import StateDigest

NO_EPOCH = -1
"""The epoch of a plain append. Its writer is the empty text."""


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


class ExtentIndex:
    """The extents of [log_start_offset, high_water_mark), without a gap or an overlap."""

    __slots__ = (
        "_bytes_before", "_epochs", "_indexes", "_names", "_numbers", "_starts",
        "_timestamps", "_writers", "high_water_mark", "log_start_offset", "record_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.log_start_offset = Offset(0)
        self.high_water_mark = Offset(0)
        self.record_bytes = 0
        """Body bytes of all extents."""
        self._starts = array("q")
        self._bytes_before = array("q")
        self._indexes = array("q")
        self._timestamps = array("q")
        self._epochs = array("q")
        self._writers = array("q")
        self._names = [""]
        """Writers' names in order of first appearance; `_writers` holds indexes into this list."""
        self._numbers: dict[str, int] = {"": 0}

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
        assert count > 0, "an extent holds at least one record"
        assert body_bytes >= 0
        numbers = self._numbers
        number = numbers.get(writer)
        if number is None:
            number = numbers[writer] = len(numbers)
            self._names.append(writer)
        self._starts.append(self.high_water_mark)
        self._bytes_before.append(self.record_bytes)
        self._indexes.append(index)
        self._timestamps.append(timestamp_us)
        self._epochs.append(epoch)
        self._writers.append(number)
        self.high_water_mark = Offset(self.high_water_mark + count)
        self.record_bytes += body_bytes

    def between(self, start: Offset, end: Offset) -> Iterator[Extent]:
        """The extents that overlap [start, end), whole, in offset order; none if start == end.

        The range must lie within [log_start_offset, high_water_mark] at the call. Records that
        become visible while the iterator is used are not in it.
        """
        self._check_range(start, end)
        if start == end:
            return iter(())
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end)
        return (self._row(row) for row in range(first, last))

    def split(
        self, start: Offset, end: Offset, pieces_max: int
    ) -> tuple[tuple[Offset, ...], tuple[int, ...]]:
        """Split [start, end) at extents into at most `pieces_max` pieces of about equal bytes.

        Returns rising offsets from start to end, and the body bytes of each piece. An extent that
        start or end divides counts in proportion. An empty range gives one offset and no piece.
        """
        assert pieces_max >= 1
        self._check_range(start, end)
        if start == end:
            return (start,), ()
        offsets = [start]
        first_byte = self._bytes_up_to(start)
        total = self._bytes_up_to(end) - first_byte
        last_row = bisect_left(self._starts, end)
        pieces = min(pieces_max, last_row - bisect_right(self._starts, start) + 1)
        for piece in range(1, pieces):
            target = first_byte + total * piece // pieces
            row = bisect_left(self._bytes_before, target)
            if row >= last_row:
                break
            if self._starts[row] > offsets[-1]:
                offsets.append(Offset(self._starts[row]))
        offsets.append(end)
        positions = [self._bytes_up_to(offset) for offset in offsets]
        sizes = (after - before for before, after in pairwise(positions))
        return tuple(offsets), tuple(sizes)

    def digest_into(self, digest: StateDigest) -> None:
        """Write every extent and the range into `digest`."""
        digest.number(self.log_start_offset)
        digest.number(self.high_water_mark)
        digest.number(self.record_bytes)
        for column in (
            self._starts, self._bytes_before, self._indexes,
            self._timestamps, self._epochs, self._writers,
        ):  # fmt: skip
            digest.column(column)
        for name in self._names:
            digest.text(name)

    def _check_range(self, start: Offset, end: Offset) -> None:
        assert self.log_start_offset <= start <= end <= self.high_water_mark, (
            f"[{start}, {end}) is not within [{self.log_start_offset}, {self.high_water_mark}]"
        )

    def _row_end(self, row: int) -> int:
        """The first offset after the extent of `row`."""
        return self._starts[row + 1] if row + 1 < len(self._starts) else self.high_water_mark

    def _row_bytes(self, row: int) -> int:
        after = row + 1
        end = self._bytes_before[after] if after < len(self._starts) else self.record_bytes
        return end - self._bytes_before[row]

    def _row(self, row: int) -> Extent:
        start = self._starts[row]
        return Extent(
            start=Offset(start),
            count=self._row_end(row) - start,
            index=LogIndex(self._indexes[row]),
            timestamp_us=self._timestamps[row],
            epoch=self._epochs[row],
            writer=self._names[self._writers[row]],
            body_bytes=self._row_bytes(row),
        )

    def _bytes_up_to(self, offset: Offset) -> int:
        """Body bytes before `offset`; within an extent, in proportion to its records."""
        row = bisect_right(self._starts, offset) - 1
        if row < 0:
            return 0
        start = self._starts[row]
        share = self._row_bytes(row) * (offset - start) // (self._row_end(row) - start)
        return self._bytes_before[row] + share
