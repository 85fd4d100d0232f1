"""A standalone cluster of two workers: each reads a part of a topic, and writes what it read.

spark-submit --master spark://127.0.0.1:7077 docs/examples/spark/two_workers.py SERVERS

docs/SPARK_CLUSTER.md starts the cluster. Reads `clicks` (`ad bigint, at timestamp`), and writes it
to `clicks-by-executor` with the number of the executor whose Python worker had the row. All rows of
the write become visible at once, whichever executor staged them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import raftlog.spark


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the executor's number: a standalone cluster runs each one in a folder of that name."""
    executor = Path.cwd().name
    for batch in batches:
        column = pa.repeat(pa.scalar(executor), batch.num_rows)
        yield batch.append_column("executor", column)


def run(spark: SparkSession, log: dict[str, str]) -> None:
    """Copy the topic. `log` has the options that say where the cluster is."""
    reader = spark.read.format("raftlog").options(**log).option("subscribe", "clicks")
    clicks = reader.option("minPartitions", 2).load()
    told = clicks.mapInArrow(with_executor, "ad bigint, at timestamp, executor string")
    writer = told.write.format("raftlog").options(**log).option("topic", "clicks-by-executor")
    writer.mode("append").save()


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder).getOrCreate()
    run(session, {"raftlog.bootstrap.servers": sys.argv[1]})
    session.stop()
