"""One simulation: a cluster under the faults of its seed, healed, then read to the last record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from raftlog.core.raft import Raft
from raftlog.core.types import CONTROLLER_GROUP, NO_NODE, GroupId, NodeId, Offset
from raftlog.machines.byte_index import JoinedIndex
from raftlog.machines.commands import TopicInfo
from raftlog.machines.rules import RULES_LATEST
from tests.simulation.alterations import alter
from tests.simulation.checkers import Checker, same_states
from tests.simulation.faults import Faults
from tests.simulation.history import TopicHistory
from tests.simulation.leaders import Leading
from tests.simulation.members import Placing
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode
from tests.simulation.observers import Observers
from tests.simulation.promises import Promise, Violation
from tests.simulation.readers import ReaderGroup
from tests.simulation.records import Label, Row
from tests.simulation.replacing import Replacing
from tests.simulation.retention import confirmed_us
from tests.simulation.scrubs import check_scrub
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import (
    SECOND,
    UNREAD_S_SHORT,
    WIDER_FROM,
    Settings,
    draw,
    with_later_parts,
    with_wider_clusters,
)
from tests.simulation.tasks import Task
from tests.simulation.workload import Clients, read_rows

ELECTION_TIMEOUTS_MAX = 10
"""After healing, within so many of the longest timeouts, every group has a leader, and later all
that was acknowledged is on all nodes."""

FINISH_US_MAX = 600 * SECOND
"""Every client has its last answer within this time after it was told to stop."""

ACKNOWLEDGED_MIN = 5
"""Records that every simulation must have acknowledged at the end: a stalled one fails."""

HEALED_TICKS_MAX = 8_000
"""A repair that failed is tried again after 100 ticks, a few times."""

TIMES_MAX = 8
"""So many times of records are looked up on each node at the end."""

PIECES_MAX = 5
"""Into so many pieces every topic is split at the end."""

RETENTION_PORTIONS = 64
"""Less than this part of a topic may stay though it could go."""

FLOOR_US_MAX = 120 * SECOND
"""The floor is reached within this time after healing, or within that of ten requests: who does not
know what became of a write sends it again after some of these."""


class Result(NamedTuple):
    """What a simulation that broke no promise did."""

    seed: int
    trace: str
    simulated_us: int
    acknowledged_records: int
    counts: Counter[str]


def drawn(simulator: Simulator) -> Settings:
    """The settings of a simulator's seed."""
    settings = draw(simulator.random("swarm"))
    settings = with_later_parts(settings, simulator.random("swarm of later parts"))
    if simulator.seed < WIDER_FROM:
        return settings
    return with_wider_clusters(settings, simulator.random("swarm of wider clusters"))


class Simulation:
    """The parts of a simulation; `go` runs it from the first event to the last check."""

    def __init__(self, seed: int, settings: Settings | None = None) -> None:
        self.simulator = Simulator(seed)
        self.settings = settings or drawn(self.simulator)
        self.checker = Checker(
            self.simulator,
            self.settings.nodes,
            lambda: confirmed_us(
                self.simulator,
                [*self.nodes.values(), *self.replacing.gone],
                any_majority=self.settings.changes_members,
            ),
        )
        self.network = Network(self.simulator, self.settings)
        voters = tuple(NodeId(node) for node in range(1, self.settings.nodes + 1))
        self.nodes = {
            node: SimulatedNode(
                node=node,
                voters=voters,
                simulator=self.simulator,
                network=self.network,
                settings=self.settings,
                checker=self.checker,
            )
            for node in voters
        }
        self.clients = Clients(
            simulator=self.simulator,
            network=self.network,
            settings=self.settings,
            nodes=self.nodes,
        )
        self.faults = Faults(
            simulator=self.simulator,
            network=self.network,
            settings=self.settings,
            nodes=self.nodes,
            groups=self.groups,
        )
        self.members = Placing(
            simulator=self.simulator,
            network=self.network,
            settings=self.settings,
            nodes=self.nodes,
            groups=self.groups,
        )
        self.replacing = Replacing(
            simulator=self.simulator,
            network=self.network,
            settings=self.settings,
            checker=self.checker,
            nodes=self.nodes,
            placing=self.members,
        )
        self.leaders = Leading(
            simulator=self.simulator,
            settings=self.settings,
            nodes=self.nodes,
            groups=self.groups,
        )
        self.observers = Observers(
            simulator=self.simulator,
            network=self.network,
            settings=self.settings,
            checker=self.checker,
            nodes=self.nodes,
            groups=self.groups,
        )
        self.topics: dict[GroupId, tuple[TopicInfo, TopicHistory]] = {}
        self._reader_groups: dict[GroupId, list[ReaderGroup]] = {}

    def groups(self) -> list[GroupId]:
        return [CONTROLLER_GROUP, *self.topics]

    def go(self) -> Result:
        """Raises `Violation`, or what a replica itself raised."""
        simulator, settings = self.simulator, self.settings
        self._found()
        if settings.topics > 1:
            self.clients.spawn("come and go", self.clients.come_and_go("scratch"))
        self.faults.start()
        self.members.start()
        self.replacing.start()
        self.leaders.start()
        self.observers.start()
        until_us = simulator.now_us + settings.chaos_us
        events_max = simulator.events + settings.chaos_events_max
        simulator.run_until(until_us, lambda: simulator.events >= events_max)
        simulator.note("heal")
        self.faults.heal()
        self.leaders.stop()
        self.observers.heal()
        self.replacing.heal()
        if not settings.busy_while_healing:
            self.clients.rest()
        self.clients.heal()
        self._await("a wiped node is replaced", self.replacing.is_replaced, FINISH_US_MAX)
        self.members.restore()
        if settings.changes_members and settings.nodes > 1:
            self._await("all nodes vote again", self.members.are_restored, FINISH_US_MAX)
        self._await("every group has a leader that all follow", self._is_led)
        self.clients.heal()
        self.clients.work()
        limit_us = max(FLOOR_US_MAX, 10 * settings.request_timeout_us)
        self._await("the topics and the floor of records", self._above_floor, limit_us)
        self.clients.stop()
        self._await(
            "every client has its answer", lambda: not self.clients.unfinished, FINISH_US_MAX
        )
        self.replacing.retire()
        self._await("the old id is retired", self.replacing.is_over, FINISH_US_MAX)
        self._await("all nodes have applied all", self._have_caught_up)
        if settings.damage_weight:
            self._heal_damage()
        if settings.reader_groups:
            self._let_go_what_was_read()
        # One that was damaged takes an image, as fast as the seed lets it.
        limit_us = HEALED_TICKS_MAX * settings.tick_us
        self._await(
            "all observers have applied all",
            lambda: self._have_caught_up() and self.observers.have_caught_up(),
            limit_us,
        )
        self._check_everything()
        return Result(
            simulator.seed,
            simulator.trace.digest(),
            simulator.now_us,
            self._acknowledged(),
            simulator.counts,
        )

    def _found(self) -> None:
        """Start the nodes, and begin to make the topics. In most seeds wait for them, and then let
        their clients begin."""
        founded = self.settings.founded
        self.network.faulty, self.network.founding = not founded, founded
        for node in self.nodes.values():
            node.start()
        for node in self.nodes:
            self.clients.spawn(f"register {node}", self.clients.register(node, RULES_LATEST))
        for number in range(self.settings.topics):
            task = self._create_topic(f"topic-{number}", used_at_once=not founded)
            self.clients.spawn(f"topic {number}", task)
        if founded:
            self._await("the topics", self._has_topics, FINISH_US_MAX)
            self.network.faulty, self.network.founding = True, False
            for topic, history in self.topics.values():
                self._use_topic(topic, history)

    def _create_topic(self, name: str, *, used_at_once: bool) -> Task:
        clients, settings = self.clients, self.settings
        topic = yield from clients.create_topic(name)
        history = TopicHistory(topic.group, self.checker)
        self._reader_groups[topic.group] = [
            ReaderGroup(
                self.network.positions, topic, history, name=f"{name}-group-{number}", stalls=stalls
            )
            for number, stalls in enumerate(settings.reader_groups)
        ]
        if settings.retention:
            yield from clients.configure(topic, history)
        self.topics[topic.group] = (topic, history)
        if used_at_once:
            self._use_topic(topic, history)

    def _use_topic(self, topic: TopicInfo, history: TopicHistory) -> None:
        """Let its clients begin."""
        clients, settings, name = self.clients, self.settings, topic.name
        for number in range(settings.producers):
            clients.start_producer(topic, history, f"{name}-producer-{number}")
        for number in range(settings.writers):
            query = clients.query(f"{name}-writer-{number}")
            slots = 2 if clients.random.random() < settings.rivals else 1
            for slot in range(slots):
                task = clients.write_stream(topic, history, query, slot)
                clients.spawn(f"{query.writer}.{slot}", task)
        for number in range(settings.readers):
            clients.spawn(f"{name}-reader-{number}", clients.read(topic, history))
        for number in range(settings.alterers):
            clients.spawn(f"{name}-alterer-{number}", alter(clients, topic, history, number))
        for group in self._reader_groups[topic.group]:
            clients.spawn(group.name, group.run(clients))
        if settings.expiries:
            clients.spawn(f"{name}-expiry", clients.expire_epochs(topic))
        if settings.trims:
            clients.spawn(f"{name}-trims", clients.trim(topic, history))

    # ------------------------------------------------------------ after healing

    def _await(self, what: str, done: Callable[[], bool], limit_us: int | None = None) -> None:
        limit = limit_us or ELECTION_TIMEOUTS_MAX * self.settings.election_us
        if not self.simulator.run_until(self.simulator.now_us + limit, done):
            tasks = ", ".join(self.clients.unfinished)
            raise Violation(
                Promise.LIVENESS, f"not within {limit} us: {what}; clients at work: {tasks}"
            )

    def _is_led(self) -> bool:
        """Each group has one leader, which all nodes follow and which has committed in its term.

        One that takes an image meanwhile may still lack what is committed.
        """
        return all(self._follows_one(group) for group in self.groups())

    def _follows_one(self, group: GroupId) -> bool:
        replicas = self._replicas(group)
        if replicas is None:
            return False
        first = replicas[0].raft
        return first.leader != NO_NODE and all(
            replica.raft.leader == first.leader
            and replica.raft.term == first.term
            and (replica.node != first.leader or _has_committed(replica.raft))
            for replica in replicas
        )

    def _have_caught_up(self) -> bool:
        for group in self.groups():
            replicas = self._replicas(group)
            if replicas is None:
                return False
            if len({(each.applied_index, each.raft.log.last_index) for each in replicas}) > 1:
                return False
            if replicas[0].applied_index != replicas[0].raft.log.last_index:
                return False
        return True

    def _replicas(self, group: GroupId) -> list[Any] | None:
        """The group's replica of every node; None unless all are there."""
        local = [node.local(group) for node in self.nodes.values()]
        return [each.replica for each in local if each] if all(local) else None

    def _acknowledged(self) -> int:
        return sum(history.acknowledged_records for _, history in self.topics.values())

    def _has_topics(self) -> bool:
        return len(self.topics) == self.settings.topics

    def _above_floor(self) -> bool:
        return self._has_topics() and self._acknowledged() >= ACKNOWLEDGED_MIN

    def _heal_damage(self) -> None:
        """Every replica is scrubbed; what is found heals, and then every file is whole."""
        limit_us = HEALED_TICKS_MAX * self.settings.tick_us
        # One that is under way may have passed what was damaged after it.
        old = {(node, group) for node in self.nodes.values() for group in self.groups()}

        def have_ended() -> bool:
            old.difference_update([each for each in old if not _is_scrubbed(*each)])
            return not old

        self._await("the scrubs under way end", have_ended, limit_us)
        since_us = {node: each.clock_us() for node, each in self.nodes.items()}
        for node in self.nodes.values():
            for group in self.groups():
                node.multiraft.scrubs.begin(group)
        self._await("all damage heals", self._are_healed(since_us), limit_us)
        self._await("all nodes have applied all", self._have_caught_up)
        for node in self.nodes.values():
            for group in self.groups():
                local = node.local(group)
                assert local is not None
                self.checker.image_whole(node, local)

    def _let_go_what_was_read(self) -> None:
        """What all groups have read, or what is too old for any of them, goes by itself, up to a
        small part of what is there."""
        for node in self.nodes.values():
            node.set_clock(2 * UNREAD_S_SHORT * SECOND)
        slowest_us = min(node.clock_us() for node in self.nodes.values())
        groups = [self.checker.group(group) for group in self.topics]
        due = [(each, each.retention.due(each.mark, slowest_us)) for each in groups]

        def is_gone() -> bool:
            return all(
                (offset - each.log_start) * RETENTION_PORTIONS < each.mark - each.log_start
                for each, offset in due
                if offset > each.log_start
            )

        limit_us = HEALED_TICKS_MAX * self.settings.tick_us
        self._await("what was read goes", is_gone, limit_us)
        self._await("all nodes have applied all", self._have_caught_up)

    def _are_healed(self, since_us: Mapping[NodeId, int]) -> Callable[[], bool]:
        """Tells whether all replicas were scrubbed since then, and nothing found is left."""
        pairs = [(node, group) for node in self.nodes.values() for group in self.groups()]
        left = list(pairs)

        def are_healed() -> bool:
            while left and _is_healed(*left[0], since_us[left[0][0].node]):
                del left[0]
            if not left:  # more may have been found in one of the first
                left.extend(each for each in pairs if not _is_healed(*each, since_us[each[0].node]))
            return not left

        return are_healed

    def _check_everything(self) -> None:
        """Equal states on all nodes, and every topic read whole from each."""
        self.observers.check()
        for group in self.groups():
            replicas = self._replicas(group)
            assert replicas is not None
            if any(not same_states(replicas[0], each) for each in replicas[1:]):
                raise Violation(
                    Promise.STATE_MACHINE_SAFETY,
                    f"group {group}: the nodes' states differ at the end",
                )
            random = self.simulator.random(f"scrub {group}")
            check_scrub(random.choice(list(self.nodes.values())), group, random)
        for group, (_, history) in self.topics.items():
            truth = self.checker.group(group)
            start, mark = truth.log_start, truth.mark
            copies = [read_rows(node, group, start, mark, mark) for node in self.nodes.values()]
            if not all(isinstance(copy, list) for copy in copies):
                raise Violation(Promise.DAMAGE_HEALS, f"group {group}: {copies} at the end")
            self._check_places(group, copies[0])
            if any(copy != copies[0] for copy in copies):
                raise Violation(
                    Promise.READS_BELOW_THE_MARK,
                    f"group {group}: the nodes' records differ at the end",
                )
            history.rows_read(start, mark, mark, copies[0])
            history.check_whole(start, [Label.parse(text) for _, text, _ in copies[0]])

    def _check_places(self, group: GroupId, rows: Sequence[Row]) -> None:
        """Every node splits the topic where batches begin, and finds offsets by time."""
        start = self.checker.group(group).log_start
        mark = start + len(rows)
        times_us = [row.facts.timestamp_us for row in rows]
        for node in self.nodes.values():
            local = node.local(group)
            assert local is not None
            parts = [local.byte_index_at(Offset(start))]
            while (reached := parts[-1].offsets[-1]) < mark:
                parts.append(local.byte_index_at(Offset(reached)))
            bounds, byte_counts = JoinedIndex(parts).split(Offset(start), Offset(mark), PIECES_MAX)
            if (bounds[0], bounds[-1]) != (start, mark) or list(bounds) != sorted(set(bounds)):
                raise Violation(Promise.READS_BELOW_THE_MARK, f"{node.node} splits at {bounds}")
            if start == 0 and sum(byte_counts) != local.topic_machine.record_bytes:
                raise Violation(Promise.EQUAL_HISTORIES, f"{node.node} counts {byte_counts} bytes")
            random = self.simulator.random(f"times {node.node} {group}")
            for time_us in random.sample(sorted(set(times_us)), min(TIMES_MAX, len(set(times_us)))):
                if local.offset_at(time_us) != start + times_us.index(time_us):
                    raise Violation(
                        Promise.READS_BELOW_THE_MARK,
                        f"node {node.node} finds {local.offset_at(time_us)} at {time_us}",
                    )


def _has_committed(leader: Raft) -> bool:
    """In its own term."""
    return leader.log.term_at(leader.commit_index) == leader.term


def _is_healed(node: SimulatedNode, group: GroupId, since_us: int) -> bool:
    repairs, scrubs = node.multiraft.repairs, node.multiraft.scrubs
    counts = repairs.counts(group)
    if counts.found != counts.healed:
        return False
    # One that ended right then was under way before, and a replica that was rebuilt ends none.
    if scrubs.progress(group).ended_us <= since_us:
        scrubs.begin(group)
        return False
    return True


def _is_scrubbed(node: SimulatedNode, group: GroupId) -> bool:
    return node.multiraft.scrubs.progress(group).state == "running"
