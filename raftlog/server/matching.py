"""Which stored batches of a range may have records that predicates are true for: a look at their
headers and runs, without a byte of their bodies."""

from __future__ import annotations

from raftlog.core.types import Offset
from raftlog.machines.schema import RESERVED_NAMES
from raftlog.multiraft.local_replica import StoredBatch
from raftlog.predicates.outcomes import Statistics, outcomes
from raftlog.predicates.predicate import And, Column, node_count
from raftlog.server.fair_scans import batch_work, runs_work
from raftlog.wire.batch import Bound
from raftlog.wire.calls import RangeSizes, ReadSizes

PIECE_BYTES_MIN = 1 << 20
"""Adjacent batches that may match become one piece up to here. No setting: it is about what a task
reads at least."""

WORK_MAX = 100_000
"""Work for one call, some tenths of a second, after which the client asks again. No setting: it
keeps a call far below any deadline."""


class Matching:
    """The answer to one `ReadSizes` with predicates, batch by batch in offset order."""

    def __init__(self, call: ReadSizes, topic: str) -> None:
        self._call = call
        self._topic = topic
        self._where = And(parts=call.where)
        self._nodes = node_count(self._where)
        self._work = 0
        self._offsets = [call.start]
        self._body_bytes: list[int] = []
        self._matches: list[bool] = []

    @property
    def position(self) -> Offset:
        """The first offset that was not judged yet."""
        return self._offsets[-1]

    @property
    def done(self) -> bool:
        """Whether the range is judged to its end, or enough of it for one answer."""
        full = len(self._matches) >= self._call.pieces_max
        return self.position >= self._call.end or self._work >= WORK_MAX or full

    def judge(self, batch: StoredBatch) -> int:
        """Add the batch that holds the record at `position`. Returns what that took, as
        `FairScans` counts work."""
        known = _Known(batch, self._topic)
        matches = self._may_match(batch, known)
        size = batch.body_bytes
        end = min(self._call.end, batch.end)
        same = bool(self._matches) and self._matches[-1] == matches
        if same and (not matches or self._body_bytes[-1] < PIECE_BYTES_MIN):
            self._body_bytes[-1] += size
            self._offsets[-1] = end
        else:
            self._body_bytes.append(size)
            self._matches.append(matches)
            self._offsets.append(end)
        work = batch_work(batch) + self._nodes + known.work
        self._work += work
        return work

    def reply(self) -> RangeSizes:
        """What is known so far."""
        return RangeSizes(
            offsets=tuple(self._offsets),
            body_bytes=tuple(self._body_bytes),
            matches=tuple(self._matches),
        )

    def _may_match(self, batch: StoredBatch, known: _Known) -> bool:
        """A later version may have columns in other types than the caller reads them in."""
        if batch.header.schema_version > self._call.where_version:
            return True
        return outcomes(self._where, known.statistics).true


class _Known:
    """The statistics of a batch's columns."""

    def __init__(self, batch: StoredBatch, topic: str) -> None:
        self._batch = batch
        self._topic = topic
        self._chunks = {chunk.field_id: chunk for chunk in batch.header.columns}
        self._of_runs: dict[str, Statistics] = {}
        """Of the metadata columns that were asked for: a predicate may ask for one often."""

    @property
    def work(self) -> int:
        """What it took to look at the runs."""
        return len(self._of_runs) * runs_work(self._batch)

    def statistics(self, column: Column) -> Statistics | None:
        """Of a column, which is null in a batch that was written before it was added; None for a
        name that is no metadata column."""
        count = self._batch.header.record_count
        if isinstance(column, str):
            if column not in RESERVED_NAMES:
                return None
            if column not in self._of_runs:
                self._of_runs[column] = self._of_metadata(column)
            return self._of_runs[column]
        chunk = self._chunks.get(column)
        if chunk is None:
            return Statistics(record_count=count, null_count=count)
        return Statistics(
            record_count=count,
            null_count=chunk.null_count,
            minimum=chunk.minimum,
            maximum=chunk.maximum,
        )

    def _of_metadata(self, name: str) -> Statistics:
        """As `raftlog.records.metadata` makes the columns: a plain append has no writer, no
        epoch."""
        runs, start, end = self._batch.runs, self._batch.start, self._batch.end
        match name:
            case "_offset":
                return self._of_values((start, end - 1), 0)
            case "_topic":
                return self._of_values((self._topic,), 0)
            case "_timestamp":
                return self._of_values(tuple(runs.timestamps_us), 0)
            case "_term":
                return self._of_values(tuple(runs.terms), 0)
        written = [bool(runs.names[writer]) for writer in runs.writers]
        nulls = sum(count for count, is_written in zip(runs.counts, written, strict=True)
                    if not is_written)  # fmt: skip
        columns = zip(runs.epochs, runs.writers, written, strict=True)
        if name == "_epoch":
            return self._of_values(tuple(epoch for epoch, _, there in columns if there), nulls)
        return self._of_values(tuple(runs.names[one] for _, one, there in columns if there), nulls)

    def _of_values(self, values: tuple[Bound, ...], null_count: int) -> Statistics:
        return Statistics(
            record_count=self._batch.header.record_count,
            null_count=null_count,
            minimum=min(values, default=None),  # type: ignore[type-var]  # of one type
            maximum=max(values, default=None),  # type: ignore[type-var]
        )
