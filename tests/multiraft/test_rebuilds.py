"""A replica that a majority has outvoted gets its leader's image, twice a day at most."""

from __future__ import annotations

from typing import Any

from raftlog.core.messages import ImageRequest
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, Offset
from raftlog.image.outvoted import (
    NEVER_OUTVOTED,
    REBUILDS_US,
    Outvoted,
    read_outvoted,
    write_outvoted,
)
from raftlog.multiraft.effects import (
    HistoryCompared,
    RebuildsSpent,
    ReplicaRebuilding,
    StateCompared,
)
from tests.multiraft.leading import TWO, disk_of_topics, heartbeat
from tests.multiraft.test_refused_messages import started
from tests.storage.memory import MemoryFileSystem

GROUP = GroupId(1)
FOLDER = "groups/1"
POINT = LogIndex(7)
OWN, ANOTHER = b"own", b"another"
LOOK_TICKS = 20
"""A rebuild that is due is tried so often."""


class Follower:
    """Node 1, with a replica of one topic that was compacted at `POINT`. Node 2 may lead it."""

    def __init__(self, disk: MemoryFileSystem | None = None) -> None:
        self.disk = disk or disk_of_topics(1)
        self.multiraft, self.driver = started(self.disk)
        self.local = self.multiraft.replicas[GROUP]
        self.local.replica.history_reached(POINT, OWN, Offset(5))

    def hear(self, group: int = GROUP, **told: Any) -> None:
        """Node 2 speaks as the group's leader."""
        self.multiraft.receive(TWO, [heartbeat(group, TWO, 1, **told)])
        self.driver.run()

    def hear_digest(self, digest: bytes) -> None:
        """Node 2 says which history a majority has at `POINT`."""
        self.hear(agreed_history_index=POINT, agreed_history_digest=digest)

    def pass_ticks(self, count: int) -> None:
        for _ in range(count):
            self.multiraft.tick()
            self.driver.run()

    def told(self, *kinds: type) -> list[Any]:
        return [event for event in self.driver.told if isinstance(event, kinds)]

    @property
    def requests(self) -> list[ImageRequest]:
        return [each for each in self.driver.sent if isinstance(each, ImageRequest)]

    @property
    def noted(self) -> Outvoted:
        return read_outvoted(self.disk, FOLDER)


def outvoted_before(*rebuilt_us: int) -> Follower:
    """Its folder says that it was outvoted before it started, and when it was rebuilt."""
    disk = disk_of_topics(1)
    write_outvoted(disk, FOLDER, Outvoted(history=True, rebuilt_us=rebuilt_us))
    return Follower(disk)


def test_an_outvoted_replica_asks_its_leader_for_an_image_and_reports_it_once() -> None:
    follower = Follower()
    follower.hear_digest(OWN)
    follower.pass_ticks(LOOK_TICKS)
    assert not follower.told(ReplicaRebuilding)
    follower.hear_digest(ANOTHER)
    follower.pass_ticks(LOOK_TICKS)
    (event,) = follower.told(ReplicaRebuilding)
    assert (event.group, event.info, event.peer) == (GROUP, follower.local.info, TWO)
    assert {each.to for each in follower.requests} == {TWO}
    follower.pass_ticks(LOOK_TICKS)
    assert len(follower.told(ReplicaRebuilding)) == 1


def test_what_a_replica_knows_is_reported_before_its_rebuild() -> None:
    """Also where the look comes between the leader's message and the turn that handles it."""
    follower = Follower()
    follower.local.replica.states.reached(POINT, OWN, Offset(0))
    follower.pass_ticks(LOOK_TICKS - 1)
    follower.multiraft.receive(
        TWO, [heartbeat(GROUP, TWO, 1, agreed_index=POINT, agreed_hash=ANOTHER)]
    )
    follower.multiraft.tick()
    follower.driver.run()
    follower.pass_ticks(LOOK_TICKS)
    kinds = [type(event) for event in follower.told(StateCompared, ReplicaRebuilding)]
    assert kinds == [StateCompared, ReplicaRebuilding]


def test_a_rebuild_is_tried_at_looks_only() -> None:
    follower = Follower()
    follower.hear_digest(ANOTHER)
    follower.pass_ticks(LOOK_TICKS - 1)
    assert not follower.told(ReplicaRebuilding)
    follower.pass_ticks(1)
    assert follower.told(ReplicaRebuilding)


def test_its_folder_says_that_it_was_outvoted_until_a_majority_agrees_with_it() -> None:
    follower = Follower()
    assert follower.noted == NEVER_OUTVOTED
    follower.hear_digest(ANOTHER)
    assert follower.noted == follower.local.outvoted == Outvoted(history=True)
    follower.hear_digest(OWN)
    assert follower.noted == follower.local.outvoted == Outvoted(history=False)


def test_a_replica_that_agreed_meanwhile_is_reported_again() -> None:
    follower = Follower()
    for count in (1, 2):
        follower.hear_digest(ANOTHER)
        follower.pass_ticks(LOOK_TICKS)
        assert len(follower.told(ReplicaRebuilding)) == count
        follower.hear_digest(OWN)
        follower.pass_ticks(LOOK_TICKS)


def test_no_image_is_asked_for_before_the_folder_says_why() -> None:
    """A crash in between would leave a rebuild that nothing counts."""
    follower = Follower()
    spoken = heartbeat(GROUP, TWO, 1, agreed_history_index=POINT, agreed_history_digest=ANOTHER)
    follower.multiraft.receive(TWO, [spoken])
    while not follower.told(HistoryCompared):
        follower.driver.run_next()
    for _ in range(2 * LOOK_TICKS):
        follower.multiraft.tick()
    assert not follower.noted.history
    assert not follower.told(ReplicaRebuilding)
    follower.driver.run()
    follower.pass_ticks(LOOK_TICKS)
    assert follower.noted.history
    assert follower.told(ReplicaRebuilding)


def test_after_a_restart_it_is_rebuilt_once_a_leader_is_known() -> None:
    follower = outvoted_before()
    follower.pass_ticks(LOOK_TICKS)
    assert not follower.requests
    follower.hear()
    follower.pass_ticks(LOOK_TICKS)
    assert follower.told(ReplicaRebuilding)
    assert {each.to for each in follower.requests} == {TWO}


def test_a_third_rebuild_waits_until_a_day_has_passed_since_the_first() -> None:
    follower = outvoted_before(1, 2)
    follower.driver.wall_us = REBUILDS_US
    follower.hear()
    for _ in range(3):
        follower.pass_ticks(LOOK_TICKS)
    (event,) = follower.told(RebuildsSpent, ReplicaRebuilding)
    assert event == RebuildsSpent(group=GROUP, info=follower.local.info)
    assert not follower.requests
    follower.driver.wall_us = REBUILDS_US + 1
    follower.pass_ticks(LOOK_TICKS)
    assert follower.told(ReplicaRebuilding)
    assert follower.requests


def test_a_state_that_differs_is_rebuilt_but_its_folder_says_nothing() -> None:
    """A restart replays the log, which may give the right state."""
    follower = Follower()
    follower.local.replica.states.reached(POINT, OWN, Offset(0))
    follower.hear(agreed_index=POINT, agreed_hash=ANOTHER)
    follower.pass_ticks(LOOK_TICKS)
    assert follower.told(ReplicaRebuilding)
    assert follower.requests
    assert follower.noted == NEVER_OUTVOTED


def test_the_controllers_group_is_never_rebuilt() -> None:
    follower = Follower()
    controller = follower.multiraft.replicas.of_controller
    controller.replica.states.reached(POINT, OWN, Offset(0))
    follower.hear(CONTROLLER_GROUP, agreed_index=POINT, agreed_hash=ANOTHER)
    assert controller.replica.diverged
    follower.pass_ticks(LOOK_TICKS)
    assert not follower.told(ReplicaRebuilding, RebuildsSpent)
    assert not follower.requests
