"""A Python source and sink for Spark that do nothing: the ceiling for ours in one measurement.

The source gives the same Arrow batch again and again, the sink looks at no more than a batch's
length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tests.bench.rows import SCHEMA_DDL, rows


class BareRange(InputPartition):
    """One task's number of rows, and the rows of a batch."""

    def __init__(self, count: int, batch_rows: int) -> None:
        self.count = count
        self.batch_rows = batch_rows


class BareSource(DataSource):
    """Options: `rows` in all, `rowsPerTrigger` of one micro-batch, `batchRows`, `tasks`."""

    @classmethod
    def name(cls) -> str:
        return "bare-source"

    def schema(self) -> str:
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> BareReader:
        return BareReader({name: int(value) for name, value in self.options.items()})


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has all its rows from the start."""

    def __init__(self, options: dict[str, int]) -> None:
        # Spark gives option names in lower case.
        self._rows = options["rows"]
        self._per_trigger = options.get("rowspertrigger")
        self._batch_rows = options["batchrows"]
        self._tasks = options["tasks"]

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._per_trigger is None else ReadMaxRows(self._per_trigger)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        step = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows
        return {"row": min(self._rows, start["row"] + step)}

    def prepareForTriggerAvailableNow(self) -> None:
        """All data is there from the start."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        count = end["row"] - start["row"]
        share = -(-count // self._tasks)
        return [
            BareRange(min(share, count - begin), self._batch_rows)
            for begin in range(0, count, share)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        assert isinstance(partition, BareRange)
        batch = rows(0, min(partition.count, partition.batch_rows))
        left = partition.count
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


class BareSink(DataSource):
    """Takes every row and keeps none."""

    @classmethod
    def name(cls) -> str:
        return "bare-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> BareWriter:
        return BareWriter()


@dataclass(frozen=True)
class Taken(WriterCommitMessage):
    """So many rows came to one task."""

    count: int


class BareWriter(DataSourceStreamArrowWriter):
    """Counts."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Taken:
        return Taken(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to make visible."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to drop."""
