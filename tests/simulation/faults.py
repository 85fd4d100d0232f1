"""What goes wrong in a simulation, and when: drawn by the swarm's weights, counted by class."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import GroupId, LogIndex, NodeId, Payload
from raftlog.machines.commands import AbortEpoch, EpochKey
from raftlog.machines.topic import TopicMachine
from raftlog.wire.codec import encode_command
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import CLOCK_SPEED, DAMAGE, DAMAGED_LOG, SECOND, STARVED, Settings

SLOW_DISK_FACTOR = 50
CLOCK_JUMP_US = 3_600 * SECOND
"""How far a wall clock jumps at most, forward or back."""


STARVED_PARTS = 9
"""For so many times as long as it runs, a starved event loop stands."""

HURRIED_MAX = 10
HURRIED_BYTES_MAX = 3_000
"""Commands that clients in a hurry send at most, and bytes of each."""

OVERTAKEN_TICKS_MAX = 200
"""How long a disk stalls at most."""


class Faults:
    """Injects faults until `heal`, which undoes all of them."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        network: Network,
        settings: Settings,
        nodes: dict[NodeId, SimulatedNode],
        groups: Callable[[], list[GroupId]],
    ) -> None:
        self._simulator = simulator
        self._network = network
        self._settings = settings
        self._nodes = nodes
        self._groups = groups
        self._random = simulator.random("faults")
        self._healed = False
        self._actions: dict[str, Callable[[], None]] = {
            "one-way cut": self._one_way_cut,
            "partition": self._partition,
            "leader cut off": self._leader_cut_off,
            "pause": self._pause,
            "kill": lambda: self._crash(self._victim(), power=False),
            "power loss": lambda: self._crash(self._victim(), power=True),
            "power loss of all": self._power_loss_of_all,
            "long outage": self._long_outage,
            "crash at a write": self._crash_at_a_write,
            "failed sync": self._failed_sync,
            "slow disk": self._slow_disk,
            "overtaken while its disk stalls": self._overtaken_while_its_disk_stalls,
            "full disk": self._full_disk,
            "reset": self._reset,
            "clock jump": self._clock_jump,
            CLOCK_SPEED: self._clock_speed,
            DAMAGE: self._damage_at_rest,
            DAMAGED_LOG: self._damaged_log,
            STARVED: self._starved,
        }
        self._weights = (
            *settings.weights,
            (DAMAGE, settings.damage_weight),
            (DAMAGED_LOG, settings.damage_weight / 4 if settings.damages_logs else 0),
            (STARVED, settings.starved_weight),
        )
        self._damaged: dict[GroupId, NodeId] = {}
        """The one node on which files of the group are damaged: the others have them whole."""
        self._snapshots_hit: set[GroupId] = set()
        """Groups of which a snapshot was damaged. Two of one would cost the replica."""

    def start(self) -> None:
        if any(weight for _, weight in self._weights):
            self._plan()

    def heal(self) -> None:
        """End every fault; nodes that are down start at once."""
        self._healed = True
        self._network.heal()
        for node in self._nodes.values():
            node.slow_disk = 1
            node.set_speed(1)
            node.disk.behave()
            node.resume()
            if not node.running:
                node.start()

    def _plan(self) -> None:
        self._simulator.at(
            self._random.randrange(1, 2 * self._settings.fault_interval_us), self._happen
        )

    def _happen(self) -> None:
        if self._healed:
            return
        names = [name for name, _ in self._weights]
        weights = [weight for _, weight in self._weights]
        (name,) = self._random.choices(names, weights)
        self._simulator.counts[name] += 1
        self._simulator.note("fault", name)
        self._actions[name]()
        self._plan()

    def _lasting(self, end: Callable[[], None]) -> None:
        """Let the fault end after a while, unless all is healed before."""

        def over() -> None:
            if not self._healed:
                end()

        self._simulator.at(self._duration(), over)

    def _duration(self) -> int:
        return self._random.randrange(1, 2 * self._settings.fault_us)

    def _victim(self) -> SimulatedNode:
        """Any node, more often than not one that leads a group."""
        nodes = list(self._nodes.values())
        if self._random.randrange(2):
            groups = self._groups()
            group = groups[self._random.randrange(len(groups))]
            nodes = [node for node in nodes if node.leads(group)] or nodes
        return nodes[self._random.randrange(len(nodes))]

    # ------------------------------------------------------------ network

    def _one_way_cut(self) -> None:
        if len(self._nodes) == 1:
            return
        here, there = self._random.sample(sorted(self._nodes), 2)
        self._cut([(here, there)])

    def _partition(self) -> None:
        size = self._random.randrange(len(self._nodes))
        self._cut_apart(set(self._random.sample(sorted(self._nodes), size)))

    def _leader_cut_off(self) -> None:
        """Its peers may notice at once, by a reset, while it still believes that it leads."""
        victim = self._victim()
        self._cut_apart({victim.node})
        if self._random.randrange(2):
            self._tell_peers(victim.node)

    def _cut_apart(self, some: set[NodeId]) -> None:
        links = [
            (here, there)
            for here in sorted(self._nodes)
            for there in sorted(self._nodes)
            if (here in some) != (there in some)
        ]
        self._cut(links)

    def _cut(self, links: list[tuple[NodeId, NodeId]]) -> None:
        self._network.cut(links)
        self._lasting(lambda: self._network.mend(links))

    def _reset(self) -> None:
        """A connection breaks although both processes live."""
        victim = self._victim()
        self._tell_peers(victim.node)

    def _tell_peers(self, gone: NodeId) -> None:
        for peer in self._nodes.values():
            if peer.node != gone:
                self._simulator.at(
                    self._network.delay_us(), lambda peer=peer: peer.connection_lost(gone)
                )

    # ------------------------------------------------------------ processes and disks

    def _crash(self, node: SimulatedNode, *, power: bool) -> None:
        if not node.running:
            return
        self._simulator.note("crash", node.node, int(power))
        node.end(power=power)
        if not power:
            self._tell_peers(node.node)
        self._lasting(lambda: None if node.running else node.start())

    def _power_loss_of_all(self) -> None:
        for node in self._nodes.values():
            self._crash(node, power=True)

    def _long_outage(self) -> None:
        """A follower is away for so long that the others may drop what it lacks."""
        node = list(self._nodes.values())[self._random.randrange(len(self._nodes))]
        if node.running and len(self._nodes) > 1:
            node.end(power=bool(self._random.randrange(2)))
            away_us = 10 * self._duration()
            self._simulator.at(away_us, lambda: None if node.running else node.start())

    def _crash_at_a_write(self) -> None:
        """Within one of the next writes: before, between or after its writing and syncing."""
        node = self._victim()
        if node.running:
            node.disk.end_after(self._random.randrange(6))

    def _pause(self) -> None:
        node = self._victim()
        node.pause()
        self._lasting(node.resume)

    def _starved(self) -> None:
        """Other programs have nine tenths of the time that a node's event loop should have."""
        node = self._victim()
        runs_us = max(1, self._settings.tick_us // self._random.choice((1, 2, 4)))
        until_us = self._simulator.now_us + 3 * self._duration()

        def stand() -> None:
            if not self._healed and self._simulator.now_us < until_us:
                node.pause()
                self._simulator.at(STARVED_PARTS * runs_us, run)

        def run() -> None:
            node.resume()
            self._simulator.at(runs_us, stand)

        stand()

    def _failed_sync(self) -> None:
        node = self._victim()
        if node.running:
            node.disk.fail_next_sync()

    def _slow_disk(self) -> None:
        node = self._victim()
        node.slow_disk = SLOW_DISK_FACTOR

        def fast_again() -> None:
            node.slow_disk = 1

        self._lasting(fast_again)

    def _overtaken_while_its_disk_stalls(self) -> None:
        """Nobody hears a leader that has a write in flight, but it hears the others. What the next
        leader sends replaces what that write carries; then the write runs, and the process ends at
        one of the next.

        The write is that of clients in a hurry, who wait for no answer: it may end a segment.
        """
        led = [
            (node, group)
            for node in self._nodes.values()
            for group in self._groups()
            if node.leads(group) and _is_topic(node, group)
        ]
        if len(self._nodes) == 1 or self._healed:
            return
        if not led:
            self._simulator.at(self._settings.tick_us, self._overtaken_while_its_disk_stalls)
            return
        victim, group = led[self._random.randrange(len(led))]
        links = [(victim.node, other) for other in sorted(self._nodes) if other != victim.node]
        self._network.cut(links)
        self._tell_peers(victim.node)
        victim.stall_disk()
        local = victim.local(group)
        assert local is not None, "it leads"
        raft = local.replica.raft
        first, term = LogIndex(raft.log.last_index + 1), raft.term
        for _ in range(self._random.randrange(1, HURRIED_MAX)):
            payload = _of_no_effect(self._random.randrange(1, HURRIED_BYTES_MAX))
            victim.propose(group, lambda _, payload=payload: payload, lambda _: None)
        if raft.log.last_index < first:
            victim.resume_disk()  # it refused them all
        away_us = self._settings.timing.election_ticks_min * self._settings.tick_us
        self._simulator.at(
            self._random.randrange(2 * away_us, 5 * away_us), lambda: self._network.mend(links)
        )
        looks = iter(range(OVERTAKEN_TICKS_MAX))

        def look() -> None:
            dropped = raft.log.base_index >= first  # committed long ago, whosever it is
            overtaken = raft.term != term and not dropped
            if overtaken and raft.log.last_index >= first:
                overtaken = raft.log.term_at(first) != term
            if overtaken and victim.running and not self._healed:
                self._simulator.counts["overtaken with a write in flight"] += 1
                victim.disk.end_after(self._random.randrange(12))
            if overtaken or dropped or self._healed or next(looks, None) is None:
                victim.resume_disk()
            else:
                self._simulator.at(self._settings.tick_us, look)

        look()

    def _full_disk(self) -> None:
        victim = self._victim()
        if victim.running:
            victim.disk.fill()
            self._lasting(victim.disk.make_room)

    def _damage_at_rest(self) -> None:
        """A byte of a file that an image names is another one."""
        places = [
            (group, snapshot, name)
            for group in self._groups()
            for snapshot, name in self._may_be_damaged(group)
        ]
        if not places:
            return
        group, is_snapshot, name = self._random.choice(places)
        if is_snapshot:
            self._snapshots_hit.add(group)
        number = self._damaged[group]
        self._nodes[number].damage(group, name, self._random.random())
        self._simulator.counts["files damaged at rest"] += 1
        self._simulator.note("damage", number, group, name)

    def _damaged_log(self) -> None:
        """The group's node ends, and when it starts again a frame of the log is another one."""
        groups = self._groups()
        group = groups[self._random.randrange(len(groups))]
        victim = self._nodes[self._node_to_damage(group)]
        if len(self._nodes) == 1 or victim.local(group) is None:
            return
        self._crash(victim, power=bool(self._random.randrange(2)))
        victim.damage_log(group, self._random)

    def _node_to_damage(self, group: GroupId) -> NodeId:
        nodes = sorted(self._nodes)
        return self._damaged.setdefault(group, nodes[self._random.randrange(len(nodes))])

    def _may_be_damaged(self, group: GroupId) -> list[tuple[bool, str]]:
        """Whether it is a snapshot, and the name, of each file of the group's node."""
        local = self._nodes[self._node_to_damage(group)].local(group)
        if local is None or len(self._nodes) == 1:
            return []
        image = local.image.manifest
        snapshots = {each.name for each in image.snapshots}
        names = image.names() - (snapshots if group in self._snapshots_hit else frozenset())
        return [(name in snapshots, name) for name in sorted(names)]

    # ------------------------------------------------------------ clocks

    def _clock_jump(self) -> None:
        ahead_us = self._random.randrange(-CLOCK_JUMP_US, CLOCK_JUMP_US)
        self._victim().set_clock(ahead_us)

    def _clock_speed(self) -> None:
        """Ticks come twice as fast, or half as fast, for a while."""
        node = self._victim()
        node.set_speed(2 if self._random.randrange(2) else 0.5)
        self._lasting(lambda: node.set_speed(1))


def _is_topic(node: SimulatedNode, group: GroupId) -> bool:
    local = node.local(group)
    return local is not None and isinstance(local.replica.machine, TopicMachine)


def _of_no_effect(size: int) -> Payload:
    """A command of about so many bytes that changes nothing, whether it is applied or not."""
    key = EpochKey(writer="w" * size, query_id="q", run="r", epoch=0, streaming=True)
    return Payload(encode_command(AbortEpoch(key=key), None), b"")
