"""Moves of groups: asked of the controller, and waited for.

Several commands may move groups at the same time. A group has one change at a time, so each of them
begins with what it can, waits while another moves the rest, and looks again what is left to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from raftlog.client.arguments import seconds_argument
from raftlog.client.connection import Connection
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.errors import (
    ChangeUnfinished,
    NodeInUse,
    NodeUnknown,
    PlacementOutdated,
    PlacementUnderWay,
    QuorumAtRisk,
    RaftlogError,
)
from raftlog.machines.group_info import KV_LABEL
from raftlog.placement import Held, Move
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    DESCRIBE_PLACEMENTS,
    PLACE_GROUP,
    ClusterDescription,
    DescribeCluster,
)
from raftlog.wire.placing_calls import (
    DescribePlacements,
    GroupPlace,
    NodePlaces,
    PlaceGroupCall,
    PlacementsReply,
)

_LOOK_S = 0.2
"""Seconds between two looks at how far a change is. No setting: a look costs one read."""

_SILENT_S = 4.0
"""Seconds between two looks at who answers while nothing arrives. No setting: it is for people."""

T = TypeVar("T")


class Moved(NamedTuple):
    """How far a plan is."""

    move: Move
    """The move that is done now."""
    done: int
    """How many are, with it."""
    total: int
    """How many the plan has."""


class Progress:
    """Tells what a command waits for, whenever that is something else."""

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self._tell = tell
        self._told = ""

    def waits(self, text: str) -> None:
        """It waits for this now."""
        if self._tell is not None and text != self._told:
            self._told = text
            self._tell(text)


class _Obstacles:
    """Tells what is wrong with the nodes that moves wait for."""

    def __init__(self, moves: GroupMoves, progress: Progress) -> None:
        self._moves = moves
        self._progress = progress
        self._since_s = time.monotonic()
        self._told = ""

    def arrived(self) -> None:
        """A move is done."""
        self._since_s = time.monotonic()

    def look(self, under_way: Iterable[Move]) -> None:
        """These wait."""
        if time.monotonic() < self._since_s + _SILENT_S:
            return
        found = self._moves.obstacles_of(under_way)
        if found and found != self._told:
            self._progress.waits(f"{found}: moves there wait")
        self._told, self._since_s = found, time.monotonic()


class GroupMoves:
    """Moves groups of a client's cluster."""

    def __init__(self, connection: Connection, *, view_timeout_s: float) -> None:
        """`view_timeout_s`: how long a node may take to say that it is there."""
        self._connection = connection
        self._view_timeout_s = view_timeout_s

    def placements(self) -> PlacementsReply:
        """What is where, by a linearizable read."""
        return self._connection.call_leader(
            CONTROLLER_GROUP, DESCRIBE_PLACEMENTS, DescribePlacements()
        )

    def carry_out(
        self, moves: Sequence[Move], *, at_once: int, timeout_s: float, progress: Progress
    ) -> Iterator[Moved]:
        """Make these moves and wait for each. Raises `PlacementUnderWay` or `PlacementOutdated`
        where another client moves one of the groups, `QuorumAtRisk`, `ChangeUnfinished`."""
        self.check_quorums(moves)
        waiting, done = list(moves), 0
        under_way: dict[GroupId, Move] = {}
        obstacles = _Obstacles(self, progress)
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                move = waiting.pop(0)
                places = {each.group: each for each in self.placements().groups}
                # Its topic may be deleted, or the same was asked for before.
                if move.group in places and places[move.group].voters != move.after:
                    self._place(move, places[move.group])
                under_way[move.group] = move

            def arrived() -> list[GroupId] | None:
                obstacles.look(under_way.values())
                return _arrived(under_way, self.placements()) or None

            what = f"Moving {_names(under_way.values())}"
            found = self.wait(arrived, what, timeout_s, lambda: self._waits_for(under_way.values()))
            obstacles.arrived()
            for group in found:
                done += 1
                yield Moved(under_way.pop(group), done, len(moves))

    def clear(
        self,
        node: NodeId,
        plan: Callable[[PlacementsReply], Sequence[Move]],
        *,
        checked: Iterable[Move],
        at_once: int,
        timeout_s: float,
        progress: Progress,
    ) -> Iterator[Moved]:
        """Make the moves that `plan` finds in what is where now, until it finds none and nothing is
        on the node, which leaves. Where another client moves a group, wait until that is done, and
        look again. The quorums of the moves `checked` are known to be there.

        Raises `QuorumAtRisk`, `ChangeUnfinished` when nothing changes for `timeout_s`, and
        `NodeInUse` if the node is told to stay.
        """
        seconds_argument("timeout_s", timeout_s)
        done = 0
        under_way: dict[GroupId, Move] = {}
        safe = {(move.before, move.after) for move in checked}
        seen, since_s = None, time.monotonic()
        pause, obstacles = threading.Event(), _Obstacles(self, progress)
        while True:
            reply = self.placements()
            if any(each.node == node and not each.leaving for each in reply.nodes):
                raise NodeInUse(node=node, what="it was told to stay (`--undo`)")
            waiting = [move for move in plan(reply) if move.group not in under_way]
            for group in _arrived(under_way, reply):
                done += 1
                yield Moved(under_way.pop(group), done, done + len(under_way) + len(waiting))
            others = _moved_by_others(node, reply, under_way)
            if not waiting and not under_way and not others:
                return
            if reply.groups != seen:
                seen, since_s = reply.groups, time.monotonic()
                obstacles.arrived()
            obstacles.look([*under_way.values(), *others])
            if time.monotonic() >= since_s + timeout_s:
                raise self._unfinished([*under_way.values(), *others] or waiting, timeout_s)
            places = {each.group: each for each in reply.groups}
            free = [move for move in waiting if _may_begin(move, places[move.group])]
            begun = free[: max(0, at_once - len(under_way))]
            if not under_way and not begun:
                progress.waits(f"what moves already is waited for: {_names(others)}")
            self.check_quorums([each for each in begun if (each.before, each.after) not in safe])
            safe.update((each.before, each.after) for each in begun)
            for move in begun:
                # The next look tells the rest. A node that was to take a replica may leave.
                with suppress(PlacementUnderWay, PlacementOutdated, NodeUnknown):
                    self._place(move, places[move.group])
                    under_way[move.group] = move
            pause.wait(_LOOK_S)

    def _place(self, move: Move, now: GroupPlace) -> None:
        """Ask for the move of a group that is where the plan found it."""
        if now.voters != move.before:
            raise PlacementOutdated(group=move.group, generation=now.generation)
        call = PlaceGroupCall(group=move.group, voters=move.after, generation=now.generation)
        self._connection.call_leader(CONTROLLER_GROUP, PLACE_GROUP, call)

    def check_quorums(self, moves: Iterable[Move]) -> None:
        """A change is committed by a majority of both sets: those must be there."""
        moves = list(moves)
        heard = self.heard() if moves else set()
        for move in moves:
            for voters in (move.before, move.after):
                there = [voter for voter in voters if voter in heard]
                if len(there) * 2 <= len(voters):
                    raise QuorumAtRisk(
                        what=name_of(move), voters=listed(voters), heard=listed(there)
                    )

    def heard(self) -> set[NodeId]:
        """The nodes that answer."""
        # Another one may listen at a node's address.
        return {each.node for each in self.placements().nodes if self.at(each.address) == each.node}

    def at(self, address: str) -> NodeId | None:
        """The node of this cluster that answers at an address, if one does."""
        described = self._described(address)
        return described.node if described is not None else None

    def _described(self, address: str) -> ClusterDescription | None:
        """What a node of this cluster answers at an address, if one does."""
        call = DescribeCluster()
        with suppress(RaftlogError):
            return self._connection.ask(address, DESCRIBE_CLUSTER, call, self._view_timeout_s)
        return None

    def wait_for(self, node: int, look: Callable[[], NodePlaces], timeout_s: float) -> None:
        """Wait until the node, which `look` finds, has come and answers. Raises
        `ChangeUnfinished`."""

        def answers() -> bool | None:
            its = look()
            # One that has just come may still count as gone: grpc remembers a refused connection.
            return (its.registered and self.at(its.address) == its.node) or None

        def state() -> str:
            its = look()
            if its.registered:
                return f"it was started, and does not answer at {its.address}"
            return "it was added, and has not been started (`raftlog serve --join`)"

        self.wait(answers, f"Waiting for node {node}", timeout_s, state)

    def _unfinished(self, moves: Sequence[Move], timeout_s: float) -> ChangeUnfinished:
        what, last = f"Moving {_names(moves)}", self._waits_for(moves)
        return ChangeUnfinished(what=what, seconds=f"{timeout_s:g}", last=last)

    def _waits_for(self, moves: Iterable[Move]) -> str:
        filling = "the new replicas are still being filled; it goes on, look at `raftlog status`"
        return self.obstacles_of(moves) or filling

    def obstacles_of(self, moves: Iterable[Move]) -> str:
        """Which nodes that the moves go to do not answer, or have a full disk; "": none."""
        wanted = {voter for move in moves for voter in move.after}
        silent, found = [], []
        for each in self.placements().nodes if wanted else ():
            if each.node in wanted:
                described = self._described(each.address)
                # Another one may listen at a node's address.
                if described is None or described.node != each.node:
                    silent.append(each.node)
                elif described.disk_full:
                    found.append(f"the disk of node {each.node} is full")
        return ", and ".join([do_not_answer(silent), *found] if silent else found)

    def wait(
        self, look: Callable[[], T | None], what: str, timeout_s: float, last: Callable[[], str]
    ) -> T:
        """What `look` finds. Raises `ChangeUnfinished` with `last` when the time is over."""
        seconds_argument("timeout_s", timeout_s)
        deadline_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while (found := look()) is None:
            if time.monotonic() >= deadline_s:
                raise ChangeUnfinished(what=what, seconds=f"{timeout_s:g}", last=last())
            pause.wait(_LOOK_S)
        return found


def _arrived(moves: Iterable[GroupId], reply: PlacementsReply) -> list[GroupId]:
    """Those of the groups that are where they should be, or whose topics are deleted."""
    places = {each.group: each for each in reply.groups}
    return [group for group in moves if group not in places or places[group].reached]


def _may_begin(move: Move, now: GroupPlace) -> bool:
    """One change of a group at a time; another can only take it back."""
    return now.reached or move.after == now.former


def _moved_by_others(node: NodeId, reply: PlacementsReply, own: dict[GroupId, Move]) -> list[Move]:
    """What is on its way to or from the node, and was not asked for here. Of what goes back, its
    former target is not known any more: it may have been the node."""
    return [
        Move(each.group, each.topic, each.former, each.voters)
        for each in reply.groups
        if not each.reached
        and each.group not in own
        and (node in each.former + each.voters or each.voters == each.former)
    ]


def name_of(group: Held | Move) -> str:
    """What people are told the group is."""
    if group.group == CONTROLLER_GROUP:
        return "the controller's group"
    return "the key-value store" if group.name == KV_LABEL else f"topic {group.name!r}"


def do_not_answer(nodes: Sequence[NodeId]) -> str:
    """Says so of these nodes, one or more."""
    one = len(nodes) == 1
    return f"node{'' if one else 's'} {listed(nodes)} do{'es' if one else ''} not answer"


def listed(nodes: Iterable[NodeId]) -> str:
    """The nodes for people."""
    return ", ".join(map(str, nodes)) or "none"


def _names(moves: Iterable[Move]) -> str:
    return ", ".join(map(name_of, moves))
