"""Queries that must not continue are told why and what to do; and replies that never came."""

from __future__ import annotations

import re
import shutil

import pytest
from pyspark.errors import StreamingQueryException

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from tests.spark.conftest import Lab, failure, finish, wait_until
from tests.spark.faults import Deed, Moment
from tests.spark.relay_run import RelayRuns

CLIENT, NODE = 0, 1
"""Both ends of the wire that loses a reply."""


def test_a_batch_whose_reply_was_lost_stays_after_spark_gives_it_up(lab, lone):
    """CommitEpoch is applied, no reply comes, Spark aborts: the abort takes nothing back."""
    with (
        PeerLinks({CLIENT: "127.0.0.1:1", NODE: lone.address(NODE)}) as links,
        lone.client() as client,
    ):
        lab.client = client
        lab.faults.arm(Moment.COMMITTING, Deed.HOLD)
        routes = dict(route.split("=") for route in links.routes.split(","))
        options = {
            "raftlog.bootstrap.servers": routes[f"{CLIENT}>{NODE}"],
            "raftlog.request.timeout.ms": 10_000,
            "txnAppId": "app",  # so that CommitEpoch is the first call over the cut wire
            "one_way_in": True,
        }
        lab.rows_file("a", 1, 2)
        query = lab.faulty_sink(lab.file_stream(), **options).start()
        wait_until(lambda: lab.faults.happened(Moment.COMMITTING), "all is staged", query)
        assert lab.ids() == []
        links.set(NODE, CLIENT, Wire(cut=True))
        lab.faults.release(Moment.COMMITTING)
        wait_until(lambda: "committed: DeadlineExceeded" in noted(lab), "the sink gives up")
        assert lab.ids() == [1, 2]
        links.heal()
        message = failure(query)
        assert "CommitEpoch was not done within 10 s" in message
        assert "raftlog.request.timeout.ms" in message
        assert noted(lab) == ["staged", "committed: DeadlineExceeded", "aborted"]
        assert lab.ids() == [1, 2]
        lab.rows_file("b", 3)
        finish(lab.faulty_sink(lab.file_stream(), **options).start())
        assert lab.ids() == [1, 2, 3]


def noted(lab: Lab) -> list[str]:
    """What the query's processes did, or what stopped them."""
    return [line["what"] for line in lab.faults.events()]


def test_a_driver_whose_checkpoint_another_one_took_over_is_told_so(lab, cluster, client, tmp_path):
    """Two real drivers: the second replays what the first one staged, and the first wakes up. Then
    the first is started again, as its error says, and continues where the second ended."""
    with RelayRuns(cluster, client, tmp_path / "shared") as runs:
        lab.files, lab.checkpoint = runs.parts.files, runs.parts.checkpoints["ingest"]
        first = lab.faulty_sink(lab.file_stream(), topic=runs.parts.topics["ingest"])
        query = first.trigger(processingTime="0 seconds").start()
        runs.add_file(rows=3)
        query.processAllAvailable()
        lab.faults.arm(Moment.COMMITTING, Deed.HOLD)
        runs.add_file(rows=5)
        wait_until(
            lambda: lab.faults.happened(Moment.COMMITTING), "the second batch is staged", query
        )
        runs.finish("--queries", "ingest")
        lab.faults.release(Moment.COMMITTING)
        message = failure(query)
        assert f"of writer '{query.id}' was fenced by run " in message
        assert "Two drivers write with one checkpointLocation or txnAppId" in message
        assert "Stop one of the two; a restarted query continues where the log ends" in message
        runs.add_file(rows=2)
        finish(first.trigger(availableNow=True).start())
        runs.assert_arrived_once("ingest")


def test_a_deleted_checkpoint_is_refused_with_both_query_ids_and_the_way_out(lab):
    lab.rows_file("a", 1, 2)
    query = lab.sink(lab.file_stream(), txnAppId="job").start()
    finish(query)
    shutil.rmtree(lab.checkpoint)
    again = lab.sink(lab.file_stream(), txnAppId="job").start()
    message = failure(again)
    assert (
        f"Query {again.id} writes epoch 0 as writer 'job', whose last epoch 0 came from query "
        f"{query.id}: the checkpoint was deleted or replaced." in message
    )
    assert "Restore the checkpointLocation. Another txnAppId writes the rows again" in message
    assert lab.ids() == [1, 2]


def test_a_running_query_is_told_that_its_sink_was_created_again(lab):
    lab.rows_file("a", 1)
    query = lab.sink(lab.file_stream()).trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    lab.client.delete_topic(lab.topic)
    lab.create()
    lab.rows_file("b", 2)
    message = failure(query)
    assert f"does not know writer '{query.id}', which is at epoch 1" in message
    assert "the topic was recreated, or the writer removed, since it began" in message
    assert "set createTopic=always to continue there" in message
    assert lab.ids() == []


def test_a_query_whose_sink_is_deleted_between_stage_and_commit_is_told_so(lab):
    lab.faults.arm(Moment.COMMITTING, Deed.HOLD)
    lab.rows_file("a", 1)
    query = lab.faulty_sink(lab.file_stream()).start()
    wait_until(lambda: lab.faults.happened(Moment.COMMITTING), "all is staged", query)
    lab.delete()
    lab.faults.release(Moment.COMMITTING)
    message = failure(query)
    assert re.search(f"Topic '{lab.topic}', incarnation [0-9a-f]+, was deleted", message)
    assert lab.topic not in [topic.name for topic in lab.client.list_topics()]


def test_a_running_query_is_told_that_its_source_was_created_again(lab):
    lab.create()
    lab.append(1, 2)
    seen: list[int] = []
    stream = lab.read_stream(startingOffsets="earliest")
    query = lab.collect(stream, seen, processingTime="0 seconds")
    wait_until(lambda: seen == [1, 2], "the rows before", query)
    old = lab.client.describe_topic(lab.topic).incarnation
    lab.client.delete_topic(lab.topic)
    lab.create()
    lab.append(10)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(int(PATIENCE_S))
    message = str(raised.value)
    assert f"Topic '{lab.topic}', incarnation {old}, was deleted" in message
    assert "new checkpointLocation" in message
    assert "failOnDataLoss=false" in message
    assert seen == [1, 2]
