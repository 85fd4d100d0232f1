"""One simulated node: real replicas, logs and journal on a simulated disk, driven as a server does.

What `raftlog.server.node` does with an event loop and threads is done here with events: inputs
mark a group, a turn advances every marked group once, a write is taken, runs some time later, and
is noticed some time after that. Between any two of these the process may die.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from raftlog.core.messages import GroupDeleted, PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NOBODY,
    GroupId,
    LogIndex,
    Membership,
    NodeId,
    Payload,
    Term,
)
from raftlog.errors import DiskFailed, NotLeader, Overloaded
from raftlog.machines.commands import TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.topic import TopicMachine
from raftlog.replica import Output, Replica
from raftlog.storage.folder import DataFolder
from raftlog.storage.log import GroupLog
from raftlog.storage.write import LogWrite
from raftlog.wire.calls import TopicReply
from raftlog.wire.codec import decode_reply, encode_reply
from tests.simulation.checkers import Checker, WitnessedLog
from tests.simulation.disk import Disk, DurableLog, ProcessEnds
from tests.simulation.network import Network
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings

CLUSTER_ID = "simulation"


class Failed(NamedTuple):
    """No outcome. `written`: the command may be in the log all the same."""

    written: bool
    leader: NodeId = NOBODY


Reply = Callable[[Any], None]


class _Waiting(NamedTuple):
    term: Term
    reply: Reply


class Hosted:
    """A replica and those who wait for it."""

    def __init__(self, replica: Replica, topic: TopicInfo | None) -> None:
        self.replica = replica
        self.topic = topic
        self.deleted_elsewhere = False
        self.writing = False
        self.idle_ticks = 0
        self.writes: dict[LogIndex, _Waiting] = {}
        self.reads: dict[int, Reply] = {}
        self.seen: Any = None
        """The checker's memory of this replica."""

    @property
    def group(self) -> GroupId:
        return self.replica.group

    @property
    def machine(self) -> Any:
        return self.replica.machine


class SimulatedNode:
    """A process that may be started, paused and ended; its disk outlives it."""

    def __init__(
        self,
        *,
        node: NodeId,
        voters: tuple[NodeId, ...],
        simulator: Simulator,
        network: Network,
        settings: Settings,
        checker: Checker,
    ) -> None:
        self.node = node
        self.voters = voters
        self.disk = Disk(simulator.random(f"disk {node}"))
        self.running = False
        self.slow_disk = 1
        self._simulator = simulator
        self._network = network
        self._settings = settings
        self._checker = checker
        self._random = simulator.random(f"node {node}")
        drift = 1 + settings.tick_drift * (2 * self._random.random() - 1)
        self._tick_us = int(settings.tick_us * drift)
        self._clock_us = 1_700_000_000_000_000 + self._random.randrange(5_000_000)
        self._life = 0
        self._paused = False
        self._stalled: list[Callable[[], None]] = []
        self._groups: dict[GroupId, Hosted] = {}
        self._clear()
        network.attach(node, self._receive)

    def _clear(self) -> None:
        self._groups = {}
        self._stalled = []
        self._marked: dict[GroupId, None] = {}
        self._turn_scheduled = False
        self._journal_writing = False
        self._opening: set[GroupId] = set()
        self._under_way: dict[int, tuple[LogWrite, GroupId | None, DurableLog | None]] = {}
        self._next_request = 0

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Open everything from the disk; the power may fail meanwhile, then try again later."""
        assert not self.running
        self._life += 1
        self._clear()
        self._paused = False
        if self._network.faulty and self._random.random() < self._settings.crash_in_recovery:
            self.disk.end_after(self._random.randrange(12))
        try:
            self._open()
        except (ProcessEnds, DiskFailed):
            self._simulator.counts["crash in recovery"] += 1
            self._simulator.note("crash in recovery", self.node)
            self._clear()
            self.disk.power_fails()
            self._simulator.at(self._tick_us, self._start_unless_running)
            return
        finally:
            self.disk.end_after(None)
        self.running = True
        self._simulator.note("start", self.node)
        for group in self._groups:
            self._mark(group)
        self._later(self._random.randrange(self._tick_us), self._tick)

    def _start_unless_running(self) -> None:
        if not self.running:
            self.start()

    def end(self, *, power: bool) -> None:
        """Kill the process or, with `power`, the machine. Writes under way end anywhere."""
        assert self.running
        self.running = False
        self._life += 1
        for write, group, planned in list(self._under_way.values()):
            if write.done:
                continue
            if self._random.randrange(2) and not self.disk.run_partly(write):
                self._simulator.counts["write torn by a crash"] += 1
            if group is not None and planned is not None:
                self._checker.half_written(self.node, group, planned)
        if power:
            self.disk.power_fails()
        else:
            self.disk.process_dies()
        for hosted in self._groups.values():
            self._abandon(hosted)
        self._clear()

    def _ends_at_the_disk(self, error: DiskFailed | ProcessEnds) -> None:
        """A sync has failed, or a crash met a write: the process ends, somebody starts it again."""
        failed = isinstance(error, DiskFailed)
        what = "sync failed: the process ended" if failed else "crash within a write"
        self._simulator.counts[what] += 1
        self._simulator.note(what, self.node)
        self.end(power=failed or self._random.randrange(3) > 0)
        self._simulator.at(4 * self._tick_us, self._start_unless_running)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        """Do what came meanwhile, in its order."""
        self._paused = False
        stalled, self._stalled = self._stalled, []
        for action in stalled:
            self._simulator.at(0, action)

    def _later(self, delay_us: int, action: Callable[[], None]) -> None:
        """An event of this life of the process; a paused process sees it when it goes on."""
        life = self._life

        def happen() -> None:
            if self._life != life:
                return
            if self._paused:
                self._stalled.append(happen)
                return
            action()

        self._simulator.at(delay_us, happen)

    def _open(self) -> None:
        fs = self.disk.fs
        self._folder = DataFolder.open(
            fs, cluster_id=CLUSTER_ID, node=self.node, new_store_uuid=f"store-{self.node}"
        )
        self.journal = self._folder.open_journal()
        if self.journal.report.torn_bytes:
            self._simulator.counts["torn tail of the journal cut"] += 1
        groups = self._folder.groups()
        if CONTROLLER_GROUP not in groups:
            self._create(CONTROLLER_GROUP, None)
        for group in groups:
            self._host(group, _topic_from(self._folder.manifest(group)), self._open_log(group))

    def _create(self, group: GroupId, topic: TopicInfo | None) -> None:
        self._folder.create_group(group, _manifest_of(topic))
        self._host(group, topic, self._open_log(group))

    def _open_log(self, group: GroupId) -> GroupLog:
        fs, folder = self.disk.fs, self._folder.group_folder(group)
        if not GroupLog.exists(fs, folder):
            return WitnessedLog.create(fs, folder, group, self._settings.log_limits)
        log = WitnessedLog.open(fs, folder, group, self._settings.log_limits)
        if log.report.torn_bytes:
            self._simulator.counts["torn tail of a log cut"] += 1
        return log

    def _host(self, group: GroupId, topic: TopicInfo | None, log: GroupLog) -> None:
        assert isinstance(log, WitnessedLog)
        replica = Replica(
            node=self.node,
            group=group,
            membership=Membership(self.voters if topic is None else topic.voters),
            timing=self._settings.timing,
            log=log,
            journal=self.journal,
            machine=ControllerMachine() if topic is None else TopicMachine(topic),
            random=self._random,
        )
        hosted = Hosted(replica, topic)
        self._groups[group] = hosted
        self._checker.opened(self, hosted, log)

    def log_folder(self, group: GroupId) -> str:
        return self._folder.group_folder(group)

    # ------------------------------------------------------------ turns

    def _mark(self, group: GroupId) -> None:
        self._marked[group] = None
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._later(self._settings.turn_us, self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        marked, self._marked = self._marked, {}
        for group in marked:
            hosted = self._groups.get(group)
            if hosted is not None:
                self._advance(hosted)
        self._write_journal()

    def _advance(self, hosted: Hosted) -> None:
        output = hosted.replica.advance()
        self._checker.advanced(hosted, output)
        by_peer: dict[NodeId, list[PeerMessage]] = {}
        for message in output.messages:
            self._checker.sent(self, hosted, message)
            by_peer.setdefault(message.to, []).append(message)
        for peer, messages in by_peer.items():
            self._network.send(self.node, peer, messages)
        self._settle(hosted, output)
        if hosted.group == CONTROLLER_GROUP and output.applied and not output.more:
            self._follow_controller()
        if output.more:
            self._mark(hosted.group)
        self._write_log(hosted)

    def _settle(self, hosted: Hosted, output: Output) -> None:
        for index, term, outcome in output.applied:
            waiting = hosted.writes.pop(index, None)
            if waiting is not None:
                waiting.reply(outcome if waiting.term == term else Failed(written=True))
        for read in output.reads:
            hosted.reads.pop(read.request_id)(None)
        for request_id in output.reads_dropped:
            hosted.reads.pop(request_id)(Failed(written=False))
        if output.soft_state is not None:
            state = output.soft_state
            self._simulator.note(
                "role", self.node, hosted.group, state.role.value, state.term, state.leader
            )
            if state.role is not Role.LEADER:
                writes, hosted.writes = hosted.writes, {}
                for waiting in writes.values():
                    waiting.reply(Failed(written=True, leader=state.leader))

    def _abandon(self, hosted: Hosted) -> None:
        """Whoever waits for this replica hears nothing more from it: its deadline passes."""
        hosted.writes.clear()
        hosted.reads.clear()

    def _write_log(self, hosted: Hosted) -> None:
        if hosted.writing:
            return
        write = hosted.replica.take_write()
        if write is None:
            return
        hosted.writing = True
        hosted.idle_ticks = 0
        planned = DurableLog.of(hosted.replica.log)

        def noticed() -> None:
            hosted.writing = False
            hosted.replica.written(write)
            if hosted.group in self._groups:
                self._checker.stepped(hosted)
                self._mark(hosted.group)

        self._run_later(write, hosted.group, planned, noticed)

    def _write_journal(self) -> None:
        if self._journal_writing:
            return
        write = self.journal.take_write()
        if write is None:
            return
        self._journal_writing = True

        def noticed() -> None:
            self._journal_writing = False
            self.journal.written(write)
            for group in self._groups:
                self._mark(group)

        self._run_later(write, None, None, noticed)

    def _run_later(
        self,
        write: LogWrite,
        group: GroupId | None,
        planned: DurableLog | None,
        noticed: Callable[[], None],
    ) -> None:
        """Run the write after a while, and notice after another that it ran."""
        self._under_way[id(write)] = (write, group, planned)

        def run() -> None:
            try:
                write.run()
            except (DiskFailed, ProcessEnds) as error:
                del self._under_way[id(write)]
                if group is not None and planned is not None:
                    self._checker.half_written(self.node, group, planned)
                self._ends_at_the_disk(error)
                return
            del self._under_way[id(write)]
            if group is not None and planned is not None:
                self._checker.on_disk(self.node, group, planned)
            self._later(self._random.randrange(200), noticed)

        delay = self._random.randrange(1, 2 * self._settings.write_us) * self.slow_disk
        self._later(delay, run)

    def _tick(self) -> None:
        for group, hosted in self._groups.items():
            if not hosted.deleted_elsewhere:
                hosted.replica.raft.tick()
                self._checker.stepped(hosted)
            hosted.idle_ticks += 1
            if hosted.idle_ticks == self._settings.idle_ticks:
                hosted.replica.log.idle_marker()
                self.journal.idle_marker()
            self._mark(group)
        self._later(self._tick_us, self._tick)

    # ------------------------------------------------------------ peers

    def _receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        if self.running:
            self._later(0, lambda: self._take(peer, messages))

    def _take(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        for message in messages:
            hosted = self._groups.get(message.group)
            if isinstance(message, GroupDeleted):
                if hosted is not None:
                    hosted.deleted_elsewhere = True
            elif hosted is not None:
                hosted.replica.step(message)
                self._checker.stepped(hosted)
                self._mark(message.group)
            elif self._controller.is_deleted(message.group):
                gone = GroupDeleted(group=message.group, sender=self.node, to=peer)
                self._network.send(self.node, peer, [gone])

    def connection_lost(self, peer: NodeId) -> None:
        """The connection to the peer's process was reset."""
        if self.running:
            self._later(0, lambda: self._leader_lost(peer))

    def _leader_lost(self, peer: NodeId) -> None:
        for group, hosted in self._groups.items():
            raft = hosted.replica.raft
            if raft.leader == peer:
                raft.leader_lost(peer, raft.term)
                self._checker.stepped(hosted)
                self._mark(group)

    # ------------------------------------------------------------ groups

    @property
    def _controller(self) -> ControllerMachine:
        machine = self._groups[CONTROLLER_GROUP].machine
        assert isinstance(machine, ControllerMachine)
        return machine

    def hosted(self, group: GroupId) -> Hosted | None:
        """The replica, if the node runs and has it."""
        return self._groups.get(group)

    def leads(self, group: GroupId) -> bool:
        hosted = self._groups.get(group)
        return hosted is not None and hosted.replica.raft.role is Role.LEADER

    def _follow_controller(self) -> None:
        applied = self._groups[CONTROLLER_GROUP].replica.applied_index
        if applied < self._folder.deletions_index():
            return
        controller = self._controller
        for topic in controller.topics():
            here = topic.group in self._groups or topic.group in self._opening
            if self.node in topic.voters and not here:
                self._opening.add(topic.group)
                delay = self._random.randrange(1, 2 * self._settings.write_us)
                self._later(delay, lambda topic=topic: self._open_group(topic))
        for group in [group for group in self._groups if controller.is_deleted(group)]:
            hosted = self._groups.pop(group)
            self._abandon(hosted)
            # Not within the turn: it may be the end of the process.
            self._later(0, lambda hosted=hosted: self._remove_group(hosted))

    def _open_group(self, topic: TopicInfo) -> None:
        self._opening.discard(topic.group)
        try:
            self._create(topic.group, topic)
        except (DiskFailed, ProcessEnds) as error:
            self._ends_at_the_disk(error)
            return
        self._mark(topic.group)
        self._follow_controller()

    def _remove_group(self, hosted: Hosted) -> None:
        if hosted.writing:
            self._later(self._tick_us, lambda: self._remove_group(hosted))
            return
        try:
            applied = self._groups[CONTROLLER_GROUP].replica.applied_index
            self._folder.note_deletions(applied)
            hosted.replica.log.close()
            self._folder.remove_group(hosted.group)
        except (DiskFailed, ProcessEnds) as error:
            self._ends_at_the_disk(error)
            return
        self.journal.forget(hosted.group)

    # ------------------------------------------------------------ calls

    def serve(self, action: Callable[[], None]) -> None:
        """A client's request has arrived."""
        if self.running:
            self._later(0, action)

    def propose(self, group: GroupId, make_payload: Callable[[int], Payload], reply: Reply) -> None:
        """Replicate the command made with this node's clock; reply with its outcome."""
        hosted = self._groups.get(group)
        if hosted is None or hosted.deleted_elsewhere:
            reply(Failed(written=False))
            return
        payload = make_payload(self._clock_us + self._simulator.now_us)
        try:
            span, term = hosted.replica.propose([payload])
        except NotLeader as error:
            reply(Failed(written=False, leader=NodeId(error.leader)))
            return
        except Overloaded:
            self._simulator.counts["proposal refused as overload"] += 1
            reply(Failed(written=False, leader=self.node))
            return
        hosted.writes[span.first] = _Waiting(term, reply)
        self._checker.stepped(hosted)
        self._mark(group)

    def read_barrier(self, group: GroupId, reply: Reply) -> None:
        """Reply with None when a read of the machine here is linearizable."""
        hosted = self._groups.get(group)
        if hosted is None:
            reply(Failed(written=False))
            return
        self._next_request += 1
        try:
            hosted.replica.raft.read_index(self._next_request)
        except NotLeader as error:
            reply(Failed(written=False, leader=NodeId(error.leader)))
            return
        except Overloaded:
            reply(Failed(written=False, leader=self.node))
            return
        hosted.reads[self._next_request] = reply
        self._mark(group)


def _manifest_of(topic: TopicInfo | None) -> str:
    """In the real codec: what a node stores of a topic survives a restart as it was."""
    if topic is None:
        return ""
    return encode_reply("CreateTopic", TopicReply(topic=topic)).hex()


def _topic_from(manifest: str) -> TopicInfo | None:
    if not manifest:
        return None
    reply, _ = decode_reply("CreateTopic", bytes.fromhex(manifest))
    assert isinstance(reply, TopicReply)
    return reply.topic
