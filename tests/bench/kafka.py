"""The log beside Kafka, both under Spark: the same rows in turns in one JVM, so ratios carry over.

Ours writes exactly once and is synced on a majority before it acknowledges. Kafka is as its users
run it: three brokers, `acks=all`, no fsync, at least once, JSON values, and a producer with large
batches. Everything has the settings of `raftlog.spark.configure`. Both clusters run all the while.
Small micro-batches take turns with a bare Python source and sink, which do nothing.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.version import __version__ as spark_version

from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.rows import SCHEMA_DDL, rows
from tests.bench.spark import (
    CONFIGURED,
    assert_end,
    bare_batches,
    from_log,
    into_log,
    parquet_files,
    query,
    run_driver,
)
from tests.kafka_brokers import FOLDER, Jars, NoKafka, brokers, find_jars

_ROWS = 2_000_000
_FILES = 8
_TURNS = 4
_WARM_TURNS = 1
"""So many turns of writes and reads do not count."""
_MICRO_ROWS = 100
_MICRO_BATCHES = 80
_MICRO_TURNS = 6
_MICRO_WARM_TURNS = 3
"""Micro-batches become faster for hundreds of them, until the JVM has compiled what plans them."""
_MICRO_WARM_BATCHES = 20
"""At the start of each turn."""
_BROKERS = 3
_HEAP_MB = 400

_TO_JSON = ["to_json(struct(*)) AS value"]
_FROM_JSON = [f"from_json(CAST(value AS STRING), '{SCHEMA_DDL}') AS row"]
_COLUMNS = ["row.*"]

_PRODUCER = {
    "kafka.acks": "all",
    "kafka.batch.size": "524288",
    "kafka.linger.ms": "20",
    "kafka.buffer.memory": "67108864",
    "kafka.compression.type": "lz4",
}
_SMALL_PRODUCER = {"kafka.acks": "all"}
"""For batches of 100 rows: with a linger each of them would wait for it."""

Runs = Sequence[Mapping[str, Any]]
"""What the driver tells of its queries: each run's name, and its micro-batches."""


def kafka(place: Place, fetched: Path = FOLDER) -> Iterator[Figure]:
    """Writes, reads and small micro-batches of the log over Kafka's, with the jars that were
    fetched; without them nothing."""
    try:
        jars = find_jars(spark_version, fetched)
    except NoKafka as missing:
        print(f"  left out: {missing}", file=sys.stderr)
        return
    files = parquet_files(place.folder / "parquet", _ROWS, _FILES)
    small = parquet_files(place.folder / "small", _MICRO_ROWS * _MICRO_BATCHES, 1)
    with (
        place.cluster("log") as cluster,
        cluster.client() as client,
        brokers(jars, place.folder / "kafka", _BROKERS, _HEAP_MB) as servers,
    ):
        client.create_topic("small", SCHEMA_DDL)
        for start in range(0, _MICRO_ROWS * _MICRO_BATCHES, _MICRO_ROWS):
            client.append("small", rows(start, _MICRO_ROWS))
        planned = [
            *_writes(files, place.spark_options(cluster), servers),
            *_reads(place.spark_options(cluster), servers),
            *_micro_batches(small, place.spark_options(cluster), servers),
        ]
        runs = run_driver(place.folder / "spark", CONFIGURED | {"spark.jars": jars.spark}, planned)
        assert_end(client, "rows", _ROWS)
        assert_end(client, "written", (_TURNS - 1) * _ROWS)
        assert_end(client, "copy", _MICRO_TURNS * _MICRO_BATCHES * _MICRO_ROWS)
    yield from figures_of(runs, jars)


def figures_of(runs: Runs, jars: Jars) -> Iterator[Figure]:
    """The figures of all runs but those that warm up."""
    beside = (
        f"; Kafka {jars.broker}, {_BROKERS} brokers, acks=all, JSON, Spark's connector "
        f"{jars.connector} under Spark {spark_version}"
    )
    for what, about in (
        ("write", f"{_ROWS:,} rows of five columns from Parquet to the log, over to Kafka"),
        ("read", f"{_ROWS:,} typed rows from the log to noop, over from Kafka by from_json"),
    ):
        log, other = (
            statistics.median(_rates(runs, f"{side}_{what}")) for side in ("log", "kafka")
        )
        yield Figure(
            name=f"kafka_{what}_ratio",
            value=log / other,
            unit="x",
            about=about + beside,
            detail={"log_rows_per_s": log, "kafka_rows_per_s": other},
        )
    log, other, bare = (
        statistics.median(_times_ms(runs, f"{side}_micro")) for side in ("log", "kafka", "bare")
    )
    yield Figure(
        name="kafka_micro_batch_ratio",
        value=log / other,
        unit="x",
        about=f"p50 of a micro-batch of {_MICRO_ROWS} rows, log -> Spark -> log, over Kafka -> "
        f"from_json -> to_json -> Kafka{beside}",
        detail={"log_p50_ms": log, "kafka_p50_ms": other, "bare_p50_ms": bare},
    )


def _batches(runs: Runs, name: str, warm_turns: int) -> list[list[dict[str, int]]]:
    """The micro-batches of each run of this name that counts."""
    return [run["batches"] for run in runs if run["name"] == name][warm_turns:]


def _rates(runs: Runs, name: str) -> list[float]:
    """Rows a second of each run."""
    return [
        1000 * sum(batch["rows"] for batch in run) / sum(batch["milliseconds"] for batch in run)
        for run in _batches(runs, name, _WARM_TURNS)
    ]


def _times_ms(runs: Runs, name: str) -> list[int]:
    """The micro-batches of all runs, without those at the start of each."""
    return [
        batch["milliseconds"]
        for run in _batches(runs, name, _MICRO_WARM_TURNS)
        for batch in run[_MICRO_WARM_BATCHES:]
    ]


# ---------------------------------------------------------------- queries


def _writes(files: Path, log: Mapping[str, str], servers: str) -> Iterator[dict[str, Any]]:
    """The first turn fills the topic that is read, the others the topic `written`."""
    for turn in range(_TURNS):
        topic = "written" if turn else "rows"
        source = {"path": str(files)}
        yield _named("log_write", query("parquet", source, "raftlog", into_log(log, topic)))
        sink = _kafka(servers, topic=topic) | _PRODUCER
        yield _named("kafka_write", query("parquet", source, "kafka", sink, _TO_JSON))


def _reads(log: Mapping[str, str], servers: str) -> Iterator[dict[str, Any]]:
    for _ in range(_TURNS):
        yield _named("log_read", query("raftlog", from_log(log, "rows"), "noop", {}))
        source = _kafka(servers, subscribe="rows", startingOffsets="earliest")
        yield _named("kafka_read", query("kafka", source, "noop", {}, _FROM_JSON, _COLUMNS))


def _micro_batches(small: Path, log: Mapping[str, str], servers: str) -> Iterator[dict[str, Any]]:
    """Kafka's topic is filled here, by one producer with batches of about so many rows; all of it
    is in one partition, so that both sides have one task for each micro-batch."""
    sink = _kafka(servers, topic="small") | {"kafka.batch.size": str(110 * _MICRO_ROWS)}
    in_partition = ["value", "0 AS partition"]
    fill = query("parquet", {"path": str(small)}, "kafka", sink, _TO_JSON, in_partition)
    yield _named("fill", fill)
    limit = {"maxOffsetsPerTrigger": str(_MICRO_ROWS)}
    source = _kafka(servers, assign='{"small": [0]}', startingOffsets="earliest") | limit
    sink = _kafka(servers, topic="copy") | _SMALL_PRODUCER
    copied = query("kafka", source, "kafka", sink, _FROM_JSON, _COLUMNS, _TO_JSON)
    from_small = from_log(log, "small") | limit
    bare = query("bare-source", bare_batches(_MICRO_ROWS, _MICRO_BATCHES), "bare-sink", {})
    for _ in range(_MICRO_TURNS):
        to_copy = query("raftlog", from_small, "raftlog", into_log(log, "copy"))
        yield _named("log_micro", to_copy)
        yield _named("kafka_micro", copied)
        yield _named("bare_micro", bare)


def _kafka(servers: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, **options}


def _named(name: str, planned: dict[str, Any]) -> dict[str, Any]:
    return planned | {"name": name}
