"""The settings that make Spark fast with the log: what `configure` sets, and the file of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import raftlog.spark
from raftlog.errors import InvalidOption
from raftlog.spark.session import CHECKPOINTS, SETTINGS, file_text
from raftlog.spark_jobs import session as jobs

CONF = Path(__file__).resolve().parents[2] / "conf" / "spark-defaults.conf"


def of(builder: SparkSession.Builder) -> dict[str, str]:
    """What a builder would start its session with."""
    return dict(builder._options)


def test_the_file_is_generated_from_the_settings() -> None:
    """.venv/bin/python -m raftlog.spark.session > conf/spark-defaults.conf"""
    assert CONF.read_text(encoding="utf-8") == file_text()
    lines = [line.split() for line in file_text().splitlines() if line and line[0] != "#"]
    assert dict(lines).items() >= {each.key: each.value for each in SETTINGS}.items()
    assert CHECKPOINTS.key not in dict(lines), "not every file system is fit for it"


def test_a_builder_gets_every_setting_and_that_of_checkpoints_only_where_it_is_safe() -> None:
    plain = raftlog.spark.configure(SparkSession.Builder())
    assert of(plain) == {each.key: each.value for each in SETTINGS}
    local = raftlog.spark.configure(SparkSession.Builder(), checkpoints="file")
    assert of(local) == of(plain) | {CHECKPOINTS.key: CHECKPOINTS.value}


def test_a_file_system_whose_rename_is_not_known_to_be_atomic_is_refused() -> None:
    builder = SparkSession.Builder()
    with pytest.raises(InvalidOption, match="Leave it out"):
        raftlog.spark.configure(builder, checkpoints="s3a")  # type: ignore[arg-type]
    assert of(builder) == {}


def test_the_jobs_have_the_same_settings() -> None:
    """They know nothing of raftlog but its name, so they have a copy."""
    wanted = {each.key: each.value for each in (*SETTINGS, CHECKPOINTS)}
    assert {key: jobs.SETTINGS.get(key) for key in wanted} == wanted
