"""The requests about the writers that a topic remembers."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.client.connection import Connection
from raftlog.errors import WriterNotFound
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import (
    LIST_WRITERS,
    REMOVE_WRITER,
    ListWriters,
    RemoveWriterCall,
    WritersReply,
    WriterView,
)


def all_of(connection: Connection, topic: TopicInfo) -> Iterator[WriterView]:
    """All writers by name; each page is a linearizable read."""
    reply = _page(connection, topic)
    yield from reply.writers
    while reply.more:
        reply = _page(connection, topic, after=reply.writers[-1].writer)
        yield from reply.writers


def named(connection: Connection, topic: TopicInfo, writer: str) -> WriterView:
    """The writer of that name. Raises `WriterNotFound`."""
    found = _page(connection, topic, writer=writer).writers
    if not found:
        raise WriterNotFound(topic=topic.name, writer=writer)
    return found[0]


def remove(connection: Connection, topic: TopicInfo, writer: str) -> WriterView:
    """Forget a writer; what was remembered of it. Raises `WriterNotFound`, `RulesTooOld`."""
    found = named(connection, topic, writer)
    call = RemoveWriterCall(group=topic.group, incarnation=topic.incarnation, writer=writer)
    # If it is gone since, an earlier try of this call or another client removed it.
    connection.call_leader(topic.group, REMOVE_WRITER, call)
    return found


def _page(
    connection: Connection, topic: TopicInfo, *, after: str = "", writer: str = ""
) -> WritersReply:
    call = ListWriters(group=topic.group, incarnation=topic.incarnation, after=after, writer=writer)
    return connection.call_leader(topic.group, LIST_WRITERS, call)
