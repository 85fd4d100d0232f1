"""A node's links to the other nodes, which come and go with these."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import structlog

from raftlog.core.types import NodeId
from raftlog.transport.callers import LogLimit
from raftlog.transport.link import PeerLink

log = structlog.get_logger(__name__)


class NodeLinks(Mapping[NodeId, PeerLink]):
    """The link to each other node. For one event loop only."""

    def __init__(
        self,
        node: NodeId,
        make: Callable[[NodeId, str], PeerLink],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`make` gives a link to a node at an address; `failed` is called with a defect in one."""
        self._node = node
        self._make = make
        self._failed = failed
        self._links: dict[NodeId, PeerLink] = {}
        self._addresses: dict[NodeId, str] = {}
        """Where the nodes said that they listen; a link may be told to dial elsewhere."""
        self._tasks: dict[NodeId, asyncio.Task[None]] = {}
        self._log_limit = LogLimit("peer gone")
        self._ended: set[asyncio.Task[None]] = set()

    def __getitem__(self, peer: NodeId) -> PeerLink:
        return self._links[peer]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)

    @property
    def connected(self) -> int:
        """To how many other nodes there is a stream."""
        return sum(link.connected for link in self._links.values())

    def follow(self, nodes: Mapping[NodeId, str]) -> None:
        """Keep a link to each of the nodes at its address, and to no other."""
        for peer in list(self._links):
            if nodes.get(peer) != self._addresses[peer]:
                if self._log_limit.admits(peer):
                    log.info("peer gone", peer=peer, address=self._addresses[peer])
                self._end(peer)
        for peer, address in nodes.items():
            if peer != self._node and peer not in self._links:
                self._links[peer] = link = self._make(peer, address)
                self._addresses[peer] = address
                self._tasks[peer] = task = asyncio.get_running_loop().create_task(link.run())
                task.add_done_callback(self._done)

    async def stop(self) -> None:
        """End all links. Returns when they are closed."""
        for peer in list(self._links):
            self._end(peer)
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _end(self, peer: NodeId) -> None:
        del self._links[peer]
        task = self._tasks.pop(peer)
        self._ended.add(task)
        task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._ended.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
