"""Nodes that come and go, and groups that move: what an operator asks of a cluster.

A plan is made here, from what the controller says is where, and carried out group by group. Nothing
of it is kept by whoever carries it out: what was asked for is done by the groups' leaders in any
case, and the same command, given again, goes on from what is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from raftlog.client.arguments import whole_argument
from raftlog.client.connection import Connection
from raftlog.config import is_address
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.errors import (
    ChangeUnfinished,
    InvalidOption,
    NodeUnknown,
    QuorumAtRisk,
    RaftlogError,
    TooFewNodes,
    TransferRefused,
    Unavailable,
)
from raftlog.machines.commands import AddNode, RetireNode, SetDuty, SetParents
from raftlog.machines.group_info import KV_LABEL
from raftlog.machines.limits import INTEGER_MAX
from raftlog.placement import (
    Held,
    Move,
    balanced,
    load_of,
    replaced,
    replicas_without,
    resized,
    without,
)
from raftlog.wire.calls import (
    ADD_NODE,
    DESCRIBE_CLUSTER,
    DESCRIBE_PLACEMENTS,
    PLACE_GROUP,
    RETIRE_NODE,
    SET_DUTY,
    SET_PARENTS,
    TRANSFER_LEADERSHIP,
    WATCH_GROUPS,
    DescribeCluster,
    NodeView,
    WatchGroups,
)
from raftlog.wire.placing_calls import (
    DescribePlacements,
    GroupPlace,
    NodePlaces,
    PlaceGroupCall,
    PlacementsReply,
    TransferCall,
)

AT_ONCE_DEFAULT = 2
"""Groups that move at the same time. Each sends all its history to the new nodes, at most as fast
as `server.catch_up_bytes_per_s_max` says."""

_LOOK_S = 0.2
"""Seconds between two looks at how far a change is. No setting: a look costs one read."""

T = TypeVar("T")


class Moved(NamedTuple):
    """How far a plan is."""

    move: Move
    """The move that is done now."""
    done: int
    """How many are, with it."""
    total: int
    """How many the plan has."""


class ClusterMembers:
    """The nodes of a client's cluster, and where its groups are."""

    def __init__(self, connection: Connection, *, view_timeout_s: float) -> None:
        """`view_timeout_s`: how long a node may take to say that it is there."""
        self._connection = connection
        self._view_timeout_s = view_timeout_s

    # ------------------------------------------------------------ what there is

    def placements(self) -> PlacementsReply:
        """Look up what is where by a linearizable read.

        Returns:
            Every node, and where every group is and should be.
        """
        return self._connection.call_leader(
            CONTROLLER_GROUP, DESCRIBE_PLACEMENTS, DescribePlacements()
        )

    def lags(self) -> dict[NodeId, int | None]:
        """Ask every observer how far it is behind.

        Returns:
            For each observer, over all groups, how many entries it has not applied of those that
            the groups' leaders know to be committed; None if it does not answer.
        """
        nodes = self.placements().nodes
        seen = {each.node: self._applied(each.address) for each in nodes if each.registered}
        committed: dict[GroupId, int] = {}
        for view in filter(None, seen.values()):
            for group, (_, commit_index) in view.items():
                committed[group] = max(committed.get(group, 0), commit_index)
        found: dict[NodeId, int | None] = {}
        for each in nodes:
            if each.observer:
                own = seen.get(each.node)
                found[each.node] = None if own is None else _behind(own, committed)
        return found

    def _applied(self, address: str) -> dict[GroupId, tuple[int, int]] | None:
        try:
            view = self._groups_view(address)
        except RaftlogError:
            return None
        return {each.group: (each.applied_index, each.commit_index) for each in view.groups}

    def _groups_view(self, address: str) -> NodeView:
        call = WatchGroups(groups=())
        return self._connection.ask(address, WATCH_GROUPS, call, self._view_timeout_s)

    # ------------------------------------------------------------ nodes

    def add(
        self, node: int, address: str, *, observer: bool = False, parents: Sequence[int] = ()
    ) -> bool:
        """Let a node join, which then has to be started (`raftlog serve --join`).

        Args:
            node: An id that no node ever had, from 1.
            address: `host:port`, as the other nodes and clients reach it.
            observer: Let it be an observer, for good: it holds every group, pulls what is committed
                and serves reads; it never votes, leads or slows a write.
            parents: The nodes that an observer pulls from, one of them at a time, at random. They
                may be observers. By default any nodes that are none.

        Returns:
            Whether this changed anything: False if it was added before.

        Raises:
            NodeExists: A node with this id has another address.
            AddressTaken: Another node has the address.
            NodeRemoved: A node with this id was removed; an id is never used again.
            ObserverRefused: A parent is not known, or pulls from this node; or the node was added
                before as something else.
            InvalidOption: The address or the id is none, or a node that is no observer has
                parents.
        """
        if parents and not observer:
            raise InvalidOption(
                option="parents",
                problem="is given for a node that is no observer",
                advice="Leave it out, or add the node as an observer.",
            )
        if not is_address(address):
            raise InvalidOption(
                option="address",
                problem=f"is {address!r}, which is not host:port",
                advice="Give what the other nodes and clients reach, such as 10.0.0.4:7401.",
            )
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        call = AddNode(
            node=NodeId(node), address=address, observer=observer, parents=_rising(parents)
        )
        return not self._connection.call_leader(CONTROLLER_GROUP, ADD_NODE, call).known_before

    def set_parents(self, node: int, parents: Sequence[int]) -> None:
        """Say which nodes an observer pulls from.

        Args:
            node: The observer.
            parents: The nodes; they may be observers. None: any nodes that are no observers.

        Raises:
            ObserverRefused: A parent is not known, or pulls from this node; or it is no observer.
            NodeUnknown: There is no such node.
        """
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        call = SetParents(node=NodeId(node), parents=_rising(parents))
        self._connection.call_leader(CONTROLLER_GROUP, SET_PARENTS, call)

    def drain(self, node: int, *, timeout_s: float) -> None:
        """Say that a node should lead nothing, and wait until it does. It stays so, over restarts.

        Args:
            node: The node.
            timeout_s: How long to wait.

        Raises:
            NodeUnknown: There is no such node.
            ChangeUnfinished: It still leads groups, which nobody else can lead; or it does not
                answer, so that nobody knows.
        """
        self._set_duty(node, draining=True, leaving=self._node(node).leaving)
        last = ""

        def leads_nothing() -> bool | None:
            nonlocal last
            try:
                led = self.led_by(node)
            except Unavailable as error:
                last = error.cause
                return None
            last = f"it leads groups {', '.join(map(str, led))}"
            return None if led else True

        self._wait(leads_nothing, f"Draining node {node}", timeout_s, lambda: last)

    def end_drain(self, node: int) -> None:
        """Say that a node may lead again.

        Args:
            node: The node.

        Raises:
            NodeUnknown: There is no such node.
        """
        self._set_duty(node, draining=False, leaving=self._node(node).leaving)

    def transfer(self, group: int, to: int, *, timeout_s: float) -> None:
        """Let another node lead a group, and see to it that it does. It is tried again until then.

        The node goes on leading until the next election, also where another one is preferred
        (`raft.preferred_leaders`).

        Args:
            group: The group, as `TopicInfo.group` names it; 0 is the controller's.
            to: A node that holds the group.
            timeout_s: How long to try.

        Raises:
            NodeUnknown: The node does not hold the group.
            TransferRefused: It could not be given the role in this time, and why.
            ChangeUnfinished: It was given the role and does not lead.
        """
        whole_argument("group", group)
        whole_argument("to", to, least=1, most=INTEGER_MAX)
        call = TransferCall(group=GroupId(group), to=NodeId(to))
        refused: list[TransferRefused] = []

        def leads() -> bool | None:
            refused.clear()
            try:
                reply = self._connection.call_leader(call.group, TRANSFER_LEADERSHIP, call)
            except TransferRefused as error:
                refused.append(error)
                return None
            return reply.leader == to or None

        def why() -> str:
            if refused:
                raise refused[0]
            return "another node was elected"

        self._wait(leads, f"Making node {to} the leader of group {group}", timeout_s, why)

    def led_by(self, node: int) -> list[GroupId]:
        """Ask a node which groups it leads.

        Args:
            node: The node.

        Returns:
            The groups.

        Raises:
            NodeUnknown: There is no such node.
            NodeUnreachable: It does not answer.
        """
        view = self._groups_view(self._node(node).address)
        return [each.group for each in view.groups if each.leader == node]

    def remove(
        self, node: int, *, at_once: int = AT_ONCE_DEFAULT, timeout_s: float
    ) -> Iterator[Moved]:
        """Move everything off a node, then remove it. Its id is never used again.

        Args:
            node: The node. It may be dead.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.

        Yields:
            Each move that is done.

        Raises:
            TooFewNodes: A group would have more replicas than there are other nodes.
            QuorumAtRisk: Too few of the nodes that would decide answer.
            NodeUnknown: There is no such node.
            ChangeUnfinished: A move took too long; it goes on, and so does this, given again.
        """
        moves = self.plan_removal(node)
        if self._was_removed(node):
            return  # this was given before
        self._check_quorums(moves)
        self._set_duty(node, draining=True, leaving=True)
        yield from self.carry_out(self.plan_removal(node), at_once=at_once, timeout_s=timeout_s)
        self._connection.call_leader(CONTROLLER_GROUP, RETIRE_NODE, RetireNode(node=NodeId(node)))

    def keep(self, node: int, *, timeout_s: float) -> Iterator[Moved]:
        """Take back a removal that has not ended: the node stays, and what is on its way from it
        goes back.

        Args:
            node: The node.
            timeout_s: How long one move may take.

        Yields:
            Each move that is done.

        Raises:
            NodeUnknown: There is no such node.
            ChangeUnfinished: A move took too long; it goes on.
        """
        self._set_duty(node, draining=False, leaving=False)
        back = [
            Move(each.group, each.topic, each.voters, each.former)
            for each in self.placements().groups
            if not each.reached and node in each.former and node not in each.voters
        ]
        yield from self.carry_out(back, at_once=len(back) or 1, timeout_s=timeout_s)

    def replace(
        self, old: int, new: int, *, at_once: int = AT_ONCE_DEFAULT, timeout_s: float
    ) -> Iterator[Moved]:
        """Give every place of a node to one that was added and has come; then remove the former.

        Args:
            old: The node to remove. It may be lost.
            new: The node to take its places.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.

        Yields:
            Each move that is done.

        Raises:
            QuorumAtRisk: Too few of the nodes that would decide answer.
            NodeUnknown: There is no such node.
            ChangeUnfinished: A move took too long; it goes on, and so does this, given again.
        """
        self._node(new)
        moves = self.plan_replacement(old, new)
        if self._was_removed(old):
            return  # this was given before
        self._check_quorums(moves)
        self._set_duty(old, draining=True, leaving=True)
        yield from self.carry_out(
            self.plan_replacement(old, new), at_once=at_once, timeout_s=timeout_s
        )
        self._connection.call_leader(CONTROLLER_GROUP, RETIRE_NODE, RetireNode(node=NodeId(old)))

    def wait_for(self, node: int, timeout_s: float) -> None:
        """Wait until a node that was added has come.

        Args:
            node: The node.
            timeout_s: How long to wait.

        Raises:
            NodeUnknown: Nobody added it.
            ChangeUnfinished: It has not come.
        """
        self._wait(
            lambda: self._node(node).registered or None,
            f"Waiting for node {node}",
            timeout_s,
            lambda: "it was added, and has not been started (`raftlog serve --join`)",
        )

    # ------------------------------------------------------------ plans

    def plan_removal(self, node: int) -> list[Move]:
        """Plan a removal.

        Args:
            node: The node to remove.

        Returns:
            The moves that `remove` would make; none if it was removed before.

        Raises:
            TooFewNodes: A group would have more replicas than there are other nodes.
            NodeUnknown: There is no such node.
        """
        if self._was_removed(node):
            return []
        reply = self.placements()
        nodes = _usable(reply.nodes, but=node)
        groups = _held(reply.groups)
        _check_room([held for held in groups if node in held.voters], nodes)
        return without(NodeId(node), groups, nodes)

    def plan_replacement(self, old: int, new: int) -> list[Move]:
        """Plan a replacement.

        Args:
            old: The node to remove.
            new: The node to take its places.

        Returns:
            The moves that `replace` would make. A group that `new` holds already goes to another
            node.

        Raises:
            InvalidOption: They are the same node.
            TooFewNodes: There is no other node for a group that `new` holds already.
            NodeUnknown: There was never a node `old`.
        """
        if old == new:
            problem, advice = f"is {new}, the node to replace", "Give an id that no node ever had."
            raise InvalidOption(option="--with", problem=problem, advice=advice)
        if self._was_removed(old):
            return []
        reply = self.placements()
        nodes, groups = _usable(reply.nodes, but=old), _held(reply.groups)
        _check_room([held for held in groups if {old, new} <= set(held.voters)], nodes)
        return replaced(NodeId(old), NodeId(new), groups, nodes)

    def plan_rebalance(self) -> list[Move]:
        """Plan moves after which groups are spread evenly over racks and nodes.

        Returns:
            The moves, for `carry_out`; none if groups are spread evenly.
        """
        reply = self.placements()
        return balanced(_held(reply.groups), _usable(reply.nodes))

    def plan_replicas(self, group: GroupId, count: int) -> list[Move]:
        """Plan another number of replicas.

        Args:
            group: The group, as `TopicInfo.group` names it.
            count: How many nodes are to hold it, 1 to 7.

        Returns:
            The move, for `carry_out`; none if it has so many.

        Raises:
            TooFewNodes: There are fewer nodes.
        """
        reply = self.placements()
        nodes, groups = _usable(reply.nodes), _held(reply.groups)
        held = next(each for each in groups if each.group == group)
        if count > len(nodes):
            raise TooFewNodes(what=_name(held), needed=count, found=len(nodes))
        move = resized(held, count, nodes, load_of(groups))
        return [move] if move.before != move.after else []

    def carry_out(
        self, moves: Sequence[Move], *, at_once: int = AT_ONCE_DEFAULT, timeout_s: float
    ) -> Iterator[Moved]:
        """Make moves and wait for each.

        Args:
            moves: The moves of a plan.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.

        Yields:
            Each move that is done.

        Raises:
            QuorumAtRisk: Too few of the nodes that would decide answer.
            PlacementUnderWay: Somebody else moves one of the groups.
            ChangeUnfinished: A move took too long; it goes on.
        """
        self._check_quorums(moves)
        waiting, done = list(moves), 0
        under_way: dict[GroupId, Move] = {}
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                move = waiting.pop(0)
                self._place(move)
                under_way[move.group] = move

            def arrived() -> list[GroupId] | None:
                groups = {each.group: each for each in self.placements().groups}
                there = [g for g in under_way if g not in groups or groups[g].reached]
                return there or None

            what = f"Moving {', '.join(_name(move) for move in under_way.values())}"
            for group in self._wait(arrived, what, timeout_s, lambda: self._silent(under_way)):
                done += 1
                yield Moved(under_way.pop(group), done, len(moves))

    # ------------------------------------------------------------ private

    def _node(self, node: int) -> NodePlaces:
        nodes = self.placements().nodes
        for each in nodes:
            if each.node == node:
                return each
        raise NodeUnknown(node=node, known=", ".join(str(each.node) for each in nodes))

    def _was_removed(self, node: int) -> bool:
        """Is it removed for good? Raises `NodeUnknown` if there never was such a node."""
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        if any(each.node == node for each in self.placements().nodes):
            return False
        # To remove a node that is removed changes nothing, and no other one is unknown.
        self._connection.call_leader(CONTROLLER_GROUP, RETIRE_NODE, RetireNode(node=NodeId(node)))
        return True

    def _set_duty(self, node: int, *, draining: bool, leaving: bool) -> None:
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        call = SetDuty(node=NodeId(node), draining=draining, leaving=leaving)
        self._connection.call_leader(CONTROLLER_GROUP, SET_DUTY, call)

    def _place(self, move: Move) -> None:
        now = next((g for g in self.placements().groups if g.group == move.group), None)
        if now is None or now.voters == move.after:
            return  # its topic was deleted, or somebody asked for the same before
        call = PlaceGroupCall(group=move.group, voters=move.after, generation=now.generation)
        self._connection.call_leader(CONTROLLER_GROUP, PLACE_GROUP, call)

    def _check_quorums(self, moves: Iterable[Move]) -> None:
        """A change is committed by a majority of both sets: those must be there."""
        heard = self._heard()
        for move in moves:
            for voters in (move.before, move.after):
                there = [voter for voter in voters if voter in heard]
                if len(there) * 2 <= len(voters):
                    raise QuorumAtRisk(what=_name(move), voters=_list(voters), heard=_list(there))

    def _heard(self) -> set[NodeId]:
        """The nodes that answer."""
        found = set()
        for node in self.placements().nodes:
            with suppress(RaftlogError):
                self._connection.ask(
                    node.address, DESCRIBE_CLUSTER, DescribeCluster(), self._view_timeout_s
                )
                found.add(node.node)
        return found

    def _silent(self, moves: dict[GroupId, Move]) -> str:
        wanted = {voter for move in moves.values() for voter in move.after}
        silent = wanted - self._heard()
        if silent:
            return f"nodes {_list(sorted(silent))} do not answer"
        return "the new replicas are still being filled; it goes on, look at `raftlog status`"

    def _wait(
        self, look: Callable[[], T | None], what: str, timeout_s: float, last: Callable[[], str]
    ) -> T:
        deadline_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while (found := look()) is None:
            if time.monotonic() >= deadline_s:
                raise ChangeUnfinished(what=what, seconds=f"{timeout_s:g}", last=last())
            pause.wait(_LOOK_S)
        return found


def _usable(nodes: Iterable[NodePlaces], but: int = 0) -> dict[NodeId, str]:
    """The nodes that take replicas, each with its rack."""
    return {
        each.node: each.rack
        for each in nodes
        if each.registered and not each.leaving and not each.observer and each.node != but
    }


def _held(groups: Iterable[GroupPlace]) -> list[Held]:
    return [Held(each.group, each.topic, each.voters) for each in groups]


def _check_room(groups: Iterable[Held], nodes: Mapping[NodeId, str]) -> None:
    for held in groups:
        needed = replicas_without(held, nodes)
        if needed > len(nodes):
            raise TooFewNodes(what=_name(held), needed=needed, found=len(nodes))


def _name(group: Held | Move) -> str:
    if group.group == CONTROLLER_GROUP:
        return "the controller's group"
    return "the key-value store" if group.name == KV_LABEL else f"topic {group.name!r}"


def _behind(own: Mapping[GroupId, tuple[int, int]], committed: Mapping[GroupId, int]) -> int:
    applied = {group: applied_index for group, (applied_index, _) in own.items()}
    return sum(max(0, last - applied.get(group, 0)) for group, last in committed.items())


def _rising(parents: Sequence[int]) -> tuple[NodeId, ...]:
    for each in parents:
        whole_argument("parents", each, least=1, most=INTEGER_MAX)
    return tuple(sorted(map(NodeId, set(parents))))


def _list(nodes: Iterable[NodeId]) -> str:
    return ", ".join(map(str, nodes)) or "none"
