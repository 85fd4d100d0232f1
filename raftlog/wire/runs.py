"""What a batch's records have in common, in runs: consecutive records with the same metadata.

A batch out of the log is one extent and so has one run. A row group of a history file holds the
records of many extents. It has one row here for each, in packed columns, because it may have
thousands.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One row per run, in the records' order. The columns are `array("q")` of equal length, and
    never change.

    `problem` says whether the columns fit each other; it is checked where runs meet their batch.
    """

    counts: array[int]
    """Records of each run, from 1."""
    timestamps_us: array[int]
    """Microseconds since 1970 UTC."""
    terms: array[int]
    """Of the entry that holds the records, from 0."""
    epochs: array[int]
    """The writer's epoch; -1 for a plain append."""
    writers: array[int]
    """The writer, as an index into `names`."""
    names: Sequence[str]
    """Writers' names; "" is the writer of a plain append."""

    @classmethod
    def of_one(cls, *, count: int, timestamp_us: int, term: int, epoch: int, writer: str) -> Runs:
        """A single run of `count` >= 1 records."""
        return cls(
            counts=array("q", (count,)),
            timestamps_us=array("q", (timestamp_us,)),
            terms=array("q", (term,)),
            epochs=array("q", (epoch,)),
            writers=array("q", (0,)),
            names=(writer,),
        )

    def __len__(self) -> int:
        """The number of runs."""
        return len(self.counts)

    def problem(self, record_count: int) -> str | None:
        """Why these cannot be the runs of a batch of `record_count` records; None if they can."""
        counts, epochs, writers = self.counts, self.epochs, self.writers
        length = len(counts)
        if not 0 < length == len(self.timestamps_us) == len(self.terms) == len(epochs):
            return f"columns of runs that differ in length, or none of {length} runs"
        if len(writers) != length:
            return f"{len(writers)} writers of {length} runs"
        if min(counts) < 1:
            return f"a run of {min(counts)} records"
        if sum(counts) != record_count:
            return f"runs of {sum(counts)} records in a batch of {record_count}"
        if min(writers) < 0 or max(writers) >= len(self.names):
            return f"a run of writer {max(writers)} in a table of {len(self.names)} names"
        return None

    def slice(self, skip: int, count: int) -> Runs:
        """The runs of `count` >= 1 records after the first `skip`, with the names of these. All of
        the records must exist."""
        ends = list(accumulate(self.counts))
        assert 0 <= skip < skip + count <= ends[-1], f"[{skip}, {skip + count}) of {ends[-1]}"
        if count == ends[-1]:
            return self
        first, last = bisect_right(ends, skip), bisect_left(ends, skip + count)
        rows = slice(first, last + 1)
        counts = self.counts[rows]
        counts[-1] -= ends[last] - (skip + count)
        counts[0] -= skip - (ends[first] - self.counts[first])
        numbers = {writer: number for number, writer in enumerate(sorted({*self.writers[rows]}))}
        return Runs(
            counts=counts,
            timestamps_us=self.timestamps_us[rows],
            terms=self.terms[rows],
            epochs=self.epochs[rows],
            writers=array("q", (numbers[writer] for writer in self.writers[rows])),
            names=tuple(self.names[writer] for writer in numbers),
        )

    def known_within(self, skip: int, count: int) -> Runs:
        """Runs of all the records, of which only `count` >= 1 after the first `skip` have what they
        have here: those before and after them are taken for their neighbours'."""
        if len(self) == 1:
            return self
        runs = self.slice(skip, count)
        if runs is not self:
            runs.counts[0] += skip
            runs.counts[-1] += sum(self.counts) - skip - count
        return runs


def joined_runs(parts: Sequence[Runs]) -> Runs:
    """The runs of consecutive batches together: one for each stretch of records with the same
    timestamp, term, epoch and writer."""
    if len(parts) == 1:
        return parts[0]
    counts, timestamps_us, terms, epochs, writers = (array("q") for _ in range(5))
    names: dict[str, int] = {}
    before = None
    for part in parts:
        columns = (part.counts, part.timestamps_us, part.terms, part.epochs, part.writers)
        for count, timestamp_us, term, epoch, writer in zip(*columns, strict=True):
            same = (timestamp_us, term, epoch, part.names[writer])
            if same == before:
                counts[-1] += count
                continue
            before = same
            counts.append(count)
            timestamps_us.append(timestamp_us)
            terms.append(term)
            epochs.append(epoch)
            writers.append(names.setdefault(part.names[writer], len(names)))
    return Runs(
        counts=counts,
        timestamps_us=timestamps_us,
        terms=terms,
        epochs=epochs,
        writers=writers,
        names=tuple(names),
    )
