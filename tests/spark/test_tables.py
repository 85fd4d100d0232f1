"""Archives as Delta and Iceberg tables, with the jars that `scripts/tables.sh` fetches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from raftlog.spark_jobs import archive
from tests.spark.conftest import DEADLINE_S, need_streams

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "build" / "tables"


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_an_archive_in_a_format_that_spark_lacks_says_what_is_missing(spark, tmp_path, format_):
    try:
        spark.read.format(format_).load("lake.t")
    except (AnalysisException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            pytest.skip(f"this Spark has {format_}")
    words = ["--format", format_, "--to", "lake.t", "--work", str(tmp_path)]
    with pytest.raises(SystemExit, match=rf"has no {format_}\. Start the job with --packages "):
        archive.start(spark, archive.parser().parse_args(words))


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_table_has_each_record_once(cluster, client, tmp_path, format_):
    """A batch that Spark forgot is not written into the table again."""
    need_streams()
    jars = ",".join(map(str, (JARS / format_).glob("*.jar")))
    if not jars:
        pytest.skip(f"build/tables/{format_} has no jars: scripts/tables.sh fetches them, if there "
                    "is a build for this Spark")  # fmt: skip
    topic = f"archived-{format_}"
    client.create_topic(topic, "id bigint")
    client.append(topic, [{"id": number} for number in range(10)])
    words = [format_, cluster.servers, topic, str(tmp_path), jars]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.tables_run", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=2 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    first, second, refused = map(json.loads, done.stdout.splitlines())
    assert first == [*range(10)]
    assert second == [*range(11)]
    assert "is no checkpoint that wrote them" in refused
