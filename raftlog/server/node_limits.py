"""What the settings allow a node, as logs and `MultiRaft` take it: counts, bytes and ticks."""

from __future__ import annotations

from raftlog.config import Settings, StorageSettings
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.scrubs import ScrubLimits
from raftlog.storage.limits import LogLimits

_IDLE_MARKER_S = 1.0
"""A log that was not written for so long gets its synced marker, which bears witness to the end
of it (docs/FORMAT.md, "Torn or damaged"). No setting: it costs one small write after a burst, and
shorter would only write more of them."""


def log_limits(storage: StorageSettings) -> LogLimits:
    """Those of each log."""
    return LogLimits(
        segment_bytes_max=storage.segment_bytes_max,
        preallocate_bytes=storage.preallocate_bytes,
        payload_cache_bytes_max=storage.payload_cache_bytes_max,
        sealed_files_max=storage.sealed_files_max,
    )


def multiraft_limits(settings: Settings) -> MultiRaftLimits:
    """The bounds in ticks, bytes and microseconds."""
    tick_s = settings.raft.tick_interval_s
    server, storage = settings.server, settings.storage
    return MultiRaftLimits(
        quiesce_refresh_ticks=settings.raft.quiesce_refresh_ticks(),
        idle_ticks_max=max(1, round(_IDLE_MARKER_S / tick_s)),
        request_bytes_max=server.request_bytes_max,
        slow_disk_ticks=settings.raft.slow_disk_ticks(),
        full_disk_ticks=max(1, round(storage.full_disk_retry_s / tick_s)),
        reserve_bytes=storage.full_disk_reserve_bytes,
        retention_ticks=max(1, round(settings.topic.retention_check_s / tick_s)),
        pull_ticks=max(1, round(server.observer_pull_interval_s / tick_s)),
        turn_work_us=max(1, round(server.turn_work_max_s * 1_000_000)),
        leaders=LeaderLimits(
            spread=settings.raft.preferred_leaders,
            delay_ticks=settings.raft.preferred_leader_delay_ticks(),
            look_ticks=settings.raft.ticks_per_s(),
            moves_max=settings.raft.preferred_leader_moves_per_s_max,
        ),
        catch_up=CatchUpLimits(
            peer_bytes_max=server.catch_up_peer_bytes_max,
            node_bytes_max=server.catch_up_bytes_max,
            bytes_per_s=server.catch_up_bytes_per_s_max,
        ),
        compaction=CompactionLimits(
            entries_max=storage.snapshot_entries,
            bytes_max=storage.snapshot_bytes,
            behind_bytes_max=storage.log_behind_bytes_max,
            backlog_max=storage.compaction_backlog_max,
            age_ticks=max(1, round(storage.snapshot_age_s / tick_s)),
            node_entries_max=storage.snapshot_entries_of_node,
        ),
        scrubs=ScrubLimits(
            period_us=round(storage.scrub_period_s * 1_000_000),
            bytes_per_tick=max(1, round(storage.scrub_bytes_per_s_max * tick_s)),
        ),
    )
