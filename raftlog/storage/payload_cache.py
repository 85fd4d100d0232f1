"""The payloads that a node keeps in memory: one budget for all its logs, least recently used first
out.

Only durable payloads are here, so any of them may be evicted at any time. What is not durable yet
stays with its log (`GroupLog.append`). Each log has a share: its own view of the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from raftlog.core.types import Payload

PAYLOAD_OVERHEAD_BYTES = 400
"""What a payload takes besides its bytes: Python's objects and the cache's own tables. It counts
against the budget too. Measured at 300 to 460 bytes; without it small records would take many times
the budget."""


class PayloadCache:
    """The budget. Any thread may use it and its shares: another thread may remove a log."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max >= 0, "bytes_max is a size"
        self._bytes_max = bytes_max
        self._bytes = 0
        self._oldest_first: OrderedDict[tuple[CacheShare, int], None] = OrderedDict()
        self._lock = Lock()

    @property
    def used_bytes(self) -> int:
        """What all payloads count together; never above the budget."""
        return self._bytes

    def share(self) -> CacheShare:
        """A new, empty share for one log."""
        return CacheShare(self)


class CacheShare:
    """One log's payloads in the cache, by index."""

    __slots__ = ("_cache", "_payloads")

    def __init__(self, cache: PayloadCache) -> None:
        self._cache = cache
        self._payloads: dict[int, Payload] = {}

    def get(self, index: int) -> Payload | None:
        """The payload, or None if it is not cached. Makes it the one used last."""
        cache = self._cache
        with cache._lock:
            payload = self._payloads.get(index)
            if payload is not None:
                cache._oldest_first.move_to_end((self, index))
            return payload

    def put(self, index: int, payload: Payload) -> None:
        """Keep a durable payload. Evicts those used longest ago, of any log, to make room."""
        cache = self._cache
        cost = _cost(payload)
        with cache._lock:
            assert index not in self._payloads, f"entry {index} is cached already"
            if cost > cache._bytes_max:
                return
            while cache._bytes + cost > cache._bytes_max:
                (other, oldest), _ = cache._oldest_first.popitem(last=False)
                cache._bytes -= _cost(other._payloads.pop(oldest))
            self._payloads[index] = payload
            cache._oldest_first[self, index] = None
            cache._bytes += cost

    def drop_from(self, index: int) -> None:
        """Forget the payloads at and after `index`: the log was truncated there."""
        with self._cache._lock:
            for gone in [here for here in self._payloads if here >= index]:
                self._drop(gone)

    def drop_to(self, index: int) -> None:
        """Forget the payloads up to `index`: the log was dropped to there."""
        with self._cache._lock:
            for gone in [here for here in self._payloads if here <= index]:
                self._drop(gone)

    def release(self) -> None:
        """Forget everything: the log is closed."""
        self.drop_from(0)

    def _drop(self, index: int) -> None:
        cache = self._cache
        del cache._oldest_first[self, index]
        cache._bytes -= _cost(self._payloads.pop(index))


def _cost(payload: Payload) -> int:
    return payload.size + PAYLOAD_OVERHEAD_BYTES
