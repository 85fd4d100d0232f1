"""A cluster that never stays as it is, while it is written: the long version of `test_members`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.client.log_client import LogClient
from raftlog.core.types import NodeId
from raftlog.errors import DeadlineExceeded, QuorumAtRisk, RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.placement import Move
from tests.cluster.joining import Joined
from tests.cluster.load import Load, rows_of

VOTING_MIN, VOTING_MAX = 3, 5
OBSERVERS_MAX = 2
IDS_MAX = 30
"""Each pair of nodes is joined by wires that can be cut."""
CUT_S = 1.5
LAG_ENTRIES_MAX = 200
"""An observer that lags by no more has caught up, while writes go on."""


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
        """Those that may hold groups."""
        return [each.node for each in self.client.members.placements().nodes if not each.observer]

    def observers(self) -> list[int]:
        return [each.node for each in self.client.members.placements().nodes if each.observer]

    def anybody(self, random: Random) -> int:
        return random.choice([each.node for each in self.client.members.placements().nodes])

    def can(self, deed: str) -> bool:
        """May this be done to the cluster as it is now?"""
        match deed:
            case "add":
                return len(self.nodes()) < VOTING_MAX
            case "remove":
                return len(self.nodes()) > VOTING_MIN
            case "observe":
                return len(self.observers()) < OBSERVERS_MAX
            case "unobserve":
                return bool(self.observers())
            case _:
                return True

    def do(self, deed: str, random: Random) -> None:
        """Do it, and count it."""
        getattr(self, deed)(random)
        self.done[deed] += 1

    def close(self) -> None:
        for joined in self._joined.values():
            joined.end()
        self.client.close()

    # ------------------------------------------------------------ what an operator does

    def add(self, random: Random) -> None:
        """A new node, which is started."""
        node = self._new_id()
        self.client.members.add(node, self.cluster.address(node))
        self._join(node)

    def _new_id(self) -> int:
        node, self._next_id = self._next_id, self._next_id + 1
        return node

    def _join(self, node: int) -> None:
        servers = ",".join(each.address for each in self.client.members.placements().nodes)
        self._joined[node] = Joined(
            servers, node, self._folder / f"node-{node}", settings=self._settings
        )
        self.client.members.wait_for(node, PATIENCE_S)

    def remove(self, random: Random) -> None:
        self._leave(random.choice(self.nodes()))

    def _leave(self, node: int) -> None:
        list(self.client.members.remove(node, timeout_s=PATIENCE_S))
        wait_for(lambda: not self._runs(node), f"removed node {node} to end", PATIENCE_S)

    def replace(self, random: Random) -> None:
        """A node is lost, and another takes its places. What only it has would be lost, so nothing
        is on fewer than three nodes there."""
        if not (replaceable := self._replaceable()):
            self._widen(random)
            replaceable = self._replaceable()
        lost = random.choice(replaceable)
        self._kill(lost)
        node = self._new_id()
        self.client.members.add(node, self.cluster.address(node))
        self._join(node)
        list(self.client.members.replace(lost, node, timeout_s=PATIENCE_S))

    def _replaceable(self) -> list[int]:
        groups = self.client.members.placements().groups
        narrow = {node for each in groups if len(each.voters) < 3 for node in each.voters}
        return [node for node in self.nodes() if node not in narrow]

    def _widen(self, random: Random) -> None:
        for each in self.client.members.placements().groups:
            if len(each.voters) < 3:
                voters = tuple(sorted(map(NodeId, random.sample(self.nodes(), 3))))
                move = Move(each.group, each.topic, each.voters, voters)
                list(self.client.members.carry_out([move], timeout_s=PATIENCE_S))

    def observe(self, random: Random) -> None:
        """A new observer, of any nodes, of some, or of another observer."""
        node, observers = self._new_id(), self.observers()
        some = random.sample(self.nodes(), random.randint(0, 2))
        parents = observers if observers and random.random() < 0.7 else some
        address = self.cluster.address(node)
        assert self.client.members.add(node, address, observer=True, parents=parents)
        self._join(node)

    def unobserve(self, random: Random) -> None:
        self._leave(random.choice(self.observers()))

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
        node = self.anybody(random)
        self._kill(node)
        self._start(node)

    def pause(self, random: Random) -> None:
        pid = self._pid(self.anybody(random))
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(CUT_S)
        os.kill(pid, signal.SIGCONT)

    def cut(self, random: Random) -> None:
        """A wire carries nothing in one direction, for a while."""
        one, other = random.sample([*self.nodes(), *self.observers()], 2)
        self._links.set(one, other, Wire(cut=True))
        threading.Event().wait(CUT_S)
        self._links.heal()

    def kill_within_a_move(self, random: Random) -> None:
        """A node dies while groups move, perhaps the one that moves them or is filled."""
        victim = self.anybody(random)
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

    def _runs(self, node: int) -> bool:
        joined = self._joined.get(node)
        return self.cluster.runs(node) if joined is None else joined.process.poll() is None

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
            lags = self.client.members.lags().values()
            followed = all(lag is not None and lag <= LAG_ENTRIES_MAX for lag in lags)
            return followed and all(each.reached and each.group in led for each in reply.groups)
        return False

    def equal(self) -> bool:
        """Have all that hold a group, observers too, applied the same of it, to the same state?"""
        states: dict[int, set[tuple[int, bytes]]] = {}
        with contextlib.suppress(RaftlogError):
            for each in self.client.views():
                if isinstance(each.answer, RaftlogError):
                    return False
                for view in each.answer.groups:
                    state = (view.applied_index, view.state_hash)
                    states.setdefault(view.group, set()).add(state)
            return all(len(each) == 1 for each in states.values())
        return False

    def logs(self) -> str:
        files = [*self.cluster.logs.values(), *(each.log for each in self._joined.values())]
        return "\n".join(file.read_text(errors="replace") for file in files if file.exists())


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[Changing]:
    port = free_ports(IDS_MAX)
    addresses = {node: f"127.0.0.1:{port + node - 1}" for node in range(1, IDS_MAX + 1)}
    with PeerLinks(addresses) as links:
        settings = [f"server.peer_routes={links.routes}"]
        with ProcessCluster.start(folder / "data", port=port, settings=settings) as cluster:
            scene = Changing(cluster, links, folder, settings)
            try:
                yield scene
            finally:
                scene.close()


OPERATIONS = (
    "add", "remove", "replace", "transfer", "rebalance", "drain", "observe", "unobserve", "move",
)  # fmt: skip
FAULTS = ("kill", "pause", "cut", "kill_within_a_move")


@pytest.mark.soak
def test_a_cluster_that_changes_once_in_every_way_loses_doubles_and_reorders_nothing(
    tmp_path: Path,
) -> None:
    done = change(tmp_path, seed=0, times=1)
    assert all(done[each] >= 1 for each in (*OPERATIONS, *FAULTS)), done


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_a_cluster_that_changes_all_the_time_loses_doubles_and_reorders_nothing(
    tmp_path: Path,
) -> None:
    """Every change and every fault at least 20 times, in three clusters one after the other."""
    done: Counter[str] = Counter()
    for seed in range(3):
        done += change(tmp_path / str(seed), seed, times=7)
    print(f"done: {dict(done)}", flush=True)
    assert all(done[each] >= 20 for each in (*OPERATIONS, *FAULTS)), done


def change(folder: Path, seed: int, *, times: int) -> Counter[str]:
    """Every change and every fault so many times, in any order, under appends to topics of 1 and 3
    replicas. Returns what was done."""
    random = Random(seed)
    with changing(folder) as scene, contextlib.ExitStack() as stack:
        client = scene.client
        topics: list[TopicInfo] = [
            client.create_topic("three", "id bigint", replicas=3),
            client.create_topic("one", "id bigint", replicas=1),
        ]
        loads = [stack.enter_context(Load(scene.cluster, topic)) for topic in topics]
        while left := [each for each in (*OPERATIONS, *FAULTS) if scene.done[each] < times]:
            deed = random.choice([each for each in left if scene.can(each)])
            print(f"seed {seed}: {deed} {scene.done[deed] + 1}", flush=True)
            scene.do(deed, random)
            wait_for(scene.settled, f"groups to settle after {deed}", PATIENCE_S)
            assert [load.failed for load in loads] == [[], []]
        for load in loads:
            load.end()
            assert load.failed == []
        wait_for(scene.equal, "all replicas and observers to be equal", PATIENCE_S)
        for topic, load in zip(topics, loads, strict=True):
            assert rows_of(client, topic) == load.written, f"{topic.name} of seed {seed}"
            found = client.read(topic, end=len(load.written), preference="observer")
            rows = [row for batch in found for row in batch.column("id").to_pylist()]
            assert rows == load.written, f"{topic.name} of seed {seed}, read from observers"
        rows = sum(len(load.written) for load in loads)
        print(f"seed {seed}: {rows} rows, each there once: {dict(scene.done)}", flush=True)
        logs = scene.logs()
        assert "Traceback" not in logs
        assert "a defect" not in logs
        return scene.done
