"""Small networks under random faults: four safety properties hold, and all members converge."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from raftlog.core.ready import Role
from raftlog.errors import ChangeUnderWay, MemberBehind, NotLeader, Overloaded
from tests.core.network import Network

SEEDS = range(80)
TURNS = 140
LONG_TURNS = 400


class Swarm:
    """One seed's own mixture of faults: what is common in one is rare in the next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        choose = self.random.choice
        voters, others = choose([3, 3, 4, 5]), choose([0, 0, 1, 3])
        self.network = Network.of(voters, others=others, seed=seed)
        self.change = choose([0.05, 0.2]) if others else 0.0
        self.lose = choose([0.0, 0.0, 0.1, 0.3])
        self.repeat = choose([0.0, 0.1, 0.3])
        self.shuffle = choose([0.0, 0.5, 1.0])
        self.crash = choose([0.0, 0.01, 0.05])
        self.cut = choose([0.0, 0.02, 0.05])
        self.slow_disk = choose([0.0, 0.3, 0.8])
        self.drop = choose([0.0, 0.05, 0.2])
        self.keeps_for_all = choose([True, False])
        """No member drops an entry before every member has it on disk."""
        self.proposed = 0
        self.changes = 0
        self.dropped = 0
        self.images = 0

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
        self._change()
        self._drop()
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

    def _change(self) -> None:
        """Some leaders let other members vote and learn, whoever they are."""
        for member in self.network.up:
            if member.raft.role is not Role.LEADER or self.random.random() >= self.change:
                continue
            nodes = list(self.network.members)
            self.random.shuffle(nodes)
            voters = nodes[: self.random.randrange(1, len(nodes) + 1)]
            learners = [node for node in nodes if node not in voters and self.random.random() < 0.7]
            try:
                member.change(*voters, learners=learners)
            except ChangeUnderWay:
                continue
            except MemberBehind:
                now = member.raft.membership.voters
                member.change(*now, learners=[node for node in nodes if node not in now])
            self.changes += 1

    def _drop(self) -> None:
        """Some members drop the beginning of their logs; their snapshots may reach further."""
        for member in self.network.up:
            raft = member.raft
            if self.random.random() >= self.drop:
                continue
            snapshot = min(raft.last_applied, raft.durable_index)
            index_max = min(snapshot, self._held_by_all()) if self.keeps_for_all else snapshot
            if raft.log.base_index < index_max:
                index = self.random.randrange(raft.log.base_index + 1, index_max + 1)
                member.drop_log_to(index, snapshot=self.random.randrange(index, snapshot + 1))
                self.dropped += 1

    def _held_by_all(self) -> int:
        """Up to where every disk, also of those that are down, has what is committed."""
        applied = self.network.checker.applied
        return min(
            next(
                (at for at, entry in enumerate(applied) if member.disk_log[at : at + 1] != [entry]),
                len(applied),
            )
            for member in self.network.members.values()
        )

    def _give_images(self) -> None:
        """Members that are behind their leader's base get what it has in a snapshot, and start
        with that. What each lacks was dropped, and the others get entries."""
        leader = self.network.leader
        for view in leader.raft.followers() if leader is not None else ():
            base = leader.raft.log.base_index
            member = self.network[view.node]
            if not view.behind_base or member.log[base - 1 : base] == leader.log[base - 1 : base]:
                continue  # it may have rejected the base before an earlier request brought it
            assert not self.keeps_for_all, "what somebody lacks was dropped"
            self.images += 1
            self.network.crash(view.node)
            member.disk_log = leader.log[:base]
            member.disk_base = member.disk_snapshot = base
            member.disk_membership = leader.raft.memberships.at(base)
            self.network.restart(view.node)

    def heal(self) -> None:
        network = self.network
        network.heal()
        for node in list(network.down):
            network.restart(node)
        for member in network.up:
            member.sync = True
            member.persist()
        network.tick_until(self._converged, ticks_max=600)
        network.checker.look(network.up)

    def _converged(self) -> bool:
        self._give_images()
        leader = self.network.leader
        if leader is None or leader.raft.membership.is_joint:
            return False
        members = [self.network[node] for node in leader.raft.membership.members]
        return all(
            member.log == leader.log and len(member.applied) == len(leader.log)
            for member in members
        )


@cache
def played(seed: int, turns: int) -> Swarm:
    """A network after so many turns, healed."""
    swarm = Swarm(seed)
    for _ in range(turns):
        swarm.turn()
    swarm.heal()
    return swarm


@pytest.mark.slow
@pytest.mark.parametrize("turns", [TURNS, pytest.param(LONG_TURNS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", SEEDS)
def test_safety_holds_under_faults_and_all_converge_when_they_end(seed: int, turns: int) -> None:
    """CHECKLIST 3, 13, 18, 24, 29."""
    print(f"replay: .venv/bin/pytest tests/core/test_random_network.py -k '[{seed}-{turns}]'")
    swarm = played(seed, turns)
    acknowledged, leader = swarm.network.checker.applied, swarm.network.leader
    assert leader is not None
    assert leader.applied == acknowledged, "nothing that was applied is lost"


@pytest.mark.slow
def test_the_random_networks_do_real_work() -> None:
    """A stalled network must not pass: most seeds commit many commands, over several terms."""
    commands, terms, dropped, images, changes = 0, 0, 0, 0, 0
    for seed in range(10):
        swarm = played(seed, TURNS)
        commands += len(swarm.network.checker.applied)
        terms += max(swarm.network.checker.leaders)
        dropped += swarm.dropped
        images += swarm.images
        changes += swarm.changes
    assert commands > 300
    assert terms > 15
    assert dropped > 50
    assert images > 2
    assert changes > 20
