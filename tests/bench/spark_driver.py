"""The Spark side of the measurements: runs queries in one fresh JVM and prints how long they took.

    python -m tests.bench.spark_driver '{"settings": {}, "queries": [...]}'

Each query is a stream from one format to another, with the projections of `select` between them
(each a list of SQL expressions), or a batch read (`read`: what `raftlog.spark.read` takes) of so
many `rows` to nowhere. Standard output is one JSON list: for each
query rows and milliseconds of every micro-batch that had rows, by Spark's own progress reports, and
the processor time of this process, the JVM and all workers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import raftlog.spark
from tests.bench.bare import BareSink, BareSource
from tests.bench.processes import tree_cpu_s
from tests.bench.rows import SCHEMA_DDL

_BATCHES_KEPT = 1000
_END_S = 300


def main(plan: dict[str, Any]) -> None:
    """Run the plan's queries one after another."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(_BATCHES_KEPT))
        .config("spark.sql.warehouse.dir", plan["folder"] + "/warehouse")
    )
    for key, value in plan["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(BareSource)
    spark.dataSource.register(BareSink)
    print(json.dumps([_measured(spark, query) for query in plan["queries"]]), flush=True)
    spark.stop()


def _measured(spark: SparkSession, query: dict[str, Any]) -> dict[str, Any]:
    before_s = tree_cpu_s(os.getpid())
    done = _run(spark, query)
    return {**done, "cpu_s": tree_cpu_s(os.getpid()) - before_s}


def _run(spark: SparkSession, query: dict[str, Any]) -> dict[str, Any]:
    if "read" in query:
        return {"name": query["name"], "batches": [_read(spark, query)]}
    source = spark.readStream.format(query["from"]).options(**query["source"])
    if query["from"] == "parquet":
        source = source.schema(SCHEMA_DDL)
    frame = source.load()
    for expressions in query["select"]:
        frame = frame.selectExpr(*expressions)
    sink = (
        frame.writeStream.format(query["to"])
        .options(**query["sink"])
        .option("checkpointLocation", query["checkpoint"])
    )
    running = sink.trigger(availableNow=True).start()
    if not running.awaitTermination(_END_S):
        running.stop()
        sys.exit(f"{query} did not end within {_END_S} s")
    return {"name": query["name"], "batches": _batches(running)}


def _read(spark: SparkSession, query: dict[str, Any]) -> dict[str, int]:
    """A batch read to nowhere: the time of its action, planning included."""
    frame = raftlog.spark.read(spark, **query["read"])
    began_s = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    elapsed_s = time.perf_counter() - began_s
    return {"rows": query["rows"], "milliseconds": round(1000 * elapsed_s)}


def _batches(query: StreamingQuery) -> list[dict[str, int]]:
    return [
        {"rows": progress.numInputRows, "milliseconds": progress.batchDuration}
        for progress in query.recentProgress
        if progress.numInputRows
    ]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
