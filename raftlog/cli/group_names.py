"""What people call a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog.machines.group_info import CONTROLLER, label_of

if TYPE_CHECKING:
    from raftlog import LogClient, PlacementsReply
    from raftlog.core.types import GroupId

CONTROLLER_NAME = label_of(CONTROLLER)


def group_named(client: LogClient, name: str, known: PlacementsReply) -> GroupId:
    """The group of a topic, or one that `raftlog cluster status` names in brackets. Raises
    `TopicNotFound`."""
    groups = {each.topic or CONTROLLER_NAME: each.group for each in known.groups}
    return groups[name] if name in groups else client.describe_topic(name).group
