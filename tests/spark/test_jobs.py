"""The jobs of the demo: what verify notices, and what a wrong start is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F

from raftlog.spark_jobs import archive, nycflights, replay, watermark
from raftlog.spark_jobs.pipeline import with_delays
from raftlog.spark_jobs.verify import EXPECTED_DELAYS, Comparison, compare
from tests.spark.conftest import finish

JOBS = (
    "ingest", "pipeline", "verify", "demo", "archive", "replay", "watermark", "kafka_import"
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


def test_every_job_explains_itself():
    for job in JOBS:
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


def test_an_archive_has_each_record_once_for_every_reader_of_parquet(lab):
    """A batch that Spark forgot is archived again, into the same folders."""
    lab.create()
    lab.append(*range(10))
    to = str(lab.folder / "archive")
    options = archive.parser().parse_args(
        ["--servers", lab.cluster.servers, "--topic", lab.topic, "--to", to, "--max-offsets", "4",
         "--work", str(lab.folder)]
    )  # fmt: skip
    finish(archive.start(lab.spark, options))
    lab.forget_batch(2)
    lab.append(10)
    finish(archive.start(lab.spark, options))
    found = ds.dataset(to, partitioning="hive").to_table(columns=["id", "_offset", archive.BATCH])
    rows = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert rows == [(number, number, number // 4) for number in range(10)] + [(10, 10, 3)]
    shutil.rmtree(lab.checkpoint)
    with pytest.raises(SystemExit, match="is no checkpoint that wrote them"):
        archive.start(lab.spark, options)


def test_a_range_is_replayed_once_into_a_topic_and_into_files(lab):
    lab.create()
    times_us = lab.append_over_time()
    last = max(times_us)
    lab.append(last + 1, last + 2)
    again, to = f"{lab.topic}-again", str(lab.folder / "parquet")

    def run(*flags: str) -> None:
        flags = ("--servers", lab.cluster.servers, "--topic", lab.topic, *flags)
        options = replay.parser().parse_args(flags)
        replay.write(replay.records(lab.spark, options), options)

    for _ in range(2):
        run("--start", "1", "--end", "3", "--to-topic", again)
    run("--start", "0", "--end", "2", "--to-topic", again)  # as many other records
    found = lab.read(subscribe=again).select("id").collect()
    assert sorted(row.id for row in found) == [1, 2, 2, 3]
    youngest = datetime.fromtimestamp(times_us[last] / 1_000_000, tz=UTC)
    since = youngest.replace(microsecond=youngest.microsecond // 1000 * 1000)
    run("--start", since.isoformat(), "--to-files", to)
    ids = ds.dataset(to).to_table(columns=["id"]).column(0).to_pylist()
    young = [each for each, us in times_us.items() if us // 1000 >= times_us[last] // 1000]
    assert sorted(ids) == [*young, last + 1, last + 2]


def test_the_watermark_job_shows_the_views_of_the_topics_that_it_is_told(lab):
    lab.create()
    lab.append(1, 2)
    options = watermark.parser().parse_args(
        ["--servers", lab.cluster.servers, "--topics", lab.topic]
    )
    [row] = watermark.table(lab.spark, "watermarks", options).collect()
    assert (row.topic, row.high_water_mark) == (lab.topic, 2)
    assert watermark.table(lab.spark, "groups", options).collect() == []
