"""The fingerprint covers every value of a machine's state, or says here why it leaves one out.

The states are rich ones; each value of each is changed by itself, in what a machine is made of.
What is left out is compared by the simulator, which compares whole states (`State Machine Safety`).
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import LogFromNewerVersion
from raftlog.machines.columns import pack, unpack
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.evolution import ADD, DROP, SET_TYPE, ColumnChange, evolved
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting
from raftlog.machines.state import (
    ControllerState,
    KvState,
    MachineState,
    NodeState,
    PlacementState,
    TopicState,
)
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import SCHEMA, TOPIC
from tests.machines.test_kv import INFO, Store
from tests.machines.test_state import LIMITS, LongHistory, controller_commands

EVOLVED = evolved(
    evolved(
        SCHEMA,
        [
            ColumnChange(action=ADD, name="b", type='"integer"'),
            ColumnChange(action=ADD, name="c", type='"string"'),
        ],
    ),
    [
        ColumnChange(action=SET_TYPE, name="b", type='"long"'),
        ColumnChange(action=DROP, name="c"),
    ],
)
"""A schema of version 3, with two former columns."""
assert isinstance(EVOLVED, Schema)

LEFT_OUT = {
    "TopicState.last_index": "entries that are refused move it, and they change nothing else",
    "TopicState.unused_bytes": "for people: a refusal counts here although it changes nothing",
    "TopicState.writers.dead_bytes": "for people: bytes that no reader will see",
    "TopicState.writers.transient.times_us": "each row's `active_us` again, which is covered",
    "TopicState.writers.open_epochs.times_us": "the time of entry `renewed_at`, which is covered",
    "TopicState.writers.rows.open_epochs.attempts.record_count": "the sum of the stages' counts",
    "TopicState.writers.rows.open_epochs.attempts.chained_crc": "follows from the stages' CRCs",
    "ControllerState.last_index": "entries that are refused move it, and they change nothing else",
    "KvState.last_index": "entries that are refused move it, and they change nothing else",
}

NEVER_ALONE = {
    "TopicState.producers.ages.keys",
    "TopicState.producers.append_counts",
    "TopicState.writers.rows",
    "TopicState.writers.rows.open_epochs",
    "TopicState.writers.transient.keys",
}
"""What cannot be changed by itself: the rest of the state would not fit it, or there is no other
value."""


def topic_state(seed: int) -> TopicState:
    machine = TopicMachine(TOPIC, LIMITS)
    for index, command in enumerate(LongHistory(seed).commands(machine), 1):
        machine.apply(LogIndex(index), command)
    settings = (TopicSetting(name="retention_s", value=5),)
    state = machine.state()
    return dataclasses.replace(
        state, settings=settings, settings_version=LogIndex(3), schemas=(EVOLVED,)
    )


def controller_state() -> ControllerState:
    machine = ControllerMachine()
    for index, command in enumerate(controller_commands(Random(1)), 1):
        machine.apply(LogIndex(index), command)
    state = machine.state()
    group = state.topics[0].group
    nodes = (NodeId(1), NodeId(2), NodeId(3))
    placement = PlacementState(
        group=group, voters=nodes[1:], generation=2, reached=1, former=nodes[:2]
    )
    topic = dataclasses.replace(
        state.topics[0],
        settings=(TopicSetting(name="retention_s", value=5),),
        settings_version=LogIndex(3),
        schema=EVOLVED,
    )
    next_group = state.next_group_id
    return dataclasses.replace(
        state,
        rules=RULES_LATEST,
        next_group_id=GroupId(next_group + 1),
        topics=(topic, *state.topics[1:]),
        nodes=(
            *state.nodes,
            NodeState(
                node=NodeId(9), store_uuid="9", address="a:9", rules=1, rack="r", parents=nodes[:1]
            ),
        ),
        retired=(NodeId(7),),
        placements=(placement,),
        kvs=(KvInfo(group=next_group, voters=nodes, created_us=7, rules=RULES_LATEST),),
    )


def kv_state() -> KvState:
    store = Store()
    for key in ("a", "b"):
        store.put(key, b"1")
        store.put(key, b"2")
    return store.machine.state()


def restored(state: MachineState) -> TopicMachine | ControllerMachine | KvMachine:
    match state:
        case TopicState():
            return TopicMachine.restore(TOPIC, state, LIMITS)
        case ControllerState():
            return ControllerMachine.restore(state)
        case KvState():
            return KvMachine.restore(INFO, state)


def changes(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The value with one of its parts changed, in every way, and which part that is."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            for where, changed in changes(part, f"{path}.{field.name}"):
                yield where, dataclasses.replace(value, **{field.name: changed})
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            name = f".{value._fields[place]}" if hasattr(value, "_fields") else ""
            for where, changed in changes(part, path + name):
                parts = (*value[:place], changed, *value[place + 1 :])
                yield where, value._make(parts) if hasattr(value, "_make") else parts
        if value and not hasattr(value, "_fields"):
            yield path, value[:-1]
    else:
        yield path, _other(value)


def _other(value: Any) -> Any:
    """A value of the same kind."""
    if isinstance(value, bytes):
        if not value or len(value) % 8:
            return value + b"x"
        numbers = unpack(value)
        return pack(array("q", [*numbers[:-1], numbers[-1] + 1]))
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value + "x"


def seen_changes(state: MachineState) -> Iterator[tuple[str, bool]]:
    """Which part of the state was changed, and whether the fingerprint is another one then."""
    machine = restored(state)
    assert machine.state() == state
    for path, changed in changes(state, type(state).__name__):
        try:
            other = restored(changed)
            fingerprint = other.fingerprint()
        except (AssertionError, LookupError, ValueError, LogFromNewerVersion):
            continue  # no machine has such a state
        assert other.state() != state, path
        yield path, fingerprint != machine.fingerprint()


def test_the_fingerprint_covers_every_value_of_a_state_but_those_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raftlog.machines.rules.RULES_LATEST", 2)  # so that there is another one
    covered, left_out = set(), set()
    for state in (topic_state(3), topic_state(9), controller_state(), kv_state()):
        for path, is_seen in seen_changes(state):
            (covered if is_seen else left_out).add(path)
    assert left_out == set(LEFT_OUT)
    every = {
        path
        for state in (topic_state(3), topic_state(9), controller_state(), kv_state())
        for path, _ in changes(state, type(state).__name__)
    }
    assert every - covered - left_out <= NEVER_ALONE
