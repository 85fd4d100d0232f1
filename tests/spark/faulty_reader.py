"""The source's reader with moments around what the driver asks (`tests.spark.faults`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from raftlog.spark.options import SourceOptions
from raftlog.spark.stream_reader import RaftlogStreamReader
from tests.spark.faults import Faults, Moment


class FaultyReader(RaftlogStreamReader):
    """Does what is armed before it returns an end, and before it plans."""

    def __init__(self, options: SourceOptions, schema: StructType, faults: Faults) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        end = super().latestOffset(start, limit)
        if end != start:
            self._faults.reached(Moment.OFFSETS)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        self._faults.reached(Moment.PLANNED)
        return super().partitions(start, end)
