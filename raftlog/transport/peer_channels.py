"""A node's channels to other nodes: plain ones, or over TLS with both sides' certificates."""

from __future__ import annotations

import grpc.aio

from raftlog.config_hosts import moved
from raftlog.core.types import NodeId
from raftlog.tls import Certificates, ChannelOptions, Pem, open_aio_channel, peer_name


class PeerChannels:
    """Opens them."""

    def __init__(
        self, cluster_id: str, certificates: Certificates | None, port_offset: int
    ) -> None:
        """Without `certificates` nothing is encrypted, and nodes have one port."""
        self.cluster_id = cluster_id
        self.certificates = certificates
        self._port_offset = port_offset if certificates is not None else 0

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

    def to_any(self, of_node: str, options: ChannelOptions) -> grpc.aio.Channel:
        """A channel to whichever node listens at `of_node` for clients, to its port for nodes."""
        return open_aio_channel(self.address(of_node), self._pem(), options)

    def _pem(self) -> Pem | None:
        return self.certificates.current() if self.certificates is not None else None
