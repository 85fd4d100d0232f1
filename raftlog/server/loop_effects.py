"""What `MultiRaft` asks for, on an event loop: links to peers, threads for the disk, log lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, assert_never

import structlog

from raftlog.comparison import Trust
from raftlog.core.messages import PeerMessage
from raftlog.core.ready import Role
from raftlog.core.types import NodeId
from raftlog.errors import AcknowledgedEntriesLost, ResourceShortage, shortage_of
from raftlog.image.job import CompactionJob, Reply
from raftlog.machines.commands import ReportPlacement
from raftlog.machines.group_info import label_of
from raftlog.machines.kv_commands import KeyValue
from raftlog.metrics.counts import BEGUN, WON, Counts
from raftlog.multiraft.effects import (
    BackgroundRead,
    CompactionFailed,
    DamageFound,
    DamageHealed,
    DamageNotHealable,
    DamagePassedOver,
    DiskChanged,
    EntryDamaged,
    GroupDeletedElsewhere,
    GroupKept,
    GroupOpened,
    GroupQuarantined,
    GroupRefilling,
    GroupRemoved,
    HistoryCompared,
    ImageInstalled,
    ImageRefused,
    LeadershipChanged,
    MultiRaftEvent,
    PeerMessagesRefused,
    RebuildsSpent,
    ReplicaRebuilding,
    ReplicaRebuilt,
    ReplicaRecovered,
    ReserveUnusable,
    RetentionFailed,
    StateCompared,
    TornTailTruncated,
)
from raftlog.server.compactor import Compactor
from raftlog.server.node_links import NodeLinks
from raftlog.server.traces import Traces
from raftlog.server.workers import Workers
from raftlog.server.write_stages import WriteStages
from raftlog.storage.write import LogWrite

T = TypeVar("T")

_OF_STATES = {
    Trust.DIVERGED: "the replica's state differs from the majority's: it serves no reads, "
    "and leads only where no other replica can; restart this node, which replays the log",
    Trust.DISPUTED: "the replicas' states differ and none has a majority: new records are "
    "not served; start all nodes",
}

_OF_HISTORIES = {
    Trust.DIVERGED: "the replica's history differs from the majority's: it serves no reads, "
    "and leads only where no other replica can",
    Trust.DISPUTED: "the replicas' histories differ and none has a majority: these records are not "
    "served; start all nodes",
}

_READ_AGAIN_S = 1.0
"""When a read is tried again for which the process had reached a limit. No setting: what waits for
it asks again after a longer time."""

log = structlog.get_logger(__name__)


class LoopEffects:
    """Implements `Effects`. For the loop that runs when it is made."""

    def __init__(
        self,
        *,
        links: NodeLinks,
        writers: Workers,
        readers: Workers,
        compactions: Workers,
        compactor: Compactor,
        counts: Counts,
        traces: Traces,
        report: Callable[[ReportPlacement], None],
        read_positions: Callable[[Callable[[Sequence[KeyValue] | None], None]], None],
    ) -> None:
        """`writers` run writes and jobs, `readers` reads: a sync must not wait behind a read.
        `compactions` has one thread, which waits for the compaction process. `report` tells the
        controller's leader; `read_positions` asks the key-value store's."""
        self._links = links
        self._writers = writers
        self._readers = readers
        self._compactions = compactions
        self._compactor = compactor
        self._counts = counts
        self._traces = traces
        self.write_stages = WriteStages(counts, traces)
        """Looks at the writes after each turn and each write to disk."""
        self._report = report
        self._read_positions = read_positions
        self._loop = asyncio.get_running_loop()

    def soon(self, turn: Callable[[], None]) -> None:
        self._loop.call_soon(self._run, turn)

    def _run(self, turn: Callable[[], None]) -> None:
        turn()
        self._look()

    def _look(self) -> None:
        self.write_stages.look()
        self._traces.look()

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        self._loop.call_later(delay_us / 1_000_000, turn)

    def work_us(self) -> int:
        return time.monotonic_ns() // 1000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000

    def boottime_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def clock_us(self) -> int:
        return time.time_ns() // 1000

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        self._links.follow(nodes)

    def report(self, report: ReportPlacement) -> None:
        self._report(report)

    def read_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        self._read_positions(done)

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.send(messages, self._traces.among(messages))

    def queued_bytes(self, peer: NodeId) -> int:
        link = self._links.get(peer)
        return link.queued_bytes if link is not None else 0

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        """One that gets no open file or no memory is tried again."""

        def work() -> ResourceShortage | None:
            try:
                read.run()
            except (ResourceShortage, MemoryError) as error:
                return shortage_of(error, "a file of the node")
            return None

        def done(short: ResourceShortage | None) -> None:
            if short is None:
                ran()
            else:
                self._loop.call_later(_READ_AGAIN_S, self.run_read, read, ran)

        self._readers.run(work, done)

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        def done(_: object) -> None:
            ran()
            self._look()

        self._writers.run(self._counts.timed_write(write.run), done)

    def run_job(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        self._writers.run(work, done)

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        self._compactions.run(lambda: self._compactor.run(job), done)

    def abandon_compaction(self) -> None:
        self._compactor.abandon()

    def tell(self, event: MultiRaftEvent) -> None:
        match event:
            case LeadershipChanged(group=group, info=info, state=state):
                if state.role is Role.CANDIDATE:
                    self._counts.election(BEGUN)
                elif state.role is Role.LEADER:
                    self._counts.election(WON)
                log.info(
                    "leadership",
                    group=group,
                    topic=label_of(info),
                    role=state.role.value,
                    term=state.term,
                    leader=state.leader,
                )
            case GroupOpened(info=info):
                log.info("group opened", group=info.group, topic=label_of(info))
            case GroupRemoved(group=group, info=info):
                log.info("group removed", group=group, topic=label_of(info))
            case GroupDeletedElsewhere(group=group, peer=peer):
                log.info("group deleted elsewhere", group=group, peer=peer)
            case GroupKept(group=group, info=info):
                log.warning(
                    "a replica stays, as its log does not say that the group left this node",
                    group=group,
                    topic=label_of(info),
                )
            case PeerMessagesRefused():
                _tell_refused(event)
            case ReplicaRebuilding() | ReplicaRebuilt() | RebuildsSpent():
                _tell_rebuild(event)
            case StateCompared() | HistoryCompared():
                _tell_compared(event)
            case CompactionFailed(group=group, info=info, cause=cause, remedy=remedy):
                log.error(
                    "the log was not compacted; it is tried again, and the log grows until then",
                    group=group,
                    topic=label_of(info),
                    cause=cause,
                    remedy=remedy,
                )
            case RetentionFailed(group=group, topic=topic, cause=cause):
                log.error(
                    "old records stay: a file that tells their age is damaged",
                    group=group,
                    topic=topic.name,
                    cause=cause,
                )
            case (
                TornTailTruncated()
                | DamagePassedOver()
                | GroupQuarantined()
                | GroupRefilling()
                | ReplicaRecovered()
                | EntryDamaged()
            ):
                _tell_damage(event)
            case DamageFound() | DamageHealed() | DamageNotHealable():
                _tell_repair(event)
            case ImageInstalled() | ImageRefused():
                _tell_image(event)
            case DiskChanged():
                _tell_disk(event)
            case ReserveUnusable(cause=cause):
                log.error("the node has no reserve for a full disk", cause=cause)
            case _:
                assert_never(event)


def _tell_disk(event: DiskChanged) -> None:
    if event.full is not None:
        log.error("the disk is full: writes wait or are refused", cause=event.full.cause)
    elif event.limit is not None:
        log.error(
            "the node has reached a limit: what needs more waits or is rejected",
            cause=event.limit.cause,
            remedy=event.limit.remedy,
        )
    elif not event.keeps_up:
        log.warning("the disk is slow: others lead where they can")
    else:
        log.info("the disk keeps up")


def _tell_refused(event: PeerMessagesRefused) -> None:
    latest = event.latest
    if isinstance(latest, AcknowledgedEntriesLost):
        log.error(
            "a log lacks what it had acknowledged, or a leader lies: its replica does not vote",
            group=latest.group,
            peer=latest.peer,
            cause=latest.cause,
            remedy=latest.remedy,
        )
    else:
        log.error(
            "a peer breaks the protocol: its message was dropped",
            peer=latest.peer,
            cause=latest.cause,
            remedy=latest.remedy,
            dropped=event.count,
        )


def _tell_compared(event: StateCompared | HistoryCompared) -> None:
    group, topic = event.group, label_of(event.info)
    match event:
        case StateCompared(trust=Trust.TRUSTED):
            log.info("the replica's state is what a majority has", group=group, topic=topic)
        case StateCompared(trust=trust):
            log.error(_OF_STATES[trust], group=group, topic=topic)
        case HistoryCompared(trust=Trust.TRUSTED, start=start, end=end):
            log.info(
                "the replica's history is what a majority has",
                group=group,
                topic=topic,
                start=start,
                end=end,
            )
        case HistoryCompared(trust=trust, start=start, end=end):
            log.error(_OF_HISTORIES[trust], group=group, topic=topic, start=start, end=end)
        case _:
            assert_never(event)


def _tell_rebuild(event: ReplicaRebuilding | ReplicaRebuilt | RebuildsSpent) -> None:
    topic = label_of(event.info)
    match event:
        case ReplicaRebuilding(group=group, peer=peer):
            log.warning(
                "the replica differs from the majority: it fetches another replica's image",
                group=group,
                topic=topic,
                peer=peer,
            )
        case ReplicaRebuilt(group=group, index=index):
            log.warning(
                "the replica differed from the majority: it stands at another replica's image now; "
                "the history files that it had are kept as groups/N/outvoted-*",
                group=group,
                topic=topic,
                index=index,
            )
        case RebuildsSpent(group=group):
            log.error(
                "the replica differs from the majority again, after it was rebuilt twice within 24 "
                "hours: it neither leads nor serves reads until a person finds out why",
                group=group,
                topic=topic,
            )
        case _:
            assert_never(event)


def _tell_damage(
    event: TornTailTruncated
    | DamagePassedOver
    | GroupQuarantined
    | GroupRefilling
    | ReplicaRecovered
    | EntryDamaged,
) -> None:
    match event:
        case TornTailTruncated(file=file, position=position, byte_count=byte_count):
            log.warning(
                "the end of a log was truncated: it held part of a write, as a crash leaves it",
                file=file,
                position=position,
                bytes=byte_count,
                advice="Nothing to do: a write that a crash interrupts was not acknowledged, "
                "and this node fetches what it lacks. Only if the file was cut off in another "
                "way, see `raftlog docs OPERATIONS`, Data loss.",
            )
        case DamagePassedOver(group=group, cause=cause):
            log.error(
                "a damaged file was passed over: what is whole stands in, and it is written again",
                group=group,
                cause=cause,
            )
        case GroupQuarantined(group=group, info=info, cause=cause):
            log.error(
                "a group's files are damaged: its replica here is quarantined, the others of "
                "this node serve",
                group=group,
                topic=label_of(info),
                cause=cause,
            )
        case EntryDamaged(group=group, info=info, cause=cause):
            log.error(
                "an entry that a follower needs is damaged: another node should lead for a while",
                group=group,
                topic=label_of(info),
                cause=cause,
            )
        case GroupRefilling(group=group, info=info):
            log.warning(
                "a quarantined replica is filled again from its peers; `raftlog status` names its "
                "damaged folder, which is kept",
                group=group,
                topic=label_of(info),
            )
        case ReplicaRecovered(group=group, info=info, index=index):
            log.info(
                "the replica has its log again",
                group=group,
                topic=label_of(info),
                index=index,
            )
        case _:
            assert_never(event)


def _tell_repair(event: DamageFound | DamageHealed | DamageNotHealable) -> None:
    topic = label_of(event.info)
    match event:
        case DamageFound(cause=cause):
            log.error(
                "damage was found: it is healed from another replica, if one has this whole",
                group=event.group,
                topic=topic,
                cause=cause,
            )
        case DamageHealed(what=what):
            log.warning("damage was healed", group=event.group, topic=topic, what=what)
        case DamageNotHealable(cause=cause):
            log.error(
                "no other node could give what is damaged: it is kept as it is and refused to "
                "readers, and tried again now and then",
                group=event.group,
                topic=topic,
                cause=cause,
            )
        case _:
            assert_never(event)


def _tell_image(event: ImageInstalled | ImageRefused) -> None:
    match event:
        case ImageInstalled(group=group, info=info, index=index):
            log.info(
                "the replica lacked entries that its leader had dropped: it installed an image",
                group=group,
                topic=label_of(info),
                index=index,
            )
        case ImageRefused(group=group, peer=peer, cause=cause):
            log.error(
                "an image of another node was rejected: it is fetched again",
                group=group,
                peer=peer,
                cause=cause,
            )
        case _:
            assert_never(event)
