"""The connector's warnings in Spark's Python workers are logged with level and logger."""

from __future__ import annotations

import re
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import run_program

LINE = r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARNING raftlog\.spark: "

JOB = """
import sys
import raftlog
from pyspark.sql import SparkSession

servers, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .getOrCreate()
)

def write():
    frame = spark.range(3)
    writer = frame.write.format("raftlog").option("topic", "warned").mode("append")
    writer.option("raftlog.bootstrap.servers", servers).save()

def read():
    stream = spark.readStream.format("raftlog").option("subscribe", "warned")
    stream = stream.option("startingOffsets", "earliest").option("failOnDataLoss", "false")
    frame = stream.option("raftlog.bootstrap.servers", servers).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", folder + "/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()

def write_stream():
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    sink = frame.select("value").writeStream.format("raftlog").option("topic", "warned-stream")
    sink = sink.option("raftlog.bootstrap.servers", servers)
    sink = sink.option("checkpointLocation", folder + "/checkpoint-stream")
    query = sink.start()
    while (query.lastProgress or {"batchId": 0})["batchId"] < 3 and query.isActive:
        query.awaitTermination(0.1)
    query.stop()

write()
write()
write_stream()
read()
with raftlog.connect(servers) as client:
    client.delete_topic("warned")
    client.create_topic("warned", "id bigint")
read()
spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
write_stream()
spark.stop()
"""


def test_warnings_of_writes_and_of_the_source_reach_the_drivers_log_with_level_and_logger(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    work = str(tmp_path)
    ended = run_program("-c", JOB, cluster.servers, work, cwd=tmp_path)
    # Once for the batch writes, once for the stream's run, and not once it is set.
    told = re.findall(
        LINE + r"SLOW WRITES to topic '([\w-]+)': .* is at Spark's default", ended.stderr, re.M
    )
    assert told == ["warned", "warned-stream"]
    recreated = r"Topic 'warned', incarnation [0-9a-f]+, was deleted; .* at its offset 0\."
    assert len(re.findall(LINE + recreated, ended.stderr, re.MULTILINE)) == 1
