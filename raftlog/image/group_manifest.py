"""What a group is, as the text of its folder's manifest: JSON, `{}` for the controller's group."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, assert_never

from raftlog.core.types import GroupId, NodeId
from raftlog.errors import CorruptFile
from raftlog.machines.commands import TopicInfo
from raftlog.machines.group_info import ControllerInfo, CreatedInfo, GroupInfo, KvInfo
from raftlog.machines.schema import Field, Schema


def manifest_of(info: GroupInfo) -> str:
    """The manifest's text."""
    match info:
        case ControllerInfo():
            return "{}"
        case TopicInfo():
            return _of_topic(info)
        case KvInfo():
            return json.dumps({"kv": asdict(info)}, sort_keys=True)
        case _:
            assert_never(info)


def _of_topic(topic: TopicInfo) -> str:
    """With its first schema: later ones are in the group's own log."""
    first = topic.schema.at(1)
    return json.dumps(
        {
            "name": topic.name,
            "incarnation": topic.incarnation,
            "group": topic.group,
            "voters": list(topic.voters),
            "created_us": topic.created_us,
            "rules": topic.rules,
            "schema": {
                "version": first.version,
                "fields": [
                    {"id": f.id, "name": f.name, "type": f.type, "nullable": f.nullable}
                    for f in first.fields
                ],
            },
        },
        sort_keys=True,
    )


def info_from_manifest(text: str, group: GroupId) -> CreatedInfo:
    """What `manifest_of` described, of a group that is not the controller's; the manifest's
    checksum is right. Raises `CorruptFile` if it is another group's: a copy of a file is one, too,
    and this one says whose log and votes the folder has."""
    try:
        info = _info_from(json.loads(text))
    except KeyError as error:
        found = f"it has no {error}"
    else:
        if info.group == group:
            return info
        found = f"it is that of group {info.group}"
    raise CorruptFile(file=f"the manifest of group {group}", position=0, problem=found)


def _info_from(table: Any) -> CreatedInfo:
    if "kv" in table:
        table = table["kv"]
        return KvInfo(
            group=GroupId(table["group"]),
            voters=tuple(NodeId(voter) for voter in table["voters"]),
            created_us=table["created_us"],
            rules=table["rules"],
        )
    return TopicInfo(
        name=table["name"],
        incarnation=table["incarnation"],
        group=GroupId(table["group"]),
        schema=Schema(
            version=table["schema"]["version"],
            fields=tuple(Field(**field) for field in table["schema"]["fields"]),
        ),
        voters=tuple(NodeId(voter) for voter in table["voters"]),
        created_us=table["created_us"],
        rules=table["rules"],
    )
