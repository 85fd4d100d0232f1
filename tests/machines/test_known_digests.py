"""The digests of known states, and the bytes of known outcomes, stay as they are.

Replicas compare digests and hashes, also with replicas of another version, and a snapshot carries
both. So a change that alters one of these values needs a version of the rules. Each state here has
every part that its machine can have, and is reached by the same commands every time.
"""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    AlterTopic,
    Configure,
    ControllerCommand,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    EpochKey,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    SetDuty,
    SetParents,
    SetSchema,
    Stage,
    Trim,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.evolution import ADD, DROP, RENAME, SET_TYPE, ColumnChange, evolved
from raftlog.machines.kv import KvMachine
from raftlog.machines.limits import KvLimits, TopicLimits
from raftlog.machines.outcomes import Refused
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import SCHEMA, TOPIC, Scene, key
from tests.machines.test_kv import INFO, Store

LIMITS = TopicLimits(transient_writers_max=2, producers_max=2)
UNREAD_S = "retention_unread_s"
SETTINGS = (
    TopicSetting(name="retention_bytes", value=9),
    TopicSetting(name="retention_s", value=5),
)


ADDED = (
    ColumnChange(action=ADD, name="b", type='"integer"'),
    ColumnChange(action=ADD, name="c", type='"string"'),
)
ALTERED = (
    ColumnChange(action=SET_TYPE, name="b", type='"long"'),
    ColumnChange(action=RENAME, name="a", to="d"),
    ColumnChange(action=DROP, name="c"),
)
"""After these a schema has three former columns, all of version 1 or 2."""


def _changed(schema: Schema, *changes: ColumnChange) -> Schema:
    found = evolved(schema, changes)
    assert isinstance(found, Schema), found
    return found


# ---------------------------------------------------------------- a topic


def _topic() -> Scene:
    scene = Scene(LIMITS)
    for sequence, producer in ((0, "s"), (0, "r"), (0, "q"), (0, "p"), (1, "q"), (1, "p")):
        now_us = scene.index
        scene.append(
            sequence, scene.new_batch(3, 70_000), producer=producer, now_us=now_us, owner="ada"
        )
    _write_streams(scene)
    _write_batches(scene)
    scene.apply(Trim(offset=Offset(7)))
    scene.apply(Configure(version=LogIndex(4), settings=SETTINGS))
    scene.apply(SetSchema(schema=_changed(_changed(SCHEMA, *ADDED), *ALTERED)))
    return scene


def _write_streams(scene: Scene) -> None:
    """One that has committed in three runs and has two epochs open, one late, one of an owner."""
    for epoch in (0, 1, 2):
        of = key(epoch, run=f"run-{epoch}")
        named = scene.stage_all(of, "a", 5, 6, now_us=10 + epoch)
        scene.commit_epoch(of, named, plan=f"plan-{epoch}", now_us=20 + epoch)
    for number, (epoch, attempt) in enumerate(((4, "b"), (3, "b"), (3, "a"))):
        of = key(epoch, run="run-2")
        scene.stage_all(of, attempt, 2, 3, now_us=30 + number)
    scene.stage_all(key(5, writer="late"), "a", 2, create_writer=True, now_us=33)
    scene.apply(
        Stage(
            key=key(0, writer="owned"),
            attempt="a",
            number=0,
            timestamp_us=34,
            batch=scene.new_batch(1),
            create_writer=False,
            owner="ada",
        )
    )


def _write_batches(scene: Scene) -> None:
    """One inside foreachBatch, and some without a name, two of which are forgotten."""
    of = EpochKey(
        writer="job", query_id="job", run="write", epoch=6, streaming=False,
        stream="stream", stream_run="start", stream_batch=3,
    )  # fmt: skip
    scene.commit_epoch(of, scene.stage_all(of, "a", 4, now_us=40), now_us=41)
    for name in ("u4", "u3", "u2", "u1"):
        of = key(0, writer=name, query_id=name, run=name, streaming=False)
        scene.commit_epoch(of, scene.stage_all(of, "a", 1), transient=True, now_us=50)


def test_a_topics_digest_is_what_it_was() -> None:
    machine = _topic().machine
    state = machine.state()
    assert [row.name for row in state.writers.rows] == ["w", "late", "owned", "job", "u2", "u1"]
    assert (state.writers.forgotten, state.producers.forgotten) == (("u4", "u3"), ("s", "r"))
    assert len(state.extents.position_offsets) > 8
    assert len(state.schemas[0].former) == 3
    assert machine.fingerprint().hex() == "e5ef308e3a5cd608a7647886be94511e"
    assert TopicMachine.restore(TOPIC, state, LIMITS).fingerprint() == machine.fingerprint()


def test_a_new_topics_digest_is_what_it_was() -> None:
    assert Scene().machine.fingerprint().hex() == "f2dc7dc778ee9e84e50cdffd8a26ba49"


# ---------------------------------------------------------------- the controller


def _controller_commands() -> Iterator[ControllerCommand]:
    for node in (3, 1, 2, 9, 16, 7):
        yield RegisterNode(
            node=NodeId(node), store_uuid=f"s{node}", address=f"h{node}:1", rules=1, rack=f"r{node}"
        )
    yield AddNode(node=NodeId(4), address="h4:1", observer=True, parents=ids(1, 2))
    yield AddNode(node=NodeId(5), address="h5:1", observer=True)
    yield SetParents(node=NodeId(5), parents=ids(1, 4))
    for number, name in enumerate(("c", "b", "a", "d", "e")):
        yield CreateTopic(
            name=name,
            incarnation=f"{number:032x}",
            schema=SCHEMA,
            voters=ids(1, 2, 3),
            if_not_exists=False,
            timestamp_us=5 + number,
            settings=SETTINGS[number % 2 :],
        )
    yield AlterTopic(name="a", incarnation="", settings=(TopicSetting(name=UNREAD_S, value=3),))
    yield AlterSchema(name="b", incarnation="", version=1, changes=ADDED)
    yield AlterSchema(name="b", incarnation="", version=2, changes=ALTERED)
    for name in ("e", "d"):
        yield DeleteTopic(name=name, incarnation="")
    for group, voters in ((2, (1, 2, 7)), (1, (1, 3, 7))):
        wish = PlaceGroup(group=GroupId(group), voters=ids(*voters), generation=0, former=ids(1, 2))
        yield wish
        yield ReportPlacement(group=GroupId(group), generation=1)
    yield PlaceGroup(group=GroupId(1), voters=ids(2, 3), generation=1, former=ids(1, 2))
    for node in (9, 16, 2):
        yield SetDuty(node=NodeId(node), draining=node != 2, leaving=True)
    for node in (9, 16):
        yield RetireNode(node=NodeId(node))
    yield CreateKv(voters=ids(1, 3), timestamp_us=50)


def ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


def test_the_controllers_digest_is_what_it_was() -> None:
    machine = ControllerMachine()
    for index, command in enumerate(_controller_commands(), 1):
        assert not isinstance(machine.apply(LogIndex(index), command), Refused), command
    assert machine.fingerprint().hex() == "6c6c319aed4b32e632f8e786c54436b8"
    assert ControllerMachine.restore(machine.state()).fingerprint() == machine.fingerprint()


def test_a_new_controllers_digest_is_what_it_was() -> None:
    assert ControllerMachine().fingerprint().hex() == "ff9320be2ae10b0a30cc74ce97d7262c"


# ---------------------------------------------------------------- the key-value store


def test_the_key_value_stores_digest_is_what_it_was() -> None:
    store = Store(KvLimits(keys_max=2))
    for name in ("b", "a", "c"):
        store.put(name, name.encode())
    store.session, store.sequence = store.open(), 0
    store.share = "ada"
    store.put("a", b"3")
    store.put("a", b"2", expected=1)
    store.open()
    state = store.machine.state()
    assert [each.result for each in state.sessions] == [2, 1, 0]
    assert store.machine.fingerprint().hex() == "b575f0335f6ec8db6c00bbf69a4327ce"
    assert KvMachine.restore(INFO, state).fingerprint() == store.machine.fingerprint()
