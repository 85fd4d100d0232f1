"""The driver program that tests kill: files into a topic, and that topic into another.

    python -m tests.spark.relay --servers HOST:PORT --work FOLDER

Two queries in one session, `ingest` (FOLDER/files -> `<prefix>numbers`) and `pipeline`
(`<prefix>numbers` -> `<prefix>words`), each with its own checkpoint and folder of armed moments.
Prints one line of JSON when both run. With --until-done it ends when everything is written;
otherwise it runs until it is killed, or ends with the error of a query that failed.

With --columns the rows of `ingest` have more columns than its topic may have yet, and `pipeline`
finds its topic by a pattern, is limited by bytes, and writes two topics in foreachBatch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import raftlog.spark
from tests.spark.faults import Faults, FaultySource, Moment
from tests.spark.small_cluster import HOSTS, start_workers

ROWS = "id bigint, s string"
NOISE = -1
"""The id of all rows that the pipeline invents."""
WIDENED_AT = 2
"""With so many more columns, column `n` of the ingest is a bigint, before that an int."""
ROW_BYTES = 200
"""About what a stored row takes, in batches as small as these."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.metricsEnabled": "false",
    # The second compiler does not pay off in a short life.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
WORKERS_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    # A task gets a second attempt beside its first as soon as one other task is done.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "1s",
}


class Relay:
    """Where the relay's parts are, for the program and for the tests."""

    def __init__(self, work: Path, prefix: str) -> None:
        self.work = work
        self.prefix = prefix
        self.files = work / "files"
        self.topics = {"ingest": f"{prefix}numbers", "pipeline": f"{prefix}words"}
        self.copies = f"{prefix}copies"
        """The second topic of a pipeline that writes two."""
        self.checkpoints = {query: work / "checkpoints" / query for query in self.topics}
        self.faults = {query: Faults(work / "faults" / query) for query in self.topics}


def main() -> None:
    """Run until killed, until done, or until a query fails; see the module."""
    options = parser().parse_args()
    relay = Relay(options.work, options.prefix)
    spark = session(options, relay.work)
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session runs in a JVM of its own"
    for faults in relay.faults.values():
        faults.note_driver(jvm.java.lang.ProcessHandle.current().pid())
    spark.dataSource.register(FaultySource)
    sources = {"ingest": files, "pipeline": words}
    writers = [
        written(sources[query](spark, relay, options), query, relay, options)
        for query in options.queries.split(",")
    ]
    try:
        if options.until_done:
            for writer in writers:
                writer.trigger(availableNow=True).start().awaitTermination()
        else:
            for writer in writers:
                writer.start()
            print(json.dumps({"ready": True}), flush=True)
            spark.streams.awaitAnyTermination()
    except StreamingQueryException as error:
        sys.exit(f"a query failed: {error}")
    spark.stop()


def session(options: argparse.Namespace, work: Path) -> SparkSession:
    """A local session, or one of a small cluster whose executors are processes of their own."""
    workers = options.workers
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_LOCAL_IP"] = HOSTS[0]
    builder = SparkSession.builder.config("spark.sql.warehouse.dir", str(work / "warehouse"))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if options.configured:
        builder = raftlog.spark.configure(builder, checkpoints="file")
    if workers:
        for key, value in WORKERS_SETTINGS.items():
            builder = builder.config(key, value)
        builder = builder.master(start_workers(workers, work))
    else:
        builder = builder.master("local[2,4]")
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def files(spark: SparkSession, relay: Relay, options: argparse.Namespace) -> DataFrame:
    """The rows of the files, so many files for each micro-batch, in the order of their creation."""
    reader = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", options.files_per_batch)
    rows = reader.json(str(relay.files))
    if options.columns is None:
        return rows
    number = "int" if options.columns < WIDENED_AT else "bigint"
    more = [f"id * 10 + {column} AS c{column}" for column in range(options.columns)]
    return rows.selectExpr("*", f"CAST(id AS {number}) AS n", *more)


def words(spark: SparkSession, relay: Relay, options: argparse.Namespace) -> DataFrame:
    """The rows of the first topic, changed a little, and noise: each replay of a batch has other
    noise rows, and another number of them."""
    reader = spark.readStream.format(FaultySource.name()).option("startingOffsets", "earliest")
    if options.columns is None:
        reader = reader.option("subscribe", relay.topics["ingest"])
        reader = reader.option("maxOffsetsPerTrigger", options.rows_per_batch)
    else:
        reader = reader.option("subscribePattern", f"{re.escape(relay.prefix)}num.*")
        reader = reader.option("maxBytesPerTrigger", ROW_BYTES * options.rows_per_batch)
    reader = reader.option("minPartitions", options.partitions)
    reader = reader.option("raftlog.bootstrap.servers", options.servers)
    reader = reader.option("faults", str(relay.faults["pipeline"].folder))
    noisy = f"explode(IF(rand() < 0.5, array(id), array(id, {NOISE}))) AS id"
    rows = reader.load()
    others = rows.columns[2:]
    with_noise = rows.selectExpr(noisy, "s || '!' AS s", *others)
    return with_noise.selectExpr("id", f"IF(id = {NOISE}, uuid(), s) AS s", *others)


def written(
    data: DataFrame, query: str, relay: Relay, options: argparse.Namespace
) -> DataStreamWriter:
    """One of the two queries, not started."""
    writer = data.writeStream.queryName(query)
    writer = writer.option("checkpointLocation", str(relay.checkpoints[query]))
    if query == "pipeline" and options.columns is not None:
        return writer.foreachBatch(two_topics(relay, options))
    writer = writer.format(FaultySource.name()).option("topic", relay.topics[query])
    writer = writer.option("faults", str(relay.faults[query].folder))
    writer = writer.option("mergeSchema", options.columns is not None)
    return writer.option("raftlog.bootstrap.servers", options.servers)


def two_topics(relay: Relay, options: argparse.Namespace) -> Callable[[DataFrame, int], None]:
    """Write each batch to both of the pipeline's topics, which get the columns that they lack."""

    def write(rows: DataFrame, batch: int) -> None:
        for topic in (relay.topics["pipeline"], relay.copies):
            (
                rows.write.format("raftlog")
                .mode("append")
                .option("topic", topic)
                .option("txnAppId", relay.copies)
                .option("txnVersion", batch)
                .option("checkpointLocation", str(relay.checkpoints["pipeline"]))
                .option("mergeSchema", True)
                .option("raftlog.bootstrap.servers", options.servers)
                .save()
            )
            relay.faults["pipeline"].reached(Moment.BETWEEN)

    return write


def parser() -> argparse.ArgumentParser:
    """The program's flags."""
    made = argparse.ArgumentParser()
    made.add_argument("--servers", required=True)
    made.add_argument("--work", type=Path, required=True)
    made.add_argument("--prefix", default="", help="of the topics' names")
    made.add_argument("--queries", default="ingest,pipeline")
    made.add_argument("--files-per-batch", type=int, default=1)
    made.add_argument("--rows-per-batch", type=int, default=40)
    made.add_argument("--columns", type=int, help="so many more, in topics that may lack them")
    made.add_argument("--partitions", type=int, default=1, help="tasks of a pipeline's batch")
    made.add_argument("--workers", type=int, default=0, help="executors as processes; 0: none")
    made.add_argument("--until-done", action="store_true")
    made.add_argument("--configured", action="store_true", help="with the settings that are fast")
    return made


if __name__ == "__main__":
    main()
