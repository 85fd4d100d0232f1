"""What a query meets whose topic is trimmed."""

from __future__ import annotations

from pyspark.sql.types import LongType, StructField, StructType

from raftlog.errors import OffsetTrimmed
from raftlog.spark.declarations import Endpoint
from raftlog.spark.offsets import TopicRange
from raftlog.spark.options import source_options
from raftlog.spark.reader import RangeReader
from tests.cluster.waiting import wait_trimmed
from tests.spark.conftest import failure, finish, wait_until


def trim(lab, before: int) -> None:
    """Trim the topic at every replica."""
    assert lab.client.trim(lab.topic, before=before) >= before
    wait_trimmed(lab.client, lab.topic, before)


def test_records_trimmed_before_a_query_read_them_fail_it_or_are_skipped(lab):
    lab.create()
    lab.append(0, 1, 2)
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(startingOffsets="earliest"), seen))
    lab.append(3, 4, 5)
    trim(lab, 4)
    message = failure(lab.collect(lab.read_stream(), seen))
    assert "Offset 3 of topic" in message
    assert "is trimmed: the log holds [4, 6)" in message
    assert "failOnDataLoss=false" in message
    finish(lab.collect(lab.read_stream(failOnDataLoss="false"), seen))
    assert seen == [0, 1, 2, 4, 5]
    lab.append(6)
    finish(lab.collect(lab.read_stream(), seen))
    assert seen[5:] == [6], "what was skipped does not fail the query again"


def test_records_trimmed_while_a_batch_runs_are_skipped_by_its_tasks(lab):
    lab.create()
    lab.append(0, 1, 2, 3)
    seen: list[int] = []

    def trim_then_read(batch, number):
        if not number:
            trim(lab, 2)
        seen.extend(row.id for row in batch.collect())

    stream = lab.read_stream(startingOffsets="earliest", failOnDataLoss="false")
    finish(lab.each(stream, trim_then_read))
    assert seen == [2, 3]


def test_earliest_is_the_log_start_and_an_emptied_topic_is_read_and_written_on(lab):
    lab.create()
    lab.append(0, 1, 2)
    trim(lab, 2)
    assert sorted(row.id for row in lab.read(startingOffsets="earliest").collect()) == [2]
    trim(lab, 3)
    assert lab.read().collect() == []
    seen: list[int] = []
    query = lab.collect(
        lab.read_stream(startingOffsets="earliest"), seen, processingTime="0 seconds"
    )
    lab.append(3)
    wait_until(lambda: seen == [3], "the first row after the trim", query)
    query.stop()


def test_a_range_trimmed_while_it_is_planned_is_left_to_the_tasks(lab):
    """No JVM takes part: the plan is made between the two questions that a driver asks."""
    lab.create()
    lab.append(0, 1, 2, 3)
    topic = lab.client.describe_topic(lab.topic)
    wanted = TopicRange(topic=topic.name, incarnation=topic.incarnation, start=0, end=4)
    trim(lab, 3)
    schema = StructType([StructField("id", LongType())])
    planned = {}
    for fails in ("true", "false"):
        options = {
            "subscribe": lab.topic, "raftlog.bootstrap.servers": lab.cluster.servers,
            "failOnDataLoss": fails, "minPartitions": "2",
        }  # fmt: skip
        reader = RangeReader(source_options(options, Endpoint.STREAM_SOURCE), schema, ())
        try:
            planned[fails] = reader.plan([wanted], None)
        except OffsetTrimmed:
            continue
        rows = [row for part in planned[fails] for batch in reader.read(part) for row in
                batch.to_pylist()]  # fmt: skip
        assert rows == [{"id": 3}]
    assert list(planned) == ["false"]
