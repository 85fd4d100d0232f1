"""An observer's side: it pulls what is committed, from one of its parents at a time.

An observer has a replica of every group and is a member of none. So no leader sends it anything:
now and then it asks one of its parents, chosen at random, what there is beyond its own last
entries. Only committed entries come, so its log is never truncated, and all that is in it may be
applied. A parent that stays silent, or lacks the group, is left alone for a while.

What its parents' logs have dropped comes with a parent's image (`image_exchange`). Until that is
here the replica serves no read.

A node that has no log of the controller yet pulls that from any node: it learns there what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from raftlog.core.messages import PULL_ROWS_MAX, PullDone, PulledEntries, PullRequest, PullRow
from raftlog.core.timer import Random
from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Term
from raftlog.errors import PeerProtocolViolation
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.replicas import NodeReplicas

_SILENT_TICKS = 40
"""A parent that has not answered for so long is asked no more for a while. No setting: an answer
waits at most for what the parent may read from its disk."""

_REST_TICKS = 20
"""For so long it, or one that lacks a group, is left alone."""


@dataclass(slots=True)
class _Asked:
    number: int
    groups: frozenset[GroupId]
    silent_ticks: int = 0
    got_entries: bool = False
    """Something of the answer was news."""


class Pulls:
    """What one node pulls, if it is an observer. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        replicas: NodeReplicas,
        effects: Effects,
        random: Random,
        every_ticks: int,
        unapplied_max: int,
        changed: Callable[[LocalReplica], None],
        refused: Callable[[PeerProtocolViolation], None],
        term_max: Callable[[], Term],
    ) -> None:
        """It asks every `every_ticks`, and not for groups with more than `unapplied_max` entries
        that wait to be applied. `changed` is called with each replica that must be advanced,
        `refused` with what no honest parent sends. `term_max`: see `Raft.step`."""
        self._node = node
        self._replicas = replicas
        self._effects = effects
        self._random = random
        self._every_ticks = every_ticks
        self._unapplied_max = unapplied_max
        self._changed = changed
        self._refused = refused
        self._term_max = term_max
        self._ticks = 0
        self._numbers = 0
        self._asked: dict[NodeId, _Asked] = {}
        """The one request that each parent has not answered whole."""
        self._resting: dict[tuple[NodeId, GroupId | None], int] = {}
        """Until which tick a parent is not asked for a group; None: for any."""

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self._ticks += 1
        for parent, asked in list(self._asked.items()):
            asked.silent_ticks += 1
            if asked.silent_ticks >= _SILENT_TICKS:
                del self._asked[parent]
                self._rest(parent, None)
        self._resting = {key: end for key, end in self._resting.items() if end > self._ticks}
        if self._ticks % self._every_ticks == 0:
            self._ask()

    # ------------------------------------------------------------ asking

    def _ask(self) -> None:
        """Ask for every group that is not asked for, each one of its parents."""
        rows: dict[NodeId, list[PullRow]] = {}
        busy = {group for asked in self._asked.values() for group in asked.groups}
        for local in self._pulling():
            if local.group in busy or self._has_enough(local):
                continue
            parents = self._parents(local)
            local.parents = tuple(parents)
            if local.group == CONTROLLER_GROUP and self._are_silent(parents):
                # It says who the parents are: all of them may be gone for good.
                parents = self._voting()
                local.parents = tuple(parents)
            parents = self._free(local.group, parents)
            if parents:
                rows.setdefault(self._one_of(parents), []).append(_row(local))
        for parent, asked in rows.items():
            self._send(parent, asked)

    def _free(self, group: GroupId, parents: Iterable[NodeId]) -> list[NodeId]:
        """Those of them that may be asked for the group now."""
        return [
            each for each in parents
            if each not in self._asked
            and (each, None) not in self._resting
            and (each, group) not in self._resting
        ]  # fmt: skip

    def _are_silent(self, parents: Iterable[NodeId]) -> bool:
        return all((each, None) in self._resting for each in parents)

    def _voting(self) -> list[NodeId]:
        return [each for each in self._replicas.voting_nodes if each != self._node]

    def _send(self, parent: NodeId, rows: list[PullRow]) -> None:
        # A parent answers in this order as far as one answer goes. No group is always the last,
        # but for the controller's: it brings the others.
        start = self._random.randrange(0, len(rows))
        rows = rows[start:] + rows[:start]
        rows.sort(key=lambda row: row.group != CONTROLLER_GROUP)
        del rows[PULL_ROWS_MAX:]
        self._numbers += 1
        self._asked[parent] = _Asked(self._numbers, frozenset(row.group for row in rows))
        request = PullRequest(sender=self._node, to=parent, number=self._numbers, rows=tuple(rows))
        self._effects.send(parent, [request])

    def _pulling(self) -> Iterator[LocalReplica]:
        """The replicas that get their entries so."""
        if self._replicas.observes:
            self._replicas.fill_observed()
            for local in self._replicas.values():
                if not local.observing and not local.installing:
                    local.observing = True
                    local.raft.observe_log()
                    self._changed(local)
                yield local
            return
        local = self._replicas.of_controller
        if self._pulls(local):
            yield local
        else:
            local.parents = ()

    def _pulls(self, local: LocalReplica) -> bool:
        """Does the replica get its entries so? Of a node that is no observer that of the
        controller does, until the cluster knows it: then it may vote, and lead."""
        if self._replicas.observes:
            return True
        known = self._node in self._replicas.controller.nodes
        return local.group == CONTROLLER_GROUP and not (
            known or self._node in local.raft.membership.members
        )

    def _has_enough(self, local: LocalReplica) -> bool:
        unapplied = local.raft.log.last_index - local.replica.applied_index
        return local.installing or unapplied > self._unapplied_max

    def _parents(self, local: LocalReplica) -> list[NodeId]:
        """The nodes that the replica may pull from. Where none of those that are configured has the
        group, its voters."""
        controller = self._replicas.controller
        nodes = self._replicas.nodes
        own = controller.nodes.get(self._node)
        wanted = own.parents if own is not None else ()
        pool = wanted or tuple(self._voting())
        info = controller.info_of(local.group)
        if info is not None:
            voters = controller.voters_of(info)
            holding = [each for each in pool if each in voters or each in nodes.observers]
            pool = tuple(holding) or voters
        return [each for each in pool if each != self._node and each in nodes]

    def _one_of(self, parents: list[NodeId]) -> NodeId:
        return parents[self._random.randrange(0, len(parents))]

    def _rest(self, parent: NodeId, group: GroupId | None) -> None:
        self._resting[parent, group] = self._ticks + _REST_TICKS

    # ------------------------------------------------------------ answers

    def came(self, pulled: PulledEntries) -> None:
        """A parent's answer for one group. What was not asked for changes nothing."""
        asked = self._asked.get(pulled.sender)
        local = self._replicas.get(pulled.group)
        if asked is None or pulled.group not in asked.groups or local is None or local.installing:
            return
        asked.silent_ticks = 0
        if not self._pulls(local):
            return  # it was asked for before the cluster knew this node
        if not pulled.held:
            self._rest(pulled.sender, pulled.group)
            return
        if self._replicas.observes:
            local.below_parent = pulled.base_index > local.raft.log.last_index
        last_index = local.raft.log.last_index
        try:
            local.replica.observe(pulled, term_max=self._term_max())
        except PeerProtocolViolation as violation:
            self._rest(pulled.sender, pulled.group)
            self._refused(violation)
        else:
            asked.got_entries |= local.raft.log.last_index > last_index
            self._changed(local)

    def done(self, done: PullDone) -> None:
        """A parent has said all that it has to say. It is asked for more at once only where it gave
        something, and else at the usual pace."""
        asked = self._asked.get(done.sender)
        if asked is not None and asked.number == done.number:
            del self._asked[done.sender]
            if done.more and asked.got_entries:
                self._ask()


def _row(local: LocalReplica) -> PullRow:
    raft = local.raft
    return PullRow(
        group=local.group,
        index=raft.log.last_index,
        term=raft.log.last_term,
        leader_term=raft.term,
        leader=raft.leader,
    )
