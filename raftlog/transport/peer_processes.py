"""Which process of each peer may speak, where copies of a data folder let two speak as one node.

Of two processes that live at the same time, the registered one, and before one has registered, the
one that came first: it holds what the node has acknowledged. Of two that never met, the one that
registered last, as the controller's log says. A process that has ended is known by its streams: the
kernel closes them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from raftlog.core.types import NodeId
from raftlog.errors import StoreCopied

LAST_WORDS_S = 3.0
"""For so long a peer's new process waits for the streams of the former one to end. No setting: they
end at once unless the network has lost their end, and then they are silent."""

HEARD_S = 1.0
"""A process that was heard so lately lives. No setting: a node sends several heartbeats in it."""


@dataclass(slots=True, eq=False)
class PeerProcess:
    """A process of a peer, by what its greeting says."""

    node: NodeId
    boot_id: str
    heard_at_s: float
    streams: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it has no stream."""


class PeerProcesses:
    """The processes that may speak for this node's peers. For one event loop only."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        last_words_s: float = LAST_WORDS_S,
    ) -> None:
        self._clock = clock
        self._last_words_s = last_words_s
        self._current: dict[NodeId, PeerProcess] = {}

    async def check_alone(self, node: NodeId, boot_id: str) -> None:
        """Wait, at most `last_words_s`, until no other process of the peer has a stream here.
        Raises `StoreCopied` if another one is still heard."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._last_words_s):
                while (other := self._other(node, boot_id)) is not None:
                    await other.ended.wait()
        other = self._other(node, boot_id)
        if other is not None and self._clock() < other.heard_at_s + HEARD_S:
            raise StoreCopied(node=node, boot_id=boot_id, known_boot_id=other.boot_id)

    def _other(self, node: NodeId, boot_id: str) -> PeerProcess | None:
        """The process that has streams here, if it is another one than this."""
        process = self._current.get(node)
        if process is None or process.boot_id == boot_id or not process.streams:
            return None
        return process

    def opened(self, node: NodeId, boot_id: str) -> PeerProcess:
        """The process with one more stream. It takes the place of any other of its peer."""
        process = self._current.get(node)
        if process is None or process.boot_id != boot_id:
            process = PeerProcess(node, boot_id, heard_at_s=self._clock())
            self._current[node] = process
        process.streams += 1
        process.ended.clear()
        return process

    def heard(self, process: PeerProcess) -> None:
        """The process has said something. Raises `StoreCopied` if another one has its place."""
        current = self._current[process.node]
        if current is not process:
            raise StoreCopied(
                node=process.node, boot_id=process.boot_id, known_boot_id=current.boot_id
            )
        process.heard_at_s = self._clock()

    def closed(self, process: PeerProcess) -> None:
        """A stream of the process has ended."""
        process.streams -= 1
        if not process.streams:
            process.ended.set()
