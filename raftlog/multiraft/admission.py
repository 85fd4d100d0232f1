"""May a leader here be given more to write? What clients have asked for, and the disks, decide."""

from __future__ import annotations

from dataclasses import replace

from raftlog.core.types import NodeId, Payload
from raftlog.errors import DiskFull, Overloaded, ResourceShortage
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.full_disks import FullDisks
from raftlog.multiraft.local_replica import LocalReplica


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

    def check(
        self, local: LocalReplica, payload: Payload, *, grows: bool, needs_room: bool
    ) -> None:
        """Raises `ResourceShortage` or `Overloaded` if this must not be proposed now. `grows`: it
        adds to what the group holds, also without a body. `needs_room`: it may not use the reserve
        of a full disk, as nothing with a body may."""
        if self._bytes and self._bytes + payload.size > self._bytes_max:
            raise Overloaded(queue="server.request_bytes_max", limit=self._bytes_max)
        if payload.body or needs_room:
            self._check_room(local)
        elif (full := self._disk.full(local.group, has_body=False)) is not None:
            raise self.own(full)
        if payload.body or grows:
            self._check_backlog(local)

    def check_takes_more(self, local: LocalReplica) -> None:
        """Raises `ResourceShortage` or `Overloaded` if the group, led here, must not be given more
        now."""
        self._check_room(local)
        self._check_backlog(local)

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
        """The error as a client is told it: it names the node."""
        return replace(short, node=f"node {self._node}")
