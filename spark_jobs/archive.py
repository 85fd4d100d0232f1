"""The log into files: a topic's records as Parquet, or as a Delta table.

    spark-submit spark_jobs/archive.py --topic flights --to /data/archive/flights

Each record is archived exactly once. In Parquet that holds for every reader and not only for Spark:
a micro-batch writes folders of its own (`log_day=2026-11-25/log_batch=17`), and one that is
repeated after a crash replaces them. With `--format delta` the records are in a Delta table in the
folder --to, partitioned by `log_day`, and Delta's own sink recognises a batch that is repeated.
Spark has no Delta by itself: without it the job says what is missing.

Archives what there is and ends; with --follow it goes on until Ctrl-C or SIGTERM. If it runs again
with the same --work, it continues where it was. Without its checkpoint it would number its batches
from 0, so it refuses a folder or table that has records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from raftlog.spark_jobs.session import (
    await_end,
    found_by,
    job_parser,
    open_session,
    stop_on_signals,
)

PARQUET, DELTA = "parquet", "delta"
"""The values of --format."""

DELTA_PACKAGE = (
    "io.delta:delta-spark_{minor}_2.13:VERSION, with the settings spark.sql.extensions="
    "io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog.spark_catalog="
    "org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
"""What Delta needs of spark-submit."""

NOTHING_THERE = (
    "PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
)  # fmt: skip
"""What Spark says of a place where nothing was archived yet."""

DAY, BATCH = "log_day", "log_batch"
"""The columns of the folders: the day of a record's `_timestamp`, and the micro-batch."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when what there was at its start is archived, or when it was stopped."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog archive")
    stopped = stop_on_signals()
    query = start(spark, options)
    await_end(query, stopped)
    print(json.dumps({"job": "archive", "topic": options.topic, "to": options.to}))
    spark.stop()


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Start the query. Ends the job if its checkpoint is gone and its records are not, or if this
    Spark lacks the format."""
    checkpoint = options.work / "checkpoint"
    archived = has_records(spark, options.format, options.to)
    if archived and not (checkpoint / "metadata").exists():
        sys.exit(
            f"error: {options.to} has records, and {checkpoint} is no checkpoint that wrote them: "
            "they would be archived a second time. Give the --work of the run that wrote them, "
            "or another --to."
        )
    records = (
        spark.readStream.format("raftlog")
        .options(**found_by(options))
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("includeMetadata", "true")
        .option("maxOffsetsPerTrigger", options.max_offsets)
        .load()
        .withColumn(DAY, F.to_date("_timestamp"))
    )
    writer = records.writeStream.queryName("archive").option("checkpointLocation", str(checkpoint))
    if not options.follow:
        writer = writer.trigger(availableNow=True)
    if options.format == PARQUET:
        return writer.foreachBatch(partial(into_folders, options.to)).start()
    return writer.format(options.format).partitionBy(DAY).start(options.to)


def into_folders(folder: str, batch: DataFrame, batch_id: int) -> None:
    """Write a micro-batch as Parquet, in place of an earlier try of it."""
    (
        batch.withColumn(BATCH, F.lit(batch_id))
        .write.mode("overwrite")
        # Only the folders that this batch has rows for: the others are other batches'.
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(DAY, BATCH)
        .parquet(folder)
    )


def has_records(spark: SparkSession, format_: str, place: str) -> bool:
    """Whether there is something of the format already, wherever Spark finds it. Ends the job if
    Spark does not know the format."""
    try:
        found = spark.read.format(format_).load(place)
        return format_ == PARQUET or not found.isEmpty()
    except (AnalysisException, Py4JJavaError) as error:
        if isinstance(error, AnalysisException) and error.getCondition() in NOTHING_THERE:
            return False
        if "DATA_SOURCE_NOT_FOUND" in str(error):  # PySpark has no error of its own for it
            minor = ".".join(spark.version.split(".")[:2])
            sys.exit(
                f"error: this Spark ({spark.version}) has no {format_}. Start the job with "
                f"--packages {DELTA_PACKAGE.format(minor=minor)}. There must be a build for "
                f"Spark {minor}; else use a Spark that has one, or --format parquet."
            )
        raise


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "archive")
    made.add_argument("--topic", default="flights", help="topic to archive")
    made.add_argument("--to", default="demo-data/archive/flights", help="folder of the files")
    made.add_argument("--format", choices=(PARQUET, DELTA), default=PARQUET, help="what is written")
    made.add_argument("--max-offsets", type=int, default=1_000_000, help="records per micro-batch")
    made.add_argument("--follow", action="store_true", help="go on until it is stopped")
    return made


if __name__ == "__main__":
    main()
