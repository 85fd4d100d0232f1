"""What `MultiRaft` asks of its host loop and tells it: all in which server and simulator differ.

An exception in here, or in something that was handed out to be run, ends the node: `MultiRaft` does
not learn of it and must not be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from raftlog.comparison import Trust
from raftlog.core.messages import PeerMessage
from raftlog.core.ready import SoftState
from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.errors import AcknowledgedEntriesLost, DiskFull, LimitReached, PeerProtocolViolation
from raftlog.image.job import CompactionJob, Reply
from raftlog.machines.commands import ReportPlacement, TopicInfo
from raftlog.machines.group_info import CreatedInfo, GroupInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.storage.write import LogWrite

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipChanged:
    """A replica's role, term or leader is another now."""

    group: GroupId
    info: GroupInfo
    state: SoftState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOpened:
    """The controller's log created a group, and its replica is here now."""

    info: CreatedInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved:
    """The controller's log deleted a group, and its files are gone from here."""

    group: GroupId
    info: GroupInfo | None
    """None: it was quarantined, and this node could not tell whose files they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeletedElsewhere:
    """A majority of the controller's voters say that the group is deleted, `peer` the last of
    them: the replica here campaigns no more, and waits."""

    group: GroupId
    peer: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKept:
    """The controller has placed the group elsewhere, and the group's log, as far as the replica
    here has it committed, does not say so: the replica stays."""

    group: GroupId
    info: GroupInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTailTruncated:
    """Opening a log truncated the beginning of an entry at its end.

    A crash left it half written, and then it was never acknowledged; or the file was cut off.
    """

    file: str
    position: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskChanged:
    """The disk keeps up, or is slow or full, or the process has reached a limit: then others lead
    where they can.

    `full` names what finds no room, `limit` what waits for an open file or memory.
    """

    keeps_up: bool
    full: DiskFull | None
    limit: LimitReached | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveUnusable:
    """The node has no reserve for a full disk until it starts again: its file cannot be opened."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMessagesRefused:
    """A peer breaks the protocol, or this node has lost what it acknowledged. Told at once, and
    then now and then while it goes on."""

    latest: PeerProtocolViolation | AcknowledgedEntriesLost
    count: int
    """Messages of this peer that were dropped so, since this process started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCompared:
    """What a replica knows of its own state has changed (`raftlog.comparison`)."""

    group: GroupId
    info: GroupInfo
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompared:
    """What a replica knows of its own history has changed (`raftlog.comparison`). Unless it is
    trusted now, records [start, end) are in doubt."""

    group: GroupId
    info: GroupInfo
    trust: Trust
    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRebuilding:
    """A replica that has diverged fetches an image of `peer`, to go on from there."""

    group: GroupId
    info: GroupInfo
    peer: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRebuilt:
    """A replica that had diverged stands at another node's image, and replays its log from there.
    The history files that it had are kept under another name."""

    group: GroupId
    info: GroupInfo
    index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildsSpent:
    """A replica has diverged again, soon after it was rebuilt: it stays as it is for a while."""

    group: GroupId
    info: GroupInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed:
    """A snapshot point was not compacted. It is tried again; until then the log keeps growing."""

    group: GroupId
    info: GroupInfo
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInstalled:
    """A replica that lacked what its leader's log had dropped stands at another node's image."""

    group: GroupId
    info: GroupInfo
    index: LogIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRefused:
    """What a peer sent for its image is not what its manifest means, is behind what the replica
    has, or has no room here. It is fetched again."""

    group: GroupId
    peer: NodeId
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagePassedOver:
    """Opening a group found damage that something else stands in for: another file, or for a
    header the rest of the log. It is written again."""

    group: GroupId
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuarantined:
    """A group's files are damaged: it has no replica here, and the others of the node go on."""

    group: GroupId
    info: GroupInfo | None
    """None if the file that tells it is what is damaged."""
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFailed:
    """What the settings of a topic keep could not be told, so nothing was removed. It is tried
    again."""

    group: GroupId
    topic: TopicInfo
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDamaged:
    """An entry that a follower needs is damaged here: for a while another node should lead."""

    group: GroupId
    info: GroupInfo
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFound:
    """A scrub, a read or a compaction has met damage in a replica's files. Told once."""

    group: GroupId
    info: GroupInfo
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageHealed:
    """What was damaged is whole again, with bytes that another replica gave."""

    group: GroupId
    info: GroupInfo
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageNotHealable:
    """No other replica could give what is damaged. It stays, and is refused to readers; it is
    tried again now and then. Told once."""

    group: GroupId
    info: GroupInfo
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRefilling:
    """A quarantined replica gets a new folder, and its log again from its peers."""

    group: GroupId
    info: GroupInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRecovered:
    """A replica that had lost its log has all again that it may have acknowledged, and counts. Its
    log ends with entry `index`."""

    group: GroupId
    info: GroupInfo
    index: LogIndex


MultiRaftEvent = (
    LeadershipChanged
    | GroupOpened
    | GroupRemoved
    | GroupDeletedElsewhere
    | GroupKept
    | TornTailTruncated
    | DiskChanged
    | ReserveUnusable
    | PeerMessagesRefused
    | StateCompared
    | HistoryCompared
    | ReplicaRebuilding
    | ReplicaRebuilt
    | RebuildsSpent
    | CompactionFailed
    | ImageInstalled
    | ImageRefused
    | DamagePassedOver
    | GroupQuarantined
    | RetentionFailed
    | GroupRefilling
    | ReplicaRecovered
    | EntryDamaged
    | DamageFound
    | DamageHealed
    | DamageNotHealable
)
"""What is worth telling people. Nothing depends on whether there is a listener."""


class BackgroundRead(Protocol):
    """A read of files that any thread may do."""

    def run(self) -> None:
        """Read, once; what is damaged or gone is kept for the one who asked."""


class Effects(Protocol):
    """Done by the host loop. Callbacks come on `MultiRaft`'s thread, never within the call."""

    def soon(self, turn: Callable[[], None]) -> None:
        """Call `turn` once what has come in already was handed over."""

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        """Call `turn` after so many microseconds of `monotonic_us`, or somewhat later."""

    def work_us(self) -> int:
        """A monotonic clock in microseconds, by which the work of a turn is measured."""

    def monotonic_us(self) -> int:
        """A clock in microseconds that runs evenly and is never set."""

    def boottime_us(self) -> int:
        """As `monotonic_us`, but it counts the time as well for which the machine was suspended:
        leases go by it."""

    def clock_us(self) -> int:
        """The wall clock: microseconds since 1970 UTC. It may jump."""

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Let the messages leave, in this order; they may be lost."""

    def queued_bytes(self, peer: NodeId) -> int:
        """Bytes of entries and images that were given to `send` and have not left yet."""

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        """These are the cluster's nodes from now on, by id their addresses: there must be a way to
        each, and none to any other."""

    def report(self, report: ReportPlacement) -> None:
        """Tell the controller's leader, if it can be reached; a report may be lost."""

    def read_positions(self, done: Callable[[Sequence[KeyValue] | None], None]) -> None:
        """Read the positions of all reader groups, as of now or later, then call `done` with their
        keys; None: they could not be read. `MultiRaft` asks for them once at a time.

        `done` is not called if the process ends meanwhile.
        """

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        """Run the read, on any thread, then call `ran`."""

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        """Run the write, on any thread, then call `ran`: it is done, or found no room."""

    def run_job(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work`, which blocks on the disk, on any thread; then call `done` with its value.

        `MultiRaft` asks for one job at a time.
        """

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        """Do the job anywhere, then call `done` with the reply.

        `MultiRaft` asks for one at a time.
        """

    def abandon_compaction(self) -> None:
        """The compaction in flight may end early: its group is gone. `done` is still called."""

    def tell(self, event: MultiRaftEvent) -> None:
        """Something worth telling has happened."""
