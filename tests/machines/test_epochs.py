"""Exactly once: each rule of epochs, runs and writers, one by one."""

from __future__ import annotations

import dataclasses

import pytest

from raftlog.core.types import Offset
from raftlog.machines.commands import EpochKey, RemoveWriter, Stage
from raftlog.machines.limits import (
    EPOCH_COUNTS_KEPT,
    FENCED_RUNS_KEPT,
    INTEGER_MAX,
    STAGED_ENTRY_CHARGE_BYTES,
    TopicLimits,
)
from raftlog.machines.outcomes import EpochAborted, Staged
from tests.machines.scenes import (
    Scene,
    batch,
    code,
    committed,
    ended,
    expire,
    key,
    reference,
    replayed,
    transient_writers,
    values,
)

# ---------------------------------------------------------------- all or nothing, in order


def test_staged_records_are_invisible_and_take_no_offset_until_their_epoch_is_committed() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 5, 6)
    assert scene.visible() == []
    assert scene.append(0, batch(99, 3)).start == 0, "the open stages took offsets"


def test_epoch_becomes_visible_at_once_in_order_of_its_attempts_then_of_their_stages() -> None:
    scene = Scene()
    first, second = (scene.new_batch(records) for records in (1, 2))
    third, fourth = (scene.new_batch(records) for records in (3, 4))
    for attempt, number, data in (
        ("a", 0, first), ("b", 0, third), ("b", 1, fourth), ("a", 1, second),
    ):  # fmt: skip
        assert scene.stage(key(0), attempt, number, data) == Staged(number=number, repeated=False)
    b, a = reference("b", [third, fourth]), reference("a", [first, second])
    assert scene.commit_epoch(key(0), b, a) == committed(0, 10)
    assert scene.visible() == [(3, 3), (4, 4), (1, 1), (2, 2)]


def test_attempts_that_the_epoch_does_not_name_are_never_visible() -> None:
    scene = Scene()
    winner = scene.stage_all(key(0), "winner", 5)
    loser = scene.stage_all(key(0), "loser", 5)
    scene.commit_epoch(key(0), winner)
    assert scene.visible() == [(1, 5)]
    assert scene.machine.open_epochs() == []
    assert scene.machine.staged_bytes == 0
    assert code(scene.commit_epoch(key(1), loser)) == "EpochIncomplete"


def test_epoch_drops_stages_up_to_it_and_no_later_ones() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    scene.stage_all(key(1), "earlier", 5)
    later = scene.stage_all(key(3), "later", 6)
    scene.commit_epoch(key(2))
    assert [epoch for _, _, epoch in scene.machine.open_epochs()] == [3]
    assert scene.commit_epoch(key(3), later) == committed(0, 6)
    assert scene.machine.staged_bytes == 0


def test_empty_epoch_takes_no_offset_and_advances_the_writer() -> None:
    scene = Scene()
    assert scene.commit_epoch(key(0)) == committed(0, 0)
    assert scene.write_epoch(key(1), 5) == committed(0, 5)
    assert scene.commit_epoch(key(2)) == committed(5, 5)
    assert code(scene.commit_epoch(key(1))) != "EpochCommitted"


def _one_entry_more(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    wrong = dataclasses.replace(real, entry_count=2)
    return code(scene.commit_epoch(key(0), wrong))


def _one_record_more(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0), dataclasses.replace(real, record_count=6)))


def _other_crc(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0), dataclasses.replace(real, chained_crc=7)))


def _missing_attempt(scene: Scene) -> str:
    scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0), reference("b", [batch(1, 5)])))


def _twice_the_same(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0), real, real))


def _of_another_epoch(scene: Scene) -> str:
    scene.commit_epoch(key(0))
    real = scene.stage_all(key(1), "a", 5)
    return code(scene.commit_epoch(key(2), real))


def _of_another_run(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0, run="run-2"), real))


def _of_another_writer(scene: Scene) -> str:
    real = scene.stage_all(key(0), "a", 5)
    return code(scene.commit_epoch(key(0, writer="x"), real))


@pytest.mark.parametrize(
    "wrongly",
    [
        _one_entry_more, _one_record_more, _other_crc, _missing_attempt, _twice_the_same,
        _of_another_epoch, _of_another_run, _of_another_writer,
    ],
)  # fmt: skip
def test_epoch_with_one_attempt_not_exactly_as_named_makes_nothing_visible(wrongly) -> None:
    scene = Scene()
    assert wrongly(scene) == "EpochIncomplete"
    assert scene.machine.high_water_mark == 0


def test_one_wrong_attempt_refuses_the_right_ones_too_and_they_stay_open() -> None:
    scene = Scene()
    right = scene.stage_all(key(0), "a", 5)
    wrong = reference("b", [batch(77)])
    assert code(scene.commit_epoch(key(0), right, wrong)) == "EpochIncomplete"
    assert scene.visible() == []
    assert scene.commit_epoch(key(0), right) == committed(0, 5)


def test_unknown_schema_version_is_refused_at_stage_append_and_commit() -> None:
    scene = Scene()
    newer = batch(1, schema=2)
    for outcome in (
        scene.stage(key(0), "a", 0, newer),
        scene.append(0, newer),
        scene.commit_epoch(key(0), schema=2),
        scene.commit_epoch(key(0), schema=0),
    ):
        assert code(outcome) == "UnknownSchemaVersion"
        assert values(outcome)["latest"] == 1


# ---------------------------------------------------------------- resends


def test_known_stage_number_is_answered_without_effect() -> None:
    """CHECKLIST row 26: a retry over a failover neither duplicates nor reorders."""
    scene = Scene()
    first, second = scene.new_batch(5), scene.new_batch(6)
    scene.stage(key(0), "a", 0, first)
    scene.stage(key(0), "a", 1, second)
    assert scene.stage(key(0), "a", 0, first) == Staged(number=0, repeated=True)
    assert scene.stage(key(0), "a", 1, second) == Staged(number=1, repeated=True)
    assert scene.commit_epoch(key(0), reference("a", [first, second])) == committed(0, 11)


def test_other_bytes_under_a_known_stage_number_are_no_resend() -> None:
    scene = Scene()
    first = scene.new_batch(5)
    scene.stage(key(0), "a", 0, first)
    assert code(scene.stage(key(0), "a", 0, scene.new_batch(5))) == "EpochIncomplete"
    assert scene.commit_epoch(key(0), reference("a", [first])) == committed(0, 5)


def test_stage_ahead_of_its_predecessor_is_refused_with_the_number_due() -> None:
    scene = Scene()
    gap = scene.stage(key(0), "a", 1, scene.new_batch())
    assert gap.code == "StageGap"
    assert values(gap) == {"attempt": "a", "number": 1, "expected": 0}
    scene.stage(key(0), "a", 0, scene.new_batch())
    assert values(scene.stage(key(0), "a", 2, scene.new_batch()))["expected"] == 1


def test_lost_commit_reply_is_answered_from_the_table_for_any_order_of_attempts() -> None:
    scene = Scene()
    a, b = scene.stage_all(key(0), "a", 5), scene.stage_all(key(0), "b", 6)
    scene.append(0, batch(99, 3))
    assert scene.commit_epoch(key(0), a, b) == committed(3, 14)
    before = scene.machine.fingerprint()
    assert scene.commit_epoch(key(0), b, a) == replayed(3, 14, 11)
    assert scene.machine.fingerprint() == before


def test_lost_reply_is_answered_even_to_a_run_fenced_since() -> None:
    scene = Scene()
    a = scene.stage_all(key(0), "a", 5)
    scene.commit_epoch(key(0), a)
    scene.stage_all(key(1, run="run-2"), "b", 5)
    assert scene.commit_epoch(key(0), a) == replayed(0, 5, 5)


# ---------------------------------------------------------------- replays


def test_replay_by_another_run_with_as_many_records_changes_nothing_and_drops_its_stages() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5, 6)
    again = scene.stage_all(key(0, run="run-2"), "again", 11)
    orphan = scene.stage_all(key(0, run="run-2"), "orphan", 3)
    assert scene.commit_epoch(key(0, run="run-2"), again) == replayed(0, 11, 11)
    assert scene.machine.high_water_mark == 11
    assert scene.machine.open_epochs() == []
    assert code(scene.commit_epoch(key(1, run="run-2"), orphan)) == "EpochIncomplete"


def test_replay_of_another_size_is_an_error_unless_the_first_is_to_be_kept() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    smaller = scene.stage_all(key(0, run="run-2"), "smaller", 4)
    assert values(scene.commit_epoch(key(0, run="run-2"), smaller)) == {
        "writer": "w", "epoch": 0, "committed_records": 5, "replayed_records": 4,
    }  # fmt: skip
    kept = scene.commit_epoch(key(0, run="run-2"), smaller, keep=True)
    assert kept == replayed(0, 5, 5, kept=True)
    assert scene.visible() == [(1, 5)]
    assert scene.write_epoch(key(1, run="run-2"), 7) == committed(5, 12)


def test_same_run_with_other_references_for_its_last_epoch_is_an_error() -> None:
    scene = Scene()
    a, b = scene.stage_all(key(0), "a", 5), scene.stage_all(key(0), "b", 5)
    scene.commit_epoch(key(0), a)
    assert values(scene.commit_epoch(key(0), b)) == {"writer": "w", "epoch": 0, "run": "run-1"}
    assert code(scene.commit_epoch(key(0), b)) == "EpochReferencesMismatch"
    assert scene.visible() == [(1, 5)]


def test_version_older_than_the_remembered_counts_is_an_error_at_stage_and_commit() -> None:
    scene = Scene()
    for epoch in range(EPOCH_COUNTS_KEPT + 1):
        scene.commit_epoch(key(epoch, streaming=False))
    oldest = scene.commit_epoch(key(1, run="run-2", streaming=False))
    assert oldest == replayed(-1, -1, 0), "the last thousand are remembered"
    late = key(0, run="run-2", streaming=False)
    assert code(scene.commit_epoch(late, keep=True)) == "EpochTooOld"
    assert code(scene.stage(late, "a", 0, batch(1))) == "EpochTooOld"


def test_passed_epoch_that_was_never_committed_is_an_error() -> None:
    scene = Scene()
    scene.write_epoch(key(3, streaming=False), 5)
    scene.write_epoch(key(7, streaming=False), 5)
    late = scene.commit_epoch(key(5, run="run-2", streaming=False))
    assert late.code == "EpochTooOld"
    assert values(late)["last_epoch"] == 7


# ---------------------------------------------------------------- another query


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_another_query_at_a_passed_epoch_is_a_checkpoint_reset_never_a_replay(epoch: int) -> None:
    scene = Scene()
    for each in range(3):
        scene.write_epoch(key(each), 5)
    fresh = key(epoch, run="run-9", query_id="other")
    same_size = reference("x", [batch(1, 5)])
    for outcome in (
        scene.commit_epoch(fresh, same_size),
        scene.commit_epoch(fresh, same_size, keep=True),
        scene.stage(fresh, "x", 0, batch(1, 5)),
    ):
        assert outcome.code == "CheckpointReset"
        assert values(outcome)["known_query_id"] == "query"
    assert scene.write_epoch(key(3), 5) == committed(15, 20), "the healthy run was fenced"


def test_empty_epoch_of_another_query_is_a_checkpoint_reset_too() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    assert code(scene.commit_epoch(key(0, query_id="other"))) == "CheckpointReset"


def test_another_query_above_the_last_epoch_takes_the_writer_over() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    other = key(1, run="run-2", query_id="other")
    staged = scene.stage_all(other, "b", 6)
    old_replay = scene.commit_epoch(key(0, run="run-3"), reference("x", [batch(1, 5)]))
    assert old_replay == replayed(0, 5, 5), "a mere stage must not change the query"
    staged = scene.stage_all(key(1, run="run-4", query_id="other"), "b", 6)
    assert scene.commit_epoch(key(1, run="run-4", query_id="other"), staged) == committed(5, 11)
    assert code(scene.commit_epoch(key(1, run="run-5"))) == "CheckpointReset"


# ---------------------------------------------------------------- runs


def test_first_stage_of_an_unseen_run_fences_the_current_one_and_its_stages() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    ready = scene.stage_all(key(1), "a", 5)
    scene.stage_all(key(1, run="run-2"), "b", 5)
    refusal = scene.commit_epoch(key(1), ready)
    assert refusal.code == "RunFenced"
    assert values(refusal) == {"writer": "w", "run": "run-1", "current_run": "run-2"}
    assert code(scene.stage(key(1), "c", 0, batch(1))) == "RunFenced"
    assert code(scene.stage(key(0), "c", 0, batch(1))) == "RunFenced"
    assert scene.abort_epoch(key(1)) == EpochAborted(attempts=0)
    assert scene.visible() == []


def test_first_commit_of_an_unseen_run_fences_the_current_one() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    scene.commit_epoch(key(1, run="run-2"))
    assert code(scene.stage(key(2), "a", 0, batch(1))) == "RunFenced"


def test_replay_by_an_unseen_run_fences_the_current_one() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    assert scene.commit_epoch(key(0, run="run-2")) == replayed(0, 0, 0)
    assert code(scene.commit_epoch(key(1))) == "RunFenced"


def test_fenced_run_replays_nothing() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    zombie = scene.stage_all(key(1), "zombie", 6)
    scene.write_epoch(key(1, run="run-2"), 6)
    assert code(scene.commit_epoch(key(1), zombie)) == "RunFenced"


def test_refused_command_of_an_unseen_run_fences_no_run() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    ready = scene.stage_all(key(1), "a", 5)
    rival = key(1, run="run-2")
    assert code(scene.stage(rival, "b", 1, batch(1))) == "StageGap"
    assert code(scene.commit_epoch(rival, ready)) == "EpochIncomplete"
    assert code(scene.commit_epoch(key(0, run="run-2"))) == "EpochContentMismatch"
    assert scene.commit_epoch(key(1), ready) == committed(5, 10)


def test_last_sixteen_fenced_runs_are_refused_everywhere() -> None:
    scene = Scene()
    runs = [f"run-{number}" for number in range(FENCED_RUNS_KEPT + 2)]
    for run in runs:
        scene.stage_all(key(0, run=run), f"of {run}", 1)
    for run in runs[1:-1]:
        assert code(scene.stage(key(0, run=run), "late", 0, batch(1))) == "RunFenced"
        assert code(scene.commit_epoch(key(0, run=run))) == "RunFenced"
    assert code(scene.stage(key(0, run=runs[0]), "late", 0, batch(1))) == "Staged"


def test_writers_do_not_fence_each_other() -> None:
    scene = Scene()
    mine = scene.stage_all(key(0), "a", 5)
    theirs = scene.stage_all(key(0, writer="x", run="run-2"), "a", 6)
    assert scene.commit_epoch(key(0), mine) == committed(0, 5)
    assert scene.commit_epoch(key(0, writer="x", run="run-2"), theirs) == committed(5, 11)


# ---------------------------------------------------------------- abort and expiry


def test_abort_touches_only_the_attempts_of_its_writer_run_and_epoch() -> None:
    scene = Scene()
    scene.commit_epoch(key(0))
    kept = scene.stage_all(key(1), "kept", 5)
    scene.stage_all(key(2), "gone", 6)
    scene.stage_all(key(2), "gone too", 6)
    for other in (key(2, run="run-2"), key(2, writer="x"), key(3)):
        assert scene.abort_epoch(other) == EpochAborted(attempts=0)
    assert scene.abort_epoch(key(2)) == EpochAborted(attempts=2)
    assert scene.commit_epoch(key(1), kept) == committed(0, 5)


def test_abort_after_the_applied_commit_changes_nothing() -> None:
    scene = Scene()
    ready = scene.stage_all(key(0), "a", 5)
    scene.commit_epoch(key(0), ready)
    before = scene.machine.fingerprint()
    assert scene.abort_epoch(key(0)) == EpochAborted(attempts=0)
    assert scene.machine.fingerprint() == before
    assert scene.visible() == [(1, 5)]
    assert scene.commit_epoch(key(0), ready) == replayed(0, 5, 5)


def test_aborted_attempts_are_never_committed() -> None:
    scene = Scene()
    ready = scene.stage_all(key(0), "a", 5)
    scene.abort_epoch(key(0))
    assert code(scene.commit_epoch(key(0), ready)) == "EpochIncomplete"
    assert scene.visible() == []


def test_zombie_stage_of_a_committed_epoch_is_never_visible() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    late = scene.stage_all(key(0), "late", 6)
    assert code(scene.commit_epoch(key(0), late)) == "EpochReferencesMismatch"
    assert code(scene.commit_epoch(key(1), late)) == "EpochIncomplete"
    scene.write_epoch(key(1), 7)
    assert scene.visible() == [(1, 5), (3, 7)]
    assert scene.machine.open_epochs() == []


def test_epoch_expires_only_if_no_stage_renewed_it_for_its_lease() -> None:
    scene = Scene()
    first, second = scene.new_batch(), scene.new_batch()
    scene.stage(key(0), "a", 0, first, now_us=10)
    scene.stage(key(0), "b", 0, second, now_us=12)
    assert scene.apply(expire(16, 5)) == ended()
    scene.stage(key(0), "b", 0, second, now_us=14)
    assert scene.apply(expire(18, 5)) == ended(), "the repeated stage renewed it"
    assert scene.machine.open_epochs() == [("w", "run-1", 0)]
    assert scene.apply(expire(19, 5)) == ended(epochs=1)
    assert scene.machine.open_epochs() == []
    assert code(scene.commit_epoch(key(0), reference("a", [first]))) == "EpochIncomplete"


def test_expiry_of_an_aborted_epoch_does_not_hit_the_one_staged_after_it() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 5, now_us=10)
    scene.abort_epoch(key(0))
    again = scene.stage_all(key(0), "b", 5, now_us=12)
    assert scene.apply(expire(16, 5)) == ended()
    assert scene.commit_epoch(key(0), again) == committed(0, 5)


def test_an_epoch_of_a_writer_that_is_gone_cannot_expire() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 5)
    scene.apply(RemoveWriter(writer="w"))
    assert not scene.machine.is_due(expire(100, 5))
    assert scene.apply(expire(100, 5)) == ended()


# ---------------------------------------------------------------- writers


@pytest.mark.parametrize("by", ["stage", "commit"])
def test_stream_above_epoch_0_without_a_row_is_an_unknown_writer(by: str) -> None:
    scene = Scene()
    if by == "stage":
        outcome = scene.stage(key(3), "a", 0, batch(1))
    else:
        outcome = scene.commit_epoch(key(3))
    assert outcome.code == "UnknownWriter"
    assert values(outcome) == {"writer": "w", "epoch": 3}


def test_stage_of_epoch_0_that_was_never_committed_makes_no_later_epoch_known() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 5)
    assert code(scene.commit_epoch(key(3, run="run-2"))) == "UnknownWriter"
    assert code(scene.stage(key(3, run="run-2"), "a", 0, batch(1))) == "UnknownWriter"


def test_create_writer_lets_a_stream_start_late() -> None:
    scene = Scene()
    ready = scene.stage_all(key(3), "a", 5, create_writer=True)
    assert scene.commit_epoch(key(3), ready) == committed(0, 5)
    assert scene.commit_epoch(key(8, writer="x"), create_writer=True) == committed(5, 5)


def test_batch_write_starts_at_any_version_and_its_rerun_is_a_no_op() -> None:
    scene = Scene()
    first = key(20260101, writer="job", query_id="job", run="u1", streaming=False)
    assert scene.write_epoch(first, 5) == committed(0, 5)
    rerun = dataclasses.replace(first, run="u2")
    assert scene.write_epoch(rerun, 5) == replayed(0, 5, 5)
    assert scene.visible() == [(1, 5)]


def test_transient_writer_expires_unless_it_wrote_during_its_lease() -> None:
    scene = Scene()
    of = key(0, writer="u1", query_id="u1", run="u1", streaming=False)
    ready = scene.stage_all(of, "a", 5, now_us=10)
    assert transient_writers(scene.machine) == ["u1"]
    assert scene.apply(expire(14, 5)) == ended()
    scene.commit_epoch(of, ready, transient=True, now_us=12)
    assert scene.apply(expire(16, 5)) == ended(), "it committed since"
    assert transient_writers(scene.machine) == ["u1"]
    assert scene.apply(expire(17, 5)) == ended(writers=1)
    assert scene.apply(expire(17, 5)) == ended()
    assert transient_writers(scene.machine) == []
    [extent] = scene.machine.extents_between(Offset(0), Offset(5))
    assert (extent.writer, extent.epoch) == ("u1", 0), "its records still name it"


def test_writer_that_can_replay_never_expires() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    assert transient_writers(scene.machine) == []
    assert scene.apply(expire(INTEGER_MAX - 1, 0)) == ended()
    assert code(scene.commit_epoch(key(0, query_id="other"))) == "CheckpointReset"


def test_writer_that_never_committed_may_expire_once_it_has_nothing_open() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 5)
    assert transient_writers(scene.machine) == []
    scene.abort_epoch(key(0))
    assert transient_writers(scene.machine) == ["w"]
    assert scene.apply(expire(5, 5)) == ended(writers=1)
    assert scene.machine.writer("w") is None


# ---------------------------------------------------------------- bounds


def test_staged_bytes_are_freed_by_commit_and_fencing() -> None:
    charge = 1000 + STAGED_ENTRY_CHARGE_BYTES
    scene = Scene()
    ready = scene.stage_all(key(0), "a", 5, 5)
    assert scene.machine.staged_bytes == 2 * charge
    scene.stage_all(key(0, writer="x"), "b", 5)
    assert scene.machine.staged_bytes == 3 * charge
    scene.commit_epoch(key(0), ready)
    assert scene.machine.staged_bytes == charge
    scene.stage_all(key(1), "c", 5, 5)
    scene.stage_all(key(1, run="run-2"), "d", 5)
    assert scene.machine.staged_bytes == 2 * charge


def test_staged_bytes_are_known_before_a_stage_is_logged() -> None:
    """By them a leader refuses a stage before the log."""
    scene = Scene()
    data = batch(7, body_bytes=0)

    def with_stage(of: EpochKey, number: int) -> int:
        return scene.machine.staged_bytes_with(
            Stage(
                key=of, attempt="a", number=number, timestamp_us=0, batch=data, create_writer=False
            )
        )

    charge = STAGED_ENTRY_CHARGE_BYTES
    assert with_stage(key(0), 0) == charge, "an empty body takes its room in the log too"
    for number in range(10):
        assert with_stage(key(0), number) == (number + 1) * charge
        scene.stage(key(0), "a", number, data)
    assert with_stage(key(0), 9) == 0, "it is staged already"
    assert with_stage(key(1), 0) == 11 * charge
    assert with_stage(key(0, run="run-2"), 0) == charge, "it fences the run before it"


def test_writers_of_a_topic_are_bounded() -> None:
    scene = Scene(TopicLimits(writers_max=2))
    scene.commit_epoch(key(0, writer="a"))
    scene.stage_all(key(0, writer="b"), "x", 1)
    for outcome in (
        scene.commit_epoch(key(0, writer="c")),
        scene.stage(key(0, writer="c"), "x", 0, batch(9)),
    ):
        assert outcome.code == "TooManyWriters"
        assert values(outcome) == {"topic": "flights", "limit": 2}
    assert code(scene.commit_epoch(key(1, writer="a"))) == "EpochCommitted"


def test_attempts_of_an_epoch_are_bounded() -> None:
    scene = Scene(TopicLimits(attempts_per_epoch_max=2))
    scene.stage_all(key(0), "a", 1)
    scene.stage_all(key(0), "b", 1)
    refusal = scene.stage(key(0), "c", 0, batch(9))
    assert refusal.code == "TooMany"
    assert values(refusal)["unit"] == "open attempts"
    assert code(scene.stage(key(0), "b", 1, batch(9))) == "Staged"
