"""What is counted of callers' quotas: how long they were held back, and how often refused."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

OTHERS = "(others)"
"""The identity of those that are too many to have series of their own."""
_IDENTITIES_MAX = 100


class QuotaCounts:
    """By identity and limit. The first 100 identities have series of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._identities: set[str] = set()
        self._held_back = Counter(
            "raftlog_quota_wait_seconds",
            "How long calls and streams were held back by their callers' quotas, by identity (the "
            "first 100; then they count as (others)) and limit.",
            ["identity", "limit"],
            registry=registry,
        )
        self._refused = Counter(
            "raftlog_quota_refusals",
            "Calls that were refused because their callers were over their quotas.",
            ["identity", "limit"],
            registry=registry,
        )

    def held_back(self, identity: str, limit: str, seconds: float) -> None:
        """A call or stream waits for so long, for the sake of its caller's quota."""
        self._held_back.labels(self._shown(identity), limit).inc(seconds)

    def refused(self, identity: str, limit: str) -> None:
        """A call was refused, because its caller was over its quota."""
        self._refused.labels(self._shown(identity), limit).inc()

    def _shown(self, identity: str) -> str:
        if len(self._identities) < _IDENTITIES_MAX:
            self._identities.add(identity)
        return identity if identity in self._identities else OTHERS
