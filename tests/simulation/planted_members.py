"""Planted bugs of memberships: see `tests.simulation.planted`."""

from __future__ import annotations

from typing import Any

from raftlog.core.membership import Membership
from tests.simulation.planting import replaced


def new_voters_decide_alone() -> Any:
    """The former voters are not asked any more once a change is written."""
    return replaced(Membership, "deciding", property(lambda self: (self.voters,)))


MEMBER_BUGS = (new_voters_decide_alone,)
