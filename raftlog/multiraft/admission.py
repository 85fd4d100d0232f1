"""Whether a node takes another write now: its bounds in bytes, full disks, compactions behind."""

from __future__ import annotations

from raftlog.core.types import NodeId, Payload
from raftlog.errors import DiskFull, Overloaded
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.full_disks import FullDisks
from raftlog.multiraft.local_replica import LocalReplica


class Admission:
    """For the groups that one node leads. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        disk: NodeDisk,
        full_disks: FullDisks,
        compactions: Compactions,
        request_bytes_max: int,
    ) -> None:
        """Unanswered proposals may carry `request_bytes_max`."""
        self._node = node
        self._disk = disk
        self._full_disks = full_disks
        self._compactions = compactions
        self._request_bytes_max = request_bytes_max
        self._request_bytes = 0

    def took(self, byte_count: int) -> None:
        """A proposal of so many bytes waits for its answer; below 0: it has it."""
        self._request_bytes += byte_count

    def check_room(self, local: LocalReplica, payload: Payload) -> None:
        """Raises `Overloaded` or `DiskFull` if the payload must not be proposed now."""
        limit = self._request_bytes_max
        if self._request_bytes and self._request_bytes + payload.size > limit:
            raise Overloaded(queue="server.request_bytes_max", limit=limit)
        if payload.body:
            self.check_takes_more(local)
        elif (full := self._disk.full(local.group, has_body=False)) is not None:
            raise self.own(full)

    def check_takes_more(self, local: LocalReplica) -> None:
        """Raises `DiskFull` or `Overloaded` if the group, led here, must not be given more now."""
        if (full := self._disk.full(local.group, has_body=True)) is not None:
            raise self.own(full)
        if hindering := self._full_disks.hindering(local.raft.membership):
            nodes = " and of ".join(f"node {node}" for node in hindering)
            raise DiskFull(file="more records", node=nodes)
        if (overload := self._compactions.overload(local)) is not None:
            raise overload

    def own(self, full: DiskFull) -> DiskFull:
        """The error as a client is told it: it names the node."""
        return DiskFull(file=full.file, node=f"node {self._node}")
