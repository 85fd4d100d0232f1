"""A user's own program, whose executor is a process of its own, as on a cluster.

Its modules `connector` and `spark_jobs` stay the user's, on driver and executors, and the
connector's warnings are logged with level and logger.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import ProcessCluster, free_ports
from tests.spark.conftest import Ended, run_program

LINE = r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARNING raftlog\.spark: "

IMPORTS = """
import json
import connector, spark_jobs
import pyspark_raftlog, raftlog.spark.writer, raftlog.spark_jobs.session

print(json.dumps([connector.OWNER, spark_jobs.OWNER]))
"""

JOB = """
import json, sys
import connector, spark_jobs
import pyarrow as pa
import raftlog
from pyspark.sql import SparkSession

servers, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[1,1,1024]")
    .config("spark.driver.memory", "1g")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .getOrCreate()
)

def ours(given):
    return given.format("raftlog").option("raftlog.bootstrap.servers", servers)

def copied_with_owners():
    def owners(batches):
        import connector, spark_jobs

        for batch in batches:
            found = [[connector.OWNER] * batch.num_rows, [spark_jobs.OWNER] * batch.num_rows]
            yield pa.RecordBatch.from_arrays(found, names=["connector", "spark_jobs"])

    stream = ours(spark.readStream).option("subscribe", "asked")
    stream = stream.option("startingOffsets", "earliest").load()
    found = stream.mapInArrow(owners, "connector string, spark_jobs string")
    writer = ours(found.writeStream).option("topic", "owners")
    writer = writer.option("checkpointLocation", folder + "/checkpoint-owners")
    writer.trigger(availableNow=True).start().awaitTermination()

def write():
    ours(spark.range(3).write).option("topic", "warned").mode("append").save()

def read():
    stream = ours(spark.readStream).option("subscribe", "warned")
    stream = stream.option("startingOffsets", "earliest").option("failOnDataLoss", "false")
    query = stream.load().writeStream.format("noop")
    query = query.option("checkpointLocation", folder + "/checkpoint-read")
    query.trigger(availableNow=True).start().awaitTermination()

def write_stream():
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    sink = ours(frame.select("value").writeStream).option("topic", "warned-stream")
    query = sink.option("checkpointLocation", folder + "/checkpoint-stream").start()
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
copied_with_owners()
print(json.dumps([connector.OWNER, spark_jobs.OWNER]))
spark.stop()
"""


@pytest.fixture(params=["modules", "packages"])
def users_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder in which a user has modules, or packages, of these names."""
    folder = tmp_path / "mine"
    for name in ("connector", "spark_jobs"):
        path = folder / (f"{name}.py" if request.param == "modules" else f"{name}/__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("OWNER = 'the user'\n")
    return folder


def run(program: str, *arguments: str, folder: Path) -> Ended:
    """Run it with the user's folder on Python's path, where a proxy is named that does not run:
    driver, planner, executors and their workers reach nodes without it."""
    nowhere = f"http://127.0.0.1:{free_ports(1)}"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"), nowhere)
    proxies |= {"no_proxy": "", "no_grpc_proxy": ""}
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return run_program("-c", program, *arguments, cwd=folder.parent, PYTHONPATH=path, **proxies)


def owners(ended: Ended) -> list[str]:
    """Whose modules the program found, by its last line."""
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_a_users_modules_are_imported_beside_ours(users_folder: Path) -> None:
    assert owners(run(IMPORTS, folder=users_folder)) == ["the user", "the user"]


@pytest.mark.soak
@pytest.mark.parametrize("users_folder", ["packages"], indirect=True)
def test_warnings_are_logged_by_a_program_whose_own_modules_have_the_names_of_ours(
    cluster: ProcessCluster, client: raftlog.LogClient, users_folder: Path, tmp_path: Path
) -> None:
    client.create_topic("asked", "id bigint")
    client.append("asked", [{"id": 1}])
    ended = run(JOB, cluster.servers, str(tmp_path), folder=users_folder)
    assert owners(ended) == ["the user", "the user"]
    rows = [row for batch in client.read("owners") for row in batch.to_pylist()]
    assert rows == [{"connector": "the user", "spark_jobs": "the user"}]
    # Once for the batch writes, once for the stream's run, and not once it is set.
    told = re.findall(
        LINE + r"SLOW WRITES to topic '([\w-]+)': .* is at Spark's default", ended.stderr, re.M
    )
    assert told == ["warned", "warned-stream"]
    recreated = r"Topic 'warned', incarnation [0-9a-f]+, was deleted; .* at its offset 0\."
    assert len(re.findall(LINE + recreated, ended.stderr, re.MULTILINE)) == 1
