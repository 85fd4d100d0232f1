"""Nodes that come and go, and groups that move: what an operator asks of a cluster.

A plan is made here, from what the controller says is where, and carried out group by group. Nothing
of it is kept here: what was asked for is done by the groups' leaders in any
case, and the same command, given again, goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from raftlog.client import plans
from raftlog.client.arguments import (
    address_argument,
    nodes_argument,
    whole_argument,
)
from raftlog.client.connection import Connection
from raftlog.client.group_moves import GroupMoves, Moved, Progress, do_not_answer
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.errors import (
    AddressTaken,
    InvalidOption,
    NodeRemoved,
    NodeUnknown,
    RaftlogError,
    TransferRefused,
    Unavailable,
)
from raftlog.machines.commands import AddNode, RetireNode, SetDuty, SetParents
from raftlog.machines.limits import INTEGER_MAX, NODE_MAX, REPLICAS_MAX
from raftlog.placement import Move
from raftlog.wire.calls import (
    ADD_NODE,
    RETIRE_NODE,
    SET_DUTY,
    SET_PARENTS,
    TRANSFER_LEADERSHIP,
    WATCH_GROUPS,
    NodeView,
    WatchGroups,
)
from raftlog.wire.placing_calls import (
    NodePlaces,
    PlacementsReply,
    TransferCall,
    not_started,
    takes_replicas,
)

AT_ONCE_DEFAULT = 2
"""Groups that move at the same time. Each sends all its history to the new nodes, at most as fast
as `server.catch_up_bytes_per_s_max` says."""

Applied = Mapping[GroupId, tuple[int, int]]
"""How far a node has applied each group, and how far it knows it to be committed."""


class ClusterMembers:
    """The nodes of a client's cluster, and where its groups are."""

    def __init__(self, connection: Connection, *, view_timeout_s: float) -> None:
        """`view_timeout_s`: how long a node may take to say that it is there."""
        self._connection = connection
        self._view_timeout_s = view_timeout_s
        self._moves = GroupMoves(connection, view_timeout_s=view_timeout_s)

    # ------------------------------------------------------------ what there is

    def placements(self) -> PlacementsReply:
        """Look up what is where by a linearizable read.

        Returns:
            Every node, and where every group is and should be.
        """
        return self._moves.placements()

    def lags(self) -> dict[NodeId, int | None]:
        """Ask every observer how far it is behind.

        Returns:
            For each observer, over all groups, how many entries it has not applied of those that
            the groups' leaders know to be committed; None if it does not answer.
        """
        nodes = self.placements().nodes
        seen = {each.node: self._applied(each.address) for each in nodes if each.registered}
        committed = _committed(seen.values())
        found: dict[NodeId, int | None] = {}
        for each in nodes:
            if each.observer:
                own = seen.get(each.node)
                found[each.node] = None if own is None else _behind(own, committed)
        return found

    def answering(self) -> set[NodeId]:
        """Ask every node whether it is there.

        Returns:
            Those that answer.
        """
        return self._moves.heard()

    def _applied(self, address: str) -> Applied | None:
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
        address_argument(address)
        whole_argument("node", node, least=1, most=NODE_MAX)
        call = AddNode(
            node=NodeId(node),
            address=address,
            observer=observer,
            parents=nodes_argument("parents", parents),
        )
        there = self._moves.at(address)  # an address may have several names
        if there in {each.node for each in self.placements().nodes} - {NodeId(node)}:
            raise AddressTaken(address=address, node=there)
        return not self._connection.call_leader(CONTROLLER_GROUP, ADD_NODE, call).known_before

    def add_replacement(self, old: int, new: int, address: str) -> bool:
        """Let a node join that is to take another's place: an observer of the same nodes, if the
        other is one. Then start it, `wait_for` it and `replace` the other.

        Args:
            old: The node whose place it is to take. It may be lost.
            new: An id that no node ever had.
            address: As for `add`.

        Returns:
            Whether this changed anything: False if it was added before.

        Raises:
            NodeRemoved: The other was removed already, and this one was never added.
            InvalidOption: It was added before as an observer and the other is none, or the other
                way round; or an argument is no node or address.
            NodeExists: As for `add`; likewise the rest.
        """
        nodes = {each.node: each for each in self._kinds(old, new)}
        if NodeId(new) in nodes:
            address_argument(address)
            if nodes[NodeId(new)].address == address:
                return False
        elif NodeId(old) not in nodes:
            raise NodeRemoved(node=old)
        its = nodes.get(NodeId(old))
        observer = its is not None and its.observer
        return self.add(
            new, address, observer=observer, parents=its.parents if its and observer else ()
        )

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
        call = SetParents(node=NodeId(node), parents=nodes_argument("parents", parents))
        self._connection.call_leader(CONTROLLER_GROUP, SET_PARENTS, call)

    def drain(
        self, node: int, *, timeout_s: float, tell: Callable[[str], None] | None = None
    ) -> None:
        """Say that a node should lead nothing, and wait until it does. It stays so, over restarts.

        Args:
            node: The node.
            timeout_s: How long to wait.
            tell: Is told what is waited for, whenever that changes.

        Raises:
            NodeUnknown: There is no such node.
            ChangeUnfinished: It still leads groups, which no other node can lead; or it does
                not answer.
        """
        known = self._node(node)
        self._set_duty(node, draining=True, leaving=known.leaving, keeps_leaving=True)
        if not known.registered:
            return  # it was never started, so it leads nothing
        last, progress = "", Progress(tell)

        def leads_nothing() -> bool | None:
            nonlocal last
            try:
                led = self.led_by(node)
            except Unavailable as error:
                last = error.cause
                progress.waits(f"node {node} may lead groups: {last}")
                return None
            last = f"it leads groups {', '.join(map(str, led))}"
            if led:
                progress.waits(f"node {node} still leads {len(led)} groups")
            return None if led else True

        self._moves.wait(leads_nothing, f"Draining node {node}", timeout_s, lambda: last)

    def end_drain(self, node: int) -> None:
        """Say that a node may lead again.

        Args:
            node: The node.

        Raises:
            NodeUnknown: There is no such node.
        """
        leaving = self._node(node).leaving
        self._set_duty(node, draining=False, leaving=leaving, keeps_leaving=True)

    def transfer(self, group: int, to: int, *, timeout_s: float) -> None:
        """Let another node lead a group, and see to it that it does. It is tried again until then.

        The node goes on leading until the next election, also where another one is preferred
        (`raft.preferred_leaders`).

        Args:
            group: The group, as `TopicInfo.group` names it; 0 is the controller's.
            to: A node that holds the group.
            timeout_s: How long to try.

        Raises:
            NotAVoter: The node does not hold the group, or as an observer only.
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

        self._moves.wait(leads, f"Making node {to} the leader of group {group}", timeout_s, why)

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
        self,
        node: int,
        *,
        at_once: int = AT_ONCE_DEFAULT,
        timeout_s: float,
        tell: Callable[[str], None] | None = None,
    ) -> Iterator[Moved]:
        """Move everything off a node, then remove it. Its id is never used again. What is on its
        way to a node that does not answer goes back first.

        Args:
            node: The node. It may be dead.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.
            tell: Is told what else is waited for, whenever that changes.

        Yields:
            Each move that is done.

        Raises:
            TooFewNodes: A group would have more replicas than there are other nodes that answer.
            QuorumAtRisk: Too few of the nodes that would decide answer.
            NodeUnknown: There is no such node.
            NodeInUse: It was told to stay meanwhile (`keep`).
            ChangeUnfinished: A move took too long; it goes on, and so does this, given again.
        """
        if self.was_removed(node):
            return  # this was given before
        reply = self.placements()
        silent = self._silent(reply)
        moves = plans.removal(node, reply, silent)
        yield from self._empty(
            node,
            lambda reply: plans.removal(node, reply, silent),
            moves,
            at_once=at_once,
            timeout_s=timeout_s,
            progress=Progress(tell),
        )
        self._retire(node)

    def keep(self, node: int, *, timeout_s: float) -> Iterator[Moved]:
        """Take back a removal that has not ended: the node stays, and what is on its way from it
        goes back.
        A removal drains the node, and that ends too, also if it was drained before.

        Args:
            node: The node.
            timeout_s: How long one move may take.

        Yields:
            Each move that is done.

        Raises:
            NodeUnknown: There is no such node.
            ChangeUnfinished: A move took too long; it goes on.
        """
        known = self._node(node)
        self._set_duty(node, draining=known.draining and not known.leaving, leaving=False)
        back = [
            Move(each.group, each.topic, each.voters, each.former)
            for each in self.placements().groups
            if not each.reached and node in each.former and node not in each.voters
        ]
        yield from self.carry_out(back, at_once=len(back) or 1, timeout_s=timeout_s)

    def replace(
        self,
        old: int,
        new: int,
        *,
        at_once: int = AT_ONCE_DEFAULT,
        timeout_s: float,
        tell: Callable[[str], None] | None = None,
    ) -> Iterator[Moved]:
        """Give every place of a node to one that was added and has come; then remove the former.
        The place of an observer is given once the new one has what is committed now. Observers that
        pull from the former node pull from the new one then.

        Args:
            old: The node to remove. It may be lost.
            new: The node to take its places, as `add_replacement` adds it.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.
            tell: Is told what else is waited for, whenever that changes.

        Yields:
            Each move that is done.

        Raises:
            InvalidOption: One of them is an observer, and the other is none.
            ObserverRefused: The new observer pulls from one that pulls from the former.
            QuorumAtRisk: Too few of the nodes that would decide answer.
            NodeUnknown: There is no such node.
            ChangeUnfinished: A move took too long; it goes on, and so does this, given again.
        """
        coming = self._node(new)
        self._kinds(old, new)
        if self.was_removed(old):
            return  # this was given before
        reply = self.placements()
        silent = self._silent(reply)
        moves = plans.replacement(old, new, reply, silent)
        progress = Progress(tell)
        if coming.observer:
            self._wait_filled(coming, timeout_s, progress)
            self._pass_on_children(old, new)
        yield from self._empty(
            old,
            lambda reply: plans.replacement(old, new, reply, silent),
            moves,
            at_once=at_once,
            timeout_s=timeout_s,
            progress=progress,
        )
        self._pass_on_children(old, new)
        self._retire(old)

    def wait_for(self, node: int, timeout_s: float) -> None:
        """Wait until a node that was added has come and answers.

        Args:
            node: The node.
            timeout_s: How long to wait.

        Raises:
            NodeUnknown: It was not added.
            ChangeUnfinished: It has not come, or does not answer.
        """
        self._moves.wait_for(node, lambda: self._node(node), timeout_s)

    # ------------------------------------------------------------ plans

    def plan_removal(self, node: int, *, tell: Callable[[str], None] | None = None) -> list[Move]:
        """Plan a removal. Nothing is moved to nodes that do not answer.

        Args:
            node: The node to remove.
            tell: Is told which nodes are left out.

        Returns:
            The moves that `remove` would make; none if it was removed before.

        Raises:
            TooFewNodes: A group would have more replicas than there are other nodes that answer.
            NodeUnknown: There is no such node.
        """
        if self.was_removed(node):
            return []
        reply = self.placements()
        return plans.removal(node, reply, self._silent(reply, tell, but=(node,)))

    def plan_replacement(
        self, old: int, new: int, *, tell: Callable[[str], None] | None = None
    ) -> list[Move]:
        """Plan a replacement. Nothing else is moved to nodes that do not answer.

        Args:
            old: The node to remove.
            new: The node to take its places.
            tell: Is told which nodes are left out.

        Returns:
            The moves that `replace` would make. A group that `new` holds already goes to another
            node.

        Raises:
            InvalidOption: They are the same node, or one is an observer and the other is none.
            TooFewNodes: There is no other node for a group that `new` holds already.
            NodeUnknown: There was never a node `old`.
        """
        self._kinds(old, new)
        if self.was_removed(old):
            return []
        reply = self.placements()
        return plans.replacement(old, new, reply, self._silent(reply, tell, but=(old, new)))

    def plan_rebalance(self, *, tell: Callable[[str], None] | None = None) -> list[Move]:
        """Plan moves after which groups are spread evenly over racks and nodes. Nodes that do not
        answer keep what they hold, and nothing is moved to them.

        Args:
            tell: Is told which nodes are left out.

        Returns:
            The moves, for `carry_out`; none if groups are spread evenly.

        Raises:
            TooFewNodes: Too few nodes stay in the cluster for the controller's group or the
                key-value store.
        """
        reply = self.placements()
        return plans.rebalance(reply, self._silent(reply, tell))

    def plan_replicas(
        self, group: GroupId, count: int, *, tell: Callable[[str], None] | None = None
    ) -> list[Move]:
        """Plan another number of replicas. Nothing is moved to nodes that do not answer.

        Args:
            group: The group, as `TopicInfo.group` names it.
            count: How many nodes are to hold it, 1 to 7.
            tell: Is told which nodes are left out.

        Returns:
            The move, for `carry_out`; none if it has so many.

        Raises:
            TooFewNodes: There are fewer nodes that answer.
            GroupUnknown: There is no such group.
            InvalidOption: No group can have so many.
        """
        whole_argument("group", group)
        whole_argument("replicas", count, least=1, most=REPLICAS_MAX)
        reply = self.placements()
        return plans.replicas(group, count, reply, self._silent(reply, tell))

    def carry_out(
        self,
        moves: Sequence[Move],
        *,
        at_once: int = AT_ONCE_DEFAULT,
        timeout_s: float,
        tell: Callable[[str], None] | None = None,
    ) -> Iterator[Moved]:
        """Make moves and wait for each.

        Args:
            moves: The moves of a plan.
            at_once: How many groups move at the same time.
            timeout_s: How long one move may take.
            tell: Is told which nodes do not answer while moves wait for them.

        Yields:
            Each move that is done.

        Raises:
            QuorumAtRisk: Too few of the nodes that would decide answer.
            PlacementUnderWay: Another client moves one of the groups.
            PlacementOutdated: Another client has moved one of them since the plan was made.
            ChangeUnfinished: A move took too long; it goes on.
        """
        at_once = whole_argument("at_once", at_once, least=1)
        yield from self._moves.carry_out(
            moves, at_once=at_once, timeout_s=timeout_s, progress=Progress(tell)
        )

    # ------------------------------------------------------------ private

    def _silent(
        self,
        reply: PlacementsReply,
        tell: Callable[[str], None] | None = None,
        but: Collection[int] = (),
    ) -> set[NodeId]:
        """The nodes that do not answer. Tells of those that might take replicas, but of some."""
        able = {each.node for each in reply.nodes if takes_replicas(each)}
        others = [each for each in reply.nodes if each.node not in but]
        if tell is not None and (unstarted := not_started(others)):
            tell(f"left out, as they were not started: nodes {unstarted}")
        silent = {each.node for each in reply.nodes} - self._moves.heard()
        if tell is not None and (told := sorted(silent & able - {*but})):
            tell(f"left out: {do_not_answer(told)}")
        return silent

    def _node(self, node: int) -> NodePlaces:
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        reply = self.placements()
        for each in reply.nodes:
            if each.node == node:
                return each
        if node in reply.removed:
            raise NodeRemoved(node=node)
        raise NodeUnknown(node=node, known=", ".join(str(each.node) for each in reply.nodes))

    def was_removed(self, node: int) -> bool:
        """Look up whether a node was removed from the cluster.

        Args:
            node: The node.

        Returns:
            Whether it was. Its id is never used again.

        Raises:
            NodeUnknown: There never was such a node.
        """
        try:
            self._node(node)
        except NodeRemoved:
            return True
        return False

    def _kinds(self, old: int, new: int) -> tuple[NodePlaces, ...]:
        """All nodes. Raises `InvalidOption` if `new` cannot take the place of `old`: it is the
        same, or only one of them is an observer."""
        whole_argument("node", old, least=1, most=INTEGER_MAX)
        whole_argument("with", new, least=1, most=INTEGER_MAX)
        advice = "Give an id that no node ever had: `raftlog cluster replace` adds it."
        if old == new:
            problem = f"is {new}, the node to replace"
            raise InvalidOption(option="--with", problem=problem, advice=advice)
        nodes = self.placements().nodes
        observers = {each.node: each.observer for each in nodes if each.node in (old, new)}
        if len(set(observers.values())) > 1:
            kinds = {True: "an observer", False: "no observer"}
            was, its = kinds[observers[NodeId(old)]], kinds[observers[NodeId(new)]]
            raise InvalidOption(
                option="--with",
                problem=f"is {new}, which is {its}, and node {old} is {was}",
                advice=f"{advice} One that was added in vain goes with "
                f"`raftlog cluster remove {new}`.",
            )
        return nodes

    def _empty(
        self,
        node: int,
        plan: Callable[[PlacementsReply], list[Move]],
        moves: Sequence[Move],
        *,
        at_once: int,
        timeout_s: float,
        progress: Progress,
    ) -> Iterator[Moved]:
        """Let a node leave, by a plan of which `moves` are known."""
        whole_argument("at_once", at_once, least=1)
        self._moves.check_quorums(moves)
        self._set_duty(node, draining=True, leaving=True)
        yield from self._moves.clear(
            NodeId(node),
            plan,
            checked=moves,
            at_once=at_once,
            timeout_s=timeout_s,
            progress=progress,
        )

    def _retire(self, node: int) -> None:
        self._connection.call_leader(CONTROLLER_GROUP, RETIRE_NODE, RetireNode(node=NodeId(node)))

    def _wait_filled(self, observer: NodePlaces, timeout_s: float, progress: Progress) -> None:
        """Wait until the observer has applied what is committed now."""
        nodes = self.placements().nodes
        committed = _committed(self._applied(each.address) for each in nodes if each.registered)
        last = ""

        def has_all() -> bool | None:
            nonlocal last
            own = self._applied(observer.address)
            if own is None:
                last = "it does not answer"
                return None
            live = {each.group for each in self.placements().groups}
            behind = _behind(own, {g: index for g, index in committed.items() if g in live})
            last = f"it lacks {behind} entries"
            if behind:
                progress.waits(f"node {observer.node} is being filled: {last}")
            return None if behind else True

        self._moves.wait(has_all, f"Filling node {observer.node}", timeout_s, lambda: last)

    def _pass_on_children(self, old: int, new: int) -> None:
        """What pulls from the one pulls from the other."""
        for each in self.placements().nodes:
            if old in each.parents and each.node != new:
                self.set_parents(each.node, [*(set(each.parents) - {NodeId(old)}), new])

    def _set_duty(
        self, node: int, *, draining: bool, leaving: bool, keeps_leaving: bool = False
    ) -> None:
        whole_argument("node", node, least=1, most=INTEGER_MAX)
        call = SetDuty(
            node=NodeId(node), draining=draining, leaving=leaving, keeps_leaving=keeps_leaving
        )
        self._connection.call_leader(CONTROLLER_GROUP, SET_DUTY, call)


def _committed(views: Iterable[Applied | None]) -> dict[GroupId, int]:
    """How far each group is committed, as far as any of the nodes knows."""
    found: dict[GroupId, int] = {}
    for view in filter(None, views):
        for group, (_, commit_index) in view.items():
            found[group] = max(found.get(group, 0), commit_index)
    return found


def _behind(own: Applied, committed: Mapping[GroupId, int]) -> int:
    applied = {group: applied_index for group, (applied_index, _) in own.items()}
    return sum(max(0, last - applied.get(group, 0)) for group, last in committed.items())
