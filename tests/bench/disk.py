"""What the nodes say of their replicas' files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raftlog.chaos.cluster import wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import Offset
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import GroupView, NodeView

NEVER_COMPACTED = ("storage.snapshot_entries=10000000", "storage.snapshot_bytes=1000000000000")
"""Settings with which no measurement reaches a snapshot point."""


ASKED_EVERY_S = 0.5
"""How often the nodes are asked while something is measured: a question to all of them takes
milliseconds of theirs, which the appends beside it would wait for."""


def views_of(client: LogClient, topics: Sequence[TopicInfo]) -> list[GroupView]:
    """Every node's view of its replicas of the topics. Raises what asking a node came to."""
    views: list[GroupView] = []
    for _, _, answer in client.views([topic.group for topic in topics]):
        if not isinstance(answer, NodeView):
            raise answer
        views += answer.groups
    return views


def wait_compacted(
    client: LogClient, topics: Sequence[TopicInfo], end: Offset, timeout_s: float
) -> None:
    """Wait until every node has the topics' records below `end` in history files."""
    wait_for(
        lambda: all(view.history_end >= end for view in views_of(client, topics)),
        f"every node to compact its replicas up to offset {end}",
        timeout_s,
        every_s=ASKED_EVERY_S,
    )


def disk_bytes(folder: Path) -> int:
    """Bytes that the files below the folder take on the disk, with what is reserved ahead."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
