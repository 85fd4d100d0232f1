"""Batches of the log as the row groups of a history file, in order and one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from raftlog.compaction.cuts import BatchShape, cut, shape_of
from raftlog.compaction.merge import Batch, DecodingBudget, copy, merge
from raftlog.core.types import Offset
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


def row_groups(batches: Iterable[SourceBatch], latest: Schema) -> Iterator[RowGroup]:
    """The row groups of consecutive batches; the same on every replica, but for compressed bytes.

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
        first = 0
        for merged in map(copy, plain) if schema is None else merge(plain, schema, budget):
            sources = joined[first : first + merged.count]
            first += merged.count
            yield RowGroup(
                start=sources[0].start,
                header=merged.header,
                body=merged.body,
                record_bytes=sum(each.record_bytes for each in sources),
                runs=joined_runs([each.runs for each in sources]),
                digest=merged.digest,
            )


def _shape(batch: SourceBatch) -> BatchShape:
    return shape_of(batch.header, batch.runs, batch.record_bytes)
