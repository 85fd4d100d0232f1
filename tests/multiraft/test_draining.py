"""When a drained node lets others lead."""

from __future__ import annotations

from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership
from raftlog.core.types import LogIndex, NodeId
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.multiraft.draining import others_can_lead

ONE, TWO, THREE = map(NodeId, (1, 2, 3))
ABC = Membership((ONE, TWO, THREE))
COMMIT, LAST = LogIndex(8), LogIndex(9)


def view(
    node: NodeId, match: int = LAST, *, silent: int = 0, recovering: bool = False
) -> FollowerView:
    return FollowerView(
        node=node,
        match_index=LogIndex(match),
        contact_ticks=silent,
        next_index=LogIndex(match + 1),
        probing=False,
        behind_base=False,
        recovering=recovering,
    )


def can(membership: Membership, *views: FollowerView, drained: tuple[NodeId, ...] = ()) -> bool:
    nodes = {
        node: KnownNode("s", "a", 4, draining=node in (ONE, *drained)) for node in (ONE, TWO, THREE)
    }
    return others_can_lead(
        ONE, membership, [view(ONE), *views], nodes,
        commit_index=COMMIT, last_index=LAST, patience_ticks=10,
    )  # fmt: skip


def test_a_quorum_of_others_that_has_what_is_committed_can() -> None:
    assert can(ABC, view(TWO, COMMIT), view(THREE, COMMIT))
    assert not can(ABC, view(TWO, COMMIT), view(THREE, 7)), "two's vote alone elects nobody"
    assert not can(ABC, view(TWO, COMMIT), view(THREE, silent=10))
    assert not can(ABC, view(TWO, COMMIT), view(THREE, recovering=True))


def test_where_this_node_s_vote_is_needed_nobody_must_lack_an_entry_of_it() -> None:
    """Else it would refuse its vote, and nobody else could have it elected."""
    pair = Membership((ONE, TWO))
    assert can(pair, view(TWO, LAST))
    assert not can(pair, view(TWO, COMMIT))
    assert can(ABC, view(TWO, LAST), view(THREE, silent=10))


def test_somebody_must_be_left_to_lead() -> None:
    assert not can(Membership((ONE,)))
    assert not can(ABC, view(TWO), view(THREE), drained=(TWO, THREE))
    assert can(ABC, view(TWO), view(THREE), drained=(TWO,))
    assert not can(Membership((ONE,), learners=(TWO,)), view(TWO)._replace(votes=False))


def test_not_while_members_change() -> None:
    assert not can(Membership((TWO, THREE), ABC.voters), view(TWO), view(THREE))
