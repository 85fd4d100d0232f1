"""What stands at the moment of a scrape: a node's replicas, its peers and its disk.

It is read on the node's loop, some groups at a time, and reported from the scraper's thread. So a
scrape of many topics delays no call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftlog.core.types import NodeId, Offset
from raftlog.wire.calls import GroupView

CONTROLLER = "(controller)"
"""The controller's group, where a label names a topic."""


class PeerState(NamedTuple):
    """A node's stream to another one."""

    peer: NodeId
    connected: bool
    queued_bytes: int
    dropped_messages: int
    """Since the stream opened."""


class PositionState(NamedTuple):
    """How far a reader group is in a topic."""

    reader_group: str
    topic: str
    offset: Offset
    """The first offset that it has not processed."""
    behind: int | None
    """Records that it has not; None: this node does not hold the topic, or another one has its name
    now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node as it stands."""

    node: NodeId
    cluster_id: str
    version: str
    groups: Sequence[GroupView]
    quarantined: int
    peers: Sequence[PeerState]
    disk_keeps_up: bool
    disk_full: bool
    disk_free_bytes: int
    disk_bytes: int
    calls_in_flight: int
    campaigns_waiting: int
    loop_behind: bool
    budgets: Mapping[str, float]
    """By setting, how much of it is used: from 0 to 1, or a little more."""
    positions: Sequence[PositionState]
    """Of reader groups; none where another node leads the key-value store."""
    rules: int
    certificate_ends_s: float | None
    """When the certificate that it shows ends, seconds since 1970; None: it has no TLS."""


class _Shown(NamedTuple):
    """One gauge of each group."""

    name: str
    about: str
    value: Callable[[GroupView], float]
    summed: bool = False
    """Whether a sum over all groups is shown as well, as `raftlog_node_...`."""


_OF_GROUPS = (
    _Shown("leads", "1 where this node leads the group.", lambda g: g.role == "leader"),
    _Shown("has_leader", "1 where this node knows who leads the group.", lambda g: g.leader != 0),
    _Shown("term", "The replica's term.", lambda g: g.term),
    _Shown("last_index", "The last entry of the replica's log.", lambda g: g.last_index),
    _Shown("commit_index", "The last entry known to be committed.", lambda g: g.commit_index),
    _Shown("applied_index", "The last entry that was applied.", lambda g: g.applied_index),
    _Shown("log_start_offset", "The first offset that is kept.", lambda g: g.log_start_offset),
    _Shown("high_water_mark", "The first offset not served yet.", lambda g: g.high_water_mark),
    _Shown("log_bytes", "Bytes of the log's files.", lambda g: g.log_bytes, summed=True),
    _Shown("history_bytes", "Bytes of history files.", lambda g: g.history_bytes, summed=True),
    _Shown("staged_bytes", "Bytes of epochs not committed.", lambda g: g.staged_bytes, summed=True),
    _Shown("open_epochs", "Epochs not committed yet.", lambda g: g.open_epochs, summed=True),
    _Shown(
        "points_behind",
        "Snapshot points applied and not compacted yet.",
        lambda g: g.points_behind,
        summed=True,
    ),
    _Shown(
        "records_held",
        "Records that retention keeps only for a reader group.",
        lambda g: g.records_held,
        summed=True,
    ),
    _Shown(
        "differs",
        "Replicas whose state or history is not what a majority has: 0 or 1.",
        lambda g: not {g.state, g.history} <= {"", "trusted"},
        summed=True,
    ),
    _Shown(
        "damage_found",
        "Damaged entries and files met since the node started.",
        lambda g: g.damage_found,
        summed=True,
    ),
    _Shown(
        "damage_healed",
        "Damaged entries and files that are whole again.",
        lambda g: g.damage_healed,
        summed=True,
    ),
    _Shown(
        "damage_not_healable",
        "Damaged entries and files that no other replica could give.",
        lambda g: g.damage_not_healable,
        summed=True,
    ),
)


class StateCollector(Collector):
    """Shows `read()`, which may be called from any thread, to prometheus-client."""

    def __init__(self, read: Callable[[], NodeState | None], topics_max: int) -> None:
        """`read` gives None if the node does not answer. The first `topics_max` topics get series
        of their own."""
        self._read = read
        self._topics_max = topics_max

    def describe(self) -> Iterable[Metric]:
        """Nothing: it would have to ask for the state before there is one."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The state now."""
        state = self._read()
        yield GaugeMetricFamily(
            "raftlog_node_state_known",
            "0 where the node's loop did not say in time what stands: then nothing below is told.",
            value=float(state is not None),
        )
        if state is None:
            return
        yield from _of_node(state)
        yield from _of_peers(state)
        groups = sorted(state.groups, key=lambda each: each.group)
        system = [each for each in groups if not each.incarnation]
        topics = [each for each in groups if each.incarnation]
        shown = system + topics[: self._topics_max]
        for gauge in _OF_GROUPS:
            family = GaugeMetricFamily(f"raftlog_group_{gauge.name}", gauge.about, labels=["topic"])
            for group in shown:
                family.add_metric([_label(group)], float(gauge.value(group)))
            yield family
            if gauge.summed:
                yield GaugeMetricFamily(
                    f"raftlog_node_{gauge.name}",
                    f"{gauge.about.removesuffix('.')}, over all groups.",
                    value=sum(float(gauge.value(group)) for group in groups),
                )
        yield from _of_followers(shown)
        yield from _of_readers(state.positions[: self._topics_max])
        yield GaugeMetricFamily(
            "raftlog_node_topics_without_series",
            "Topics on this node beyond metrics.topics_max.",
            value=len(topics) - len(topics[: self._topics_max]),
        )


def _label(group: GroupView) -> str:
    return group.topic or CONTROLLER


def _of_node(state: NodeState) -> Iterator[Metric]:
    about = GaugeMetricFamily(
        "raftlog_node_info", "1, for the labels.", labels=["node", "cluster_id", "version"]
    )
    about.add_metric([str(state.node), state.cluster_id, state.version], 1)
    yield about
    roles = Counter(group.role for group in state.groups)
    replicas = GaugeMetricFamily("raftlog_node_replicas", "Replicas by role.", labels=["role"])
    raft_roles = ("leader", "follower", "candidate", "pre-candidate")
    for role in (*raft_roles, "observer", "recovering", "incomplete"):
        replicas.add_metric([role], roles[role])
    yield replicas
    for name, told, value in (
        ("replicas_quarantined", "Groups without a replica here: damaged.", state.quarantined),
        (
            "replicas_without_leader",
            "Replicas that know of no leader.",
            sum(group.leader == 0 for group in state.groups),
        ),
        ("disk_keeps_up", "0 where writes take too long or find no room.", state.disk_keeps_up),
        ("disk_full", "1 where a write found no room.", state.disk_full),
        ("disk_free_bytes", "Bytes free where the data is.", state.disk_free_bytes),
        ("disk_bytes", "Bytes of the file system where the data is.", state.disk_bytes),
        ("calls_in_flight", "Calls that are being answered.", state.calls_in_flight),
        (
            "campaigns_waiting",
            "Replicas that would campaign for their groups and wait for their turn.",
            state.campaigns_waiting,
        ),
        (
            "loop_behind",
            "1 where groups wait for the node's loop for longer than a tick.",
            state.loop_behind,
        ),
        ("rules", "The version of the rules that the cluster permits.", state.rules),
    ):
        yield GaugeMetricFamily(f"raftlog_node_{name}", told, value=float(value))
    budgets = GaugeMetricFamily(
        "raftlog_node_budget_used_ratio",
        "How much of what a setting allows is used. At 1 more of it waits, or is refused.",
        labels=["budget"],
    )
    for budget, used in state.budgets.items():
        budgets.add_metric([budget], used)
    yield budgets
    if state.certificate_ends_s is not None:
        yield GaugeMetricFamily(
            "raftlog_node_certificate_ends_timestamp_seconds",
            "When the node's certificate ends, seconds since 1970. Only with TLS.",
            value=state.certificate_ends_s,
        )


_OF_PEERS: tuple[tuple[str, str, Callable[[PeerState], float]], ...] = (
    ("connected", "1 where there is a stream to the peer.", lambda p: p.connected),
    ("queued_bytes", "Bytes that wait to be sent to the peer.", lambda p: p.queued_bytes),
    (
        "dropped_messages",
        "Messages since the stream opened for which the queue had no room.",
        lambda p: p.dropped_messages,
    ),
)


def _of_peers(state: NodeState) -> Iterator[Metric]:
    for name, about, of in _OF_PEERS:
        family = GaugeMetricFamily(f"raftlog_peer_{name}", about, labels=["peer"])
        for peer in state.peers:
            family.add_metric([str(peer.peer)], float(of(peer)))
        yield family


def _of_readers(positions: Iterable[PositionState]) -> Iterator[Metric]:
    labels = ["reader_group", "topic"]
    offsets = GaugeMetricFamily(
        "raftlog_reader_position",
        "The first offset that a reader group has not processed, as it said last. Told by the "
        "node that leads the key-value store, of the first metrics.topics_max positions.",
        labels=labels,
    )
    behind = GaugeMetricFamily(
        "raftlog_reader_behind_records",
        "Records that a reader group has not processed, where that node holds the topic.",
        labels=labels,
    )
    for each in positions:
        offsets.add_metric([each.reader_group, each.topic], each.offset)
        if each.behind is not None:
            behind.add_metric([each.reader_group, each.topic], each.behind)
    yield offsets
    yield behind


def _of_followers(groups: Iterable[GroupView]) -> Iterator[Metric]:
    behind = GaugeMetricFamily(
        "raftlog_follower_behind_entries",
        "Entries of the leader's log that the follower does not hold yet.",
        labels=["topic", "follower"],
    )
    contact = GaugeMetricFamily(
        "raftlog_follower_contact_seconds",
        "How long ago the leader heard from the follower.",
        labels=["topic", "follower"],
    )
    for group in groups:
        for follower in group.followers:
            if follower.node == group.node:
                continue
            labels = [_label(group), str(follower.node)]
            behind.add_metric(labels, max(0, group.last_index - follower.match_index))
            contact.add_metric(labels, follower.contact_ms_ago / 1000)
    yield behind
    yield contact
