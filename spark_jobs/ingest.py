"""Files into the log: a file stream of the flights, one file for each micro-batch.

    spark-submit spark_jobs/ingest.py

The first write creates the topic with the files' schema. The job ends when all files are in. If it
runs again with the same --work, it finds nothing to do; if it is killed, it continues where the log
ends. With --input it follows a folder instead, until Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from raftlog.spark_jobs import nycflights
from raftlog.spark_jobs.session import (
    await_end,
    found_by,
    job_parser,
    open_session,
    stop_on_signals,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when every file is in the topic, or when it was stopped."""
    options = parser().parse_args(arguments)
    folder = options.input or options.work / "input"
    if options.input is None:
        nycflights.split_flights(folder, options.files)
    spark = open_session("raftlog ingest")
    stopped = stop_on_signals()
    flights = (
        spark.readStream.schema(nycflights.FLIGHTS)
        .options(**nycflights.CSV)
        .option("maxFilesPerTrigger", 1)
        .csv(str(folder))
    )
    writer = (
        flights.writeStream.format("raftlog")
        .queryName("ingest")
        .options(**found_by(options))
        .option("topic", options.topic)
        # Under a name of its own, a writer that lost its checkpoint is recognised and refused.
        # Without one it would look like another query, and would write every row again.
        .option("txnAppId", "ingest")
        .option("checkpointLocation", str(options.work / "checkpoint"))
    )
    query = (writer if options.input else writer.trigger(availableNow=True)).start()
    await_end(query, stopped)
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    print(
        json.dumps(
            {
                "job": "ingest",
                "topic": options.topic,
                "batches": len(batches),
                "rows": sum(batch.numInputRows for batch in batches),
                "seconds": sum(batch.batchDuration for batch in batches) / 1000,
            }
        )
    )
    spark.stop()


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "ingest")
    made.add_argument("--topic", default="flights", help="topic to write")
    made.add_argument("--files", type=int, default=24, help="files, and so micro-batches")
    made.add_argument("--input", type=Path, help="follow the CSV files in this folder instead")
    return made


if __name__ == "__main__":
    main()
