"""Quorum arithmetic for 1 to 7 voters, compared with counting."""

from __future__ import annotations

from itertools import product

import pytest

from raftlog.core.quorum import VoteResult, agreed, majority, vote_result
from raftlog.core.types import NodeId


@pytest.mark.parametrize("voters", range(1, 8))
def test_any_two_majorities_share_a_member_and_smaller_sets_need_not(voters: int) -> None:
    """CHECKLIST 9, 29."""
    assert 2 * majority(voters) > voters
    assert 2 * (majority(voters) - 1) <= voters


@pytest.mark.parametrize("voters", range(1, 8))
def test_agreed_is_the_largest_index_that_a_majority_holds(voters: int) -> None:
    """CHECKLIST 9; for even numbers the middle that some texts give is no majority."""
    for values in product(range(4), repeat=min(voters, 5)):
        indexes = [*values, *[2] * (voters - len(values))]
        by_counting = max(
            index
            for index in range(4)
            if sum(1 for value in indexes if value >= index) >= majority(voters)
        )
        assert agreed(indexes) == by_counting


def test_agreed_of_four_voters_needs_three() -> None:
    """CHECKLIST 9: sorted(indexes)[n / 2] would say 7 here, which two of four hold."""
    assert agreed([7, 7, 3, 1]) == 3


@pytest.mark.parametrize("voters", range(1, 8))
def test_a_ballot_is_won_by_a_majority_and_lost_once_none_is_possible(voters: int) -> None:
    """CHECKLIST 33."""
    members = [NodeId(voter) for voter in range(1, voters + 1)]
    for answers in product([True, False, None], repeat=voters):
        votes = {m: a for m, a in zip(members, answers, strict=True) if a is not None}
        granted, refused = answers.count(True), answers.count(False)
        expected = VoteResult.PENDING
        if granted > voters / 2:
            expected = VoteResult.WON
        elif voters - refused <= voters / 2:
            expected = VoteResult.LOST
        assert vote_result(members, votes) is expected


def test_a_stranger_s_vote_does_not_count() -> None:
    members = [NodeId(1), NodeId(2), NodeId(3)]
    assert vote_result(members, {NodeId(1): True, NodeId(9): True}) is VoteResult.PENDING
