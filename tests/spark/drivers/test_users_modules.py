"""A user's own modules `connector` and `spark_jobs` stay the user's, on driver and executors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import run_program

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
from pyspark.sql import SparkSession

servers, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[1,1,1024]")
    .config("spark.driver.memory", "1g")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .getOrCreate()
)

def owners(batches):
    import connector, spark_jobs

    for batch in batches:
        found = [[connector.OWNER] * batch.num_rows, [spark_jobs.OWNER] * batch.num_rows]
        yield pa.RecordBatch.from_arrays(found, names=["connector", "spark_jobs"])

def asked(given):
    return given.format("raftlog").option("raftlog.bootstrap.servers", servers)

stream = asked(spark.readStream).option("subscribe", "asked").option("startingOffsets", "earliest")
found = stream.load().mapInArrow(owners, "connector string, spark_jobs string")
writer = asked(found.writeStream).option("topic", "owners")
writer = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
writer.start().awaitTermination()
print(json.dumps([connector.OWNER, spark_jobs.OWNER]))
spark.stop()
"""
"""Its executor is a process of its own, as on a cluster."""


@pytest.fixture(params=["modules", "packages"])
def users_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder in which a user has modules, or packages, of these names."""
    folder = tmp_path / "mine"
    for name in ("connector", "spark_jobs"):
        path = folder / (f"{name}.py" if request.param == "modules" else f"{name}/__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("OWNER = 'the user'\n")
    return folder


def run(program: str, *arguments: str, folder: Path) -> list[str]:
    """The last line that a Python with the user's folder on its path prints."""
    ended = run_program("-c", program, *arguments, cwd=folder.parent, PYTHONPATH=str(folder))
    printed: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return printed


def test_a_users_modules_are_imported_beside_ours(users_folder: Path) -> None:
    assert run(IMPORTS, folder=users_folder) == ["the user", "the user"]


@pytest.mark.parametrize("users_folder", ["packages"], indirect=True)
def test_a_stream_works_where_driver_and_executors_have_the_users_modules(
    cluster: ProcessCluster, client: raftlog.LogClient, users_folder: Path, tmp_path: Path
) -> None:
    client.create_topic("asked", "id bigint")
    client.append("asked", [{"id": 1}])
    assert run(JOB, cluster.servers, str(tmp_path), folder=users_folder) == ["the user"] * 2
    rows = [row for batch in client.read("owners") for row in batch.to_pylist()]
    assert rows == [{"connector": "the user", "spark_jobs": "the user"}]
