"""Which batches become one row group: a pure function of what every replica's log holds alike.

So replicas cut their histories at the same offsets, and can compare them row group by row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from raftlog.wire.batch import BatchHeader
from raftlog.wire.runs import Runs

T = TypeVar("T")

# Another number moves the borders of row groups. Replicas that differ in one could not be compared.

ROW_GROUP_RECORDS_MAX = 65_536
"""Larger row groups are hardly cheaper to scan, and a small read costs more (docs/DECISIONS.md)."""

ROW_GROUP_BYTES_MAX = 4 * 1024 * 1024
"""Body bytes of a row group's batches, as they lie in the log. For the same reasons."""

ROW_GROUP_RUNS_MAX = 8_192
"""Runs of a row group's batches. A read of one record decodes all runs of its row group: 3 ms at
this limit. Batches of eight records or more reach `ROW_GROUP_RECORDS_MAX` first."""

ROW_GROUP_NAME_BYTES_MAX = 512 * 1024
"""Bytes of writers' names in the runs of a row group's batches, for the same reason. 64 for each of
`ROW_GROUP_RUNS_MAX` batches: a name that several of them have counts for each."""

LARGE_RECORDS_MIN = 8_192
"""A batch of so many records stays as it is. With lz4 it is scanned as fast as a full row group
with zstd (44 against 47 ms for 786,432 flights), so merging would cost work and save little."""

LARGE_BYTES_MIN = 512 * 1024
"""So does a batch with so many body bytes."""


class BatchShape(NamedTuple):
    """All of a batch that decides where row groups begin."""

    record_count: int
    body_bytes: int
    schema_version: int
    field_ids: tuple[int, ...]
    run_count: int
    name_bytes: int
    """Of the writers' names in its runs, in UTF-8."""

    @property
    def is_large(self) -> bool:
        return self.record_count >= LARGE_RECORDS_MIN or self.body_bytes >= LARGE_BYTES_MIN

    def joined_with(self, after: BatchShape) -> BatchShape | None:
        """The shape of both in one row group; None if they do not belong into one."""
        columns = (after.schema_version, after.field_ids)
        if after.is_large or columns != (self.schema_version, self.field_ids):
            return None
        both = self._replace(
            record_count=self.record_count + after.record_count,
            body_bytes=self.body_bytes + after.body_bytes,
            run_count=self.run_count + after.run_count,
            name_bytes=self.name_bytes + after.name_bytes,
        )
        fits = (
            both.record_count <= ROW_GROUP_RECORDS_MAX
            and both.body_bytes <= ROW_GROUP_BYTES_MAX
            and both.run_count <= ROW_GROUP_RUNS_MAX
            and both.name_bytes <= ROW_GROUP_NAME_BYTES_MAX
        )
        return both if fits else None


def shape_of(header: BatchHeader, runs: Runs, record_bytes: int) -> BatchShape:
    """The shape of a batch whose records had `record_bytes` body bytes in the log. What they have
    in a history file may differ between replicas, whose compressors may."""
    return BatchShape(
        record_count=header.record_count,
        body_bytes=record_bytes,
        schema_version=header.schema_version,
        field_ids=tuple(column.field_id for column in header.columns),
        run_count=len(runs),
        name_bytes=sum(len(name.encode()) for name in runs.names),
    )


def cut(batches: Iterable[T], shape: Callable[[T], BatchShape]) -> Iterator[list[T]]:
    """The batches in order, in lists that become one row group each.

    A large batch is by itself. The others are joined as long as they have the same columns and
    stay within the bounds of a row group. Holds one list at a time, and the batch after it.
    """
    joined: list[T] = []
    whole: BatchShape | None = None
    for batch in batches:
        each = shape(batch)
        together = None if whole is None else whole.joined_with(each)
        if joined and together is None:
            yield joined
            joined = []
        whole = together or each
        joined.append(batch)
        if each.is_large:
            yield joined
            joined, whole = [], None
    if joined:
        yield joined
