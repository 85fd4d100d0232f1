"""Spark over the log, each against a bare Python source or sink in the same JVM. The time of the
JVM's first query is dropped: it is the compiler's, not ours.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.spark.session import CHECKPOINTS, SETTINGS
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import cpu_s
from tests.bench.rows import COLUMNS, SCHEMA_DDL, rows

_PIECE_ROWS = 250_000
_READ_ROWS = 10_000_000
_WRITE_ROWS = 4_000_000
_FILES = 8
_ROUNDS = 4
"""How often each query runs; the first run does not count."""

MICRO_ROWS = 100
MICRO_BATCHES = 80
MICRO_WARM_BATCHES = 30

_MICRO_TURNS = 3

_MILLION = 1_000_000
_RAISED = {"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"}
_OF_START = {each.key: each.value for each in SETTINGS if each.at_start}
CONFIGURED = {each.key: each.value for each in (*SETTINGS, CHECKPOINTS)}
"""All that `raftlog.spark.configure(..., checkpoints="file")` sets."""
_VARIANTS = {
    "defaults": {},
    "sockets": {key: value for key, value in _OF_START.items() if "socket" in key},
    "daemon": {key: value for key, value in _OF_START.items() if "daemon" in key},
    "file_manager": {CHECKPOINTS.key: CHECKPOINTS.value},
    "configured": CONFIGURED,
}
"""Settings of `raftlog.spark.configure`, one by one and together."""


def log_to_spark(place: Place) -> Iterator[Figure]:
    """A stream from the log to nowhere, over a topic that is there already."""
    with place.cluster("log-to-spark") as cluster:
        with cluster.client() as client:
            client.create_topic("rows", SCHEMA_DDL)
            with client.producer("rows") as producer:
                for start in range(0, _READ_ROWS, _PIECE_ROWS):
                    producer.append(rows(start, _PIECE_ROWS))
        options = place.spark_options(cluster)
        ours = query("raftlog", from_log(options, "rows"), "noop", {})
        bare = bare_scan(_READ_ROWS)
        before_s = _nodes_cpu_s(cluster)
        found = run_queries(place.folder / "read", {}, {"bare": bare, "log": ours})
        spent_s = _nodes_cpu_s(cluster) - before_s
    yield _throughput(
        "log_to_spark_rows_per_s",
        found["log"],
        f"{_READ_ROWS:,} rows of five columns from the log to noop, local[2]",
        {"bare_source_rows_per_s": median_rate(found["bare"])},
    )
    yield from _cpu_figures("log_to_spark", found["log"], spent_s, _ROUNDS * _READ_ROWS)


def spark_to_log(place: Place) -> Iterator[Figure]:
    """A stream from Parquet files to the log, at Spark's defaults and with the one setting."""
    files = parquet_files(place.folder / "parquet", _WRITE_ROWS, _FILES)
    with place.cluster("spark-to-log") as cluster, cluster.client() as client:
        options = place.spark_options(cluster)
        for name, settings in (("default", {}), ("raised", _RAISED)):
            to_log = query(
                "parquet",
                {"path": str(files)},
                "raftlog",
                into_log(options, name),
            )
            to_bare = query("parquet", {"path": str(files)}, "bare-sink", {})
            before_s = _nodes_cpu_s(cluster)
            found = run_queries(place.folder / name, settings, {"bare": to_bare, "log": to_log})
            spent_s = _nodes_cpu_s(cluster) - before_s
            assert_end(client, name, _ROUNDS * _WRITE_ROWS)
            yield _throughput(
                f"spark_to_log_{name}_rows_per_s",
                found["log"],
                f"{_WRITE_ROWS:,} rows of five columns from Parquet to the log, exactly once, "
                f"local[2], maxBytesPerBatch {'raised' if settings else 'at its default'}",
                {"bare_sink_rows_per_s": median_rate(found["bare"])},
            )
            rows_in_all = _ROUNDS * _WRITE_ROWS
            yield from _cpu_figures(f"spark_to_log_{name}", found["log"], spent_s, rows_in_all)


def micro_batch(place: Place) -> Iterator[Figure]:
    """Log to log in small micro-batches, compared with a bare source and sink."""
    count = MICRO_ROWS * MICRO_BATCHES
    with place.cluster("micro-batch") as cluster:
        with cluster.client() as client:
            client.create_topic("small", SCHEMA_DDL)
            for start in range(0, count, MICRO_ROWS):
                client.append("small", rows(start, MICRO_ROWS))
        options = place.spark_options(cluster)
        source = from_log(options, "small") | {"maxOffsetsPerTrigger": str(MICRO_ROWS)}
        bare = bare_batches(MICRO_ROWS, MICRO_BATCHES)
        queries = [
            query("bare-source", bare, "bare-sink", {}) | {"name": "bare"},
            query("raftlog", source, "raftlog", into_log(options, "copy")) | {"name": "log"},
        ]
        before_s = _nodes_cpu_s(cluster)
        told = run_driver(place.folder / "micro", _RAISED, queries)
        nodes_cpu_s = _nodes_cpu_s(cluster) - before_s
    times_ms = {
        run["name"]: [batch["milliseconds"] for batch in run["batches"]][MICRO_WARM_BATCHES:]
        for run in told
    }
    medians = {name: statistics.median(times) for name, times in times_ms.items()}
    yield Figure(
        name="micro_batch_ratio",
        value=medians["log"] / medians["bare"],
        unit="x",
        about=f"p50 of a micro-batch of {MICRO_ROWS} rows, log -> Spark -> log, over bare Python "
        "source -> sink",
        detail={"log_p50_ms": medians["log"], "bare_p50_ms": medians["bare"]},
    )
    spark_cpu_s = next(run["cpu_s"] for run in told if run["name"] == "log")
    for process, spent_s in (("spark", spark_cpu_s), ("nodes", nodes_cpu_s)):
        yield Figure(
            name=f"micro_batch_cpu_{process}",
            value=1000 * spent_s / MICRO_BATCHES,
            unit="ms/batch",
            about="processor time of a micro-batch from log to log, with its query's start",
        )


def micro_batch_settings(place: Place) -> Iterator[Figure]:
    """The same from log to log under each of the settings that make it fast, and under all of them,
    in turns: each in a JVM of its own, with and without it one after the other."""
    rounds: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    with place.cluster("micro-batch-settings") as cluster:
        with cluster.client() as client:
            client.create_topic("small", SCHEMA_DDL)
            for start in range(0, MICRO_ROWS * MICRO_BATCHES, MICRO_ROWS):
                client.append("small", rows(start, MICRO_ROWS))
        options = place.spark_options(cluster)
        source = from_log(options, "small") | {"maxOffsetsPerTrigger": str(MICRO_ROWS)}
        for turn in range(_MICRO_TURNS):
            for name, settings in _VARIANTS.items():
                to_log = query(
                    "raftlog",
                    source,
                    "raftlog",
                    into_log(options, f"{name}-{turn}"),
                )
                [run] = run_driver(
                    place.folder / f"{name}-{turn}", settings, [to_log | {"name": name}]
                )
                times = [batch["milliseconds"] for batch in run["batches"]]
                rounds[name].append(statistics.median(times[MICRO_WARM_BATCHES:]))
    for name, found in rounds.items():
        ratios = [ms / base for ms, base in zip(found, rounds["defaults"], strict=True)]
        detail = {f"turn_{turn}_ms": ms for turn, ms in enumerate(found, 1)}
        yield Figure(
            name=f"micro_batch_{name}_ratio",
            value=statistics.median(ratios),
            unit="x",
            about=f"p50 of a micro-batch of {MICRO_ROWS} rows, log -> Spark -> log, under the "
            f"settings {name} over Spark's defaults in the same turn",
            detail=detail | {"least_ratio": min(ratios), "greatest_ratio": max(ratios)},
        )


# ---------------------------------------------------------------- parts


def parquet_files(folder: Path, count: int, files: int) -> Path:
    """The folder, with so many rows in so many files."""
    folder.mkdir()
    per_file = count // files
    for number in range(files):
        with pq.ParquetWriter(folder / f"{number}.parquet", rows(0, 1).schema) as writer:
            writer.write_batch(rows(number * per_file, per_file))
    return folder


def from_log(log: Mapping[str, str], topic: str) -> dict[str, str]:
    """The options of a source that reads the whole topic; `log` are those of its cluster."""
    return {**log, "subscribe": topic, "startingOffsets": "earliest"}


def into_log(log: Mapping[str, str], topic: str) -> dict[str, str]:
    """The options of a sink that writes the topic; `log` are those of its cluster."""
    return {**log, "topic": topic}


def query(
    source: str,
    source_options: Mapping[str, str],
    sink: str,
    sink_options: Mapping[str, str],
    *select: Sequence[str],
) -> dict[str, Any]:
    """A stream from one format to another, as `tests.bench.spark_driver` takes it. `select` are
    projections between them, one after another."""
    return {
        "from": source,
        "source": dict(source_options),
        "select": select,
        "to": sink,
        "sink": dict(sink_options),
    }


def bare_scan(rows: int, columns: Sequence[str] = COLUMNS) -> dict[str, Any]:
    """So many rows of these columns from a Python source that has them in memory to nowhere: what
    any source in Python comes to at best."""
    options = {"batchRows": "10000", "tasks": "2", "rows": str(rows), "columns": ",".join(columns)}
    return query("bare-source", options, "noop", {})


def bare_batches(rows: int, count: int) -> dict[str, str]:
    """The options of a bare source with so many micro-batches of so many rows."""
    per_batch = str(rows)
    return {
        "rows": str(rows * count),
        "rowsPerTrigger": per_batch,
        "batchRows": per_batch,
        "tasks": "1",
    }


@dataclass(frozen=True, slots=True)
class Run:
    """One query's rows a second, and the processor time of Spark for a million rows, s."""

    rows_per_s: float
    cpu_s: float


def run_queries(
    folder: Path, settings: Mapping[str, str], queries: Mapping[str, dict[str, Any]]
) -> dict[str, list[Run]]:
    """Each query's runs after the first; the queries take turns in one JVM."""
    planned = [query | {"name": name} for _ in range(_ROUNDS) for name, query in queries.items()]
    runs: dict[str, list[Run]] = {name: [] for name in queries}
    for run in run_driver(folder, settings, planned):
        seconds = sum(batch["milliseconds"] for batch in run["batches"]) / 1000
        count = sum(batch["rows"] for batch in run["batches"])
        runs[run["name"]].append(Run(count / seconds, run["cpu_s"] / count * _MILLION))
    return {name: found[1:] for name, found in runs.items()}


def median_rate(runs: Sequence[Run]) -> float:
    """Rows a second."""
    return statistics.median(run.rows_per_s for run in runs)


def run_driver(
    folder: Path, settings: Mapping[str, str], queries: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Run the queries in a JVM of their own, each with a checkpoint of its own."""
    folder.mkdir()
    numbered = [
        query | {"checkpoint": str(folder / f"checkpoint-{number}")}
        for number, query in enumerate(queries)
    ]
    plan = {"folder": str(folder), "settings": dict(settings), "queries": numbered}
    with (folder / "driver.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.spark_driver", json.dumps(plan)],
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )
    if done.returncode:
        sys.exit(f"Spark ended with {done.returncode}:\n" + (folder / "driver.log").read_text())
    return json.loads(done.stdout)


def assert_end(client: LogClient, topic: str, wanted: int) -> None:
    """Every run is a writer of its own and wrote all its rows once: so many in all."""
    end = client.read_high_water_mark(client.describe_topic(topic)).high_water_mark
    assert end == wanted, f"{topic} ends at {end} instead of {wanted}"


def _throughput(name: str, found: Sequence[Run], about: str, detail: Mapping[str, float]) -> Figure:
    runs = {f"run_{number}_rows_per_s": run.rows_per_s for number, run in enumerate(found, 2)}
    return Figure(
        name=name,
        value=median_rate(found),
        unit="rows/s",
        about=about,
        detail={**detail, **runs},
    )


def _cpu_figures(
    name: str, found: Sequence[Run], nodes_cpu_s: float, rows_in_all: int
) -> Iterator[Figure]:
    """What a million rows cost Spark, and what they cost all nodes."""
    about = "processor time for a million rows"
    yield Figure(
        name=f"{name}_cpu_spark",
        value=statistics.median(run.cpu_s for run in found),
        unit="s/M rows",
        about=f"{about}, of the driver, the JVM and its workers",
    )
    yield Figure(
        name=f"{name}_cpu_nodes",
        value=nodes_cpu_s / rows_in_all * _MILLION,
        unit="s/M rows",
        about=f"{about}, of all nodes",
    )


def _nodes_cpu_s(cluster: ProcessCluster) -> float:
    return sum(map(cpu_s, cluster.pids.values()))
