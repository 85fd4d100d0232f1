"""A node that is drained lets others lead, as long as there are others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership
from raftlog.core.quorum import is_quorum
from raftlog.core.types import LogIndex, NodeId
from raftlog.machines.cluster_nodes import KnownNode


def others_can_lead(
    node: NodeId,
    membership: Membership,
    views: Sequence[FollowerView],
    nodes: Mapping[NodeId, KnownNode],
    *,
    commit_index: LogIndex,
    last_index: LogIndex,
    patience_ticks: int,
) -> bool:
    """Would another member be elected, if the group's leader on this node stepped down now?

    Either a quorum does without this one, or its log is no longer than that of those who need its
    vote: then nobody is kept from leading by entries that only this node has. A group without a
    leader would be worse than one whose leader was to lead nothing. Not while members change.
    """
    if membership.is_joint:
        return False
    others = [
        view
        for view in views
        if view.node != node
        and view.votes
        and not view.recovering
        and view.contact_ticks < patience_ticks
        and view.match_index >= commit_index
    ]
    level = {view.node for view in others if view.match_index >= last_index}
    if is_quorum(membership, {view.node for view in others}):
        level |= {view.node for view in others}
    may_lead = {each for each in level if each in nodes and not nodes[each].draining}
    return bool(may_lead) and is_quorum(membership, level | {node})
