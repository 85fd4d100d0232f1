"""A machine's state is a value: what is made of it goes on exactly as the machine itself.

Each seed is one history. To replay seed 17:
`pytest "tests/machines/test_state.py::test_a_restored_machine_goes_on_as_the_original[17]"`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from raftlog.core.membership import Membership, MembershipAt
from raftlog.core.types import LogIndex, NodeId, Offset
from raftlog.errors import LogFromNewerVersion, MalformedRequest
from raftlog.machines.byte_index import JoinedIndex
from raftlog.machines.commands import (
    AbortEpoch,
    AlterTopic,
    Append,
    CommitEpoch,
    Configure,
    ControllerCommand,
    CreateTopic,
    DeleteTopic,
    EpochKey,
    Expire,
    RegisterNode,
    RemoveWriter,
    Rules,
    SetWriterOwner,
    SnapshotPoint,
    Stage,
    TopicCommand,
    Trim,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.digest import StateDigest
from raftlog.machines.extents import ExtentIndex
from raftlog.machines.limits import ControllerLimits, TopicLimits
from raftlog.machines.outcomes import Configured, SnapshotPointApplied, Trimmed
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Schema
from raftlog.machines.settings import SETTINGS, TopicSetting
from raftlog.machines.state import ControllerState, NodeState, TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import GroupState, decode_state, encode_state
from tests.machines.scenes import (
    SCHEMA,
    TOPIC,
    Scene,
    batch,
    code,
    key,
    reference,
    transient_writers,
    values,
)
from tests.machines.test_histories import History

SEEDS = 24
COMMANDS = 220
RULES_AT = 40
"""The step that raises the rules to the latest, which they have already."""
LIMITS = TopicLimits(
    writers_max=4, transient_writers_max=3, writer_bytes_max=12 * 1024, producers_max=3
)
"""So narrow that rows leave for want of room, and names are forgotten."""


class LongHistory:
    """A `History` whose clock advances, with crowds of producers and batch writes, ages and trims.

    `machine` is only asked what a leader would ask.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.owners = Random(f"{seed} owners")
        self.history = History(self.random)
        self.now_us = 0
        self.minted = 0
        self.waiting: list[TopicCommand] = []

    def commands(self, machine: TopicMachine) -> Iterator[TopicCommand]:
        for step in range(COMMANDS):
            if step == RULES_AT:
                yield Rules(version=RULES_LATEST)
                continue
            command = self._next(machine)
            self.now_us += self.random.randrange(10)
            yield self._timed(command)

    def _next(self, machine: TopicMachine) -> TopicCommand:
        if self.waiting:
            return self.waiting.pop()
        chance = self.random.random()
        if chance < 0.65:
            return self.history.next_command()
        if chance < 0.75:
            self.minted += 1
            return Append(
                producer=f"p{self.random.randrange(6)}",
                sequence=self.random.choice((0, 0, 0, 1, 2)),
                timestamp_us=0,
                batch=batch(10_000 + self.minted, 3, self.random.choice((10, 100_000))),
                owner=self.random.choice(("", "ada", "eve")),
            )
        if chance < 0.85:
            return self._batch_write()
        if chance < 0.9:
            return self._late_stream()
        lease_us = self.random.choice((50, 200, 5_000))
        mark = machine.high_water_mark
        return self.random.choice(
            [
                Expire(
                    timestamp_us=self.now_us,
                    epoch_lease_us=lease_us,
                    transient_writer_lease_us=lease_us,
                    producer_lease_us=lease_us,
                ),
                RemoveWriter(writer=self.random.choice("abc")),
                SetWriterOwner(writer=f"once-{self.random.randrange(8)}", owner="eve"),
                SnapshotPoint(keep_from=LogIndex(self.random.randrange(5))),
                Trim(offset=Offset(self.random.randrange(-1, mark + 5))),
                Trim(offset=Offset(mark // 2)),
                Configure(
                    version=LogIndex(self.random.randrange(9)),
                    settings=(TopicSetting(name="retention_s", value=self.random.randrange(9)),),
                ),
            ]
        )

    def _batch_write(self) -> TopicCommand:
        """One of a batch write without txnAppId, and later its CommitEpoch, or never."""
        self.minted += 1
        name = f"once-{self.random.randrange(8)}"
        of = EpochKey(writer=name, query_id=name, run=name, epoch=0, streaming=False)
        data = batch(20_000 + self.minted, 2)
        if self.random.random() < 0.7:
            named = reference(f"attempt-{self.minted}", [data])
            self.waiting.append(
                CommitEpoch(
                    key=of,
                    attempts=(named,),
                    schema_version=1,
                    timestamp_us=0,
                    keep_on_mismatch=False,
                    create_writer=False,
                    transient_writer=True,
                )
            )
        return Stage(
            key=of,
            attempt=f"attempt-{self.minted}",
            number=0,
            timestamp_us=0,
            batch=data,
            create_writer=False,
        )

    def _late_stream(self) -> TopicCommand:
        """A stage of a stream that began above epoch 0, as createTopic=always allows."""
        self.minted += 1
        name = f"late-{self.random.randrange(2)}"
        epoch = self.random.randrange(5, 8)
        return Stage(
            key=EpochKey(writer=name, query_id=name, run="run", epoch=epoch, streaming=True),
            attempt=f"attempt-{self.minted}",
            number=0,
            timestamp_us=0,
            batch=batch(30_000 + self.minted, 1),
            create_writer=self.random.random() < 0.3,
        )

    def _timed(self, command: TopicCommand) -> TopicCommand:
        if isinstance(command, Append | Stage | CommitEpoch):
            command = dataclasses.replace(command, timestamp_us=self.now_us)
        if isinstance(command, Stage | CommitEpoch | AbortEpoch):
            owner = self.owners.choice(("", "ada", "eve"))
            any_owner = self.owners.random() < 0.97
            command = dataclasses.replace(command, owner=owner, any_owner=any_owner)
        return command


def restored(machine: TopicMachine, limits: TopicLimits = LIMITS) -> TopicMachine:
    """What a snapshot of the machine becomes."""
    state = decode_state(encode_state(GroupState(machine.state()))).machine
    assert state == machine.state()
    assert isinstance(state, TopicState)
    made = TopicMachine.restore(TOPIC, state, limits)
    assert made.state() == state
    return made


NODES = (NodeId(1), NodeId(2), NodeId(3))


@cache
def states() -> tuple[GroupState, ...]:
    """A few states of every kind, to be broken."""
    found: list[GroupState] = []
    changed = MembershipAt(LogIndex(7), Membership(NODES[:2], NODES[1:], NODES[2:]))
    for seed in range(4):
        topic, controller = TopicMachine(TOPIC, LIMITS), ControllerMachine()
        for index, command in enumerate(LongHistory(seed).commands(topic), 1):
            topic.apply(LogIndex(index), command)
        for index, request in enumerate(controller_commands(Random(seed)), 1):
            controller.apply(LogIndex(index), request)
        found += [GroupState(topic.state(), changed), GroupState(controller.state())]
    return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_restored_machine_goes_on_as_the_original(seed: int) -> None:
    """One machine keeps all its extents, one drops some, one is restored again and again."""
    chance, history = Random(f"{seed} restores"), LongHistory(seed)
    kept = TopicMachine(TOPIC, LIMITS)
    dropping, again = TopicMachine(TOPIC, LIMITS), TopicMachine(TOPIC, LIMITS)
    for index, command in enumerate(history.commands(kept), 1):
        outcome = kept.apply(LogIndex(index), command)
        at = f"seed {seed}, entry {index}: {command}"
        assert dropping.apply(LogIndex(index), command) == outcome, at
        assert again.apply(LogIndex(index), command) == outcome, at
        if chance.random() < 0.1:
            dropping.drop_extents_before(Offset(chance.randrange(kept.high_water_mark + 2)))
        if chance.random() < 0.05:
            again = restored(again)
            assert again.extents_start == again.high_water_mark
        for other in (dropping, again):
            assert other.fingerprint() == kept.fingerprint(), at
            assert figures(other) == figures(kept), at
            check_sums(other, at)
    assert again.state() == dropping.state() == kept.state(), f"seed {seed}"


def check_sums(machine: TopicMachine, at: str) -> None:
    """What is kept of the open epochs is what a walk over them finds."""
    staged: Counter[str] = Counter()
    for row in machine.writers_after("", 1000):
        staged[row.owner] += row.staged_bytes
    assert machine.staged_bytes == staged.total(), at
    for owner in ("", "ada", "eve"):
        assert machine.staged_bytes_of(owner) == staged[owner], (owner, at)
    assert machine.open_epoch_count == len(machine.open_epochs()), at


def figures(machine: TopicMachine) -> list[object]:
    """What people and leaders are told, which is no part of the fingerprint."""
    return [
        machine.log_start_offset, machine.high_water_mark, machine.record_bytes,
        machine.staged_bytes, machine.dead_bytes, machine.open_epochs(),
        machine.state().producers.names, transient_writers(machine), list(machine.open_stages()),
    ]  # fmt: skip


def test_long_histories_meet_what_a_state_holds() -> None:
    """Otherwise the test above would show nothing of it."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        machine, history = TopicMachine(TOPIC, LIMITS), LongHistory(seed)
        for index, command in enumerate(history.commands(machine), 1):
            outcome = machine.apply(LogIndex(index), command)
            seen[code(outcome)] += 1
        state = machine.state()
        seen["several attempts"] += any(
            len(epoch.attempts) > 1 for row in state.writers.rows for epoch in row.open_epochs
        )
        seen["fenced"] += any(row.fenced_runs for row in state.writers.rows)
        seen["forgotten writers"] += bool(state.writers.forgotten)
        seen["forgotten producers"] += bool(state.producers.forgotten)
        seen["byte positions"] += len(state.extents.position_offsets) > 16
        seen["admitted"] += any(row.admitted for row in state.writers.rows)
        seen["streams around"] += any(row.fenced.stream_run for row in state.writers.rows)
    wanted = {
        "Appended", "Staged", "EpochCommitted", "EpochAborted", "Expired", "WriterRemoved",
        "Trimmed", "Configured", "SnapshotPointApplied", "WriterForgotten", "UnknownProducer",
        "RunFenced", "several attempts", "fenced", "forgotten writers", "forgotten producers",
        "byte positions", "streams around", "admitted", "WriterOfAnother",
    }  # fmt: skip
    never = sorted(each for each in wanted if seen[each] < 3)
    assert not never, f"met too rarely: {never}; met: {seen}"


# ---------------------------------------------------------------- the extents


def test_extents_dropped_or_trimmed_change_no_reader_in_the_middle_of_them() -> None:
    scene = Scene()
    for sequence in range(10):
        scene.append(sequence, scene.new_batch(10))
    machine = scene.machine
    reading = machine.extents_between(Offset(0), Offset(55))
    assert next(reading).start == 0
    machine.drop_extents_before(Offset(25))
    assert machine.extents_start == 20, "the extent that the offset divides stays"
    scene.append(10, scene.new_batch(10))
    scene.apply(Trim(offset=Offset(47)))
    assert (machine.log_start_offset, machine.extents_start) == (47, 40)
    assert [extent.start for extent in reading] == [10, 20, 30, 40, 50]
    assert [extent.start for extent in machine.extents_between(Offset(47), Offset(61))] == [
        40, 50, 60,
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="not within"):
        machine.extents_between(Offset(46), Offset(61))
    machine.drop_extents_before(machine.high_water_mark)
    assert machine.extents_start == machine.high_water_mark == 110
    assert list(machine.extents_between(Offset(110), Offset(110))) == []
    before = machine.byte_index(Offset(110))
    assert JoinedIndex([before]).split(Offset(110), Offset(110), 5) == ((110,), ())
    scene.append(11, scene.new_batch(5))
    assert machine.byte_index(Offset(115)).positions is before.positions, "no copy"
    for index in (before, machine.byte_index(Offset(110))):
        assert JoinedIndex([index]).split(Offset(110), Offset(115), 5) == ((110, 115), (1000,))


EXTENT = {
    "count": 5, "index": LogIndex(3), "timestamp_us": 7, "body_bytes": 100, "epoch": 2,
    "writer": "w",
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"count": 6}, {"index": LogIndex(4)}, {"timestamp_us": 8}, {"body_bytes": 101},
        {"epoch": 3}, {"writer": "v"},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_the_fingerprint_covers_every_value_of_extents_that_are_gone(
    changed: dict[str, Any],
) -> None:
    """Two extents and the same two the other way round: equal in sum, and both are dropped."""
    prints = []
    for pair in ((EXTENT, EXTENT | changed), (EXTENT | changed, EXTENT)):
        extents, digest = ExtentIndex(), StateDigest()
        for each in pair:
            extents.append(**each)
        extents.drop_before(extents.high_water_mark)
        extents.digest_into(digest)
        prints.append(digest.finish())
    assert prints[0] != prints[1]


def test_names_of_writers_do_not_outlive_their_extents() -> None:
    chance, extents = Random(5), ExtentIndex()
    written: list[str] = []
    for index in range(1000):
        written.append(f"writer {chance.randrange(300)}" if index % 7 else "")
        extents.append(
            count=1, index=LogIndex(index), timestamp_us=0, body_bytes=1, writer=written[-1]
        )
        extents.drop_before(Offset(index - chance.randrange(8)))
        start = extents.extents_start
        kept = extents.between(start, Offset(index + 1))
        assert [extent.writer for extent in kept] == written[start:]
        assert len(extents._rows.names) < 30


# ---------------------------------------------------------------- trims


def test_a_trim_moves_the_log_start_up_to_the_mark_and_never_back() -> None:
    scene = Scene()
    scene.append(0, batch(1, 10, 1000))
    scene.append(1, batch(2, 10, 3000))
    starts = [(5, 5), (3, 5), (10, 10), (15, 15), (99, 20), (0, 20)]
    for offset, start in starts:
        assert scene.apply(Trim(offset=Offset(offset))) == Trimmed(log_start_offset=Offset(start))
        assert scene.machine.log_start_offset == start
    assert scene.machine.record_bytes == 0
    scene.append(2, batch(3, 10, 500))
    assert (scene.machine.high_water_mark, scene.machine.record_bytes) == (30, 500)
    before = scene.machine.fingerprint()
    assert code(scene.apply(Trim(offset=Offset(-1)))) == "MalformedRequest"
    assert code(scene.apply(SnapshotPoint(keep_from=LogIndex(-1)))) == "MalformedRequest"
    assert scene.apply(SnapshotPoint(keep_from=LogIndex(7))) == SnapshotPointApplied(keep_from=7)
    assert scene.machine.fingerprint() == before


@pytest.mark.parametrize("bodies", ["small", "large", "mixed"])
def test_record_bytes_after_trims_are_near_the_truth(bodies: str) -> None:
    """A trim counts by the byte positions that the state holds: see `record_bytes`."""
    chance, scene = Random(7), Scene()
    sizes = {"small": (200, 2_000), "large": (400_000, 3_000_000), "mixed": (0, 800_000)}[bodies]
    written: list[int] = []
    kept = 0
    for sequence in range(6_000):
        size = chance.randint(*sizes)
        scene.append(sequence, batch(sequence, 10, size))
        written.append(size)
        if sequence % 700 == 699:
            before = sum(written[kept:])
            kept = chance.randrange(kept, len(written))
            scene.apply(Trim(offset=Offset(10 * kept)))
            off = abs(scene.machine.record_bytes - sum(written[kept:]))
            assert off <= sizes[1] + max(65_536, before // 1_000)
    columns = scene.machine.state().extents.position_offsets
    assert len(columns) <= 8 * 4_096


def test_a_time_is_found_among_the_records_that_are_left() -> None:
    scene = Scene()
    for sequence, now_us in enumerate((10, 10, 20, 30)):
        scene.append(sequence, scene.new_batch(5), now_us=now_us)
    machine = scene.machine
    found = [machine.offset_at(time_us) for time_us in (-1, 10, 11, 20, 30, 31)]
    assert found == [0, 0, 10, 10, 15, 20]
    scene.apply(Trim(offset=Offset(12)))
    assert [machine.offset_at(time_us) for time_us in (10, 20, 30)] == [12, 12, 15]
    machine.drop_extents_before(Offset(15))
    assert [machine.offset_at(time_us) for time_us in (10, 31)] == [15, 20]


def test_the_last_bytes_begin_at_an_extent_that_is_held_if_none_nearer_is_noted() -> None:
    extents = ExtentIndex()
    for index in range(10):
        extents.append(count=1, index=LogIndex(index), timestamp_us=0, body_bytes=100)
    extents.drop_before(Offset(5))
    found = [extents.offset_before_last(byte_count) for byte_count in (400, 500, 501)]
    assert found == [6, 5, 0]


def test_the_last_bytes_begin_at_the_nearest_noted_position_if_no_extent_is_held() -> None:
    extents = ExtentIndex()
    for index in range(10):
        extents.append(count=1, index=LogIndex(index), timestamp_us=0, body_bytes=65_536)
    extents.drop_before(Offset(10))
    sizes = (65_536, 65_537, 4 * 65_536, 10 * 65_536, 99 * 65_536)
    assert [extents.offset_before_last(byte_count) for byte_count in sizes] == [9, 8, 6, 0, 0]


# ---------------------------------------------------------------- the bytes


@pytest.mark.parametrize(
    ("limits", "unit"),
    [
        (TopicLimits(attempts_per_writer_max=2), "open attempts"),
        (TopicLimits(staged_entries_per_writer_max=3), "staged entries"),
    ],
)
def test_a_restored_writer_has_as_much_open_as_before(limits: TopicLimits, unit: str) -> None:
    scene = Scene(limits)
    scene.stage_all(key(0), "a", 1, 1)
    scene.stage_all(key(1), "b", 1, create_writer=True)
    machine = TopicMachine.restore(TOPIC, scene.machine.state(), limits)
    assert machine.staged_bytes == scene.machine.staged_bytes
    stage = Stage(
        key=key(0), attempt="c", number=0, timestamp_us=0, batch=batch(7), create_writer=False
    )
    for each in (machine, scene.machine):
        assert values(each.apply(LogIndex(9), stage))["unit"] == unit


def test_open_stages_are_named_in_order() -> None:
    scene = Scene()
    scene.stage_all(key(0), "a", 1)
    scene.stage_all(key(0, writer="v"), "b", 1, 1)
    scene.stage(key(0), "a", 1, scene.new_batch())
    done = scene.stage_all(key(0, writer="u"), "c", 1)
    scene.stage(key(0, writer="v"), "d", 0, scene.new_batch())
    assert [each.index for each in scene.machine.open_stages()] == [1, 2, 3, 4, 5, 6]
    scene.commit_epoch(key(0, writer="u"), done)
    assert [each.index for each in scene.machine.open_stages()] == [1, 2, 3, 4, 6]


def test_who_decides_is_kept_with_the_state_once_it_was_changed() -> None:
    state = Scene().machine.state()
    unchanged = encode_state(GroupState(state))
    assert decode_state(unchanged) == GroupState(state, None)
    at = LogIndex(41)
    for membership in (Membership(NODES), Membership(NODES[:2], NODES[1:], NODES[2:])):
        changed = GroupState(state, MembershipAt(at, membership))
        assert encode_state(changed).startswith(unchanged)
        assert decode_state(encode_state(changed)) == changed


def test_a_membership_that_none_can_be_is_a_clear_error() -> None:
    sound = encode_state(GroupState(Scene().machine.state()))
    # Protobuf joins messages that follow one another.
    more = pb.MachineState(membership=pb.MembershipState(index=1, command=b'{"voters":[2,1]}'))
    with pytest.raises(
        MalformedRequest, match="it names no voters, outgoing ones, learners and generation"
    ):
        decode_state(sound + more.SerializeToString())


def test_a_state_of_newer_rules_is_not_guessed_at() -> None:
    state = Scene().machine.state()
    newer = dataclasses.replace(state, rules=RULES_LATEST + 1, last_index=LogIndex(9))
    decoded = decode_state(encode_state(GroupState(newer))).machine
    assert isinstance(decoded, TopicState)
    with pytest.raises(LogFromNewerVersion, match="rules version"):
        TopicMachine.restore(TOPIC, decoded)


def _defects(state: TopicState) -> Iterator[tuple[str, TopicState]]:
    """States that no machine has, and what the error says of each."""
    replace = dataclasses.replace
    extents, producers, writers = state.extents, state.producers, state.writers
    yield "a number of 0 in TopicState.rules", replace(state, rules=0)
    yield "a number of -1", replace(state, unused_bytes=-1)
    for schema in (SCHEMA, Schema(version=2, fields=())):
        yield "that no topic comes to", replace(state, schemas=(schema,))
    later = Schema(version=2, fields=SCHEMA.fields)
    yield "2 schemas; there is one at most", replace(state, schemas=(later, later))
    yield "digest of 3 bytes", replace(state, extents=replace(extents, digest=b"abc"))
    for name in ("position_offsets", "position_bytes"):
        odd = replace(extents, **{name: getattr(extents, name) + b"1"})
        yield "byte positions in columns", replace(state, extents=odd)
    beyond = replace(extents, high_water_mark=Offset(-1))
    yield "a number of -1 in ExtentsState.high_water_mark", replace(state, extents=beyond)
    falling = replace(
        extents,
        position_offsets=extents.position_offsets + bytes(8),
        position_bytes=extents.position_bytes + bytes(8),
    )
    yield "byte positions that fall", replace(state, extents=falling)
    twice_noted = replace(
        extents,
        position_offsets=2 * extents.position_offsets[:8],
        position_bytes=2 * extents.position_bytes[:8],
    )
    yield "two byte positions of one offset", replace(state, extents=twice_noted)
    at_the_mark = replace(
        extents,
        position_offsets=extents.high_water_mark.to_bytes(8, "little"),
        position_bytes=(extents.published_bytes - 1).to_bytes(8, "little"),
    )
    yield "bytes end", replace(state, extents=at_the_mark)
    for change, what in (
        ({"names": producers.names[1:]}, "producers in columns"),
        ({"names": producers.names[:1] * len(producers.names)}, "two are the same"),
        ({"appends": producers.appends[8:]}, "not those of the producers"),
        ({"forgotten": ("a", "a")}, "two are the same"),
        ({"ages": replace(producers.ages, keys=b"", times_us=b"")}, "ages of producers"),
    ):
        yield what, replace(state, producers=replace(producers, **change))
    far = replace(writers.transient, keys=(99).to_bytes(8, "little"), times_us=bytes(8))
    twice = replace(writers.transient, keys=bytes(16), times_us=bytes(16))
    row = next(row for row in writers.rows if row.open_epochs)
    opened = row.open_epochs[0]
    attempt = replace(opened.attempts[0], crcs=b"")
    odd_attempt = replace(row, open_epochs=(replace(opened, attempts=(attempt,)),))
    fallen = replace(opened.attempts[0], indexes=bytes(16))
    fallen_attempt = replace(row, open_epochs=(replace(opened, attempts=(fallen,)),))
    for change, what in (
        ({"transient": far}, "that are not there"),
        ({"transient": twice}, "two are the same"),
        ({"rows": writers.rows * 2}, "two are the same"),
        ({"rows": (replace(row, epochs=row.epochs + bytes(8)),)}, "epochs in columns"),
        ({"rows": (odd_attempt,)}, "stages in columns"),
        ({"rows": (fallen_attempt,)}, "stages that do not rise"),
        ({"rows": (replace(row, last_end=Offset(10**6)),)}, "or beyond the topic"),
        ({"open_epochs": twice}, "ages of open epochs"),
    ):
        yield what, replace(state, writers=replace(writers, **change))


def test_a_state_that_no_machine_has_is_a_clear_error() -> None:
    scene = Scene()
    for producer in "pq":
        scene.append(0, scene.new_batch(body_bytes=100_000), producer=producer)
    scene.write_epoch(key(0), 3)
    scene.stage_all(key(1), "open", 1, 1)
    sound = scene.machine.state()
    assert decode_state(encode_state(GroupState(sound))).machine == sound
    for what, state in _defects(sound):
        with pytest.raises(MalformedRequest, match=what):
            decode_state(encode_state(GroupState(state)))


def test_a_topics_settings_never_go_back_to_an_earlier_version() -> None:
    """A leader whose replica of the controller is behind proposes what is no longer wanted."""
    scene, older = Scene(), (TopicSetting(name="retention_s", value=1),)
    scene.apply(Configure(version=LogIndex(9), settings=()))
    assert scene.apply(Configure(version=LogIndex(7), settings=older)) == Configured(version=9)
    assert scene.machine.settings == ()
    scene.apply(Configure(version=LogIndex(10), settings=older))
    assert (scene.machine.settings, scene.machine.settings_version) == (older, 10)


# ---------------------------------------------------------------- the controller


def controller_commands(random: Random) -> Iterator[ControllerCommand]:
    for step in range(120):
        name = random.choice(("a", "b", "c", "d"))
        incarnation = f"{random.randrange(12):032x}"
        if step == RULES_AT:
            yield Rules(version=RULES_LATEST)
            continue
        kind = random.random()
        if kind < 0.2:
            number = random.randrange(1, 4)
            yield RegisterNode(
                node=NodeId(number),
                store_uuid=f"{number + (random.random() < 0.1):032x}",
                address=f"127.0.0.1:{random.randrange(3)}",
                rules=RULES_LATEST,
            )
        elif kind < 0.6:
            yield CreateTopic(
                name=name,
                incarnation=incarnation,
                schema=SCHEMA,
                voters=(NodeId(1),),
                if_not_exists=random.random() < 0.3,
                timestamp_us=random.randrange(1000),
            )
        elif kind < 0.7:
            changes = tuple(
                TopicSetting(name=setting, value=random.randrange(-1, 3))
                for setting in random.sample((*SETTINGS, "retention"), 2)
            )
            given = random.choice(("", incarnation))
            yield AlterTopic(name=name, incarnation=given, settings=changes)
        elif kind < 0.95:
            given = random.choice(("", incarnation))
            yield DeleteTopic(name=name, incarnation=given)
        else:
            yield SnapshotPoint(keep_from=LogIndex(step))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_restored_controller_goes_on_as_the_original(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.machines.controller.DELETED_TOPICS_KEPT", 5)
    chance, limits = Random(f"{seed} restores"), ControllerLimits(topics_max=3)
    machine, again = ControllerMachine(limits), ControllerMachine(limits)
    for index, command in enumerate(controller_commands(Random(seed)), 1):
        outcome = machine.apply(LogIndex(index), command)
        assert again.apply(LogIndex(index), command) == outcome, f"entry {index}: {command}"
        if chance.random() < 0.2:
            state = decode_state(encode_state(GroupState(again.state()))).machine
            assert isinstance(state, ControllerState)
            assert state == again.state()
            again = ControllerMachine.restore(state, limits)
        assert again.fingerprint() == machine.fingerprint(), f"entry {index}: {command}"
        assert again.nodes == machine.nodes
    assert again.state() == machine.state()


def test_a_controllers_state_that_none_has_is_a_clear_error() -> None:
    machine = ControllerMachine()
    for index, command in enumerate(controller_commands(Random(1)), 1):
        machine.apply(LogIndex(index), command)
    state = machine.state()
    assert state.topics
    assert state.deleted
    assert state.nodes
    replace = dataclasses.replace

    def with_topic(**values: Any) -> ControllerState:
        return replace(state, topics=(replace(state.topics[0], **values),))

    def observers(*numbers: int, parents: tuple[NodeId, ...] = ()) -> tuple[NodeState, ...]:
        """Each pulls from all of them, unless `parents` are given."""
        nodes = tuple(map(NodeId, numbers))
        known = state.nodes[0]
        return tuple(
            replace(known, node=node, observer=True, parents=parents or nodes) for node in nodes
        )

    for what, broken in (
        ("names of topics", replace(state, topics=state.topics * 2)),
        ("groups, of which", replace(state, deleted=(*state.deleted, state.topics[0]))),
        ("is not between 0 and 1", replace(state, next_group_id=1)),
        ("nodes, of which", replace(state, nodes=state.nodes * 2)),
        ("nodes, of which", replace(state, retired=(state.nodes[0].node,))),
        ("parents are", replace(state, nodes=observers(1, 2, parents=(NodeId(0),)))),
        ("pull from each other: .*1", replace(state, nodes=observers(1))),
        ("pull from each other: .*1, 2", replace(state, nodes=observers(1, 2))),
        ("a group under rules 9", with_topic(rules=9)),
        ("voters are", with_topic(voters=(NodeId(2), NodeId(1)))),
        ("later than", with_topic(created_us=10**6)),
        ("name or columns", with_topic(name="../t")),
        ("a number of 0 in ControllerState.rules", replace(state, rules=0)),
    ):
        with pytest.raises(MalformedRequest, match=what):
            decode_state(encode_state(GroupState(broken)))
