"""Two topics joined as streams: each click with the ad that was shown before it.

python docs/examples/spark/join.py SERVERS WORK

Reads `shown` (`ad bigint, user string, at timestamp`) and `clicks` (`ad bigint, at timestamp`;
rate.py makes both). Both watermarks and the bound on the time between the two let Spark forget ads
that can no longer be clicked.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

import raftlog.spark


def query(spark: SparkSession, log: dict[str, str], work: str) -> DataStreamWriter:
    """The query, to be started. `log` has the options that say where the cluster is."""

    def topic(name: str) -> DataFrame:
        reader = spark.readStream.format("raftlog").options(**log).option("subscribe", name)
        return reader.option("startingOffsets", "earliest").load()

    shown = topic("shown").withColumnRenamed("at", "shown_at").withWatermark("shown_at", "1 minute")
    clicks = topic("clicks").withColumnsRenamed({"at": "clicked_at", "ad": "clicked"})
    clicks = clicks.withWatermark("clicked_at", "1 minute")
    in_time = F.expr("clicked_at BETWEEN shown_at AND shown_at + INTERVAL 10 MINUTES")
    joined = shown.join(clicks, (shown["ad"] == clicks["clicked"]) & in_time)
    return (
        joined.select("ad", "user", "shown_at", "clicked_at")
        .writeStream.format("raftlog")
        .options(**log)
        .option("topic", "clicked-ads")
        .option("checkpointLocation", f"{work}/clicked-ads")
        .queryName("clicked-ads")
    )


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    query(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2]).start()
    session.streams.awaitAnyTermination()
