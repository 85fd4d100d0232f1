"""The bounds of a node's `MultiRaft`, each derived from a setting by the server."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.image_fetch import ImageLimits
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.scrubs import ScrubLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiRaftLimits:
    """Counts of ticks, bytes and microseconds; all above 0."""

    idle_ticks_max: int
    """A log or journal that was not written for so long gets its marker."""
    quiesce_refresh_ticks: int
    """See `raftlog.multiraft.awake.AwakeReplicas`."""
    request_bytes_max: int
    """What all unanswered proposals may carry."""
    slow_disk_ticks: int
    """A write that takes so long makes the node let others lead."""
    full_disk_ticks: int
    """A write that found no room, which does so too, is tried again so often."""
    reserve_bytes: int
    """Of the reserve of the disk; 0: none."""
    retention_ticks: int
    """A leader looks so often for records that its topics' settings no longer keep."""
    turn_work_us: int
    """A turn ends after this much work."""
    campaigns_max: int = 512
    """In flight at one node. No setting: with 32, the failover of a node that led 500 groups took
    1.7 times as long, as heartbeats of groups that had a leader already came between the elections
    of the others. With these it takes as long as without a bound."""
    catch_up: CatchUpLimits
    pull_ticks: int = 2
    """An observer asks so often for what it lacks."""
    compaction: CompactionLimits
    leaders: LeaderLimits = field(default_factory=LeaderLimits)
    images: ImageLimits = field(default_factory=ImageLimits)
    scrubs: ScrubLimits = field(default_factory=ScrubLimits)
