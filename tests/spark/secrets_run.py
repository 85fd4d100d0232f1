"""A Spark program with planted secrets: in settings, and in options that source and sink refuse.

secrets_run.py SERVERS TOPIC FOLDER SECRET writes and reads the topic as batch and stream, with all
that Spark can log, and prints the plans and what the refusals say. The settings are those of the
application: what is set in a session, Spark itself writes into its event log under any name.
"""

import sys
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

servers, topic, folder, secret = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.dir", f"file:{folder}/events")
    .config("spark.hadoop.fs.s3a.secret.key", f"{secret}-setting-1")
    .config("spark.jobs.database.password", f"{secret}-setting-2")
    .config("spark.executorEnv.SERVICE_TOKEN", f"{secret}-setting-3")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
REFUSED = ("password", "raftlog.sasl.token", "kafka.ssl.key.secret")


def refused(use: str, start: Callable[[dict[str, str]], object]) -> None:
    """Print why the use is refused with each of the options."""
    for name in REFUSED:
        try:
            start({name: f"{secret}-option"})
            print("NOT REFUSED", use, name)
        except PySparkException as error:
            print("REFUSED", use, name, str(error))


given = {"raftlog.bootstrap.servers": servers}
rows = spark.range(10).selectExpr("id")
rows.write.format("raftlog").options(**given, topic=topic).mode("append").save()
source = {**given, "subscribe": topic}
batch = spark.read.format("raftlog").options(**source).load()
batch.explain(extended=True)
stream = (
    spark.readStream.format("raftlog")
    .options(**source)
    .option("startingOffsets", "earliest")
    .load()
)
writer = stream.writeStream.format("raftlog").options(**given, topic=f"{topic}-copy")
writer = writer.trigger(availableNow=True).option("checkpointLocation", f"{folder}/checkpoint")
query = writer.start()
query.awaitTermination()
query.explain(extended=True)
print("COPIED", batch.count(), query.recentProgress[-1]["numInputRows"])

sink = {**given, "topic": topic}


def read(more: dict[str, str]) -> object:
    """Begin a batch read."""
    return spark.read.format("raftlog").options(**source, **more).load()


def read_stream(more: dict[str, str]) -> object:
    """Begin a stream's read."""
    return spark.readStream.format("raftlog").options(**source, **more).load()


def write(more: dict[str, str]) -> object:
    """Write a batch."""
    return rows.write.format("raftlog").options(**sink, **more).mode("append").save()


def start_stream(more: dict[str, str]) -> None:
    """A stream's sink says what it refuses when its query runs."""
    refusing = stream.writeStream.format("raftlog").options(**sink, **more)
    place = f"{folder}/refused-{next(iter(more))}"
    refusing.option("checkpointLocation", place).start().processAllAvailable()


refused("read", read)
refused("readStream", read_stream)
refused("write", write)
refused("writeStream", start_stream)
spark.stop()
