"""Log to log: each flight with its weather and a class of delay, from one topic into another.

    spark-submit spark_jobs/pipeline.py

Runs until it is stopped (Ctrl-C or SIGTERM); with --available-now only until it has read what was
there at its start. If it is killed, it continues where the log ends.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from raftlog.spark_jobs import nycflights
from raftlog.spark_jobs.session import (
    await_end,
    found_by,
    job_parser,
    open_session,
    stop_on_signals,
)

LATE_MINUTES = 15
VERY_LATE_MINUTES = 60


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when it was stopped; with --available-now when it is done."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog pipeline")
    stopped = stop_on_signals()
    flights = (
        spark.readStream.format("raftlog")
        .options(**found_by(options))
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.max_offsets)
    )
    writer = (
        with_delays(
            load_when_there(flights, options.wait, stopped), nycflights.read_weather(spark).cache()
        )
        .writeStream.format("raftlog")
        .queryName("pipeline")
        .options(**found_by(options))
        .option("topic", options.sink)
        .option("txnAppId", "pipeline")  # see ingest.py
        .option("checkpointLocation", str(options.work / "checkpoint"))
    )
    query = (writer.trigger(availableNow=True) if options.available_now else writer).start()
    print(json.dumps({"job": "pipeline", "started": str(query.id)}), flush=True)
    await_end(query, stopped)
    spark.stop()


def load_when_there(
    reader: DataStreamReader, patience_s: int, stopped: SimpleQueue[int]
) -> DataFrame:
    """Load the source. Waits for its topic, which a job that starts later may create."""
    deadline_s = time.monotonic() + patience_s
    pause = threading.Event()
    while True:
        try:
            return reader.load()
        except AnalysisException as error:
            missing = "TopicNotFound" in str(error)
            if not missing or time.monotonic() > deadline_s or not stopped.empty():
                raise
        pause.wait(0.5)


def with_delays(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Each flight once, with the weather at its scheduled departure and its class of delay."""
    sky = weather.select("origin", "time_hour", "temp", "wind_speed", "precip", "visib")
    return flights.join(F.broadcast(sky), ["origin", "time_hour"], "left").select(
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        "time_hour",
        "sched_dep_time",
        "dep_delay",
        "arr_delay",
        (F.col("dep_delay") - F.col("arr_delay")).alias("minutes_made_up"),
        "temp",
        "wind_speed",
        "precip",
        "visib",
        F.when(F.col("dep_time").isNull(), "cancelled")
        .when(F.col("arr_delay").isNull(), "diverted")
        .when(F.col("arr_delay") < LATE_MINUTES, "on time")
        .when(F.col("arr_delay") < VERY_LATE_MINUTES, "late")
        .otherwise("very late")
        .alias("delay_class"),
    )


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "pipeline")
    made.add_argument("--source", default="flights", help="topic to read")
    made.add_argument("--sink", default="delays", help="topic to write")
    made.add_argument("--max-offsets", type=int, default=50_000, help="records per micro-batch")
    made.add_argument("--wait", type=int, default=60, help="seconds to wait for the source topic")
    made.add_argument("--available-now", action="store_true", help="stop when done")
    return made


if __name__ == "__main__":
    main()
