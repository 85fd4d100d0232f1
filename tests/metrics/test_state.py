"""What a scrape shows of a node as it stands: by topic up to a bound, and in sums without one."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.metrics.state import NodeState, PeerState, PositionState, StateCollector
from raftlog.wire.calls import FollowerView, GroupView
from tests.cli.test_status import view

STATE = NodeState(
    node=NodeId(1),
    cluster_id="c",
    version="1.2",
    groups=(),
    quarantined=2,
    peers=(PeerState(NodeId(2), True, 9, 0), PeerState(NodeId(3), False, 0, 4)),
    disk_keeps_up=False,
    disk_full=True,
    disk_free_bytes=25,
    disk_bytes=100,
    calls_in_flight=6,
    campaigns_waiting=3,
    loop_behind=True,
    budgets={"server.requests_max": 0.25},
    positions=(
        PositionState("etl", "a", Offset(40), 2),
        PositionState("etl", "b", Offset(7), None),
        PositionState("etl", "c", Offset(1), 0),
    ),
    rules=1,
    certificate_ends_s=1.8e9,
)


def shown(state: NodeState | None, topics_max: int = 100) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(StateCollector(lambda: state, topics_max))
    return registry


def topic(group: int, name: str, **more: object) -> GroupView:
    plain = replace(view(NodeId(1), 1, name, 1), group=GroupId(group), topic=name, incarnation="i")
    return replace(plain, **more)  # type: ignore[arg-type]


def test_a_node_shows_its_disk_its_peers_and_itself() -> None:
    found = shown(STATE).get_sample_value
    assert found("raftlog_node_info", {"node": "1", "cluster_id": "c", "version": "1.2"}) == 1
    assert found("raftlog_node_disk_full") == 1
    assert found("raftlog_node_disk_keeps_up") == 0
    assert found("raftlog_node_disk_free_bytes") == 25
    assert found("raftlog_node_replicas_quarantined") == 2
    assert found("raftlog_node_calls_in_flight") == 6
    assert found("raftlog_node_campaigns_waiting") == 3
    assert found("raftlog_node_loop_behind") == 1
    ends = "raftlog_node_certificate_ends_timestamp_seconds"
    assert found(ends) == 1.8e9
    assert shown(replace(STATE, certificate_ends_s=None)).get_sample_value(ends) is None
    assert [found("raftlog_peer_connected", {"peer": peer}) for peer in "23"] == [1, 0]
    assert [found("raftlog_peer_queued_bytes", {"peer": peer}) for peer in "23"] == [9, 0]
    assert [found("raftlog_peer_dropped_messages", {"peer": peer}) for peer in "23"] == [0, 4]


def test_replicas_are_shown_with_who_leads_and_who_is_behind() -> None:
    followers = (
        FollowerView(node=NodeId(1), match_index=LogIndex(90), contact_ms_ago=0),
        FollowerView(node=NodeId(2), match_index=LogIndex(70), contact_ms_ago=1500),
    )
    groups = (
        topic(1, "a", role="leader", leader=1, last_index=LogIndex(90), followers=followers),
        topic(2, "b", role="candidate", leader=0, followers=()),
        topic(3, "c", role="follower", leader=2, state="diverged", followers=()),
    )
    found = shown(replace(STATE, groups=groups)).get_sample_value
    assert [found("raftlog_group_leads", {"topic": name}) for name in "abc"] == [1, 0, 0]
    assert [found("raftlog_group_has_leader", {"topic": name}) for name in "abc"] == [1, 0, 1]
    assert [found("raftlog_group_differs", {"topic": name}) for name in "abc"] == [0, 0, 1]
    assert found("raftlog_node_replicas", {"role": "candidate"}) == 1
    assert found("raftlog_node_replicas_without_leader") == 1
    assert found("raftlog_node_differs") == 1
    behind = "raftlog_follower_behind_entries"
    assert found(behind, {"topic": "a", "follower": "2"}) == 20
    assert found(behind, {"topic": "a", "follower": "1"}) is None, "a leader follows nobody"
    assert found("raftlog_follower_contact_seconds", {"topic": "a", "follower": "2"}) == 1.5


def test_positions_of_readers_are_shown_up_to_the_bound_and_how_far_behind_they_are() -> None:
    found = shown(STATE, topics_max=2).get_sample_value

    def of(topic: str) -> dict[str, str]:
        return {"reader_group": "etl", "topic": topic}

    position, behind = "raftlog_reader_position", "raftlog_reader_behind_records"
    assert [found(position, of(topic)) for topic in "abc"] == [40, 7, None]
    assert [found(behind, of(topic)) for topic in "abc"] == [2, None, None]
    assert found("raftlog_node_budget_used_ratio", {"budget": "server.requests_max"}) == 0.25


def test_topics_beyond_the_bound_are_in_the_sums_only() -> None:
    topics = [topic(number, f"t{number}", log_bytes=10) for number in range(1, 8)]
    system = [
        replace(topic(0, "", log_bytes=1), incarnation=""),
        replace(topic(9, "(kv)", log_bytes=2), incarnation=""),
    ]
    registry = shown(replace(STATE, groups=(*reversed(topics), *system)), topics_max=3)
    samples = [
        sample.labels["topic"]
        for metric in registry.collect()
        if metric.name == "raftlog_group_log_bytes"
        for sample in metric.samples
    ]
    assert samples == ["(controller)", "(kv)", "t1", "t2", "t3"]
    assert registry.get_sample_value("raftlog_node_log_bytes") == 73
    assert registry.get_sample_value("raftlog_node_topics_without_series") == 4


def test_a_node_that_does_not_say_how_it_stands_says_that() -> None:
    registry = shown(None)
    assert registry.get_sample_value("raftlog_node_state_known") == 0
    assert [metric.name for metric in registry.collect()] == ["raftlog_node_state_known"]
    assert shown(STATE).get_sample_value("raftlog_node_state_known") == 1
