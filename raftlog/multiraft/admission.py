"""May a leader here be given more to write? What clients have asked for, and the disks, decide."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from raftlog.core.types import GroupId, NodeId, Payload
from raftlog.errors import DiskFull, Overloaded, ResourceShortage
from raftlog.machines.commands import GROWING, MAKES_ROOM, NEEDS_ROOM, Command, RegisterNode
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.full_disks import FullDisks
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.frames import FRAME_HEADER_BYTES

ROOM_MADE_BYTES_MAX = 64 * 1024
"""What clients may write into one group to make room, for each time that the disk is full: those
without every right, and as much those that have every right. No setting: hundreds of trims fit, and
callers that repeat them cannot use up the reserve."""

ROOM_MADE_SHARE_BYTES = 16 * 1024
"""What one principal without every right, or one node that registers, may write of it. In all
groups together it has as much as a job may write on a full disk (`NodeDisk.spare_bytes`)."""

_ALL_SHARES = "*"


class RoomUse(NamedTuple):
    """What a command means for a disk that is full, or for a backlog."""

    grows: bool = False
    """It adds to what the group holds, also without a body."""
    needs_room: bool = False
    """It may not use the reserve of a full disk, as nothing with a body may."""
    makes_room: bool = False
    """A client asks for it and it lets something go, or a node registers, which may be needed to
    serve that: it may use a little of the reserve."""
    share: str = ""
    """The principal or node that asks for it; "": it has every right, or is not asked who it is."""

    @classmethod
    def of(cls, command: Command, share: str = "") -> RoomUse:
        """What the command means for them."""
        return cls(
            grows=isinstance(command, GROWING),
            needs_room=isinstance(command, NEEDS_ROOM),
            makes_room=isinstance(command, (*MAKES_ROOM, RegisterNode)),
            share=share,
        )


OF_THE_CLUSTER = RoomUse()
"""Of what nodes and administrators propose."""


class Admission:
    """Counts the bytes of unanswered proposals at node `node`. One thread's own."""

    def __init__(
        self, node: NodeId, disk: NodeDisk, compactions: Compactions, *, bytes_max: int
    ) -> None:
        """`bytes_max` is what all unanswered proposals may carry."""
        self._node = node
        self._disk = disk
        self.full_disks = FullDisks()
        """The other nodes that have reported a full disk."""
        self._compactions = compactions
        self._bytes_max = bytes_max
        self._bytes = 0
        self._room_made: Counter[tuple[GroupId | None, str]] = Counter()
        """The bytes of what was to make room, by group (None: all) and share, while the disk is
        full for the `_times_full`-th time."""
        self._times_full = 0

    @property
    def used(self) -> float:
        """The share of the bytes that may wait for an answer: from 0 to 1, or more for one."""
        return self._bytes / self._bytes_max

    def took(self, payload: Payload) -> None:
        """It is proposed, and not answered yet."""
        self._bytes += payload.size

    def answered(self, payload: Payload) -> None:
        """Its proposal was answered."""
        self._bytes -= payload.size

    def check(self, local: LocalReplica, payload: Payload, use: RoomUse) -> None:
        """Raises `ResourceShortage` or `Overloaded` if this must not be proposed now."""
        if self._bytes and self._bytes + payload.size > self._bytes_max:
            raise Overloaded(queue="server.request_bytes_max", limit=self._bytes_max)
        if payload.body or use.needs_room:
            self._check_room(local)
        elif (full := self._disk.full(local.group, has_body=False)) is not None:
            raise self.own(full)
        elif use.makes_room:
            self._check_reserve(local, payload, use.share)
        if payload.body or use.grows:
            self._check_backlog(local)

    def check_takes_more(self, local: LocalReplica) -> None:
        """Raises `ResourceShortage` or `Overloaded` if the group, led here, must not be given more
        now."""
        self._check_room(local)
        self._check_backlog(local)

    def _check_reserve(self, local: LocalReplica, payload: Payload, share: str) -> None:
        if (full := self._disk.full(local.group, has_body=True)) is None:
            return
        if self._times_full != self._disk.times_full:
            self._times_full = self._disk.times_full
            self._room_made.clear()
        taken = FRAME_HEADER_BYTES + payload.size
        bounds: dict[tuple[GroupId | None, str], int] = {
            (local.group, _ALL_SHARES if share else ""): ROOM_MADE_BYTES_MAX
        }
        if share:
            bounds[local.group, share] = ROOM_MADE_SHARE_BYTES
            if spare_bytes := self._disk.spare_bytes:
                bounds[None, share] = spare_bytes
        if any(self._room_made[each] + taken > most for each, most in bounds.items()):
            raise self.own(full)
        self._room_made.update(dict.fromkeys(bounds, taken))

    def _check_room(self, local: LocalReplica) -> None:
        if (full := self._disk.full(local.group, has_body=True)) is not None:
            raise self.own(full)
        if hindering := self.full_disks.hindering(local.raft.membership):
            nodes = " and of ".join(f"node {node}" for node in hindering)
            raise DiskFull(file="more records", node=nodes)

    def _check_backlog(self, local: LocalReplica) -> None:
        if (overload := self._compactions.overload(local)) is not None:
            raise overload

    def own(self, short: ResourceShortage) -> ResourceShortage:
        """The error as a client is told it: it names the node, and no file, whose path has the
        number of a group that the client may not know of."""
        return replace(short, node=f"node {self._node}", file="a write")
