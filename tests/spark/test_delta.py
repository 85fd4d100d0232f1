"""Archives as Delta tables, with the jars that `scripts/delta.sh` fetches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from raftlog.spark_jobs import archive
from tests.spark.conftest import need_streams, run_program

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "build" / "delta"


def test_an_archive_in_a_format_that_spark_lacks_says_what_is_missing(spark, tmp_path):
    table = str(tmp_path / "table")
    try:
        spark.read.format("delta").load(table)
    except (AnalysisException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            pytest.skip("this Spark has Delta")
    words = ["--format", "delta", "--to", table, "--work", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"has no delta\. Start the job with --packages "):
        archive.start(spark, archive.parser().parse_args(words))


def test_a_table_has_each_record_once(cluster, client, tmp_path):
    """A batch that Spark forgot is not written into the table again."""
    need_streams()
    jars = ",".join(map(str, JARS.glob("*.jar")))
    if not jars:
        pytest.skip("there is no build/delta: scripts/delta.sh fetches it, if there is a build for "
                    "this Spark")  # fmt: skip
    client.create_topic("archived-delta", "id bigint")
    client.append("archived-delta", [{"id": number} for number in range(10)])
    words = [cluster.servers, "archived-delta", str(tmp_path), jars]
    done = run_program("-m", "tests.spark.delta_run", *words, cwd=ROOT)
    first, second, refused = map(json.loads, done.stdout.splitlines())
    assert first == [*range(10)]
    assert second == [*range(11)]
    assert "is no checkpoint that wrote them" in refused
