"""How far topics and their readers are, as tables: the views `watermarks` and `groups`.

spark-submit spark_jobs/watermark.py --topics flights,delays
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from raftlog.spark_jobs.session import found_by, job_parser, open_session

VIEWS = ("watermarks", "groups")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when the tables are printed."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog watermark")
    for view in VIEWS:
        print(f"{view}:", flush=True)
        table(spark, view, options).show(options.rows, truncate=False)
    spark.stop()


def table(spark: SparkSession, view: str, options: argparse.Namespace) -> DataFrame:
    """The view, of all topics unless some are named."""
    reader = spark.read.format("raftlog").options(**found_by(options)).option("view", view)
    return (reader.option("subscribe", options.topics) if options.topics else reader).load()


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "watermark")
    made.add_argument("--topics", help="some topics, separated by commas; none: all")
    made.add_argument("--rows", type=int, default=1000, help="rows to print at most")
    return made


if __name__ == "__main__":
    main()
