"""The small clusters that are explored: each bounds another part of Raft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from raftlog.core.membership import Membership
from raftlog.core.types import RaftTiming
from tests.core.member import NOBODY_DECIDES, TIMING, Longest, Member, node_ids
from tests.explorer.events import (
    CHANGE,
    ELECTION,
    SILENCE,
    TRANSFER,
    Change,
    Cost,
    Miss,
    TimeOut,
    Transfer,
)
from tests.explorer.explorer import Scenario

ONE_LEADS = ((0, TimeOut(ELECTION)), (1, Miss(SILENCE)), (2, Miss(SILENCE)))
"""And is not heard any more."""
ONE_BY_ONE = replace(TIMING, append_entries_max=1)
"""Each entry in a message of its own, so that the first of two may be held by a majority."""


def elections() -> Scenario:
    """Nobody has led. Disks take their time, and a member may lose what is not on its own."""
    return Scenario(members=voters_and_others(), allowed=Cost(elections=3, restarts=1))


def writes() -> Scenario:
    """A leader writes, dies, and is followed by another one."""
    return Scenario(
        members=voters_and_others(),
        allowed=Cost(elections=2, restarts=1, proposals=1, heartbeats=1),
        prelude=ONE_LEADS,
    )


def former_terms() -> Scenario:
    """Figure 8 with three members: entries of former terms that no majority holds."""
    logs = ((1, 2), (1,), (1, 3))
    members = voters_and_others(logs=logs, term=3, timing=ONE_BY_ONE, sync=True)
    return Scenario(members=members, allowed=Cost(elections=3))


def changes() -> Scenario:
    """A voter takes another's place, and that is taken back."""
    learner = Change(CHANGE, (1, 2, 3), (4,))
    return Scenario(
        members=voters_and_others(others=1, sync=True),
        allowed=Cost(elections=2, restarts=1, changes=2),
        events=(Change(CHANGE, (1, 2, 4)), Change(CHANGE, (1, 2, 3))),
        prelude=(*ONE_LEADS, (0, learner)),
    )


def shrinking() -> Scenario:
    """Two of three voters leave at once, the leader among them, and come back."""
    return Scenario(
        members=voters_and_others(sync=True, timing=ONE_BY_ONE),
        allowed=Cost(elections=2, changes=2, proposals=1),
        events=(Change(CHANGE, (3,), (1, 2)), Change(CHANGE, (1, 2, 3))),
        prelude=ONE_LEADS,
    )


def transfers() -> Scenario:
    """A leader hands its role over while it writes, and may die on the way."""
    return Scenario(
        members=voters_and_others(),
        allowed=Cost(elections=1, restarts=1, proposals=1, transfers=1, heartbeats=1),
        events=(Transfer(TRANSFER, 2),),
        prelude=ONE_LEADS,
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    each.__name__: each for each in (elections, writes, former_terms, changes, shrinking, transfers)
}


def voters_and_others(
    *,
    others: int = 0,
    logs: Sequence[Sequence[int]] = ((), (), ()),
    term: int | None = None,
    timing: RaftTiming = TIMING,
    sync: bool = False,
) -> list[Member]:
    """Voters with logs of these terms, and others that nothing has named yet."""
    voters = Membership(node_ids(*range(1, len(logs) + 1)))
    return [
        Member(
            node,
            membership=voters if node <= len(logs) else NOBODY_DECIDES,
            terms=logs[node - 1] if node <= len(logs) else (),
            term=term,
            timing=timing,
            random=Longest(),
            sync=sync,
        )
        for node in range(1, len(logs) + others + 1)
    ]
