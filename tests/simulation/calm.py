"""A cluster of real `MultiRaft`s without faults: nothing happens but what a test does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Payload
from raftlog.machines.commands import CreateTopic
from raftlog.machines.outcomes import TopicCreated
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.scrubs import ScrubLimits
from raftlog.wire.codec import encode_command
from tests.simulation.checkers import Checker
from tests.simulation.cluster import ELECTION_TIMEOUTS_MAX
from tests.simulation.network import Network
from tests.simulation.node import Failed, SimulatedNode
from tests.simulation.records import SCHEMA
from tests.simulation.retention import confirmed_us
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import draw

VOTERS = (NodeId(1), NodeId(2), NodeId(3))
TOPICS = 3
FOR_EVER = 10**6


class CalmCluster:
    """Nodes without faults; nothing happens but what a test does."""

    def __init__(
        self,
        seed: int,
        *,
        quiesce_refresh_ticks: int = FOR_EVER,
        topics: int = TOPICS,
        snapshot_entries: int | None = None,
        **others: Any,
    ) -> None:
        """`others` are settings that are not drawn; `snapshot_entries` is, by default."""
        print(f"replay: .venv/bin/pytest tests/simulation -k '{seed}]'")
        self.simulator = Simulator(seed)
        drawn = draw(Random(seed))
        compaction = drawn.compaction
        if snapshot_entries is not None:
            compaction = replace(compaction, entries_max=snapshot_entries)
        staying = replace(drawn.leaders, spread=False)
        self.settings = replace(
            drawn,
            nodes=3,
            crash_in_recovery=0.0,
            quiesce_refresh_ticks=quiesce_refresh_ticks,
            **{"compaction": compaction, "leaders": staying} | others,
            scrubs=ScrubLimits(),
            timing=replace(
                drawn.timing,
                quiesce_after_ticks=3,
                heartbeat_ticks=1,
                election_ticks_min=10,
                lease_us=0,
            ),
        )
        self.network = Network(self.simulator, self.settings)
        self.network.heal()
        self.checker = Checker(
            self.simulator,
            len(VOTERS),
            lambda: confirmed_us(self.simulator, self.nodes.values()),
        )
        self.nodes = {
            node: SimulatedNode(
                node=node,
                voters=VOTERS,
                simulator=self.simulator,
                network=self.network,
                settings=self.settings,
                checker=self.checker,
            )
            for node in VOTERS
        }
        for node in self.nodes.values():
            node.start()
        self.groups = [CONTROLLER_GROUP]
        for number in range(topics):
            self.create_topic(f"topic-{number}")

    # ------------------------------------------------------------ time

    def wait(self, done: Callable[[], bool], *, timeouts: int = ELECTION_TIMEOUTS_MAX) -> None:
        """Let time pass until it holds; fails after so many of the longest election timeouts."""
        assert self.comes(done, timeouts=timeouts), "not in time"

    def comes(self, done: Callable[[], bool], *, timeouts: int) -> bool:
        """Let time pass until it holds, for no longer than so many of the longest election
        timeouts. Does it?"""
        limit = self.simulator.now_us + timeouts * self.settings.election_us
        return self.simulator.run_until(limit, done)

    def wait_heartbeats(self, count: int, done: Callable[[], bool]) -> None:
        """Let time pass until it holds; fails after so many heartbeat intervals and some
        latency."""
        settings = self.settings
        ticks_us = count * settings.timing.heartbeat_ticks * settings.tick_us
        way_us = 10 * (settings.latency_us + settings.write_us + settings.turn_us)
        limit = self.simulator.now_us + int(ticks_us * (1 + settings.tick_drift)) + way_us
        assert self.simulator.run_until(limit, done), "not in time"

    def pass_timeouts(self, count: int) -> None:
        self.simulator.run_until(self.simulator.now_us + count * self.settings.election_us)

    # ------------------------------------------------------------ what is there

    def local(self, node: NodeId, group: GroupId) -> LocalReplica:
        found = self.nodes[node].local(group)
        assert found is not None
        return found

    def replicas(self, group: GroupId) -> list[LocalReplica]:
        return [local for node in self.nodes.values() if (local := node.local(group)) is not None]

    def leader(self, group: GroupId) -> NodeId | None:
        """The running leader with the latest term."""
        leaders = [node for node in self.nodes if self.nodes[node].leads(group)]
        return max(leaders, key=lambda n: self.local(n, group).replica.raft.term, default=None)

    def all_quiesced(self) -> bool:
        return all(
            len(self.replicas(group)) == len(self.nodes)
            and all(local.replica.raft.quiesced for local in self.replicas(group))
            for group in self.groups
        )

    def terms(self) -> list[int]:
        return [local.replica.raft.term for g in self.groups for local in self.replicas(g)]

    # ------------------------------------------------------------ what is asked

    def write(self, group: GroupId, payload: Payload) -> object:
        """The outcome of a command, sent to the present leader until there is one."""
        answers: list[object] = []

        def ask() -> None:
            leader = self.leader(group)
            if leader is None:
                self.simulator.at(self.settings.tick_us, ask)
            else:
                self.nodes[leader].propose(group, lambda _: payload, answers.append)

        def decided() -> bool:
            while answers and isinstance(answers[0], Failed):
                answers.clear()
                self.simulator.at(self.settings.tick_us, ask)
            return bool(answers)

        self.wait(lambda: self.leader(group) is not None)
        ask()
        self.wait(decided)
        return answers[0]

    def create_topic(self, name: str) -> None:
        command = CreateTopic(
            name=name,
            incarnation=f"{len(self.groups):032x}",
            schema=SCHEMA,
            voters=VOTERS,
            if_not_exists=False,
            timestamp_us=0,
        )
        outcome = self.write(CONTROLLER_GROUP, Payload(encode_command(command, None), b""))
        assert isinstance(outcome, TopicCreated)
        self.groups.append(outcome.topic.group)

    def quiesce(self) -> None:
        self.wait(self.all_quiesced, timeouts=3 * ELECTION_TIMEOUTS_MAX)

    def cut_off(self, node: NodeId, *, inbound: bool = True, outbound: bool = True) -> None:
        others = [peer for peer in self.nodes if peer != node]
        if outbound:
            self.network.cut([(node, peer) for peer in others])
        if inbound:
            self.network.cut([(peer, node) for peer in others])

    def has_other_leaders(self, gone: NodeId) -> bool:
        """Does every group have a leader that is not `gone` and that can commit?"""
        return all(
            (leader := self.leader(group)) is not None
            and leader != gone
            and self._has_committed(leader, group)
            for group in self.groups
        )

    def _has_committed(self, node: NodeId, group: GroupId) -> bool:
        raft = self.local(node, group).replica.raft
        return raft.log.term_at(raft.commit_index) == raft.term
