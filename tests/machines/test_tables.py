"""Which rows leave a topic's tables, when, and what meets writers that return."""

from __future__ import annotations

import dataclasses

import pytest

from raftlog.machines.commands import AbortEpoch, EpochKey, RemoveWriter, SetWriterOwner
from raftlog.machines.limits import (
    EXPIRED_AT_ONCE_MAX,
    OPEN_ATTEMPT_BYTES,
    PRODUCER_BYTES,
    STAGED_ENTRY_BYTES,
    TEXT_CHARACTERS_MAX,
    WRITER_BYTES_MIN,
    TopicLimits,
)
from raftlog.machines.outcomes import EpochCommitted, Outcome, Refused, WriterRemoved
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import TOPIC, Scene, batch, code, ended, expire, key, reference

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
YEAR_US = 365 * DAY_US

WIDE = "\U0001f600"
"""A character of four bytes."""


def anonymous(number: int) -> EpochKey:
    """A batch write without txnAppId."""
    name = f"u{number:06}"
    return key(0, writer=name, query_id=name, run=name, streaming=False)


def named(number: int) -> EpochKey:
    name = f"job{number}"
    return key(0, writer=name, query_id=name, run=f"run{number}", streaming=False)


def write_anonymously(scene: Scene, number: int, now_us: int = 0) -> None:
    of = anonymous(number)
    ready = scene.stage_all(of, f"a{number}", 1, now_us=now_us)
    done = scene.commit_epoch(of, ready, transient=True, now_us=now_us)
    assert code(done) == "EpochCommitted"


def names(scene: Scene) -> list[str]:
    return [row.name for row in scene.machine.writers_after("", 1000)]


# ---------------------------------------------------------------- crowds


def test_no_crowd_of_anonymous_batch_writes_locks_a_stream_out() -> None:
    scene = Scene(TopicLimits(writers_max=2, transient_writers_max=3))
    for number in range(50):
        write_anonymously(scene, number)
    assert isinstance(scene.write_epoch(key(0, writer="stream"), 5), EpochCommitted)
    assert isinstance(scene.write_epoch(named(1), 5), EpochCommitted)
    assert code(scene.stage(named(2), "a", 0, batch(900))) == "TooManyWriters"
    write_anonymously(scene, 50)
    assert names(scene) == ["job1", "stream", "u000048", "u000049", "u000050"]


def test_the_longest_silent_transient_row_leaves_first_with_what_it_has_open() -> None:
    scene = Scene(TopicLimits(transient_writers_max=2))
    scene.stage_all(anonymous(1), "a", 1)
    second = scene.stage_all(anonymous(2), "b", 1)
    scene.stage(anonymous(1), "a", 1, scene.new_batch(1))
    scene.stage_all(anonymous(3), "c", 1)
    assert names(scene) == ["u000001", "u000003"]
    late = scene.commit_epoch(anonymous(2), second, transient=True)
    assert code(late) == "EpochIncomplete", "it had not committed: nothing of it is visible"
    assert scene.visible() == []
    assert scene.machine.dead_bytes == 1000


def restored(scene: Scene, limits: TopicLimits) -> Scene:
    """The same scene with a machine that was made from its state."""
    before = scene.machine
    scene.machine = TopicMachine.restore(TOPIC, before.state(), limits)
    assert scene.machine.fingerprint() == before.fingerprint()
    return scene


@pytest.mark.parametrize("from_a_state", [False, True])
def test_the_owner_with_the_most_transient_rows_loses_the_next_one(from_a_state: bool) -> None:
    limits = TopicLimits(transient_writers_max=4)
    scene = Scene(limits)
    adas = scene.stage_all(anonymous(0), "a", 3, owner="ada")
    scene.stage_all(anonymous(1), "a", 1)
    for number in range(2, 20):
        scene.stage_all(anonymous(number), "a", 1, owner="eve")
        if from_a_state:
            scene = restored(scene, limits)
    assert names(scene) == ["u000000", "u000001", "u000018", "u000019"]
    done = scene.commit_epoch(anonymous(0), adas, transient=True, owner="ada")
    assert code(done) == "EpochCommitted", "what ada staged is still there"


@pytest.mark.parametrize("from_a_state", [False, True])
def test_the_owner_with_the_most_producers_loses_the_next_one(from_a_state: bool) -> None:
    limits = TopicLimits(producers_max=4)
    scene = Scene(limits)
    scene.append(0, scene.new_batch(), producer="adas", owner="ada")
    scene.append(0, scene.new_batch(), producer="unnamed")
    for number in range(20):
        scene.append(0, scene.new_batch(), producer=f"eves-{number}", owner="eve")
        if from_a_state:
            scene = restored(scene, limits)
    assert code(scene.append(1, scene.new_batch(), producer="adas", owner="ada")) == "Appended"
    assert code(scene.append(1, scene.new_batch(), producer="unnamed")) == "Appended"
    late = scene.append(1, scene.new_batch(), producer="eves-17", owner="eve")
    assert code(late) == "UnknownProducer"
    assert code(scene.append(1, scene.new_batch(), producer="eves-18", owner="eve")) == "Appended"


def test_among_owners_of_as_many_rows_the_longest_silent_row_leaves() -> None:
    """So a principal that comes last is served too."""
    scene = Scene(TopicLimits(transient_writers_max=2))
    for number, owner in enumerate(("zoe", "ada", "eve")):
        scene.stage_all(anonymous(number), "a", 1, owner=owner)
    assert names(scene) == ["u000001", "u000002"]


@pytest.mark.parametrize("from_a_state", [False, True])
def test_a_transient_row_counts_for_the_owner_that_it_was_given_to(from_a_state: bool) -> None:
    limits = TopicLimits(transient_writers_max=3)
    scene = Scene(limits)
    for number, owner in ((1, "ada"), (2, "ada"), (3, "eve")):
        scene.stage_all(anonymous(number), "a", 1, owner=owner)
    scene.apply(SetWriterOwner(writer="u000001", owner="eve"))
    if from_a_state:
        scene = restored(scene, limits)
    scene.stage_all(anonymous(4), "a", 1, owner="bob")
    assert names(scene) == ["u000001", "u000002", "u000004"], "eve had two, this one silent longest"


def test_streams_that_failed_before_their_first_commit_make_room_for_others() -> None:
    scene = Scene(TopicLimits(writers_max=1, transient_writers_max=2))
    for number in range(10):
        of = key(0, writer=f"w{number}")
        scene.stage_all(of, "a", 1)
        assert code(scene.stage(key(0, writer="other"), "a", 0, batch(900))) == "TooManyWriters"
        scene.abort_epoch(of)
    assert names(scene) == ["w8", "w9"]
    assert isinstance(scene.write_epoch(key(0, writer="w9"), 5), EpochCommitted)
    assert code(scene.stage(key(0, writer="w8"), "a", 0, batch(901))) == "TooManyWriters"
    assert isinstance(scene.write_epoch(key(1, writer="w9"), 5), EpochCommitted)


def test_one_principal_leaves_half_of_the_rows_to_others() -> None:
    scene = Scene(TopicLimits(writers_max=4))

    def commits(number: int, owner: str) -> Outcome:
        return scene.commit_epoch(key(0, writer=f"w{number}"), owner=owner)

    for number in (1, 2):
        assert code(commits(number, "token:eve")) == "EpochCommitted"
    refusal = commits(3, "token:eve")
    assert isinstance(refusal, Refused)
    assert dict(refusal.values) == {"topic": TOPIC.name, "limit": 2, "owner": "token:eve"}
    assert code(commits(4, "token:ada")) == "EpochCommitted"
    scene.apply(SetWriterOwner(writer="w2", owner="token:ada"))
    assert code(commits(3, "token:eve")) == "EpochCommitted"
    assert code(commits(5, "token:bob")) == "TooManyWriters", "there are four"
    scene.apply(RemoveWriter(writer="w1"))
    assert code(commits(5, "token:bob")) == "EpochCommitted"


def test_a_row_takes_room_of_its_owner_whichever_principal_continues_it() -> None:
    scene = Scene(TopicLimits(writers_max=4))

    def commits(number: int, owner: str) -> Outcome:
        of = key(0, writer=f"w{number}")
        return scene.commit_epoch(of, owner=owner, any_owner=owner == "token:root")

    begun = key(0, writer="w1")
    scene.stage_all(begun, "a", 1, owner="token:eve")
    scene.apply(AbortEpoch(key=begun, owner="token:eve"))
    for number in (2, 3):
        assert code(commits(number, "token:eve")) == "EpochCommitted"
    refusal = commits(1, "token:root")
    assert isinstance(refusal, Refused)
    full = {"topic": TOPIC.name, "limit": 2, "owner": "token:eve"}
    assert dict(refusal.values) == full, "the writer is eve's"
    scene.apply(RemoveWriter(writer="w2"))
    assert code(commits(1, "token:root")) == "EpochCommitted"


def test_rows_of_a_principal_that_may_continue_all_have_a_share_too() -> None:
    scene = Scene(TopicLimits(writers_max=4))
    for number in (1, 2, 3):
        of = key(0, writer=f"w{number}")
        done = scene.commit_epoch(of, owner="token:root", any_owner=True)
    assert isinstance(done, Refused)
    assert dict(done.values) == {"topic": TOPIC.name, "limit": 2, "owner": "token:root"}


def test_one_principal_leaves_half_of_the_bytes_to_others() -> None:
    limits = TopicLimits(writer_bytes_max=8 * WRITER_BYTES_MIN)
    scene = Scene(limits)

    def commits(number: int, owner: str, epoch: int = 0, plan: str = "") -> Outcome:
        return scene.commit_epoch(key(epoch, writer=f"w{number}"), owner=owner, plan=plan)

    long = WIDE * TEXT_CHARACTERS_MAX
    assert code(commits(1, "token:eve", plan="p")) == "EpochCommitted"
    assert code(commits(2, "token:eve", plan=long)) == "EpochCommitted"
    scene = restored(scene, limits)
    refusal = commits(3, "token:eve")
    assert isinstance(refusal, Refused)
    what = "The writers of 'token:eve' in topic 'flights'"
    unit = "bytes of names and open stages"
    values = {"what": what, "limit": 4 * WRITER_BYTES_MIN, "unit": unit}
    assert (refusal.code, dict(refusal.values)) == ("TooMany", values)
    assert code(commits(1, "token:eve", 1, plan=long)) == "TooMany", "a row that grows"
    assert code(commits(4, "token:ada", plan=long)) == "EpochCommitted"
    assert code(commits(5, "token:bob")) == "EpochCommitted"
    assert code(commits(6, "token:bob", plan=long)) == "TooMany", "there are as many as may be"
    assert code(commits(5, "token:bob", 1)) == "EpochCommitted", "an ordinary row goes on"
    assert code(commits(2, "token:eve", 1)) == "EpochCommitted", "and so does one that shrinks"
    assert code(commits(3, "token:eve")) == "EpochCommitted"
    scene.apply(SetWriterOwner(writer="w4", owner="token:eve"))
    assert code(commits(6, "token:eve")) == "TooMany"
    scene.apply(RemoveWriter(writer="w4"))
    assert code(commits(6, "token:eve")) == "EpochCommitted"


def test_a_replay_whose_names_have_no_room_is_refused() -> None:
    scene = Scene(TopicLimits(writer_bytes_max=2 * WRITER_BYTES_MIN))
    committed = key(0, run="r")
    scene.commit_epoch(committed, plan="p")
    before = scene.machine.fingerprint()
    longer = dataclasses.replace(committed, run=WIDE * TEXT_CHARACTERS_MAX)
    again = scene.commit_epoch(longer, plan="p", owner="token:eve")
    assert code(again) == "TooMany"
    assert scene.machine.fingerprint() == before
    other = dataclasses.replace(committed, run="s")
    assert code(scene.commit_epoch(other, plan="p")) == "EpochCommitted"


def test_open_stages_count_until_they_are_committed_or_dropped() -> None:
    room = 100 * STAGED_ENTRY_BYTES
    scene = Scene(TopicLimits(writer_bytes_max=WRITER_BYTES_MIN + room))
    staged = []
    while code(scene.stage(key(0), "a", len(staged), data := scene.new_batch(1))) == "Staged":
        staged.append(data)
    assert len(staged) == (room - OPEN_ATTEMPT_BYTES - 1) // STAGED_ENTRY_BYTES
    assert code(scene.stage(key(0), "b", 0, scene.new_batch(1))) == "TooMany"
    assert code(scene.stage(key(0), "a", 0, staged[0])) == "Staged", "a repeat takes nothing"
    assert code(scene.stage(key(0, run="next"), "a", 0, staged[0])) == "Staged", "another run"
    again = scene.stage(key(0, run="next"), "b", 0, scene.new_batch(1))
    assert code(again) == "Staged", "the stages of a fenced run count no more"
    for _ in range(3):
        scene.abort_epoch(key(0, run="next"))
        ready = scene.stage_all(key(0, run="next"), "c", *[1] * (len(staged) - 1))
    assert isinstance(scene.commit_epoch(key(0, run="next"), ready), EpochCommitted)
    scene.stage_all(key(1, run="next"), "d", *[1] * (len(staged) - 1))


def test_transient_rows_make_room_by_bytes_and_the_owner_with_the_most_loses_them() -> None:
    limits = TopicLimits(writer_bytes_max=6 * WRITER_BYTES_MIN)
    scene = Scene(limits)
    for number in range(2):
        scene.stage_all(anonymous(number), "a", 1, owner="ada")
    scene.stage_all(anonymous(2), "a", *[1] * 100, owner="eve")
    scene = restored(scene, limits)
    assert names(scene) == ["u000000", "u000001", "u000002"]
    scene.stage_all(anonymous(3), "a", *[1] * 20, owner="bob")
    assert names(scene) == ["u000000", "u000001", "u000003"], "eve had one, and the most bytes"
    large = [1] * (2 * WRITER_BYTES_MIN // STAGED_ENTRY_BYTES)
    with pytest.raises(AssertionError, match="TooMany"):
        scene.stage_all(anonymous(4), "a", *large, owner="ada")
    for epoch in range(1, 1000):
        of = dataclasses.replace(anonymous(3), epoch=epoch)
        scene.commit_epoch(of, transient=True, owner="bob")
    assert "u000003" not in names(scene), "its epochs count too"


def test_producers_make_room_by_bytes_and_the_owner_with_the_most_loses_them() -> None:
    limits = TopicLimits(producer_bytes_max=8 * PRODUCER_BYTES)
    scene = Scene(limits)
    scene.append(0, scene.new_batch(), producer="p" * (4 * PRODUCER_BYTES), owner="eve")
    for number in range(2):
        scene.append(0, scene.new_batch(), producer=f"p{number}", owner="ada")
    scene = restored(scene, limits)
    scene.append(0, scene.new_batch(), producer="p2", owner="ada")
    assert [len(name) for name in scene.machine.state().producers.names] == [2, 2, 2]


def test_an_anonymous_write_that_becomes_a_named_one_needs_room_among_these() -> None:
    scene = Scene(TopicLimits(writers_max=1))
    scene.write_epoch(key(0, writer="stream"), 5)
    scene.stage_all(anonymous(1), "a", 1)
    renamed = dataclasses.replace(anonymous(1), run="another")
    assert code(scene.stage(renamed, "b", 0, scene.new_batch())) == "TooManyWriters"
    scene.apply(RemoveWriter(writer="stream"))
    assert code(scene.stage(renamed, "b", 0, scene.new_batch())) == "Staged"


def test_no_crowd_of_producers_locks_another_out_and_none_starts_again() -> None:
    scene = Scene(TopicLimits(producers_max=3))
    for number in range(5):
        scene.append(0, scene.new_batch(), producer=f"p{number}")
        if number:
            assert code(scene.append(number, scene.new_batch(), producer="p0")) == "Appended"
    assert sorted(scene.machine.state().producers.names) == ["p0", "p3", "p4"]
    for sequence in (0, 1):
        gone = scene.append(sequence, scene.new_batch(), producer="p1")
        assert code(gone) == "UnknownProducer", "never a fresh start"
    assert code(scene.append(2, scene.new_batch(), producer="p3")) == "SequenceGap"


# ---------------------------------------------------------------- writers that return


@pytest.mark.parametrize("gone_by", ["crowd", "age", "command"])
def test_a_batch_write_that_committed_is_never_committed_again_once_forgotten(
    gone_by: str,
) -> None:
    scene = Scene(TopicLimits(transient_writers_max=1))
    of, data = anonymous(1), scene.new_batch(7)
    scene.stage(of, "a", 0, data)
    ready = scene.stage_all(of, "b", 3)
    assert code(scene.commit_epoch(of, ready, transient=True)) == "EpochCommitted"
    if gone_by == "crowd":
        scene.stage_all(anonymous(2), "a", 1)
    elif gone_by == "age":
        assert scene.apply(expire(DAY_US, DAY_US)) == ended(writers=1)
    else:
        assert scene.apply(RemoveWriter(writer=of.writer)) == WriterRemoved(
            known=True, staged_bytes=0
        )
    before = scene.machine.fingerprint()
    for late in (
        scene.commit_epoch(of, ready, transient=True),
        scene.commit_epoch(of, transient=True),
        scene.stage(of, "b", 0, data),
        scene.stage(of, "c", 0, data),
    ):
        assert late.code == "WriterForgotten"
    assert scene.machine.fingerprint() == before
    assert scene.machine.high_water_mark == 3


def test_no_anonymous_write_blocks_the_name_of_a_stream_or_a_named_writer() -> None:
    """Else who may write could let a name be forgotten that another is going to use."""
    scene = Scene(TopicLimits(transient_writers_max=1))
    squatter = dataclasses.replace(anonymous(1), writer="job1", query_id="job1", run="job1")
    assert code(scene.commit_epoch(squatter, transient=True)) == "EpochCommitted"
    assert code(scene.commit_epoch(anonymous(2), transient=True)) == "EpochCommitted"
    assert code(scene.commit_epoch(squatter, transient=True)) == "WriterForgotten"
    scene.write_epoch(named(1), 5)
    assert scene.apply(expire(YEAR_US, DAY_US)) == ended(writers=1)
    assert names(scene) == ["job1"], "a named writer is never one that leaves"


# ---------------------------------------------------------------- ages


def test_leases_end_by_log_time_under_any_leader() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 1, now_us=HOUR_US)
    write_anonymously(scene, 1, now_us=2 * HOUR_US)
    scene.append(0, scene.new_batch(), now_us=3 * HOUR_US)
    early = expire(DAY_US + HOUR_US - 1, DAY_US)
    assert not scene.machine.is_due(early)
    assert scene.apply(early) == ended()
    due = expire(DAY_US + HOUR_US, DAY_US)
    assert scene.machine.is_due(due)
    assert scene.apply(due) == ended(epochs=1)
    assert scene.apply(expire(DAY_US + 3 * HOUR_US, DAY_US)) == ended(writers=1, producers=1)
    # The stream's row has nothing open now, and is as old as the end of its epoch's lease.
    assert names(scene) == ["w"]
    assert scene.apply(expire(2 * DAY_US + HOUR_US, DAY_US)) == ended(writers=1)
    assert names(scene) == []


def test_any_stage_renews_its_epochs_lease_and_a_repeat_too() -> None:
    scene = Scene()
    data = scene.new_batch()
    for hour in (0, 20, 40):
        scene.stage(key(0), "a", 0, data, now_us=hour * HOUR_US)
    assert scene.apply(expire(63 * HOUR_US, DAY_US)) == ended()
    assert scene.apply(expire(64 * HOUR_US, DAY_US)) == ended(epochs=1)


def test_a_clock_a_year_ahead_ends_leases_early_and_leaves_no_time_behind() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 1, now_us=HOUR_US)
    scene.append(0, scene.new_batch(1), now_us=HOUR_US)
    assert scene.apply(expire(YEAR_US, DAY_US)) == ended(epochs=1, producers=1)
    scene.append(0, scene.new_batch(1), producer="q", now_us=30 * HOUR_US)
    [*_, extent] = scene.machine.extents_between(0, scene.machine.high_water_mark)
    assert extent.timestamp_us == 30 * HOUR_US, "log time went no further than the leases"
    assert scene.apply(expire(53 * HOUR_US, DAY_US)) == ended(writers=1)
    assert scene.apply(expire(54 * HOUR_US, DAY_US)) == ended(producers=1)


def test_a_leader_whose_clock_is_behind_judges_by_log_time() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(), now_us=0)
    scene.append(0, scene.new_batch(), producer="q", now_us=DAY_US)
    assert scene.machine.is_due(expire(0, DAY_US))
    assert scene.apply(expire(0, DAY_US)) == ended(producers=1)


def test_one_expire_ends_a_bounded_number_and_the_next_continues() -> None:
    scene = Scene()
    for number in range(EXPIRED_AT_ONCE_MAX + 2):
        scene.commit_epoch(anonymous(number), transient=True)
    scene.append(0, scene.new_batch())
    scene.stage_all(key(0), "a", 1)
    assert scene.apply(expire(DAY_US, DAY_US)) == ended(writers=EXPIRED_AT_ONCE_MAX)
    assert scene.machine.is_due(expire(DAY_US, DAY_US))
    assert scene.apply(expire(DAY_US, DAY_US)) == ended(epochs=1, writers=2, producers=1)


@pytest.mark.parametrize("other", ["order", "age", "forgotten", "owner"])
def test_state_hash_sees_what_decides_which_rows_leave(other: str) -> None:
    prints = []
    for changed in (False, True):
        scene = Scene(TopicLimits(transient_writers_max=2, producers_max=2))
        order = (2, 1) if changed and other == "order" else (1, 2)
        for number in order:
            # Equal rows in another order: what the log says of them is compared elsewhere.
            owner = "eve" if changed and other == "owner" else "ada"
            scene.append(0, batch(5, 1), producer=f"p{number}", owner=owner)
        if other == "age":
            scene.append(1, batch(5, 1), producer="p2", now_us=5)
            scene.append(1, batch(5, 1), producer="p1", now_us=6 if changed else 5)
        if other == "forgotten":
            scene.append(0, batch(5, 1), producer="p3" if changed else "p4")
            for name in ("p8", "p9"):
                scene.append(0, batch(5, 1), producer=name)
        prints.append(scene.machine.fingerprint())
    assert prints[0] != prints[1]


# ---------------------------------------------------------------- removal


def test_a_removed_writer_loses_its_stages_and_its_query_is_refused() -> None:
    scene = Scene()
    scene.write_epoch(key(0), 5)
    scene.stage_all(key(1), "a", 3)
    staged = scene.machine.staged_bytes
    assert scene.apply(RemoveWriter(writer="w")) == WriterRemoved(known=True, staged_bytes=staged)
    assert scene.apply(RemoveWriter(writer="w")) == WriterRemoved(known=False, staged_bytes=0)
    assert scene.machine.staged_bytes == 0
    assert scene.machine.dead_bytes == 1000
    assert code(scene.stage(key(1), "a", 1, batch(900))) == "UnknownWriter"
    assert scene.visible() == [(1, 5)], "its records stay"
    assert code(scene.apply(RemoveWriter(writer=""))) == "MalformedRequest"


# ---------------------------------------------------------------- bytes and entries


def test_an_epoch_of_any_number_of_bytes_can_be_staged_and_committed() -> None:
    scene = Scene()
    size, count = 2**31 - 1, 5
    batches = [scene.new_batch(1, body_bytes=size) for _ in range(count)]
    for number, data in enumerate(batches):
        assert code(scene.stage(key(0), "a", number, data)) == "Staged"
    assert scene.machine.staged_bytes > 2 * 4 * 1024**3
    assert code(scene.commit_epoch(key(0), reference("a", batches))) == "EpochCommitted"
    assert scene.machine.record_bytes == size * count
    assert (scene.machine.staged_bytes, scene.machine.dead_bytes) == (0, 0)


def test_what_costs_memory_is_bounded_for_each_writer() -> None:
    scene = Scene(TopicLimits(staged_entries_per_writer_max=3))
    scene.stage_all(key(0), "a", 1, 1, 1)
    full = scene.stage(key(0), "a", 3, scene.new_batch())
    assert (full.code, dict(full.values)["unit"]) == ("TooMany", "staged entries")
    assert code(scene.stage(key(0, run="run-2"), "b", 0, scene.new_batch())) == "Staged"
    scene = Scene(TopicLimits(attempts_per_writer_max=2))
    for version in (1, 2):
        scene.stage_all(key(version, streaming=False), "a", 1, 1)
    full = scene.stage(key(2, streaming=False), "b", 0, scene.new_batch())
    assert (full.code, dict(full.values)["unit"]) == ("TooMany", "open attempts")


def test_a_writer_has_so_many_open_epochs_and_an_end_of_one_makes_room() -> None:
    """Their numbers are the caller's, and can be chosen to collide in a hash table."""
    scene = Scene(TopicLimits(epochs_per_writer_max=2))
    for epoch in (5, 7):
        scene.stage_all(key(epoch, streaming=False), "a", 1)
    scene.stage_all(key(7, streaming=False), "b", 1)
    full = scene.stage(key(6, streaming=False), "a", 0, scene.new_batch())
    assert (full.code, dict(full.values)["unit"]) == ("TooMany", "open epochs")
    scene.abort_epoch(key(5, streaming=False))
    assert code(scene.stage(key(6, streaming=False), "a", 0, scene.new_batch())) == "Staged"


def test_a_topic_has_so_many_open_epochs_and_each_writer_may_have_two() -> None:
    limits = TopicLimits(epochs_max=5)
    scene = Scene(limits)
    for epoch in range(5):
        scene.stage_all(key(epoch, writer="many", streaming=False), "a", 1)
    scene = restored(scene, limits)
    further = key(5, writer="many", streaming=False)
    full = scene.stage(further, "a", 0, scene.new_batch())
    what = "The writers of topic 'flights'"
    values = {"what": what, "limit": 5, "unit": "open epochs"}
    assert (full.code, dict(full.values)) == ("TooMany", values)
    scene.stage_all(key(4, writer="many", streaming=False), "b", 1)
    for writer in map(str, range(20)):
        late, due = (key(epoch, writer=writer, streaming=False) for epoch in (0, 1))
        scene.stage_all(late, "late", 1)
        assert isinstance(scene.commit_epoch(due, scene.stage_all(due, "a", 1)), EpochCommitted)
    assert scene.machine.open_epoch_count == 5, "a commit ends those before it"
    again = key(0, writer="many", run="next", streaming=False)
    assert isinstance(scene.commit_epoch(again, scene.stage_all(again, "a", 1)), EpochCommitted)
    for epoch in range(1, 6):
        scene.stage_all(dataclasses.replace(again, epoch=epoch), "a", 1)


def test_dead_bytes_are_those_that_will_never_be_read() -> None:
    scene = Scene()
    won = scene.stage_all(key(0), "won", 1)
    scene.stage_all(key(0), "lost", 1, 1)
    assert scene.machine.dead_bytes == 0
    scene.commit_epoch(key(0), won)
    assert scene.machine.dead_bytes == 2000, "the losing attempt"
    scene.stage_all(key(1), "a", 1)
    scene.abort_epoch(key(1))
    assert scene.machine.dead_bytes == 3000
    scene.stage_all(key(1), "b", 1)
    scene.stage_all(key(1, run="run-2"), "c", 1)
    assert scene.machine.dead_bytes == 4000, "the fenced run's"
    assert scene.apply(expire(DAY_US, DAY_US)) == ended(epochs=1)
    assert scene.machine.dead_bytes == 5000
    data = scene.new_batch()
    for _ in range(2):
        scene.append(0, data)
    scene.append(5, data)
    assert scene.machine.dead_bytes == 7000, "a resend and a gap"
