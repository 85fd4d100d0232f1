"""What the nodes' views of a topic say together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from raftlog.client.watermark import NodeAnswer, Watermark, watermark_of
from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.machines.commands import TopicInfo
from raftlog.records.schema_text import parse_schema
from raftlog.wire.calls import GroupView, NodeView

LEADER, FOLLOWER = NodeId(1), NodeId(2)
GROUP = GroupId(1)


def view(node: NodeId, high_water_mark: int, state: str = "trusted", role: str = "") -> GroupView:
    return GroupView(
        group=GROUP,
        topic="t",
        incarnation="i",
        node=node,
        role=role or ("leader" if node == LEADER else "follower"),
        leader=LEADER,
        term=Term(1),
        last_index=LogIndex(9),
        commit_index=LogIndex(9),
        applied_index=LogIndex(9),
        log_start_offset=Offset(0),
        high_water_mark=Offset(high_water_mark),
        open_epochs=0,
        staged_bytes=0,
        dead_bytes=0,
        state=state,
        log_start_index=LogIndex(1),
        log_bytes=64,
        snapshot_index=LogIndex(0),
        history_end=Offset(0),
        history_bytes=0,
        points_behind=0,
        history="trusted",
        state_hash="",
        followers=(),
    )


def watermark(views: Sequence[GroupView]) -> Watermark:
    topic = TopicInfo(
        name="t",
        incarnation="i",
        group=GROUP,
        schema=parse_schema("id bigint"),
        voters=(LEADER, FOLLOWER),
        created_us=0,
        rules=1,
    )
    answers = [
        NodeAnswer(each.node, f"a:{each.node}", NodeView(node=each.node, groups=(each,)))
        for each in views
    ]
    return watermark_of(topic, answers)


@pytest.mark.parametrize(
    ("leader", "follower", "lag"),
    [
        (view(LEADER, 10), view(FOLLOWER, 7), 3),
        (view(LEADER, 10), view(FOLLOWER, 11), 0),
        (view(LEADER, 10), view(FOLLOWER, 7, ""), 3),
        (view(LEADER, 10), view(FOLLOWER, 11, "diverged"), None),
        (view(LEADER, 10), view(FOLLOWER, 9, "disputed"), None),
        (view(LEADER, 10, "disputed"), view(FOLLOWER, 9), None),
    ],
)
def test_the_lag_in_records_is_never_negative_and_unknown_between_states_in_doubt(
    leader: GroupView, follower: GroupView, lag: int | None
) -> None:
    """A follower may have answered later than the leader; a diverged one numbers other records."""
    replicas = {each.node: each for each in watermark([leader, follower]).replicas}
    assert replicas[FOLLOWER].lag_records == lag


def test_without_a_leader_the_marks_are_not_those_of_a_diverged_replica() -> None:
    marks = watermark([view(NodeId(3), 12, "diverged"), view(FOLLOWER, 11)])
    assert (marks.leader, marks.high_water_mark) == (0, 11)


def test_a_replica_that_has_lost_its_log_knows_no_marks() -> None:
    recovering = view(NodeId(3), 5, role="recovering")
    marks = watermark([recovering])
    assert (marks.is_known, marks.high_water_mark) == (False, 0)
    marks = watermark([recovering, view(FOLLOWER, 4)])
    assert (marks.is_known, marks.high_water_mark) == (True, 4)
    assert not watermark([]).is_known
