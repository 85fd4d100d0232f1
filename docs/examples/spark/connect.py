"""Spark Connect: a program without a JVM, and without raftlog, reads and writes topics.

python docs/examples/spark/connect.py REMOTE SERVERS WORK

REMOTE is a Connect server (`sc://127.0.0.1:15002`), which is where raftlog must be installed, as on
its executors; this program needs only raftlog's extra `connect`, or `pyspark-client`. Reads
`clicks` (`ad bigint, at timestamp`), and writes `clicks-by-hour` as a batch and `copied-clicks` as
a stream.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def run(spark: SparkSession, log: dict[str, str], work: str) -> None:
    """Both writes. `log` has the options that say where the cluster is, as the server sees it."""
    clicks = spark.read.format("raftlog").options(**log).option("subscribe", "clicks").load()
    hours = clicks.groupBy(F.date_trunc("hour", "at").alias("hour")).count()
    writer = hours.write.format("raftlog").options(**log).option("topic", "clicks-by-hour")
    writer.mode("append").save()

    reader = spark.readStream.format("raftlog").options(**log).option("subscribe", "clicks")
    stream = reader.option("startingOffsets", "earliest").load()
    copied = stream.writeStream.format("raftlog").options(**log).option("topic", "copied-clicks")
    copied = copied.queryName("copied-clicks").option("checkpointLocation", f"{work}/copied-clicks")
    copied.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    remote, servers, folder = sys.argv[1:]
    session = SparkSession.builder.remote(remote).getOrCreate()
    run(session, {"raftlog.bootstrap.servers": servers}, folder)
