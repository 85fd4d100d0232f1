"""The examples of docs/examples/spark run, in one cluster and one JVM."""

from __future__ import annotations

import runpy
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import (
    EXAMPLES,
    example,
    finish,
    need_streams,
    run_program,
    wait_until,
)

ROOT = EXAMPLES.parents[2]
MINUTE = timedelta(minutes=1)
START = datetime(2026, 11, 25, 8, 0, tzinfo=UTC)


class Stage:
    """What an example works with: its topics begin empty."""

    def __init__(
        self, spark: SparkSession, cluster: ProcessCluster, client: raftlog.LogClient, work: Path
    ) -> None:
        self.spark = spark
        self.client = client
        self.servers = cluster.servers
        self.log = {"raftlog.bootstrap.servers": cluster.servers}
        self.work = str(work)

    def topic(self, name: str, schema: str, *rows: dict[str, Any]) -> None:
        self.client.create_topic(name, schema)
        self.append(name, *rows)

    def append(self, name: str, *rows: dict[str, Any]) -> None:
        if rows:
            self.client.append(name, list(rows))

    def clicks(self, *ads: int | None) -> None:
        """A topic of clicks, one each minute."""
        rows = [{"ad": ad, "at": START + number * MINUTE} for number, ad in enumerate(ads)]
        self.topic("clicks", "ad bigint, at timestamp", *rows)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return [row for batch in self.client.read(topic) for row in batch.to_pylist()]

    def run(self, module: Any) -> None:
        """Run the example's query until everything that is there is processed."""
        query: DataStreamWriter = module.query(self.spark, self.log, self.work)
        finish(query.trigger(availableNow=True).start())


@pytest.fixture
def stage(
    spark: SparkSession, cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> Iterator[Stage]:
    need_streams()
    others = {topic.name for topic in client.list_topics()}
    yield Stage(spark, cluster, client, tmp_path)
    for query in spark.streams.active:
        query.stop()
    for topic in client.list_topics():
        if topic.name not in others:
            client.delete_topic(topic.name)


def test_the_first_lines_of_the_page_run_as_printed(stage: Stage, tmp_path: Path) -> None:
    """All but the servers' addresses and the folder."""
    page = (ROOT / "docs" / "SPARK.md").read_text()
    lines = page.split("```python\n", 1)[1].split("```", 1)[0]
    program = tmp_path / "page.py"
    program.write_text(
        lines.replace("127.0.0.1:7401", stage.servers).replace("/tmp/", f"{stage.work}/")
    )
    runpy.run_path(str(program))
    assert [row["id"] for row in stage.rows("doubles")] == list(range(0, 2000, 2))


def test_rate_fills_two_topics_with_ads_and_clicks(stage: Stage) -> None:
    queries = example("rate").start(stage.spark, stage.log, stage.work)

    def both_have_rows() -> bool:
        found = {topic.name for topic in stage.client.list_topics()}
        return {"shown", "clicks"} <= found and all(map(stage.rows, ("shown", "clicks")))

    wait_until(both_have_rows, "rows of the rate source", *queries)
    assert {row["ad"] % 3 for row in stage.rows("clicks")} == {0}


def test_a_window_is_written_once_when_the_watermark_has_passed_it(stage: Stage) -> None:
    stage.clicks(1, 1, 2, 1, 1, 1)
    stage.append("clicks", {"ad": 1, "at": START})
    stage.run(example("window"))
    late = [{"ad": 1, "at": START}, {"ad": 9, "at": START + 9 * MINUTE}]
    stage.append("clicks", *late)
    stage.run(example("window"))
    found = {(row["minute"], row["ad"]): row["count"] for row in stage.rows("clicks-per-minute")}
    ads = (1, 1, 2, 1, 1, 1)
    assert found == {
        (START + number * MINUTE, ad): 2 if number == 0 else 1 for number, ad in enumerate(ads)
    }
    assert len(stage.rows("clicks-per-minute")) == len(found)


def test_each_click_is_joined_with_the_ad_that_was_shown_before_it(stage: Stage) -> None:
    shown = [{"ad": ad, "user": f"user-{ad}", "at": START} for ad in range(3)]
    stage.topic("shown", "ad bigint, user string, at timestamp", *shown)
    stage.clicks(2, 0, 7)
    stage.run(example("join"))
    found = [(row["ad"], row["user"], row["clicked_at"]) for row in stage.rows("clicked-ads")]
    assert sorted(found) == [(0, "user-0", START + MINUTE), (2, "user-2", START)]


def test_one_stream_fills_two_topics_once_also_if_a_batch_is_repeated(stage: Stage) -> None:
    stage.clicks(1, None, 2)
    module = example("two_topics")
    stage.run(module)
    commit = Path(stage.work, "two-topics", "commits", "0")
    commit.unlink()
    commit.with_name(".0.crc").unlink()
    stage.run(module)
    assert sorted(row["ad"] for row in stage.rows("accepted")) == [1, 2]
    assert [row["ad"] for row in stage.rows("rejected")] == [None]


def test_update_mode_writes_the_counts_that_have_changed(stage: Stage) -> None:
    stage.clicks(1, 2, 1)
    module = example("update_mode")
    stage.run(module)
    stage.append("clicks", {"ad": 2, "at": START})
    stage.run(module)
    found = Counter((row["ad"], row["count"]) for row in stage.rows("clicks-by-ad"))
    assert found == Counter([(1, 2), (2, 1), (2, 2)])
    assert sorted(map(tuple, module.latest(stage.spark, stage.log).collect())) == [(1, 2), (2, 2)]


def test_every_third_click_becomes_a_record_also_over_a_restart(stage: Stage) -> None:
    stage.clicks(1, 1, 2)
    module = example("state")
    before = stage.spark.conf.get(module.STATE_STORE, None)
    try:
        stage.run(module)
        stage.append("clicks", *({"ad": 1, "at": START} for _ in range(4)))
        stage.run(module)
    finally:
        if before is None:
            stage.spark.conf.unset(module.STATE_STORE)
        else:
            stage.spark.conf.set(module.STATE_STORE, before)
    assert sorted((row["ad"], row["count"]) for row in stage.rows("third-clicks")) == [
        (1, 3),
        (1, 6),
    ]


def test_a_reader_of_a_topic_that_moves_sees_each_record_once_and_in_order(stage: Stage) -> None:
    orders = [{"id": number, "cents": 150 * number} for number in range(3)]
    stage.topic("orders", "id int, cents int", *orders)
    module, seen = example("moved_topic"), []

    def process(batch: Any, number: int) -> None:
        seen.extend(sorted(row["id"] for row in batch.collect()))
        if number == 0 and len(stage.rows("orders")) == 3:
            stage.append("orders", {"id": 3, "cents": 1})  # while the move is under way

    module.move(stage.spark, stage.log, stage.work, process)
    stage.append(module.NEW, {"id": 4, "amount": Decimal("2.50")})
    reader = module.Reader(stage.spark, stage.log, process)
    reader.run(module.NEW, "earliest", f"{stage.work}/new")
    assert seen == [0, 1, 2, 3, 4]
    amounts = [str(row["amount"]) for row in stage.rows(module.NEW)]
    assert amounts == ["0.00", "1.50", "3.00", "0.01", "2.50"]


def run_client(*words: str, servers: str, remote: str) -> None:
    """A process without a JVM."""
    own = {"SPARK_REMOTE": remote, "RAFTLOG_CLIENT__BOOTSTRAP_SERVERS": servers}
    run_program(*words, cwd=ROOT, **own)


def test_a_connect_client_reads_and_writes(stage: Stage, connect: str) -> None:
    stage.clicks(1, 2, 3)
    run_client(
        str(EXAMPLES / "connect.py"), connect, stage.servers, stage.work,
        servers=stage.servers, remote=connect,
    )  # fmt: skip
    assert [row["count"] for row in stage.rows("clicks-by-hour")] == [3]
    assert [row["ad"] for row in stage.rows("copied-clicks")] == [1, 2, 3]


HELPED = """
import sys
from pyspark.sql import SparkSession
import raftlog.spark

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
options = {"raftlog.bootstrap.servers": sys.argv[2]}
frame = raftlog.spark.read(spark, "clicks", columns=["at"], where="ad = 2", options=options)
assert frame.columns == ["at"]
assert len(frame.collect()) == 1
"""


def test_a_connect_client_reads_what_its_condition_leaves(stage: Stage, connect: str) -> None:
    stage.clicks(1)
    for ad in (2, 3, 4):
        stage.append("clicks", {"ad": ad, "at": START})
    run_client("-c", HELPED, connect, stage.servers, servers=stage.servers, remote=connect)


def test_a_declarative_pipeline_writes_what_is_new_in_each_run(stage: Stage, connect: str) -> None:
    stage.clicks(1, None, 2)
    shutil.copytree(EXAMPLES / "pipeline", Path(stage.work, "pipeline"))
    spec = Path(stage.work, "pipeline", "spark-pipeline.yml")
    text = spec.read_text()
    assert "file:///tmp/clicks-pipeline" in text
    spec.write_text(text.replace("file:///tmp/clicks-pipeline", f"file://{stage.work}/storage"))
    words = ("-m", "pyspark.pipelines.cli", "run", "--spec", str(spec))
    run_client(*words, servers=stage.servers, remote=connect)
    assert [row["ad"] for row in stage.rows("valid-clicks")] == [1, 2]
    stage.append("clicks", {"ad": 3, "at": START})
    run_client(*words, servers=stage.servers, remote=connect)
    assert [row["ad"] for row in stage.rows("valid-clicks")] == [1, 2, 3]


CLUSTER = """
import importlib.util, sys
from pathlib import Path
from tests.spark.small_cluster import start_workers
from pyspark.sql import SparkSession

example, servers, work = sys.argv[1:]
url = start_workers(2, Path(work))
builder = SparkSession.builder.master(url).config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
builder = builder.config("spark.sql.warehouse.dir", work + "/warehouse")
# Both executors are there before the first task.
builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
builder = builder.config("spark.cores.max", "2")
spec = importlib.util.spec_from_file_location("two_workers", example)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
spark = builder.getOrCreate()
module.run(spark, {"raftlog.bootstrap.servers": servers})
spark.stop()
"""


@pytest.mark.soak
def test_two_workers_write_what_each_has_read_as_one(stage: Stage) -> None:
    stage.clicks(*range(20))
    example = str(EXAMPLES / "two_workers.py")
    run_program("-c", CLUSTER, example, stage.servers, stage.work, cwd=ROOT)
    rows = stage.rows("clicks-by-executor")
    assert sorted(row["ad"] for row in rows) == list(range(20))
    assert {row["executor"] for row in rows} == {"0", "1"}
