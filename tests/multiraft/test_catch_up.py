"""Entries that a follower lacks are read from disk: off the loop, in order, if still wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    PeerMessage,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    Entry,
    EntryKind,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Term,
)
from raftlog.machines.commands import ReportPlacement
from raftlog.machines.group_info import CONTROLLER
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.effects import EntryDamaged, MultiRaftEvent
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.limits import LogLimits
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite
from tests.multiraft.resting import RESTING
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

NODE, BEHIND, OTHER = NodeId(1), NodeId(2), NodeId(3)
BODY_BYTES = 4_000
PEER_BYTES_MAX = 4 * BODY_BYTES
TIMING = RaftTiming(append_entries_max=2, inflight_requests_max=8)


class Driver:
    """Effects: writes run at once and are reported by `settle`; reads wait for the test."""

    def __init__(self) -> None:
        self.soons: list[Callable[[], None]] = []
        self.reads: list[tuple[LogRead, Callable[[], None]]] = []
        self.sent: list[PeerMessage] = []
        self.queued = 0
        self.told: list[MultiRaftEvent] = []
        self.now_us = 0
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def soon(self, turn: Callable[[], None]) -> None:
        self.soons.append(turn)

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        self.timers.append((self.now_us + delay_us, turn))

    def monotonic_us(self) -> int:
        return self.now_us

    def boottime_us(self) -> int:
        return self.now_us

    def clock_us(self) -> int:
        return 1

    def work_us(self) -> int:
        return 0

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self.sent.extend(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        return self.queued

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        pass

    def report(self, report: ReportPlacement) -> None:
        raise AssertionError("no group is moved")

    def run_read(self, read: LogRead, ran: Callable[[], None]) -> None:
        self.reads.append((read, ran))

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        write.run()
        self.soons.append(ran)

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.soons.append(lambda: done(work()))

    def tell(self, event: MultiRaftEvent) -> None:
        self.told.append(event)


class Scene:
    """A node that leads term 2 with `entries` entries of term 1, none of them in memory."""

    def __init__(self, entries: int = 40, bytes_per_s: int = 1 << 40) -> None:
        self.disk = MemoryFileSystem(Random(1))
        folder = opened_folder(self.disk, NODE, (NODE, BEHIND, OTHER))
        self.driver = Driver()
        store = GroupStore(
            folder=folder,
            timing=TIMING,
            log_limits=LogLimits(preallocate_bytes=0),
            random=Random(1),
            tell=self.driver.tell,
        )
        log = store.make_group(CONTROLLER).log
        log.append([entry(index, term=1) for index in range(1, entries + 1)])
        log.close()
        self.multiraft = MultiRaft(
            node=NODE,
            nodes=dict.fromkeys((NODE, BEHIND, OTHER), ""),
            store=store,
            effects=self.driver,
            timing=TIMING,
            boot_id="b",
            random=Random(1),
            limits=replace(
                RESTING, catch_up=CatchUpLimits(PEER_BYTES_MAX, 2 * PEER_BYTES_MAX, bytes_per_s)
            ),
        )
        self.multiraft.start(store.open_all())
        self.replica = self.multiraft.replicas.get(CONTROLLER_GROUP).replica
        self._lead()

    def settle(self) -> None:
        while self.driver.soons:
            soons, self.driver.soons = self.driver.soons, []
            for each in soons:
                each()

    def pass_until_timer(self) -> None:
        """Time passes until a timer is due."""
        timers, self.driver.timers = self.driver.timers, []
        for due_us, turn in timers:
            self.driver.now_us = max(self.driver.now_us, due_us)
            turn()
        self.settle()

    def receive(self, message: PeerMessage) -> None:
        self.multiraft.receive(message.sender, [message])
        self.settle()

    def _lead(self) -> None:
        while self.replica.raft.role is not Role.LEADER:
            self.multiraft.tick()
            self.settle()
            for asked in [m for m in self.driver.sent if isinstance(m, VoteRequest)]:
                self.driver.sent.remove(asked)
                self.receive(
                    VoteReply(
                        group=CONTROLLER_GROUP,
                        sender=asked.to,
                        to=NODE,
                        term=asked.term,
                        granted=True,
                        pre=asked.pre,
                    )
                )
        self.driver.sent.clear()

    def answer(
        self, *, accepted: bool, prev_index: int, match_index: int = 0, peer: NodeId = BEHIND
    ) -> None:
        """A follower that is behind answers a request."""
        self.receive(
            AppendReply(
                group=CONTROLLER_GROUP,
                sender=peer,
                to=NODE,
                term=self.replica.raft.term,
                accepted=accepted,
                prev_index=LogIndex(prev_index),
                match_index=LogIndex(match_index),
                conflict_term=Term(0),
                conflict_index=LogIndex(0 if accepted else 1),
                last_index=LogIndex(match_index),
            )
        )

    def fall_behind(self, peer: NodeId = BEHIND) -> None:
        """The follower's log is empty, and the leader has found out."""
        self.answer(accepted=False, prev_index=self.replica.log.last_index - 1, peer=peer)
        self.answer(accepted=True, prev_index=0, peer=peer)

    def run_read(self) -> None:
        read, ran = self.driver.reads.pop(0)
        read.run()
        ran()
        self.settle()

    def depose(self, term: int) -> None:
        self.receive(
            Heartbeat(
                group=CONTROLLER_GROUP,
                sender=OTHER,
                to=NODE,
                term=Term(term),
                commit_index=LogIndex(0),
                read_round=0,
                quiesce_round=0,
            )
        )

    def replicated(self) -> list[AppendRequest]:
        return [m for m in self.driver.sent if isinstance(m, AppendRequest) and m.entries]


def entry(index: int, *, term: int) -> Entry:
    payload = Payload(b"", bytes([term]) * BODY_BYTES)
    return Entry(LogIndex(index), Term(term), EntryKind.NOOP, payload)


def test_entries_on_disk_are_read_off_the_loop_and_leave_in_their_order() -> None:
    scene = Scene()
    scene.fall_behind()
    assert scene.replicated() == [], "nothing was read on the loop"
    while scene.driver.reads:
        assert len(scene.driver.reads) == 1, "one at a time keeps the order"
        scene.run_read()
        if scene.replicated():
            last = scene.replicated()[-1].entries[-1].index
            scene.answer(accepted=True, prev_index=last, match_index=last)
    sent = [each for request in scene.replicated() for each in request.entries]
    assert sent[:-1] == [entry(index, term=1) for index in range(1, 41)]
    assert (sent[-1].index, sent[-1].term) == (41, scene.replica.raft.term)


def test_a_read_that_ends_after_a_step_down_is_not_sent() -> None:
    scene = Scene()
    scene.fall_behind()
    scene.depose(scene.replica.raft.term + 1)
    scene.run_read()
    assert scene.replicated() == []
    assert scene.driver.reads == [], "what waited behind it is dropped, too"


def test_a_read_of_entries_that_were_truncated_meanwhile_does_no_harm() -> None:
    """Another leader's entries lie where it reads: the disk is not damaged, and nothing is sent."""
    scene = Scene()
    scene.fall_behind()
    term = Term(scene.replica.raft.term + 1)
    scene.receive(
        AppendRequest(
            group=CONTROLLER_GROUP,
            sender=OTHER,
            to=NODE,
            term=term,
            prev_index=LogIndex(0),
            prev_term=Term(0),
            entries=tuple(entry(index, term=term) for index in range(1, 4)),
            commit_index=LogIndex(0),
        )
    )
    assert (scene.replica.log.last_index, scene.replica.log.durable_index) == (3, 3)
    scene.run_read()
    assert scene.replicated() == []


def test_a_peer_gets_no_more_than_its_share_at_once() -> None:
    scene = Scene()
    scene.driver.queued = PEER_BYTES_MAX
    scene.fall_behind()
    assert scene.driver.reads == [], "its link holds enough"
    scene.driver.queued = PEER_BYTES_MAX - 1
    scene.multiraft.tick()
    assert len(scene.driver.reads) == 1, "the link has room again"


def test_reads_take_their_share_of_each_moment_and_no_more() -> None:
    """A follower that is far behind must leave disk and CPU to the appends of other topics, which
    wait for what is read at once and not for what is read in a second."""
    bytes_per_s = 800_000  # 4,000 in 5 ms
    scene = Scene(bytes_per_s=bytes_per_s)
    scene.fall_behind()
    read: list[tuple[int, int]] = []
    """When, and how many bytes."""
    while scene.driver.reads or scene.driver.timers:
        while scene.driver.reads:
            scene.run_read()
            entries = scene.replicated()[-1].entries
            read.append((scene.driver.now_us, len(entries) * BODY_BYTES))
            last = entries[-1].index
            scene.answer(accepted=True, prev_index=last, match_index=last)
        scene.pass_until_timer()
    assert sum(count for _, count in read) == 40 * BODY_BYTES
    one = 2 * BODY_BYTES
    for first, (began_us, _) in enumerate(read):
        for after in range(first, len(read)):
            seconds = (read[after][0] - began_us) / 1_000_000
            count = sum(count for _, count in read[first : after + 1])
            assert count <= bytes_per_s * seconds + one + 4_000, "one read may exceed a share"
    assert read[-1][0] / 1_000_000 <= 40 * BODY_BYTES / bytes_per_s, "nor less"


def test_peers_take_turns() -> None:
    """One that lacks little would otherwise wait until one that lacks everything has it."""
    scene = Scene(bytes_per_s=20 * BODY_BYTES)
    peers = (BEHIND, OTHER)
    for peer in peers:
        scene.fall_behind(peer)
    while len(scene.replicated()) < 8:
        while scene.driver.reads:
            scene.run_read()
            last = scene.replicated()[-1]
            index = last.entries[-1].index
            scene.answer(accepted=True, prev_index=index, match_index=index, peer=last.to)
            served = [request.to for request in scene.replicated()]
            assert abs(served.count(BEHIND) - served.count(OTHER)) <= 1, served
        scene.pass_until_timer()


def test_a_node_that_stops_sends_nothing_more() -> None:
    scene = Scene()
    scene.fall_behind()
    scene.multiraft.stop()
    scene.run_read()
    assert scene.replicated() == []
    scene.multiraft.close()


def test_a_leader_that_cannot_read_what_a_follower_lacks_lets_others_lead_for_a_while() -> None:
    """The node and its other groups live; afterwards it leads again, if nobody else does."""
    scene = Scene()
    segment = f"groups/0/{1:020d}.log"
    file = scene.disk.open(segment, create=False)
    file.write_at(64 + 56 + 100, [b"damage"])
    file.close()
    scene.fall_behind()
    scene.run_read()
    assert scene.replicated() == []
    assert scene.replica.raft.role is Role.FOLLOWER
    (told,) = (event for event in scene.driver.told if isinstance(event, EntryDamaged))
    assert segment in told.cause
    for _ in range(150):
        scene.multiraft.tick()
        scene.settle()
    assert scene.replica.raft.role is Role.FOLLOWER
    for _ in range(150):
        scene.multiraft.tick()
        scene.settle()
    assert scene.replica.raft.role is Role.PRE_CANDIDATE
