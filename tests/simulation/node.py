"""One simulated node: the server's `MultiRaft` on a simulated disk, clock and network.

A write or a job runs some time after it was asked for, and is reported some time after that.
Between any two of these the process may die. The replicas and logs are watched, and tell the
checker what it wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar

from raftlog.compaction.compact import compact
from raftlog.core.leadership import FollowerView
from raftlog.core.messages import PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, GroupId, NodeId, Payload
from raftlog.errors import (
    CorruptFile,
    DiskFailed,
    DiskFull,
    Internal,
    NotLeader,
    Overloaded,
    RaftlogError,
)
from raftlog.image.job import CompactionJob
from raftlog.image.job import Reply as CompactionReply
from raftlog.image.manifest import Image
from raftlog.machines.commands import ReportPlacement
from raftlog.machines.kv_commands import KeyValue
from raftlog.multiraft.effects import BackgroundRead, MultiRaftEvent
from raftlog.multiraft.groups import GroupStore, OpenedGroup
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.frames import FRAME_HEADER_BYTES, Purpose
from raftlog.storage.recovery import FrameWalk, read_segment_header
from raftlog.storage.reopen import segment_names
from raftlog.storage.write import LogWrite
from tests.simulation.checkers import Checker, WitnessedLog
from tests.simulation.disk import Disk, DurableLog, ProcessEnds
from tests.simulation.heard import hear
from tests.simulation.network import Network
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings
from tests.simulation.watched import WatchedReplica
from tests.stores import opened_folder

T = TypeVar("T")

CLUSTER_ID = "simulation"

JOB_CHANGES_MAX = 12
"""A crash in the middle of making or removing a group comes before one of its first changes."""

TURN_WORK_US = 1_000
"""When a turn ends, by a clock that goes by `Settings.work_us`."""

POSITIONS_LOST = 0.4
"""Reads of reader groups' positions that fail, at any time: leaders read them again."""

FOUNDING_TURN_US = 20
"""Inputs within this time go into one turn, before faults begin."""

NOTICE_US_MAX = 200
"""How long after it has run a write or job is reported, at most."""


class Failed(NamedTuple):
    """No outcome. `written`: the command may be in the log all the same."""

    written: bool
    leader: NodeId = NO_NODE


Reply = Callable[[Any], None]


class _Plan(NamedTuple):
    """What a group's log will be once a write has run."""

    group: GroupId
    log: DurableLog


def _nobody_hears(reporter: NodeId, report: ReportPlacement) -> None:
    raise AssertionError(f"no group is moved: {reporter} {report}")


class SimulatedNode:
    """A process that can be started, paused and ended; its disk outlives it."""

    def __init__(
        self,
        *,
        node: NodeId,
        voters: tuple[NodeId, ...],
        simulator: Simulator,
        network: Network,
        settings: Settings,
        checker: Checker,
        store: str = "",
    ) -> None:
        """`store`: the identity of its folder, by default the only one that its id ever had."""
        self.node = node
        self.store = store or f"store-{node}"
        self.gone = False
        """Its machine is lost with all that was on it: it never starts again."""
        self.voters = voters
        self.checker = checker
        self.disk = Disk(simulator.random(f"disk {node}"))
        self.slow_disk = 1
        self.damaged = False
        """Bytes of its disk were changed on purpose."""
        self.cut = False
        """The end of a log of its disk was cut off on purpose, which it cannot see."""
        self.damage_told: list[MultiRaftEvent] = []
        self.reports: Callable[[NodeId, ReportPlacement], None] = _nobody_hears
        """Carries reports to the controller's leader."""
        self.simulator = simulator
        self._network = network
        self._settings = settings
        self._random = simulator.random(f"node {node}")
        drift = 1 + settings.tick_drift * (2 * self._random.random() - 1)
        self._tick_us = int(settings.tick_us * drift)
        self._speed = 1.0
        self._clock_us = 1_700_000_000_000_000 + self._random.randrange(5_000_000)
        self.furthest_clock_us = self._clock_us
        """The furthest that its wall clock was ever ahead of simulated time."""
        self._life = 0
        self._worked_us = 0
        self._paused = False
        self._clear()
        network.attach(node, self.store, self._receive, self._peer_reachable)

    def _clear(self) -> None:
        self._multiraft: MultiRaft | None = None
        self._stalled: list[Callable[[], None]] = []
        self._plans: dict[LogWrite, _Plan] = {}
        self._writes: dict[LogWrite, None] = {}
        self._job: Callable[[], Any] | None = None
        self._compaction: CompactionJob | None = None
        self._disk_stalls = 0
        self._stalled_writes: list[Callable[[], None]] = []
        self._outgoing: dict[NodeId, list[PeerMessage]] = {}
        """What was sent to each peer since the last frame."""
        self._turn_ahead = False

    # ------------------------------------------------------------ life

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def running(self) -> bool:
        return self._multiraft is not None

    def start(self) -> None:
        """Open everything from the disk; if the power fails meanwhile, try again later."""
        assert not self.running
        if self.gone:
            return
        self._life += 1
        self._clear()
        self._paused = False
        if self._network.faulty and self._random.random() < self._settings.crash_in_recovery:
            self.disk.end_after(self._random.randrange(12))
        try:
            self._multiraft = self._open()
        except (ProcessEnds, DiskFailed):
            self.simulator.counts["crash in recovery"] += 1
            self.simulator.note("crash in recovery", self.node)
            self._clear()
            self.disk.power_fails()
            self.simulator.at(self._tick_us, self.start_unless_running)
            return
        finally:
            self.disk.end_after(None)
        self.simulator.note("start", self.node)
        self._network.started(self.node)
        self._later(self._random.randrange(self._tick_us), self._tick)

    def _open(self) -> MultiRaft:
        self._folder = opened_folder(
            self.disk.fs,
            self.node,
            self.voters,
            cluster_id=CLUSTER_ID,
            store_uuid=self.store,
        )
        store = GroupStore(
            folder=self._folder,
            timing=self._settings.timing,
            log_limits=self._settings.log_limits,
            random=self._random,
            tell=self.tell,
            log_type=WitnessedLog,
            replica_type=partial(WatchedReplica, owner=self),
        )
        if store.journal.report.torn_bytes:
            self.simulator.counts["torn tail of the journal truncated"] += 1
        multiraft = MultiRaft(
            node=self.node,
            nodes=dict.fromkeys((*self.voters, self.node), ""),
            store=store,
            effects=self,
            timing=self._settings.timing,
            boot_id=f"{self.node}.{self._life}",
            random=self._random,
            limits=MultiRaftLimits(
                quiesce_refresh_ticks=self._settings.quiesce_refresh_ticks,
                idle_ticks_max=self._settings.idle_ticks,
                request_bytes_max=self._settings.request_bytes_max,
                slow_disk_ticks=self._settings.slow_disk_ticks,
                full_disk_ticks=self._settings.full_disk_ticks,
                reserve_bytes=0,
                retention_ticks=self._settings.retention_ticks,
                turn_work_us=TURN_WORK_US,
                catch_up=self._settings.catch_up,
                compaction=self._settings.compaction,
                leaders=self._settings.leaders,
                images=self._settings.images,
                scrubs=self._settings.scrubs,
            ),
        )
        opened = store.open_all()
        for each in opened:
            if isinstance(each, OpenedGroup):
                self.checker.image_opened(self, each)
        multiraft.start(opened)
        return multiraft

    def start_unless_running(self) -> None:
        """Start, if nothing else has started it meanwhile."""
        if not self.running:
            self.start()

    def end(self, *, power: bool) -> None:
        """Kill the process or, with `power`, the machine. Writes in flight may end half done."""
        assert self.running
        self._life += 1
        self._network.ended(self.node)
        for write in self._writes:
            if self._random.randrange(2) and not self.disk.run_partly(write):
                self.simulator.counts["write torn by a crash"] += 1
            self._half_written(write)
        if self._job is not None and self._random.randrange(2):
            self._run_partly(self._job, "group half made or removed by a crash")
        if (job := self._compaction) is not None and self._random.randrange(2):
            self._run_partly(lambda: self._compact(job), "compaction ended by a crash")
        if power:
            self.disk.power_fails()
        else:
            self.disk.process_dies()
        # Clients that wait for this process hear nothing more from it: their deadlines pass.
        self._clear()

    def _run_partly(self, job: Callable[[], Any], what: str) -> None:
        self.disk.end_after(self._random.randrange(JOB_CHANGES_MAX))
        try:
            job()
        except (ProcessEnds, DiskFailed, DiskFull):
            self.simulator.counts[what] += 1
        finally:
            self.disk.end_after(None)

    def _ends_at_the_disk(self, error: DiskFailed | ProcessEnds) -> None:
        """A sync has failed, or a crash hit a write: the process ends and is started again."""
        failed = isinstance(error, DiskFailed)
        what = "sync failed: the process ended" if failed else "crash within a write"
        self.simulator.counts[what] += 1
        self.simulator.note(what, self.node)
        self.end(power=failed or self._random.randrange(3) > 0)
        self.simulator.at(4 * self._tick_us, self.start_unless_running)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        """Do what came meanwhile, in order."""
        self._paused = False
        stalled, self._stalled = self._stalled, []
        for action in stalled:
            self.simulator.at(0, action)

    def set_clock(self, ahead_us: int) -> None:
        """Set the wall clock forward or, below 0, back. Ticks come from another clock."""
        self._clock_us += ahead_us
        self.furthest_clock_us = max(self.furthest_clock_us, self._clock_us)

    def set_speed(self, share: float) -> None:
        """Let ticks come so many times as fast as the process's own; 1 is as it began."""
        self._speed = share

    def _later(self, delay_us: int, action: Callable[[], None]) -> None:
        """An event of this boot of the process; a paused process sees it when it resumes."""
        life = self._life

        def happen() -> None:
            if self._life == life:
                self._take(action)

        self.simulator.at(delay_us, happen)

    def _take(self, action: Callable[[], None]) -> None:
        """Something that has reached this boot of the process, in an event of its own."""
        if self._paused:
            life = self._life
            self._stalled.append(lambda: self._take(action) if self._life == life else None)
            return
        action()
        if self._outgoing and not self._turn_ahead:
            self._flush()

    def _flush(self) -> None:
        """A frame for each peer, as links join whatever one turn and the inputs before it send."""
        outgoing, self._outgoing = self._outgoing, {}
        for peer, messages in outgoing.items():
            if not self._refuses(peer):
                self._network.send(self.node, peer, messages)

    def _tick(self) -> None:
        self._running_multiraft.tick()
        self._later(int(self._tick_us / self._speed), self._tick)

    def damage(self, group: GroupId, name: str, share: float) -> None:
        """Change a byte of a file of the group, so far into it."""
        self.damaged = True
        path = f"{self.log_folder(group)}/{name}"
        file = self.disk.fs.open(path, create=False)
        size = file.size()
        file.close()
        self.disk.flip(path, int(share * size))

    def damage_log(self, group: GroupId, random: Random) -> None:
        """Change a frame's header, or a segment's, where it cannot be taken for the torn tail of a
        write: one byte, which can be rebuilt, or all. The process does not run."""
        assert not self.running
        self.damaged = True
        folder = self.log_folder(group)
        path = f"{folder}/{random.choice(segment_names(self.disk.fs, folder))}"
        starts = self._headers(path, group)
        start, byte = random.choice(starts), random.randrange(FRAME_HEADER_BYTES)
        if byte % 4:
            self.disk.flip(path, start, FRAME_HEADER_BYTES)
        else:
            self.disk.flip(path, start + byte)

    def damage_headers(self, group: GroupId, random: Random, count: int) -> None:
        """Change a byte in each of so many headers of the log. The process does not run."""
        assert not self.running
        self.damaged = True
        folder = self.log_folder(group)
        paths = [f"{folder}/{name}" for name in segment_names(self.disk.fs, folder)]
        places = [(path, start) for path in paths for start in self._headers(path, group)]
        for path, start in random.sample(places, count):
            self.disk.flip(path, start + random.randrange(FRAME_HEADER_BYTES))

    def _headers(self, path: str, group: GroupId) -> list[int]:
        """Where headers are in a segment that cannot be taken for the torn tail of a write."""
        file = self.disk.fs.open(path, create=False)
        walk = FrameWalk(file, read_segment_header(file, purpose=Purpose.LOG, group=group))
        frames = list(walk)
        file.close()
        return [0, *(frame.position for frame in frames if frame.end <= walk.proven_to)]

    # ------------------------------------------------------------ effects of `MultiRaft`

    def soon(self, turn: Callable[[], None]) -> None:
        self._turn_ahead = True

        def happen() -> None:
            self._turn_ahead = False
            turn()

        founding = self._network.founding
        self._later(FOUNDING_TURN_US if founding else self._settings.turn_us, happen)

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        self._later(delay_us, turn)

    def work_us(self) -> int:
        """Every look at the clock adds some work, because a turn takes no simulated time."""
        self._worked_us += int(self._random.random() * self._settings.work_us)
        return self._worked_us

    def monotonic_us(self) -> int:
        return self.simulator.now_us

    def boottime_us(self) -> int:
        """By the node's own clock, which its ticks come from: not as fast as another node's."""
        return int(self.simulator.now_us * self._settings.tick_us / self._tick_us)

    def clock_us(self) -> int:
        return self._clock_us + self.simulator.now_us

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self._outgoing.setdefault(peer, []).extend(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        """A simulated link takes whatever is sent."""
        return 0

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        """The network carries what anybody sends to anybody."""

    def report(self, report: ReportPlacement) -> None:
        self.reports(self.node, report)

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        """It sees the files some time after it was planned, and is reported later still: in some
        seeds so late that elections pass."""

        def run() -> None:
            try:
                read.run()
            except (DiskFailed, ProcessEnds) as error:
                self._ends_at_the_disk(error)
                return
            late_us = self._settings.read_notice_us if self._network.faulty else NOTICE_US_MAX
            self._later(self._random.randrange(late_us), ran)

        self._later(self._disk_us(), run)

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        self._writes[write] = None

        def run() -> None:
            del self._writes[write]
            try:
                write.run()
            except (DiskFailed, ProcessEnds) as error:
                self._half_written(write)
                self._ends_at_the_disk(error)
                return
            if write.done:
                self._written(write)
            else:
                self.simulator.counts["writes that found no room"] += 1
                self._half_written(write)
            self._later(self._random.randrange(NOTICE_US_MAX), ran)

        if self._disk_stalls:
            self._stalled_writes.append(run)
        else:
            self._later(self._disk_us(), run)

    def stall_disk(self) -> None:
        """Hold every write that is handed out from now on, until as many calls of `resume_disk`."""
        self._disk_stalls += 1

    def resume_disk(self) -> None:
        """Run the writes that waited, in order."""
        self._disk_stalls = max(0, self._disk_stalls - 1)
        if self._disk_stalls:
            return
        waiting, self._stalled_writes = self._stalled_writes, []
        for run in waiting:
            self._later(0, run)

    def run_job(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        assert self._job is None, "one job at a time"
        self._job = work

        def run() -> None:
            self._job = None
            try:
                value = work()
            except (DiskFailed, ProcessEnds) as error:
                self._ends_at_the_disk(error)
                return
            self._later(self._random.randrange(NOTICE_US_MAX), lambda: done(value))

        self._later(self._disk_us(), run)

    def _compact(self, job: CompactionJob) -> Image:
        small = self._settings.small_file_bytes
        return compact(self.disk.fs, job, small_file_bytes=small)

    def run_compaction(self, job: CompactionJob, done: Callable[[CompactionReply], None]) -> None:
        """It sees the files some time after it was asked for, and is reported later still. A crash
        may come in the middle of it, as it may in the middle of a job."""
        self._compaction = job

        def run() -> None:
            self._compaction = None
            reply: CompactionReply
            try:
                reply = self._compact(job)
            except (DiskFailed, ProcessEnds) as error:
                self._ends_at_the_disk(error)
                return
            except DiskFull as error:
                self.simulator.counts["compactions that found no room"] += 1
                reply = error
            except CorruptFile as error:
                if not self.damaged:
                    raise
                reply = error
            except Internal as error:
                if self.node not in self.checker.group(job.group).changed:
                    raise
                reply = error  # its state does not follow from its log
            else:
                self.simulator.counts["snapshot points compacted"] += 1
                self.checker.compacted(self, job, reply)
            self._later(self._random.randrange(NOTICE_US_MAX), lambda: done(reply))

        self._later(3 * self._disk_us(), run)

    def abandon_compaction(self) -> None:
        """It may end as late as any other."""

    def tell(self, event: MultiRaftEvent) -> None:
        hear(self, event)

    def read_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        """They are those of some moment on the way, or nobody answers."""
        lost = self._random.random() < POSITIONS_LOST

        def read() -> None:
            found = None if lost else self._network.positions.keys()
            self.simulator.counts["positions read by leaders"] += 1
            self._later(self._random.randrange(2 * self._settings.latency_us), lambda: done(found))

        self._later(self._random.randrange(2 * self._settings.latency_us), read)

    def _disk_us(self) -> int:
        if self._network.founding:
            return 1
        return self._random.randrange(1, 2 * self._settings.write_us) * self.slow_disk

    def count(self, what: str, times: int = 1) -> None:
        self.simulator.counts[what] += times

    def planned(self, write: LogWrite, group: GroupId, log: DurableLog) -> None:
        """A replica has handed out the write; its log will be this once it has run."""
        self._plans[write] = _Plan(group, log)

    def _written(self, write: LogWrite) -> None:
        plan = self._plans.pop(write, None)
        if plan is not None:
            self.checker.on_disk(self.node, plan.group, plan.log)

    def _half_written(self, write: LogWrite) -> None:
        plan = self._plans.get(write)
        if plan is not None:
            self.checker.half_written(self.node, plan.group, plan.log)

    # ------------------------------------------------------------ peers

    def _receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        if self.running and not self._refuses(peer):
            self._take(lambda: self._running_multiraft.receive(peer, messages))

    def _refuses(self, peer: NodeId) -> bool:
        """As a server when a stream begins: is the process under this id of another store, or is it
        no node of the cluster, as far as is known here?"""
        replicas = self._running_multiraft.replicas
        if (store := self._network.unknown_stores.get(peer)) is None:
            return peer not in replicas.nodes
        known = replicas.known_store(peer)
        refuses = known not in (None, store) or peer not in replicas.nodes
        self.simulator.counts["frames from or for another store refused"] += refuses
        return refuses

    def _peer_reachable(self, reachable: int) -> None:
        self._take(lambda: self._running_multiraft.peer_reachable(reachable))

    def connection_lost(self, peer: NodeId) -> None:
        """The connection to the peer's process was reset; a new one is tried."""
        if self.running:
            self._later(0, lambda: self._running_multiraft.peer_closed(peer))
            self._network.connect(self.node, peer)

    # ------------------------------------------------------------ what it has

    @property
    def multiraft(self) -> MultiRaft:
        """Of the process, which runs."""
        return self._running_multiraft

    @property
    def _running_multiraft(self) -> MultiRaft:
        assert self._multiraft is not None, "the process runs"
        return self._multiraft

    def local(self, group: GroupId) -> LocalReplica | None:
        """The replica, if the node runs and has it."""
        return self._multiraft.replicas.get(group) if self._multiraft is not None else None

    def followers(self, group: GroupId) -> Sequence[FollowerView]:
        """The group's voters as its leader here sees them."""
        local = self.local(group)
        return self._running_multiraft.followers(local) if local is not None else ()

    def leads(self, group: GroupId) -> bool:
        local = self.local(group)
        return local is not None and local.replica.raft.role is Role.LEADER

    def log_folder(self, group: GroupId) -> str:
        return self._folder.group_folder(group)

    # ------------------------------------------------------------ calls

    def serve(self, action: Callable[[], None]) -> None:
        """A client's request has arrived."""
        if self.running:
            self._take(action)

    def propose(self, group: GroupId, make_payload: Callable[[int], Payload], reply: Reply) -> None:
        """Replicate the command made with this node's clock; reply with its outcome."""
        local = self.local(group)
        if local is None or local.deleted_elsewhere:
            reply(Failed(written=False))
            return
        payload = make_payload(self._running_multiraft.now_us(local))

        def answer(outcome: Any) -> None:
            leader = local.replica.raft.leader
            failed = isinstance(outcome, RaftlogError)
            reply(Failed(written=True, leader=leader) if failed else outcome)

        try:
            self._running_multiraft.propose(local, payload, answer)
        except NotLeader as error:
            reply(Failed(written=False, leader=NodeId(error.leader)))
        except (Overloaded, DiskFull):
            self.simulator.counts["proposal refused as overload"] += 1
            reply(Failed(written=False, leader=self.node))

    def read_barrier(self, group: GroupId, reply: Reply) -> None:
        """Reply with None when a read of the machine here is linearizable."""
        local = self.local(group)
        if local is None:
            reply(Failed(written=False))
            return

        def answer(error: RaftlogError | None) -> None:
            reply(Failed(written=False) if error is not None else None)

        try:
            self._running_multiraft.read_barrier(local, answer)
        except NotLeader as error:
            reply(Failed(written=False, leader=NodeId(error.leader)))
        except (Overloaded, DiskFull):
            reply(Failed(written=False, leader=self.node))
