"""`LogClient.groups`: what may be asked of any Raft group, and what happens to it."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.client.arguments import whole_argument
from raftlog.client.connection import Connection
from raftlog.client.doubts import GroupDoubts
from raftlog.client.watching import replies, watch_seconds
from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX, GroupId, LogIndex
from raftlog.errors import IndexOverflow, MalformedRequest
from raftlog.machines.limits import INTEGER_MAX
from raftlog.wire.calls import GET_ENTRIES, GET_LAST_APPLIED, GET_SERVERS, GET_STATE, WATCH_EVENTS
from raftlog.wire.group_calls import (
    ENTRIES_PER_REPLY_MAX,
    GetEntries,
    GetLastApplied,
    GetServers,
    GetState,
    GroupEvent,
    LogEntry,
    Servers,
    StatePart,
    WatchEvents,
)

_CRC_MAX = 0xFFFF_FFFF
"""No setting: a CRC-32C has 32 bits."""


class Groups:
    """The Raft groups of a cluster: a topic's is `TopicInfo.group`, the controller's is 0.
    Thread-safe. Every call may raise `DeadlineExceeded`, `NodeUnreachable`, or `GroupUnknown`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def last_applied(self, group: GroupId = CONTROLLER_GROUP) -> LogIndex:
        """Ask the leader how far the log is applied, linearizably.

        Args:
            group: The group. Default: the controller's.

        Returns:
            The index. What is read at it, anywhere, shows every write that was answered before.
        """
        call = GetLastApplied(group=_group(group))
        judge = GroupDoubts(self._connection, group)
        return self._connection.call_leader(group, GET_LAST_APPLIED, call, judge=judge).index

    def servers(self, group: GroupId = CONTROLLER_GROUP) -> Servers:
        """Ask who holds the group, as some node knows it; only the leader knows the latest.

        Args:
            group: The group. Default: the controller's.

        Returns:
            The nodes that vote, learn and observe, the leader and its term.
        """
        call = GetServers(group=_group(group))
        return self._connection.call_any(
            GET_SERVERS, call, judge=GroupDoubts(self._connection, group)
        )

    def state(
        self, group: GroupId = CONTROLLER_GROUP, *, index: int = 0, offset: int = 0, crc: int = 0
    ) -> Iterator[StatePart]:
        """Copy the state of a group's machine at its newest snapshot, part by part.

        Any node gives any part, so this goes on when one stops. The snapshot stays while it is
        copied, and two minutes after. To go on later, also in another process, give `index` and
        `crc` of any part, and the `end` of the last one.

        Args:
            group: The group. Default: the controller's.
            index: The last entry that the snapshot includes. Default: the newest snapshot.
            offset: Where to begin, in bytes. Default: at the begin.
            crc: The CRC-32C of the whole. Default: whatever the first part says.

        Yields:
            The parts in order. Together they are the content of a snapshot file (docs/FORMAT.md)
            and have the CRC-32C that each of them names.

        Raises:
            NoSnapshot: No node has a snapshot, or none at the index.
            IndexUnderflow: No node keeps the snapshot any more: begin again.
        """
        for name, value in (("index", index), ("offset", offset)):
            whole_argument(name, value)
        whole_argument("crc", crc, most=_CRC_MAX)
        return self._parts(_group(group), LogIndex(index), offset, crc)

    def _parts(self, group: GroupId, index: LogIndex, offset: int, crc: int) -> Iterator[StatePart]:
        judge = GroupDoubts(self._connection, group)
        while True:
            call = GetState(group=group, index=index, offset=offset, crc=crc)
            part = self._connection.call_that_has(GET_STATE, call, judge)
            if part.offset != offset or not (part.data or part.done):
                what = f"{len(part.data)} bytes at {part.offset} where those at {offset} are due"
                raise MalformedRequest(call=GET_STATE.name, what=what)
            yield part
            if part.done:
                return
            index, offset, crc = part.index, part.end, part.crc

    def entries(
        self, group: GroupId = CONTROLLER_GROUP, *, index: int = 1, limit: int | None = None
    ) -> Iterator[LogEntry]:
        """Read committed entries of a group's log, from any node that holds them.

        Args:
            group: The group. Default: the controller's.
            index: The first entry. Default: the first that was ever written.
            limit: The most entries to give: 1 or more. Default: all that are committed when the
                first one is asked for.

        Yields:
            The entries in order, without a gap.

        Raises:
            IndexUnderflow: No node's log goes back to `index`; it names the next one that is kept.
            IndexOverflow: Nothing is committed at `index` yet.
        """
        first = LogIndex(whole_argument("index", index, least=1))
        if limit is not None:
            whole_argument("limit", limit, least=1)
        return self._entries(_group(group), first, limit)

    def _entries(self, group: GroupId, index: LogIndex, limit: int | None) -> Iterator[LogEntry]:
        end = self.last_applied(group)
        if index > end:
            raise IndexOverflow(requested=index, latest=end)
        left = INTEGER_MAX if limit is None else limit
        while True:
            asked = min(left, ENTRIES_PER_REPLY_MAX)
            call = GetEntries(group=group, index=index, entries_max=asked)
            reply = self._connection.call_that_has(GET_ENTRIES, call)
            count = len(reply.entries)
            if not 0 < count <= asked or any(
                each.index != place for place, each in enumerate(reply.entries, index)
            ):
                what = f"{count} entries that do not follow on entry {index - 1}"
                raise MalformedRequest(call=GET_ENTRIES.name, what=what)
            yield from reply.entries
            index = LogIndex(index + count)
            left -= count
            if index > end or left <= 0:
                return

    def events(self, group: GroupId = CONTROLLER_GROUP) -> Iterator[GroupEvent]:
        """Watch a group: its leader, its voters, and how far it is applied, as some node knows it.

        Nodes may be behind one another: a term or an index that is not above the one that was told
        last is left out.

        Args:
            group: The group. Default: the controller's.

        Yields:
            First how the group is, then each change, without end.
        """
        return self._events(_group(group))

    def _events(self, group: GroupId) -> Iterator[GroupEvent]:
        term, index, members = 0, NO_INDEX, None

        def request() -> WatchEvents:
            return WatchEvents(group=group, after=index, seconds=watch_seconds(self._connection))

        judge = GroupDoubts(self._connection, group)
        for event in replies(self._connection, WATCH_EVENTS, request, judge):
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


def _group(group: object) -> GroupId:
    return GroupId(whole_argument("group", group))
