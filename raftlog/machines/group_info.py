"""What a group is, one of a closed set: given to the code that opens, makes or compacts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId
from raftlog.machines.commands import TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerInfo:
    """The controller's group, of which there is one. Its voters are the node's own setting."""

    @property
    def group(self) -> GroupId:
        return CONTROLLER_GROUP


CONTROLLER = ControllerInfo()

KV_LABEL = "(kv)"
"""What people are told the key-value store's group is: no name of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvInfo:
    """The group of the cluster's key-value store, of which there is at most one."""

    group: GroupId
    """The Raft group that holds it, from 1."""
    voters: tuple[NodeId, ...]
    """The nodes that hold a replica."""
    created_us: int
    """When it was created, in the controller's log time: microseconds since 1970 UTC."""
    rules: int
    """The version of the rules that its machine starts under."""


CreatedInfo = TopicInfo | KvInfo
"""What the controller's log creates: a value there says which group it is and who votes in it."""

GroupInfo = ControllerInfo | CreatedInfo


def words_for(info: GroupInfo | None) -> str:
    """What the group holds, as a sentence names it; "" if that is not known (None)."""
    match info:
        case None:
            return ""
        case ControllerInfo():
            return "the controller"
        case TopicInfo():
            return f"topic {info.name!r}"
        case KvInfo():
            return "the key-value store"
        case _:
            assert_never(info)


def label_of(info: GroupInfo | None) -> str:
    """What people are told the group is; None: the file that tells it is damaged."""
    match info:
        case None:
            return "(unknown)"
        case ControllerInfo():
            return "(controller)"
        case TopicInfo():
            return info.name
        case KvInfo():
            return KV_LABEL
        case _:
            assert_never(info)
