"""What `make.py` records of observers (rules 6), of two nodes that leave at once (rules 7) and of
those that cannot leave (rules 8), and of later rules; like that, it runs with older checkouts."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.machines import commands as c
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema

_STORE = "5" * 32
_SCHEMA = Schema(version=1, fields=(Field(id=1, name="text", type='"string"', nullable=False),))


def record(script: Any) -> None:
    """Observers are added and told what to pull from; cycles and strangers are refused."""
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=6)
    for command in (
        _observe(11, 1), register, c.Rules(version=6), _observe(11, 1), _observe(11, 1),
        _observe(11), _observe(12, 11), _observe(13, 1, 12), _observe(14, 99), _observe(15, 2, 1),
        _pull(11, 13), _pull(11, 11), _pull(1, 11), _pull(99, 1), _pull(13), _pull(13, 0),
        _pull(13, 12), c.SetDuty(node=NodeId(12), draining=True, leaving=True),
        c.RetireNode(node=NodeId(12)), _pull(11, 13), _pull(13, 11), c.SnapshotPoint(keep_from=1),
    ):  # fmt: skip
        script.node.write(CONTROLLER_GROUP, command)
    if RULES_LATEST >= 7:
        _leave(script)
    if RULES_LATEST >= 8:
        _stay(script)
    if RULES_LATEST >= 9:
        _evolve(script)
    if RULES_LATEST >= 10:
        _overwrite(script)
    if RULES_LATEST >= 11:
        _wait_for_readers(script)
    if RULES_LATEST >= 12:
        _later_types(script)
        _within(script)
    if RULES_LATEST >= 13:
        _planes(script)


def _leave(script: Any) -> None:
    """The same under rules 6 and 7: of two voters that leave, one goes before the other."""
    write = script.node.write
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=7)
    for node in range(31, 36):
        write(CONTROLLER_GROUP, c.AddNode(node=NodeId(node), address=f"l{node}:1"))
    create = c.CreateTopic(
        name="left", incarnation="f" * 32, schema=_SCHEMA, voters=_ids(31, 32, 33),
        if_not_exists=False, timestamp_us=script.tick(),
    )  # fmt: skip
    group = write(CONTROLLER_GROUP, create).topic.group
    for node in (31, 32):
        write(CONTROLLER_GROUP, c.SetDuty(node=NodeId(node), draining=True, leaving=True))

    def place(*voters: int, generation: int) -> c.PlaceGroup:
        former = create.voters
        return c.PlaceGroup(group=group, voters=_ids(*voters), generation=generation, former=former)

    for command in (
        place(32, 33, 34, generation=0), register, c.Rules(version=7),
        place(32, 33, 34, generation=0), c.ReportPlacement(group=group, generation=1),
        c.RetireNode(node=NodeId(32)), c.RetireNode(node=NodeId(31)),
        place(32, 33, 99, generation=1), place(33, 34, 35, generation=1),
        c.ReportPlacement(group=group, generation=2), place(32, 33, 34, generation=2),
        c.RetireNode(node=NodeId(32)), c.SnapshotPoint(keep_from=1),
    ):  # fmt: skip
        write(CONTROLLER_GROUP, command)


def _stay(script: Any) -> None:
    """The same under rules 7 and 8: a node that nobody else has room for leaves, or one that a
    group goes back from is removed."""
    write = script.node.write
    for node in range(41, 45):
        write(CONTROLLER_GROUP, c.AddNode(node=NodeId(node), address=f"s{node}:1"))
        register = c.RegisterNode(
            node=NodeId(node), store_uuid=f"{node:032}", address=f"s{node}:1", rules=8
        )
        write(CONTROLLER_GROUP, register)
    create = c.CreateTopic(
        name="stays", incarnation="e" * 32, schema=_SCHEMA, voters=_ids(41, 42, 43),
        if_not_exists=False, timestamp_us=script.tick(),
    )  # fmt: skip
    group = write(CONTROLLER_GROUP, create).topic.group

    def place(*voters: int, generation: int) -> c.PlaceGroup:
        former = create.voters
        return c.PlaceGroup(group=group, voters=_ids(*voters), generation=generation, former=former)

    def duty(node: int, *, leaving: bool) -> c.SetDuty:
        return c.SetDuty(node=NodeId(node), draining=False, leaving=leaving)

    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=8)
    leave = [duty(node, leaving=True) for node in (1, *range(31, 36), 41, 42, 43)]
    drains = [
        c.SetDuty(node=NodeId(41), draining=draining, leaving=leaving, keeps_leaving=True)
        for draining, leaving in ((True, True), (False, True), (True, False))
    ]
    stay = [duty(node, leaving=False) for node in range(41, 44)]
    for command in (
        *leave, *stay, place(41, 42, 44, generation=0), place(41, 42, 43, generation=1),
        register, c.Rules(version=8), *leave, duty(44, leaving=True),
        c.RetireNode(node=NodeId(44)), c.ReportPlacement(group=group, generation=2),
        c.RetireNode(node=NodeId(44)), *stay, duty(44, leaving=True),
        c.RetireNode(node=NodeId(44)),
        dataclasses.replace(create, name="not", incarnation="d" * 32, voters=_ids(43, 44)),
        *drains, c.SnapshotPoint(keep_from=1),
    ):  # fmt: skip
        write(CONTROLLER_GROUP, command)


def _evolve(script: Any) -> None:
    """The same under rules 8 and 9: columns are added, widened, renamed, dropped and let be null,
    in one topic's log and in the controller's; what no topic takes is refused."""
    from raftlog.machines.evolution import ColumnChange, evolved

    write = script.node.write
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=9)

    def change(action: str, name: str, type: str) -> ColumnChange:
        return ColumnChange(action=action, name=name, type=type)

    _alter_columns(script, register, c.Rules(version=9))
    # A topic of this node, from before there were others: a new one would have to elect a leader.
    group, known = next(
        (local.group, local.machine.info.schema)
        for local in script.node.multiraft.replicas.values()
        if hasattr(local.machine, "high_water_mark")
    )
    first = evolved(known, [change("add", "gate", '"integer"')])
    second = evolved(first, [change("set type", "gate", '"long"')])
    other = evolved(known, [change("add", "a", '"string"')])
    other = evolved(other, [change("add", "b", '"string"')])
    later = (second, first, evolved(other, [change("add", "d", '"string"')]))
    for command in (c.SetSchema(schema=second), c.Rules(version=9), *map(_schema, later)):
        write(group, command)
    write(group, c.SnapshotPoint(keep_from=1))
    write(CONTROLLER_GROUP, c.SnapshotPoint(keep_from=1))


def _alter_columns(script: Any, *between: Any) -> None:
    """Topics in the controller's log, and changes of their columns; `between`: commands that come
    after the first topic."""
    from raftlog.machines.evolution import ColumnChange

    write = script.node.write
    text, whole = '"string"', '"integer"'
    schema = Schema(
        version=1,
        fields=(
            Field(id=3, name="text", type=text, nullable=False),
            Field(id=7, name="delay", type=whole, nullable=True),
        ),
    )

    def change(action: str, name: str, type: str = "", to: str = "") -> ColumnChange:
        return ColumnChange(action=action, name=name, type=type, to=to)

    def create(name: str, incarnation: str) -> Any:
        return write(
            CONTROLLER_GROUP,
            c.CreateTopic(
                name=name, incarnation=incarnation * 32, schema=schema, voters=_ids(42, 43),
                if_not_exists=False, timestamp_us=script.tick(),
            ),
        )  # fmt: skip

    def alter(name: str, version: int, *changes: ColumnChange) -> Any:
        command = c.AlterSchema(name=name, incarnation="", version=version, changes=changes)
        return write(CONTROLLER_GROUP, command)

    create("evolves-not", "c")
    alter("evolves-not", 1, change("add", "gate", text))
    for command in between:
        write(CONTROLLER_GROUP, command)
    alter("evolves-not", 1, change("rename", "delay", to="late"))
    create("evolves", "d")
    for version, *changes in (
        (1, change("add", "gate", text), change("add", "score", '"float"')),
        (1, change("add", "gate", text)), (1, change("add", "door", text)),
        (2, change("set type", "delay", '"long"'), change("set type", "score", '"double"')),
        (3, change("set type", "delay", whole)), (3, change("add", "gate", text)),
        (3, change("rename", "gate", to="Gate"), change("drop not null", "text")),
        (4, change("drop", "score")), (5, change("add", "score", text)), (5, change("drop", "z")),
        (6, change("drop", "text"), change("drop", "delay"), change("drop", "Gate"),
         change("drop", "score")), (6,), (0, change("drop", "score")),
        (6, change("add", "_offset", text)), (6, change("sort", "text")),
    ):  # fmt: skip
        alter("evolves", version, *changes)


def _overwrite(script: Any) -> None:
    """The same under rules 9 and 10: epochs that overwrite a topic with rows and without, and
    their replays, between appends and trims; some are refused."""
    write = script.node.write
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=10)
    write(CONTROLLER_GROUP, register)
    write(CONTROLLER_GROUP, c.Rules(version=10))
    for version in (9, 10):
        write(script.group, c.Rules(version=version))
        for run, epoch, texts, overwrite in (
            ("o1", 0, ["ab", "c"], False), ("o1", 1, ["def", "gh"], True), ("o1", 2, [], True),
            ("o2", 2, [], True), ("o2", 3, ["i"], True), ("o1", 4, ["fenced"], True),
            ("o2", 4, ["j", "kl"], False), ("o2", 5, ["m"], True), ("o3", 5, ["other"], False),
            ("o3", 5, ["n"], False),
        ):  # fmt: skip
            key = script.key(run, epoch, writer=f"over-{version}")
            named = [script.stage(key, f"{run}-{epoch}-{version}", texts)] if texts else []
            script.commit(key, *named, overwrite=overwrite, plan=f"plan-{epoch}-{texts}")
            script.append(f"between-{version}-{run}-{epoch}", 0, "plain")
    write(script.group, c.SnapshotPoint(keep_from=1))


def _wait_for_readers(script: Any) -> None:
    """The same before rules 11 and under them: settings by which retention waits for readers."""
    write = script.node.write
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=11)
    _alter_settings(script)
    write(CONTROLLER_GROUP, register)
    write(CONTROLLER_GROUP, c.Rules(version=11))
    _alter_settings(script)
    local = script.node.multiraft.replicas.get(script.group)
    configure = c.Configure(
        version=local.machine.settings_version + 1,
        settings=_settings(retention_s=100, retention_unread_s=200),
    )
    write(script.group, configure)
    write(script.group, c.Rules(version=11))
    write(script.group, c.SnapshotPoint(keep_from=1))


def _alter_settings(script: Any) -> None:
    for values in (
        {"retention_unread_s": 7}, {"retention_unread_bytes": 1, "retention_s": 1},
        {"retention_unread_bytes": 1 << 62}, {"retention_unread": 1}, {"retention_unread_s": 0},
    ):  # fmt: skip
        command = c.AlterTopic(name="evolves", incarnation="", settings=_settings(**values))
        script.node.write(CONTROLLER_GROUP, command)


def _settings(**values: int) -> tuple[Any, ...]:
    from raftlog.machines.settings import TopicSetting

    return tuple(TopicSetting(name=name, value=value) for name, value in values.items())


def _later_types(script: Any) -> None:
    """The same before rules 12 and under them: columns of types that earlier programs do not know,
    in the controller's log and in a topic's. None of them is widened.

    The controller comes this far only here. Until now it kept to rules 8, because a node that only
    knows these is still there. So the changes of columns and settings from above come once more.
    """
    from raftlog.machines.evolution import ColumnChange, evolved

    write = script.node.write
    _raise_controller(script, 11)
    _type_columns(script, "typed-before", "4")
    _raise_controller(script, 12)
    _alter_columns(script)
    _alter_settings(script)
    _type_columns(script, "typed", "5")
    local = script.node.multiraft.replicas.get(script.group)
    for number, kind in enumerate(_LATER[:2]):
        change = ColumnChange(action="add", name=f"later{number}", type=kind)
        write(script.group, c.SetSchema(schema=evolved(local.machine.info.schema, [change])))
        write(script.group, c.Rules(version=12))
    write(script.group, c.SnapshotPoint(keep_from=1))
    write(CONTROLLER_GROUP, c.SnapshotPoint(keep_from=1))


def _raise_controller(script: Any, version: int) -> None:
    """Let each node know these rules, and the controller apply by them."""
    for node, known in sorted(script.node.multiraft.replicas.controller.nodes.items()):
        if known.store_uuid:
            register = c.RegisterNode(
                node=node, store_uuid=known.store_uuid, address=known.address, rules=version
            )
            script.node.write(CONTROLLER_GROUP, register)
    script.node.write(CONTROLLER_GROUP, c.Rules(version=version))


_LATER = (
    *('"time(3)"', '"interval day to second"', '"variant"', '"string collate UNICODE_CI"'),
    '{"containsNull":true,"elementType":"time(9)","type":"array"}',
)


def _type_columns(script: Any, name: str, incarnation: str) -> None:
    """A topic with columns of these types, and more that are added to it."""
    from raftlog.machines.evolution import ColumnChange

    fields = tuple(
        Field(id=number, name=f"f{number}", type=kind, nullable=True)
        for number, kind in enumerate(_LATER, 1)
    )
    create = c.CreateTopic(
        name=name, incarnation=incarnation * 32, schema=Schema(version=1, fields=fields),
        voters=_ids(42, 43), if_not_exists=False, timestamp_us=script.tick(),
    )  # fmt: skip
    script.node.write(CONTROLLER_GROUP, create)
    changes = [
        ColumnChange(action="add", name=f"g{number}", type=kind)
        for number, kind in enumerate(_LATER, 1)
    ]
    finer = ColumnChange(action="set type", name="f1", type='"time(6)"')
    for version, some in ((1, changes[:3]), (2, (finer,)), (2, changes[3:]), (1, changes[3:])):
        command = c.AlterSchema(name=name, incarnation="", version=version, changes=tuple(some))
        script.node.write(CONTROLLER_GROUP, command)


def _within(script: Any) -> None:
    """Under rules 12: a struct within an array gets a field, and one of its fields is widened; what
    is no wider type is refused."""
    from raftlog.machines.evolution import ColumnChange

    kinds = [
        _array_of_structs(*parts)
        for parts in (
            [("x", "byte")], [("x", "short")], [("x", "long"), ("y", "date")], [("y", "date")],
            [("y", "date"), ("x", "long")], [("x", "long"), ("y", "date"), ("z", "variant")],
        )
    ]  # fmt: skip
    field = Field(id=1, name="at", type=kinds[0], nullable=True)
    create = c.CreateTopic(
        name="within", incarnation="3" * 32, schema=Schema(version=1, fields=(field,)),
        voters=_ids(42, 43), if_not_exists=False, timestamp_us=script.tick(),
    )  # fmt: skip
    script.node.write(CONTROLLER_GROUP, create)
    for version, kind in (
        (1, kinds[1]), (2, kinds[0]), (2, kinds[2].replace(",", ", ")), (2, kinds[2]),
        (3, kinds[3]), (3, kinds[4]), (2, kinds[2]), (3, kinds[5]), (4, '"long"'),
    ):  # fmt: skip
        change = ColumnChange(action="set type", name="at", type=kind)
        command = c.AlterSchema(name="within", incarnation="", version=version, changes=(change,))
        script.node.write(CONTROLLER_GROUP, command)


def _planes(script: Any) -> None:
    """A topic that is created before rules 13, and one under them: only its column chunks may hold
    byte planes."""
    for version, name in ((12, "whole"), (13, "planes")):
        _raise_controller(script, version)
        create = c.CreateTopic(
            name=name, incarnation=f"{version:x}" * 32, schema=_SCHEMA, voters=_ids(42, 43),
            if_not_exists=False, timestamp_us=script.tick(),
        )  # fmt: skip
        script.node.write(CONTROLLER_GROUP, create)
    script.node.write(CONTROLLER_GROUP, c.SnapshotPoint(keep_from=1))


def _array_of_structs(*parts: tuple[str, str]) -> str:
    fields = [
        {"metadata": {}, "name": name, "nullable": True, "type": kind} for name, kind in parts
    ]
    struct = {"fields": fields, "type": "struct"}
    array = {"containsNull": True, "elementType": struct, "type": "array"}
    return json.dumps(array, sort_keys=True, separators=(",", ":"))


def _schema(schema: Any) -> Any:
    return c.SetSchema(schema=schema)


def _ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


def _observe(node: int, *parents: int) -> c.AddNode:
    return c.AddNode(node=NodeId(node), address=f"o{node}:1", observer=True, parents=_ids(*parents))


def _pull(node: int, *parents: int) -> c.SetParents:
    return c.SetParents(node=NodeId(node), parents=_ids(*parents))
