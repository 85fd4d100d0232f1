"""The streaming source with a real Spark: nothing twice, nothing lost, also over a restart."""

from __future__ import annotations

import json
import logging
from importlib.util import find_spec

import pytest
from pyspark.errors import AnalysisException

import raftlog.spark
from raftlog.chaos.cluster import PATIENCE_S
from tests.spark.conftest import failure, finish, wait_until


def test_a_stream_starts_at_latest_unless_told_otherwise_and_continues_after_a_restart(lab):
    lab.create()
    lab.append(1, 2)
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(), seen))
    assert seen == []
    lab.append(3, 4)
    finish(lab.collect(lab.read_stream(), seen))
    lab.append(5)
    finish(lab.collect(lab.read_stream(startingOffsets="earliest"), seen))
    assert seen == [3, 4, 5]


def test_a_crash_in_batch_0_keeps_where_latest_began(lab):
    """The rows written between the crash and the restart are new to the query: it reads them."""
    lab.create()
    lab.append(1, 2)

    def crash(batch, number):
        raise RuntimeError("crashed in batch 0")

    assert "crashed in batch 0" in failure(lab.each(lab.read_stream(), crash))
    assert not (lab.checkpoint / "commits" / "0").exists()
    lab.append(3, 4)
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(), seen))
    assert seen == [3, 4]
    logged = (lab.checkpoint / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(logged)["topics"][lab.topic]["from"] == 2


def test_a_crash_in_batch_0_with_rows_replays_exactly_that_range(lab):
    lab.create()
    lab.append(1, 2)

    def crash(batch, number):
        raise RuntimeError("crashed")

    earliest = lab.read_stream(startingOffsets="earliest")
    failure(lab.each(earliest, crash))
    lab.append(3)
    batches: list[list[int]] = []
    query = lab.each(earliest, lambda batch, _: batches.append([row.id for row in batch.collect()]))
    finish(query)
    assert batches == [[1, 2], [3]]


def test_a_crash_in_batch_0_keeps_the_offset_that_a_time_meant(lab):
    """The restart reads the logged range, also if the option has another time by then."""
    lab.create()
    times_us = lab.append_over_time()
    last_ms = max(times_us.values()) // 1000
    later = [number for number, time_us in times_us.items() if time_us >= last_ms * 1000]

    def crash(batch, number):
        raise RuntimeError("crashed in batch 0")

    stream = lab.read_stream(startingTimestamp=last_ms)
    assert "crashed in batch 0" in failure(lab.each(stream, crash))
    lab.append(1000)
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(startingTimestamp=1), seen))
    assert seen == [*later, 1000]


def test_a_time_after_the_last_record_fails_or_starts_at_the_end(lab):
    lab.create()
    lab.append(1)
    by_topic = {"startingOffsetsByTimestamp": json.dumps({lab.topic: 1 << 50})}
    message = failure(lab.collect(lab.read_stream(**by_topic), []))
    assert "'startingOffsetsByTimestamp' is 1125899906842624, and no record of" in message
    seen: list[int] = []
    by_topic |= {"startingOffsetsByTimestampStrategy": "latest"}
    finish(lab.collect(lab.read_stream(**by_topic), seen))
    lab.append(2)
    finish(lab.collect(lab.read_stream(**by_topic), seen))
    assert seen == [2]


def test_available_now_reads_only_what_was_there_when_it_started(lab):
    lab.create()
    lab.append(1, 2, 3, 4, 5)
    batches: list[list[int]] = []

    def collect_and_append(batch, number):
        batches.append(sorted(row.id for row in batch.collect()))
        lab.append(100 + number)

    limited = lab.read_stream(startingOffsets="earliest", maxOffsetsPerTrigger=2)
    finish(lab.each(limited, collect_and_append))
    assert batches == [[1, 2], [3, 4], [5]]
    finish(lab.each(limited, collect_and_append))
    assert batches[3:] == [[100, 101], [102]]


def test_limits_hold_together_and_available_now_waits_for_no_minimum(lab):
    lab.create()
    for pair in ([1, 2], [3, 4], [5, 6], [7, 8]):
        lab.append(*pair)
    pair_bytes = sum(lab.client.read_sizes(lab.topic, 0, 2, mark=8, pieces_max=1).body_bytes)
    batches: list[list[int]] = []

    def collect(batch, number):
        batches.append(sorted(row.id for row in batch.collect()))

    def limited(**limits):
        return lab.read_stream(startingOffsets="earliest", minOffsetsPerTrigger=100, **limits)

    finish(lab.each(limited(maxBytesPerTrigger=pair_bytes, maxOffsetsPerTrigger=1000), collect))
    assert batches == [[1, 2], [3, 4], [5, 6], [7, 8]]
    batches.clear()
    lab.append(9, 10, 11)
    finish(lab.each(limited(maxBytesPerTrigger="1g"), collect))
    assert batches == [[9, 10, 11]]


def test_a_query_with_a_group_publishes_its_last_position_before_it_ends_and_while_it_is_idle(lab):
    lab.create()
    lab.append(1, 2, 3, 4, 5)
    group = f"group-{lab.topic}"
    limited = lab.read_stream(startingOffsets="earliest", maxOffsetsPerTrigger=2, groupId=group)
    finish(lab.collect(limited, []))
    (lag,) = lab.client.positions.lag(group)
    assert (lag.position.offset, lag.records_behind, lag.seconds_behind) == (5, 0, 0.0)
    query = lab.collect(limited, [], processingTime="0 seconds")
    lab.append(6)

    def is_published() -> bool:
        found = lab.client.positions.get(group, lab.topic)
        return found is not None and found.offset == 6

    wait_until(is_published, "the position of a query that has nothing more to read", query)
    query.stop()


def test_a_running_query_waits_for_its_minimum_and_once_takes_everything(lab):
    lab.create()
    lab.append(1)
    batches: list[list[int]] = []

    def collect(batch, number):
        batches.append(sorted(row.id for row in batch.collect()))

    waiting = lab.read_stream(
        startingOffsets="earliest", minOffsetsPerTrigger=3, maxTriggerDelay="1h"
    )
    query = lab.each(waiting, collect, processingTime="0 seconds")
    wait_until(lambda: batches == [[1]], "the first batch, which does not wait", query)
    for number in (2, 3, 4):
        lab.append(number)
    wait_until((lab.checkpoint / "commits" / "1").exists, "a batch of the minimum", query)
    query.stop()
    assert batches[1] == [2, 3, 4]
    lab.append(5, 6)
    finish(lab.each(lab.read_stream(maxBytesPerTrigger=1), collect, once=True))
    assert batches[2:] == [[5, 6]]


def test_a_running_query_follows_the_topic_and_reports_its_end(lab):
    lab.create()
    lab.append(1)
    seen: list[int] = []
    stream = lab.read_stream(startingOffsets="earliest")
    query = lab.collect(stream, seen, processingTime="0 seconds")
    wait_until(lambda: seen == [1], "the first row", query)
    lab.append(2)
    wait_until(lambda: seen == [1, 2], "the second row", query)
    wait_until(lambda: query.lastProgress is not None, "progress", query)
    [source] = query.lastProgress.sources
    latest = json.loads(source.latestOffset)["topics"][lab.topic]
    assert latest["end"] in (1, 2)
    query.stop()


def test_a_projection_with_metadata_columns_streams(lab):
    lab.create()
    lab.append(7, 8)
    rows: list[tuple] = []
    stream = lab.read_stream(schema="_offset bigint, id bigint", startingOffsets="earliest")
    finish(lab.each(stream, lambda batch, _: rows.extend(map(tuple, batch.collect()))))
    assert sorted(rows) == [(0, 7), (1, 8)]


def test_several_topics_share_a_limit_and_one_subscribed_later_starts_at_its_beginning(lab):
    lab.create()
    lab.append(1, 2, 3)
    other = f"{lab.topic}-b"
    lab.client.create_topic(other, "id bigint, s string")
    lab.client.append(other, [{"id": 10, "s": "x"}, {"id": 11, "s": "x"}])
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(startingOffsets="earliest"), seen))
    both = lab.read_stream(subscribe=f"{lab.topic},{other}", maxOffsetsPerTrigger=1)
    lab.append(4)
    finish(lab.collect(both, seen))
    assert seen[:3] == [1, 2, 3]
    assert sorted(seen[3:]) == [4, 10, 11]


def test_a_pattern_reads_a_topic_that_comes_while_the_query_runs_from_its_start(lab):
    first, second = f"{lab.topic}-1", f"{lab.topic}-2"
    lab.client.create_topic(first, "id bigint, s string")
    lab.client.append(first, [{"id": 1, "s": "a"}])
    stream = lab.read_stream(
        subscribe=None, subscribePattern=f"{lab.topic}-[0-9]", schema="s string, id bigint"
    )
    rows: list[tuple[str | None, int]] = []

    def collect(batch, number):
        rows.extend(sorted((row.s, row.id) for row in batch.collect()))

    query = lab.each(stream, collect, processingTime="0 seconds")
    wait_until(lambda: query.lastProgress is not None, "the batch that fixes latest", query)
    lab.client.create_topic(second, "id bigint")
    lab.client.append(second, [{"id": 10}])
    wait_until(lambda: rows == [(None, 10)], "the new topic's row", query)
    lab.client.create_topic(f"{lab.topic}-3", "id string")
    message = failure(query)
    assert "id: bigint in the query, string in the topic" in message
    lab.client.delete_topic(f"{lab.topic}-3")
    lab.client.append(first, [{"id": 2, "s": "b"}])
    finish(lab.each(stream, collect))
    assert rows == [(None, 10), ("b", 2)]


def test_a_topic_created_again_under_a_query_is_an_error_or_a_new_beginning(lab):
    lab.create()
    lab.append(1, 2)
    seen: list[int] = []
    finish(lab.collect(lab.read_stream(startingOffsets="earliest"), seen))
    lab.client.delete_topic(lab.topic)
    lab.create()
    lab.append(10)
    message = failure(lab.collect(lab.read_stream(), seen))
    assert "was deleted" in message
    assert "failOnDataLoss=false" in message
    finish(lab.collect(lab.read_stream(failOnDataLoss="false"), seen))
    assert seen == [1, 2, 10]


def test_a_query_continues_without_a_topic_that_is_deleted_if_data_loss_is_no_failure(lab):
    other = f"{lab.topic}-b"
    lab.create()
    lab.append(1)
    lab.client.create_topic(other, "id bigint, s string")
    lab.client.append(other, [{"id": 10, "s": "x"}])
    seen: list[int] = []
    stream = lab.read_stream(
        subscribe=f"{lab.topic},{other}", startingOffsets="earliest", failOnDataLoss="false"
    )
    query = lab.collect(stream, seen, processingTime="0 seconds")
    wait_until(lambda: seen == [1, 10], "both topics' rows", query)
    lab.client.delete_topic(other)
    lab.append(2)
    wait_until(lambda: seen == [1, 10, 2], "the row of the topic that is left", query)
    lab.client.create_topic(other, "id bigint, s string")
    lab.client.append(other, [{"id": 11, "s": "x"}])
    wait_until(lambda: seen == [1, 10, 2, 11], "the row of the topic that came back", query)


def test_wrong_options_fail_before_the_query_runs(lab):
    lab.create()
    with pytest.raises(AnalysisException, match="Did you mean 'maxOffsetsPerTrigger'"):
        lab.read_stream(maxOffsetPerTrigger=5)
    stream = lab.read_stream(endingOffsets="latest")
    message = failure(lab.collect(stream, []))
    assert "'endingOffsets' is not an option of readStream" in message
    with pytest.raises(AnalysisException, match="'startingOffsets' is 'Soon', which is neither"):
        lab.read_stream(startingOffsets="Soon")
    unseen = lab.read_stream(startingOffsets="Soon", schema="id bigint")
    message = failure(lab.collect(unseen, []))
    assert "'startingOffsets' is 'Soon', which is neither" in message
    assert "UnboundLocalError" not in message


def test_reading_continues_while_the_leader_is_down(lab):
    lab.create()
    lab.append(1, 2, 3)
    seen: list[int] = []
    query = lab.collect(
        lab.read_stream(startingOffsets="earliest"), seen, processingTime="0 seconds"
    )
    wait_until(lambda: seen == [1, 2, 3], "the rows before", query)
    with lab.leader_killed():
        lab.append(4)
        wait_until(lambda: seen == [1, 2, 3, 4], "the row written after the leader's death", query)
    query.stop()


def test_a_listener_tells_how_far_a_query_is_and_what_ended_it(lab, caplog):
    lab.create()
    lab.append(*range(10))
    queries = raftlog.spark.listen(lab.spark, lab.cluster.servers, log_interval_s=0.0)
    try:
        with caplog.at_level(logging.INFO, logger="raftlog.spark.queries"):
            seen: list[int] = []
            stream = lab.read_stream(startingOffsets="earliest", maxOffsetsPerTrigger=4)
            query = lab.collect(stream, seen)
            finish(query)
            wait_until(lambda: not is_running(queries, query), "the listener hears of the end")
            assert queries.flush(PATIENCE_S)
            told = queries.latest[str(query.id)]
            assert (told.batch, told.rows, told.running, told.error) == (2, 2, False, "")
            [topic] = told.topics
            assert (topic.topic, topic.position, topic.records_behind) == (lab.topic, 10, 0)
            assert (topic.bytes_behind, topic.seconds_behind) == (0, 0.0)

            def crash(batch, number):
                if number == 4:
                    raise RuntimeError("crashed")

            lab.append(*range(10, 16))
            failure(lab.each(stream, crash))
            # Not `is_running`: that is still the end of the run before.
            wait_until(
                lambda: queries.latest[str(query.id)].error, "the listener hears of that end"
            )
            assert queries.flush(PATIENCE_S)
            told = queries.latest[str(query.id)]
            assert (told.batch, told.topics[0].position) == (3, 14)
            assert "crashed" in told.error
    finally:
        lab.spark.streams.removeListener(queries)
        queries.close()
    assert any(f"{lab.topic} at 10, behind 0 records" in line for line in caplog.messages)


def is_running(queries, query) -> bool:
    told = queries.latest.get(str(query.id))
    return told is None or told.running


def test_a_spark_whose_sources_know_no_start_of_a_batch_is_told_so(lab):
    """PySpark 4.1 (`make matrix`)."""
    if find_spec("pyspark.sql.streaming.datasource") is not None:
        pytest.skip("this PySpark reads streams")
    lab.create()
    reader = lab.spark.readStream.format("raftlog").option("subscribe", lab.topic)
    stream = reader.option("raftlog.bootstrap.servers", lab.cluster.servers).load()
    for trigger in ({"availableNow": True}, {"processingTime": "0 seconds"}):
        message = failure(lab.collect(stream, [], **trigger))
        assert "cannot read a topic as a stream" in message
        assert "Use PySpark 4.2 or later" in message
