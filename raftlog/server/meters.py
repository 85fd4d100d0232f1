"""What callers use of this node, and how it holds them to their quotas.

A caller that uses more than it may waits: its calls begin, and its streams go on, as fast as its
rates allow. Only one that would have to wait for longer than `auth.quota_wait_max_s` is refused,
and may try again. Each node counts by itself. Nodes and `auth.admins` are not held to any quota,
but a node has few calls open at a time.

Quotas are keys of the key-value store (`raftlog.auth.quota_keys`), which a node reads again and
again. While it cannot, it goes on with those that it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence

import cachetools
import structlog

from raftlog.auth import quota_keys
from raftlog.auth.principals import Caller
from raftlog.auth.quotas import RATES, Allowance, Limit, Quota, Quotas
from raftlog.config_auth import AuthSettings
from raftlog.core.types import GroupId
from raftlog.errors import (
    Overloaded,
    QuotaExceeded,
    RaftlogError,
    StoredValueInvalid,
    WriterBytesExceeded,
)
from raftlog.machines.kv_commands import KeyValue
from raftlog.metrics.quota_counts import QuotaCounts
from raftlog.transport.callers import LogLimit

_METERS_MAX = 10_000
"""So many identities are remembered, the latest ones. No setting: it bounds memory, at 1 KiB or so
each; one that is forgotten starts from zero, which grants it a second's use or so."""

_CALLS_SHARE = 4
"""The calls of one caller take at most this part of `server.requests_max`, so that they leave room
for others': also those that wait, for the rate or for the caller's share of the loop."""

_NODE_CALLS_MAX = 64
"""Calls of another node that may be in progress at a time. No setting: a node reports 16 changes of
placement at once (`raftlog.server.node`), and reads grants, quotas and positions page by page."""

log = structlog.get_logger(__name__)


class Meters:
    """What each caller uses. For one event loop only."""

    def __init__(self, settings: AuthSettings, counts: QuotaCounts, *, requests_max: int) -> None:
        self.counts = counts
        self.wait_max_s = settings.quota_wait_max_s
        self.calls_max = max(1, requests_max // _CALLS_SHARE)
        """Calls of one caller that may be in progress at a time."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after the quotas have changed."""
        self._settings = settings
        self._admins = settings.admin_principals
        self._keys: Sequence[KeyValue] = ()
        self._quotas = Quotas(())
        self._meters: cachetools.LRUCache[str, Meter] = cachetools.LRUCache(_METERS_MAX)
        self._log_limit = LogLimit("caller held to its quota")

    def of(self, who: Caller | None) -> Meter | None:
        """What the caller uses; None if nothing limits it."""
        if who is None or not (self._quotas or who.is_node):
            return None
        limits: dict[Limit, int] = {}
        calls_max = self.calls_max
        if who.is_node:
            calls_max = min(calls_max, _NODE_CALLS_MAX)
        elif self._admins.isdisjoint(who.names):
            limits = self._quotas.of(who)
        if not (limits or who.is_node):
            return None
        meter = self._meters.get(who.principal)
        if meter is None:
            meter = self._meters[who.principal] = Meter(self, who.principal, calls_max)
        meter.limits = limits
        return meter

    async def look(self, read: Callable[[], Awaitable[Sequence[KeyValue]]]) -> None:
        """Read the quotas again."""
        with contextlib.suppress(RaftlogError):  # grants are not read either, and that is said
            self.take(await read())

    def take(self, keys: Sequence[KeyValue]) -> None:
        """These are all quotas from now on."""
        if keys != self._keys:
            self._keys = keys
            self._quotas = Quotas(quotas_of(keys))
            self.on_change()

    def tell(self, principal: str, limit: Limit, *, refused: bool) -> None:
        """Log who is throttled, not too often."""
        if self._log_limit.admits(principal, limit):
            log.info("caller held to its quota", who=principal, limit=limit.value, refused=refused)


class Meter:
    """What one caller uses of this node."""

    def __init__(self, meters: Meters, principal: str, calls_max: int) -> None:
        self.limits: dict[Limit, int] = {}
        self._meters = meters
        self._principal = principal
        self._calls_max = calls_max
        self._allowances = {limit: Allowance() for limit in RATES}
        self._calls = 0
        self._streams = 0
        self.staging_bytes = 0
        """What the caller stages in calls that are in progress."""
        self._staging: set[GroupId] = set()
        """The topics in which the caller has staged something."""

    def enter(self) -> None:
        """Count a call; `leave` must follow. Raises `Overloaded`."""
        if self._calls >= self._calls_max:
            raise Overloaded(queue="server.requests_max", limit=self._calls_max)
        self._calls += 1

    def leave(self) -> None:
        """A call that was counted has ended."""
        self._calls -= 1

    async def admit(self, byte_count: int, within_s: float) -> None:
        """Let a call of so many bytes begin, once what came before is made up for: within so long,
        or not at all. Raises `QuotaExceeded`."""
        now_s = time.monotonic()
        wait_s, limit = max(
            (self._allowances[each].wait_s(now_s) if each in self.limits else 0.0, each)
            for each in RATES
        )
        if wait_s > min(self._meters.wait_max_s, within_s):
            raise self._exceeded(limit, wait_s)
        self._use(Limit.REQUESTS, 1, now_s)
        self._use(Limit.IN_BYTES, byte_count, now_s)
        if wait_s:
            await self._wait(limit, wait_s)

    def answered(self, byte_count: int) -> None:
        """So many bytes go to the caller. What they exceed its rate by delays what comes next."""
        self._use(Limit.OUT_BYTES, byte_count, time.monotonic())

    async def answer(self, byte_count: int) -> None:
        """Let a stream go on with so many bytes, once what came before is made up for."""
        wait_s = self._use(Limit.OUT_BYTES, byte_count, time.monotonic())
        if wait_s:
            await self._wait(Limit.OUT_BYTES, wait_s)

    def open_stream(self) -> None:
        """A stream begins; `close_stream` must follow. Raises `QuotaExceeded`."""
        most = self.limits.get(Limit.STREAMS)
        if most is not None and self._streams >= most:
            raise self._exceeded(Limit.STREAMS, 0.0)
        self.count_stream()

    def count_stream(self) -> None:
        """Count a stream that began before there was a quota; `close_stream` must follow."""
        self._streams += 1

    def close_stream(self) -> None:
        """A stream has ended."""
        self._streams -= 1

    def check_staged(
        self,
        group: GroupId,
        writer: str,
        byte_count: int,
        before: int,
        staged_bytes: Callable[[GroupId], int],
    ) -> None:
        """Refuse to stage what would exceed the quota. The writer would have `byte_count` staged
        then. `staged_bytes` tells what the caller's writers have in a topic, `before` what this
        one has of that; `staging_bytes` comes on top.

        Raises `QuotaExceeded` if the caller's other writers may make room by a commit, and
        `WriterBytesExceeded` if they cannot.
        """
        most = self.limits.get(Limit.STAGED_BYTES)
        if most is None:
            return
        if byte_count > most:
            raise WriterBytesExceeded(
                writer=writer,
                staged_bytes=byte_count,
                limit=most,
                advice=f"raise the quota: raftlog quota set {shlex.quote(self._principal)} "
                "--staged-bytes BYTES",
            )
        staged = {each: staged_bytes(each) for each in (*self._staging, group)}
        self._staging = {group, *(each for each, in_topic in staged.items() if in_topic)}
        if byte_count - before + self.staging_bytes + sum(staged.values()) > most:
            raise self._exceeded(Limit.STAGED_BYTES, 0.0)

    def _use(self, limit: Limit, amount: int, now_s: float) -> float:
        """How long to wait before it is used."""
        per_s = self.limits.get(limit)
        return 0.0 if per_s is None else self._allowances[limit].use(amount, per_s, now_s)

    async def _wait(self, limit: Limit, wait_s: float) -> None:
        meters = self._meters
        meters.counts.held_back(self._principal, limit, wait_s)
        meters.tell(self._principal, limit, refused=False)
        await asyncio.sleep(wait_s)

    def _exceeded(self, limit: Limit, wait_s: float) -> QuotaExceeded:
        self._meters.counts.refused(self._principal, limit)
        self._meters.tell(self._principal, limit, refused=True)
        return QuotaExceeded(
            principal=self._principal,
            quota=limit.value,
            limit=self.limits[limit],
            seconds=f"{wait_s:.1f}" if wait_s else "",
        )


def quotas_of(keys: Sequence[KeyValue]) -> list[Quota]:
    """The quotas that these keys stand for."""
    found = []
    for each in keys:
        try:
            found.append(quota_keys.decode(each.key, each.value))
        except StoredValueInvalid as error:
            log.warning("a quota cannot be read and has no effect", cause=str(error))
    return found
