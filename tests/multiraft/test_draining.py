"""Who lets others lead."""

from __future__ import annotations

from raftlog.core.membership import Membership
from raftlog.core.types import NodeId
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.multiraft.draining import lets_others_lead

ONE, TWO, THREE = map(NodeId, (1, 2, 3))
ABC = Membership((ONE, TWO, THREE))


def nodes(*drained: NodeId) -> dict[NodeId, KnownNode]:
    return {node: KnownNode("s", "a", 4, draining=node in drained) for node in (ONE, TWO, THREE)}


def test_a_drained_node_leads_nothing_while_another_voter_can() -> None:
    assert lets_others_lead(ONE, ABC, nodes(ONE), silent=())
    assert lets_others_lead(ONE, ABC, nodes(ONE, TWO), silent=())
    assert not lets_others_lead(ONE, ABC, nodes(TWO), silent=())
    assert not lets_others_lead(ONE, ABC, nodes(ONE, TWO, THREE), silent=()), "somebody must"
    assert not lets_others_lead(ONE, ABC, nodes(ONE, TWO), silent=(THREE,)), "the other is gone"
    assert not lets_others_lead(ONE, Membership((ONE,)), nodes(ONE), silent=())
    assert not lets_others_lead(ONE, Membership((ONE,), learners=(TWO,)), nodes(ONE), silent=())
    assert not lets_others_lead(ONE, ABC, {}, silent=()), "it is not known yet"
