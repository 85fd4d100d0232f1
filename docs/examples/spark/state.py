"""State of your own, with `transformWithState`: every third click on an ad becomes a record.

python docs/examples/spark/state.py SERVERS WORK

Reads `clicks` (`ad bigint, at timestamp`). The state is in the query's checkpoint, and the records
are written exactly once: both go back to the same micro-batch after a crash. It needs the RocksDB
state store, and PySpark 4.1 or later for rows; `transformWithStateInPandas` has the same methods
with pandas DataFrames.
"""

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StatefulProcessor, StatefulProcessorHandle

import raftlog.spark

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class EveryThird(StatefulProcessor):
    """Keeps the number of clicks of each ad."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._clicks = handle.getValueState("clicks", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        known = self._clicks.get()
        count = known[0] if known else 0
        for row in rows:
            count += 1
            if count % 3 == 0:
                yield Row(ad=key[0], count=count, at=row["at"])
        self._clicks.update((count,))

    def close(self) -> None:
        pass


def query(spark: SparkSession, log: dict[str, str], work: str) -> DataStreamWriter:
    """The query, to be started. `log` has the options that say where the cluster is."""
    spark.conf.set(STATE_STORE, ROCKSDB)
    reader = spark.readStream.format("raftlog").options(**log)
    clicks = reader.option("subscribe", "clicks").option("startingOffsets", "earliest").load()
    thirds = clicks.groupBy("ad").transformWithState(
        statefulProcessor=EveryThird(),
        outputStructType="ad bigint, count bigint, at timestamp",
        outputMode="Append",
        timeMode="None",
    )
    return (
        thirds.writeStream.format("raftlog")
        .options(**log)
        .option("topic", "third-clicks")
        .option("checkpointLocation", f"{work}/third-clicks")
        .queryName("third-clicks")
        .outputMode("append")
    )


if __name__ == "__main__":
    session = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()
    query(session, {"raftlog.bootstrap.servers": sys.argv[1]}, sys.argv[2]).start()
    session.streams.awaitAnyTermination()
