"""One stream into two topics, each exactly once: clicks on ads, and the clicks on nothing.

python docs/examples/spark/two_topics.py SERVERS WORK

Reads `clicks` (`ad bigint, at timestamp`). A query has one sink, so `foreachBatch` writes both
topics. Spark repeats a batch after a crash, and each write is recognised by its name (`txnAppId`),
the batch's number (`txnVersion`) and its plan, which stands in the query's checkpoint.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import raftlog.spark


def query(spark: SparkSession, log: dict[str, str], work: str) -> DataStreamWriter:
    """The query, to be started. `log` has the options that say where the cluster is."""
    checkpoint = f"{work}/two-topics"

    def write(rows: DataFrame, topic: str, batch: int) -> None:
        (
            rows.write.format("raftlog")
            .options(**log)
            .option("topic", topic)
            .option("txnAppId", f"two-topics-{topic}")  # another one for each write of a batch
            .option("txnVersion", batch)
            .option("checkpointLocation", checkpoint)  # the query's: the batch's plan is there
            .mode("append")
            .save()
        )

    def both(clicks: DataFrame, batch: int) -> None:
        clicks.persist()  # or each write would read the topic
        write(clicks.where("ad IS NOT NULL"), "accepted", batch)
        write(clicks.where("ad IS NULL"), "rejected", batch)
        clicks.unpersist()

    reader = spark.readStream.format("raftlog").options(**log)
    clicks = reader.option("subscribe", "clicks").option("startingOffsets", "earliest").load()
    return clicks.writeStream.foreachBatch(both).option("checkpointLocation", checkpoint)


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    query(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2]).start()
    session.streams.awaitAnyTermination()
