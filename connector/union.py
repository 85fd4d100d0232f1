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
    if lines:
        raise SchemaMismatch(topic=topic.name, difference="\n".join(lines), advice=_ADVICE)


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
