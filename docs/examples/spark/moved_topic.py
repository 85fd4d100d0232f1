"""A topic moves to another one with other types, and its readers go on there, exactly once.

python docs/examples/spark/moved_topic.py SERVERS WORK

`orders` (`id int, cents int`) becomes `orders-2` (`id bigint, amount decimal(18,2)`): no widening,
so `raftlog topic alter` cannot do it. The order of the steps is the whole method:

1. `copy` the old topic into the new one, exactly once and in order. Run it as often as you like.
2. Stop the old topic's writers, and `copy` once more. Note the new topic's end (`end_of`). Now its
   writers may start.
3. Run each reader once more on the old topic, to its end: nothing is left for it there.
4. Start each reader on the new topic, with a new checkpoint, at the noted end: the records before
   it are those that the reader had from the old topic.

A topic that was deleted and created again under its name is another case: what was in it is gone.
A query that reads it ends with `TopicRecreated`. With failOnDataLoss=false it goes on at the start
of the new one, with the same checkpoint.
"""

import json
import sys
from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import raftlog.spark

OLD, NEW = "orders", "orders-2"

Process = Callable[[DataFrame, int], None]
"""What a reader does with a micro-batch and its number."""


def copy(spark: SparkSession, log: dict[str, str], work: str) -> None:
    """Copy what is new in the old topic, and end."""
    old = spark.readStream.format("raftlog").options(**log).option("subscribe", OLD)
    rows = old.option("startingOffsets", "earliest").load()
    amount = (F.col("cents") * F.lit(Decimal("0.01"))).cast("decimal(18,2)")
    rows = rows.select(F.col("id").cast("bigint"), amount.alias("amount"))
    writer = rows.writeStream.format("raftlog").options(**log).option("topic", NEW)
    # Under a name the log refuses a copy that lost its checkpoint and would begin again.
    writer = writer.option("txnAppId", "orders-moved")
    writer = writer.option("checkpointLocation", f"{work}/move").trigger(availableNow=True)
    writer.start().awaitTermination()


def end_of(spark: SparkSession, log: dict[str, str], topic: str) -> int:
    """The offset after the topic's last record."""
    marks = spark.read.format("raftlog").options(**log).option("view", "watermarks")
    row = marks.option("subscribe", topic).load().first()
    assert row is not None
    return int(row["high_water_mark"])


class Reader:
    """Processes what its checkpoint has not seen of a topic, and ends."""

    def __init__(self, spark: SparkSession, log: dict[str, str], process: Process) -> None:
        self._spark, self._log, self._process = spark, log, process

    def run(self, topic: str, start: str, checkpoint: str) -> None:
        reader = self._spark.readStream.format("raftlog").options(**self._log)
        rows = reader.option("subscribe", topic).option("startingOffsets", start).load()
        writer = rows.writeStream.foreachBatch(self._process).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def move(spark: SparkSession, log: dict[str, str], work: str, process: Process) -> None:
    """The steps, with one reader, which runs before, during and after the move."""
    reader = Reader(spark, log, process)
    reader.run(OLD, "earliest", f"{work}/old")
    copy(spark, log, work)
    # ... here the old topic's writers stop ...
    copy(spark, log, work)
    end = end_of(spark, log, NEW)
    # ... and here those of the new one may start ...
    reader.run(OLD, "earliest", f"{work}/old")
    reader.run(NEW, json.dumps({NEW: end}), f"{work}/new")


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    where = {"raftlog.bootstrap.servers": sys.argv[1]}
    move(session, where, sys.argv[2], lambda batch, _: batch.show())
