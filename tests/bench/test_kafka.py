"""The comparison with Kafka: left out without its jars, and what its figures are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench.kafka import figures_of, kafka
from tests.bench.place import Place
from tests.kafka_brokers import Jars

JARS = Jars(broker="4.1.1", connector="4.2.0", spark="", class_path="")


def run(name: str, *milliseconds: int) -> dict[str, Any]:
    return {
        "name": name,
        "batches": [{"rows": 1000, "milliseconds": each} for each in milliseconds],
    }


def test_without_the_jars_the_piece_is_left_out_and_one_line_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(kafka(Place(name="log", folder=tmp_path / "work"), tmp_path)) == []
    [line] = capsys.readouterr().err.splitlines()
    assert "left out" in line
    assert "scripts/kafka.sh" in line


def test_each_figure_is_ours_over_kafkas_without_the_warm_up() -> None:
    runs = []
    for what in ("write", "read"):
        for log_ms, kafka_ms in ((5000, 1), (100, 250), (200, 250), (100, 250)):
            runs += [run(f"log_{what}", log_ms), run(f"kafka_{what}", kafka_ms)]
    runs.append(run("fill", 7))
    for log_ms, kafka_ms in (*[(5000, 1)] * 3, (90, 100), (90, 100)):
        runs += [
            run("log_micro", *[900] * 20, *[log_ms] * 5),
            run("kafka_micro", *[1] * 20, *[kafka_ms] * 5),
            run("bare_micro", *[1] * 20, *[80] * 5),
        ]
    figures = {figure.name: figure for figure in figures_of(runs, JARS)}
    assert {name: figure.value for name, figure in figures.items()} == {
        "kafka_write_ratio": 2.5,
        "kafka_read_ratio": 2.5,
        "kafka_micro_batch_ratio": 0.9,
    }
    assert figures["kafka_read_ratio"].detail == {"log_rows_per_s": 10000, "kafka_rows_per_s": 4000}
    assert figures["kafka_micro_batch_ratio"].detail == {
        "log_p50_ms": 90,
        "kafka_p50_ms": 100,
        "bare_p50_ms": 80,
    }
    assert all("connector 4.2.0 under Spark" in figure.about for figure in figures.values())
