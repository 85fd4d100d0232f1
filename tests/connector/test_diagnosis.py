"""What the doctor finds: each finding, from a checkpoint's files and what the log says."""

from __future__ import annotations

import ast
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import (
    CheckpointReset,
    CheckpointRewound,
    ClusterMismatch,
    EpochContentMismatch,
    ExitCode,
    OffsetTrimmed,
    TopicRecreated,
    UnknownWriter,
)
from raftlog.errors.raftlog_error import Surface
from raftlog.spark.checkpoint import read_checkpoint
from raftlog.spark.diagnosis import RECENT_S, LogSays, Sink, Writer, judge
from raftlog.spark.findings import Finding, Kind, exit_code
from raftlog.spark.offsets import Cluster, TopicWatermark
from tests.connector.checkpoints import CLUSTER, FILES, KAFKA, NONE, QUERY, Folder, grown, ours

NOW_US = 1_800_000_000_000_000


def mark(topic: str = "flights", *, start: int = 0, end: int = 1000, incarnation: str = "i1"):
    return TopicWatermark(
        topic=topic, incarnation=incarnation, log_start=start, high_water_mark=end
    )


def stream(last_batch: int, **given: Any) -> Writer:
    """The query's writer in its topic."""
    stated = {"topic": "delays", "name": QUERY, "streaming": True, "query_id": QUERY}
    return Writer(**stated | {"last_batch": last_batch} | given)


def named(last_batch: int, **given: Any) -> Writer:
    """A write in foreachBatch."""
    return stream(last_batch, **{"name": "job", "streaming": False} | given)


def says(*writers: Writer, **given: Any) -> LogSays:
    stated = {
        "cluster": Cluster(id=CLUSTER, servers="127.0.0.1:7401"),
        "marks": {"flights": mark()},
        "writers": writers,
    }
    return LogSays(**stated | given)


def found(folder: Folder, said: LogSays) -> dict[Kind, Finding]:
    """The findings by kind; those that keep the query from being started come first."""
    findings = judge(read_checkpoint(str(folder.path)), said)
    harmless = [each.harmless for each in findings]
    assert harmless == sorted(harmless)
    return {each.kind: each for each in findings}


def code(folder: Folder, said: LogSays) -> ExitCode:
    return exit_code(judge(read_checkpoint(str(folder.path)), said))


def plan_of(folder: Folder) -> str:
    last = read_checkpoint(str(folder.path)).last
    assert last is not None
    return last.plan


@pytest.fixture
def done(tmp_path: Path) -> Folder:
    """Batches 0 to 2, all done: the next one is 3."""
    return grown(tmp_path / "done", batches=3)


@pytest.fixture
def pending(tmp_path: Path) -> Folder:
    """Batch 2 is planned and not done: a start repeats it."""
    return grown(tmp_path / "pending", batches=3, done=2)


# ---------------------------------------------------------------- safe


def test_a_checkpoint_that_the_log_agrees_with_is_safe(done):
    said = says(stream(2, plan=plan_of(done)))
    assert set(found(done, said)) == {Kind.SAFE}
    assert code(done, said) == ExitCode.OK
    writer, source = judge(read_checkpoint(str(done.path)), said)
    assert "goes on with batch 3" in writer.cause
    assert source.cause == "It goes on in 'flights' at 30, which the log has."


def test_a_batch_that_only_spark_has_planned_is_written_by_the_start(pending):
    said = says(stream(1))
    assert set(found(pending, said)) == {Kind.SAFE}
    _, source = judge(read_checkpoint(str(pending.path)), said)
    assert "'flights' at 20" in source.cause, "the batch is read again"


def test_a_query_that_has_not_begun_is_safe(tmp_path):
    assert set(found(Folder(tmp_path / "new"), says())) == {Kind.NOT_BEGUN}


def test_a_copy_without_batches_of_a_query_that_has_written_is_old_and_not_new(tmp_path):
    assert set(found(Folder(tmp_path / "copy"), says(stream(7)))) == {Kind.OLDER_COPY}
    assert code(Folder(tmp_path / "other"), says()) == ExitCode.OK
    first = grown(tmp_path / "first", batches=1, done=0)
    assert set(found(first, says())) == {Kind.SAFE}, "batch 0 needs no writer"


@pytest.mark.parametrize("knows_plan", [True, False])
def test_the_repetition_of_a_batch_that_the_log_has_is_a_no_op(pending, knows_plan):
    plan = plan_of(pending) if knows_plan else ""
    said = says(stream(2, plan=plan, first_offset=7, end_offset=9))
    finding = found(pending, said)[Kind.REPLAY_IS_NO_OP]
    assert "repeats batch 2, which the topic has (records [7, 9))" in finding.cause
    assert ("does not know the batch's plan" in finding.remedy) != knows_plan
    assert code(pending, said) == ExitCode.OK


def test_of_two_names_of_a_query_in_one_topic_the_one_that_is_furthest_counts(done):
    said = says(stream(0), stream(2, name="from-there"))
    assert set(found(done, said)) == {Kind.SAFE}


# ---------------------------------------------------------------- the log's writers


def test_an_older_copy_is_told_with_its_batches_and_what_would_come_again(done):
    said = says(stream(5, plan="another"))
    finding = found(done, said)[Kind.OLDER_COPY]
    error = CheckpointRewound(writer=QUERY, batch=3, last_batch=5)
    assert finding.error == "CheckpointRewound"
    assert finding.cause.startswith(error.cause)
    assert "The topic has batches 3 to 5" in finding.cause
    assert "comes a second time: topic 'flights' from offset 30" in finding.cause
    assert finding.remedy == error.spark_remedy_text
    (command,) = finding.commands
    assert f'"txnAppId", "{QUERY}-from-3"' in command
    assert '"createTopic", "always"' in command
    assert code(done, said) == ExitCode.REFUSED


HOSTILE = "x'; touch y #\\\") \n"
"""It ends a text of a shell and one of Python, where it is not quoted."""


def test_commands_and_options_hold_a_hostile_name_as_a_name(done):
    for last_batch in (1, 5):
        said = says(stream(last_batch, name=HOSTILE, topic=HOSTILE))
        for command in (c for each in found(done, said).values() for c in each.commands):
            if command.startswith("raftlog"):
                assert shlex.split(command)[-1] == HOSTILE
            else:
                nodes = ast.walk(ast.parse(f"x{command}"))
                values = {node.value for node in nodes if isinstance(node, ast.Constant)}
                assert values == {"txnAppId", f"{HOSTILE}-from-3", "createTopic", "always"}


def test_an_older_copy_whose_last_batch_is_repeated_is_told_too(pending):
    finding = found(pending, says(stream(5)))[Kind.OLDER_COPY]
    assert "The topic has batches 2 to 5" in finding.cause
    assert "'flights' from offset 20" in finding.cause, "what batch 2 began with"


@pytest.mark.parametrize("knows_plan", [True, False])
def test_a_copy_that_is_one_batch_old_plans_the_logs_last_batch_again(done, knows_plan):
    plan = "another" if knows_plan else ""
    said = says(stream(3, plan=plan, first_offset=7, end_offset=9))
    finding = found(done, said)[Kind.OTHER_PLAN]
    assert "The topic has batch 3 (records [7, 9))" in finding.cause
    assert "Spark plans it again" in finding.cause
    assert ("as many rows as the first" in finding.cause) != knows_plan
    assert finding.error == "EpochContentMismatch"
    assert finding.remedy == EpochContentMismatch.spark_remedy_text
    assert code(done, said) == ExitCode.REFUSED


def test_a_repetition_with_another_plan_is_refused(pending):
    finding = found(pending, says(stream(2, plan="another")))[Kind.OTHER_PLAN]
    assert "with plan another, and the checkpoint (its folder offsets) has another" in finding.cause


def test_a_batch_that_is_done_under_another_plan_was_discarded_or_is_not_the_checkpoint_s(done):
    """A checkpoint with another query's offsets looks as one whose rows `keep` discarded."""
    said = says(stream(2, plan="another"))
    finding = found(done, said)[Kind.OTHER_PLAN]
    assert "of another plan than the checkpoint's" in finding.cause
    assert "onReplayMismatch=keep" in finding.remedy
    assert "another query's" in finding.remedy
    assert code(done, said) == ExitCode.REFUSED


def test_batches_that_spark_has_done_and_the_topic_has_not_are_a_loss(done):
    said = says(stream(0))
    finding = found(done, said)[Kind.LOG_BEHIND]
    assert "batches 1 to 2 are not in the topic" in finding.cause
    assert code(done, said) == ExitCode.DATA_LOSS


def test_a_topic_that_rows_name_need_not_have_each_batch(done):
    said = says(stream(0, each_batch=False))
    assert set(found(done, said)) == {Kind.SAFE}
    assert (
        "The query goes on with batch 3. Its rows name their topics"
        in judge(read_checkpoint(str(done.path)), said)[0].cause
    )


def test_a_writer_of_another_query_means_that_the_checkpoint_was_lost(done):
    said = says(stream(7, name="app", query_id="before"), writer_name="app")
    finding = found(done, said)[Kind.CHECKPOINT_RESET]
    error = CheckpointReset(
        writer="app", epoch=3, last_epoch=7, query_id=QUERY, known_query_id="before"
    )
    assert (finding.cause, finding.remedy) == (error.cause, error.spark_remedy_text)
    assert code(done, said) == ExitCode.REFUSED
    above = says(stream(2, name="app", query_id="before"), writer_name="app")
    assert set(found(done, above)) == {Kind.SAFE}, "the log takes another query's higher epoch"


def test_a_topic_that_does_not_know_the_query_refuses_it(done):
    said = says(sinks=(Sink(topic="delays"),))
    finding = found(done, said)[Kind.UNKNOWN_WRITER]
    error = UnknownWriter(writer=QUERY, epoch=3, cluster=CLUSTER, servers="127.0.0.1:7401")
    assert (finding.cause, finding.remedy) == (error.cause, error.spark_remedy_text)
    assert '.option("createTopic", "always")' in finding.commands
    assert code(done, said) == ExitCode.REFUSED


def test_a_topic_that_is_gone_is_told_from_one_that_was_created_again(done):
    said = says(sinks=(Sink(topic="delays", exists=False),))
    finding = found(done, said)[Kind.TOPIC_GONE]
    assert "There is no topic 'delays'. The query's next batch, 3, is refused." in finding.cause
    assert code(done, said) == ExitCode.DATA_LOSS


def test_topics_that_rows_named_are_missed_beside_those_that_know_the_writer(done):
    gone = Sink(topic="one", exists=False, writer="app", each_batch=False)
    again = Sink(topic="two", writer="app", each_batch=False)
    said = says(stream(0, name="app", each_batch=False), sinks=(gone, again), writer_name="app")
    findings = found(done, said)
    assert set(findings) == {Kind.SAFE, Kind.TOPIC_GONE, Kind.UNKNOWN_WRITER}
    assert findings[Kind.TOPIC_GONE].about == "topic 'one'"
    assert "next batch that has rows for it is refused" in findings[Kind.TOPIC_GONE].cause
    assert findings[Kind.UNKNOWN_WRITER].about == "topic 'two'"
    assert "writer 'app'" in findings[Kind.UNKNOWN_WRITER].cause
    assert "It refuses the next batch that has rows for it." in findings[Kind.UNKNOWN_WRITER].cause


def test_a_sink_that_nobody_named_and_no_topic_knows_is_not_judged(done):
    said = says()
    finding = found(done, said)[Kind.NOT_JUDGED]
    assert f"No topic of cluster {CLUSTER} knows a writer '{QUERY}'" in finding.cause
    assert code(done, said) == ExitCode.OK, "its source is"


@pytest.mark.parametrize("last_batch", [0, 2])
def test_a_write_in_foreach_batch_may_skip_batches(done, last_batch):
    assert set(found(done, says(named(last_batch)))) == {Kind.SAFE}


def test_a_write_in_foreach_batch_knows_an_older_copy_and_a_repetition(done, pending):
    finding = found(done, says(named(5)))[Kind.OLDER_COPY]
    assert finding.commands == ('.option("txnAppId", "job-from-3")',)
    assert Kind.REPLAY_IS_NO_OP in found(pending, says(named(2, plan=plan_of(pending))))


@pytest.mark.parametrize("ago_s", [0.0, RECENT_S - 1, RECENT_S])
def test_a_run_that_wrote_just_now_may_still_be_there(done, ago_s):
    active_us = NOW_US - int(ago_s * 1_000_000)
    said = says(stream(2, run="run-7", active_us=active_us), now_us=NOW_US)
    finding = found(done, said).get(Kind.ANOTHER_RUN)
    assert (finding is not None) == (ago_s < RECENT_S)
    if finding is not None:
        assert f"Run run-7 wrote {ago_s:.0f} s ago" in finding.cause
        assert finding.commands[-1] == f"raftlog doctor {done.path} --stopped"
        assert code(done, said) == ExitCode.REFUSED
    assert set(found(done, replace(said, now_us=0))) == {Kind.SAFE}, "known to be stopped"


# ---------------------------------------------------------------- sources


def test_trimmed_records_that_were_not_read_are_lost_by_range_and_number(done):
    said = says(stream(2), marks={"flights": mark(start=45, end=60)})
    finding = found(done, said)[Kind.TRIMMED]
    error = OffsetTrimmed(topic="flights", requested=30, earliest=45, end=60)
    assert (finding.cause, finding.error) == (error.cause, "OffsetTrimmed")
    assert "goes on at offset 45, and the 15 records [30, 45) are lost" in finding.remedy
    assert finding.commands == ('.option("failOnDataLoss", "false")',)
    assert code(done, said) == ExitCode.DATA_LOSS
    assert Kind.TRIMMED not in found(done, says(stream(2), marks={"flights": mark(start=30)}))


def test_trimmed_records_of_a_batch_that_the_log_has_are_not_lost(pending):
    """A start reads the batch again only to find that it is there."""
    plan = plan_of(pending)
    for start, what in ((25, "nothing is lost"), (33, "the 3 records [30, 33) are lost")):
        said = says(stream(2, plan=plan), marks={"flights": mark(start=start)})
        assert what in found(pending, said)[Kind.TRIMMED].remedy
    said = says(stream(1), marks={"flights": mark(start=25)})
    assert "the 5 records [20, 25) are lost" in found(pending, said)[Kind.TRIMMED].remedy
    both = says(stream(2, plan=plan), named(1), marks={"flights": mark(start=25)})
    assert "the 5 records [20, 25) are lost" in found(pending, both)[Kind.TRIMMED].remedy


def test_a_topic_that_was_created_again_or_deleted_is_told(done):
    again = says(stream(2), marks={"flights": mark(incarnation="i2")})
    error = TopicRecreated(topic="flights", wanted="i1", found="i2")
    error.surface = Surface.SPARK
    finding = found(done, again)[Kind.TOPIC_RECREATED]
    assert (finding.cause, finding.remedy) == (error.cause, error.remedy)
    gone = says(stream(2), marks={"flights": None})
    assert "incarnation i1, was deleted." in found(done, gone)[Kind.TOPIC_GONE].cause
    assert code(done, again) == code(done, gone) == ExitCode.DATA_LOSS


def test_a_topic_that_lost_its_end_is_told_and_no_quiet_wait(done, pending):
    for folder, batch in ((done, 2), (pending, 1)):
        said = says(stream(batch), marks={"flights": mark(end=24)})
        finding = found(folder, said)[Kind.TOPIC_SHORTER]
        assert "records [24, 30) were there and are gone" in finding.cause
        assert code(folder, said) == ExitCode.DATA_LOSS


def test_another_clusters_topic_of_that_name_is_not_compared(done):
    other = Cluster(id="cluster-2", servers="127.0.0.1:7501")
    said = says(cluster=other, marks={"flights": mark(incarnation="i2", end=3)})
    findings = found(done, said)
    error = ClusterMismatch(wanted=CLUSTER, found="cluster-2", servers="127.0.0.1:7501")
    assert set(findings) == {Kind.OTHER_CLUSTER, Kind.NOT_JUDGED}
    assert findings[Kind.OTHER_CLUSTER].cause.startswith(error.cause)
    assert findings[Kind.OTHER_CLUSTER].remedy == error.remedy
    assert code(done, said) == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("text", "kind"), [(FILES, "files"), (KAFKA, "Kafka"), ("17", "rate"), (NONE, "no position")]
)
def test_other_sources_are_not_judged_and_ours_beside_them_are(tmp_path, text, kind):
    folder = Folder(tmp_path / "several")
    folder.plan(0, text, ours(end=10, first=0))
    folder.finish(0)
    said = says(stream(0), marks={"flights": mark(start=12)})
    findings = judge(read_checkpoint(str(folder.path)), said)
    by_about = {each.about: each for each in findings}
    assert by_about["source 0"].kind is Kind.NOT_JUDGED
    assert kind in by_about["source 0"].cause
    assert by_about["source 1, topic 'flights'"].kind is Kind.TRIMMED


def test_a_checkpoint_with_nothing_of_ours_is_neither_safe_nor_refused(tmp_path):
    folder = Folder(tmp_path / "foreign")
    folder.plan(0, FILES)
    folder.finish(0)
    assert set(found(folder, says(marks={}))) == {Kind.NOT_JUDGED}
    assert code(folder, says(marks={})) == ExitCode.FAILED


def test_a_position_of_a_later_version_is_no_beginning(tmp_path):
    folder = Folder(tmp_path / "later")
    folder.plan(0, '{"topics": {"flights": {"at": 7}}, "v": 2}')
    folder.finish(0)
    finding = found(folder, says(stream(4)))[Kind.DAMAGED]
    assert "is not of version 1" in finding.cause


# ---------------------------------------------------------------- files


def test_no_checkpoint_warns_of_writing_all_rows_again(tmp_path):
    grown(tmp_path / "delays", batches=1)
    findings = judge(read_checkpoint(str(tmp_path)), says())
    assert [each.kind for each in findings] == [Kind.NO_CHECKPOINT]
    assert "writes all rows again" in findings[0].remedy
    assert "checkpoints: delays" in findings[0].remedy
    assert exit_code(findings) == ExitCode.NOT_FOUND


def way_out(folder: Folder, *writers: Writer) -> Finding:
    """The only finding, which is damage."""
    (finding,) = judge(read_checkpoint(str(folder.path)), says(*writers))
    assert (finding.kind, exit_code([finding])) == (Kind.DAMAGED, ExitCode.DATA_LOSS)
    return finding


def test_a_lost_metadata_is_written_again_with_the_id_that_the_log_knows(done):
    done.remove("metadata")
    finding = way_out(done)
    assert "raftlog writers list TOPIC" in finding.commands
    assert any(f"> {done.path}/metadata" in command for command in finding.commands)
    elsewhere = replace(
        read_checkpoint(str(done.path)), location="s3://KEY:***@bucket/a?scheme=http"
    )
    [there] = (each for each in judge(elsewhere, says()) if each.about == "metadata")
    assert there.commands[-1].endswith("| hadoop fs -put -f - 's3://KEY:***@bucket/a/metadata'")


def test_a_damaged_plan_is_removed_only_if_the_log_has_nothing_of_its_batch(pending):
    pending.damage("offsets/2", "")
    assert way_out(pending, stream(1)).commands == (
        f"rm -f {pending.path}/offsets/2 {pending.path}/offsets/.2.crc",
    )
    kept = way_out(pending, stream(2))
    assert kept.commands == ()
    assert "Do not remove it: the log has batch 2" in kept.remedy
    assert way_out(pending).commands == (), "nobody knows what was written"
    both = way_out(pending, stream(1), named(2, topic="audit"))
    assert both.commands == ()


def test_a_damaged_plan_of_a_batch_that_is_done_is_never_removed(done):
    done.damage("offsets/2", "")
    assert way_out(done, stream(2)).commands == ()
    assert way_out(done, stream(1)).commands == ()


def test_a_damaged_mark_of_what_is_done_is_removed_if_the_log_knows_the_batch(done):
    done.damage("commits/2", "")
    (command,) = way_out(done, stream(2)).commands
    assert command == f"rm -f {done.path}/commits/2 {done.path}/commits/.2.crc"
    assert way_out(done, stream(1)).commands == ()
    assert way_out(done).commands == ()
