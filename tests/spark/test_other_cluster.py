"""A checkpoint of one cluster with the servers of another is refused with a true reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from raftlog.errors import ClusterMismatch
from raftlog.spark.declarations import Endpoint
from raftlog.spark.offsets import TopicRange
from raftlog.spark.options import source_options
from raftlog.spark.reader import Piece, RaftlogBatchReader, RaftlogPartition
from tests.spark.conftest import Lab, failure, finish


class OtherCluster:
    """A cluster of one node which has a topic of the same name with other rows."""

    def __init__(self, cluster: ProcessCluster, client: raftlog.LogClient) -> None:
        self.client = client
        self.options: dict[str, Any] = {"raftlog__bootstrap__servers": cluster.servers}
        self.servers = cluster.servers

    def fill(self, topic: str, *ids: int) -> None:
        self.client.create_topic(topic, "id bigint, s string")
        self.client.append(topic, [{"id": number, "s": "other"} for number in ids])


@pytest.fixture(scope="module")
def other(lone: ProcessCluster) -> Iterator[OtherCluster]:
    with lone.client() as client:
        yield OtherCluster(lone, client)


def assert_names_both(message: str, lab: Lab, other: OtherCluster) -> None:
    assert f"This checkpoint is of cluster {lab.client.cluster_id()}" in message
    assert f"servers {other.servers} are of cluster {other.client.cluster_id()}" in message
    assert "in raftlog.bootstrap.servers" in message
    assert "was deleted" not in message


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_source_neither_reads_another_cluster_nor_calls_its_topic_deleted(
    lab: Lab, other: OtherCluster, fail_on_data_loss: str
) -> None:
    lab.create()
    lab.append(1, 2)
    other.fill(lab.topic, *range(100, 400))
    seen: list[int] = []
    stated = {"startingOffsets": "earliest", "failOnDataLoss": fail_on_data_loss}
    finish(lab.collect(lab.read_stream(**stated), seen))
    message = failure(lab.collect(lab.read_stream(**stated, **other.options), seen))
    assert_names_both(message, lab, other)
    lab.append(3)
    finish(lab.collect(lab.read_stream(**stated), seen))
    assert seen == [1, 2, 3]


def test_a_batch_that_was_planned_is_not_skipped_as_lost_in_another_cluster(
    lab: Lab, other: OtherCluster
) -> None:
    lab.create()
    lab.append(1, 2)
    other.fill(lab.topic, 100)
    stated = {"startingOffsets": "earliest", "failOnDataLoss": "false"}

    def crash(batch, number):
        raise RuntimeError("crashed")

    failure(lab.each(lab.read_stream(**stated), crash))
    seen: list[int] = []
    message = failure(lab.collect(lab.read_stream(**stated, **other.options), seen))
    assert_names_both(message, lab, other)
    finish(lab.collect(lab.read_stream(**stated), seen))
    assert seen == [1, 2]


def test_a_task_that_reaches_another_cluster_skips_nothing_as_lost(
    client: raftlog.LogClient, other: OtherCluster
) -> None:
    """As happens with 127.0.0.1 in the servers: it is another machine for each executor."""
    other.fill("task", 100)
    given = {
        "subscribe": "task",
        "raftlog.bootstrap.servers": other.servers,
        "failondataloss": "false",
    }
    options = source_options(given, Endpoint.BATCH_SOURCE)
    reader = RaftlogBatchReader(options, StructType([StructField("id", LongType())]))
    wanted = TopicRange(topic="task", incarnation="of the driver's cluster", start=0, end=2)
    piece = Piece(wanted=wanted, mark=2, schema_version=1)
    partition = RaftlogPartition([piece], client.cluster_id())
    with pytest.raises(ClusterMismatch):
        list(reader.read(partition))


def test_a_sink_says_that_the_cluster_may_be_another_one(lab: Lab, other: OtherCluster) -> None:
    lab.create()
    other.fill(lab.topic, 100)
    lab.rows_file("one", 1)
    finish(lab.sink(lab.file_stream()).start())
    lab.rows_file("two", 2)
    message = failure(lab.sink(lab.file_stream(), **other.options).start())
    found = f"This topic of cluster {other.client.cluster_id()} (servers: {other.servers})"
    assert found in message
    assert "or it wrote another topic or another cluster before" in message
    assert "raftlog.bootstrap.servers" in message
    finish(lab.sink(lab.file_stream()).start())
    assert lab.ids() == [1, 2]
