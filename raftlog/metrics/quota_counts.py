"""What is counted of callers' quotas: how long they were throttled, and how often rejected."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

OTHERS = "(others)"
"""The principal of those that are too many to have series of their own."""
_PRINCIPALS_MAX = 100


class QuotaCounts:
    """By principal and limit. The first 100 principals have series of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._principals: set[str] = set()
        self._held_back = Counter(
            "raftlog_quota_wait_seconds",
            "How long calls and streams were throttled by their callers' quotas, by principal (the "
            "first 100; then they count as (others)) and limit.",
            ["principal", "limit"],
            registry=registry,
        )
        self._refused = Counter(
            "raftlog_quota_refusals",
            "Calls that were refused because their callers were over their quotas.",
            ["principal", "limit"],
            registry=registry,
        )

    def held_back(self, principal: str, limit: str, seconds: float) -> None:
        """A call or stream waits for so long, for the sake of its caller's quota."""
        self._held_back.labels(self._shown(principal), limit).inc(seconds)

    def refused(self, principal: str, limit: str) -> None:
        """A call was refused, because its caller was over its quota."""
        self._refused.labels(self._shown(principal), limit).inc()

    def _shown(self, principal: str) -> str:
        if len(self._principals) < _PRINCIPALS_MAX:
            self._principals.add(principal)
        return principal if principal in self._principals else OTHERS
