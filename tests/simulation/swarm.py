"""The settings of one simulation, drawn from its seed: each seed has its own mixture of faults.

Uniform faults find about half of the planted bugs; settings that differ from seed to seed, with
some faults absent and others frequent, find most.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import NamedTuple

from raftlog.core.types import RaftTiming, lease_length_us
from raftlog.machines.settings import (
    RETENTION_RECORDS,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
)
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.image_fetch import ImageLimits
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.scrubs import ScrubLimits
from raftlog.storage.limits import LogLimits

MILLISECOND = 1_000
SECOND = 1_000_000

UNREAD_S_SHORT = 1
"""So long unread records stay in some seeds; a simulation waits for it at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times in microseconds, rates as shares of 1; a fault's weight 0 means that it is absent."""

    nodes: int
    topics: int
    founded: bool
    """Are the topics made before anything goes wrong?"""
    chaos_us: int
    """How long faults are injected; healing follows."""
    chaos_events_max: int
    """Healing follows as well after so many events."""
    pace: int
    """So many times longer clients think while faults are injected."""
    busy_while_healing: bool
    """Do clients go on as before while nodes and groups come back? They rest otherwise."""
    # time
    tick_us: int
    tick_drift: float
    """Nodes' ticks differ by up to this share."""
    turn_us: int
    """Inputs within this time go into one turn of a node."""
    work_us: int
    """What a node's work between two looks at the clock takes, at most: turns of 1 ms end early."""
    timing: RaftTiming
    # network
    latency_us: int
    spike_share: float
    """Frames that take up to an election timeout."""
    loss: float
    duplication: float
    reordering: float
    chunk_damage: float
    """Chunks of images that come with another byte."""
    # disk
    write_us: int
    read_notice_us: int
    """How long after it ran a read for a follower is reported, at most."""
    catch_up: CatchUpLimits
    log_limits: LogLimits
    compaction: CompactionLimits
    small_file_bytes: int
    """Of history files."""
    images: ImageLimits
    scrubs: ScrubLimits
    idle_ticks: int
    slow_disk_ticks: int
    full_disk_ticks: int
    # faults
    fault_interval_us: int
    """The mean time between two faults."""
    fault_us: int
    """The mean time that a fault lasts."""
    weights: tuple[tuple[str, int], ...]
    damage_weight: int
    """The same for `DAMAGE` and `DAMAGED_LOG`."""
    changes_members: bool
    """Are groups placed on other nodes now and then? A majority of the nodes has each at least. Not
    with damage on three nodes: of two voters it may cost what nobody else has."""
    replaces_nodes: bool
    """Is a node wiped, and replaced by another one? Only where members change without damage."""
    moves_leaders: bool
    """Are leaders told to hand their role over now and then, and nodes to stop?"""
    leaders: LeaderLimits
    observers: int
    """How many there are."""
    crash_in_recovery: float
    # workload
    producers: int
    window: int
    writers: int
    rivals: float
    readers: int
    expiries: bool
    """Open epochs' leases run out, as if their writers were slow."""
    trims: bool
    """The oldest records are removed now and then."""
    arrow_share: float
    """Batches that are Arrow's, so that they can be merged."""
    retention: tuple[tuple[str, int], ...]
    """Settings of the topics: what of their oldest records goes by itself."""
    retention_ticks: int
    records_max: int
    body_padding: int
    think_us: int
    request_timeout_us: int
    request_bytes_max: int
    quiesce_refresh_ticks: int
    # drawn by `with_later_parts`
    overwrites: float = 0.0
    """Epochs whose records take the place of all that are visible."""
    alterers: int = 0
    """Clients of each topic that alter its schema now and then."""
    reader_groups: tuple[bool, ...] = ()
    """Those of each topic, if its retention waits for them: whether each stops at some time."""
    # drawn by `with_wider_clusters`
    starved_weight: int = 0
    """The same as `weights` for `STARVED`."""
    damages_logs: bool = True
    """Is `DAMAGED_LOG` among the damage? Of two voters it may cost what nobody else has."""

    @property
    def clock_drift_max(self) -> float:
        """By how much the slowest node's clock is behind the fastest one's, as a share."""
        return 1 - (1 - self.tick_drift) / (1 + self.tick_drift)

    @property
    def election_us(self) -> int:
        """The longest election timeout of the slowest node."""
        slowest = self.tick_us * (1 + self.tick_drift)
        return int(2 * self.timing.election_ticks_min * slowest)

    def lines(self) -> list[str]:
        return [f"{field.name} = {getattr(self, field.name)}" for field in fields(self)]


CLOCK_SPEED = "clock speed"
"""With leases it is absent: they allow for the drift that clocks begin with."""

LEADER_CUT_OFF = "leader cut off"

WEIGHTS = {LEADER_CUT_OFF: (0, 2, 5, 10, 20)}
"""Of faults that are drawn more often: few clients ask a leader before it knows that it is none."""

FAULTS = (
    "one-way cut",
    "partition",
    LEADER_CUT_OFF,
    "pause",
    "kill",
    "power loss",
    "power loss of all",
    "long outage",
    "crash at a write",
    "failed sync",
    "slow disk",
    "overtaken while its disk stalls",
    "full disk",
    "reset",
    "clock jump",
    CLOCK_SPEED,
)
"""The faults that are planned one by one, by weight."""

STARVED = "event loop starved"
"""Only in wider seeds (`with_wider_clusters`)."""

DAMAGE = "damage at rest"
DAMAGED_LOG = "log damaged while its node is down"
"""Two more, in some seeds."""

WEATHER = (
    "frame lost",
    "frame cut",
    "frame doubled",
    "frame overtaken",
    "frame late",
    "chunk damaged",
    "call lost",
    "crash in recovery",
    "crash within a write",
    "write torn by a crash",
    "sync failed: the process ended",
    "torn tail of a log truncated",
    "torn tail of the journal truncated",
)
"""What rates and the faults above cause: each must occur when many seeds run."""


def draw(random: Random) -> Settings:
    """The settings of a seed.

    Ticks are drawn so that election timeouts lie around production's, a second or two, and half
    as long or five times as long in some seeds. What should last some election timeouts, or
    happen a few times in one, is drawn in ticks; what a network or a disk does, in seconds.
    """
    pick = random.choice
    tick_us = pick((50, 100, 200, 500, 1_000)) * MILLISECOND
    settings = Settings(
        nodes=(nodes := pick((3, 3, 3, 3, 3, 3, 5, 1))),
        topics=pick((1, 1, 1, 2)),
        founded=pick((*[True] * 15, False)),
        chaos_us=(chaos := _chaos(random, tick_us)).us,
        chaos_events_max=chaos.events_max,
        pace=chaos.pace,
        tick_us=tick_us,
        tick_drift=pick((0.0, 0.05, 0.3)),
        turn_us=pick((0, 50, 2_000)),
        work_us=pick((1, 100, 2_000)),
        timing=(timing := _timing(random)),
        latency_us=pick((100, 1_000, 5_000, 20_000)),
        spike_share=pick((0.0, 0.0, 0.02, 0.1)),
        loss=pick((0.0, 0.0, 0.05, 0.15)),
        duplication=pick((0.0, 0.0, 0.1, 0.3)),
        reordering=pick((0.0, 0.0, 0.1, 0.4)),
        write_us=pick((200, 2_000, 10_000, 50_000)),
        read_notice_us=pick((1, 2_000, 20 * tick_us)),
        catch_up=_catch_up(random, tick_us),
        log_limits=_log_limits(random),
        compaction=_compaction(random),
        images=_images(random),
        idle_ticks=pick((3, 10)),
        slow_disk_ticks=pick((5, 20, 60)),
        full_disk_ticks=pick((2, 10)),
        fault_interval_us=chaos.fault_interval_us,
        fault_us=pick((3, 10, 25)) * tick_us,
        weights=tuple((fault, pick(WEIGHTS.get(fault, (0, 0, 1, 2, 5)))) for fault in FAULTS),
        crash_in_recovery=pick((0.0, 0.1, 0.4)),
        producers=pick((1, 2)),
        window=pick((1, 1, 2, 3)),
        writers=pick((0, 1, 2)),
        rivals=pick((0.0, 0.6)),
        readers=pick((1, 2)),
        expiries=pick((False, True)),
        records_max=pick((1, 5, 30)),
        body_padding=pick((0, 10, 300)),
        think_us=int(pick((0.25, 0.75, 1.5, 3)) * tick_us),
        request_bytes_max=pick((1_000, 1_000_000)),
        quiesce_refresh_ticks=pick((10, 100, 600)),
        request_timeout_us=pick((8, 16, 50)) * tick_us,
        trims=pick((False, False, True)),
        arrow_share=pick((0.0, 0.5, 1.0)),
        retention=pick((*[()] * 4, *_RETENTIONS)),
        retention_ticks=pick((3, 10)),
        chunk_damage=pick((0.0, 0.2)),
        small_file_bytes=pick((0, 1_000, 1_000_000)),
        scrubs=_scrubs(random, tick_us),
        damage_weight=(damage_weight := pick((0, 0, 20))),
        changes_members=pick((False, True)) and nodes > (3 if damage_weight else 1),
        moves_leaders=pick((False, True)),
        leaders=_leaders(random),
        observers=pick((0, 0, 0, 1, 3)),
        replaces_nodes=pick((False, True)),
        busy_while_healing=pick((False, False, True)) and _outpaces_clients(timing),
    )
    return with_leases(settings) if pick((False, False, True)) else settings


def _outpaces_clients(timing: RaftTiming) -> bool:
    """Does a node that is behind get entries faster than clients write them, as real nodes do? With
    an entry or two in one request at a time, what it lacks would never become less."""
    is_small = timing.append_entries_max == 2 or timing.append_bytes_max == 200
    return timing.inflight_requests_max > 1 or not is_small


def with_later_parts(settings: Settings, random: Random) -> Settings:
    """The same with what topics learned later. It has a stream of chance of its own, so that the
    other settings of a seed stay as they are."""
    pick = random.choice
    settings = replace(
        settings,
        overwrites=pick((0.0, 0.0, 0.0, 0.2, 1.0)),
        alterers=pick((0, 0, 0, 1, 2)),
    )
    return _with_reader_groups(settings, random) if pick((False, False, False, True)) else settings


WIDER_FROM = 2_000
"""The first seed that `with_wider_clusters` may change. Hunts of planted bugs name earlier ones, so
these stay the histories that they are."""


def with_wider_clusters(settings: Settings, random: Random) -> Settings:
    """The same with clusters of even sizes and of seven nodes, with damage while members change,
    and with event loops that hardly run. It has a stream of chance of its own."""
    pick = random.choice
    nodes = pick((2, 4, 7, *[settings.nodes] * 3))
    damage_weight = pick((0, 20))
    changes_members = pick((False, True)) and nodes > 2
    return replace(
        settings,
        nodes=nodes,
        chaos_events_max=settings.chaos_events_max * max(nodes, 3) // 3,
        starved_weight=pick((0, 5, 20)),
        damage_weight=damage_weight,
        changes_members=changes_members,
        damages_logs=_voters_min(nodes, changes_members=changes_members) > 2,
    )


def _voters_min(nodes: int, *, changes_members: bool) -> int:
    """The fewest voters that a group of so many nodes has at any time."""
    return nodes // 2 + 1 if changes_members else nodes


def _with_reader_groups(settings: Settings, random: Random) -> Settings:
    """The same with retention that waits for readers, and has soon something to remove."""
    pick = random.choice
    return replace(
        settings,
        retention=(*pick(_RETENTIONS_SOON), *pick(_UNREAD)),
        retention_ticks=3,
        reader_groups=pick(((False,), (True,), (False, False), (False, True))),
    )


def with_leases(settings: Settings) -> Settings:
    """The same with leases, as long as they may be; so clocks run as evenly as that takes."""
    lease_us = lease_length_us(
        election_ticks_min=settings.timing.election_ticks_min,
        tick_us=settings.tick_us,
        clock_drift_max=settings.clock_drift_max,
    )
    weights = tuple((name, 0 if name == CLOCK_SPEED else n) for name, n in settings.weights)
    timing = replace(settings.timing, lease_us=lease_us)
    return replace(settings, timing=timing, weights=weights)


class _Chaos(NamedTuple):
    """How long faults go on, how close together they are, and how busy clients are meanwhile."""

    us: int
    events_max: int
    fault_interval_us: int
    pace: int


def _chaos(random: Random, tick_us: int) -> _Chaos:
    """Short histories with faults close together find most bugs soonest; some take long ones, and
    some take a cluster that is idle for long."""
    pick = random.choice
    match pick((*["short"] * 18, "long", "idle")):
        case "short":
            ticks, events_max = pick((30, 100)), pick((200, 340))
            interval, pace = pick((1, 2, 4, 8)), pick((1, 3, 9))
        case "long":
            ticks, events_max = pick((200, 800)), 3_000
            interval, pace = pick((2, 5, 10)), pick((1, 3))
        case _:
            ticks, events_max = 2_000, 3_000
            interval, pace = pick((20, 40)), 30
    return _Chaos(ticks * tick_us, events_max, interval * tick_us, pace)


def _catch_up(random: Random, tick_us: int) -> CatchUpLimits:
    pick = random.choice
    return CatchUpLimits(
        peer_bytes_max=pick((100, 2_000, 1_000_000)),
        node_bytes_max=pick((1_000, 1_000_000)),
        bytes_per_s=pick((10_000, 1_000_000)) * 1_000_000 // tick_us,
    )


def _log_limits(random: Random) -> LogLimits:
    pick = random.choice
    return LogLimits(
        segment_bytes_max=pick((2_000, 10_000, 1_000_000)),
        preallocate_bytes=pick((0, 4_096, 65_536)),
        payload_cache_bytes_max=pick((0, 20_000, 1_000_000)),
    )


def _leaders(random: Random) -> LeaderLimits:
    pick = random.choice
    return LeaderLimits(
        spread=pick((False, True)),
        delay_ticks=pick((2, 10, 50)),
        look_ticks=pick((3, 20)),
        moves_max=pick((1, 10)),
    )


def _images(random: Random) -> ImageLimits:
    pick = random.choice
    return ImageLimits(
        chunk_bytes=pick((700, 5_000, 1_000_000)),
        chunks_ahead=pick((2, 8)),
        fetches_max=pick((1, 4)),
        resend_ticks=(resend_ticks := pick((3, 8))),
        switch_ticks=resend_ticks // 2,
        give_up_ticks=pick((10, 30)),
        pin_ticks=pick((3, 60)),
    )


_RETENTIONS = (
    ((RETENTION_RECORDS, 5),),
    ((RETENTION_RECORDS, 40),),
    ((RETENTION_S, 2),),
    ((RETENTION_S, 600),),
)

_RETENTIONS_SOON = (
    ((RETENTION_RECORDS, 1),),
    ((RETENTION_RECORDS, 5),),
    ((RETENTION_S, 1),),
)

_UNREAD = (
    ((RETENTION_UNREAD_S, UNREAD_S_SHORT),),
    ((RETENTION_UNREAD_S, UNREAD_S_SHORT),),
    ((RETENTION_UNREAD_S, 600),),
    ((RETENTION_UNREAD_BYTES, 1_000),),
    ((RETENTION_UNREAD_BYTES, 1_000_000),),
)


def _scrubs(random: Random, tick_us: int) -> ScrubLimits:
    pick = random.choice
    period_us = pick((0, 0, 20, 200)) * tick_us
    return ScrubLimits(period_us=period_us, bytes_per_tick=pick((5_000, 1_000_000)))


def _compaction(random: Random) -> CompactionLimits:
    pick = random.choice
    return CompactionLimits(
        entries_max=pick((8, 20, 50, 1_000_000)),
        bytes_max=pick((2_000, 1_000_000)),
        behind_bytes_max=pick((0, 3_000, 1_000_000)),
        backlog_max=4,
        age_ticks=pick((20, 1_000_000)),
        node_entries_max=pick((30, 1_000_000)),
    )


def _timing(random: Random) -> RaftTiming:
    pick = random.choice
    return RaftTiming(
        heartbeat_ticks=pick((1, 2)),
        election_ticks_min=pick((5, 6, 8, 10)),
        leader_lost_jitter_ticks=pick((0, 2, 4)),
        append_entries_max=pick((2, 8, 64)),
        append_bytes_max=pick((200, 4_000, 1_000_000)),
        inflight_requests_max=pick((1, 3, 8)),
        resend_ticks=pick((2, 5)),
        unapplied_entries_max=pick((16, 1_000)),
        pending_reads_max=64,
        quiesce_after_ticks=pick((0, 1, 3, 20)),
    )
