"""When a topic's settings and its schema go from the controller's log into its own: its leader's
duty.

A leader learns of them when its node's replica of the controller applies them. That replica may be
behind, for a moment or for long. So the topic's log decides: what is older than its own changes
nothing there (`Configure`, `SetSchema`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftlog.core.ready import Role
from raftlog.core.types import Payload
from raftlog.errors import Overloaded, ResourceShortage
from raftlog.machines.commands import Configure, SetSchema, TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.local_replica import LocalReplica


def carry_settings(
    groups: Iterable[LocalReplica],
    controller: ControllerMachine,
    propose: Callable[[LocalReplica, Payload], None],
) -> None:
    """Propose the settings and schemas that are due in those of the groups that this node leads."""
    for local in groups:
        if local.raft.role is not Role.LEADER:
            continue
        for command in (settings_due(local, controller), schema_due(local, controller)):
            if command is None:
                continue
            try:
                propose(local, local.payload(command))
            except (Overloaded, ResourceShortage):
                return  # writes go first; it is tried again
            match command:
                case Configure():
                    local.settings_proposed = (local.raft.term, command.version)
                case SetSchema():
                    local.schema_proposed = (local.raft.term, command.schema.version)


def settings_due(local: LocalReplica, controller: ControllerMachine) -> Configure | None:
    """What the group's leader should put into its log now; None: its settings are the latest that
    are known here, or were proposed in its term. A repeat would be harmless."""
    topic, machine = controller.info_of(local.group), local.machine
    if not isinstance(topic, TopicInfo) or not isinstance(machine, TopicMachine):
        return None
    version = topic.settings_version
    if machine.settings_version >= version:
        return None
    if local.settings_proposed == (local.raft.term, version):
        return None
    return Configure(version=version, settings=topic.settings)


def schema_due(local: LocalReplica, controller: ControllerMachine) -> SetSchema | None:
    """The same for its schema."""
    topic, machine = controller.info_of(local.group), local.machine
    if not isinstance(topic, TopicInfo) or not isinstance(machine, TopicMachine):
        return None
    version = topic.schema.version
    if machine.info.schema.version >= version:
        return None
    if local.schema_proposed == (local.raft.term, version):
        return None
    return SetSchema(schema=topic.schema)
