"""`LogClient.writers`: the writers that a topic remembers for exactly-once."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.auth.rights import Right
from raftlog.client.arguments import principal_argument, text_argument
from raftlog.client.connection import Connection
from raftlog.client.topics import meant
from raftlog.client.wanting import wanting
from raftlog.errors import MalformedRequest, WriterNotFound
from raftlog.machines.commands import TopicInfo
from raftlog.machines.limits import TopicLimits
from raftlog.wire.calls import (
    LIST_WRITERS,
    REMOVE_WRITER,
    SET_WRITER_OWNER,
    ListWriters,
    RemoveWriterCall,
    SetWriterOwnerCall,
    WritersReply,
    WriterView,
)

_WRITERS_MAX = 2 * (TopicLimits().writers_max + TopicLimits().transient_writers_max)
"""Writers that one scan gives. A topic has half as many at most; others may come meanwhile."""


class TopicWriters:
    """The writers that topics remember. Thread-safe; usable in a forked child.

    Every call may raise `DeadlineExceeded` or `NodeUnreachable`, and takes a topic as those of
    `LogClient` do.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def scan(self, topic: TopicInfo | str) -> Iterator[WriterView]:
        """List the writers that a topic remembers.

        Each page is a linearizable read. A writer that comes or goes between two pages may be
        missed.

        Args:
            topic: The topic, or its name.

        Yields:
            The writers, sorted by name.
        """
        return self._scan(meant(self._connection, topic))

    def describe(self, topic: TopicInfo | str, writer: str) -> WriterView:
        """Look up a writer of a topic by a linearizable read.

        Args:
            topic: The topic, or its name.
            writer: The writer's name: a stream's query id, a `txnAppId`, or an anonymous write's
                run.

        Returns:
            What the topic remembers of the writer.

        Raises:
            WriterNotFound: The topic does not remember this writer.
        """
        name = text_argument("writer", writer)
        return self._named(meant(self._connection, topic), name)

    def remove(self, topic: TopicInfo | str, writer: str) -> WriterView:
        """Make a topic forget a writer, and drop what it has open. Its visible records stay.

        ! From then on a running query of it is refused (`UnknownWriter`), and what a named batch
        writer writes again is not recognised as written.

        Args:
            topic: The topic, or its name.
            writer: The writer's name.

        Returns:
            What the topic remembered of the writer.

        Raises:
            WriterNotFound: The topic does not remember this writer.
        """
        name = text_argument("writer", writer)
        with wanting(Right.ADMIN):
            info = meant(self._connection, topic)
        found = self._named(info, name)
        call = RemoveWriterCall(group=info.group, incarnation=info.incarnation, writer=name)
        # If it is gone since, an earlier try of this call or another client removed it.
        self._connection.call_leader(info.group, REMOVE_WRITER, call)
        return found

    def chown(self, topic: TopicInfo | str, writer: str, principal: str) -> str:
        """Give a writer to another principal, which may continue it from then on; the former owner
        may not. Durable on a majority when it returns. What the writer has open stays.

        Args:
            topic: The topic, or its name.
            writer: The writer's name.
            principal: `token:NAME`, `cert:NAME` or `oidc:ALIAS:SUBJECT`.

        Returns:
            The owner before; "": it had none.

        Raises:
            InvalidOption: This is no principal that can write.
            WriterNotFound: The topic does not remember this writer.
            Forbidden: The caller does not have the right `admin` on the topic.
        """
        name = text_argument("writer", writer)
        owner = principal_argument("principal", principal, groups=False)
        with wanting(Right.ADMIN):
            info = meant(self._connection, topic)
        call = SetWriterOwnerCall(
            group=info.group, incarnation=info.incarnation, writer=name, owner=owner
        )
        done = self._connection.call_leader(info.group, SET_WRITER_OWNER, call)
        if not done.known:
            raise WriterNotFound(topic=info.name, writer=name)
        return done.former

    # ------------------------------------------------------------ parts

    def _scan(self, topic: TopicInfo) -> Iterator[WriterView]:
        last, left, more = "", _WRITERS_MAX, True
        while more:
            reply = self._page(topic, after=last)
            left -= len(reply.writers)
            more = reply.more
            if left < 0 or (more and not reply.writers):
                what = f"a page of {len(reply.writers)} writers, after {_WRITERS_MAX - left} in all"
                raise MalformedRequest(call=LIST_WRITERS.name, what=what)
            for each in reply.writers:
                if each.writer <= last:
                    what = f"writer {each.writer[:100]!r} after {last[:100]!r}"
                    raise MalformedRequest(call=LIST_WRITERS.name, what=what)
                last = each.writer
                yield each

    def _named(self, topic: TopicInfo, writer: str) -> WriterView:
        found = self._page(topic, writer=writer).writers
        if not found:
            raise WriterNotFound(topic=topic.name, writer=writer)
        return found[0]

    def _page(self, topic: TopicInfo, *, after: str = "", writer: str = "") -> WritersReply:
        call = ListWriters(
            group=topic.group, incarnation=topic.incarnation, after=after, writer=writer
        )
        return self._connection.call_leader(topic.group, LIST_WRITERS, call)
