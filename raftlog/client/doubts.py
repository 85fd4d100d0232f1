"""Errors that time heals, told from those of a request that no node can answer.

A node that has no replica of a group, or has not applied an index, cannot tell whether it is only
behind. Who leads can.
"""

from __future__ import annotations

from raftlog.client.connection import Connection
from raftlog.client.retries import Deadline
from raftlog.core.types import CONTROLLER_GROUP, GroupId
from raftlog.errors import GroupUnknown, IndexOverflow, NotLeader, RaftlogError
from raftlog.wire.calls import DESCRIBE_PLACEMENTS, GET_LAST_APPLIED
from raftlog.wire.group_calls import GetLastApplied
from raftlog.wire.placing_calls import DescribePlacements


class GroupDoubts:
    """Judges the errors of one request about a group, for `Connection.retry`."""

    def __init__(self, connection: Connection, group: GroupId) -> None:
        self._connection = connection
        self._group = group
        self._exists = group == CONTROLLER_GROUP

    def __call__(self, error: RaftlogError) -> RaftlogError | None:
        """The error to raise in place of more tries; None: it may help to try again."""
        if isinstance(error, IndexOverflow):
            return self._beyond_end(error.requested)
        if isinstance(error, NotLeader) and not error.leader and not self._exists:
            return self._no_group()
        return None

    def _beyond_end(self, index: int) -> IndexOverflow | None:
        call = GetLastApplied(group=self._group)
        try:
            applied = self._connection.call_leader(
                self._group, GET_LAST_APPLIED, call, deadline=self._deadline(GET_LAST_APPLIED.name)
            ).index
        except RaftlogError:
            return None  # no leader answers
        return IndexOverflow(requested=index, latest=applied) if applied < index else None

    def _no_group(self) -> GroupUnknown | None:
        try:
            known = self._connection.call_leader(
                CONTROLLER_GROUP,
                DESCRIBE_PLACEMENTS,
                DescribePlacements(),
                deadline=self._deadline(DESCRIBE_PLACEMENTS.name),
            ).groups
        except RaftlogError:
            return None  # no leader answers
        self._exists = any(each.group == self._group for each in known)
        return None if self._exists else GroupUnknown(group=self._group)

    def _deadline(self, what: str) -> Deadline:
        """The leader's word is worth one try: the request's own tries go on without it."""
        return Deadline(what, self._connection.settings.try_timeout_s)
