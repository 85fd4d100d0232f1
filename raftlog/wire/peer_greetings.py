"""How two nodes greet each other on a peer stream."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import NO_INDEX, LogIndex, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerHello:
    """The first frame of a peer stream: who calls, from which start of its process."""

    format: str
    """The stamp of what the node writes and sends (`raftlog.core.types.FORMAT_STAMP`)."""
    cluster_id: str
    node: NodeId
    store_uuid: str
    boot_id: str
    address: str
    earlier_boot_ids: tuple[str, ...] = ()
    registered_at: LogIndex = NO_INDEX
    """As in `RegisterNode`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWelcome:
    """The accepting node's answer.

    It takes messages of at most `message_bytes_max`, and longer frames in pieces.
    """

    format: str
    """As in `PeerHello`."""
    node: NodeId
    store_uuid: str
    boot_id: str
    message_bytes_max: int
