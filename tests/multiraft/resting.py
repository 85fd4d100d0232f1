"""Limits of a node that does nothing by itself: no snapshot point, no retention."""

from __future__ import annotations

from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.limits import MultiRaftLimits

RESTING = MultiRaftLimits(
    idle_ticks_max=20,
    quiesce_refresh_ticks=600,
    request_bytes_max=1 << 30,
    slow_disk_ticks=100,
    full_disk_ticks=10,
    reserve_bytes=0,
    retention_ticks=1_000_000,
    turn_work_us=1_000,
    catch_up=CatchUpLimits(1 << 20, 1 << 20, 1 << 40),
    compaction=CompactionLimits(
        entries_max=1 << 30,
        bytes_max=1 << 40,
        age_ticks=1 << 30,
        node_entries_max=1 << 30,
        behind_bytes_max=1 << 40,
        backlog_max=16,
    ),
)
