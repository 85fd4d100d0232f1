"""How two nodes greet each other on a peer stream."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerHello:
    """The first frame of a peer stream: who calls, from which start of its process."""

    cluster_id: str
    node: NodeId
    store_uuid: str
    boot_id: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWelcome:
    """The accepting node's answer.

    It takes messages of at most `message_bytes_max`, and longer frames in pieces; 0: it is of a
    version that knows no pieces.
    """

    node: NodeId
    store_uuid: str
    boot_id: str
    message_bytes_max: int
