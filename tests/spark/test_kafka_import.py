"""Kafka into the log: a record's columns, and an import from a real broker.

The broker's jars and Spark's Kafka source come from `scripts/kafka.sh`. Without them the import is
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.version import __version__

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from raftlog.spark_jobs import kafka_import
from tests.kafka_brokers import Jars, NoKafka, brokers, find_jars
from tests.spark.conftest import run_program

JSON = "id bigint, city string"

RECORDS = "key binary, value binary, headers array<struct<key: string, value: binary>>, " + (
    "topic string, partition int, offset bigint, timestamp timestamp"
)


def records(spark: SparkSession, *values: bytes | None) -> Any:
    at = datetime(2026, 11, 25, tzinfo=UTC)
    rows = [(b"k", each, [("h", b"1")], "t", 0, number, at) for number, each in enumerate(values)]
    return spark.createDataFrame(rows, RECORDS)


def test_without_a_schema_a_record_has_kafkas_columns(spark: SparkSession) -> None:
    found = kafka_import.typed(records(spark, b"\xff"), kafka_import.json_fields(None))
    assert tuple(found.columns) == kafka_import.COLUMNS
    row = found.select("key", "value", "headers").first()
    assert row is not None
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"\xff")


def test_json_becomes_columns_and_what_is_none_is_kept_as_it_is(spark: SparkSession) -> None:
    values = (b'{"id": 1, "city": "Oslo"}', b'{"id": "x"}', b"\xffno", None, b'{"city": "Rome"}')
    found = kafka_import.typed(records(spark, *values), kafka_import.json_fields(JSON))
    rows = found.orderBy("offset").select("id", "city", kafka_import.BAD_VALUE).collect()
    assert [(row.id, row.city) for row in rows] == [
        (1, "Oslo"),
        (None, None),
        (None, None),
        (None, None),
        (None, "Rome"),
    ]
    bad = [row.bad_value and bytes(row.bad_value) for row in rows]
    assert bad == [None, b'{"id": "x"}', b"\xffno", None, None]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id bigin", "is no list of columns"),
        ("bigint", "is a type and no list of columns"),
        ("id bigint, Offset int", "has Offset, and so has"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(spark: SparkSession, schema: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        kafka_import.json_fields(schema)


def need_jars() -> Jars:
    try:
        return find_jars(__version__)
    except NoKafka as missing:
        pytest.skip(str(missing))


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[str]:
    """The address of a broker."""
    with brokers(need_jars(), tmp_path / "kafka", count=1, heap_mb=512) as servers:
        yield servers


IMPORT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from raftlog.spark_jobs import kafka_import

kafka, jars, work, servers = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
spark = builder.config("spark.sql.warehouse.dir", work + "/warehouse").getOrCreate()
flags = ["--kafka", kafka, "--subscribe", "orders", "--to-topic", "imported", "--work", work]
flags += ["--servers", servers, "--json-schema", "id bigint, city string", "--max-offsets", "3"]
options = kafka_import.parser().parse_args(flags)

def produce(*ids):
    rows = [(f"k{each}".encode(), f'{{"id": {each}, "city": "c{each}"}}'.encode()) for each in ids]
    rows.append((None, b"no JSON"))
    sink = spark.createDataFrame(rows, "key binary, value binary").write.format("kafka")
    sink.option("kafka.bootstrap.servers", kafka).option("topic", "orders").save()

def run():
    kafka_import.start(spark, options).awaitTermination()

produce(1, 2, 3, 4)
run()
last = max(int(each.name) for each in Path(work, "checkpoint", "commits").glob("[0-9]*"))
Path(work, "checkpoint", "commits", str(last)).unlink()
Path(work, "checkpoint", "commits", f".{last}.crc").unlink()
produce(5)
run()
spark.stop()
"""


def test_records_of_kafka_are_imported_once_also_if_a_batch_is_repeated(
    kafka: str, cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> None:
    jars, work = need_jars().spark, str(tmp_path / "work")
    run_program("-c", IMPORT, kafka, jars, work, cluster.servers, cwd=tmp_path)
    rows = [row for batch in client.read("imported") for row in batch.to_pylist()]
    good = [(row["key"], row["id"], row["city"]) for row in rows if row["bad_value"] is None]
    assert sorted(good) == [(f"k{each}".encode(), each, f"c{each}") for each in range(1, 6)]
    assert [row["bad_value"] for row in rows if row["id"] is None] == [b"no JSON"] * 2
    places = {(row["topic"], row["partition"], row["offset"]) for row in rows}
    assert len(places) == len(rows) == 7
