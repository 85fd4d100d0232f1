"""What a node does with entries that it pulled before the cluster knew it."""

from __future__ import annotations

from pathlib import Path

from raftlog.core.messages import PulledEntries
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, LogIndex, NodeId, Term
from raftlog.multiraft.pulls import _Asked
from tests.multiraft.test_placed_replicas import TWO, Node


def test_an_answer_that_comes_when_the_node_leads_is_dropped(tmp_path: Path) -> None:
    node = Node(tmp_path)
    raft = node.multiraft.replicas.of_controller.raft
    assert raft.role is Role.LEADER
    last, term = raft.log.last_index, raft.term
    pulls = node.multiraft._observing.pulls
    pulls._asked[TWO] = _Asked(1, frozenset({CONTROLLER_GROUP}))
    late = PulledEntries(
        group=CONTROLLER_GROUP,
        sender=TWO,
        to=NodeId(1),
        term=Term(term - 1),
        leader=TWO,
        prev_index=LogIndex(0),
        prev_term=Term(0),
        entries=(),
        commit_index=LogIndex(last),
        base_index=LogIndex(0),
        held=True,
    )
    node.multiraft.receive(TWO, [late])
    assert raft.role is Role.LEADER
    assert raft.log.last_index == last
