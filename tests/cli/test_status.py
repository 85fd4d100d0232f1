"""What `raftlog status` finds in the nodes' answers."""

from __future__ import annotations

from raftlog.cli.status import topics_without_leader
from raftlog.client.watermark import NodeAnswer
from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.errors import NodeUnreachable
from raftlog.wire.calls import GroupView, NodeView


def view(node: int, group: int, topic: str, leader: int) -> GroupView:
    return GroupView(
        group=GroupId(group),
        topic=topic,
        incarnation=f"{topic}-{group}",
        node=NodeId(node),
        role="leader" if leader == node else "follower",
        leader=NodeId(leader),
        term=Term(1),
        last_index=LogIndex(1),
        commit_index=LogIndex(1),
        applied_index=LogIndex(1),
        log_start_offset=Offset(0),
        high_water_mark=Offset(0),
        open_epochs=0,
        staged_bytes=0,
        dead_bytes=0,
        state="trusted",
        state_hash="",
        followers=(),
    )


def test_a_topic_waits_for_a_leader_while_no_node_that_answers_knows_one() -> None:
    """Node 3 does not answer: what others believe it leads is not said to have no leader."""
    node_1 = [
        view(1, 0, "", 0),
        view(1, 1, "led here", 1),
        view(1, 2, "led there", 3),
        view(1, 3, "waits", 0),
        view(1, 4, "half known", 0),
        view(1, 5, "created again", 2),
    ]
    node_2 = [
        view(2, 3, "waits", 0),
        view(2, 4, "half known", 1),
        view(2, 7, "created again", 0),
    ]
    answers = [
        NodeAnswer(NodeId(1), "a:1", NodeView(node=NodeId(1), groups=tuple(node_1))),
        NodeAnswer(NodeId(2), "a:2", NodeView(node=NodeId(2), groups=tuple(node_2))),
        NodeAnswer(NodeId(3), "a:3", NodeUnreachable(address="a:3", problem="refused")),
    ]
    assert topics_without_leader(answers) == ["created again", "waits"]
