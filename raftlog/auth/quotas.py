"""How much principals may use of a node: quotas, and how use is spread over time. Pure values.

A quota is for one principal, for each member of a group, or for every caller. Each limit is looked
for in that order: a principal's own counts, else the highest of its groups', else that for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from raftlog.auth.principals import Caller, problem_of_principal

EVERYBODY = "*"
"""The quota of each caller that has no other."""

BURST_S = 1.0
"""What may be used in so long may be used at once. No setting: a caller that sends a batch each
second is not throttled, and a node is not taken by surprise for longer."""


LIMIT_MAX = 2**63 - 1
"""The highest limit."""


class Limit(StrEnum):
    """What of a node a quota limits."""

    REQUESTS = "requests_per_s"
    """Calls that begin."""
    IN_BYTES = "in_bytes_per_s"
    """Bytes of calls."""
    OUT_BYTES = "out_bytes_per_s"
    """Bytes of answers."""
    STREAMS = "streams"
    """Reads and watches that are open at a time."""
    STAGED_BYTES = "staged_bytes"
    """Bytes of epochs that are not committed, in topics that the node leads."""


RATES = (Limit.REQUESTS, Limit.IN_BYTES, Limit.OUT_BYTES)
"""The limits of what is used in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a principal may use of each node."""

    to: str
    """A principal, a group for each of its members, or `*` for each caller without a quota."""
    limits: Mapping[Limit, int]
    """At least one. Each is from 1 to 2^63 - 1."""


def problem_of_quota(quota: Quota) -> str | None:
    """What is wrong with a quota that was written, or None."""
    problem = None if quota.to == EVERYBODY else problem_of_principal(quota.to)
    if problem is not None:
        return problem
    if not quota.limits:
        return "it limits nothing"
    for limit, most in quota.limits.items():
        if not 1 <= most <= LIMIT_MAX:
            return f"{limit} is {most}"
    return None


class Quotas:
    """All quotas of a cluster. They do not change; others take their place."""

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self._of = {quota.to: quota.limits for quota in quotas}

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._of)

    def of(self, who: Caller) -> dict[Limit, int]:
        """The limits of a caller; those that are missing have no bound."""
        of_groups: dict[Limit, int] = {}
        for group in who.groups:
            for limit, most in self._of.get(group, {}).items():
                of_groups[limit] = max(most, of_groups.get(limit, 0))
        return {**self._of.get(EVERYBODY, {}), **of_groups, **self._of.get(who.principal, {})}


class Allowance:
    """Spreads what one caller uses over time: the generic cell rate algorithm (ITU-T I.371) in its
    virtual scheduling form, with amounts of any size.

    Nothing is refused here, however large: what exceeds the rate must be waited for afterwards.
    """

    __slots__ = ("_paid_at_s",)

    def __init__(self) -> None:
        self._paid_at_s = float("-inf")
        """When the rate has made up for all that was used."""

    def wait_s(self, now_s: float) -> float:
        """How long to wait until more may be used."""
        return max(0.0, self._paid_at_s - BURST_S - now_s)

    def use(self, amount: int, per_s: int, now_s: float) -> float:
        """Use so much, at a rate of `per_s`, and return how long to wait before that."""
        wait_s = self.wait_s(now_s)
        self._paid_at_s = max(self._paid_at_s, now_s) + amount / per_s
        return wait_s
