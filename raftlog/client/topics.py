"""The requests about topics: what the controller's leader is asked, and how a repeat is taken."""

from __future__ import annotations

import uuid

from raftlog.client.arguments import topic_argument
from raftlog.client.connection import Connection
from raftlog.client.retries import Deadline
from raftlog.core.types import CONTROLLER_GROUP
from raftlog.errors import TopicNotFound, TopicRecreated
from raftlog.machines.commands import AlterSchema, TopicInfo
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting
from raftlog.wire.calls import (
    ALTER_SCHEMA,
    ALTER_TOPIC,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    LIST_TOPICS,
    AlterTopicCall,
    CreateTopicCall,
    DeleteTopicCall,
    DescribeTopic,
    ListTopics,
)


def create(
    connection: Connection,
    name: str,
    schema: Schema,
    settings: tuple[TopicSetting, ...],
    *,
    if_not_exists: bool,
    replicas: int,
) -> TopicInfo:
    """Create the topic under a new incarnation."""
    call = CreateTopicCall(
        name=name,
        incarnation=uuid.uuid4().hex,
        schema=schema,
        if_not_exists=if_not_exists,
        settings=settings,
        replicas=replicas,
    )
    return connection.call_leader(CONTROLLER_GROUP, CREATE_TOPIC, call).topic


def alter(connection: Connection, topic: TopicInfo, changes: tuple[TopicSetting, ...]) -> TopicInfo:
    """Change these settings; the topic with all of them."""
    call = AlterTopicCall(name=topic.name, incarnation=topic.incarnation, settings=changes)
    return connection.call_leader(CONTROLLER_GROUP, ALTER_TOPIC, call).topic


def alter_schema(
    connection: Connection, topic: TopicInfo, changes: tuple[ColumnChange, ...]
) -> TopicInfo:
    """Change these columns of the schema that `topic` has; the topic with all of them."""
    command = AlterSchema(
        name=topic.name,
        incarnation=topic.incarnation,
        version=topic.schema.version,
        changes=changes,
    )
    return connection.call_leader(CONTROLLER_GROUP, ALTER_SCHEMA, command).topic


def named(connection: Connection, name: str, deadline: Deadline | None = None) -> TopicInfo:
    """The topic that has the name now."""
    call = DescribeTopic(name=name)
    return connection.call_leader(CONTROLLER_GROUP, DESCRIBE_TOPIC, call, deadline=deadline).topic


def meant(
    connection: Connection, topic: TopicInfo | str, deadline: Deadline | None = None
) -> TopicInfo:
    """The incarnation that a caller means. Asks only for that of a name. Raises as
    `topic_argument` does."""
    wanted = topic_argument(topic)
    return named(connection, wanted, deadline) if isinstance(wanted, str) else wanted


def same(connection: Connection, topic: TopicInfo) -> TopicInfo:
    """The same incarnation as it is now. Raises `TopicRecreated`."""
    return checked(named(connection, topic.name), topic)


def checked(found: TopicInfo, wanted: TopicInfo | str) -> TopicInfo:
    """What was found under the name of the wanted topic, if it is that incarnation. Raises
    `TopicRecreated`."""
    if not isinstance(wanted, str) and found.incarnation != wanted.incarnation:
        raise TopicRecreated(topic=wanted.name, wanted=wanted.incarnation, found=found.incarnation)
    return found


def all_topics(connection: Connection) -> list[TopicInfo]:
    """All topics, by name."""
    reply = connection.call_leader(CONTROLLER_GROUP, LIST_TOPICS, ListTopics())
    return sorted(reply.topics, key=lambda topic: topic.name)


def delete(connection: Connection, topic: TopicInfo) -> None:
    """Delete a topic that existed a moment ago."""
    call = DeleteTopicCall(name=topic.name, incarnation=topic.incarnation)
    try:
        connection.call_leader(CONTROLLER_GROUP, DELETE_TOPIC, call)
    except TopicNotFound:
        pass  # an earlier try of this call or another client deleted it
