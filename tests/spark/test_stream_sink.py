"""The streaming sink with a real Spark: every batch exactly once, whichever process dies."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import LongType, StructField, StructType

import raftlog
from raftlog.errors import QueryNameKnown, TooMany
from raftlog.spark import query_names
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.staging import Staged
from raftlog.spark.writer import StagedMessage, stream_writer
from tests.spark.conftest import failure, finish


def test_the_first_batch_makes_the_topic_and_two_runs_of_a_query_add_up(lab):
    lab.rows_file("a", 1, 2)
    lab.rows_file("b", 3)
    finish(lab.sink(lab.file_stream()).start())
    lab.rows_file("c", 4)
    finish(lab.sink(lab.file_stream()).start())
    assert lab.ids() == [1, 2, 3, 4]
    rows = lab.read(schema="_epoch bigint, _writer string, id bigint").orderBy("id").collect()
    assert [row._epoch for row in rows] == [0, 0, 1, 2]
    assert len({row._writer for row in rows}) == 1


def test_a_batch_whose_end_spark_forgot_is_written_once(lab):
    """The driver died after CommitEpoch was applied and before Spark logged the batch's end."""
    lab.rows_file("a", 1, 2)
    lab.rows_file("b", 3)
    finish(lab.sink(lab.file_stream()).start())
    lab.forget_batch(1)
    lab.rows_file("c", 4)
    finish(lab.sink(lab.file_stream()).start())
    assert lab.ids() == [1, 2, 3, 4]


def test_a_batch_without_rows_counts_as_a_batch(lab):
    """First, in the middle and replayed: it takes no offset and its successor is accepted."""
    lab.rows_file("a", -1)
    lab.rows_file("b", 2)
    lab.rows_file("c", -3)
    positive = lab.file_stream().where("id > 0")
    finish(lab.sink(positive).start())
    lab.forget_batch(2)
    lab.rows_file("d", 4)
    finish(lab.sink(positive).start())
    assert lab.ids() == [2, 4]
    epochs = lab.read(schema="_epoch bigint").collect()
    assert sorted(row._epoch for row in epochs) == [1, 3]


def test_a_leader_killed_between_stage_and_commit_loses_nothing(lab):
    """Every task has staged; the leader dies before CommitEpoch reaches it."""
    kill_file = lab.folder / "pid"

    class KillsLeader(DataSourceStreamArrowWriter):
        def __init__(self, inner: DataSourceStreamArrowWriter, pid_file: Path) -> None:
            self.inner = inner
            self.pid_file = pid_file

        def write(self, iterator):
            return self.inner.write(iterator)

        def commit(self, messages, batchId):
            if self.pid_file.exists():
                os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
                self.pid_file.unlink()
            self.inner.commit(messages, batchId)

        def abort(self, messages, batchId):
            self.inner.abort(messages, batchId)

    class LeaderKillingSource(RaftlogDataSource):
        @classmethod
        def name(cls):
            return "raftlog_leader_killing"

        def streamWriter(self, schema, overwrite):
            return KillsLeader(super().streamWriter(schema, overwrite), kill_file)

    lab.spark.dataSource.register(LeaderKillingSource)
    lab.rows_file("a", 1, 2)
    finish(lab.sink(lab.file_stream(), name=LeaderKillingSource.name()).start())
    leader = lab.leader()
    kill_file.write_text(str(lab.cluster.pids[leader]))
    lab.rows_file("b", 3, 4)
    try:
        finish(lab.sink(lab.file_stream(), name=LeaderKillingSource.name()).start())
    finally:
        lab.cluster.serve(leader)
    assert not kill_file.exists(), "the leader was not killed"
    assert lab.leader() != leader
    assert lab.ids() == [1, 2, 3, 4]


def test_a_failed_task_leaves_nothing_and_the_restart_writes_the_batch_once(lab):
    lab.rows_file("a", 1, 2)
    broken = lab.file_stream().selectExpr(
        "IF(id = 2, CAST(raise_error('broken row') AS bigint), id) AS id", "s"
    )
    assert "broken row" in failure(lab.sink(broken).start())
    assert lab.ids() == []
    finish(lab.sink(lab.file_stream()).start())
    assert lab.ids() == [1, 2]


def test_a_deleted_checkpoint_is_noticed_under_a_txn_app_id(lab):
    lab.rows_file("a", 1, 2)
    finish(lab.sink(lab.file_stream(), txnAppId="job").start())
    shutil.rmtree(lab.checkpoint)
    message = failure(lab.sink(lab.file_stream(), txnAppId="job").start())
    assert "the checkpoint was deleted or replaced" in message
    assert lab.ids() == [1, 2]


def test_a_deleted_checkpoint_is_noticed_by_the_querys_name(lab):
    lab.rows_file("a", 1, 2)
    finish(lab.sink(lab.file_stream()).start())
    shutil.rmtree(lab.checkpoint)
    message = failure(lab.sink(lab.file_stream()).start())
    assert f"is called '{lab.topic}', as is query " in message
    assert "which wrote topic" in message
    assert "onCheckpointReset=append" in message
    assert lab.ids() == [1, 2]
    finish(lab.sink(lab.file_stream(), onCheckpointReset="append").start())
    assert lab.ids() == [1, 2, 1, 2]


def first_batch(topic: str, servers: str, query: str, name: str, **given: str) -> None:
    """An empty batch 0 of a query; here this process commits, with Spark a worker does."""
    options = {"topic": topic, "raftlog.bootstrap.servers": servers, "queryname": name} | given
    schema = StructType([StructField("id", LongType())])
    key = raftlog.EpochKey(
        writer=given.get("txnAppId", query),
        query_id=query,
        run=f"run of {query}",
        epoch=0,
        streaming=True,
    )
    with raftlog.connect(servers) as client:
        staged = Staged(topic=client.describe_topic(topic), reference=None)
        message = StagedMessage(key=key, staged=(staged,))
    stream_writer(options, schema, False, planning=False).commit([message], 0)


def test_only_a_new_query_under_a_known_name_is_refused(cluster, client, monkeypatch):
    monkeypatch.setattr(query_names, "_said", set())
    monkeypatch.setattr(query_names, "_noted", set())
    for topic in ("named", "beside"):
        client.create_topic(topic, "id bigint")
    at = ("named", cluster.servers)
    first_batch(*at, "q1", "etl")
    first_batch(*at, "q1", "etl")
    with pytest.raises(QueryNameKnown) as refused:
        first_batch(*at, "q2", "etl")
    assert (refused.value.known_query_id, refused.value.last_epoch) == ("q1", 0)
    assert [each.writer for each in client.writers.scan("named")] == ["q1"]
    first_batch(*at, "q2", "etl", onCheckpointReset="append")
    with pytest.raises(QueryNameKnown, match="as is query q2"):
        first_batch(*at, "q1", "etl")
    first_batch(*at, "q3", "other")
    first_batch(*at, "q4", "etl", txnAppId="app")
    first_batch("beside", cluster.servers, "q5", "etl")
    first_batch("beside", cluster.servers, "q6", "e" * 1000)
    client.writers.remove("named", "q2")
    first_batch(*at, "q7", "etl")
    for query in ("q8", "q8"):
        first_batch(*at, query, "")
    with pytest.raises(QueryNameKnown, match="New query q9 has no name, like query q8, which"):
        first_batch(*at, "q9", "")
    first_batch(*at, "q9", "", onCheckpointReset="append")


def test_a_name_that_cannot_be_noted_is_a_warning_and_no_error(
    cluster, client, monkeypatch, caplog
):
    def full(*_given: object) -> None:
        raise TooMany(what="The store", limit=1, unit="keys")

    monkeypatch.setattr(query_names, "_said", set())
    monkeypatch.setattr(query_names, "_noted", set())
    monkeypatch.setattr(query_names, "note_query", full)
    client.create_topic("unnoted", "id bigint")
    for query in ("q1", "q2"):
        first_batch("unnoted", cluster.servers, query, "etl")
    warned = [each.getMessage() for each in caplog.records if "TooMany" in each.getMessage()]
    assert len(warned) == 1
    assert "it is not noticed if its checkpoint is lost" in warned[0]


def test_one_of_two_drivers_on_one_checkpoint_is_told_about_the_other(lab):
    """The other driver is another start of this query: it stages the next batch first."""
    lab.rows_file("a", 1)
    query = lab.sink(lab.file_stream()).trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    stage_as_another_run(lab, query_id=str(query.id), run="the-other-run", epoch=1)
    lab.rows_file("b", 2)
    with pytest.raises(StreamingQueryException, match="was fenced by run the-other-run"):
        query.processAllAvailable()
    finish(lab.sink(lab.file_stream()).start())
    assert lab.ids() == [1, 2]


def stage_as_another_run(lab, *, query_id: str, run: str, epoch: int) -> None:
    key = raftlog.EpochKey(writer=query_id, query_id=query_id, run=run, epoch=epoch, streaming=True)
    attempt = lab.client.attempt(lab.client.describe_topic(lab.topic), key)
    attempt.write(pa.record_batch({"id": [2], "s": ["s2"]}))
    attempt.finish()


def test_two_writes_of_one_foreach_batch_do_not_share_a_key(lab):
    """Inside foreachBatch tasks carry the stream's ids; batch writes use their own."""
    lab.create()

    def twice(batch, number):
        lab.write(batch, txnAppId="left", txnVersion=number)
        lab.write(batch.selectExpr("id + 100 AS id", "s"), txnAppId="right", txnVersion=number)
        lab.write(batch.selectExpr("id + 200 AS id", "s"))

    lab.rows_file("a", 1, 2)
    finish(lab.each(lab.file_stream(), twice))
    assert sorted(lab.ids()) == [1, 2, 101, 102, 201, 202]
    lab.forget_batch(0)
    finish(lab.each(lab.file_stream(), twice))
    assert sorted(lab.ids()) == [1, 2, 101, 102, 201, 201, 202, 202]


def test_a_topic_deleted_under_a_query_is_not_created_again_unless_it_may_always_be(lab):
    lab.rows_file("a", 1)
    finish(lab.sink(lab.file_stream()).start())
    lab.client.delete_topic(lab.topic)
    lab.rows_file("b", 2)
    message = failure(lab.sink(lab.file_stream()).start())
    assert "which creates the topic only for a query's first batch: this is batch 1" in message
    assert "start with a new checkpointLocation, or set createTopic=always" in message
    assert lab.topic not in [topic.name for topic in lab.client.list_topics()]
    finish(lab.sink(lab.file_stream(), createTopic="always").start())
    assert lab.ids() == [2]


def test_in_complete_mode_each_batch_takes_the_place_of_the_one_before(lab):
    """A batch that is replayed removes nothing, and one after a restart continues the state."""
    counts = lab.file_stream().groupBy("s").count()
    lab.rows_file("a", 1)
    lab.rows_file("b", 1, 2)
    query = lab.sink(counts).outputMode("complete")
    finish(query.start())
    rows = lab.read(schema="_epoch bigint, s string, count bigint")
    assert sorted(map(tuple, rows.collect())) == [(1, "s1", 2), (1, "s2", 1)]
    lab.client.append(lab.topic, [{"s": "mine", "count": 0}])
    lab.forget_batch(1)
    finish(query.start())
    found = lab.read(schema="s string, count bigint").collect()
    assert sorted(map(tuple, found)) == [("mine", 0), ("s1", 2), ("s2", 1)]
    lab.rows_file("c", 2)
    finish(query.start())
    rows = lab.read(schema="_epoch bigint, s string, count bigint")
    assert sorted(map(tuple, rows.collect())) == [(2, "s1", 2), (2, "s2", 2)]


def test_a_read_to_write_stream_copies_a_topic(lab):
    lab.create()
    lab.append(*range(20))
    copy = f"{lab.topic}-copy"
    stream = lab.read_stream(
        includeMetadata="true", startingOffsets="earliest", maxOffsetsPerTrigger=7
    )
    finish(lab.sink(stream, topic=copy).start())
    found = lab.read(subscribe=copy, schema="_offset bigint, id bigint").orderBy("_offset")
    assert [tuple(row) for row in found.collect()] == [(number, number) for number in range(20)]
