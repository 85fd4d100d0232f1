"""A node that is drained lets others lead, as long as there are others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from raftlog.core.membership import Membership
from raftlog.core.types import NodeId
from raftlog.machines.cluster_nodes import KnownNode


def lets_others_lead(
    node: NodeId,
    membership: Membership,
    nodes: Mapping[NodeId, KnownNode],
    silent: Collection[NodeId],
) -> bool:
    """Should the group's replica on this node not lead? Not if nobody else could: a group without
    a leader would be worse than one whose leader was to lead nothing.

    `nodes` are those that the controller knows, `silent` those that are not heard.
    """
    own = nodes.get(node)
    if own is None or not own.draining:
        return False
    others = [voter for voter in membership.voters if voter != node and voter not in silent]
    return any(voter in nodes and not nodes[voter].draining for voter in others)
