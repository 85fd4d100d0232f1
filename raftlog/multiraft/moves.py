"""How a group comes to where it is wished: its leader's duty, one step after the other.

The wish is in the controller's log (`raftlog.machines.placements`), what the group has is in its
own log. A leader whose node has not heard of the latest wish does nothing that a newer one undid:
the generation in the group's log tells.

The steps: those that are to vote learn first; when they have the log, the voters change; when that
is committed, each new and each former voter reports it as its own log has it
(`PlacementReports`): one of them may lie, and an operator removes the former node when they are in.
Members that leave learn until the change is reported and their replicas are gone: a node removes
its replica only when its own log says that the group is elsewhere (`raftlog.multiraft.replicas`).
If the leader crashes at any point, the next one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership
from raftlog.core.quorum import is_quorum
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.errors import ChangeUnderWay, MemberBehind, TransferUnderWay
from raftlog.machines.commands import ReportPlacement
from raftlog.machines.controller import ControllerMachine
from raftlog.multiraft.local_replica import LocalReplica

_ENTRIES_BEHIND_MAX = 64
"""A learner that lacks no more than this of what is committed can vote without holding up commits.
No setting: it is what is in flight to a busy follower."""

_GONE_TIMEOUTS = 10
"""Election timeouts without an answer after which a replica that leaves is gone, if its node is
heard. No setting: until then the leader only sends it a little for nothing."""

_LEAVING_ENTRIES_MAX = 4096
"""Once the change is reported, a member that leaves is sent no more than about this after the entry
that takes its vote: it knows by then that this entry is committed. No setting: such a replica
should be gone long since."""


def next_step(
    now: Membership,
    wanted: Membership,
    *,
    caught_up: Collection[NodeId],
    heard: Collection[NodeId],
    gone: Collection[NodeId],
) -> Membership | None:
    """What a leader changes next to come from `now` to `wanted`; None: nothing, or not yet.

    `caught_up` are the members that have the log, `heard` those that answer, `gone` those whose
    replica has left, or will never answer. Members that leave learn until they are gone.
    """
    leaving = set(now.members).difference(wanted.voters, gone)
    learners = {*wanted.learners, *leaving}
    goal = replace(wanted, learners=tuple(sorted(learners)))
    if now.is_joint or now == goal or now.generation > goal.generation:
        return None
    coming = {voter for voter in goal.voters if voter not in now.voters}
    if coming <= set(caught_up):
        # A voter that is gone would replace one that may be there. And the change needs a majority
        # of both sets to be committed; until then nothing is.
        return goal if coming <= set(heard) and is_quorum(goal, heard) else None
    staying = now.voters
    learners = {*learners, *coming}.difference(staying)
    step = Membership(staying, (), tuple(sorted(learners)), wanted.generation)
    return step if step != now else None


def wanted_membership(
    group: GroupId, now: Membership, controller: ControllerMachine
) -> Membership | None:
    """What the group should have, as far as this node has heard; None: it is as it was made.

    Every node has the controller's log. So those that do not vote there learn.
    """
    placement = controller.placements.get(group)
    voters = placement.voters if placement is not None else now.voters
    generation = placement.generation if placement is not None else now.generation
    if group != CONTROLLER_GROUP:
        return Membership(voters, (), (), generation) if placement is not None else None
    come = {
        node for node, known in controller.nodes.items() if known.store_uuid and not known.observer
    }
    return Membership(voters, (), tuple(sorted(come.difference(voters))), generation)


def move_groups(
    groups: Mapping[GroupId, LocalReplica],
    controller: ControllerMachine,
    change: Callable[[LocalReplica, Membership], None],
    *,
    patience_ticks: int,
    silent: Collection[NodeId],
) -> None:
    """Take those of the groups that this node leads a step further. A follower that was silent for
    `patience_ticks` is not heard; `silent` are the nodes whose processes are not heard at all."""
    for local in _led(groups, controller):
        raft = local.raft
        wanted = wanted_membership(local.group, raft.membership, controller)
        if wanted is None or raft.membership == wanted:
            continue
        views = raft.followers()
        placement = controller.placements.get(local.group)
        # A former voter may have to report the change, and learns of it while it is a member.
        reporting = () if placement is None or placement.is_reached else placement.former
        step = next_step(
            raft.membership,
            wanted,
            caught_up={each.node for each in views if _has_log(each, raft.commit_index)},
            # A leader that was just elected has counted no ticks yet.
            heard={
                each.node
                for each in views
                if each.contact_ticks < patience_ticks and each.node not in silent
            },
            gone={
                each.node
                for each in views
                if each.node in controller.nodes.retired
                or each.match_index > raft.memberships.latest_index + _LEAVING_ENTRIES_MAX
                or (
                    each.contact_ticks >= _GONE_TIMEOUTS * patience_ticks
                    and each.node not in silent
                )
            }.difference(reporting),
        )
        if step is None:
            continue
        try:
            change(local, step)
        except (ChangeUnderWay, MemberBehind, TransferUnderWay):
            continue  # the next look finds it further


def reports_due(
    groups: Mapping[GroupId, LocalReplica], controller: ControllerMachine
) -> Iterator[ReportPlacement]:
    """The changes that give replicas here a vote or may take it, are committed by their own logs,
    and are not known to be reported."""
    for group in controller.placements.under_way():
        local, placement = groups.get(group), controller.placements[group]
        if local is None or local.raft.node not in placement.voters + placement.former:
            continue
        raft = local.raft
        now, wished = raft.membership, (placement.voters, placement.generation)
        committed = raft.memberships.latest_index <= raft.commit_index
        if committed and not now.is_joint and (now.voters, now.generation) == wished:
            yield ReportPlacement(group=local.group, generation=placement.generation)


class PlacementReports:
    """Which voters, new and former, have reported the changes that are under way, to the
    controller's leader. After a change of that leader they report again.

    New voters are not enough: one that lies can make an empty one report, by a forged log that
    begins with the change. A former voter holds the group's log, and a majority of them committed
    the joint membership. Those that are silent are left out, unless they have reported: a group
    whose former voters are lost must come to its end.
    """

    def __init__(self) -> None:
        self._reporters: dict[GroupId, tuple[int, set[NodeId]]] = {}
        """By group, the generation that they reported."""

    def are_enough(
        self,
        report: ReportPlacement,
        reporter: NodeId,
        controller: ControllerMachine,
        *,
        heard: Collection[NodeId],
    ) -> bool:
        """Note the report of one of the group's voters, new or former. Is the change under way,
        and has a majority of both reported it? `heard` are the nodes that are not silent."""
        if not controller.placements.is_under_way(report.group, report.generation):
            self._reporters.pop(report.group, None)
            return False
        placement = controller.placements[report.group]
        generation, reporters = self._reporters.get(report.group, (0, set()))
        if generation != placement.generation:
            reporters = set()
            under_way = set(controller.placements.under_way())
            for group in self._reporters.keys() - under_way:
                del self._reporters[group]
            self._reporters[report.group] = (placement.generation, reporters)
        reporters.add(reporter)
        former = tuple(each for each in placement.former if each in heard or each in reporters)
        return is_quorum(Membership(placement.voters, former), reporters)


def _led(
    groups: Mapping[GroupId, LocalReplica], controller: ControllerMachine
) -> Iterator[LocalReplica]:
    """Those that this node leads and that may have to change."""
    for group in {CONTROLLER_GROUP, *controller.placements}:
        local = groups.get(group)
        if local is None or local.raft.role is not Role.LEADER:
            continue
        placement, now = controller.placements.get(group), local.raft.membership
        is_settled = (
            placement is not None
            and placement.is_reached
            and placement.generation == now.generation
            and not now.learners
        )
        if not is_settled:
            yield local


def _has_log(view: FollowerView, commit_index: LogIndex) -> bool:
    return not view.recovering and view.match_index >= commit_index - _ENTRIES_BEHIND_MAX
