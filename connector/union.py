"""Several topics read as one: the union of their columns by name.

A column that a topic lacks is null in its records. Columns of one name must have one type. Names
that differ only in case are one, as the first topic has it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from raftlog.errors import SchemaMismatch
from raftlog.records.schema_text import canonical
from raftlog.spark.column_names import matched, renamed
from raftlog.spark.metadata_columns import METADATA_NAMES
from raftlog.spark.schema import topic_struct

if TYPE_CHECKING:
    from raftlog import TopicInfo

_ADVICE = (
    "Columns of one name must have one type. Read the topics by themselves, and cast and union the "
    "DataFrames."
)
_LEFTOVER_ADVICE = (
    "The query no longer subscribes to this topic, and the batch that its checkpoint planned last, "
    "which has records of it, was not finished. Subscribe to the topic again until that batch is "
    "done (trigger(availableNow=True) ends then), or start with a new checkpointLocation."
)


def union(topics: Sequence[TopicInfo]) -> TopicInfo:
    """A description with the columns of all topics: in the order of the first topic, then those
    that only later topics have. It stands for no topic of the cluster.

    A column may be null if it may be in one of the topics, or if one lacks it; likewise the parts
    of its type. Raises `SchemaMismatch`, with a line for each column whose types differ.
    """
    first, *others = topics
    fields = {field.name: field for field in first.schema.fields}
    where = dict.fromkeys(fields, first.name)
    lines = []
    for topic in others:
        meant = matched([field.name for field in topic.schema.fields], fields)
        own = dict(zip(meant, topic.schema.fields, strict=True))
        for name, field in own.items():
            if name not in fields:
                fields[name] = dataclasses.replace(field, nullable=True)
                where[name] = topic.name
                continue
            joined = _joined(json.loads(fields[name].type), json.loads(field.type))
            if joined is None:
                one = _type(topics, where[name], name)
                other = _type(topics, topic.name, field.name)
                lines.append(f"  {name}: {one} in {where[name]}, {other} in {topic.name}")
                continue
            fields[name] = dataclasses.replace(
                fields[name],
                type=json.dumps(joined, sort_keys=True, separators=(",", ":")),
                nullable=fields[name].nullable or field.nullable,
            )
        for name in fields.keys() - own.keys():
            fields[name] = dataclasses.replace(fields[name], nullable=True)
    names = ", ".join(topic.name for topic in topics)
    if lines:
        raise SchemaMismatch(topic=names, difference="\n".join(lines), advice=_ADVICE)
    schema = dataclasses.replace(first.schema, fields=tuple(fields.values()))
    return dataclasses.replace(first, name=names, schema=schema)


def check_fits(planned: StructType, topic: TopicInfo) -> None:
    """Check that a topic can be read with the columns that a running query was planned with.

    Raises `SchemaMismatch`.
    """
    _check(_misfits(planned, topic), topic, _ADVICE)


def check_leftover_fits(planned: StructType, topic: TopicInfo) -> None:
    """Check that records of a topic which the query no longer subscribes to, and whose batch is
    repeated, can be read with the query's columns: these are some of the topic's, as after a
    select, or the topic's are some of them, as in a union. Otherwise values would be lost
    silently, and nulls written in place of others.

    Raises `SchemaMismatch`.
    """
    lines = _misfits(planned, topic)
    own = topic_struct(topic, include_metadata=False).names
    meant = set(matched(planned.names, [*METADATA_NAMES, *own])) - set(METADATA_NAMES)
    if not (lines or meant <= set(own) or set(own) <= meant):
        lines += [f"  {name}: in the query, missing in the topic" for name in meant - set(own)]
        lines += [f"  {name}: in the topic, missing in the query" for name in set(own) - meant]
    _check(sorted(lines), topic, _LEFTOVER_ADVICE)


def _check(problems: list[str], topic: TopicInfo, advice: str) -> None:
    if problems:
        raise SchemaMismatch(topic=topic.name, difference="\n".join(problems), advice=advice)


def _misfits(planned: StructType, topic: TopicInfo) -> list[str]:
    """A line for each of the query's columns that cannot have the topic's values, or null."""
    own = {field.name: field for field in topic_struct(topic, include_metadata=False).fields}
    lines = []
    for field in renamed(planned, [*METADATA_NAMES, *own]).fields:
        if field.name in METADATA_NAMES:
            continue
        have = own.get(field.name)
        if have is None:
            if not field.nullable:
                lines.append(f"  {field.name}: NOT NULL in the query, missing in the topic")
            continue
        wanted_tree, own_tree = (canonical(one.dataType.jsonValue()) for one in (field, have))
        if _joined(wanted_tree, own_tree) != _without_metadata(wanted_tree):
            lines.append(
                f"  {field.name}: {field.dataType.simpleString()} in the query, "
                f"{have.dataType.simpleString()} in the topic"
            )
        elif have.nullable and not field.nullable:
            lines.append(f"  {field.name}: NOT NULL in the query, may be null in the topic")
    return lines


def _type(topics: Sequence[TopicInfo], topic: str, column: str) -> str:
    [found] = [one for one in topics if one.name == topic]
    return topic_struct(found, include_metadata=False)[column].dataType.simpleString()


def _joined(one: Any, other: Any) -> Any:
    """The JSON tree of a type that holds what either holds: nulls where one of them allows them.

    None if they differ in anything else. The metadata of nested fields does not count.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() - {"metadata"} != other.keys() - {"metadata"}:
            return None
        parts = {key: _joined(one[key], other[key]) for key in one if key != "metadata"}
        if "metadata" in one:
            parts["metadata"] = {}
        return None if None in parts.values() else parts
    if isinstance(one, list) and isinstance(other, list):
        items = [_joined(*pair) for pair in zip(one, other, strict=False)]
        return None if len(one) != len(other) or None in items else items
    if isinstance(one, bool) and isinstance(other, bool):
        return one or other
    return one if one == other else None


def _without_metadata(tree: Any) -> Any:
    return _joined(tree, tree)
