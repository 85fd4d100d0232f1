"""Small networks under random faults: four safety properties hold, and all members converge."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.ready import Role
from raftlog.errors import NotLeader, Overloaded
from tests.core.network import Network

SEEDS = range(40)


class Swarm:
    """One seed's own mixture of faults: what is common in one is rare in the next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        choose = self.random.choice
        self.network = Network.of(choose([3, 3, 4, 5]), seed=seed)
        self.lose = choose([0.0, 0.0, 0.1, 0.3])
        self.repeat = choose([0.0, 0.1, 0.3])
        self.shuffle = choose([0.0, 0.5, 1.0])
        self.crash = choose([0.0, 0.01, 0.05])
        self.cut = choose([0.0, 0.02, 0.05])
        self.slow_disk = choose([0.0, 0.3, 0.8])
        self.proposed = 0

    def turn(self) -> None:
        network, random = self.network, self.random
        for member in network.up:
            member.sync = random.random() >= self.slow_disk
            if random.random() < 0.3:
                member.persist()
            if random.random() < 0.7:
                member.tick()
        self._fault()
        self._work()
        network.collect()
        if random.random() < self.shuffle:
            random.shuffle(network.waiting)
        now = random.randrange(0, len(network.waiting) + 1)
        arriving, network.waiting = network.waiting[:now], network.waiting[now:]
        for message in arriving:
            if random.random() < self.lose:
                continue
            network.deliver(message)
            if random.random() < self.repeat:
                network.waiting.append(message)

    def _fault(self) -> None:
        network, random = self.network, self.random
        if random.random() < self.crash:
            node = random.choice(list(network.members))
            if node in network.down:
                network.restart(node)
            else:
                network.crash(node)
        if random.random() < self.cut:
            if network.cut and random.random() < 0.6:
                network.heal()
            else:
                one, other = random.sample(list(network.members), 2)
                network.cut.add((one, other))

    def _work(self) -> None:
        for member in self.network.up:
            if member.raft.role is not Role.LEADER:
                continue
            try:
                self.proposed += 1
                member.propose(f"command {self.proposed}")
                member.read_index(self.proposed)
            except (NotLeader, Overloaded):
                continue

    def heal(self) -> None:
        network = self.network
        network.heal()
        for node in list(network.down):
            network.restart(node)
        for member in network.up:
            member.sync = True
            member.persist()
        network.tick_until(self._converged, ticks_max=600)

    def _converged(self) -> bool:
        members = self.network.up
        leader = self.network.leader
        return leader is not None and all(
            member.log == leader.log and len(member.applied) == len(leader.log)
            for member in members
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_safety_holds_under_faults_and_all_converge_when_they_end(seed: int) -> None:
    """CHECKLIST 3, 13, 18, 24, 29."""
    print(f"replay: .venv/bin/pytest 'tests/core/test_random_network.py' -k '{seed}]'")
    swarm = Swarm(seed)
    for _ in range(200):
        swarm.turn()
    swarm.heal()
    acknowledged = swarm.network.checker.applied
    assert swarm.network.up[0].applied == acknowledged, "nothing that was applied is lost"


def test_the_random_networks_do_real_work() -> None:
    """A stalled network must not pass: most seeds commit many commands, over several terms."""
    commands, terms = 0, 0
    for seed in range(10):
        swarm = Swarm(seed)
        for _ in range(200):
            swarm.turn()
        swarm.heal()
        commands += len(swarm.network.checker.applied)
        terms += max(swarm.network.checker.leaders)
    assert commands > 300
    assert terms > 15
