"""A topic's columns change under Spark's writes and under a stream that reads them."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException

import raftlog.spark
from raftlog.spark.declarations import Endpoint
from raftlog.spark.options import source_options
from raftlog.spark.reader import RaftlogBatchReader
from raftlog.spark.schema import topic_struct
from tests.spark.conftest import failure, finish, wait_until


def test_a_write_adds_its_columns_and_widens_types_if_it_is_told_to(lab):
    lab.create("id int, s string")
    lab.write(lab.spark.sql("SELECT 1 AS id, 'a' AS s"))
    more = lab.spark.sql("SELECT 5000000000 AS id, 'b' AS s, named_struct('x', 1) AS at")
    with pytest.raises(AnalysisException, match="mergeSchema=true, which adds at and widens id"):
        lab.write(more)
    with pytest.raises(AnalysisException, match="s: string in the topic, missing"):
        lab.write(more.drop("s"), mergeSchema="true")
    assert lab.client.describe_topic(lab.topic).schema.version == 1
    lab.write(more, mergeSchema="true")
    lab.write(lab.spark.sql("SELECT 2 AS id, 'c' AS s"))
    rows = lab.read().orderBy("id").collect()
    assert [(row.id, row.s, row["at"]) for row in rows] == [
        (1, "a", None), (2, "c", None), (5000000000, "b", (1,)),
    ]  # fmt: skip


def test_a_write_adds_and_widens_fields_within_structs_arrays_and_maps(lab):
    """Records of before have null in them, and so have those of writers that do not know them."""
    lab.create("id int, s struct<x: int>, a map<string, array<struct<x: float>>>")
    older = lab.spark.sql(
        "SELECT 1 AS id, named_struct('x', 7) AS s, map('k', array(named_struct('x', 0.5F))) AS a"
    )
    lab.write(older)
    newer = lab.spark.sql(
        "SELECT 2 AS id, named_struct('y', named_struct('z', 'new'), 'x', 5000000000) AS s, "
        "map('k', array(named_struct('x', 0.1D, 'at', DATE'2013-01-01'), NULL)) AS a"
    )
    with pytest.raises(AnalysisException, match=r"which adds s\.y, a\.value\.element\.at and"):
        lab.write(newer)
    wrong = older.selectExpr("id", "named_struct('x', 'text', 'y', 1) AS s", "a")
    with pytest.raises(AnalysisException, match=r"s\.x: int in the topic, string in the DataFrame"):
        lab.write(wrong, mergeSchema="true")
    assert lab.client.describe_topic(lab.topic).schema.version == 1
    lab.write(newer, mergeSchema="true")
    lab.write(older)
    old = (1, (7, None), {"k": [(0.5, None)]})
    new = (2, (5000000000, ("new",)), {"k": [(0.1, datetime.date(2013, 1, 1)), None]})
    assert sorted(map(tuple, lab.read().collect()), key=str) == [old, old, new]


def test_a_stream_adds_its_columns_once_and_a_replay_of_the_batch_changes_nothing(lab):
    lab.create("id bigint")
    lab.rows_file("1", 1, 2)
    lab.rows_file("2", 3)
    rows = lab.file_stream()
    assert "mergeSchema=true, which adds s" in failure(lab.sink(rows).start())
    finish(lab.sink(rows, mergeSchema="true").start())
    lab.forget_batch(1)
    finish(lab.sink(rows, mergeSchema="true").start())
    assert lab.client.describe_topic(lab.topic).schema.version == 2
    assert sorted((row.id, row.s) for row in lab.read().collect()) == [
        (1, "s1"), (2, "s2"), (3, "s3"),
    ]  # fmt: skip


def test_writes_that_bring_different_columns_at_once_all_arrive(lab):
    """Each is planned with what the topic had then, and has to merge with what others added."""
    lab.create("id int")

    def write(number: int) -> None:
        row = f"SELECT CAST({number} AS bigint) AS id, {number} AS c{number}, 'both' AS shared"
        lab.write(lab.spark.sql(row), mergeSchema="true")

    with ThreadPoolExecutor(4, initializer=raftlog.spark.activate, initargs=[lab.spark]) as pool:
        list(pool.map(write, range(4)))
    names = [field.name for field in lab.client.describe_topic(lab.topic).schema.fields]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "id", "shared"]
    for row in lab.read().collect():
        found = {name for name in ("c0", "c1", "c2", "c3") if row[name] is not None}
        assert (found, row.shared) == ({f"c{row.id}"}, "both")
        assert row[f"c{row.id}"] == row.id
    assert lab.read().count() == 4


def test_a_running_stream_keeps_its_columns_by_id_and_has_the_new_ones_after_a_restart(lab):
    lab.create("id bigint, s string, at struct<x: int>")
    lab.append(1)
    seen: list[tuple] = []

    def collect(batch, number):
        seen.extend(tuple(row) for row in batch.collect())

    data = lab.read_stream(startingOffsets="earliest")
    query = lab.each(data, collect, processingTime="0 seconds")
    wait_until(lambda: len(seen) == 1, "the first row", query)
    lab.client.alter_schema(
        lab.topic, rename={"s": "text"}, add="s bigint", types="at struct<x: bigint, y: string>"
    )
    lab.client.append(lab.topic, [{"id": 2, "text": "s2", "s": 7, "at": {"x": 5, "y": "a"}}])
    wait_until((lab.checkpoint / "commits" / "1").exists, "the row after the change", query)
    query.stop()
    assert seen == [(1, "s1", None), (2, "s2", (5,))]
    lab.client.append(lab.topic, [{"id": 3, "text": "s3", "s": 8, "at": {"x": 5, "y": "a"}}])
    finish(lab.each(lab.read_stream(), collect))
    assert seen[2:] == [(3, "s3", (5, "a"), 8)]
    query = lab.each(lab.read_stream(schemaEvolution="fail"), collect, processingTime="0 seconds")
    wait_until(lambda: query.recentProgress, "the stream to look", query)
    lab.client.alter_schema(lab.topic, add="gate string")
    lab.client.append(lab.topic, [{"id": 4, "text": "s4"}])
    assert "at version 3, and at 2 when the query started" in failure(query)
    assert len(seen) == 3


def test_a_stream_that_has_not_read_a_record_yet_keeps_the_columns_that_it_was_loaded_with(lab):
    """Its tasks get their reader with the first batch, and the topic has other columns by then."""
    lab.create("id bigint, s string, f float, gone int, at struct<x: int>")
    seen: list[tuple] = []

    def collect(batch, number):
        seen.extend(tuple(row) for row in batch.collect())

    finish(lab.each(lab.read_stream(), collect))  # of batch 0, which an empty topic has as well
    query = lab.each(lab.read_stream(), collect, processingTime="0 seconds")
    wait_until(lambda: query.recentProgress, "the stream to look", query)
    lab.client.alter_schema(
        lab.topic,
        rename={"s": "text"},
        add="s bigint",
        types="f double, at struct<x: int, y: string>",
        drop=["gone"],
    )
    row = {"id": 2, "text": "s2", "s": 7, "f": 0.5, "at": {"x": 5, "y": "a"}}
    lab.client.append(lab.topic, [row])
    wait_until(lambda: seen, "the row after the change", query)
    query.processAllAvailable()
    query.stop()
    assert seen == [(2, "s2", 0.5, None, (5,))]
    lab.client.append(lab.topic, [row])
    finish(lab.each(lab.read_stream(), collect))
    assert seen[1:] == [(2, "s2", 0.5, (5, "a"), 7)]


def test_a_process_that_knows_a_topics_earlier_columns_asks_again(cluster, client):
    """As a Python worker of Spark does, which lives longer than the query that it began with."""
    client.create_topic("long-lived", "id bigint")
    client.append("long-lived", [{"id": 1}])

    def rows() -> list[dict]:
        topic = client.describe_topic("long-lived")
        given = {"subscribe": topic.name, "raftlog.bootstrap.servers": cluster.servers}
        options = source_options(given, Endpoint.BATCH_SOURCE)
        reader = RaftlogBatchReader(options, topic_struct(topic, include_metadata=False), [topic])
        parts = reader.partitions()
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    assert rows() == [{"id": 1}]
    client.alter_schema("long-lived", add="gate string")
    assert rows() == [{"id": 1, "gate": None}]
