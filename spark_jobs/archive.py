"""The log into files: a topic's records as Parquet, in folders by day and micro-batch.

    spark-submit spark_jobs/archive.py --topic flights --to /data/archive/flights

Each record is in the files exactly once, for every reader of Parquet and not only for Spark: a
micro-batch writes folders of its own (`log_day=2026-11-25/log_batch=17`), and one that is repeated
after a crash replaces them. Archives what there is and ends; with --follow it goes on until Ctrl-C
or SIGTERM. If it runs again with the same --work, it continues where it was. Without its checkpoint
it would number its batches anew, so it refuses a folder that has files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

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
    """Start the query. Ends the job if its checkpoint is gone and its files are not."""
    checkpoint = options.work / "checkpoint"
    if not (checkpoint / "metadata").exists() and has_files(spark, options.to):
        sys.exit(
            f"error: {options.to} has files, and {checkpoint} is no checkpoint that wrote them: "
            "they would stay beside their own records. Give the --work of the run that wrote them, "
            "or another folder --to."
        )
    records = (
        spark.readStream.format("raftlog")
        .options(**found_by(options))
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("includeMetadata", "true")
        .option("maxOffsetsPerTrigger", options.max_offsets)
        .load()
    )

    def archive(batch: DataFrame, batch_id: int) -> None:
        (
            batch.withColumn(DAY, F.to_date("_timestamp"))
            .withColumn(BATCH, F.lit(batch_id))
            .write.mode("overwrite")
            # Only the folders that this batch has rows for: the others are other batches'.
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(DAY, BATCH)
            .parquet(options.to)
        )

    writer = (
        records.writeStream.queryName("archive")
        .foreachBatch(archive)
        .option("checkpointLocation", str(checkpoint))
    )
    return (writer if options.follow else writer.trigger(availableNow=True)).start()


def has_files(spark: SparkSession, folder: str) -> bool:
    """Whether there is Parquet in the folder, wherever Spark finds it."""
    try:
        spark.read.parquet(folder)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return False
        raise
    return True


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "archive")
    made.add_argument("--topic", default="flights", help="topic to archive")
    made.add_argument("--to", default="demo-data/archive/flights", help="folder of the files")
    made.add_argument("--max-offsets", type=int, default=1_000_000, help="records per micro-batch")
    made.add_argument("--follow", action="store_true", help="go on until it is stopped")
    return made


if __name__ == "__main__":
    main()
