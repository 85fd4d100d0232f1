"""Clients that alter the schema of their topic, some of them at the same time or by what it was."""

from __future__ import annotations

from random import Random

from raftlog.core.types import CONTROLLER_GROUP
from raftlog.machines.commands import AlterSchema, TopicInfo
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.outcomes import Refused, TopicAltered
from raftlog.machines.schema import Schema
from tests.simulation.history import TopicHistory
from tests.simulation.promises import Promise, Violation
from tests.simulation.records import LABEL_ID
from tests.simulation.schemas import LADDERS
from tests.simulation.tasks import Task
from tests.simulation.workload import Clients

NAMES = ("amount", "city", "day", "height", "note")
"""Few, so that names are used again."""

VERSIONS_MAX = 12
"""No more than so many of one topic: all of them are compared with each other."""

REFUSALS = ("SchemaChanged", "InvalidOption")
"""Another client was faster, or the changes are not legal. The checker knows when each is due."""


def alter(clients: Clients, topic: TopicInfo, history: TopicHistory, number: int) -> Task:
    """Alter the topic now and then."""
    random = clients.simulator.random(f"alterations {topic.name} {number}")
    while not clients.stopping and history.schema.version < VERSIONS_MAX:
        known = history.schema
        command = AlterSchema(
            name=topic.name,
            incarnation=topic.incarnation,
            version=max(1, known.version - (random.random() < 0.1)),
            changes=drawn_changes(random, known),
        )
        outcome = yield from clients.write(CONTROLLER_GROUP, lambda _, command=command: command)
        match outcome:
            case TopicAltered(topic=altered):
                history.schema_altered(altered.schema)
                clients.simulator.counts["schemas altered"] += 1
            case Refused(code=code) if code in REFUSALS:
                clients.simulator.counts[f"alterations refused: {code}"] += 1
            case _:
                raise Violation(Promise.EXPECTED_OUTCOMES, f"{command} had the outcome {outcome}")
        yield clients.think()


def drawn_changes(random: Random, schema: Schema) -> tuple[ColumnChange, ...]:
    """One to three changes of different columns. Some are not legal; the label is never dropped."""
    names = list(dict.fromkeys([*(field.name for field in schema.fields), *NAMES]))
    random.shuffle(names)
    changes = [_drawn_change(random, schema, name) for name in names[: random.choice((1, 1, 2, 3))]]
    return tuple(changes)


def _drawn_change(random: Random, schema: Schema, name: str) -> ColumnChange:
    field = next((field for field in schema.fields if field.name == name), None)
    if field is None and random.random() < 0.9:
        kind = random.choice(random.choice(LADDERS))
        return ColumnChange(action="add", name=name, type=kind)
    actions = ["set type", "rename", "drop not null", "add"]
    if field is not None and field.id != LABEL_ID:
        actions += ["drop", "set type"]
    match action := random.choice(actions):
        case "set type" | "add":
            kind = random.choice(random.choice(LADDERS))
            ladder = next((each for each in LADDERS if field and field.type in each), ())
            if field is not None and field.type in ladder[:-1] and random.random() < 0.9:
                kind = ladder[ladder.index(field.type) + 1]
            return ColumnChange(action=action, name=name, type=kind)
        case "rename":
            return ColumnChange(action=action, name=name, to=random.choice(NAMES))
        case _:
            return ColumnChange(action=action, name=name)
