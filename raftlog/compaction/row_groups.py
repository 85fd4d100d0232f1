"""Batches of the log as the row groups of a history file, in order and one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from raftlog.compaction.cuts import BatchShape, cut, shape_of
from raftlog.compaction.merge import Batch, DecodingBudget, copy, merge
from raftlog.core.types import FIRST_OFFSET, Offset
from raftlog.image.history_file import RowGroup
from raftlog.machines.schema import Schema
from raftlog.wire.batch import BatchHeader
from raftlog.wire.runs import Runs, joined_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBatch:
    """A batch of visible records: an extent of the log, or a row group of a history file."""

    start: Offset
    header: BatchHeader
    body: bytes
    record_bytes: int
    """Body bytes of these records as they lay in the log."""
    runs: Runs


def row_groups(
    batches: Iterable[SourceBatch], latest: Schema, log_start: Offset = FIRST_OFFSET
) -> Iterator[RowGroup]:
    """The row groups of consecutive batches; the same on every replica, but for compressed bytes.

    Records below `log_start` are left out, unless their batch is copied; only the first batch may
    have some. What is kept of it counts for its part of the bytes.

    Only batches of one version of the schema are merged, as that version has their columns, so a
    record stays as it was written. Batches of a version above that of `latest`, the topic's schema,
    are copied as they are, and so are those beyond the `DecodingBudget`. Holds the batches of one
    row group at a time, and the one after it.
    Raises `DataLoss` if a column of a batch is not what its client wrote.
    """
    budget = DecodingBudget()
    for joined in cut(batches, _shape):
        budget.earn(sum(each.record_bytes for each in joined))
        version = joined[0].header.schema_version
        schema = latest.at(version) if 1 <= version <= latest.version else None
        plain = [Batch(each.header, each.body) for each in joined]
        trimmed = max(0, log_start - joined[0].start)
        merges = merge(plain, schema, budget, trimmed=trimmed) if schema else map(copy, plain)
        first = 0
        for merged in merges:
            sources = joined[first : first + merged.count]
            first += merged.count
            head, kept = sources[0], merged.header.record_count
            left_out = sum(each.header.record_count for each in sources) - kept
            bytes_left_out = head.record_bytes * left_out // head.header.record_count
            yield RowGroup(
                start=Offset(head.start + left_out),
                header=merged.header,
                body=merged.body,
                record_bytes=sum(each.record_bytes for each in sources) - bytes_left_out,
                runs=joined_runs([each.runs for each in sources]).slice(left_out, kept),
                digest=merged.digest,
            )


def _shape(batch: SourceBatch) -> BatchShape:
    return shape_of(batch.header, batch.runs, batch.record_bytes)
