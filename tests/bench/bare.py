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

from tests.bench.rows import COLUMNS, WIDE_COLUMNS, WIDE_DDL, rows, wide


class BareRange(InputPartition):
    """One task's number of rows, the rows of a batch, and their columns."""

    def __init__(self, count: int, batch_rows: int, columns: list[str]) -> None:
        self.count = count
        self.batch_rows = batch_rows
        self.columns = columns


class BareSource(DataSource):
    """Options: `rows` in all, `rowsPerTrigger` of one micro-batch, `batchRows`, `tasks`, and which
    of the ten `columns`, comma-separated: by default the usual five."""

    @classmethod
    def name(cls) -> str:
        return "bare-source"

    def schema(self) -> str:
        fields = dict(zip(WIDE_COLUMNS, WIDE_DDL.split(", "), strict=True))
        return ", ".join(fields[name] for name in self._columns())

    def streamReader(self, schema: StructType) -> BareReader:
        counts = {name: int(text) for name, text in self.options.items() if name != "columns"}
        return BareReader(counts, self._columns())

    def _columns(self) -> list[str]:
        names = self.options.get("columns")
        return names.split(",") if names is not None else COLUMNS


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has all its rows from the start."""

    def __init__(self, options: dict[str, int], columns: list[str]) -> None:
        # Spark gives option names in lower case.
        self._rows = options["rows"]
        self._per_trigger = options.get("rowspertrigger")
        self._batch_rows = options["batchrows"]
        self._tasks = options["tasks"]
        self._columns = columns

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
            BareRange(min(share, count - begin), self._batch_rows, self._columns)
            for begin in range(0, count, share)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        assert isinstance(partition, BareRange)
        batch = wide(rows(0, min(partition.count, partition.batch_rows))).select(partition.columns)
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
