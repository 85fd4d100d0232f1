"""Exactly once: how a batch that comes again is recognised, and what is no replay at all.

A stream's batch has a plan, which Spark writes down before any task and never changes; a write
inside foreachBatch has the streaming batch around it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.machines.commands import EpochKey
from raftlog.machines.outcomes import Refused, TopicOutcome
from raftlog.machines.writer_row import references_digest
from tests.machines.scenes import (
    Scene,
    batch,
    code,
    committed,
    key,
    reference,
    replayed,
    values,
)

PLAN, OTHER_PLAN = "a" * 32, "b" * 32


def write(
    scene: Scene, of: EpochKey, records: int, *, plan: str = "", keep: bool = False
) -> TopicOutcome:
    """Stage an attempt and commit it; the first refusal is the outcome."""
    data, attempt = scene.new_batch(records), f"{of.run}/{of.epoch}/{scene.index}"
    staged = scene.stage(of, attempt, 0, data)
    if isinstance(staged, Refused):
        return staged
    return scene.commit_epoch(of, reference(attempt, [data]), plan=plan, keep=keep)


def a_stream(epochs: int, records: int = 5) -> Scene:
    scene = Scene()
    for epoch in range(epochs):
        assert write(scene, key(epoch), records, plan=PLAN) == committed(
            epoch * records, (epoch + 1) * records
        )
    return scene


def job(
    version: int,
    write_id: str,
    *,
    batch: int | None = None,
    stream: str = "stream",
    stream_run: str = "start-1",
) -> EpochKey:
    """A named write inside foreachBatch; by default its version is the batch's number."""
    return EpochKey(
        writer="job",
        query_id="job",
        run=write_id,
        epoch=version,
        streaming=False,
        stream=stream,
        stream_run=stream_run if stream else "",
        stream_batch=(version if batch is None else batch) if stream else 0,
    )


# ---------------------------------------------------------------- the plan of the last batch


@pytest.mark.parametrize("records", [4, 5, 6])
def test_the_last_batch_with_the_same_plan_is_a_replay_with_any_count(records: int) -> None:
    scene = a_stream(2)
    assert write(scene, key(1, run="run-2"), records, plan=PLAN) == replayed(5, 10, 5)
    assert scene.machine.open_epochs() == []
    assert write(scene, key(2, run="run-2"), 7, plan=OTHER_PLAN) == committed(10, 17)


def test_the_last_batch_with_another_plan_is_no_replay_even_with_as_many_records() -> None:
    scene = a_stream(2)
    assert values(write(scene, key(1, run="run-2"), 5, plan=OTHER_PLAN)) == {
        "writer": "w", "epoch": 1, "committed_records": 5, "replayed_records": 5,
        "committed_plan": PLAN, "replayed_plan": OTHER_PLAN,
    }  # fmt: skip
    kept = write(scene, key(1, run="run-3"), 5, plan=OTHER_PLAN, keep=True)
    assert kept == replayed(5, 10, 5, kept=True)
    assert write(scene, key(1, run="run-4"), 5, plan=PLAN) == replayed(5, 10, 5), "kept: the first"


@pytest.mark.parametrize(("first", "again"), [(PLAN, ""), ("", PLAN), ("", "")])
def test_where_a_plan_is_not_known_on_both_sides_the_count_decides(first: str, again: str) -> None:
    scene = Scene()
    write(scene, key(0), 5, plan=first)
    assert write(scene, key(0, run="run-2"), 5, plan=again) == replayed(0, 5, 5)
    refusal = write(scene, key(0, run="run-3"), 4, plan=again)
    assert code(refusal) == "EpochContentMismatch"
    assert "committed_plan" not in values(refusal)


def test_a_lost_reply_is_known_by_its_references_and_needs_no_plan() -> None:
    scene = Scene()
    a, b = scene.stage_all(key(0), "a", 5), scene.stage_all(key(0), "b", 6)
    assert scene.commit_epoch(key(0), a, b, plan=PLAN) == committed(0, 11)
    for plan in (PLAN, ""):
        assert scene.commit_epoch(key(0), b, a, plan=plan) == replayed(0, 11, 11)


# ---------------------------------------------------------------- a checkpoint that was set back


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("keep", [False, True])
def test_a_stream_below_its_last_batch_is_refused_with_any_content(epoch: int, keep: bool) -> None:
    scene = a_stream(3)
    older = key(epoch, run="run-2")
    same_size = reference("x", [batch(1, 5)])
    for outcome in (
        scene.stage(older, "x", 0, batch(1, 5)),
        scene.commit_epoch(older, same_size, plan=PLAN, keep=keep),
        scene.commit_epoch(older, keep=keep),
    ):
        assert code(outcome) == "CheckpointRewound"
        assert values(outcome) == {"writer": "w", "batch": epoch, "last_batch": 2}
    assert write(scene, key(3), 5, plan=PLAN) == committed(15, 20), "the healthy run was fenced"


def test_a_fenced_run_below_the_last_batch_is_told_of_its_successor() -> None:
    scene = a_stream(1)
    for epoch in (1, 2):
        write(scene, key(epoch, run="run-2"), 5, plan=PLAN)
    assert code(write(scene, key(1), 5, plan=PLAN)) == "RunFenced"


# ---------------------------------------------------------------- writes inside foreachBatch


def a_job(versions: int) -> Scene:
    scene = Scene()
    for version in range(versions):
        outcome = write(scene, job(version, f"write-{version}"), 5)
        assert outcome == committed(5 * version, 5 * version + 5)
    return scene


def test_a_restarted_batch_is_replayed_by_another_write_and_continues() -> None:
    scene = a_job(3)
    assert write(scene, job(2, "again", stream_run="start-2"), 5) == replayed(10, 15, 5)
    assert write(scene, job(3, "next", stream_run="start-2"), 6) == committed(15, 21)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_lost_checkpoint_is_noticed_by_the_stream_around_the_write(version: int) -> None:
    scene = a_job(3)
    fresh = job(version, "fresh", stream="new-stream", stream_run="start-9")
    for outcome in (
        scene.stage(fresh, "x", 0, batch(1, 5)),
        scene.commit_epoch(fresh, reference("x", [batch(1, 5)]), keep=True),
    ):
        assert values(outcome) == {
            "writer": "job", "epoch": version, "last_epoch": 2,
            "query_id": "new-stream", "known_query_id": "stream",
        }  # fmt: skip
        assert code(outcome) == "CheckpointReset"


def test_a_batch_below_the_last_is_a_rewound_checkpoint_here_too() -> None:
    scene = a_job(3)
    outcome = write(scene, job(1, "again", stream_run="start-2"), 5, keep=True)
    assert code(outcome) == "CheckpointRewound"
    assert values(outcome) == {"writer": "job", "batch": 1, "last_batch": 2}


def test_a_second_write_of_one_version_in_one_batch_is_an_error_even_after_a_restart() -> None:
    scene = a_job(2)
    second = write(scene, job(1, "second"), 5)
    assert code(second) == "VersionReused"
    assert values(second) == {"writer": "job", "version": 1, "batch": 1, "last_batch": 1}
    assert write(scene, job(1, "first again", stream_run="start-2"), 5) == replayed(5, 10, 5)
    second = write(scene, job(1, "second again", stream_run="start-2"), 5)
    assert code(second) == "VersionReused", "the replay counts as this run's write"


def test_a_version_that_an_earlier_batch_has_taken_is_an_error() -> None:
    scene = Scene()
    write(scene, job(7, "one", batch=0), 5)
    assert code(write(scene, job(7, "two", batch=1), 5)) == "VersionReused"
    restarted = job(7, "three", batch=1, stream_run="start-2")
    assert values(write(scene, restarted, 5))["last_batch"] == 0


def test_a_write_whose_reply_was_lost_is_answered_when_it_is_sent_again() -> None:
    scene = Scene()
    for of in (job(0, "write"), job(0, "replay", stream_run="start-2")):
        data = scene.new_batch(5)
        scene.stage(of, of.run, 0, data)
        for _ in range(2):
            outcome = scene.commit_epoch(of, reference(of.run, [data]))
            assert outcome in (committed(0, 5), replayed(0, 5, 5)), outcome


def test_several_versions_of_one_batch_are_written_and_replayed_in_their_order() -> None:
    scene = Scene()
    for version in (0, 1):
        write(scene, job(version, f"write-{version}", batch=0), 5)
    for version in (0, 1):
        again = job(version, f"again-{version}", batch=0, stream_run="start-2")
        assert getattr(write(scene, again, 5), "replayed", False)
    assert write(scene, job(2, "next", batch=1, stream_run="start-2"), 5) == committed(10, 15)


def test_a_write_in_no_stream_may_repeat_any_remembered_version() -> None:
    scene = Scene()
    for version in range(3):
        write(scene, job(version, f"write-{version}", stream=""), 5)
    for version in (0, 2):
        assert write(scene, job(version, f"again-{version}", stream=""), 5).replayed
    assert code(write(scene, job(1, "other", stream=""), 4)) == "EpochContentMismatch"


def test_a_write_that_sees_no_stream_goes_by_the_count_where_others_saw_one() -> None:
    scene = a_job(2)
    assert write(scene, job(1, "in a plain thread", stream=""), 5) == replayed(5, 10, 5)
    write(scene, job(2, "in another", stream=""), 5)
    assert write(scene, job(2, "fresh", stream="new"), 5) == replayed(10, 15, 5)
    assert code(write(scene, job(2, "second", stream="new"), 5)) == "VersionReused"


def test_a_query_whose_run_is_not_known_is_fenced_by_its_id() -> None:
    scene = Scene()
    write(scene, job(0, "one", stream_run=""), 5)
    assert write(scene, job(0, "two", stream_run=""), 5) == replayed(0, 5, 5)
    assert code(write(scene, job(0, "x", stream="new", stream_run=""), 5)) == "CheckpointReset"


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        (job(0, "w", stream="s" * 1025), "stream has 1025 characters"),
        (job(0, "w", batch=-1), "stream_batch is -1"),
        (
            EpochKey(
                writer="w", query_id="q", run="r", epoch=0, streaming=True,
                stream="s", stream_run="", stream_batch=0,
            ),
            "another stream's batch",
        ),
        (
            EpochKey(
                writer="w", query_id="q", run="r", epoch=0, streaming=False,
                stream="", stream_run="x", stream_batch=0,
            ),
            "without stream",
        ),
    ],
)  # fmt: skip
def test_a_senseless_fence_is_refused(of: EpochKey, problem: str) -> None:
    for outcome in (Scene().stage(of, "a", 0, batch(1)), Scene().commit_epoch(of)):
        assert problem in str(values(outcome)["what"])


def test_a_plan_has_a_bounded_length() -> None:
    assert code(Scene().commit_epoch(key(0), plan="p" * 1025)) == "MalformedRequest"
    assert Scene().commit_epoch(key(0), plan="p" * 1024) == committed(0, 0)


def test_references_are_compared_as_texts_whose_hash_no_caller_can_choose() -> None:
    """Numbers can be chosen so that thousands of references collide in a set of Python's."""
    references = [reference("x", [batch(1, 5)]), reference("y", [batch(1, 6)])]
    names = ("attempt", "entry_count", "record_count", "chained_crc")
    unhashable: list[Any] = [
        SimpleNamespace(**{name: getattr(each, name) for name in names}) for each in references
    ]
    with pytest.raises(TypeError, match="unhashable"):
        hash(unhashable[0])
    assert references_digest(unhashable * 2) == references_digest(references)
    assert references_digest(references[::-1]) == references_digest(references)
    assert references_digest(references[:1]) != references_digest(references)
