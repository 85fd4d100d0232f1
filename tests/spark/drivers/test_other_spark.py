"""A query moves to this Spark from an earlier one, with its checkpoint; `make matrix` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import run_program

pytestmark = pytest.mark.soak

EARLIER = "EARLIER_SPARK_PYTHON"
"""The environment variable that names the Python of an environment with an earlier Spark."""

JOB = """
import sys
import pyspark, raftlog.spark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

servers, folder, fails = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
builder = builder.config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.warehouse.dir", folder + "/warehouse")
spark = raftlog.spark.configure(builder).getOrCreate()

def run(name, rows, mode):
    sink = rows.writeStream.format("raftlog").option("raftlog.bootstrap.servers", servers)
    sink = sink.option("topic", name).option("checkpointLocation", f"{folder}/checkpoint-{name}")
    query = sink.queryName(name).outputMode(mode).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if not fails or "not today" not in str(error):
            raise

def numbers():
    stream = spark.readStream.format("raftlog").option("raftlog.bootstrap.servers", servers)
    stream = stream.option("subscribe", "numbers").option("startingOffsets", "earliest")
    return stream.option("maxOffsetsPerTrigger", 3).load()

value = "IF(id = 3, raise_error('not today'), id)" if fails else "id"
run("copies", numbers().selectExpr(f"{value} AS id"), "append")
if not fails:
    run("distinct", numbers().selectExpr("id % 4 AS id").dropDuplicates(["id"]), "append")
print(pyspark.__version__)
spark.stop()
"""


def test_a_query_goes_on_under_this_spark_where_an_earlier_one_planned_it(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> None:
    """Its batch 0 is committed and its batch 1 is planned; another query has state."""
    if not (earlier := os.environ.get(EARLIER)):
        pytest.skip(f"{EARLIER} names no Python: `make matrix CELLS=spark-4.2` does")

    def run(python: str, fails: str = "") -> str:
        arguments = ("-c", JOB, cluster.servers, str(tmp_path), fails)
        ended = run_program(*arguments, cwd=tmp_path, program=python, PYSPARK_PYTHON=python)
        return ended.stdout.splitlines()[-1]

    client.create_topic("numbers", "id bigint")
    client.append("numbers", [{"id": each} for each in range(2)])
    first = run(earlier)
    client.append("numbers", [{"id": each} for each in range(2, 7)])
    assert run(earlier, "fails") == first
    client.append("numbers", [{"id": 7}])
    assert run(sys.executable) > first

    def written(topic: str) -> list[tuple[int, int]]:
        rows = client.read(topic, columns=["_epoch", "id"]).to_table().to_pylist()
        return [(row["_epoch"], row["id"]) for row in rows]

    epochs = {0: (0, 1), 1: (2, 3, 4), 2: (5, 6, 7)}
    assert written("copies") == [(epoch, each) for epoch in epochs for each in epochs[epoch]]
    assert sorted(value for _, value in written("distinct")) == [0, 1, 2, 3]
