"""What people call a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog.errors import InvalidOption
from raftlog.machines.group_info import CONTROLLER, KV_LABEL, label_of

if TYPE_CHECKING:
    from raftlog import LogClient, PlacementsReply
    from raftlog.core.types import GroupId

CONTROLLER_NAME = label_of(CONTROLLER)


def group_named(client: LogClient, name: str, known: PlacementsReply) -> GroupId:
    """The group of a topic, or one that `raftlog cluster status` names in brackets. Raises
    `TopicNotFound`, `InvalidOption`."""
    groups = {each.topic or CONTROLLER_NAME: each.group for each in known.groups}
    if name in groups:
        return groups[name]
    if name == KV_LABEL:
        raise InvalidOption(
            option="GROUP",
            problem=f"is {name}, and there is no key-value store yet",
            advice="The first `raftlog kv put` makes it.",
        )
    return client.describe_topic(name).group
