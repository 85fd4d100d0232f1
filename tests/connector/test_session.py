"""The settings that make Spark fast with the log: what `configure` sets, and the file of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import raftlog.spark
from raftlog.errors import InvalidOption
from raftlog.spark.session import _FROM_ELSEWHERE, CHECKPOINTS, SETTINGS, file_text
from raftlog.spark_jobs import session as jobs

CONF = Path(__file__).resolve().parents[2] / "conf" / "spark-defaults.conf"


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have one, which a builder counts as its own."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


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


def test_a_builder_keeps_what_it_has() -> None:
    own = {each.key: f"own {each.value}" for each in (*SETTINGS, CHECKPOINTS)}
    builder = SparkSession.Builder()
    for key, value in own.items():
        builder.config(key, value)
    assert of(raftlog.spark.configure(builder, checkpoints="file")) == own


LOCAL = {"spark.master": "local[2]"}


@pytest.mark.parametrize(
    ("options", "variables", "set_here"),
    [
        ({}, {}, True),
        (LOCAL, {"SPARK_HOME": "/opt/spark"}, True),
        ({}, {"SPARK_HOME": "/opt/spark"}, False),
        ({}, {"PYSPARK_GATEWAY_PORT": "1"}, False),
        ({"spark.master": "spark://a:7077"}, {}, False),
        ({"spark.remote": "sc://a"}, {}, False),
        (LOCAL | {"spark.pyspark.python": "other"}, {}, False),
        (LOCAL, {"PYSPARK_PYTHON": "other"}, False),
    ],
)
def test_workers_of_a_local_session_run_on_this_python_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    variables: dict[str, str],
    set_here: bool,
) -> None:
    for name in (*_FROM_ELSEWHERE, "MASTER", "SPARK_REMOTE", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    builder = SparkSession.Builder()
    for name, value in options.items():
        builder.config(name, value)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    raftlog.spark.configure(builder)
    wanted = sys.executable if set_here else variables.get("PYSPARK_PYTHON")
    assert os.environ.get("PYSPARK_PYTHON") == wanted


def test_a_file_system_whose_rename_is_not_known_to_be_atomic_is_refused() -> None:
    builder = SparkSession.Builder()
    with pytest.raises(InvalidOption, match="Leave it out"):
        raftlog.spark.configure(builder, checkpoints="s3a")  # type: ignore[arg-type]
    assert of(builder) == {}


def test_the_jobs_have_the_same_settings() -> None:
    """They know nothing of raftlog but its name, so they have a copy."""
    wanted = {each.key: each.value for each in (*SETTINGS, CHECKPOINTS)}
    assert {key: jobs.SETTINGS.get(key) for key in wanted} == wanted
