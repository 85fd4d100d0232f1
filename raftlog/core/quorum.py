"""Quorum arithmetic: what a majority of voters has reached, and how a tally stands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

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


def agreed(values: Iterable[int]) -> int:
    """The largest number that a majority has reached; one value per voter, at least one.

    In ascending order that is position (n - 1) // 2: as many as a majority stand there or above.
    The position n // 2 that some texts give is no majority for an even number of voters.
    """
    ascending = sorted(values)
    assert ascending, "one value per voter"
    return ascending[(len(ascending) - 1) // 2]


def vote_result(voters: Sequence[NodeId], votes: Mapping[NodeId, bool]) -> VoteResult:
    """WON with a majority for, LOST once too few are left for one, else PENDING."""
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    refused = sum(1 for voter in voters if votes.get(voter) is False)
    if granted >= needed:
        return VoteResult.WON
    if len(voters) - refused < needed:
        return VoteResult.LOST
    return VoteResult.PENDING
