"""Whose disks are full, as the nodes tell in their heartbeats.

A leader with room goes on taking records that a majority without room cannot write. They would be
in flight until there is room, more than the reserves of those nodes have room for, and a trim,
which comes after them in the log, would wait behind them. So the leader refuses records while it
knows this.
"""

from __future__ import annotations

from raftlog.core.membership import Membership
from raftlog.core.quorum import is_quorum
from raftlog.core.types import NodeId


class FullDisks:
    """What the other nodes have said last."""

    def __init__(self) -> None:
        self._full: set[NodeId] = set()

    def heard(self, peer: NodeId, *, full: bool) -> None:
        """The peer has told whether its disk is full."""
        if full:
            self._full.add(peer)
        else:
            self._full.discard(peer)

    def has_room(self, peer: NodeId) -> bool:
        """Whether the peer has not reported a full disk."""
        return peer not in self._full

    def hindering(self, membership: Membership) -> list[NodeId]:
        """The voters whose disks are full, ascending, if the others are no quorum."""
        if not self._full:
            return []
        voters = membership.all_voters
        with_room = {voter for voter in voters if voter not in self._full}
        return [] if is_quorum(membership, with_room) else sorted({*voters} - with_room)
