"""What an operator does to a cluster while faults happen: nodes come, go and take others' places.

A command that fails, because too few nodes can be reached or another client moves a group, is given
again, as the documents tell an operator to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.chaos.schedule import ADDING, Kind
from raftlog.client.log_client import LogClient
from raftlog.core.types import CONTROLLER_GROUP, GroupId
from raftlog.errors import DeadlineExceeded, NodeUnknown, RaftlogError

IDS_MAX = 30
"""Numbers of nodes, each of which is used once. All pairs of them have wires that can be cut."""
_VOTING_MIN = 3
_PATIENCE_S = 180.0
"""How long a command is given again."""
_ONE_TRY_S = 60.0
_AGAIN_S = 0.5


class Deed:
    """A command that is carried out while other things happen."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._failure: RaftlogError | None = None

        def run() -> None:
            try:
                work()
            except RaftlogError as error:
                self._failure = error

        self._thread = threading.Thread(target=run, name="operator", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait until it is done. Raises why it failed."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure


@dataclass(slots=True, kw_only=True)
class Operator:
    """One operator, who does one thing at a time."""

    cluster: ProcessCluster
    client: LogClient
    nodes: MutableMapping[int, str]
    """Where each node listens; nodes that come and go are noted here."""
    kept: frozenset[int]
    """Nodes that stay: clients that start later know these."""
    observers: set[int] = field(default_factory=set)
    """The nodes that are observers."""
    _next_id: int = field(init=False)

    def __post_init__(self) -> None:
        self._next_id = max(self.cluster.pids) + 1

    def can(self, kind: Kind) -> bool:
        """Are there numbers for the nodes that such a deed may add?"""
        return kind not in ADDING or self._next_id < IDS_MAX

    def begin(self, kind: Kind, node: int) -> Deed:
        """Begin a deed; `node` is its target, if that is a node. That is the parent
        of an observer that joins; 0 for one that leaves: there is none yet."""
        match kind:
            case Kind.ADD:
                return Deed(self._add)
            case Kind.REMOVE:
                return Deed(lambda: self._remove(node))
            case Kind.REPLACE:
                self.cluster.kill(node)
                self._forget(node)
                return Deed(lambda: self._replace(node))
            case Kind.REBALANCE:
                return Deed(lambda: _again(self._rebalance))
            case Kind.DRAIN:
                return Deed(lambda: self._drain(node))
            case Kind.TRANSFER:
                return Deed(lambda: self._transfer(node))
            case Kind.OBSERVE:
                return Deed(lambda: self._observe([node]))
            case Kind.UNOBSERVE:
                return Deed(lambda: self._leave(node or self._observe([])))
            case _:
                raise AssertionError(f"{kind} is no deed of an operator")

    def settled(self) -> bool:
        """Is every group where it is wished to be?"""
        try:
            return all(each.reached for each in self.client.members.placements().groups)
        except RaftlogError:
            return False

    # ------------------------------------------------------------ deeds

    def _add(self) -> int:
        return self._come(self.client.members.add)

    def _observe(self, parents: Sequence[int]) -> int:
        def add(node: int, address: str) -> None:
            self.client.members.add(node, address, observer=True, parents=parents)
            self.observers.add(node)

        return self._come(add)

    def _come(self, add: Callable[[int, str], object]) -> int:
        """Let a node join under a new number; returns that."""
        node, self._next_id = self._next_id, self._next_id + 1
        address = self.cluster.address(node)

        def join() -> None:
            add(node, address)
            self.cluster.join(node, self.client, _ONE_TRY_S)

        _again(join)
        self.nodes[node] = address
        return node

    def _remove(self, node: int) -> None:
        if len(self.nodes) - len(self.observers) <= _VOTING_MIN:
            self._add()
        self._leave(node)

    def _leave(self, node: int) -> None:
        def remove() -> None:
            with suppress(NodeUnknown):  # it was removed by the try before
                list(self.client.members.remove(node, timeout_s=_ONE_TRY_S))

        _again(remove)
        wait_for(lambda: not self.cluster.runs(node), f"removed node {node} to end", _ONE_TRY_S)
        self._forget(node)

    def _replace(self, lost: int) -> None:
        node = self._add()

        def replace() -> None:
            with suppress(NodeUnknown):
                list(self.client.members.replace(lost, node, timeout_s=_ONE_TRY_S))

        _again(replace)

    def _rebalance(self) -> None:
        moves = self.client.members.plan_rebalance()
        list(self.client.members.carry_out(moves, timeout_s=_ONE_TRY_S))

    def _drain(self, node: int) -> None:
        _again(lambda: self.client.members.drain(node, timeout_s=_ONE_TRY_S))
        _again(lambda: self.client.members.end_drain(node))

    def _transfer(self, node: int) -> None:
        for held in self.client.members.placements().groups:
            if held.group != CONTROLLER_GROUP and node in held.voters:
                _again(partial(self._lead, node, held.group))

    def _lead(self, node: int, group: GroupId) -> None:
        self.client.members.transfer(group, node, timeout_s=_ONE_TRY_S)

    def _forget(self, node: int) -> None:
        self.cluster.forget(node)
        self.nodes.pop(node)
        self.observers.discard(node)


def _again(command: Callable[[], None]) -> None:
    """Give the command until it is done. Raises why it failed the last time."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            command()
            return
        except RaftlogError as error:
            if time.monotonic() >= end_s:
                raise DeadlineExceeded(
                    what="A command of the operator", seconds=f"{_PATIENCE_S:g}", last=error.cause
                ) from error
        # This event is never set: another process cannot notify us, so this only waits.
        threading.Event().wait(_AGAIN_S)
