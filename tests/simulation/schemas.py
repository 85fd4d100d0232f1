"""Which columns a topic has at each version, worked out apart from the product, and what simulated
clients write into them.

What a column holds follows from the record's label and the column's id. So whoever reads a record
under any version knows what must come: that, or null if the record's version has no such column.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from raftlog.machines.commands import AlterSchema, Append, Command, CommitEpoch, SetSchema, Stage
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.outcomes import (
    Appended,
    EpochCommitted,
    Refused,
    SchemaSet,
    Staged,
    TopicAltered,
)
from raftlog.machines.schema import Schema
from tests.simulation.records import LABEL_ID, PADDING_ID, SCHEMA, Label

LADDERS = (
    ('"byte"', '"short"', '"integer"', '"long"'),
    ('"float"', '"double"'),
    ('"decimal(5,2)"', '"decimal(9,2)"', '"decimal(20,2)"'),
    ('"string"',),
)
"""Types of columns; a later one of the same row holds every value of those before it."""


class Column(NamedTuple):
    name: str
    type: str
    nullable: bool


Version = dict[int, Column]
"""The columns by id, in order."""


class Columns:
    """Those of one topic, from the committed entries of the controller's log and of its own."""

    def __init__(self) -> None:
        self.latest = SCHEMA
        """The latest version, as the controller's log has it."""
        self.known = SCHEMA
        """The one that the topic's own log has."""
        self._versions: list[Version] = [
            {field.id: Column(field.name, field.type, field.nullable) for field in SCHEMA.fields}
        ]

    def problem_of(self, command: Command, outcome: object) -> str | None:
        """What is wrong with the outcome of the topic's next committed command, or of the next one
        of the controller's log that alters it."""
        match command:
            case AlterSchema():
                return self._altered(command, outcome)
            case SetSchema():
                return self._set(command.schema, outcome)
            case Append() | Stage():
                return self._judged(command.batch.schema_version, outcome)
            case CommitEpoch():
                return self._judged(command.schema_version, outcome)
        return None

    def drawn_version(self, number: int) -> int:
        """Any of the versions, so that each is used by readers of one topic."""
        return number % self.latest.version + 1

    def values(self, labels: Sequence[Label], written: int, schema: Schema) -> dict[int, list[Any]]:
        """What records of the version `written` hold in the columns of `schema`, by id, without the
        two that every topic begins with."""
        version = self._versions[written - 1]
        return {
            field.id: [
                value_of(label, field.id, field.type) if field.id in version else None
                for label in labels
            ]
            for field in schema.fields
            if field.id not in (LABEL_ID, PADDING_ID)
        }

    # ------------------------------------------------------------ outcomes

    def _altered(self, command: AlterSchema, outcome: object) -> str | None:
        current = len(self._versions)
        due = self._next(command.changes)
        what = f"{command} at version {current} has the outcome {outcome}"
        match outcome:
            case TopicAltered(topic=topic) if topic.schema.version == current + 1:
                if command.version != current or due is None:
                    return what
                self._versions.append(due)
                self.latest = topic.schema
                return self._difference(topic.schema)
            case TopicAltered(topic=topic):  # it was in effect
                return what if command.version >= current or topic.schema != self.latest else None
            case Refused(code="SchemaChanged"):
                return what if command.version == current else None
            case Refused(code="InvalidOption"):
                return what if command.version != current or due is not None else None
        return what

    def _set(self, given: Schema, outcome: object) -> str | None:
        """A leader has carried a version from the controller's log into the topic's."""
        problem = self._difference(given)
        if problem is None and given.version > self.known.version:
            self.known = given
        if outcome != SchemaSet(version=self.known.version):
            return problem or f"carrying {given} had the outcome {outcome}"
        return problem

    def _judged(self, version: int, outcome: object) -> str | None:
        known = version <= self.known.version
        match outcome:
            case Appended(repeated=False) | Staged(repeated=False) | EpochCommitted(replayed=False):
                wrong = not known
            case Refused(code="UnknownSchemaVersion"):
                wrong = known
            case _:
                wrong = False
        found = f"version {version} at version {self.known.version} had the outcome {outcome}"
        return found if wrong else None

    def _difference(self, schema: Schema) -> str | None:
        """Where the schema has another version of itself than there was."""
        if schema.version > len(self._versions):
            return f"version {schema.version}, which no alteration made"
        for number, version in enumerate(self._versions[: schema.version], 1):
            found = {
                field.id: Column(field.name, field.type, field.nullable)
                for field in schema.at(number).fields
            }
            if list(found.items()) != list(version.items()):
                return f"version {number} is {found}, not {version}"
        return None

    # ------------------------------------------------------------ changes

    def _next(self, changes: Sequence[ColumnChange]) -> Version | None:
        """The version after the changes; None if one of them is not legal."""
        version = dict(self._versions[-1])
        for change in changes:
            by_name = {column.name: number for number, column in reversed(version.items())}
            if (change.name in by_name) == (change.action == "add"):
                return None
            if change.action == "add":
                used = {number for each in (*self._versions, version) for number in each}
                version[max(used) + 1] = Column(change.name, change.type, nullable=True)
                continue
            number = by_name[change.name]
            column = version.pop(number)
            if change.action == "set type" and not _widens(column.type, change.type):
                return None
            if change.action == "rename" and by_name.get(change.to, number) != number:
                return None
            if change.action != "drop":
                version = dict(sorted({**version, number: _changed(column, change)}.items()))
        names = {column.name.lower() for column in version.values()}
        return version if len(names) == len(version) else None


def value_of(label: Label, field_id: int, kind: str) -> Any:
    """What a record with this label holds in a column, in whatever type of its ladder."""
    number = (7 * label.number + 3 * label.place + field_id) % 100
    if number % 5 == 4:
        return None
    integers, reals, decimals, _ = LADDERS
    if kind in integers:
        return number
    if kind in reals:
        return number / 4
    return Decimal(number) / 4 if kind in decimals else f"text {number}"


def _widens(before: str, after: str) -> bool:
    ladder = next((each for each in LADDERS if before in each), ())
    return after in ladder and ladder.index(after) > ladder.index(before)


def _changed(column: Column, change: ColumnChange) -> Column:
    match change.action:
        case "set type":
            return column._replace(type=change.type)
        case "rename":
            return column._replace(name=change.to)
        case _:
            assert change.action == "drop not null"
            return column._replace(nullable=True)
