"""Two topics to try the other examples with, from Spark's `rate` source: ads shown, and clicks.

python docs/examples/spark/rate.py SERVERS WORK

`shown` has `ad bigint, user string, at timestamp`; every third ad is clicked, which goes to
`clicks` as `ad bigint, at timestamp`. Runs until Ctrl-C.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import raftlog.spark


def start(spark: SparkSession, log: dict[str, str], work: str) -> list[StreamingQuery]:
    """Two queries. `log` has the options that say where the cluster is."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    user = F.concat(F.lit("user-"), F.col("value") % 10)
    shown = rate.select(
        F.col("value").alias("ad"), user.alias("user"), F.col("timestamp").alias("at")
    )
    clicks = shown.where("ad % 3 = 0").select("ad", "at")
    return [into(shown, log, "shown", work), into(clicks, log, "clicks", work)]


def into(rows: DataFrame, log: dict[str, str], topic: str, work: str) -> StreamingQuery:
    """A stream into a topic, which its first batch creates with the DataFrame's columns."""
    writer = rows.writeStream.format("raftlog").options(**log).option("topic", topic)
    # A name, by which the log notices that the checkpoint was lost.
    return writer.queryName(topic).option("checkpointLocation", f"{work}/{topic}").start()


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    start(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2])
    session.streams.awaitAnyTermination()
