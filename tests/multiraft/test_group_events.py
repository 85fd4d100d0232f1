"""What watchers of a group are told, and what becomes of one that does not listen."""

from __future__ import annotations

import pytest

from raftlog.core.types import LogIndex, NodeId, Term
from raftlog.errors import NotLeader, WatcherTooSlow
from raftlog.multiraft.group_events import (
    EVENTS_QUEUED_MAX,
    GroupEvents,
    GroupStatus,
    LeaderChanged,
    StateChanged,
    VotersChanged,
)

THREE = (NodeId(1), NodeId(2), NodeId(3))


def status(
    *,
    leader: int = 1,
    term: int = 1,
    applied: int = 5,
    voters: tuple[NodeId, ...] = THREE,
    learners: tuple[NodeId, ...] = (),
) -> GroupStatus:
    return GroupStatus(NodeId(leader), Term(term), LogIndex(applied), voters, learners)


class Watched:
    """A group's events, one watcher, and how often it was woken."""

    def __init__(self, now: GroupStatus, after: int = 0) -> None:
        self.events = GroupEvents()
        self.woken = 0
        self.watcher = self.events.watch(now, LogIndex(after), self.wake)

    def wake(self) -> None:
        self.woken += 1


def leads(leader: int, term: int) -> LeaderChanged:
    return LeaderChanged(leader=NodeId(leader), term=Term(term))


def test_a_watcher_is_told_first_how_the_group_is() -> None:
    members = VotersChanged(voters=THREE, learners=())
    assert Watched(status()).watcher.take() == [
        leads(1, 1),
        members,
        StateChanged(index=LogIndex(5)),
    ]
    assert Watched(status(leader=0), after=5).watcher.take() == [members], "what it knows is left"


def test_each_leader_is_told_once() -> None:
    watched = Watched(status())
    watched.watcher.take()
    for now in (
        status(leader=0, term=2),
        status(leader=2, term=2),
        status(leader=2, term=2),
        status(leader=0, term=3),
        status(leader=2, term=4),
    ):
        watched.events.note(now)
    assert watched.watcher.take() == [leads(2, 2), leads(2, 4)]
    assert watched.woken == 4, "nothing new wakes nobody"


def test_the_applied_index_is_told_as_it_is_when_it_is_taken_and_only_rises() -> None:
    watched = Watched(status())
    watched.watcher.take()
    for applied in range(6, 6 + 2 * EVENTS_QUEUED_MAX):
        watched.events.note(status(applied=applied))
    last = LogIndex(5 + 2 * EVENTS_QUEUED_MAX)
    assert watched.watcher.take() == [StateChanged(index=last)]
    watched.events.note(status(applied=7))  # the replica stands at an image, as after a restart
    assert watched.watcher.take() == []


def test_a_change_of_members_is_told_when_it_is_written_and_again_when_it_is_undone() -> None:
    watched = Watched(status())
    watched.watcher.take()
    four = (*THREE, NodeId(4))
    watched.events.note(status(learners=(NodeId(4),)))
    watched.events.note(status(voters=four))
    watched.events.note(status())
    assert watched.watcher.take() == [
        VotersChanged(voters=THREE, learners=(NodeId(4),)),
        VotersChanged(voters=four, learners=()),
        VotersChanged(voters=THREE, learners=()),
    ]


def test_a_watcher_that_takes_nothing_is_ended_and_the_others_go_on() -> None:
    watched = Watched(status())
    other = watched.events.watch(status(), LogIndex(0), lambda: None)
    for term in range(2, 3 + EVENTS_QUEUED_MAX):
        other.take()
        watched.events.note(status(term=term))
    with pytest.raises(WatcherTooSlow):
        watched.watcher.take()
    assert other.take() == [leads(1, 2 + EVENTS_QUEUED_MAX)]


def test_watchers_end_with_the_replica_and_one_that_left_is_told_nothing() -> None:
    watched = Watched(status())
    left = watched.events.watch(status(), LogIndex(0), lambda: pytest.fail("it has left"))
    watched.events.forget(left)
    watched.events.end(NotLeader(group=1))
    assert not watched.events.watched
    with pytest.raises(NotLeader):
        watched.watcher.take()
