"""The connector's warnings in Spark's Python workers are logged with level and logger."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import DEADLINE_S

LINE = r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARNING raftlog\.spark: "

JOB = """
import json, sys
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

write()
read()
with raftlog.connect(servers) as client:
    client.delete_topic("warned")
    client.create_topic("warned", "id bigint")
read()
spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
write()
rows = spark.tvf.python_worker_logs().select("level", "logger", "msg").collect()
print(json.dumps([list(row) for row in rows]))
spark.stop()
"""


def test_warnings_of_tasks_and_of_the_source_reach_the_drivers_log_with_level_and_logger(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", JOB, cluster.servers, str(tmp_path)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    slow = "spark.sql.execution.arrow.maxBytesPerBatch is at its default"
    # Only of the first write's task: the second write's goes where Spark was told to collect logs.
    assert len(re.findall(LINE + re.escape(slow), ended.stderr, re.MULTILINE)) == 1
    recreated = r"Topic 'warned', incarnation [0-9a-f]+, was deleted; .* at its offset 0\."
    assert len(re.findall(LINE + recreated, ended.stderr, re.MULTILINE)) == 1
    rows = json.loads(ended.stdout.splitlines()[-1])
    logged = [(level, logger) for level, logger, text in rows if slow in text]
    assert logged == [("WARNING", "raftlog.spark")]
