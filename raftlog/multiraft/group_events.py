"""What watchers of a group are told: its leader, its members and how far it is applied.

A watcher's queue is bounded. How far the group is applied is told as it is when the watcher takes
it, so that never fills the queue. A watcher that leaves too many other events there is ended: it
watches again, and is told first how things are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.types import NO_NODE, LogIndex, NodeId, Term
from raftlog.errors import RaftlogError, WatcherTooSlow

EVENTS_QUEUED_MAX = 256
"""Events that wait for one watcher. No setting: a group does not change its leader or members so
often, unless the watcher does not read."""


class GroupStatus(NamedTuple):
    """A group as one of its replicas knows it."""

    leader: NodeId
    """0: unknown."""
    term: Term
    applied_index: LogIndex
    voters: tuple[NodeId, ...]
    learners: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """This node leads in this term. Told once for each."""

    leader: NodeId
    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """The log is applied up to this index. It only rises."""

    index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersChanged:
    """The group's members as the replica goes by them: from when a change is written, so one that
    is undone is told again."""

    voters: tuple[NodeId, ...]
    learners: tuple[NodeId, ...]


GroupEvent = LeaderChanged | StateChanged | VotersChanged


class Watcher:
    """The events for one who watches. `wake` is called when some came; `take` hands them out."""

    def __init__(self, status: GroupStatus, after: LogIndex, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._queue: deque[LeaderChanged | VotersChanged] = deque()
        self._error: RaftlogError | None = None
        self._known = status
        self._told_index = after
        if status.leader != NO_NODE:
            self._queue.append(LeaderChanged(leader=status.leader, term=status.term))
        self._queue.append(VotersChanged(voters=status.voters, learners=status.learners))

    def take(self) -> list[GroupEvent]:
        """All that happened since the last call, in order. Raises what ended the watching."""
        if self._error is not None:
            raise self._error
        events: list[GroupEvent] = [*self._queue]
        self._queue.clear()
        if self._known.applied_index > self._told_index:
            self._told_index = self._known.applied_index
            events.append(StateChanged(index=self._told_index))
        return events

    def note(self, status: GroupStatus) -> None:
        """The group is like this now."""
        before, self._known = self._known, status
        if status.leader != NO_NODE and status[:2] != before[:2]:
            self._queue.append(LeaderChanged(leader=status.leader, term=status.term))
        if status[3:] != before[3:]:
            self._queue.append(VotersChanged(voters=status.voters, learners=status.learners))
        if len(self._queue) > EVENTS_QUEUED_MAX:
            self.end(WatcherTooSlow(limit=EVENTS_QUEUED_MAX))
        elif status != before:
            self._wake()

    def end(self, error: RaftlogError) -> None:
        """There will be no further event."""
        self._queue.clear()
        self._error = error
        self._wake()


class GroupEvents:
    """The watchers of one replica."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    @property
    def watched(self) -> bool:
        """Whether there is a watcher."""
        return bool(self._watchers)

    def watch(self, status: GroupStatus, after: LogIndex, wake: Callable[[], None]) -> Watcher:
        """Tell from now on what changes, and first how things are; of the applied index only
        beyond `after`."""
        watcher = Watcher(status, after, wake)
        self._watchers.add(watcher)
        return watcher

    def forget(self, watcher: Watcher) -> None:
        """Tell it nothing more."""
        self._watchers.discard(watcher)

    def note(self, status: GroupStatus) -> None:
        """The group is like this now."""
        for watcher in self._watchers:
            watcher.note(status)

    def end(self, error: RaftlogError) -> None:
        """The replica is gone from here."""
        for watcher in self._watchers:
            watcher.end(error)
        self._watchers.clear()
