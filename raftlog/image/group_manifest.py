"""What a group is, as the text of its folder's manifest: JSON, `{}` for the controller's group."""

from __future__ import annotations

import json

from raftlog.core.types import GroupId, NodeId
from raftlog.machines.commands import TopicInfo
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.schema import Field, Schema


def manifest_of(topic: TopicInfo | None) -> str:
    """The manifest's text; None: the controller's."""
    if topic is None:
        return "{}"
    return json.dumps(
        {
            "name": topic.name,
            "incarnation": topic.incarnation,
            "group": topic.group,
            "voters": list(topic.voters),
            "created_us": topic.created_us,
            "rules": topic.rules,
            "schema": {
                "version": topic.schema.version,
                "fields": [
                    {"id": f.id, "name": f.name, "type": f.type, "nullable": f.nullable}
                    for f in topic.schema.fields
                ],
            },
        },
        sort_keys=True,
    )


def topic_from_manifest(text: str) -> TopicInfo:
    """The topic that `manifest_of` described: a manifest whose checksum is right."""
    table = json.loads(text)
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
        rules=table.get("rules", RULES_FIRST),
    )
