"""A peer that breaks the protocol loses only its own messages; the node runs on and reports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from raftlog.core.messages import GroupDeleted, Heartbeat, HeartbeatReply, PeerMessage
from raftlog.core.types import CONTROLLER_GROUP, LogIndex, NodeId, RaftTiming, Term
from raftlog.image.job import CompactionJob, Reply
from raftlog.machines.commands import ReportPlacement
from raftlog.multiraft.effects import BackgroundRead, MultiRaftEvent, PeerMessagesRefused
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.limits import LogLimits
from raftlog.storage.write import LogWrite
from tests.multiraft.resting import RESTING
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

NODES = (NodeId(1), NodeId(2), NodeId(3))


class Driver:
    """Effects that are done when the test says so."""

    def __init__(self) -> None:
        self._due: list[Callable[[], Any]] = []
        self.sent: list[PeerMessage] = []
        self.told: list[MultiRaftEvent] = []
        self.wall_us = 1

    def soon(self, turn: Callable[[], None]) -> None:
        self._due.append(turn)

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        raise AssertionError("no follower catches up")

    def monotonic_us(self) -> int:
        return 0

    def boottime_us(self) -> int:
        return 0

    def clock_us(self) -> int:
        return self.wall_us

    def work_us(self) -> int:
        return 0

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self.sent.extend(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        return 0

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        pass

    def report(self, report: ReportPlacement) -> None:
        raise AssertionError("no group is moved")

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        self._due.append(lambda: (read.run(), ran()))

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        self._due.append(lambda: (write.run(), ran()))

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._due.append(lambda: done(work()))

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        """It does not end."""

    def abandon_compaction(self) -> None:
        """Nothing waits for it."""

    def tell(self, event: MultiRaftEvent) -> None:
        self.told.append(event)

    def run(self) -> None:
        while self._due:
            self.run_next()

    def run_next(self) -> None:
        self._due.pop(0)()

    def run_last(self) -> None:
        """What was asked for last, before what is due."""
        self._due.pop()()

    def refusals(self) -> list[PeerMessagesRefused]:
        return [event for event in self.told if isinstance(event, PeerMessagesRefused)]


def started(disk: MemoryFileSystem, *, node: int = 1, **limits: Any) -> tuple[MultiRaft, Driver]:
    """A node over the disk, in a cluster whose voters are `NODES`. It has heard nobody yet."""
    folder = opened_folder(disk, node, NODES)
    driver = Driver()
    store = GroupStore(
        folder=folder,
        timing=RaftTiming(),
        log_limits=LogLimits(preallocate_bytes=0),
        random=Random(1),
        tell=driver.tell,
    )
    multiraft = MultiRaft(
        node=NodeId(node),
        nodes=dict.fromkeys(NODES, ""),
        store=store,
        effects=driver,
        timing=RaftTiming(),
        boot_id=f"{node}.1",
        random=Random(1),
        limits=replace(RESTING, turn_work_us=1_000_000, **limits),
    )
    multiraft.start(store.open_all())
    return multiraft, driver


def follower(disk: MemoryFileSystem | None = None) -> tuple[MultiRaft, Driver]:
    """A node whose controller's group follows node 2 in term 1."""
    multiraft, driver = started(disk or MemoryFileSystem(Random(1)))
    multiraft.receive(NodeId(2), [heartbeat(2)])
    driver.run()
    return multiraft, driver


def heartbeat(sender: int, *, commit_index: int = 0) -> Heartbeat:
    return Heartbeat(
        group=CONTROLLER_GROUP,
        sender=NodeId(sender),
        to=NodeId(1),
        term=Term(1),
        commit_index=LogIndex(commit_index),
        commit_term=Term(min(commit_index, 1)),
        read_round=0,
        quiesce_round=0,
    )


def test_the_other_messages_of_a_frame_are_handled_and_the_node_keeps_running() -> None:
    multiraft, driver = follower()
    driver.sent.clear()
    multiraft.receive(NodeId(2), [heartbeat(2, commit_index=-1), heartbeat(2)])
    driver.run()
    assert multiraft.refusals.counts == {2: 1}
    (told,) = driver.refusals()
    assert "commit_index is -1" in str(told.latest)
    assert "Stop node 2" in str(told.latest)
    assert [type(message) for message in driver.sent] == [HeartbeatReply]


def test_a_refusal_is_reported_at_once_and_later_from_time_to_time_with_the_count() -> None:
    multiraft, driver = follower()
    for tick in range(250):
        multiraft.receive(NodeId(3), [heartbeat(3), heartbeat(3)])
        if tick % 10 == 0:
            multiraft.receive(NodeId(2), [heartbeat(2)])
        multiraft.tick()
        driver.run()
    assert [event.count for event in driver.refusals()] == [1, 201, 401]
    assert multiraft.refusals.counts == {3: 500}
    local = multiraft.replicas.get(CONTROLLER_GROUP)
    assert local is not None
    assert local.replica.raft.leader == 2


def test_no_peer_can_delete_the_controller_s_group() -> None:
    multiraft, _ = follower()
    deleted = GroupDeleted(group=CONTROLLER_GROUP, sender=NodeId(3), to=NodeId(1))
    multiraft.receive(NodeId(3), [deleted])
    assert multiraft.refusals.counts == {3: 1}
    local = multiraft.replicas.get(CONTROLLER_GROUP)
    assert local is not None
    assert not local.deleted_elsewhere
