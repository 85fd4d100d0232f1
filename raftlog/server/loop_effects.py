"""What `MultiRaft` asks for, on an event loop: links to peers, threads for the disk, log lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, assert_never

import structlog

from raftlog.core.messages import PeerMessage
from raftlog.core.types import NodeId
from raftlog.errors import DiskFull
from raftlog.multiraft.effects import (
    DiskChanged,
    GroupDeletedElsewhere,
    GroupOpened,
    GroupRemoved,
    LeadershipChanged,
    MultiRaftEvent,
    PeerMessagesRefused,
    StateCompared,
    TornTailTruncated,
)
from raftlog.server.workers import Workers
from raftlog.state_comparison import StateTrust
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite
from raftlog.transport.link import PeerLink

T = TypeVar("T")

_OF_STATES = {
    StateTrust.TRUSTED: "the replica's state is what a majority has",
    StateTrust.DIVERGED: "the replica's state differs from the majority's: it neither leads nor "
    "serves reads; restart this node, which replays the log",
    StateTrust.DISPUTED: "the replicas' states differ and none has a majority: new records are "
    "not served; start all nodes",
}

log = structlog.get_logger(__name__)


class LoopEffects:
    """Implements `Effects`. For the loop that runs when it is made."""

    def __init__(
        self, links: Mapping[NodeId, PeerLink], writers: Workers, readers: Workers
    ) -> None:
        """`writers` run writes and jobs, `readers` reads: a sync must not wait behind a read."""
        self._links = links
        self._writers = writers
        self._readers = readers
        self._loop = asyncio.get_running_loop()

    def soon(self, turn: Callable[[], None]) -> None:
        self._loop.call_soon(turn)

    def work_us(self) -> int:
        return time.monotonic_ns() // 1000

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.send(messages)

    def queued_bytes(self, peer: NodeId) -> int:
        link = self._links.get(peer)
        return link.queued_bytes if link is not None else 0

    def run_read(self, read: LogRead, ran: Callable[[], None]) -> None:
        self._readers.run(read.run, lambda _: ran())

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        self._writers.run(write.run, lambda _: ran())

    def run_job(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        self._writers.run(work, done)

    def tell(self, event: MultiRaftEvent) -> None:
        match event:
            case LeadershipChanged(group=group, topic=topic, state=state):
                log.info(
                    "leadership",
                    group=group,
                    topic=topic.name if topic else "(controller)",
                    role=state.role.value,
                    term=state.term,
                    leader=state.leader,
                )
            case GroupOpened(topic=topic):
                log.info("group opened", group=topic.group, topic=topic.name)
            case GroupRemoved(topic=topic):
                log.info("group removed", group=topic.group, topic=topic.name)
            case GroupDeletedElsewhere(group=group, peer=peer):
                log.info("group deleted elsewhere", group=group, peer=peer)
            case TornTailTruncated(file=file, position=position, byte_count=byte_count):
                log.warning(
                    "a torn tail was truncated: it was never acknowledged",
                    file=file,
                    position=position,
                    bytes=byte_count,
                )
            case PeerMessagesRefused(latest=violation, count=count):
                log.error(
                    "a peer breaks the protocol: its message was dropped",
                    peer=violation.peer,
                    cause=violation.cause,
                    remedy=violation.remedy,
                    dropped=count,
                )
            case StateCompared(group=group, topic=topic, trust=trust):
                tell = log.info if trust is StateTrust.TRUSTED else log.error
                tell(
                    _OF_STATES[trust],
                    group=group,
                    topic=topic.name if topic else "(controller)",
                )
            case DiskChanged(full=DiskFull() as full):
                log.error("the disk is full: writes wait or are refused", cause=full.cause)
            case DiskChanged(keeps_up=False):
                log.warning("the disk is slow: others lead where they can")
            case DiskChanged():
                log.info("the disk keeps up")
            case _:
                assert_never(event)
