"""Output mode `update`, by `foreachBatch`: the counts that each micro-batch has changed.

python docs/examples/spark/update_mode.py SERVERS WORK

Reads `clicks` (`ad bigint, at timestamp`). Spark itself refuses `update` for a Python sink. A log
has no rows to update anyway: the topic gets each new count as a record, and an ad's last record is
its count. `count` never falls, so the greatest one is the last.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

import raftlog.spark

TOPIC = "clicks-by-ad"


def query(spark: SparkSession, log: dict[str, str], work: str) -> DataStreamWriter:
    """The query, to be started. `log` has the options that say where the cluster is."""
    checkpoint = f"{work}/{TOPIC}"

    def write(changed: DataFrame, batch: int) -> None:
        (
            changed.write.format("raftlog")
            .options(**log)
            .option("topic", TOPIC)
            .option("txnAppId", TOPIC)
            .option("txnVersion", batch)
            .option("checkpointLocation", checkpoint)
            .mode("append")
            .save()
        )

    reader = spark.readStream.format("raftlog").options(**log)
    clicks = reader.option("subscribe", "clicks").option("startingOffsets", "earliest").load()
    counts = clicks.groupBy("ad").count()
    writer = counts.writeStream.outputMode("update").foreachBatch(write)
    return writer.option("checkpointLocation", checkpoint)


def latest(spark: SparkSession, log: dict[str, str]) -> DataFrame:
    """The count of each ad, as a reader of the topic finds it."""
    records = spark.read.format("raftlog").options(**log).option("subscribe", TOPIC).load()
    return records.groupBy("ad").agg(F.max("count").alias("count"))


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    query(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2]).start()
    session.streams.awaitAnyTermination()
