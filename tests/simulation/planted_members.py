"""Planted bugs of memberships and placements: see `tests.simulation.planted`."""

from __future__ import annotations

from typing import Any

from raftlog.core.membership import Membership
from raftlog.machines.cluster_nodes import ClusterNodes
from raftlog.machines.placements import Placement
from raftlog.multiraft import replicas
from raftlog.multiraft.groups import GroupStore
from tests.simulation.planting import both, replaced


def new_voters_decide_alone() -> Any:
    """The former voters are not asked any more once a change is written."""
    return replaced(Membership, "deciding", property(lambda self: (self.voters,)))


def removed_before_it_is_reported() -> Any:
    """A replica goes as soon as it is not wanted, while its vote may still count."""
    return both(
        replaced(Placement, "is_reached", property(lambda self: True)),
        replaced(replicas, "_has_left", lambda local, generation: True),
    )


def removed_replica_counts_again() -> Any:
    """What was placed elsewhere and comes back takes part at once, with an empty log."""

    def begin_recovery(self: Any, group: Any, lost: Any) -> int:
        return 0

    return replaced(GroupStore, "begin_recovery", begin_recovery)


def id_is_given_again() -> Any:
    """The controller binds a node's id to another store."""

    def register(self: Any, index: Any, command: Any) -> Any:
        known = self._nodes.get(command.node)
        if known is not None:
            self._nodes[command.node] = known._replace(store_uuid="")
        return _register(self, index, command)

    return replaced(ClusterNodes, "register", register)


_register = ClusterNodes.register

MEMBER_BUGS = (
    new_voters_decide_alone,
    removed_before_it_is_reported,
    removed_replica_counts_again,
    id_is_given_again,
)
