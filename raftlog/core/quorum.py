"""Quorum arithmetic: what those who decide have reached, and how a tally stands. Pure.

In a joint membership the former voters and the new ones must agree, by a majority each;
without voters, nothing is ever agreed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import Enum

from raftlog.core.membership import Membership
from raftlog.core.types import NodeId


class VoteResult(Enum):
    """How a tally stands."""

    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority(voters: int) -> int:
    """The smallest number of `voters` (at least 1) of which any two sets share a member."""
    assert voters >= 1, "a group without voters has no majority"
    return voters // 2 + 1


def is_quorum(membership: Membership, nodes: Container[NodeId]) -> bool:
    """Can these nodes decide by themselves?"""
    deciding = membership.deciding
    return bool(deciding) and all(
        sum(1 for voter in voters if voter in nodes) >= majority(len(voters)) for voters in deciding
    )


def agreed(membership: Membership, values: Mapping[NodeId, int], *, least: int = 0) -> int:
    """The largest number that a quorum has reached. A voter without a value has reached `least`.

    In ascending order that is position (n - 1) // 2 of n voters: as many as a majority stand there
    or above. The position n // 2 that some texts give is no majority for an even number of voters.
    """
    return min(
        (
            sorted([values.get(voter, least) for voter in voters])[(len(voters) - 1) // 2]
            for voters in membership.deciding
        ),
        default=least,
    )


def vote_result(membership: Membership, votes: Mapping[NodeId, bool]) -> VoteResult:
    """WON with a quorum for, LOST once too few are left for one, else PENDING."""
    results = [_vote_result(voters, votes) for voters in membership.deciding]
    if not results or VoteResult.LOST in results:
        return VoteResult.LOST
    return VoteResult.PENDING if VoteResult.PENDING in results else VoteResult.WON


def _vote_result(voters: Sequence[NodeId], votes: Mapping[NodeId, bool]) -> VoteResult:
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    refused = sum(1 for voter in voters if votes.get(voter) is False)
    if granted >= needed:
        return VoteResult.WON
    if len(voters) - refused < needed:
        return VoteResult.LOST
    return VoteResult.PENDING
