"""Yesterday's checkpoint under today's options: a test for each case, named by its outcome.

Yesterday's batch is planned, with the records 1, 2 and 3 of topic `a`, and fails in its tasks.
"""

from __future__ import annotations

import json
import re

import pytest
from pyspark.sql import DataFrame

from tests.spark.conftest import Lab, failure, finish


class Job:
    """A stream from topics of the lab into the topic `out`, which begins with `id string`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.a, self.b, self.out = (f"{lab.topic}-{name}" for name in ("a", "b", "out"))

    def create(self, topic: str, schema: str, *rows: dict) -> None:
        self.lab.client.create_topic(topic, schema)
        if rows:
            self.lab.client.append(topic, list(rows))

    def stream(self, topic: str, **options: object) -> DataFrame:
        given = {"subscribe": topic, "startingOffsets": "earliest"}
        return self.lab.read_stream(**given | options)

    def plan(self, **options: object) -> None:
        """Batch 0 is planned, and nothing of it is written."""
        rows = self.stream(self.a, **options)
        broken = rows.selectExpr("CAST(raise_error('not today') AS string) AS id")
        assert "not today" in failure(self.sink(broken))
        assert self.written() == []

    def sink(self, rows: DataFrame, **options: object):
        return self.lab.sink(rows, **{"topic": self.out} | options).start()

    def finish(self, rows: DataFrame, column: str = "id", **options: object) -> None:
        finish(self.sink(rows.selectExpr(f"CAST({column} AS string) AS id"), **options))

    def offsets(self) -> str:
        return (self.lab.checkpoint / "offsets" / "0").read_text()

    def set_offsets(self, text: str) -> None:
        """Replace the plan of batch 0 and remove its checksum."""
        (self.lab.checkpoint / "offsets" / "0").write_text(text)
        (self.lab.checkpoint / "offsets" / ".0.crc").unlink()

    def written(self, topic: str = "") -> list[tuple[int, str]]:
        """The epoch and the value of each record, in order."""
        return [
            (row["_epoch"], row["id"])
            for batch in self.lab.client.read(topic or self.out, columns=["_epoch", "id"])
            for row in batch.to_pylist()
        ]


@pytest.fixture
def job(lab: Lab) -> Job:
    made = Job(lab)
    made.create(made.out, "id string")
    made.create(made.a, "id bigint", {"id": 1}, {"id": 2}, {"id": 3})
    return made


ONCE = [(0, "1"), (0, "2"), (0, "3")]


def test_rejected_by_name_a_planned_topic_with_other_columns_that_is_no_longer_subscribed(job):
    job.create(job.b, "n bigint", {"n": 9})
    job.plan()
    message = failure(job.sink(job.stream(job.b).selectExpr("CAST(n AS string) AS id")))
    assert f"does not fit topic '{job.a}'" in message
    assert "id: in the topic, missing in the query" in message
    assert "n: in the query, missing in the topic" in message
    assert "Subscribe to the topic again until that batch is done" in message
    assert job.written() == []
    job.finish(job.stream(job.a))
    job.finish(job.stream(job.b), "n")
    assert job.written() == [*ONCE, (1, "9")]


def test_replayed_once_a_topic_that_is_no_longer_subscribed_and_lacks_a_column(job):
    job.create(job.b, "id bigint, n bigint", {"id": 9, "n": 7})
    job.plan()
    job.finish(job.stream(job.b), "coalesce(n, -id)")
    assert job.written() == [(0, "-1"), (0, "-2"), (0, "-3"), (1, "7")]


def test_replayed_once_a_topic_that_is_no_longer_subscribed_and_has_more_columns(job):
    job.create(job.b, "id bigint", {"id": 9})
    job.lab.client.alter_schema(job.a, add="s string")
    job.plan()
    job.finish(job.stream(job.b))
    assert job.written() == [*ONCE, (1, "9")]


def test_rejected_by_name_a_planned_topic_that_was_deleted_and_skipped_if_loss_is_no_failure(job):
    job.create(job.b, "id bigint", {"id": 9})
    job.plan()
    job.lab.client.delete_topic(job.a)
    message = failure(job.sink(job.stream(job.b).selectExpr("CAST(id AS string) AS id")))
    assert f"Topic '{job.a}'" in message
    assert "was deleted" in message
    job.finish(job.stream(job.b, failOnDataLoss="false"))
    assert job.written() == [(1, "9")]


def test_continued_with_a_pattern_in_place_of_a_name_and_with_a_topic_more(job):
    job.create(job.b, "id bigint", {"id": 9})
    job.plan()
    job.finish(job.stream(job.a, subscribe=None, subscribePattern=f"{job.a[:-1]}[ab]"))
    assert job.written() == [*ONCE, (1, "9")]
    job.lab.client.append(job.a, [{"id": 4}])
    job.finish(job.stream(f"{job.a},{job.b}"))
    assert job.written() == [*ONCE, (1, "9"), (2, "4")]


def test_replayed_once_as_planned_under_other_limits_which_hold_from_the_next_batch_on(job):
    job.plan(maxOffsetsPerTrigger=3)
    job.lab.client.append(job.a, [{"id": 4}, {"id": 5}])
    job.finish(job.stream(job.a, maxOffsetsPerTrigger=1))
    assert job.written() == [*ONCE, (1, "4"), (2, "5")]


def test_replayed_once_from_where_it_began_under_another_start(job):
    job.plan()
    job.lab.client.append(job.a, [{"id": 4}])
    job.finish(job.stream(job.a, startingOffsets="latest"))
    assert job.written() == [*ONCE, (1, "4")]


def test_replayed_once_with_the_columns_that_the_topic_has_today(job):
    job.plan()
    job.lab.client.alter_schema(job.a, rename={"id": "key"}, add="id string")
    job.finish(job.stream(job.a), "coalesce(id, -key)")
    assert job.written() == [(0, "-1"), (0, "-2"), (0, "-3")]


def test_rejected_by_name_a_column_of_yesterdays_schema_that_the_topic_does_not_have(job):
    job.plan(includeMetadata="true")
    job.lab.client.alter_schema(job.a, rename={"id": "key"})
    lab = job.lab
    rows = lab.spark.readStream.schema("id bigint").format("raftlog")
    rows = rows.option("raftlog.bootstrap.servers", lab.cluster.servers).option("subscribe", job.a)
    message = failure(job.sink(rows.load().selectExpr("CAST(id AS string) AS id")))
    assert "id: asked for, not in the topic" in message
    assert job.written() == []


def test_rejected_by_name_another_sink_topic_and_continued_there_if_it_may_always_be_new(job):
    job.finish(job.stream(job.a, maxOffsetsPerTrigger=2))
    other = f"{job.out}-2"
    job.create(other, "id string")
    job.lab.client.append(job.a, [{"id": 4}])
    rows = job.stream(job.a).selectExpr("CAST(id AS string) AS id")
    message = failure(job.sink(rows, topic=other))
    assert "it wrote another topic or another cluster before" in message
    assert "createTopic=always" in message
    finish(job.sink(rows, topic=other, createTopic="always"))
    assert job.written() == [(0, "1"), (0, "2"), (1, "3")]
    assert job.written(other) == [(2, "4")]


def test_continued_from_a_checkpoint_of_a_spark_with_fewer_settings(job):
    job.plan()
    version, settings, *positions = job.offsets().splitlines()
    fewer = {name: value for name, value in json.loads(settings).items() if name != "conf"}
    job.set_offsets("\n".join([version, json.dumps(fewer), *positions]))
    job.finish(job.stream(job.a))
    assert job.written() == ONCE


def test_rejected_by_name_a_position_of_a_later_version(job):
    job.plan()
    job.set_offsets(re.sub('"v": ?1}', '"v": 2}', job.offsets()))
    message = failure(job.sink(job.stream(job.a).selectExpr("CAST(id AS string) AS id")))
    assert "is not of version 1" in message
    assert "Use the version of raftlog that wrote the checkpoint" in message
