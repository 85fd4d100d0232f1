"""Settings of consensus, and the ticks and counts that the core gets of them."""

from __future__ import annotations

import math

from raftlog.config_section import KIB, MIB, Section, setting
from raftlog.core.types import RaftTiming, lease_length_us


class RaftSettings(Section):
    """Consensus. Seconds here become ticks: `timing()`."""

    tick_interval_s: float = setting(
        0.05, "The core's unit of time. All times below are multiples of it.", gt=0, le=1
    )
    election_timeout_min_s: float = setting(
        1.0,
        "A follower without a leader campaigns after this to twice as long, at random (Raft "
        "section 5.2). The default is for three nodes and a JVM on two cores, as in tests and on "
        "laptops. A killed leader is noticed sooner, because its connection is reset.",
        gt=0,
        le=60,
    )
    heartbeat_interval_s: float = setting(
        0.1, "Between two heartbeats of a leader; at most half the election timeout.", gt=0, le=30
    )
    leader_lost_jitter_max_s: float = setting(
        0.15,
        "After a leader's process dies, a follower waits 0 to this long before it starts a "
        "pre-vote, so that not all start at once.",
        ge=0,
        le=10,
    )
    slow_disk_timeout_s: float = setting(
        2.0,
        "A node on which a write to disk takes longer than this lets others lead, if a majority "
        "of them is ahead of it.",
        gt=0,
        le=600,
    )
    resend_timeout_s: float = setting(
        0.5, "A follower's unanswered append requests are sent again after this.", gt=0, le=60
    )
    append_entries_max: int = setting(1024, "Entries in one append request.", ge=1, le=65536)
    append_bytes_max: int = setting(
        MIB,
        "Bytes in one append request; one entry always fits. A heartbeat waits for one of them on "
        "the wire: with 4 MiB it waited several times as long, for no more throughput.",
        ge=64 * KIB,
        le=256 * MIB,
    )
    inflight_requests_max: int = setting(
        32, "Append requests in flight to one follower.", ge=1, le=1024
    )
    unapplied_entries_max: int = setting(
        16384,
        "Entries of a group that may await commit and apply. Further writes are refused as "
        "Overloaded.",
        ge=1,
    )
    pending_reads_max: int = setting(
        4096,
        "Linearizable reads of a group that may await their round. Further ones are refused as "
        "Overloaded.",
        ge=1,
    )

    quiesce_after_s: float = setting(
        1.0,
        "A topic that was neither written nor asked for its mark for this long quiesces: it sends "
        "no heartbeats and runs no timers until something is asked of it. Its nodes watch one "
        "another once for all quiesced topics. 0: topics never quiesce.",
        ge=0,
        le=3600,
    )
    quiesce_refresh_s: float = setting(
        30.0,
        "After half to all of this time, a quiesced topic's leader asks its followers whether they "
        "are still quiesced. A follower that was not asked for twice this time looks for a leader "
        "by itself. A safety net: nothing known needs it.",
        gt=0,
        le=3600,
    )

    leader_lease: bool = setting(
        False,
        "A leader answers strong reads without a round of heartbeats while a majority's latest "
        "answers promise that no other node leads yet. It rests on clocks, so it is off. With it, "
        "the failure of a leader is always noticed by the election timeout, never by its "
        "connection's reset, and a node that starts votes only after one. Use it on all nodes or "
        "on none: answers of a node without it do not count.",
    )
    lease_clock_drift_share_max: float = setting(
        0.1,
        "So much slower than another node's may a node's monotonic clock run. A lease is shorter "
        "than the election timeout by it. If clocks differ more, a strong read may be stale. Sound "
        "ones differ by less than 0.001; that of a virtual machine may stand still while the "
        "machine is frozen.",
        ge=0,
        le=0.9,
    )

    preferred_leaders: bool = setting(
        True,
        "Spread the leaders of topics evenly over the nodes that hold them, also after a restart. "
        "false: they stay where the last election put them.",
    )
    preferred_leader_delay_s: float = setting(
        5.0,
        "A topic goes back to the node that should lead it once that could have done so for this "
        "long.",
        ge=0,
        le=3600,
    )
    preferred_leader_moves_per_s_max: int = setting(
        10,
        "So many topics a second does a node hand to the nodes that should lead them.",
        ge=1,
        le=1000,
    )

    def timing(self) -> RaftTiming:
        """The core's numbers in ticks. Times are rounded up, never shorter than the setting."""
        return RaftTiming(
            election_ticks_min=self._ticks(self.election_timeout_min_s),
            heartbeat_ticks=self._ticks(self.heartbeat_interval_s),
            leader_lost_jitter_ticks=self._ticks(self.leader_lost_jitter_max_s),
            append_entries_max=self.append_entries_max,
            append_bytes_max=self.append_bytes_max,
            inflight_requests_max=self.inflight_requests_max,
            resend_ticks=self._ticks(self.resend_timeout_s),
            unapplied_entries_max=self.unapplied_entries_max,
            quiesce_after_ticks=self._ticks(self.quiesce_after_s),
            pending_reads_max=self.pending_reads_max,
            lease_us=self.lease_us(),
        )

    def lease_us(self) -> int:
        """How long a leader's lease lasts, microseconds; 0: there is none."""
        if not self.leader_lease:
            return 0
        return lease_length_us(
            election_ticks_min=self._ticks(self.election_timeout_min_s),
            tick_us=round(self.tick_interval_s * 1_000_000),
            clock_drift_max=self.lease_clock_drift_share_max,
        )

    def slow_disk_ticks(self) -> int:
        """`slow_disk_timeout_s` in ticks."""
        return self._ticks(self.slow_disk_timeout_s)

    def quiesce_refresh_ticks(self) -> int:
        """`quiesce_refresh_s` in ticks."""
        return self._ticks(self.quiesce_refresh_s)

    def preferred_leader_delay_ticks(self) -> int:
        """`preferred_leader_delay_s` in ticks."""
        return self._ticks(self.preferred_leader_delay_s)

    def ticks_per_s(self) -> int:
        """A second in ticks."""
        return self._ticks(1.0)

    def _ticks(self, seconds: float) -> int:
        # Rounded first: 0.15 / 0.05 is 2.9999999999999996, and so is 0.3 / 0.1.
        return math.ceil(round(seconds / self.tick_interval_s, 6))
