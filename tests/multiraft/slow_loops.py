"""Three nodes with many groups, whose event loops take simulated time for what they do.

Each node is the real `MultiRaft`. What its loop does takes as long as it would, at so large a share
of a processor as the test gives it: messages wait for their turn, and ticks come late. One clock,
which the test lets pass, drives all.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from raftlog.core.messages import PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, GroupId, NodeId
from raftlog.image.job import CompactionJob, Reply
from raftlog.machines.commands import ReportPlacement
from raftlog.multiraft.effects import BackgroundRead, LeadershipChanged, MultiRaftEvent
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.limits import LogLimits
from raftlog.storage.write import LogWrite
from tests.multiraft.leading import TIMING, disk_of_topics
from tests.multiraft.resting import RESTING
from tests.multiraft.test_refused_messages import NODES
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

TICK_US = 50_000
LATENCY_US = 500
PERIOD_US = 10_000
"""Of so much time a loop has its share."""
WRITERS = 4
TURN_US = 10_000
"""A turn ends after this, as by default."""


class Costs(NamedTuple):
    """What a loop's work takes at a whole processor, in microseconds; about as measured."""

    tick: float = 300
    replica_tick: float = 1.5
    """Of each awake replica, at each tick."""
    message: float = 40
    """To take one."""
    advance: float = 80
    """Of a group, with what it sends."""
    write: float = 1_000
    """Of a log, on a thread."""

    def larger(self, times: float) -> Costs:
        """Costs of groups each of which stands for so many."""
        return self._replace(
            replica_tick=times * self.replica_tick,
            message=times * self.message,
            advance=times * self.advance,
        )


Action = Callable[[], Any]


class Clock:
    """Simulated microseconds, and what is to happen when."""

    def __init__(self) -> None:
        self.now_us = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._number = 0

    def at(self, time_us: float, action: Action) -> None:
        self._number += 1
        heapq.heappush(self._due, (max(time_us, self.now_us), self._number, action))

    def run(self, seconds: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Let so much time pass, or less if it is `done`; is it?"""
        until_us = self.now_us + seconds * 1_000_000
        look_us = self.now_us
        while self._due and self._due[0][0] <= until_us:
            if self.now_us >= look_us:
                if done():
                    return True
                look_us = self.now_us + TICK_US
            self.now_us, _, action = heapq.heappop(self._due)
            action()
        self.now_us = until_us
        return done()


class SlowNode:
    """A node's event loop: one thing after the other, and each takes its time."""

    def __init__(self, node: NodeId, disk: MemoryFileSystem, cluster: SlowCluster) -> None:
        self.node = node
        self.disk = disk
        self.cluster = cluster
        self.clock = cluster.clock
        self.campaigns = 0
        """How many pre-votes its replicas began."""
        self.multiraft: MultiRaft | None = None
        """None: it does not run."""
        self._waiting: deque[Action] = deque()
        self._is_busy = False
        self._worked_us = 0.0
        """For what the loop does now."""
        self._outgoing: dict[NodeId, list[PeerMessage]] = {}
        self._writes: deque[Action] = deque()
        self._writing = 0

    def start(self) -> None:
        folder = opened_folder(self.disk, self.node, NODES)
        random = Random(f"node {self.node}")
        store = GroupStore(
            folder=folder,
            timing=TIMING,
            log_limits=LogLimits(preallocate_bytes=0),
            random=random,
            tell=self.tell,
        )
        self.multiraft = MultiRaft(
            node=self.node,
            nodes=dict.fromkeys(NODES, ""),
            store=store,
            effects=self,
            timing=TIMING,
            boot_id=f"{self.node}.1",
            random=random,
            limits=replace(
                RESTING,
                slow_disk_ticks=1_000_000,
                turn_work_us=TURN_US,
                leaders=LeaderLimits(spread=False),
            ),
        )
        self.multiraft.start(store.open_all())
        self._next_tick_us = self.clock.now_us + TICK_US
        self.clock.at(self._next_tick_us, lambda: self._do(self._tick))

    def kill(self) -> None:
        """What it does now is its last."""
        self.multiraft = None

    @property
    def running(self) -> MultiRaft:
        assert self.multiraft is not None
        return self.multiraft

    # ------------------------------------------------------------ the loop

    def _do(self, action: Action) -> None:
        """The loop does it when it is its turn."""
        self._waiting.append(action)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = bool(self._waiting) and self.multiraft is not None
        if not self._is_busy:
            return
        self._worked_us = 0.0
        self._waiting.popleft()()
        outgoing, self._outgoing = self._outgoing, {}

        def ended() -> None:
            for peer, messages in outgoing.items():
                self.cluster.carry(self.node, peer, messages)
            self._next()

        self.clock.at(self.cluster.after(self._worked_us), ended)

    def _tick(self) -> None:
        awake = sum(not local.raft.quiesced for local in self.running.replicas.values())
        self._worked_us += self.cluster.costs.tick + self.cluster.costs.replica_tick * awake
        self.running.tick()
        self._next_tick_us = max(self._next_tick_us + TICK_US, self.clock.now_us)
        self.clock.at(self._next_tick_us, lambda: self._do(self._tick))

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        def take() -> None:
            self._worked_us += self.cluster.costs.message * len(messages)
            self.running.receive(peer, messages)

        self._do(take)

    def peer_closed(self, peer: NodeId) -> None:
        self._do(lambda: self.running.peer_closed(peer))

    def ask_of_all(self) -> None:
        """Clients read all that this node leads."""

        def ask() -> None:
            for local in self.running.replicas.values():
                if local.raft.role is Role.LEADER:
                    self.running.read_barrier(local, lambda _: None)

        self._do(ask)

    # ------------------------------------------------------------ effects

    def soon(self, turn: Action) -> None:
        self._do(turn)

    def later(self, delay_us: int, turn: Action) -> None:
        self.clock.at(self.clock.now_us + delay_us, lambda: self._do(turn))

    def work_us(self) -> int:
        """`MultiRaft` looks at the clock after each group that it has advanced."""
        self._worked_us += self.cluster.costs.advance
        return int(self.cluster.after(self._worked_us))

    def monotonic_us(self) -> int:
        return int(self.clock.now_us)

    def boottime_us(self) -> int:
        return int(self.clock.now_us)

    def clock_us(self) -> int:
        return 1_700_000_000_000_000 + int(self.clock.now_us)

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self._outgoing.setdefault(peer, []).extend(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        return 0

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        pass

    def report(self, report: ReportPlacement) -> None:
        raise AssertionError("no group is moved")

    def read_positions(self, done: Any) -> None:
        raise AssertionError("no topic has a retention")

    def run_read(self, read: BackgroundRead, ran: Action) -> None:
        self._write(read.run, ran)

    def run_write(self, write: LogWrite, ran: Action) -> None:
        self._write(write.run, ran)

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._write(lambda: None, lambda: done(work()))

    def _write(self, work: Action, ran: Action) -> None:
        """Some threads write, each one thing after the other."""

        def end() -> None:
            work()
            self._writing -= 1
            self._do(ran)
            self._start_writes()

        self._writes.append(
            lambda: self.clock.at(self.cluster.after(self.cluster.costs.write), end)
        )
        self._start_writes()

    def _start_writes(self) -> None:
        while self._writes and self._writing < WRITERS:
            self._writing += 1
            self._writes.popleft()()

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        raise AssertionError("nothing is compacted")

    def abandon_compaction(self) -> None:
        """Nothing waits for it."""

    def tell(self, event: MultiRaftEvent) -> None:
        if isinstance(event, LeadershipChanged):
            self.campaigns += event.state.role is Role.PRE_CANDIDATE


class SlowCluster:
    """Three nodes with so many topics, whose groups have leaders and are quiesced."""

    def __init__(self, topics: int, costs: Costs) -> None:
        self.costs = costs
        self.clock = Clock()
        self.share = 1.0
        """Of a processor, that each loop has."""
        self.nodes = {node: SlowNode(node, disk_of_topics(topics, node), self) for node in NODES}
        for each in self.nodes.values():
            each.start()
        assert self.clock.run(60, self.is_settled), "all groups have a leader, and quiesce"

    def after(self, work_us: float) -> float:
        """When work that begins now ends: a loop runs in the first part of each period."""
        runs_us = self.share * PERIOD_US
        begun_us = self.clock.now_us // PERIOD_US * PERIOD_US
        done_us = min(self.clock.now_us - begun_us, runs_us) + work_us
        periods, rest_us = divmod(done_us, runs_us)
        return begun_us + periods * PERIOD_US + rest_us

    def carry(self, sender: NodeId, to: NodeId, messages: Sequence[PeerMessage]) -> None:
        node = self.nodes[to]
        if node.multiraft is not None:
            self.clock.at(self.clock.now_us + LATENCY_US, lambda: node.receive(sender, messages))

    def starve(self, share: float) -> None:
        """Each loop has this share of a processor from now on."""
        self.share = share

    def ask_of_all(self) -> None:
        """Clients read every topic, which wakes all replicas."""
        for each in self.nodes.values():
            each.ask_of_all()

    def kill(self, node: NodeId, *, reset: bool) -> None:
        """End a node; the others notice it at once by a `reset`, or by its silence."""
        self.nodes[node].kill()
        for each in self.nodes.values():
            if reset and each.multiraft is not None:
                each.peer_closed(node)

    # ------------------------------------------------------------ what it came to

    @property
    def running(self) -> list[MultiRaft]:
        return [each.multiraft for each in self.nodes.values() if each.multiraft is not None]

    @property
    def groups(self) -> list[GroupId]:
        return list(self.running[0].replicas)

    def led(self) -> int:
        """How many groups have a leader that a majority follows."""
        return sum(self._is_led(group) for group in self.groups)

    def _is_led(self, group: GroupId) -> bool:
        followed = Counter(
            (raft.leader, raft.term)
            for raft in (each.replicas[group].raft for each in self.running)
            if raft.leader != NO_NODE and self.nodes[raft.leader].multiraft is not None
        )
        return any(count >= 2 for count in followed.values())

    def is_led(self) -> bool:
        return all(map(self._is_led, self.groups))

    def is_settled(self) -> bool:
        """Are all groups led, and has none anything to do?"""
        quiesced = all(
            local.raft.quiesced for each in self.running for local in each.replicas.values()
        )
        return quiesced and self.is_led()

    def terms(self) -> int:
        """The sum of all groups' terms: it rises with each election."""
        return sum(
            max(each.replicas[group].raft.term for each in self.running) for group in self.groups
        )

    @property
    def campaigns(self) -> int:
        return sum(each.campaigns for each in self.nodes.values())
