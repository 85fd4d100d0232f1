"""A turn has one budget for all groups: no replay keeps another group's messages waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from raftlog.core.messages import Heartbeat, HeartbeatReply, PeerMessage
from raftlog.core.types import (
    CONTROLLER_GROUP,
    EMPTY_PAYLOAD,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    RaftTiming,
    Term,
)
from raftlog.machines.commands import ReportPlacement, TopicInfo
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.schema import Field, Schema
from raftlog.multiraft.effects import MultiRaftEvent
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.multiraft import APPLY_ENTRIES_MAX, TURN_ENTRIES_MAX, MultiRaft
from raftlog.storage.limits import LogLimits
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite
from tests.multiraft.resting import RESTING
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

NODES = (NodeId(1), NodeId(2), NodeId(3))
TURN_US = 1_000
TIMING = RaftTiming()


class Driver:
    """Effects that wait until the test lets them happen. Each look at the clock costs `look_us`."""

    def __init__(self, look_us: int) -> None:
        self.look_us = look_us
        self.now_us = 0
        self.turns: list[Callable[[], None]] = []
        self.sent: list[PeerMessage] = []

    def soon(self, turn: Callable[[], None]) -> None:
        self.turns.append(turn)

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        raise AssertionError("no follower catches up")

    def monotonic_us(self) -> int:
        return 0

    def boottime_us(self) -> int:
        return 0

    def clock_us(self) -> int:
        return 1

    def work_us(self) -> int:
        self.now_us += self.look_us
        return self.now_us

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self.sent.extend(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        return 0

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        pass

    def report(self, report: ReportPlacement) -> None:
        raise AssertionError("no group is moved")

    def read_positions(self, done: Any) -> None:
        raise AssertionError("no topic has a retention")

    def run_read(self, read: LogRead, ran: Callable[[], None]) -> None:
        raise AssertionError("no follower catches up")

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        """Nothing here waits for the disk."""

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        raise AssertionError("no topic comes or goes")

    def tell(self, event: MultiRaftEvent) -> None:
        pass


class Scene:
    """A node that starts again as a follower in `groups` groups with `entries` entries each."""

    def __init__(self, *, groups: int, entries: int, look_us: int) -> None:
        fs = MemoryFileSystem(Random(1))
        folder = opened_folder(fs, 1, NODES)
        self.driver = Driver(look_us)
        store = GroupStore(
            folder=folder,
            timing=TIMING,
            log_limits=LogLimits(preallocate_bytes=0),
            random=Random(1),
            tell=self.driver.tell,
        )
        self.entries = entries
        for topic in [CONTROLLER, *(topic_of(number) for number in range(1, groups + 1))]:
            log = store.make_group(topic).log
            log.append(
                [
                    Entry(LogIndex(index), Term(1), EntryKind.NOOP, EMPTY_PAYLOAD)
                    for index in range(1, entries + 1)
                ]
            )
            log.close()
        self.multiraft = MultiRaft(
            node=NODES[0],
            nodes=dict.fromkeys(NODES, ""),
            store=store,
            effects=self.driver,
            timing=TIMING,
            boot_id="b",
            random=Random(1),
            limits=replace(RESTING, request_bytes_max=1 << 20, turn_work_us=TURN_US),
        )
        self.multiraft.start(store.open_all())

    def hear_the_leader(self) -> None:
        """A heartbeat for every group in one frame, the controller's last: all is committed."""
        groups = sorted((local.group for local in self.multiraft.replicas.values()), reverse=True)
        self.multiraft.receive(
            NODES[1],
            [
                Heartbeat(
                    group=group,
                    sender=NODES[1],
                    to=NODES[0],
                    term=Term(1),
                    commit_index=LogIndex(self.entries),
                    commit_term=Term(1),
                    read_round=0,
                    quiesce_round=0,
                )
                for group in groups
            ],
        )

    def turn(self) -> None:
        (turn,) = self.driver.turns
        self.driver.turns.clear()
        turn()

    def applied(self) -> dict[GroupId, int]:
        return {
            local.group: local.replica.applied_index for local in self.multiraft.replicas.values()
        }

    def answered(self) -> list[GroupId]:
        return [each.group for each in self.driver.sent if isinstance(each, HeartbeatReply)]


def topic_of(number: int) -> TopicInfo:
    return TopicInfo(
        name=f"t{number}",
        incarnation=f"i{number}",
        group=GroupId(number),
        schema=Schema(version=1, fields=(Field(id=1, name="a", type="long", nullable=True),)),
        voters=NODES,
        created_us=0,
        rules=1,
    )


@pytest.mark.slow
def test_every_heartbeat_is_answered_in_its_turn_while_all_groups_replay_their_logs() -> None:
    scene = Scene(groups=40, entries=500, look_us=5)
    scene.hear_the_leader()
    scene.turn()
    assert sorted(scene.answered()) == list(range(41))
    assert 0 < sum(scene.applied().values()) <= TURN_US / scene.driver.look_us
    assert len(scene.driver.turns) == 1, "what is left continues in a turn of its own"


def test_no_group_applies_twice_before_another_that_waits_applies_once() -> None:
    scene = Scene(groups=7, entries=1_000, look_us=5)
    scene.hear_the_leader()
    while scene.driver.turns:
        scene.turn()
        topics = [count for group, count in scene.applied().items() if group != CONTROLLER_GROUP]
        assert max(topics) - min(topics) <= 2 * APPLY_ENTRIES_MAX
    assert set(scene.applied().values()) == {1_000}


def test_the_controllers_group_goes_first() -> None:
    scene = Scene(groups=5, entries=300, look_us=5)
    scene.hear_the_leader()
    scene.turn()
    assert [group for group, count in scene.applied().items() if count] == [CONTROLLER_GROUP]
    assert scene.answered()[0] == CONTROLLER_GROUP


def test_a_turn_does_something_of_each_kind_even_if_every_step_takes_all_its_time() -> None:
    scene = Scene(groups=5, entries=3, look_us=2 * TURN_US)
    scene.hear_the_leader()
    turns = 0
    while scene.driver.turns:
        before = sum(scene.applied().values()) + len(scene.answered())
        scene.turn()
        turns += 1
        assert sum(scene.applied().values()) + len(scene.answered()) - before in (1, 2)
    assert sorted(scene.answered()) == list(range(6))
    assert set(scene.applied().values()) == {3}
    assert turns == 3 * 6


@pytest.mark.slow
def test_applying_keeps_its_half_of_a_turn_that_messages_could_fill() -> None:
    scene = Scene(groups=60, entries=400, look_us=20)
    scene.hear_the_leader()
    scene.turn()
    share = TURN_US // 2 // scene.driver.look_us
    assert len(scene.answered()) <= share < 60
    assert share // 2 <= sum(scene.applied().values()) <= share


@pytest.mark.slow
def test_a_turn_ends_after_so_many_entries_even_if_the_clock_stands_still() -> None:
    scene = Scene(groups=3, entries=TURN_ENTRIES_MAX, look_us=0)
    scene.hear_the_leader()
    scene.turn()
    assert sum(scene.applied().values()) == TURN_ENTRIES_MAX
