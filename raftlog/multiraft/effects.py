"""What `MultiRaft` asks of its host loop and tells it: all in which server and simulator differ.

An exception in here, or in something that was handed out to be run, ends the node: `MultiRaft` is
not told of it and must not be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from raftlog.core.messages import PeerMessage
from raftlog.core.ready import SoftState
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import DiskFull, PeerProtocolViolation
from raftlog.machines.commands import TopicInfo
from raftlog.state_comparison import StateTrust
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipChanged:
    """A replica's role, term or leader is another now; `topic` is None for the controller."""

    group: GroupId
    topic: TopicInfo | None
    state: SoftState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOpened:
    """The controller's log created a topic, and its replica is here now."""

    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved:
    """The controller's log deleted a topic, and its files are gone from here."""

    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeletedElsewhere:
    """A peer says that the group is deleted: the replica here campaigns no more, and waits."""

    group: GroupId
    peer: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTailTruncated:
    """Opening a log truncated what a crash had left half written; it was never acknowledged."""

    file: str
    position: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskChanged:
    """The disk keeps up, or is slow or full: then others lead where they can.

    `full` names what finds no room.
    """

    keeps_up: bool
    full: DiskFull | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMessagesRefused:
    """A peer breaks the protocol. Told at once, and then now and then while it goes on."""

    latest: PeerProtocolViolation
    count: int
    """Messages of this peer that were dropped so, since this process started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCompared:
    """What a replica knows of its own state has changed (`raftlog.state_comparison`)."""

    group: GroupId
    topic: TopicInfo | None
    trust: StateTrust


MultiRaftEvent = (
    LeadershipChanged
    | GroupOpened
    | GroupRemoved
    | GroupDeletedElsewhere
    | TornTailTruncated
    | DiskChanged
    | PeerMessagesRefused
    | StateCompared
)
"""What is worth telling people. Nothing depends on whether anybody listens."""


class Effects(Protocol):
    """Done by the host loop. Callbacks come on `MultiRaft`'s thread, never within the call."""

    def soon(self, turn: Callable[[], None]) -> None:
        """Call `turn` once what has come in already was handed over."""

    def work_us(self) -> int:
        """A monotonic clock in microseconds, by which the work of a turn is measured."""

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Let the messages leave, in this order; they may be lost."""

    def queued_bytes(self, peer: NodeId) -> int:
        """Bytes of append requests that were given to `send` and have not left yet."""

    def run_read(self, read: LogRead, ran: Callable[[], None]) -> None:
        """Run the read, on any thread, then call `ran`."""

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        """Run the write, on any thread, then call `ran`: it is done, or found no room."""

    def run_job(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work`, which blocks on the disk, on any thread; then call `done` with its value.

        `MultiRaft` asks for one job at a time.
        """

    def tell(self, event: MultiRaftEvent) -> None:
        """Something worth telling has happened."""
