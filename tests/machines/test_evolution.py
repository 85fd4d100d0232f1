"""How schemas evolve: which changes are legal, what each version has, who of two is faster."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given

from raftlog.core.types import LogIndex
from raftlog.machines.commands import AlterSchema, Append, SetSchema
from raftlog.machines.evolution import (
    ADD,
    DROP,
    DROP_NOT_NULL,
    RENAME,
    SET_TYPE,
    ColumnChange,
    evolved,
    in_effect,
)
from raftlog.machines.limits import FORMER_FIELDS_MAX, ControllerLimits
from raftlog.machines.outcomes import Refused, SchemaSet, TopicAltered
from raftlog.machines.schema import Schema
from raftlog.machines.topic import TopicMachine
from raftlog.machines.widening import widens
from raftlog.wire.codec import GroupState, decode_state, encode_state
from tests.machines.evolving import TYPES, WIDER, Version, first_schema, histories
from tests.machines.scenes import SCHEMA, TOPIC, Scene, batch, code
from tests.machines.test_controller import Cluster, refusal


def add(name: str, kind: str = '"string"') -> ColumnChange:
    return ColumnChange(action=ADD, name=name, type=kind)


def next_of(schema: Schema, *changes: ColumnChange) -> Schema:
    found = evolved(schema, changes)
    assert isinstance(found, Schema), found
    return found


@given(histories())
def test_every_version_keeps_the_columns_that_it_had(
    history: tuple[list[Version], list[list[ColumnChange]]],
) -> None:
    versions, steps = history
    schemas = [first_schema(versions[0])]
    for changes in steps:
        assert not in_effect(schemas[-1], changes) or len(changes) > 1
        schemas.append(next_of(schemas[-1], *changes))
    last, ids = schemas[-1], {}
    for number, (columns, schema) in enumerate(zip(versions, schemas, strict=True), 1):
        assert last.at(number) == schema
        assert schema.version == number
        told = [(field.name, field.type, field.nullable) for field in schema.fields]
        assert told == [(each.name, each.type, each.nullable) for each in columns]
        for column, field in zip(columns, schema.fields, strict=True):
            assert ids.setdefault(column.identity, field.id) == field.id
    assert len(set(ids.values())) == len(ids), "an id stands for one column, for ever"


def test_a_type_becomes_only_one_that_holds_each_value_of_it() -> None:
    for before in TYPES:
        wider = {after for after in TYPES if widens(before, after)}
        assert wider == set(WIDER.get(before, ())) & set(TYPES)
    assert not widens('"decimal(5,2)"', '"decimal(9,3)"')
    assert not widens('"integer"', '"double"')


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (add("a"), "which the topic has"),
        (add("A"), "twice"),
        (add("_offset"), "reserved"),
        (add("b", ""), "type of 0 characters"),
        (ColumnChange(action=DROP, name="z"), "does not have"),
        (ColumnChange(action=DROP, name="a"), "has no columns"),
        (ColumnChange(action=RENAME, name="a", to=""), "0 characters"),
        (ColumnChange(action=SET_TYPE, name="a", type='"integer"'), "does not hold each value"),
        (ColumnChange(action=SET_TYPE, name="a", type='"string"'), "does not hold each value"),
        (ColumnChange(action="sort", name="a"), "the action 'sort'"),
    ],
)
def test_a_change_that_no_topic_can_take_says_why(change: ColumnChange, problem: str) -> None:
    found = evolved(SCHEMA, [change])
    assert isinstance(found, str)
    assert problem in found


def test_a_dropped_name_comes_back_as_another_column() -> None:
    added = next_of(SCHEMA, add("gate"))
    again = next_of(next_of(added, ColumnChange(action=DROP, name="gate")), add("gate", '"long"'))
    assert [(field.id, field.name) for field in again.fields] == [(1, "a"), (3, "gate")]
    assert again.at(2).fields[1].id == 2


def test_a_column_gets_the_name_of_another_one_once_that_has_gone() -> None:
    schema = next_of(SCHEMA, add("gate"))
    rename = ColumnChange(action=RENAME, name="a", to="gate")
    drop = ColumnChange(action=DROP, name="gate")
    onward = ColumnChange(action=RENAME, name="gate", to="stand")

    def names(found: Schema | str) -> list[tuple[int, str]]:
        assert isinstance(found, Schema), found
        return [(field.id, field.name) for field in found.fields]

    for change in (drop, onward):
        found = evolved(schema, [rename, change])
        assert found == "renames column 'a' to 'gate', which the topic has"
    assert names(evolved(schema, [drop, rename])) == [(1, "gate")]
    assert names(evolved(schema, [onward, rename])) == [(1, "gate"), (2, "stand")]


def test_former_columns_are_bounded() -> None:
    names = [f"x{number}" for number in range(100)]
    drops = [ColumnChange(action=DROP, name=name) for name in names]
    schema = next_of(next_of(SCHEMA, *map(add, names)), *drops)
    first = schema.former[0]
    others = [
        dataclasses.replace(first, id=10_000 + number) for number in range(FORMER_FIELDS_MAX - 200)
    ]
    schema = dataclasses.replace(schema, former=(*schema.former, *others))
    schema = next_of(next_of(schema, *map(add, names)), *drops)
    assert len(schema.former) == FORMER_FIELDS_MAX
    found = evolved(schema, [ColumnChange(action=RENAME, name="a", to="b")])
    assert isinstance(found, str)
    assert "too many" in found


# ---------------------------------------------------------------- the controller


def cluster_with(topic: str, limits: ControllerLimits | None = None) -> Cluster:
    cluster = Cluster(limits)
    cluster.created(topic)
    return cluster


def alter(cluster: Cluster, version: int, *changes: ColumnChange, **given: Any) -> Any:
    command = AlterSchema(name="t", incarnation="", version=version, changes=changes)
    return cluster.apply(dataclasses.replace(command, **given))


def test_of_two_alterations_the_later_one_learns_that_it_is_late() -> None:
    cluster = cluster_with("t")
    assert alter(cluster, 1, add("gate")) == TopicAltered(topic=cluster.topic("t"))
    before = cluster.machine.fingerprint()
    late = alter(cluster, 1, add("stand"))
    assert refusal(late) == ("SchemaChanged", {"topic": "t", "expected": 1, "found": 2})
    assert refusal(alter(cluster, 3, add("gate")))[0] == "SchemaChanged"
    assert cluster.machine.fingerprint() == before


def test_what_is_in_effect_already_is_no_conflict() -> None:
    """The same command sent again, or two writers that add the same column."""
    cluster = cluster_with("t")
    alter(cluster, 1, add("gate"), add("stand", '"integer"'))
    altered = cluster.topic("t")
    assert alter(cluster, 1, add("gate")) == TopicAltered(topic=altered)
    assert code(alter(cluster, 1, add("gate", '"long"'))) == "SchemaChanged"
    changes = (
        ColumnChange(action=RENAME, name="gate", to="door"),
        ColumnChange(action=SET_TYPE, name="stand", type='"long"'),
        ColumnChange(action=DROP_NOT_NULL, name="a"),
    )
    done = alter(cluster, 2, *changes)
    assert done.topic.schema.version == 3
    assert alter(cluster, 2, *changes) == done
    dropped = alter(cluster, 3, ColumnChange(action=DROP, name="door"))
    assert alter(cluster, 3, ColumnChange(action=DROP, name="door")) == dropped
    assert code(alter(cluster, 4, ColumnChange(action=DROP, name="door"))) == "InvalidOption"


def test_an_alteration_is_refused_where_it_makes_no_sense() -> None:
    cluster = cluster_with("t", ControllerLimits(fields_max=2))
    before = cluster.machine.fingerprint()
    for expected, outcome in (
        ("MalformedRequest", alter(cluster, 0, add("b"))),
        ("MalformedRequest", alter(cluster, 1)),
        ("TopicNotFound", alter(cluster, 1, add("b"), name="u")),
        ("TopicRecreated", alter(cluster, 1, add("b"), incarnation="another")),
        ("TooMany", alter(cluster, 1, add("b"), add("c"))),
        ("InvalidOption", alter(cluster, 1, ColumnChange(action=DROP, name="b"))),
    ):
        assert code(outcome) == expected
    assert cluster.machine.fingerprint() == before


def test_a_topic_may_have_as_many_columns_as_the_limit_says_and_no_more() -> None:
    cluster = cluster_with("t", ControllerLimits(fields_max=len(SCHEMA.fields) + 1))
    assert code(alter(cluster, 1, add("b"), add("c"))) == "TooMany"
    altered = alter(cluster, 1, add("b"))
    assert [field.name for field in altered.topic.schema.fields][-1] == "b"
    assert refusal(alter(cluster, 2, add("c"))) == (
        "TooMany",
        {"what": "The schema", "limit": len(SCHEMA.fields) + 1, "unit": "fields"},
    )


def test_a_new_topic_has_a_history_of_its_own() -> None:
    copied = next_of(next_of(SCHEMA, add("b"), add("c")), ColumnChange(action=DROP, name="b"))
    cluster = cluster_with("t")
    made = cluster.create("u", schema=copied)
    fields = [(field.id, field.name, field.since) for field in made.topic.schema.fields]
    assert (fields, made.topic.schema.former) == ([(1, "a", 0), (2, "c", 0)], ())


# ---------------------------------------------------------------- the topic


def test_a_topic_takes_batches_of_every_version_that_its_log_has_seen() -> None:
    scene, later = Scene(), next_of(SCHEMA, add("b"))
    assert code(scene.append(0, batch(7, schema=2))) == "UnknownSchemaVersion"
    assert scene.apply(SetSchema(schema=later)) == SchemaSet(version=2)
    for sequence, version in enumerate((2, 1)):
        assert not isinstance(scene.append(sequence, batch(7, schema=version)), Refused)
    assert code(scene.append(2, batch(7, schema=3))) == "UnknownSchemaVersion"


def test_a_topics_schema_never_goes_back_and_never_changes_its_past() -> None:
    scene, second = Scene(), next_of(SCHEMA, add("b"))
    third = next_of(second, add("c"))
    scene.apply(SetSchema(schema=third))
    assert scene.apply(SetSchema(schema=second)) == SchemaSet(version=3)
    assert scene.machine.info.schema == third
    other = next_of(next_of(next_of(SCHEMA, add("z")), add("y")), add("x"))
    before = scene.machine.fingerprint()
    assert code(scene.apply(SetSchema(schema=other))) == "MalformedRequest"
    no_columns = Schema(version=9, fields=())
    assert code(scene.apply(SetSchema(schema=no_columns))) == "MalformedRequest"
    assert scene.machine.fingerprint() == before


def test_a_machine_that_is_made_late_begins_with_the_first_schema() -> None:
    """A replica that is made after an alteration replays the log from the start."""
    scene, later = Scene(), next_of(SCHEMA, add("b"))
    late = Scene(topic=dataclasses.replace(TOPIC, schema=later))
    assert late.machine.fingerprint() == scene.machine.fingerprint()
    assert code(late.append(0, batch(7, schema=2))) == "UnknownSchemaVersion"


def test_a_restored_topic_has_the_schema_that_it_had() -> None:
    scene, later = Scene(), next_of(SCHEMA, add("b"))
    assert scene.machine.state().schemas == ()
    scene.apply(SetSchema(schema=later))
    state = decode_state(encode_state(GroupState(scene.machine.state()))).machine
    again = TopicMachine.restore(TOPIC, state)
    assert again.info.schema == later
    assert again.fingerprint() == scene.machine.fingerprint()
    assert again.state() == scene.machine.state()
    append = Append(producer="p", sequence=0, timestamp_us=1, batch=batch(7, schema=2))
    index = LogIndex(scene.index + 1)
    assert again.apply(index, append) == scene.machine.apply(index, append)
