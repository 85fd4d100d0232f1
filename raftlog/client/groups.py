"""`LogClient.groups`: what may be asked of any Raft group, and what happens to it."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.client.connection import Connection
from raftlog.client.watching import replies, watch_seconds
from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX, GroupId, LogIndex
from raftlog.wire.calls import GET_LAST_APPLIED, GET_SERVERS, WATCH_EVENTS
from raftlog.wire.group_calls import GetLastApplied, GetServers, GroupEvent, Servers, WatchEvents


class Groups:
    """The Raft groups of a cluster: a topic's is `TopicInfo.group`, the controller's is 0.
    Thread-safe. Every call may raise `DeadlineExceeded` or `NodeUnreachable`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def last_applied(self, group: GroupId = CONTROLLER_GROUP) -> LogIndex:
        """Ask the leader how far the log is applied, linearizably.

        Args:
            group: The group. Default: the controller's.

        Returns:
            The index. What is read at it, anywhere, shows every write that was answered before.
        """
        call = GetLastApplied(group=group)
        return self._connection.call_leader(group, GET_LAST_APPLIED, call).index

    def servers(self, group: GroupId = CONTROLLER_GROUP) -> Servers:
        """Ask who holds the group, as some node knows it; only the leader knows the latest.

        Args:
            group: The group. Default: the controller's.

        Returns:
            The nodes that vote, those that learn, the leader and its term.
        """
        return self._connection.call_any(GET_SERVERS, GetServers(group=group))

    def events(self, group: GroupId = CONTROLLER_GROUP) -> Iterator[GroupEvent]:
        """Watch a group: its leader, its voters, and how far it is applied, as some node knows it.

        Nodes may be behind one another: a term or an index that is not above the one that was told
        last is left out.

        Args:
            group: The group. Default: the controller's.

        Yields:
            First how the group is, then each change, without end.
        """
        term, index, members = 0, NO_INDEX, None

        def request() -> WatchEvents:
            return WatchEvents(group=group, after=index, seconds=watch_seconds(self._connection))

        for event in replies(self._connection, WATCH_EVENTS, request):
            if event is None:
                continue
            match event.kind:
                case "leader_changed" if event.term > term:
                    term = event.term
                    yield event
                case "state_changed" if event.index > index:
                    index = event.index
                    yield event
                case "voters_changed" if (event.voters, event.learners) != members:
                    members = event.voters, event.learners
                    yield event
