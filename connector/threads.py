"""Writes from a thread of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def activate(spark: SparkSession) -> None:
    """Let the calling thread write with `.format("raftlog")`, as the session's first thread may.

    Spark looks for a Python sink in the session that is active in the thread, and a thread that the
    program started itself has none: there a write fails with `DATA_SOURCE_NOT_FOUND` (Spark 4.3;
    reads do not). Call it first in each such thread, for instance as the `initializer` of a
    `ThreadPoolExecutor`. Spark Connect needs no such call, and it changes nothing there.
    """
    spark.createDataFrame([], "unused int")  # PySpark makes its session the active one for this
