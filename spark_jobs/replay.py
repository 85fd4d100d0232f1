"""A range of a topic again: into another topic, or into Parquet files.

    spark-submit spark_jobs/replay.py --topic flights --start 1000 --end 2000 --to-topic again
    spark-submit spark_jobs/replay.py --topic flights --start 2026-11-25T08:00Z --to-files again

--start and --end take an offset or a time; the end is exclusive. Into a topic each range is written
once under --name: if the same command runs again, it adds nothing, and it is refused if the range
has another number of records by then, as one without an end may. Another range, or another name,
is written again. Into files it is refused if there are some.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from raftlog.spark_jobs.session import found_by, job_parser, open_session


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when the range is written."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog replay")
    write(records(spark, options), options)
    to = options.to_topic or options.to_files
    print(json.dumps({"job": "replay", "topic": options.topic, "to": to}))
    spark.stop()


def records(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """The range's records. For files with their metadata columns, so that their offsets stay
    known."""
    reader = (
        spark.read.format("raftlog")
        .options(**found_by(options))
        .option("subscribe", options.topic)
        .option("includeMetadata", str(options.to_files is not None).lower())
    )
    for bound, by_offset, by_time in (
        (options.start, "startingOffsets", "startingTimestamp"),
        (options.end, "endingOffsets", "endingTimestamp"),
    ):
        if isinstance(bound, int):
            reader = reader.option(by_offset, json.dumps({options.topic: bound}))
        elif bound is not None:
            reader = reader.option(by_time, int(bound.timestamp() * 1000))
    return reader.load()


def write(found: DataFrame, options: argparse.Namespace) -> None:
    """Write them where they are wanted."""
    if options.to_files is not None:
        found.write.mode("error").parquet(options.to_files)
        return
    # Named after the range: the log knows a rerun by name and count only, so two ranges of one
    # length under one name would be one write.
    writer = f"{options.name}: {options.topic} [{options.start}, {options.end})"
    (
        found.write.format("raftlog")
        .options(**found_by(options))
        .option("topic", options.to_topic)
        .option("txnAppId", writer)
        .option("txnVersion", 0)
        .mode("append")
        .save()
    )


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "replay")
    made.add_argument("--topic", default="flights", help="topic to read")
    made.add_argument("--start", type=_bound, help="first offset or time; none: the topic's start")
    made.add_argument("--end", type=_bound, help="offset or time to stop before; none: its end")
    made.add_argument("--name", default="replay", help="who writes: one name for each replay")
    to = made.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-topic", help="topic to write")
    to.add_argument("--to-files", help="folder to write")
    return made


def _bound(text: str) -> int | datetime:
    """An offset, or a time in ISO 8601 with its zone."""
    if text.isascii() and text.isdecimal():
        return int(text)
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} has no zone: append Z, or +01:00")
    return time


if __name__ == "__main__":
    main()
