"""A node that has no store yet: its port answers health checks, and nothing else.

A container's orchestrator asks whether the process lives, and routes no client to it meanwhile:
the answer is NOT_SERVING. The process votes for nothing, since it has nothing to remember a vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from raftlog.config import Settings
from raftlog.server.main import log_to_stderr
from raftlog.server.ports import Health, health_listener

Found = TypeVar("Found")

_LOOK_S = 0.5
"""How often to look for the store. No setting: a look reads one file, or asks the cluster once."""

log = structlog.get_logger(__name__)


def wait_for_store(settings: Settings, address: str, look: Callable[[], Found | None]) -> Found:
    """What `look` finds, which may block. Until then the health service answers at `address`
    without encryption. Raises `AddressInUse`, and what `look` raises."""
    log_to_stderr(settings.server.log_level)
    return asyncio.run(_wait(settings, address, look))


async def _wait(settings: Settings, address: str, look: Callable[[], Found | None]) -> Found:
    listener = health_listener(settings, address, Health())
    await listener.start()
    keeping = asyncio.create_task(listener.keep())
    log.info("waits for its store", address=address)
    try:
        while (found := await asyncio.to_thread(look)) is None:
            await asyncio.sleep(_LOOK_S)
        return found
    finally:
        await listener.stop()
        await keeping
