"""What comes to the sink a second time, with a real Spark: replays, older checkpoints, reruns.

In each of these a batch has as many rows as the one that the log holds under its number, or a
replay has another number: a count decides neither.
"""

from __future__ import annotations

import json
import shutil
import threading

import pytest
from pyspark import InheritableThread
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.types import LongType, StructField, StructType

from raftlog import EpochKey
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.spark import plan
from raftlog.spark.staging import Staged
from raftlog.spark.writer import StagedMessage, batch_writer
from tests.cli.command import run
from tests.spark.conftest import Lab, failure, finish, wait_until
from tests.spark.faults import Deed, Moment

CLIENT, NODE = 0, 1
"""Both ends of the wire that loses a reply."""


def warnings(lab: Lab) -> list[str]:
    """What the sink warned of in this lab's streams."""
    notes = [line["what"] for line in lab.faults.events()]
    return [note for note in notes if note.startswith("warning")]


def files_then_older_copy(lab: Lab, batches: int) -> None:
    """One batch, then so many more, and the checkpoint as it was after the first; then other files
    of one row each instead of those that the later batches read."""
    lab.rows_file("first", 1, 2)
    finish(lab.sink(lab.file_stream()).start())
    older = lab.folder / "older"
    shutil.copytree(lab.checkpoint, older)
    for number in range(batches):
        lab.rows_file(f"later-{number}", 10 + number)
    finish(lab.sink(lab.file_stream()).start())
    shutil.rmtree(lab.checkpoint)
    older.rename(lab.checkpoint)
    for number in range(batches):
        (lab.files / f"later-{number}").unlink()
        lab.rows_file(f"other-{number}", 20 + number)


# ---------------------------------------------------------------- a stream's replay


def test_random_rows_are_a_replay_even_if_their_number_differs(lab):
    """Two draws from a thousand rows have one size once in eighty times."""
    lab.rows_file("a", *range(1000))
    shaky = lab.file_stream().selectExpr("IF(rand() < 0.5, id, NULL) AS id", "uuid() AS s")
    finish(lab.faulty_sink(shaky.where("id IS NOT NULL")).start())
    before = lab.ids()
    for _ in range(3):
        lab.forget_batch(0)
        finish(lab.faulty_sink(shaky.where("id IS NOT NULL")).start())
    assert lab.ids() == before
    lab.rows_file("b", 5000)
    finish(lab.faulty_sink(lab.file_stream()).start())
    assert lab.ids() == [*before, 5000]
    assert warnings(lab) == []


def test_a_batch_that_an_older_checkpoint_plans_again_is_no_replay(lab):
    files_then_older_copy(lab, 1)
    message = failure(lab.sink(lab.file_stream()).start())
    assert "Epoch 1 of writer" in message
    assert "committed with 1 records and is replayed with 1, under another plan" in message
    assert "(the replay's plan is in its folder offsets)" in message
    assert "onReplayMismatch=keep" in message
    assert lab.ids() == [1, 2, 10]
    lab.rows_file("next", 30)
    finish(lab.sink(lab.file_stream(), onReplayMismatch="keep").start())
    assert lab.ids() == [1, 2, 10, 30], "20 is discarded, as the option says"


def test_an_older_checkpoint_is_refused_even_if_its_batches_have_as_many_rows(lab):
    files_then_older_copy(lab, 3)
    for options in ({}, {"onReplayMismatch": "keep"}):
        message = failure(lab.sink(lab.file_stream(), **options).start())
        assert "writes batch 1 as writer" in message
        assert "whose last batch in the log is 3" in message
        assert "Restore the newer checkpoint" in message
        assert lab.ids() == [1, 2, 10, 11, 12]
    way_out = {"txnAppId": "from-there", "createTopic": "always"}
    finish(lab.sink(lab.file_stream(), **way_out).start())
    assert lab.ids() == [1, 2, 10, 11, 12, 20, 21, 22]
    lab.rows_file("next", 30)
    finish(lab.sink(lab.file_stream(), txnAppId="from-there").start())
    assert lab.ids() == [1, 2, 10, 11, 12, 20, 21, 22, 30]


def test_a_checkpoint_from_the_sessions_setting_is_found_by_the_querys_name(lab):
    def run(*, name: str | None) -> str:
        options = {
            "raftlog.bootstrap.servers": lab.cluster.servers,
            "topic": lab.topic,
            "faults": str(lab.faults.folder),
        }
        writer = lab.file_stream().writeStream.format("raftlog_faulty").options(**options)
        writer = writer.queryName(name) if name else writer
        query = writer.trigger(availableNow=True).start()
        finish(query)
        return str(query.id)

    setting = "spark.sql.streaming.checkpointLocation"
    lab.spark.conf.set(setting, str(lab.folder))
    try:
        lab.rows_file("a", 1, 2)
        run(name="checkpoint")
        lab.forget_batch(0)
        # Other rows under the same plan, as from a source that is not replayable.
        lab.rows_file("a", 1, 2, 3)
        run(name="checkpoint")
        assert lab.ids() == [1, 2]
        assert warnings(lab) == []
        run(name=None)
        assert sorted(lab.ids()) == [1, 1, 2, 2, 3], "a query that is never found again"
        [unread] = warnings(lab)
        assert "cannot be read here" in unread
        with pytest.raises(StreamingQueryException, match="has no name, like query"):
            run(name=None)
    finally:
        lab.spark.conf.unset(setting)


def test_a_lost_reply_is_asked_for_again_and_is_no_replay(lab, lone):
    with (
        PeerLinks({CLIENT: "127.0.0.1:1", NODE: lone.address(NODE)}) as links,
        lone.client() as client,
    ):
        lab.client = client
        lab.faults.arm(Moment.COMMITTING, Deed.HOLD)
        routes = dict(route.split("=") for route in links.routes.split(","))
        options = {
            "raftlog.bootstrap.servers": routes[f"{CLIENT}>{NODE}"],
            "txnAppId": "app",  # so that CommitEpoch is the first call over the cut wire
            "one_way_in": True,
        }
        lab.rows_file("a", 1, 2)
        query = lab.faulty_sink(lab.file_stream(), **options).start()
        wait_until(lambda: lab.faults.happened(Moment.COMMITTING), "all is staged", query)
        links.set(NODE, CLIENT, Wire(cut=True))
        lab.faults.release(Moment.COMMITTING)
        wait_until(lambda: lab.ids() == [1, 2], "CommitEpoch is applied", query)
        links.heal()
        finish(query)
        assert [line["what"] for line in lab.faults.events()] == ["staged", "committed"]
        assert lab.ids() == [1, 2]


def test_async_progress_tracking_is_refused_on_the_driver(lab):
    lab.create()
    lab.rows_file("a", 1)
    writer = lab.sink(lab.file_stream(), asyncProgressTrackingEnabled="true")
    with pytest.raises(PySparkException, match=r"(?i)async"):
        finish(writer.trigger(processingTime="0 seconds").start())


# ---------------------------------------------------------------- what the doctor says of it


def test_the_doctor_says_what_a_start_from_each_copy_of_a_checkpoint_means(
    lab, monkeypatch, capsys
):
    source = f"{lab.topic}-source"
    lab.client.create_topic(source, "id bigint, s string")

    def asked(folder, *words) -> tuple[int, dict[str, dict]]:
        """The exit code, and the findings by kind, of a query that is known to be stopped."""
        words = ("doctor", str(folder), "--servers", lab.cluster.servers, "-ojson", *words)
        ended = run(monkeypatch, capsys, *words)
        findings = json.loads(ended.out)["findings"]
        return ended.code, {each["kind"]: each for each in findings}

    def copied(batches: range) -> None:
        for number in batches:
            lab.client.append(source, [{"id": number, "s": "x"}])
            stream = lab.read_stream(subscribe=source, startingOffsets="earliest")
            finish(lab.sink(stream).start())

    copied(range(1))
    older = lab.folder / "older"
    shutil.copytree(lab.checkpoint, older)
    copied(range(1, 3))
    assert lab.ids() == [0, 1, 2]
    stopped = ("--stopped",)
    code, findings = asked(lab.checkpoint, *stopped)
    assert (code, set(findings)) == (0, {"safe"})
    code, findings = asked(lab.checkpoint)
    assert (code, set(findings)) == (7, {"another-run", "safe"}), "it wrote just now"
    code, findings = asked(older, *stopped)
    assert (code, set(findings)) == (7, {"older-copy", "safe"})
    assert "The topic has batches 1 to 2" in findings["older-copy"]["cause"]
    assert f"'{source}' from offset 1" in findings["older-copy"]["cause"]

    lab.forget_batch(2)
    code, findings = asked(lab.checkpoint, *stopped, "--topic", lab.topic)
    assert (code, set(findings)) == (0, {"replay-is-no-op", "safe"})
    assert "batch 2, which the topic has (records [2, 3))" in findings["replay-is-no-op"]["cause"]
    assert findings["replay-is-no-op"]["remedy"] is None, "the log knows the plan"
    half = lab.folder / "half"
    shutil.copytree(lab.checkpoint, half)
    (half / "offsets" / "2").write_bytes((half / "offsets" / "2").read_bytes()[:40])
    code, findings = asked(half, *stopped)
    assert (code, set(findings)) == (6, {"damaged"})
    assert "does not fit its checksums" in findings["damaged"]["cause"]
    assert "Do not remove it" in findings["damaged"]["remedy"]

    copied(range(3, 4))
    assert lab.ids() == [0, 1, 2, 3], "the repetition was a no-op"
    lab.client.append(source, [{"id": 4, "s": "x"}, {"id": 5, "s": "x"}])

    assert lab.client.trim(source, before=5) == 5
    code, findings = asked(lab.checkpoint, *stopped)
    assert (code, set(findings)) == (6, {"trimmed", "safe"})
    assert "the 1 records [4, 5) are lost" in findings["trimmed"]["remedy"]
    lab.client.delete_topic(source)
    assert set(asked(lab.checkpoint, *stopped)[1]) == {"topic-gone", "safe"}
    lab.client.create_topic(source, "id bigint, s string")
    lab.delete()
    assert set(asked(lab.checkpoint, *stopped)[1]) == {"topic-recreated", "topic-gone"}
    lab.create()
    code, findings = asked(lab.checkpoint)
    assert (code, set(findings)) == (6, {"topic-recreated", "unknown-writer"})
    assert lab.client.cluster_id() in findings["unknown-writer"]["cause"]


# ---------------------------------------------------------------- inside foreachBatch


def written(lab: Lab, **given: object):
    """A function for foreachBatch that writes the batch as a named version of its own number."""

    def write(batch, number):
        lab.write(batch, **({"txnAppId": "job", "txnVersion": number} | given))

    return write


def forget_commit_of_last_batch_and_replay(lab: Lab, do) -> None:
    commits = [int(path.name) for path in (lab.checkpoint / "commits").glob("[0-9]*")]
    lab.forget_batch(max(commits))
    finish(lab.each(lab.file_stream(), do))


def test_a_named_write_of_a_replayed_batch_is_a_no_op(lab):
    for name, number in (("a", 1), ("b", 2)):
        lab.rows_file(name, number)
    finish(lab.each(lab.file_stream(), written(lab)))
    forget_commit_of_last_batch_and_replay(lab, written(lab))
    lab.rows_file("c", 3)
    finish(lab.each(lab.file_stream(), written(lab)))
    assert lab.ids() == [1, 2, 3]


def test_a_lost_checkpoint_is_noticed_even_if_each_batch_has_as_many_rows(lab):
    """A row limit and a backlog: the new query's batch 0 is not the old one's."""
    source, target = f"{lab.topic}-source", lab.topic
    lab.client.create_topic(source, "id bigint, s string")

    def backlog(*ids: int) -> None:
        lab.client.append(source, [{"id": number, "s": "x"} for number in ids])

    def run() -> object:
        limited = lab.read_stream(
            subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=2
        )
        return lab.each(limited, written(lab, topic=target))

    backlog(1, 2, 3, 4)
    finish(run())
    shutil.rmtree(lab.checkpoint)
    lab.client.delete_topic(source)
    lab.client.create_topic(source, "id bigint, s string")
    backlog(5, 6, 7, 8, 9, 10)
    message = failure(run())
    assert "writes epoch 0 as writer 'job'" in message
    assert "the checkpoint was deleted or replaced" in message
    assert sorted(lab.ids()) == [1, 2, 3, 4]


def test_an_older_checkpoint_is_noticed_inside_foreach_batch_too(lab):
    lab.rows_file("a", 1)
    finish(lab.each(lab.file_stream(), written(lab)))
    older = lab.folder / "older"
    shutil.copytree(lab.checkpoint, older)
    for name, number in (("b", 2), ("c", 3)):
        lab.rows_file(name, number)
    finish(lab.each(lab.file_stream(), written(lab)))
    shutil.rmtree(lab.checkpoint)
    older.rename(lab.checkpoint)
    for options in ({}, {"onReplayMismatch": "keep"}):
        message = failure(lab.each(lab.file_stream(), written(lab, **options)))
        assert "writes batch 1 as writer 'job', whose last batch in the log is 2" in message
    assert lab.ids() == [1, 2, 3]


def test_a_plan_tells_a_rerun_from_other_rows_of_the_same_count_in_foreach_batch(lab):
    """The checkpoint is a copy one batch old, which only the plan can show."""
    given = {"checkpointLocation": str(lab.checkpoint)}
    lab.rows_file("a", 1)
    finish(lab.each(lab.file_stream(), written(lab, **given)))
    older = lab.folder / "older"
    shutil.copytree(lab.checkpoint, older)
    lab.rows_file("b", 2)
    finish(lab.each(lab.file_stream(), written(lab, **given)))
    forget_commit_of_last_batch_and_replay(lab, written(lab, **given))
    shutil.rmtree(lab.checkpoint)
    older.rename(lab.checkpoint)
    (lab.files / "b").unlink()
    lab.rows_file("c", 3)
    message = failure(lab.each(lab.file_stream(), written(lab, **given)))
    assert "committed with 1 records and is replayed with 1, under another plan" in message
    assert lab.ids() == [1, 2]
    finish(lab.each(lab.file_stream(), written(lab, onReplayMismatch="keep", **given)))
    lab.rows_file("d", 4)
    finish(lab.each(lab.file_stream(), written(lab, **given)))
    assert lab.ids() == [1, 2, 4], "3 is discarded, as the option says"


def test_a_write_in_foreach_batch_without_a_plan_says_so_once(cluster, client, monkeypatch, caplog):
    """Here this process commits. With Spark a worker does."""
    monkeypatch.setattr(plan, "_unread_said", set())
    topic = client.create_topic("no-plan", "id bigint")
    staged = Staged(topic=topic, reference=None)
    for version in range(2):
        given = {
            "topic": "no-plan",
            "raftlog.bootstrap.servers": cluster.servers,
            "txnAppId": "job",
            "txnVersion": str(version),
        }
        schema = StructType([StructField("id", LongType())])
        key = EpochKey(
            writer="job",
            query_id="job",
            run=f"run {version}",
            epoch=version,
            streaming=False,
            stream="query",
            stream_batch=version,
        )
        message = StagedMessage(key=key, staged=(staged,))
        batch_writer(given, schema, False).commit([message])
    (warned,) = caplog.records
    assert (warned.name, warned.levelname) == ("raftlog.spark", "WARNING")
    assert "the write in foreachBatch has no option checkpointLocation" in warned.getMessage()
    assert "other rows of the same count are NOT written" in warned.getMessage()


def test_two_writes_of_one_batch_under_one_version_are_an_error(lab):
    """They still are after a restart, whose first write is a replay of the first."""

    def twice(batch, number):
        written(lab)(batch, number)
        written(lab)(batch.selectExpr("id + 100 AS id", "s"), number)

    lab.rows_file("a", 1, 2)
    for _ in range(2):
        message = failure(lab.each(lab.file_stream(), twice))
        assert "txnVersion 0 of txnAppId 'job' was written before" in message
        assert "give each write a txnAppId of its own" in message
        assert lab.ids() == [1, 2]


@pytest.mark.parametrize("kind", [InheritableThread, threading.Thread])
def test_a_write_in_a_thread_is_fenced_only_if_the_thread_sees_the_stream(lab, kind):
    """A plain thread does not: its second write is taken for a rerun, and the sink warns of it."""

    def elsewhere(batch, number):
        problems = []

        def write():
            jvm = lab.spark._jvm
            jvm.org.apache.spark.sql.SparkSession.setActiveSession(lab.spark._jsparkSession)
            try:
                written(lab)(batch, number)
            except PySparkException as error:
                problems.append(error)

        for _ in range(2):
            thread = kind(target=write)
            thread.start()
            thread.join()
        if problems:
            raise problems[0]

    lab.rows_file("a", 1, 2)
    query = lab.each(lab.file_stream(), elsewhere)
    if kind is InheritableThread:
        assert "was written before" in failure(query)
    else:
        finish(query)
    assert lab.ids() == [1, 2]
