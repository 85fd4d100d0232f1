"""Windows with a watermark, from log to log: how often each ad was clicked in each minute.

python docs/examples/spark/window.py SERVERS WORK

Reads `clicks` (`ad bigint, at timestamp`; rate.py makes some). In `append` mode a window's row is
written once, when the watermark has passed its end: later clicks of that minute are dropped.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

import raftlog.spark

LATE = "2 minutes"
"""How late a click may come and still be counted."""


def query(spark: SparkSession, log: dict[str, str], work: str) -> DataStreamWriter:
    """The query, to be started. `log` has the options that say where the cluster is."""
    reader = spark.readStream.format("raftlog").options(**log)
    clicks = reader.option("subscribe", "clicks").option("startingOffsets", "earliest").load()
    counts = (
        clicks.withWatermark("at", LATE)
        .groupBy(F.window("at", "1 minute").alias("minute"), "ad")
        .count()
        .select(F.col("minute.start").alias("minute"), "ad", "count")
    )
    return (
        counts.writeStream.format("raftlog")
        .options(**log)
        .option("topic", "clicks-per-minute")
        .option("checkpointLocation", f"{work}/clicks-per-minute")
        .queryName("clicks-per-minute")
        .outputMode("append")
    )


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    query(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2]).start()
    session.streams.awaitAnyTermination()
