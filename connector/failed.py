"""A stream's reader that could not be made, and says why.

If `streamReader` raises, Spark's runner fails at the reader that it does not have, and shows its
own `UnboundLocalError` below the reason. What a reader's method raises is shown whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from raftlog.errors import RaftlogError
from raftlog.spark.worker_log import errors_logged


class FailedStreamReader(DataSourceStreamReader):
    """Raises the error at whatever Spark asks first. It is made of what PySpark 4.1 has, too."""

    def __init__(self, error: RaftlogError) -> None:
        self._error = error

    def _fail(self) -> NoReturn:
        raise self._error

    def getDefaultReadLimit(self) -> Any:
        self._fail()

    def initialOffset(self) -> dict[str, Any]:
        self._fail()

    def latestOffset(self, *asked: Any) -> dict[str, Any]:
        self._fail()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._fail()

    @errors_logged
    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._fail()
