"""`raftlog top`: rates between two looks, and what of many replicas stands for a topic."""

from __future__ import annotations

from dataclasses import replace

from raftlog.cli.top import TopicNow, seen
from raftlog.core.types import LogIndex, NodeId, Offset, Term
from raftlog.wire.calls import FollowerView, GroupView
from tests.cli.test_status import view


def replica(node: int, topic: str, leader: int, mark: int, **more: object) -> GroupView:
    plain = view(node, 1, topic, leader)
    return replace(plain, high_water_mark=Offset(mark), **more)  # type: ignore[arg-type]


def test_a_topic_is_as_its_leader_says_and_its_end_is_the_furthest() -> None:
    followers = (
        FollowerView(node=NodeId(2), match_index=LogIndex(90), contact_ms_ago=0),
        FollowerView(node=NodeId(3), match_index=LogIndex(70), contact_ms_ago=0),
    )
    leader = {"last_index": LogIndex(100), "followers": followers, "log_bytes": 7}
    groups = [
        replica(2, "t", 1, 50, log_bytes=9),
        replica(1, "t", 1, 40, log_start_offset=Offset(10), term=Term(4), **leader),
        replica(3, "t", 1, 30),
    ]
    (found,) = seen(groups, 1.0, None).topics
    assert found == TopicNow(
        topic="t", leader=1, term=4, records_per_s=0.0, records=40, staged_bytes=0, log_bytes=7,
        history_bytes=0, replicas=3, behind_entries=30,
    )  # fmt: skip


def test_rates_are_of_the_time_between_two_looks_and_order_the_topics() -> None:
    before = seen([replica(1, "a", 1, 10), replica(1, "b", 1, 10)], 1.0, None)
    after = [replica(1, "a", 1, 20), replica(1, "b", 1, 50), replica(1, "new", 1, 5)]
    topics = seen(after, 3.0, before).topics
    assert [(each.topic, each.records_per_s) for each in topics] == [
        ("b", 20.0), ("a", 5.0), ("new", 0.0),
    ]  # fmt: skip


def test_a_topic_that_was_created_again_did_not_lose_records() -> None:
    before = seen([replica(1, "a", 1, 90)], 1.0, None)
    again = seen([replica(1, "a", 1, 3, incarnation="another")], 2.0, before)
    assert again.topics[0].records_per_s == 0.0


def test_without_a_leader_nobody_knows_who_is_behind() -> None:
    (found,) = seen([replica(2, "t", 0, 5), replica(3, "t", 0, 5)], 1.0, None).topics
    assert (found.leader, found.behind_entries, found.replicas) == (0, None, 2)
