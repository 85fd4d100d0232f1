"""Rows that name their topics: each topic has each batch exactly once, whatever dies and when.

Where Spark itself does not matter, the sink is driven without it: this process stages and commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from raftlog.errors import (
    CheckpointReset,
    CheckpointRewound,
    EpochContentMismatch,
    EpochIncomplete,
    InvalidOption,
    QueryNameKnown,
    RunFenced,
    TopicNotFound,
    UnknownWriter,
)
from raftlog.spark import written_topics
from raftlog.spark.doctor import examine
from raftlog.spark.findings import Kind
from raftlog.spark.staging import Staging
from raftlog.spark.writer import StagedMessage, batch_writer, stream_writer
from tests.spark.conftest import Lab, failure, finish
from tests.spark.faults import Deed, Moment

SCHEMA = StructType([StructField("topic", StringType()), StructField("id", LongType())])

Rows = Mapping[str, Sequence[int]]


def ids(client: raftlog.LogClient, topic: str) -> list[int]:
    """What a topic holds, in offset order."""
    return [
        number
        for batch in client.read(topic, columns=["id"])
        for number in batch.column("id").to_pylist()
    ]


class Query:
    """A streaming query's sink: one checkpoint, and one run after another."""

    def __init__(
        self, cluster: ProcessCluster, *, query_id: str = "", prefix: str = "", **given: object
    ) -> None:
        self.query_id = query_id or uuid.uuid4().hex
        self.prefix = prefix
        self._options = {"raftlog.bootstrap.servers": cluster.servers} | {
            name: str(value) for name, value in given.items()
        }
        self.restart()

    def restart(self, **given: object) -> None:
        self._options |= {name: str(value) for name, value in given.items()}
        self.run = uuid.uuid4().hex

    def key(self, epoch: int) -> raftlog.EpochKey:
        return raftlog.EpochKey(
            writer=self._options.get("txnAppId", self.query_id),
            query_id=self.query_id,
            run=self.run,
            epoch=epoch,
            streaming=True,
        )

    def stage(self, epoch: int, rows: Rows) -> StagedMessage:
        pairs = [(self.prefix + topic, number) for topic, ids in rows.items() for number in ids]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([topic for topic, _ in pairs], pa.string()),
                pa.array([number for _, number in pairs], pa.int64()),
            ],
            names=["topic", "id"],
        )
        return self._sink(planning=True).stage(self.key(epoch), iter([batch]))

    def commit(self, epoch: int, *messages: StagedMessage, plan: str = "") -> None:
        self._sink(planning=False).publish_stream(self.key(epoch), messages, plan)

    def batch(self, epoch: int, rows: Rows, plan: str | None = None) -> None:
        """One micro-batch of one task. `plan` is its plan, by default one of its number."""
        self.commit(epoch, self.stage(epoch, rows), plan=f"plan {epoch}" if plan is None else plan)

    def _sink(self, *, planning: bool):
        return stream_writer(self._options, SCHEMA, False, planning=planning)._sink


@pytest.fixture
def prefix() -> str:
    """Of the names of a test's topics."""
    return f"{uuid.uuid4().hex}-"


# ---------------------------------------------------------------- with Spark


def by_parity(lab: Lab):
    """The file stream; even ids go to topic `<topic>-0`, odd ones to `<topic>-1`."""
    return lab.file_stream().selectExpr("id", f"'{lab.topic}-' || (id % 2) AS topic", "s")


def test_a_query_killed_between_the_commits_of_two_topics_completes_the_batch(lab):
    """The first time nothing is dropped, as after a driver's death; then Spark aborts the batch."""
    lab.faults.arm(Moment.BETWEEN, Deed.KILL_WORKER)
    lab.faults.arm(Moment.ABORTING, Deed.KILL_WORKER)
    lab.rows_file("a", 1, 2, 3, 4)
    even, odd = f"{lab.topic}-0", f"{lab.topic}-1"
    failure(lab.faulty_sink(by_parity(lab), topic=None).start())
    assert lab.faults.happened(Moment.BETWEEN)
    assert lab.faults.happened(Moment.ABORTING)
    assert (ids(lab.client, even), ids(lab.client, odd)) == ([2, 4], [])
    finish(lab.faulty_sink(by_parity(lab), topic=None).start())
    assert (ids(lab.client, even), ids(lab.client, odd)) == ([2, 4], [1, 3])

    lab.faults.arm(Moment.BETWEEN, Deed.KILL_WORKER)
    lab.rows_file("b", 5, 6)
    failure(lab.faulty_sink(by_parity(lab), topic=None).start())
    assert (ids(lab.client, even), ids(lab.client, odd)) == ([2, 4, 6], [1, 3])
    lab.rows_file("c", 8)
    finish(lab.faulty_sink(by_parity(lab), topic=None).start())
    assert (ids(lab.client, even), ids(lab.client, odd)) == ([2, 4, 6, 8], [1, 3, 5])
    lab.forget_batch(2)
    finish(lab.faulty_sink(by_parity(lab), topic=None).start())
    assert (ids(lab.client, even), ids(lab.client, odd)) == ([2, 4, 6, 8], [1, 3, 5])
    assert [field.name for field in lab.client.describe_topic(odd).schema.fields] == ["id", "s"]
    (of_odd,) = lab.client.writers.scan(odd)
    assert of_odd.last_epoch == 1, "batch 2 has no rows for it"


def test_the_doctor_misses_each_topic_that_is_gone_or_was_created_again(lab):
    even, odd = f"{lab.topic}-0", f"{lab.topic}-1"

    def asked() -> list[tuple[Kind, str]]:
        found = examine(str(lab.checkpoint), lab.client)
        return [(each.kind, each.about.partition(",")[0]) for each in found.findings]

    for file, *rows in (("a", 1, 2), ("b", 3, 4)):
        lab.rows_file(file, *rows)
        finish(lab.sink(by_parity(lab), topic=None).start())
    both = [(Kind.SAFE, f"topic {even!r}"), (Kind.SAFE, f"topic {odd!r}")]
    assert [each for each in asked() if each[0] is not Kind.NOT_JUDGED] == both
    lab.client.delete_topic(odd)
    assert asked()[0] == (Kind.TOPIC_GONE, f"topic {odd!r}")
    lab.client.create_topic(odd, "id bigint, s string")
    assert asked()[0] == (Kind.UNKNOWN_WRITER, f"topic {odd!r}")
    lab.client.delete_topic(odd)
    lab.client.delete_topic(even)
    assert asked()[:2] == [(Kind.TOPIC_GONE, f"topic {name!r}") for name in (even, odd)]
    lab.rows_file("c", 5)
    assert "first batch with rows for it" in failure(lab.sink(by_parity(lab), topic=None).start())


def test_a_batch_write_goes_to_the_topics_of_its_rows_and_a_rerun_is_a_no_op(lab):
    data = lab.spark.createDataFrame(
        [(1, f"{lab.topic}-a"), (2, f"{lab.topic}-b"), (3, f"{lab.topic}-a")],
        "id bigint, topic string",
    )
    for _ in range(2):
        lab.write(data.repartition(2), topic=None, txnAppId="job", txnVersion=4)
        assert sorted(ids(lab.client, f"{lab.topic}-a")) == [1, 3]
        assert ids(lab.client, f"{lab.topic}-b") == [2]
    lab.write(data)  # the option wins
    found = lab.read().orderBy("id").collect()
    assert [row.topic for row in found] == [f"{lab.topic}-{name}" for name in "aba"]


def test_rows_without_a_good_name_are_refused_before_a_topic_has_any(lab):
    good = f"{lab.topic}-good"
    lab.client.create_topic(good, "id int")
    for name, said in (("'no/topic'", "'no/topic' is not a valid topic name"), ("null", "is null")):
        data = lab.spark.sql(f"SELECT 1 AS id, '{good}' AS topic UNION ALL SELECT 2, {name}")
        with pytest.raises(PySparkException, match=said):
            lab.write(data.coalesce(1), topic=None)
        assert ids(lab.client, good) == []


# ---------------------------------------------------------------- the sink by itself


def test_rows_that_replace_a_topics_need_the_name_of_one(cluster):
    given = {"raftlog.bootstrap.servers": cluster.servers}
    for writer in (
        lambda: stream_writer(given, SCHEMA, True, planning=True),
        lambda: batch_writer(given, SCHEMA, True),
    ):
        with pytest.raises(InvalidOption, match="replaces what a topic holds"):
            writer()


def test_a_topic_may_come_in_any_batch_and_one_without_rows_is_not_touched(cluster, client, prefix):
    query = Query(cluster, prefix=prefix)
    query.batch(0, {"a": [1]})
    query.batch(1, {})
    query.batch(2, {"b": [2]})
    query.restart()
    query.batch(2, {"b": [2]})
    query.batch(3, {"a": [3], "b": [4], "c": [5]})
    assert [ids(client, prefix + name) for name in "abc"] == [[1, 3], [2, 4], [5]]
    assert client.read_high_water_mark(prefix + "a").high_water_mark == 2
    with pytest.raises(TopicNotFound):
        Query(cluster, prefix=prefix, createTopic="false").batch(0, {"new": [1]})


def test_the_topics_of_all_tasks_of_a_batch_are_counted(cluster, client, prefix):
    query = Query(cluster, prefix=prefix, maxTopicsPerBatch=2)
    with pytest.raises(InvalidOption, match="'maxTopicsPerBatch' is 2"):
        query.stage(0, {"a": [1], "b": [2], "c": [3]})
    query.restart()
    tasks = [query.stage(0, {"a": [1], "b": [2]}), query.stage(0, {"c": [3]})]
    with pytest.raises(InvalidOption, match="maxTopicsPerBatch"):
        query.commit(0, *tasks)
    assert ids(client, prefix + "a") == []


def test_a_topic_that_was_deleted_under_the_query_is_not_taken_for_a_new_one(
    cluster, client, prefix, monkeypatch
):
    query = Query(cluster, prefix=prefix)
    query.batch(0, {"a": [1]})
    query.batch(1, {"b": [2]})
    client.delete_topic(prefix + "b")
    for _ in range(2):  # the second time as another process, which has to ask
        with pytest.raises(InvalidOption, match="first batch with rows for it: this is batch 2"):
            query.stage(2, {"b": [3]})
        monkeypatch.setattr(written_topics, "_known", {})
    client.create_topic(prefix + "b", "id bigint")
    with pytest.raises(UnknownWriter):
        query.stage(2, {"b": [3]})
    query.restart(createTopic="always")
    query.batch(2, {"b": [3]})
    assert ids(client, prefix + "b") == [3]


@pytest.mark.parametrize("replayed", [{"a": [1]}, {}], ids=["other rows", "no rows"])
@pytest.mark.parametrize("exists", [True, False], ids=["created again", "gone"])
def test_a_topic_that_a_batch_failed_to_write_may_come_in_a_later_batch(
    cluster, client, prefix, replayed, exists
):
    """The batch fails between its note of the topic and its commit there. Its replay has no row for
    the topic."""
    query = Query(cluster, prefix=prefix)
    query.batch(0, {"a": [0]})
    staged = query.stage(1, {"a": [1], "b": [1]})
    client.abort_epoch(client.describe_topic(prefix + "a"), query.key(1))
    with pytest.raises(EpochIncomplete):
        query.commit(1, staged, plan="plan 1")
    client.delete_topic(prefix + "b")
    if exists:
        client.create_topic(prefix + "b", "id bigint")
    query.restart()
    query.batch(1, replayed)
    query.batch(2, {"b": [2]})
    assert ids(client, prefix + "b") == [2]
    query.restart()
    query.batch(2, {"b": [2]})
    client.delete_topic(prefix + "b")
    with pytest.raises(InvalidOption, match="first batch with rows for it: this is batch 3"):
        query.stage(3, {"b": [3]})


def test_an_older_checkpoint_is_refused_also_by_topics_that_its_batch_has_no_rows_for(
    cluster, client, prefix
):
    query = Query(cluster, prefix=prefix)
    query.batch(0, {"a": [0], "b": [0]})
    for epoch in (1, 2):
        query.batch(epoch, {"a": [epoch]})
    query.restart()
    with pytest.raises(CheckpointRewound, match="last batch in the log is 2"):
        query.batch(1, {"b": [1]}, plan="another")
    with pytest.raises(EpochContentMismatch):
        query.batch(2, {"b": [2]}, plan="another")
    with pytest.raises(EpochContentMismatch):
        query.batch(2, {"b": [2]}, plan="")
    assert ids(client, prefix + "b") == [0]
    query.restart(onReplayMismatch="keep")
    query.batch(2, {"a": [7], "b": [2]}, plan="another")
    assert (ids(client, prefix + "a"), ids(client, prefix + "b")) == ([0, 1, 2], [0, 2])


def test_a_lost_checkpoint_is_noticed_by_the_name_and_by_the_txn_app_id(cluster, client, prefix):
    named = Query(cluster, prefix=prefix, queryname=f"{prefix}copy")
    named.batch(0, {"a": [1]})
    named.batch(1, {"b": [2]})
    again = Query(cluster, prefix=prefix, queryname=f"{prefix}copy")
    again.batch(0, {"c": [3]})
    with pytest.raises(QueryNameKnown, match=f"{prefix}b"):
        again.batch(1, {"c": [4], "b": [2]})
    assert (ids(client, prefix + "b"), ids(client, prefix + "c")) == ([2], [3])

    app = {"prefix": prefix, "txnAppId": f"{prefix}job"}
    first = Query(cluster, **app)
    first.batch(0, {"d": [1]})
    for epoch in (1, 2):
        first.batch(epoch, {"e": [epoch]})
    with pytest.raises(CheckpointReset):
        Query(cluster, **app).batch(1, {"d": [1]})
    assert ids(client, prefix + "d") == [1]


def test_of_two_drivers_on_one_checkpoint_one_is_refused_and_each_topic_has_the_batch_once(
    cluster, client, prefix
):
    first, second = Query(cluster, prefix=prefix), Query(cluster, prefix=prefix)
    second.query_id = first.query_id
    rows = {"a": [1], "b": [2]}
    staged = first.stage(0, rows)
    second.batch(0, rows)
    with pytest.raises(RunFenced):
        first.commit(0, staged, plan="plan 0")
    assert (ids(client, prefix + "a"), ids(client, prefix + "b")) == ([1], [2])


def test_columns_are_merged_topic_by_topic(cluster, client, prefix):
    client.create_topic(prefix + "old", "id int")
    query = Query(cluster, prefix=prefix, mergeSchema="true")
    query.batch(0, {"old": [1], "new": [2]})
    for name in ("old", "new"):
        (column,) = client.describe_topic(prefix + name).schema.fields
        assert column.type == '"long"'
    assert (ids(client, prefix + "old"), ids(client, prefix + "new")) == ([1], [2])


def test_a_task_keeps_no_more_of_many_topics_than_of_one(cluster, client, prefix, monkeypatch):
    kept_max = pending_max = 0
    make_room = Staging.make_room

    def measured(staging: Staging) -> None:
        nonlocal kept_max, pending_max
        make_room(staging)
        attempts = [opened.attempt for opened in staging._opened.values()]
        kept_max = max(kept_max, sum(attempt.kept_bytes for attempt in attempts))
        pending_max = max(pending_max, sum(attempt.pending_bytes for attempt in attempts))

    monkeypatch.setattr(Staging, "make_room", measured)
    topics, rows, batches = 20, 400, 40

    def given() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            numbers = range(number * rows, (number + 1) * rows)
            names = [f"{prefix}{each % topics}" for each in numbers]
            yield pa.RecordBatch.from_arrays(
                [pa.array(names, pa.string()), pa.array(numbers, pa.int64())],
                names=["topic", "id"],
            )

    options = {"batch.bytes": "1024", "compression": "none", "maxInFlight": "64"}
    query = Query(cluster, **options)
    query.commit(0, query._sink(planning=True).stage(query.key(0), given()))
    bound = 16 * 1024
    assert 0.5 * bound < kept_max <= bound, "rows that do not fill an entry"
    assert 0 < pending_max <= bound, "entries that are not durable yet"
    assert [len(ids(client, f"{prefix}{each}")) for each in range(topics)] == [800] * topics
    assert ids(client, f"{prefix}3") == list(range(3, batches * rows, topics))
