"""The jobs of the demo: what verify notices, and what a wrong start is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from raftlog.spark_jobs import nycflights
from raftlog.spark_jobs.pipeline import with_delays
from raftlog.spark_jobs.verify import EXPECTED_DELAYS, Comparison, compare

ROOT = Path(__file__).resolve().parents[2]


def test_every_job_explains_itself():
    for job in ("ingest", "pipeline", "verify", "demo"):
        done = subprocess.run(
            [sys.executable, "-m", f"raftlog.spark_jobs.{job}", "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "default: " in done.stdout


def test_a_job_whose_tasks_would_run_on_another_python_says_so(tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o700)
    done = subprocess.run(
        [sys.executable, ROOT / "spark_jobs" / "pipeline.py"],
        env=os.environ | {"PYSPARK_PYTHON": str(other)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert f"tasks would run on {other}" in done.stderr


@pytest.mark.parametrize(
    ("ids", "lost", "duplicated", "changed"),
    [
        ([0, 1, 2, 3], 0, 0, 0),
        ([0, 1, 2], 1, 0, 0),
        ([0, 1, 2, 3, 3, 3], 0, 2, 0),
        ([0, 1, 2, 7], 1, 0, 1),
        ([], 4, 0, 0),
    ],
)
def test_verify_tells_lost_duplicated_and_changed_rows_apart(spark, ids, lost, duplicated, changed):
    """Row 0 is null, and counts like any other row."""
    value = F.when(F.col("id") > 0, F.col("id")).alias("value")
    expected = spark.range(4).select(value)
    found = spark.createDataFrame(list(enumerate(ids)), "_offset bigint, id bigint")
    assert compare("t", expected, found.select("_offset", value)) == Comparison(
        topic="t",
        expected=4,
        found=len(ids),
        lost=lost,
        duplicated=duplicated,
        changed=changed,
        gaps=0,
    )


def test_verify_notices_offsets_that_are_missing_or_taken_twice(spark):
    rows = spark.createDataFrame([(0, 1), (2, 2), (2, 3)], "_offset bigint, id bigint")
    assert compare("t", rows.select("id"), rows).gaps == 2


def test_the_pipeline_computes_what_verify_expects_of_the_real_input(spark, tmp_path):
    """Two ways to compute the delays; a sample of every kind of flight, in a zone that is not
    UTC."""
    nycflights.split_flights(tmp_path / "input", 40)
    flights = nycflights.read_flights(spark, tmp_path / "input" / "flights-000.csv")
    weather = nycflights.read_weather(spark)
    flights.createOrReplaceTempView("input_flights")
    weather.createOrReplaceTempView("input_weather")
    expected = spark.sql(EXPECTED_DELAYS)
    computed = with_delays(flights, weather).withColumn("_offset", F.monotonically_increasing_id())
    comparison = compare("delays", expected, computed)
    assert (comparison.lost, comparison.duplicated, comparison.changed) == (0, 0, 0)
    classes = {row.delay_class for row in expected.select("delay_class").distinct().collect()}
    assert classes == {"cancelled", "diverted", "on time", "late", "very late"}
