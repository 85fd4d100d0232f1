"""A stream that only writes is known to start by the files of its checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark import SparkFiles

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.spark import first_batch
from raftlog.spark.first_batch import may_be_first_batch

BEGAN_S = 1_700_000_000


@pytest.fixture(autouse=True)
def application(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Spark application that began at `BEGAN_S`, and a process that has asked nothing yet."""
    root = tmp_path / "userFiles"
    root.mkdir()
    os.utime(root, (BEGAN_S, BEGAN_S))
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(root))
    monkeypatch.setattr(first_batch, "_asked", set())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a query that has planned its first batch, and ended none."""
    folder = tmp_path / "checkpoint"
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "0").write_text("v1\n{}\n7\n")
    return folder


def ended(checkpoint: Path, batch: int, at_s: float) -> None:
    (checkpoint / "commits").mkdir(exist_ok=True)
    file = checkpoint / "commits" / str(batch)
    file.write_text("v1\n{}")
    os.utime(file, (at_s, at_s))


def test_a_query_without_an_ended_batch_starts_once(checkpoint: Path) -> None:
    assert may_be_first_batch(str(checkpoint), PATIENCE_S)
    assert not may_be_first_batch(str(checkpoint), PATIENCE_S), "this process planned its first"


def test_a_query_whose_last_batch_ended_before_the_application_began_starts(
    checkpoint: Path,
) -> None:
    ended(checkpoint, 0, BEGAN_S - 100)
    ended(checkpoint, 1, BEGAN_S - 1)
    for name in (".1.crc", "\uff12"):  # younger, and no batch
        (checkpoint / "commits" / name).write_bytes(b"crc")
    assert may_be_first_batch(f"file://{checkpoint}", PATIENCE_S)


def test_a_query_whose_batch_ended_since_then_runs(checkpoint: Path) -> None:
    """For instance in a new worker process, as Spark makes one after an idle minute."""
    ended(checkpoint, 0, BEGAN_S - 100)
    ended(checkpoint, 1, BEGAN_S + 1)
    assert not may_be_first_batch(str(checkpoint), PATIENCE_S)


def test_a_checkpoint_that_is_not_known_says_nothing(tmp_path: Path) -> None:
    assert not may_be_first_batch("", PATIENCE_S)
    assert not may_be_first_batch("nowhere://c", PATIENCE_S)
    (tmp_path / "commits").write_text("a file")
    assert not may_be_first_batch(str(tmp_path), PATIENCE_S)
