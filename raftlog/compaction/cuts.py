"""Which batches become one row group: a pure function of what every replica's log holds alike.

So replicas cut their histories at the same offsets, and can compare them row group by row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from raftlog.wire.batch import BatchHeader

T = TypeVar("T")

# Another number moves the borders of row groups. Replicas that differ in one could not be compared.

ROW_GROUP_RECORDS_MAX = 65_536
"""Larger row groups are hardly cheaper to scan, and a small read costs more (docs/DECISIONS.md)."""

ROW_GROUP_BYTES_MAX = 4 * 1024 * 1024
"""Body bytes of a row group's batches, as they lie in the log. For the same reasons."""

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

    @property
    def is_large(self) -> bool:
        return self.record_count >= LARGE_RECORDS_MIN or self.body_bytes >= LARGE_BYTES_MIN


def shape_of(header: BatchHeader, record_bytes: int) -> BatchShape:
    """The shape of a batch whose records had `record_bytes` body bytes in the log. What they have
    in a history file may differ between replicas, whose compressors may."""
    return BatchShape(
        record_count=header.record_count,
        body_bytes=record_bytes,
        schema_version=header.schema_version,
        field_ids=tuple(column.field_id for column in header.columns),
    )


def cut(batches: Iterable[T], shape: Callable[[T], BatchShape]) -> Iterator[list[T]]:
    """The batches in order, in lists that become one row group each.

    A large batch is by itself. The others are joined as long as they have the same columns and
    stay within `ROW_GROUP_RECORDS_MAX` and `ROW_GROUP_BYTES_MAX`. Holds one list at a time, and the
    batch after it.
    """
    joined: list[T] = []
    columns: tuple[int, tuple[int, ...]] | None = None
    record_count = body_bytes = 0
    for batch in batches:
        each = shape(batch)
        record_count += each.record_count
        body_bytes += each.body_bytes
        if joined and (
            each.is_large
            or (each.schema_version, each.field_ids) != columns
            or record_count > ROW_GROUP_RECORDS_MAX
            or body_bytes > ROW_GROUP_BYTES_MAX
        ):
            yield joined
            joined = []
        if not joined:
            columns = (each.schema_version, each.field_ids)
            record_count, body_bytes = each.record_count, each.body_bytes
        joined.append(batch)
        if each.is_large:
            yield joined
            joined = []
    if joined:
        yield joined
