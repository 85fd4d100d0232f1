"""A state in which a member has changed one number is rejected, or it ends nothing: the machine
that is made of it applies what comes, and its own next state is read back."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import pytest

from raftlog.core.membership import Membership
from raftlog.core.types import COUNT_MAX, GroupId, LogIndex, NodeId, Offset, Term
from raftlog.errors import CorruptFile, LogFromNewerVersion
from raftlog.image.machine import Machine, new_machine, restored
from raftlog.image.manifest import SnapshotInfo
from raftlog.machines.columns import NUMBER_BYTES
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    AlterTopic,
    Command,
    Configure,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    PlaceGroup,
    RegisterNode,
    RemoveWriter,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
    SetParents,
    SetSchema,
    SetWriterOwner,
    SnapshotPoint,
    TopicCommand,
    Trim,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.encoding import encode_outcome
from raftlog.machines.evolution import ColumnChange, evolved
from raftlog.machines.group_info import CONTROLLER, GroupInfo, KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import DeleteKey, OpenSession, PutKey
from raftlog.machines.limits import INTEGER_MAX
from raftlog.machines.outcomes import Refused, TopicOutcome
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.settings import TopicSetting
from raftlog.machines.state import MachineState, TopicState
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import GroupState, encode_state
from raftlog.wire.codec_states import RECEIVED_FIELDS_MAX
from tests.costs import seed_of_the_day
from tests.machines.scenes import SCHEMA, TOPIC, Scene, expire, key

NUMBERS = (-1, 0, 1, 2**31, COUNT_MAX, COUNT_MAX + 1, INTEGER_MAX)
HOUR_US = 3_600_000_000
NOW_US = 10**15
KV = KvInfo(group=GroupId(2), voters=(NodeId(1),), created_us=0, rules=1)
SETTINGS = (TopicSetting(name="retention_s", value=9),)
ONE, TWO, THREE, FOUR, FIVE = map(NodeId, range(1, 6))
ADDS = (ColumnChange(action="add", name="b", type='"long"'),)


class Recorded(NamedTuple):
    """A machine's state, and what its log goes on with."""

    info: GroupInfo
    state: MachineState
    later: list[Any]


class Recording(Scene):
    """A scene that keeps its commands."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[TopicCommand] = []

    def apply(self, command: TopicCommand) -> TopicOutcome:
        self.commands.append(command)
        return super().apply(command)


def recorded_topic() -> Recorded:
    """Something of each part of a topic's state, and then each kind of command."""
    scene = Recording()
    for number in range(3):
        for producer in "pq":
            data = scene.new_batch(10, 100_000)
            scene.append(number, data, producer=producer, now_us=NOW_US)
    scene.apply(Trim(offset=Offset(7)))
    scene.write_epoch(key(0), 3)
    scene.write_epoch(key(1), 3, 4)
    opened = scene.stage_all(key(2), "open", 2, 3)
    scene.stage_all(key(2), "other", 1)
    once = key(0, writer="once", run="once", streaming=False)
    scene.commit_epoch(once, scene.stage_all(once, "once", 1), transient=True)
    scene.apply(Configure(version=LogIndex(4), settings=SETTINGS))
    schema = evolved(SCHEMA, ADDS)
    assert not isinstance(schema, str)
    scene.apply(SetSchema(schema=schema))
    state, before = scene.machine.state(), len(scene.commands)
    for producer, number in (("p", 2), ("p", 3), ("new", 0)):
        scene.append(number, scene.new_batch(10, 100_000), producer=producer, now_us=NOW_US + 1)
    scene.stage(key(2), "other", 1, scene.new_batch(2), now_us=NOW_US)
    scene.commit_epoch(key(2), opened, now_us=NOW_US)
    for repeated in (key(2), key(1, run="run-2"), once):
        scene.commit_epoch(repeated, opened)
    for new in (key(3, run="run-2"), key(0, writer="x")):
        scene.commit_epoch(new, scene.stage_all(new, "new", 5))
    scene.stage_all(key(4, run="run-2"), "late", 1, now_us=NOW_US)
    scene.abort_epoch(key(2))
    for offset in (9, INTEGER_MAX - 1):
        scene.apply(Trim(offset=Offset(offset)))
    scene.apply(Configure(version=LogIndex(9), settings=()))
    scene.apply(SetWriterOwner(writer="w", owner="o"))
    scene.apply(SnapshotPoint(keep_from=LogIndex(1)))
    scene.apply(Rules(version=RULES_LATEST))
    for now_us in (NOW_US + 2 * HOUR_US, INTEGER_MAX - 1):
        scene.apply(expire(now_us, HOUR_US))
    scene.apply(RemoveWriter(writer="w"))
    return Recorded(TOPIC, state, scene.commands[before:])


def create(name: str, number: int) -> CreateTopic:
    return CreateTopic(
        name=name,
        incarnation=f"{number:032x}",
        schema=SCHEMA,
        voters=(ONE, TWO, THREE),
        if_not_exists=False,
        timestamp_us=NOW_US,
        settings=SETTINGS,
    )


def register(node: NodeId) -> RegisterNode:
    return RegisterNode(
        node=node, store_uuid=f"{node}", address=f"127.0.0.1:{node}", rules=RULES_LATEST
    )


def observer(node: NodeId, *parents: NodeId) -> AddNode:
    return AddNode(node=node, address=f"127.0.0.1:{node}", observer=True, parents=parents)


def leaves(node: NodeId) -> SetDuty:
    return SetDuty(node=node, draining=True, leaving=True)


def recorded_controller() -> Recorded:
    before: list[Any] = [
        *map(register, (ONE, TWO, THREE, NodeId(9))),
        observer(FOUR, ONE),
        observer(FIVE, FOUR),
        leaves(NodeId(9)),
        RetireNode(node=NodeId(9)),
        *(create(name, number) for number, name in enumerate("abc")),
        DeleteTopic(name="c", incarnation=""),
        AlterSchema(name="a", incarnation="", version=1, changes=ADDS),
        CreateKv(voters=(ONE, TWO), timestamp_us=NOW_US),
        PlaceGroup(group=GroupId(1), voters=(ONE, TWO), generation=0, former=(ONE, TWO, THREE)),
    ]
    later: list[Any] = [
        register(ONE),
        observer(NodeId(6), FIVE),
        SetParents(node=FOUR, parents=(ONE, TWO)),
        SetParents(node=FOUR, parents=(FIVE,)),
        ReportPlacement(group=GroupId(1), generation=1),
        PlaceGroup(group=GroupId(1), voters=(ONE,), generation=1, former=(ONE, TWO)),
        create("d", 9),
        AlterTopic(name="a", incarnation="", settings=SETTINGS),
        AlterSchema(name="a", incarnation="", version=2, changes=ADDS),
        AlterSchema(
            name="a",
            incarnation="",
            version=2,
            changes=(ColumnChange(action="drop", name="b"),),
        ),
        DeleteTopic(name="b", incarnation=""),
        leaves(THREE),
        RetireNode(node=THREE),
        CreateKv(voters=(ONE,), timestamp_us=NOW_US),
        SnapshotPoint(keep_from=LogIndex(1)),
        Rules(version=RULES_LATEST),
    ]
    return recorded(CONTROLLER, ControllerMachine(), before, later)


def recorded_kv() -> Recorded:
    mine: dict[str, str] = {"session": "5" * 32, "owner": "o"}
    puts = [
        PutKey(**mine, sequence=number, key=f"k{number}", value=b"v", expected=-1)
        for number in (1, 2, 3)
    ]
    opened = OpenSession(**mine, ends="")
    later = [
        *puts[1:],
        DeleteKey(**mine, sequence=4, key="k1", expected=-1),
        OpenSession(session="6" * 32, owner="o", ends="5" * 32),
        SnapshotPoint(keep_from=LogIndex(1)),
        Rules(version=RULES_LATEST),
    ]
    return recorded(KV, KvMachine(KV), [opened, *puts[:2]], later)


def recorded(
    info: GroupInfo, machine: Any, before: Sequence[Command], later: Sequence[Command]
) -> Recorded:
    for index, command in enumerate(before, 1):
        assert not isinstance(machine.apply(LogIndex(index), command), Refused), command
    return Recorded(info, machine.state(), list(later))


# ---------------------------------------------------------------- one number is another one


def forged(record: Any) -> Iterator[tuple[str, Any]]:
    """The record with one of its numbers replaced, or a number of a packed column; in each tuple
    the first and the last member stand for all."""
    if isinstance(record, bool | str):
        return
    if isinstance(record, int):
        yield from ((f" = {number}", number) for number in NUMBERS)
    elif isinstance(record, bytes):
        for place in {0, len(record) // NUMBER_BYTES - 1}:
            start, end = NUMBER_BYTES * place, NUMBER_BYTES * (place + 1)
            for number in NUMBERS if 0 <= start < end <= len(record) else ():
                packed = number.to_bytes(NUMBER_BYTES, "little", signed=True)
                yield f"[{place}] = {number}", record[:start] + packed + record[end:]
    elif isinstance(record, tuple) and not hasattr(record, "_fields"):
        for place in {0, len(record) - 1} if record else ():
            for where, member in forged(record[place]):
                yield f"[{place}]{where}", (*record[:place], member, *record[place + 1 :])
    else:
        fields = getattr(record, "_fields", None) or [
            each.name for each in dataclasses.fields(record)
        ]
        replace: Any = dataclasses.replace
        if hasattr(record, "_fields"):
            replace = type(record)._replace
        for name in fields:
            for where, value in forged(getattr(record, name)):
                yield f".{name}{where}", replace(record, **{name: value})


def goes_on(machine: Machine, info: GroupInfo, index: int, later: Sequence[Any]) -> None:
    """Whatever comes after the entry is applied or rejected, and the state after each of them can
    be read back."""
    for number, command in enumerate(later, index + 1):
        encode_outcome(machine.apply(LogIndex(number), command))
        snapshot = at(number, machine.state())
        again = restored(info, snapshot, encoded(machine.state())).machine
        assert again.fingerprint() == machine.fingerprint(), command
    if isinstance(machine, ControllerMachine):
        for node in machine.nodes:
            machine.nodes.level_of(node)
        for each in machine.groups():  # the node makes its replicas of them
            new_machine(each)
            Membership(machine.voters_of(each))


def encoded(state: MachineState) -> bytes:
    return encode_state(GroupState(state))


def at(index: int, state: MachineState) -> SnapshotInfo:
    """A snapshot that claims to have the state."""
    mark = state.extents.high_water_mark if isinstance(state, TopicState) else Offset(0)
    return SnapshotInfo(index=LogIndex(index), term=Term(1), mark=mark, state_hash=bytes(8))


@pytest.mark.slow
@pytest.mark.parametrize("index", [1_000, COUNT_MAX])
@pytest.mark.parametrize("made", [recorded_topic, recorded_controller, recorded_kv])
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_no_number_of_a_state_that_a_member_gives_ends_the_node_that_takes_it(
    every: int, made: Callable[[], Recorded], index: int
) -> None:
    """Other numbers each day. Replay: NUMBERS_SEED=<seed>."""
    seed = seed_of_the_day("NUMBERS_SEED")
    print(f"seed {seed}")
    info, state, later = made()
    seen: Counter[str] = Counter()
    for where, other in islice(forged(state), seed % every, None, every):
        try:
            data = encoded(other)
        except (ValueError, TypeError):
            continue  # no bytes can say it
        try:
            machine = restored(info, at(index, other), data, received=True).machine
        except (CorruptFile, LogFromNewerVersion):
            seen["rejected"] += 1
            continue
        seen["taken"] += 1
        print(f"{type(state).__name__}{where}")  # the last line, if the test fails
        goes_on(machine, info, index, later)
    assert min(seen["rejected"], seen["taken"]) > 20 // every


def test_a_sound_state_is_taken() -> None:
    for info, state, later in (recorded_topic(), recorded_controller(), recorded_kv()):
        snapshot = at(1_000, state)
        machine = restored(info, snapshot, encoded(state), received=True).machine
        assert machine.state() == state
        goes_on(machine, info, 1_000, later)


@pytest.mark.slow
def test_a_state_of_another_node_is_not_parsed_beyond_its_bound() -> None:
    """Two bytes of it were an object of 300. A node's own may have more fields."""
    info, state, _ = recorded_controller()
    more = pb.ControllerState(retired=[2**31] * (RECEIVED_FIELDS_MAX + 1))
    data = encoded(state) + pb.MachineState(controller=more).SerializeToString()
    with pytest.raises(CorruptFile, match="MachineState has more than 4000000 fields"):
        restored(info, at(1_000, state), data + b"what no parser reads", received=True)
    with pytest.raises(CorruptFile, match="two are the same"):
        restored(info, at(1_000, state), data)
