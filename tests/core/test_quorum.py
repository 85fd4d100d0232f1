"""Quorum arithmetic for 0 to 7 voters, and for two sets of them, compared with counting."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from raftlog.core.membership import Membership
from raftlog.core.quorum import VoteResult, agreed, is_quorum, majority, vote_result
from raftlog.core.types import NodeId

NAMES = tuple(NodeId(name) for name in range(1, 7))
SETS = [Membership(), Membership(NAMES[:1])] + [
    Membership(NAMES[:count], NAMES[first : first + old])
    for count in range(1, 5)
    for first in range(4)
    for old in range(3)
]
"""Nobody, one voter, up to four, and joint ones: the same, some, or none in both sets."""


def nodes(count: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(node) for node in range(1, count + 1))


def by_counting(membership: Membership, holders: set[NodeId]) -> bool:
    """More than half of the new voters and, if there are any, more than half of the former."""
    sets = [set(membership.voters), *([set(membership.outgoing)] if membership.outgoing else [])]
    return bool(membership.voters) and all(2 * len(each & holders) > len(each) for each in sets)


@pytest.mark.parametrize("voters", range(1, 8))
def test_any_two_majorities_share_a_member_and_smaller_sets_need_not(voters: int) -> None:
    """CHECKLIST 9, 29."""
    assert 2 * majority(voters) > voters
    assert 2 * (majority(voters) - 1) <= voters


@pytest.mark.parametrize("voters", range(1, 8))
def test_agreed_is_the_largest_index_that_a_majority_holds(voters: int) -> None:
    """CHECKLIST 9; for even numbers the middle that some texts give is no majority."""
    members = nodes(voters)
    for values in product(range(4), repeat=min(voters, 5)):
        indexes = [*values, *[2] * (voters - len(values))]
        counted = max(
            index
            for index in range(4)
            if sum(1 for value in indexes if value >= index) >= majority(voters)
        )
        assert agreed(Membership(members), dict(zip(members, indexes, strict=True))) == counted


def test_agreed_of_four_voters_needs_three() -> None:
    """CHECKLIST 9: sorted(indexes)[n / 2] would say 7 here, which two of four hold."""
    assert agreed(Membership(nodes(4)), dict(zip(nodes(4), [7, 7, 3, 1], strict=True))) == 3


def test_a_joint_membership_needs_both_majorities_and_an_empty_one_decides_nothing() -> None:
    """CHECKLIST 9, 73: for a set of nodes, for numbers, and for votes."""
    for membership in SETS:
        _needs_both_majorities(membership)


def _needs_both_majorities(membership: Membership) -> None:
    voters = membership.all_voters
    subsets = chain.from_iterable(combinations(voters, k) for k in range(len(voters) + 1))
    for subset in map(set, subsets):
        decides = by_counting(membership, subset)
        assert is_quorum(membership, subset) == decides
        assert (agreed(membership, dict.fromkeys(subset, 5)) == 5) == decides
        for_it = dict.fromkeys(subset, True)
        assert (vote_result(membership, for_it) is VoteResult.WON) == decides
        against = {voter: voter in subset for voter in voters}
        lost = VoteResult.WON if decides else VoteResult.LOST
        assert vote_result(membership, against) is lost


def test_agreed_numbers_of_two_sets_are_what_a_quorum_has_reached() -> None:
    """CHECKLIST 9, 73."""
    for membership in SETS:
        _agreed_is_what_a_quorum_has_reached(membership)


def _agreed_is_what_a_quorum_has_reached(membership: Membership) -> None:
    voters = membership.all_voters
    for values in product((0, 3, 7), repeat=len(voters)):
        reached = dict(zip(voters, values, strict=True))
        counted = max(
            (
                value
                for value in (0, 3, 7)
                if by_counting(membership, {v for v in voters if reached[v] >= value})
            ),
            default=0,
        )
        assert agreed(membership, reached) == counted
    assert agreed(membership, {}, least=-1) == -1, "nobody has said anything"


@pytest.mark.parametrize("voters", range(1, 8))
def test_a_ballot_is_won_by_a_majority_and_lost_once_none_is_possible(voters: int) -> None:
    """CHECKLIST 33."""
    members = nodes(voters)
    for answers in product([True, False, None], repeat=voters):
        votes = {m: a for m, a in zip(members, answers, strict=True) if a is not None}
        granted, refused = answers.count(True), answers.count(False)
        expected = VoteResult.PENDING
        if granted > voters / 2:
            expected = VoteResult.WON
        elif voters - refused <= voters / 2:
            expected = VoteResult.LOST
        assert vote_result(Membership(members), votes) is expected


def test_a_stranger_s_vote_does_not_count() -> None:
    membership = Membership(nodes(3), learners=(NodeId(8),))
    votes = {NodeId(1): True, NodeId(8): True, NodeId(9): True}
    assert vote_result(membership, votes) is VoteResult.PENDING
