"""A topic as it stood after an epoch of a writer.

Here this process plans and reads.
"""

from __future__ import annotations

import json
import uuid

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

import raftlog
from raftlog.errors import InvalidOption
from raftlog.spark import epoch_ends
from raftlog.spark.datasource import RaftlogDataSource


class Past:
    """A topic, what two writers write to it, and what is read of its past."""

    def __init__(self, client: raftlog.LogClient, servers: str) -> None:
        self.client = client
        self.topic = client.create_topic(f"past-{uuid.uuid4().hex}", "id bigint")
        self.given = {"raftlog.bootstrap.servers": servers, "subscribe": self.topic.name}

    def write(self, epoch: int, *ids: int, writer: str = "me", overwrite: bool = False) -> None:
        key = raftlog.EpochKey(
            writer=writer, query_id=writer, run="run", epoch=epoch, streaming=False
        )
        attempt = self.client.attempt(self.topic, key)
        if ids:
            attempt.write(raftlog_rows(ids))
        staged = attempt.finish()
        named = [staged] if staged else []
        self.client.commit_epoch(self.topic, key, named, overwrite=overwrite)

    def read(self, epoch: int, writer: str = "me", after: int | None = None) -> list[int]:
        given = self.given | {"asOfEpoch": str(epoch), "epochWriter": writer}
        if after is not None:
            given |= {"startingAfterEpoch": str(after)}
        schema = StructType([StructField("id", LongType())])
        reader = RaftlogDataSource(given).reader(schema)
        return [
            number
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for number in batch.column("id").to_pylist()
        ]

    def refusal(self, epoch: int, writer: str = "me") -> str:
        with pytest.raises(InvalidOption) as raised:
            self.read(epoch, writer)
        assert raised.value.option == "asOfEpoch"
        return str(raised.value)


def raftlog_rows(ids):
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def past(client, cluster) -> Past:
    return Past(client, cluster.servers)


def test_each_epoch_gives_what_was_there_then_with_what_others_wrote(past, monkeypatch):
    monkeypatch.setattr(epoch_ends, "WINDOW_RECORDS_MIN", 1)
    past.write(0, 1, 2)
    past.write(5, 10, writer="you")
    past.client.append(past.topic, [{"id": 20}])
    past.write(1, 3)
    past.write(3, 4, 5)
    past.write(6, 11, writer="you")
    past.write(4)
    assert past.read(0) == [1, 2]
    assert past.read(1) == [1, 2, 10, 20, 3]
    assert past.read(2) == [1, 2, 10, 20, 3], "an empty epoch, and nobody wrote around it"
    assert past.read(3) == [1, 2, 10, 20, 3, 4, 5]
    assert past.read(4) == [1, 2, 10, 20, 3, 4, 5, 11], "the last one, though it is empty"
    assert past.read(5, "you") == [1, 2, 10]
    assert past.read(4, after=1) == [4, 5, 11], "what came since"
    assert past.read(3, after=3) == []


def test_a_stream_starts_after_an_epoch(past):
    past.write(0, 1, 2)
    past.write(1, 3)
    past.client.append(past.topic, [{"id": 20}])
    past.write(2, 4)
    given = past.given | {"startingAfterEpoch": "1", "epochWriter": "me"}
    reader = RaftlogDataSource(given).streamReader(StructType([StructField("id", LongType())]))
    start = json.loads(json.dumps(reader.initialOffset()))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (end["topics"][past.topic.name]["from"], end["topics"][past.topic.name]["end"]) == (3, 5)


def test_after_an_empty_epoch_at_its_beginning_a_topic_was_empty(past):
    past.write(0)
    past.write(1, 5)
    assert (past.read(0), past.read(1)) == ([], [5])


def test_an_epoch_whose_end_nobody_knows_is_refused_with_the_reason(past):
    past.write(0, 1)
    past.client.append(past.topic, [{"id": 20}])
    past.write(2, 3)
    assert "which topic" in past.refusal(0, "nobody")
    assert "which is not committed in topic" in past.refusal(3)
    assert "the last one is 2" in past.refusal(3)
    assert "the topic's end was somewhere in [1, 2]" in past.refusal(1)


def test_an_epoch_that_was_trimmed_or_replaced_is_gone(past):
    for epoch in range(4):
        past.write(epoch, epoch, 10 + epoch)
    past.client.trim(past.topic, before=3)
    assert "the topic begins at offset 3" in past.refusal(0)
    assert past.read(1) == [11], "what is left of it"
    past.write(4, 7, overwrite=True)
    for gone in range(4):
        assert "the topic begins at offset 8" in past.refusal(gone)
    assert past.read(4) == [7]
    past.client.trim(past.topic, before=9)
    assert "the topic begins at offset 9" in past.refusal(4)
