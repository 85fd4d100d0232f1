"""A cluster that never stays as it is, while it is written: the long version of `test_members`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.cluster import ProcessCluster, free_ports, wait_for
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.client.log_client import LogClient
from raftlog.core.types import NodeId
from raftlog.errors import DeadlineExceeded, QuorumAtRisk, RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.placement import Move
from tests.cluster.joining import Joined
from tests.cluster.test_members import Load, rows_of

NODES_MAX = 5
IDS_MAX = 60
WIRED = 30
"""Nodes up to this id are joined by wires that can be cut."""
PATIENCE_S = 120.0
CUT_S = 1.5


class Changing:
    """A cluster, the processes of its nodes, and what can be done to it."""

    def __init__(
        self, cluster: ProcessCluster, links: PeerLinks, folder: Path, settings: list[str]
    ) -> None:
        self.cluster = cluster
        self.client: LogClient = cluster.client()
        self.done: Counter[str] = Counter()
        self._links = links
        self._folder = folder
        self._settings = settings
        self._joined: dict[int, Joined] = {}
        self._next_id = 4

    def nodes(self) -> list[int]:
        return [each.node for each in self.client.members.placements().nodes]

    def close(self) -> None:
        for joined in self._joined.values():
            joined.end()
        self.client.close()

    # ------------------------------------------------------------ what an operator does

    def add(self, random: Random) -> None:
        """A new node, which is started."""
        if len(self.nodes()) < NODES_MAX:
            self._join()

    def _join(self) -> int:
        node, self._next_id = self._next_id, self._next_id + 1
        self.client.members.add(node, self.cluster.address(node))
        servers = ",".join(each.address for each in self.client.members.placements().nodes)
        self._joined[node] = Joined(
            servers, node, self._folder / f"node-{node}", settings=self._settings
        )
        self.client.members.wait_for(node, PATIENCE_S)
        return node

    def remove(self, random: Random) -> None:
        nodes = self.nodes()
        if len(nodes) > 3:
            list(self.client.members.remove(random.choice(nodes), timeout_s=PATIENCE_S))

    def replace(self, random: Random) -> None:
        """A node is lost, and another takes its places."""
        lost = random.choice(self.nodes())
        self._kill(lost)
        list(self.client.members.replace(lost, self._join(), timeout_s=PATIENCE_S))

    def rebalance(self, random: Random) -> None:
        moves = self.client.members.plan_rebalance()
        list(self.client.members.carry_out(moves, timeout_s=PATIENCE_S))

    def move(self, random: Random) -> None:
        """A group goes to any nodes."""
        group = random.choice(self.client.members.placements().groups)
        count = min(len(self.nodes()), random.choice((1, 2, 3, 3, 3)) if group.group else 3)
        voters = tuple(sorted(map(NodeId, random.sample(self.nodes(), count))))
        move = Move(group.group, group.topic, group.voters, voters)
        with contextlib.suppress(QuorumAtRisk):
            list(self.client.members.carry_out([move], timeout_s=PATIENCE_S))

    def drain(self, random: Random) -> None:
        """What has only one replica stays where that is."""
        node = random.choice(self.nodes())
        alone = [g for g in self.client.members.placements().groups if g.voters == (node,)]
        with pytest.raises(DeadlineExceeded) if alone else contextlib.nullcontext():
            self.client.members.drain(node, timeout_s=5 if alone else PATIENCE_S)
        self.client.members.end_drain(node)

    def transfer(self, random: Random) -> None:
        """A node is made the leader of a group."""
        group = random.choice(self.client.members.placements().groups)
        to = random.choice(group.voters)
        self.client.members.transfer(group.group, to, timeout_s=PATIENCE_S)

    # ------------------------------------------------------------ what happens by itself

    def kill(self, random: Random) -> None:
        """A node dies and comes back."""
        node = random.choice(self.nodes())
        self._kill(node)
        self._start(node)

    def pause(self, random: Random) -> None:
        pid = self._pid(random.choice(self.nodes()))
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(CUT_S)
        os.kill(pid, signal.SIGCONT)

    def cut(self, random: Random) -> None:
        """A wire carries nothing in one direction, for a while."""
        one, other = random.sample([node for node in self.nodes() if node <= WIRED], 2)
        self._links.set(one, other, Wire(cut=True))
        threading.Event().wait(CUT_S)
        self._links.heal()

    def kill_within_a_move(self, random: Random) -> None:
        """A node dies while groups move, perhaps the one that moves them or is filled."""
        victim = random.choice(self.nodes())
        timer = threading.Timer(random.random(), self._kill, [victim])
        restart = threading.Timer(CUT_S + 1, self._start, [victim])
        timer.start()
        restart.start()
        try:
            self.move(random)
        finally:
            timer.join()
            restart.join()

    def _pid(self, node: int) -> int:
        joined = self._joined.get(node)
        return joined.process.pid if joined is not None else self.cluster.pids[node]

    def _kill(self, node: int) -> None:
        if node in self._joined:
            self._joined[node].end()
        else:
            self.cluster.kill(node)

    def _start(self, node: int) -> None:
        if node in self._joined:
            self._joined[node].restart()
        else:
            self.cluster.serve(node)

    # ------------------------------------------------------------ what must hold

    def settled(self) -> bool:
        """Does every node answer, and is every group where it is wished to be, and led?"""
        with contextlib.suppress(RaftlogError):
            if any(isinstance(each.answer, RaftlogError) for each in self.client.views()):
                return False
            reply = self.client.members.placements()
            led = [group for each in reply.nodes for group in self.client.members.led_by(each.node)]
            return all(each.reached and each.group in led for each in reply.groups)
        return False

    def logs(self) -> str:
        files = [*self.cluster.logs.values(), *(each.log for each in self._joined.values())]
        return "\n".join(file.read_text(errors="replace") for file in files if file.exists())


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[Changing]:
    port = free_ports(IDS_MAX)
    addresses = {node: f"127.0.0.1:{port + node - 1}" for node in range(1, WIRED + 1)}
    with PeerLinks(addresses) as links:
        settings = [f"server.peer_routes={links.routes}"]
        with ProcessCluster.start(folder / "data", port=port, settings=settings) as cluster:
            scene = Changing(cluster, links, folder, settings)
            try:
                yield scene
            finally:
                scene.close()


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_changes_all_the_time_loses_doubles_and_reorders_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Every change and every fault many times, under appends to topics of 1 and 3 replicas."""
    change(tmp_path, seed, rounds=80)


def change(folder: Path, seed: int, *, rounds: int) -> Counter[str]:
    """So many changes and faults, and what was done; the topics must be whole after each ten."""
    random = Random(seed)
    with changing(folder) as scene, contextlib.ExitStack() as stack:
        client = scene.client
        topics: list[TopicInfo] = [
            client.create_topic("three", "id bigint", replicas=3),
            client.create_topic("one", "id bigint", replicas=1),
        ]
        loads = [stack.enter_context(Load(scene.cluster, topic)) for topic in topics]
        deeds: list[Callable[[Random], None]] = [
            scene.add, scene.remove, scene.replace, scene.rebalance, scene.move, scene.move,
            scene.drain, scene.transfer, scene.transfer,
            scene.kill, scene.pause, scene.cut, scene.kill_within_a_move,
        ]  # fmt: skip
        for number in range(rounds):
            deed = random.choice(deeds)
            if deed == scene.replace and alone_on_one_node(client):
                deed = scene.move  # what only a lost node has is lost
            print(f"seed {seed}, round {number}: {deed.__name__}", flush=True)
            deed(random)
            scene.done[deed.__name__] += 1
            wait_for(scene.settled, f"groups to settle after {deed.__name__}", PATIENCE_S)
            assert [load.failed for load in loads] == [[], []]
        for load in loads:
            load.end()
        for topic, load in zip(topics, loads, strict=True):
            assert load.failed == []
            assert rows_of(client, topic) == load.written, f"{topic.name} of seed {seed}"
        logs = scene.logs()
        assert "Traceback" not in logs
        assert "a defect" not in logs
        return scene.done


def alone_on_one_node(client: LogClient) -> bool:
    return any(len(each.voters) < 3 for each in client.members.placements().groups)
