"""Bugs to plant in how schemas evolve and in who reads what they were; see `planted`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from raftlog.compaction import compact as compacting
from raftlog.core.types import LogIndex
from raftlog.image.history_file import RowGroup
from raftlog.machines import evolution
from raftlog.machines.commands import AlterSchema, Append
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.outcomes import Refused
from raftlog.machines.schema import Field, Schema
from raftlog.machines.state import TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft import carried_settings
from raftlog.records import batch_codec
from tests.simulation.planting import replaced


def column_id_comes_back() -> Any:
    """A new column gets the id of one that was dropped."""

    def with_column(schema: Schema, change: ColumnChange, version: int) -> Schema:
        number = max(field.id for field in schema.fields) + 1
        added = Field(id=number, name=change.name, type=change.type, nullable=True, since=version)
        return replace(schema, fields=(*schema.fields, added))

    return replaced(evolution, "_with_column", with_column)


def former_columns_forgotten() -> Any:
    """A schema does not remember what its columns were."""
    return replaced(evolution, "_remembered", lambda schema, form, version: schema.former)


def narrower_type_taken() -> Any:
    """A column may get any other type."""
    return replaced(evolution, "widens", lambda before, after: before != after)


def alteration_of_an_older_version_applied() -> Any:
    """Changes that were meant for an earlier version are made to the present one."""
    original = ControllerMachine._alter_schema

    def alter_schema(self: ControllerMachine, command: AlterSchema) -> Any:
        topic = self.topic(command.name)
        known = command.version if isinstance(topic, Refused) else topic.schema.version
        return original(self, replace(command, version=known))

    return replaced(ControllerMachine, "_alter_schema", alter_schema)


def alteration_outside_the_log() -> Any:
    """Whether a topic takes a later schema depends on what else its process did."""
    original = TopicMachine._take_schema
    calls = count()

    def take_schema(self: TopicMachine, schema: Schema) -> None:
        if next(calls) % 5 < 4:
            original(self, schema)

    return replaced(TopicMachine, "_take_schema", take_schema)


def alteration_not_carried() -> Any:
    """No leader puts a later schema into its topic's log."""
    return replaced(carried_settings, "schema_due", lambda local, controller: None)


def any_version_taken() -> Any:
    """A batch may be of a version that the topic does not know."""
    original = TopicMachine._append

    def append(self: TopicMachine, index: LogIndex, command: Append) -> Any:
        return original(
            self, index, replace(command, batch=replace(command.batch, schema_version=1))
        )

    return replaced(TopicMachine, "_append", append)


def earlier_version_refused() -> Any:
    """A batch must be of the topic's latest version."""
    original = TopicMachine._append

    def append(self: TopicMachine, index: LogIndex, command: Append) -> Any:
        if 0 < command.batch.schema_version < self.info.schema.version:
            command = replace(command, batch=replace(command.batch, schema_version=1 << 20))
        return original(self, index, command)

    return replaced(TopicMachine, "_append", append)


def writers_keep_the_first_schema() -> Any:
    """What judges stages and epochs does not hear of a later schema."""

    def take_schema(self: TopicMachine, schema: Schema) -> None:
        self.info = replace(self.info, schema=schema)

    return replaced(TopicMachine, "_take_schema", take_schema)


def schema_missing_from_the_snapshot() -> Any:
    """A machine made from a snapshot has the schema that its topic was created with."""
    original = TopicMachine.state

    def state(self: TopicMachine) -> TopicState:
        return replace(original(self), schemas=())

    return replaced(TopicMachine, "state", state)


def later_column_read_as_zero() -> Any:
    """A column that a record's version lacks is read as a value."""
    original = batch_codec._missing

    def zeros(column: Any) -> Any:
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        return pa.array([0] * len(column), column.type) if is_number else column

    def missing(header: Any, fields: Any) -> Any:
        return {number: zeros(column) for number, column in original(header, fields).items()}

    return replaced(batch_codec, "_missing", missing)


def columns_found_by_name() -> Any:
    """A reader takes the column that has this name now, whatever it was."""
    original = batch_codec._written

    def written(header: Any, latest: Schema) -> Schema:
        then = original(header, latest)
        by_name = {field.name: field for field in then.fields}
        fields = [
            replace(by_name[field.name], id=field.id)
            for field in latest.fields
            if field.name in by_name
        ]
        return replace(then, fields=tuple(fields))

    return replaced(batch_codec, "_written", written)


def history_of_the_latest_version() -> Any:
    """A compaction says that what it has written is of the topic's latest version."""
    original = compacting.row_groups

    def row_groups(batches: Iterable[Any], latest: Schema, log_start: Any) -> Iterator[RowGroup]:
        for each in original(batches, latest, log_start):
            header = replace(each.header, schema_version=latest.version)
            yield replace(each, header=header)

    return replaced(compacting, "row_groups", row_groups)


ALTERATION_BUGS = (
    column_id_comes_back,
    former_columns_forgotten,
    narrower_type_taken,
    alteration_of_an_older_version_applied,
    alteration_outside_the_log,
    alteration_not_carried,
    any_version_taken,
    earlier_version_refused,
    writers_keep_the_first_schema,
    schema_missing_from_the_snapshot,
    later_column_read_as_zero,
    columns_found_by_name,
    history_of_the_latest_version,
)
