"""When a leader asks for a snapshot point, and in which order its compaction is carried out."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raftlog.compaction.compact import compact
from raftlog.compaction.worker import reply_to
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NO_INDEX,
    GroupId,
    LogIndex,
    NodeId,
    Offset,
    Payload,
    Term,
)
from raftlog.errors import CorruptFile, DiskFull, Internal, Overloaded
from raftlog.image.job import encode_job
from raftlog.image.manifest import MANIFEST_COPIES, Image, read_image
from raftlog.machines.commands import RegisterNode, RemoveWriter, Rules, SnapshotPoint
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.effects import CompactionFailed, DamagePassedOver
from raftlog.replica import PointReached
from raftlog.storage import checked_file
from raftlog.storage.limits import SEALED_BYTES_MIN
from raftlog.wire.codec import encode_command
from tests.machines.scenes import key
from tests.multiraft.compaction_scene import BACKLOG, EMPTY_EPOCH, EVERY, Scene

RETRY_TICKS = 100
AGE_TICKS = 10
POINTS_BEHIND = 4


# ---------------------------------------------------------------- proposing


def test_a_leader_asks_for_one_point_after_so_many_entries() -> None:
    scene = Scene()
    scene.write(EVERY - 1)  # and the first entry of its term
    assert len(scene.points()) == 1
    scene.write(EVERY - 1)
    assert len(scene.points()) == 1
    scene.write(2)
    first, second = scene.points()
    assert second == first + EVERY + 1


def test_a_leader_does_not_ask_again_for_a_point_that_is_not_applied_yet() -> None:
    scene = Scene()
    scene.write(4 * EVERY, at_once=True)
    assert len(scene.points()) == 1


def test_a_point_that_is_refused_is_asked_for_with_the_next_entry() -> None:
    scene = Scene()
    scene.refusal = Overloaded(queue="raft.unapplied_entries_max", limit=1)
    scene.write(2 * EVERY)
    assert scene.points() == []
    scene.refusal = None
    scene.write(1)
    assert len(scene.points()) == 1


def test_a_leader_that_is_some_points_behind_asks_for_no_more() -> None:
    scene = Scene()
    scene.write((POINTS_BEHIND + 3) * (EVERY + 1))
    assert len(scene.points()) == POINTS_BEHIND
    scene.compact_all()
    scene.write(1)
    assert len(scene.points()) == POINTS_BEHIND + 1


def test_compactions_go_on_while_more_other_jobs_come_than_the_disk_gets_done() -> None:
    """As of topics that are made and deleted all the time, on a slow disk."""
    scene = Scene()
    local = scene.topics[GroupId(1)]
    scene.write((POINTS_BEHIND + 3) * (EVERY + 1))
    others: list[int] = []
    for number in range(4 * POINTS_BEHIND):
        for _ in range(2):
            scene.disk.queue_job(lambda: None, lambda _, number=number: others.append(number))
        if scene.driver.jobs:
            scene.compact()
        scene.driver.run()
        assert len(others) >= number // 3, "and neither do those wait for ever"
    assert len(local.replica.points) <= 1, "four turns of the disk are enough for each"


def test_a_leader_that_is_far_behind_takes_no_more_records_until_a_compaction_ends() -> None:
    scene = Scene()
    local = scene.topics[GroupId(1)]
    while len(local.replica.points) < POINTS_BEHIND:
        scene.write(1)
    while local.replica.since_point.entries < BACKLOG * EVERY:
        assert scene.compactions.overload(local) is None
        scene.write(1)
    refused = scene.compactions.overload(local)
    assert refused is not None
    waiting = local.replica.since_point.entries
    assert f"topic 'topic-1' is behind: {POINTS_BEHIND} snapshot points wait" in refused.cause
    assert f"after them {waiting} entries" in refused.cause
    assert "storage.compaction_backlog_max" in refused.remedy
    scene.compact_all()
    assert scene.compactions.overload(local) is None


def test_a_job_is_urgent_while_much_waits_or_the_disk_is_full() -> None:
    scene = Scene(reserve_bytes=1 << 20)
    scene.write_until_point()
    assert [job.urgent for job, _ in scene.driver.jobs] == [False]
    scene.write(BACKLOG * EVERY)
    scene.compact()
    scene.driver.run()
    scene.driver.run()
    assert [job.urgent for job, _ in scene.driver.jobs] == [True], "points wait behind it"
    scene.compact_all()
    scene.write_until_point()
    assert [job.urgent for job, _ in scene.driver.jobs] == [False]
    scene.compact_all()
    scene.fill_disk()
    scene.tick(1)
    scene.write_until_point()
    assert [job.urgent for job, _ in scene.driver.jobs] == [True], "trims wait for it"


def test_what_waits_in_other_topics_makes_a_job_urgent_too() -> None:
    scene = Scene(topics=2, node_entries_max=2 * EVERY)
    for group in (1, 2):
        scene.write(EVERY, group)
    first, _ = scene.driver.jobs[0]
    assert (first.group, first.urgent) == (1, False)
    scene.write(EVERY, 2)
    scene.compact(Internal(what="a test"))
    second, _ = scene.driver.jobs[0]
    assert (second.group, second.urgent) == (2, True)


def test_an_idle_topic_lets_its_log_go_also_if_a_compaction_took_longer_than_the_age() -> None:
    scene = Scene(segment_bytes=1 << 20, age_ticks=AGE_TICKS)
    local = scene.topics[GroupId(1)]

    def wait(*, compact: bool) -> None:
        scene.tick(2 * AGE_TICKS)
        scene.settle(local)
        if compact:
            scene.compact_all()

    rows = SEALED_BYTES_MIN // 8
    scene.append(rows)
    wait(compact=True)
    scene.append(rows)
    for compacts in (False, False, True, True):
        wait(compact=compacts)
    assert local.replica.log.byte_count < SEALED_BYTES_MIN
    asked = len(scene.points())
    for _ in range(3):
        wait(compact=True)
    assert len(scene.points()) == asked, "there is nothing left to gain"
    assert scene.offsets() == list(range(2 * rows))


# ---------------------------------------------------------------- compacting


def test_every_point_is_compacted_in_order_and_one_at_a_time() -> None:
    scene = Scene(topics=2)
    for group in (1, 2):
        scene.write(3 * EVERY, group)
    jobs = []
    while scene.driver.jobs:
        assert len(scene.driver.jobs) == 1, "one at a time"
        jobs.append(scene.compact())
        scene.driver.run()
        scene.driver.run()
    for group in (1, 2):
        assert [job.index for job in jobs if job.group == group] == scene.points(group)
    assert [job.group for job in jobs[:2]] == [1, 2], "they take turns"
    assert scene.offsets() == list(range(3 * EVERY))


def test_a_point_waits_until_this_replica_has_its_entries_on_disk() -> None:
    scene = Scene()
    replica = scene.topics[1].replica
    scene.write(EVERY - 2)
    durable = replica.log.durable_index
    assert scene.driver.jobs == []
    replica.points.append(
        PointReached(
            index=LogIndex(durable + 1),
            term=Term(1),
            state_hash=replica.state_hash,
            keep_from=LogIndex(1),
            log_start=Offset(0),
            mark=Offset(0),
            entries=1,
            byte_count=1,
        )
    )
    scene.compactions.applied(scene.topics[1])
    scene.tick(3)
    assert scene.driver.jobs == []


def test_a_compaction_that_failed_is_told_and_tried_again_later_and_others_go_on() -> None:
    scene = Scene(topics=2)
    for group in (1, 2):
        scene.write(EVERY, group)
    failed = scene.compact(Internal(what="a test"))
    assert [type(event) for event in scene.driver.told] == [CompactionFailed]
    assert not scene.topics[failed.group].compacting
    assert scene.compact().group == 2
    scene.driver.run()
    scene.driver.run()
    scene.write(1)
    assert scene.driver.jobs == []
    scene.tick(RETRY_TICKS)
    assert scene.compact() == replace(failed, urgent=True), "much waits behind it by now"
    scene.driver.run()
    assert scene.topics[1].image.manifest.index == failed.index


def test_a_group_that_goes_meanwhile_gets_no_image_and_the_next_one_has_its_turn() -> None:
    scene = Scene(topics=2)
    for group in (1, 2):
        scene.write(EVERY, group)
    gone = scene.topics[1]
    scene.compactions.forget(gone)
    assert gone.compacting, "its folder may not be removed yet"
    assert scene.driver.abandoned == [1], "the next one need not wait until the job is done"
    scene.compact()
    assert (gone.compacting, scene.ended) == (False, [1])
    assert gone.image.manifest.generation == 0
    assert MANIFEST_COPIES[0] not in scene.files()
    assert scene.compact().group == 2


def test_a_group_that_goes_while_its_files_wait_to_be_removed_keeps_them() -> None:
    scene = Scene()
    local = scene.topics[1]
    scene.write(3 * EVERY)
    read = local.begin_read()
    scene.compact()
    scene.driver.run()
    scene.compactions.forget(local)
    assert scene.driver.abandoned == [], "its job has ended"
    before = scene.files()
    local.end_read(read)
    scene.tick(1)
    assert (scene.ended, scene.files()) == ([1], before)


def test_a_stopped_node_starts_nothing_and_publishes_nothing() -> None:
    scene = Scene()
    scene.write(3 * EVERY)
    scene.compactions.stop()
    scene.compact()
    assert scene.driver.asked == scene.driver.jobs == []
    assert scene.topics[1].image.manifest.generation == 0


# ---------------------------------------------------------------- dropping


def test_files_go_only_when_the_manifest_is_durable_and_no_read_is_out() -> None:
    scene = Scene()
    local = scene.topics[1]
    scene.write(3 * EVERY)
    while len(scene.driver.jobs[0][0].image.snapshots) < 2:
        scene.compact()
        scene.driver.run()
        scene.driver.run()
        scene.write(EVERY)
    before = scene.files()
    scene.compact()
    base = local.replica.log.base_index
    scene.tick(1)
    assert local.replica.log.base_index == base, "the manifest does not say so yet"
    read = local.begin_read()
    scene.driver.run()
    durable = scene.fs.durable_copy(Random(1))
    image = read_image(durable, scene.store.folder_of(local.group)).image
    assert base < local.replica.log.base_index == image.base[0] <= image.snapshots[-2].index
    scene.tick(2)
    assert set(before) <= set(scene.files()), "a read may want them"
    assert local.compacting
    local.end_read(read)
    scene.tick(1)
    scene.driver.run()
    assert [name for name in before if name not in scene.files()]
    scene.restart()
    assert scene.offsets() == list(range(scene.topics[1].topic_machine.high_water_mark))


def test_reads_that_begin_later_do_not_keep_files_that_wait_for_earlier_ones() -> None:
    """Followers that catch up read all the time."""
    scene = Scene()
    local = scene.topics[1]
    scene.write(3 * EVERY)
    scene.compact_all()
    scene.write(EVERY)
    before = scene.files()
    read = local.begin_read()
    scene.compact()
    scene.driver.run()
    for _ in range(5):
        following = local.begin_read()
        assert set(before) <= set(scene.files())
        local.end_read(read)
        scene.tick(1)
        read = following
    scene.driver.run()
    assert local.reads_out
    assert [name for name in before if name not in scene.files()]
    assert not local.compacting


def test_a_replica_whose_files_wait_for_a_read_does_not_keep_others_from_being_compacted() -> None:
    scene = Scene(topics=2)
    waits = scene.topics[1]
    scene.write(3 * EVERY, 1)
    read = waits.begin_read()
    scene.compact()
    scene.driver.run()
    assert waits.compacting
    scene.write(3 * EVERY, 2)
    scene.write(3 * EVERY, 1)
    assert scene.compact().group == 2, "the node compacts one at a time, and this one waits"
    scene.driver.run()
    scene.driver.run()
    assert {job.group for job, _ in scene.driver.jobs} <= {2}
    waits.end_read(read)
    scene.compact_all()
    assert not waits.compacting
    assert not waits.replica.points


def test_after_a_restart_what_is_in_history_is_compared_as_before() -> None:
    """An idle topic may reach no other point for long, and damage may have come meanwhile."""
    scene = Scene()
    scene.write(4 * EVERY)
    scene.compact_all()
    compacted = scene.topics[GroupId(1)].image.manifest
    scene.restart()
    histories = scene.topics[GroupId(1)].replica.histories
    asked = histories.ask()
    assert asked.point == compacted.index
    histories.heard(asked, NodeId(2))
    assert histories.answer().digest == compacted.history_digest != b""


def test_a_log_goes_on_from_an_image_whose_last_entry_it_holds_with_the_same_state() -> None:
    scene = Scene()
    scene.write(2 * EVERY)
    scene.compact_all()
    local = scene.topics[GroupId(1)]
    image = local.image.manifest
    newest = image.snapshots[-1]

    def ending_with(**others: object) -> Image:
        snapshot = replace(newest, **others)
        return replace(image, snapshots=(*image.snapshots[:-1], snapshot))

    assert local.may_go_on_from(image)
    assert not local.may_go_on_from(ending_with(state_hash=bytes(len(newest.state_hash))))
    assert not local.may_go_on_from(ending_with(term=Term(newest.term + 1)))
    beyond = LogIndex(local.replica.log.durable_index + 1)
    assert not local.may_go_on_from(ending_with(index=beyond))


def test_a_manifest_that_finds_no_room_is_written_later() -> None:
    scene = Scene()
    scene.write(EVERY)
    scene.compact()
    scene.fs.interrupt = _refuse
    scene.driver.run()
    assert scene.topics[1].image.manifest.generation == 0
    scene.fs.interrupt = None
    scene.tick(3)
    scene.driver.run()
    assert scene.topics[1].image.manifest.generation == 1


def test_on_a_full_disk_only_a_compaction_that_fits_the_reserve_begins() -> None:
    """The first history file is small: the next point writes it again, unless all of it is trimmed
    there."""
    rows, spare_bytes = 10_000, 5_000
    scene = Scene(segment_bytes=1 << 20, reserve_bytes=4 * spare_bytes)
    scene.append(rows)
    scene.write_until_point()
    scene.compact_all()
    local = scene.topics[GroupId(1)]
    first = local.image.manifest.history[0]
    assert first.byte_count > spare_bytes
    scene.fill_disk()
    scene.write_until_point()
    scene.tick(1)
    assert scene.driver.jobs == [], "the small file alone is too large"
    scene.trim(first.end)
    scene.tick(1)
    assert scene.driver.jobs == [], "it was not trimmed yet at the point"
    scene.trim(local.topic_machine.high_water_mark)
    scene.write_until_point()
    (asked,) = [job for job, _ in scene.driver.jobs]
    assert asked.index == scene.points()[-1], "nothing of the point before stays"
    scene.compact_all()
    assert first.name not in scene.files()
    scene.append(rows)
    scene.write_until_point()
    scene.tick(1)
    assert scene.driver.jobs == [], "what is new is too large"


def test_on_a_full_disk_a_controller_s_compaction_begins_whatever_room_there_is() -> None:
    """It has no records, so it frees what its log takes."""
    scene = Scene(reserve_bytes=4_000)
    opened = scene.store.replica(CONTROLLER, scene.store.make_group(CONTROLLER))
    scene.add(opened)
    local = scene.topics[CONTROLLER_GROUP]
    scene.fill_disk()
    point = Payload(encode_command(SnapshotPoint(keep_from=NO_INDEX), None), b"")
    register = RegisterNode(node=NodeId(1), store_uuid="s", address="a:1", rules=RULES_LATEST)
    for payload in (
        Payload(encode_command(register, None), b""),
        Payload(encode_command(Rules(version=RULES_LATEST), None), b""),
        point,
    ):
        local.raft.propose([payload])
        scene.settle(local)
    assert local.replica.points, "the controller's rules know snapshot points"
    scene.tick(1)
    assert [job.group for job, _ in scene.driver.jobs] == [CONTROLLER_GROUP]


def test_leaving_out_a_point_of_which_nothing_stays_makes_the_same_history() -> None:
    histories = []
    for at_once in (True, False):
        scene = Scene()
        scene.write_until_point()
        if not at_once:
            scene.compact_all()
        scene.trim(scene.topics[GroupId(1)].topic_machine.high_water_mark - 1)
        scene.write_until_point()
        if not at_once:
            scene.compact_all()
        scene.trim(scene.topics[GroupId(1)].topic_machine.high_water_mark)
        scene.write_until_point()
        scene.compact_all()
        image = scene.topics[GroupId(1)].image.manifest
        histories.append([(each.start, each.end, each.digest) for each in image.history])
        assert len(scene.points()) == 3
        assert image.generation == (2 if at_once else 3)
    assert histories[0] == histories[1] != []


def test_a_trim_past_damage_that_nobody_heals_lets_compaction_go_on() -> None:
    scene = Scene()
    local = scene.topics[GroupId(1)]
    scene.write_until_point()
    scene.compact_all()
    (damaged,) = local.image.manifest.history
    file = scene.fs.open(f"{scene.store.folder_of(local.group)}/{damaged.name}", create=False)
    file.write_at(0, [bytes(damaged.byte_count)])
    file.sync()
    while scene.compactions.overload(local) is None:
        scene.write(1)
        while scene.driver.jobs:
            job, done = scene.driver.jobs.pop(0)
            with pytest.raises(CorruptFile) as raised:
                compact(scene.fs, job)
            done(raised.value)
    assert len(local.replica.points) == POINTS_BEHIND
    trimmed_to = local.topic_machine.high_water_mark
    scene.trim(trimmed_to)
    assert len(local.replica.points) == POINTS_BEHIND + 1
    scene.tick(RETRY_TICKS)
    scene.compact_all()
    assert scene.compactions.overload(local) is None
    assert damaged.name not in scene.files()
    scene.write_until_point()
    scene.compact_all()
    assert [each.start for each in local.image.manifest.history] == [trimmed_to]


def test_a_trim_past_damage_is_enough_though_other_records_of_its_point_stay() -> None:
    scene = Scene()
    local = scene.topics[GroupId(1)]
    scene.write_until_point()
    scene.compact_all()
    (damaged,) = local.image.manifest.history
    path = f"{scene.store.folder_of(local.group)}/{damaged.name}"
    scene.fs.unreadable = frozenset({path})

    def compact_what_can_be() -> None:
        while scene.driver.jobs:
            job, done = scene.driver.jobs.pop(0)
            try:
                done(compact(scene.fs, job))
            except CorruptFile as damage:
                done(damage)
            scene.driver.run()

    while scene.compactions.overload(local) is None:
        scene.write(1)
        compact_what_can_be()
    scene.trim(damaged.end)
    last = local.replica.points[-1].index
    for _ in range(2):
        scene.tick(RETRY_TICKS)
        compact_what_can_be()
    assert scene.compactions.overload(local) is None
    assert local.image.manifest.index == last
    assert [each.start for each in local.image.manifest.history] == [damaged.end]


def test_past_damage_no_point_is_left_out_of_which_anything_stays() -> None:
    """Small files are joined at each point, so a history that leaves one out has other borders."""
    histories = []
    for is_damaged in (False, True):
        scene = Scene()
        local = scene.topics[GroupId(1)]
        scene.small_file_bytes = 1
        scene.write_until_point()
        scene.compact_all()
        (first,) = local.image.manifest.history
        if is_damaged:
            path = f"{scene.store.folder_of(local.group)}/{first.name}"
            scene.fs.unreadable = frozenset({path})
        scene.write_until_point()
        if is_damaged:
            ((_, done),) = scene.driver.jobs
            scene.driver.jobs.clear()
            done(CorruptFile(file=path, position=0, problem="cannot be read"))
        else:
            scene.compact_all()
        scene.trim(local.topic_machine.high_water_mark)
        for _ in range(3):
            scene.write_until_point()
            if not is_damaged:
                scene.compact_all()
        scene.tick(RETRY_TICKS)
        scene.compact_all()
        image = local.image.manifest
        histories.append((image.index, [(each.start, each.digest) for each in image.history]))
    assert len(histories[0][1]) > 1
    assert histories[0] == histories[1]


def test_a_state_too_large_for_a_file_is_passed_over_once_it_is_small_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    local = scene.topics[GroupId(1)]
    monkeypatch.setattr(checked_file, "BYTES_MAX", 8 * 1024)

    def compact_what_can_be() -> None:
        while scene.driver.jobs or scene.driver.asked:
            if scene.driver.jobs:
                job, done = scene.driver.jobs.pop(0)
                done(reply_to(scene.fs, encode_job(job), 1.0))
            scene.driver.run()

    writers = [str(number).ljust(1000, "w") for number in range(3 * EVERY)]
    for writer in writers:
        scene.apply(replace(EMPTY_EPOCH, key=key(0, writer=writer)))
    compact_what_can_be()
    (failed,) = scene.driver.told
    assert isinstance(failed, CompactionFailed)
    assert "the limit is 8192" in failed.cause
    assert scene.compactions.overload(local) is not None, "no more is taken"
    assert len(local.replica.points) > 1
    for writer in writers[1:]:
        scene.apply(RemoveWriter(writer=writer))
        scene.tick(RETRY_TICKS)
        compact_what_can_be()
    assert scene.compactions.overload(local) is None
    assert local.image.manifest.index == scene.points()[-1]


def test_a_file_that_somebody_removed_meanwhile_is_not_missed_when_its_turn_comes() -> None:
    scene = Scene(segment_bytes=400)
    scene.write_until_point()
    scene.compact_all()
    local = scene.topics[GroupId(1)]
    folder = scene.store.folder_of(local.group)
    scene.write_until_point()
    scene.compact()
    (small,) = local.image.manifest.history
    for name in (small.name, min(scene.files())):
        scene.fs.remove(f"{folder}/{name}")
    scene.compact_all()
    assert local.image.manifest.generation == 2
    assert small.name not in scene.files()


def _refuse(operation: str, path: str) -> None:
    if operation == "create":
        raise DiskFull(file=path)


def test_damaged_snapshots_are_made_again_though_older_points_are_replayed() -> None:
    """The log reaches back far enough to replay points whose history was cut long ago."""
    scene = Scene(segment_bytes=1 << 20)
    scene.write(4 * (EVERY + 1))
    scene.compact_all()
    image = scene.topics[1].image.manifest
    assert (image.index, image.base[0]) == (scene.points()[-1], 0)
    for info in image.snapshots[-2:]:
        path = f"{scene.store.folder_of(GroupId(1))}/{info.name}"
        scene.fs.open(path, create=False).write_at(0, [b"damage"])
        scene.fs.open(path, create=False).sync()
    scene.restart()
    assert [type(event) for event in scene.driver.told] == 2 * [DamagePassedOver]
    scene.compact_all()
    scene.write(2 * (EVERY + 1))
    scene.compact_all()
    assert not [event for event in scene.driver.told if isinstance(event, CompactionFailed)]
    assert scene.topics[1].image.manifest.index > image.index
    assert scene.offsets() == list(range(6 * (EVERY + 1)))
