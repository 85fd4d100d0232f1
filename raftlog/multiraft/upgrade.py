"""When a group's rules are raised, and to which version: its leader's duty.

The controller permits a version once every node says that it knows it; that permission is its own
applied version. A topic's leader then raises its group's, each in its own log, so that all replicas
meet the change at one place (`raftlog.machines.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftlog.core.ready import Role
from raftlog.core.types import NodeId, Payload
from raftlog.errors import Overloaded, ResourceShortage
from raftlog.machines.commands import Rules
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.local_replica import LocalReplica


def raise_rules(
    groups: Iterable[LocalReplica],
    controller: ControllerMachine,
    nodes: Iterable[NodeId],
    propose: Callable[[LocalReplica, Payload], None],
) -> None:
    """Propose the rules that are due in those of the groups that this node leads."""
    for local in groups:
        raft = local.raft
        version = version_due(local, controller, nodes)
        if raft.role is not Role.LEADER or version is None:
            continue
        try:
            propose(local, local.payload(Rules(version=version)))
        except (Overloaded, ResourceShortage):
            return  # writes go first; it is tried again
        local.rules_proposed = (raft.term, version)


def version_due(
    local: LocalReplica, controller: ControllerMachine, nodes: Iterable[NodeId]
) -> int | None:
    """The version that the group's leader should raise its rules to now; None: there is none.

    `nodes` are all of the cluster: one that is down or older holds the controller's permission
    back. A leader proposes a version once in its term; a repeat would be harmless.
    """
    permitted = controller.rules
    if local.machine is controller and not controller.behind_rules(nodes, RULES_LATEST):
        permitted = RULES_LATEST
    if local.machine.rules >= permitted:
        return None
    if local.rules_proposed == (local.raft.term, permitted):
        return None
    return permitted
