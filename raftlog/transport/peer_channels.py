"""A node's channels to other nodes: plain ones, or over TLS with both sides' certificates."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import grpc.aio

from raftlog.config_hosts import moved
from raftlog.core.types import NodeId
from raftlog.tls import Certificates, ChannelOptions, Pem, open_aio_channel, peer_name

_CALLS_END_S = 30.0
"""Calls over a channel that is let go have so long to end by themselves: longer than any of them
takes, because what is cut off looks to its caller like being cancelled. No setting."""


class _Kept(NamedTuple):
    channel: grpc.aio.Channel
    pem: Pem | None
    address: str


class PeerChannels:
    """Opens them. For one event loop only."""

    def __init__(
        self, cluster_id: str, certificates: Certificates | None, port_offset: int
    ) -> None:
        """Without `certificates` nothing is encrypted, and nodes have one port."""
        self.cluster_id = cluster_id
        self.certificates = certificates
        self._port_offset = port_offset if certificates is not None else 0
        self._kept: dict[NodeId, _Kept] = {}
        """By node; of one that does not answer, none."""
        self._closing: set[asyncio.Future[None]] = set()

    @property
    def encrypted(self) -> bool:
        """Whether nodes prove who they are."""
        return self.certificates is not None

    def address(self, of_node: str) -> str:
        """Where other nodes reach a node that listens at the address `of_node` for clients. It may
        be beyond the last port: such a node cannot start."""
        return moved(of_node, self._port_offset)

    def to_node(self, node: NodeId, at: str, options: ChannelOptions) -> grpc.aio.Channel:
        """A channel to a node, at its port for nodes: who answers must show that it is that one."""
        name = peer_name(self.cluster_id, node)
        return open_aio_channel(at, self._pem(), options, name=name)

    def kept_to(self, node: NodeId, of_node: str, options: ChannelOptions) -> grpc.aio.Channel:
        """The channel to a node that listens at `of_node` for clients, as `to_node` opens it. It
        stays open for the next call: a handshake of TLS costs more than that."""
        address, pem = self.address(of_node), self._pem()
        kept = self._kept.get(node)
        if kept is None or kept.pem is not pem or kept.address != address:
            self.let_go(node)
            channel = self.to_node(node, address, options)
            kept = self._kept[node] = _Kept(channel, pem, address)
        return kept.channel

    def let_go(self, node: NodeId) -> None:
        """Keep the channel of `kept_to` no longer: the node does not answer, and one that is gone
        is not to be dialled permanently."""
        kept = self._kept.pop(node, None)
        if kept is not None:
            closing = asyncio.ensure_future(kept.channel.close(_CALLS_END_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close those that are kept, at once."""
        kept = [each.channel for each in self._kept.values()]
        self._kept.clear()
        for closing in self._closing:
            closing.cancel()
        await asyncio.gather(
            *self._closing, *(channel.close() for channel in kept), return_exceptions=True
        )

    def _pem(self) -> Pem | None:
        return self.certificates.current() if self.certificates is not None else None
