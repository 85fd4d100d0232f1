"""The faults, made on a running cluster. Each one is begun, lasts for a while, and is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.disks import ClusterDisks
from raftlog.chaos.faulty_disk import DiskFaults
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.operator import Operator
from raftlog.chaos.proxy import Wire
from raftlog.chaos.schedule import DEEDS, Aim, Fault, Kind
from raftlog.chaos.small_disk import SmallDisk
from raftlog.client.log_client import LogClient
from raftlog.errors import DeadlineExceeded, RaftlogError

_DELAY_MAX_S = 0.4
_THROTTLED_BYTES_PER_S = 100_000.0
_SYNC_DELAY_MAX_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A fault that was begun: the node it hit, a description in words, and how to end it."""

    fault: Fault
    node: int
    text: str
    undo: Callable[[], None]
    may_end_node: bool = False
    """The node may have ended, or must have. Ending the fault starts it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Everything that can be broken. For one thread only."""

    cluster: ProcessCluster
    links: PeerLinks
    disks: ClusterDisks
    small_disk: SmallDisk | None
    client: LogClient
    topics: tuple[str, ...]
    operator: Operator
    wait_healed: Callable[[], None]
    """Returns when all nodes answer and have caught up."""

    def begin(self, fault: Fault, spared: frozenset[int]) -> Broken:
        """Begin the fault, at none of the nodes in `spared`."""
        node = self._choose(fault, spared)
        match fault.kind:
            case Kind.KILL:
                self.cluster.kill(node)
                return self._broken(fault, node, lambda: None, ends=True)
            case Kind.OUTAGE:
                for each in self.cluster.pids:
                    self.cluster.kill(each)
                return self._broken(fault, 0, self._serve_all)
            case Kind.PAUSE:
                self.cluster.pause(node)
                return self._broken(fault, node, lambda: self.cluster.resume(node))
            case Kind.CUT:
                pairs, text = _cut_pairs(fault.draw, node, self._others(node))
                return self._wired(fault, node, pairs, Wire(cut=True), text)
            case Kind.PARTITION:
                return self._wired(fault, node, self._around(node), Wire(cut=True))
            case Kind.DELAY:
                wire = _delayed(fault.draw)
                return self._wired(fault, node, self._around(node), wire, _in_words(wire))
            case Kind.RESET:
                self._reset(node)
                return self._broken(fault, node, lambda: self._reset(node))
            case Kind.SLOW_SYNC:
                delay_s = fault.draw * _SYNC_DELAY_MAX_S
                self.disks.command(node, DiskFaults(sync_delay_s=delay_s))
                return self._broken(
                    fault, node, lambda: self.disks.heal(node), f"by {1000 * delay_s:.0f} ms"
                )
            case Kind.FAILING_SYNC:
                self.disks.command(node, DiskFaults(sync_fails_after=int(20 * fault.draw)))
                return self._broken(fault, node, lambda: self._mend_disk(node), ends=True)
            case Kind.FULL_DISK:
                return self._fill(fault, node)
            case Kind.RESTART:
                self._restart_in_turn()
                return self._broken(fault, 0, lambda: None, "in turn")
            case (
                Kind.ADD | Kind.REMOVE | Kind.REPLACE
                | Kind.REBALANCE | Kind.DRAIN | Kind.TRANSFER
                | Kind.OBSERVE | Kind.UNOBSERVE
            ):  # fmt: skip
                return self._deed(fault, node)
            case _:
                assert_never(fault.kind)

    def end(self, broken: Broken) -> None:
        """Undo the fault, and start the node again if the fault ended it."""
        broken.undo()
        if broken.may_end_node and not self.cluster.runs(broken.node):
            self.cluster.serve(broken.node)

    # ------------------------------------------------------------ which node

    def _choose(self, fault: Fault, spared: frozenset[int]) -> int:
        if fault.kind is Kind.FULL_DISK:
            assert self.small_disk is not None, "the fault is drawn only if it can be made"
            return self.small_disk.node
        nodes = [node for node in sorted(self.cluster.pids) if node not in spared]
        if fault.kind in DEEDS:
            nodes = self._for_deed(fault, nodes)
            if not nodes:
                return 0
        leader, holders = self._replicas(self.topics[int(fault.draw * len(self.topics))])
        if fault.kind is Kind.FAILING_SYNC:  # a node that holds nothing hardly ever syncs
            nodes = [node for node in nodes if node in holders] or nodes
        match fault.aim:
            case Aim.LEADER:
                nodes = [node for node in nodes if node == leader] or nodes
            case Aim.FOLLOWER:
                nodes = [node for node in nodes if node != leader] or nodes
            case Aim.ANY:
                pass
            case _:
                assert_never(fault.aim)
        return nodes[int(fault.draw * len(nodes))]

    def _for_deed(self, fault: Fault, nodes: list[int]) -> list[int]:
        """Those of the nodes to which the operator may do this."""
        observers = [node for node in nodes if node in self.operator.observers]
        voting = [node for node in nodes if node not in self.operator.observers]
        match fault.kind:
            case Kind.UNOBSERVE:
                return observers
            case Kind.OBSERVE:  # on top of another observer half of the times
                return observers if observers and fault.draw * 1000 % 1 < 0.5 else voting
            case Kind.REMOVE | Kind.REPLACE:
                return [node for node in voting if node not in self.operator.kept]
            case _:
                return voting

    def _replicas(self, topic: str) -> tuple[int, frozenset[int]]:
        """The topic's leader, and the nodes that hold it."""
        try:
            mark = self.client.watermark(topic)
        except RaftlogError:
            return 0, frozenset()  # another fault is in progress: then any node is hit
        return mark.leader, frozenset(each.node for each in mark.replicas)

    def _others(self, node: int) -> list[int]:
        return [other for other in sorted(self.cluster.pids) if other != node]

    def _around(self, node: int) -> list[tuple[int, int]]:
        """Both directions between a node and each other one."""
        return [pair for other in self._others(node) for pair in ((node, other), (other, node))]

    # ------------------------------------------------------------ how it is made and undone

    def _broken(
        self,
        fault: Fault,
        node: int,
        undo: Callable[[], None],
        detail: str = "",
        *,
        ends: bool = False,
    ) -> Broken:
        target = f"node {node}" if node else "" if fault.kind in DEEDS else "of all nodes"
        lasts = f"for {fault.seconds:.1f} s" if fault.seconds else ""
        words = (fault.kind.value, target, detail, lasts)
        return Broken(
            fault=fault, node=node, text=" ".join(filter(None, words)), undo=undo, may_end_node=ends
        )

    def _wired(
        self, fault: Fault, node: int, pairs: list[tuple[int, int]], wire: Wire, detail: str = ""
    ) -> Broken:
        for pair in pairs:
            self.links.set(*pair, wire)

        def undo() -> None:
            for pair in pairs:
                self.links.set(*pair, Wire())

        return self._broken(fault, node, undo, detail)

    def _deed(self, fault: Fault, node: int) -> Broken:
        if not self.operator.can(fault.kind):
            return self._broken(fault, 0, lambda: None, "(not done: no number of a node is left)")
        deed = self.operator.begin(fault.kind, node)
        if fault.kind in (Kind.ADD, Kind.REBALANCE):
            node = 0
        if fault.kind is Kind.OBSERVE:
            return self._broken(fault, 0, deed.end, f"from node {node}")
        return self._broken(fault, node, deed.end)

    def _serve_all(self) -> None:
        for node in self.cluster.pids:
            self.cluster.serve(node)

    def _reset(self, node: int) -> None:
        for other in self._others(node):
            self.links.reset(node, other)

    def _mend_disk(self, node: int) -> None:
        """Check that a node whose sync failed has ended: it must not sync again."""
        try:
            wait_for(
                lambda: not self.cluster.runs(node),
                f"node {node} to end after a failed sync",
                PATIENCE_S,
            )
        finally:
            self.disks.heal(node)

    def _fill(self, fault: Fault, node: int) -> Broken:
        disk = self.small_disk
        assert disk is not None
        disk.fill()
        try:
            wait_for(
                disk.is_full,
                f"the disk of node {node} to be full",
                PATIENCE_S,
            )
        except DeadlineExceeded:
            disk.make_room()
            raise
        return self._broken(fault, node, disk.make_room)

    def _restart_in_turn(self) -> None:
        for node in sorted(self.cluster.pids):
            self.cluster.terminate(node)
            self.cluster.serve(node)
            self.wait_healed()


def _cut_pairs(draw: float, node: int, others: list[int]) -> tuple[list[tuple[int, int]], str]:
    """The directions to cut: everything that the node sends, everything it receives, or one."""
    if draw < 0.25:
        return [(node, other) for other in others], "to all"
    if draw < 0.5:
        return [(other, node) for other in others], "from all"
    other = others[int(draw * 1000) % len(others)]
    return [(node, other)], f"to node {other}"


def _delayed(draw: float) -> Wire:
    if draw < 0.3:
        return Wire(bytes_per_s=_THROTTLED_BYTES_PER_S)
    return Wire(delay_s=draw * _DELAY_MAX_S)


def _in_words(wire: Wire) -> str:
    if wire.bytes_per_s is not None:
        return f"to {wire.bytes_per_s / 1000:.0f} kB/s"
    return f"by {1000 * wire.delay_s:.0f} ms"


def dead_nodes(cluster: ProcessCluster) -> Iterator[int]:
    """The nodes whose processes have ended."""
    for node in sorted(cluster.pids):
        if not cluster.runs(node):
            yield node
