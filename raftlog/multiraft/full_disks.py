"""Whose disks are full, as the nodes tell in their heartbeats.

A leader with room goes on taking records that a majority without room cannot write. They would be
in flight until there is room, more than the reserves of those nodes have room for, and a trim,
which comes after them in the log, would wait behind them. So the leader refuses records while it
knows this.
"""

from __future__ import annotations

from collections.abc import Collection

from raftlog.core.quorum import majority
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

    def hindering(self, voters: Collection[NodeId]) -> list[NodeId]:
        """Those of the voters whose disks are full, ascending, if the others are no majority."""
        full = sorted(self._full.intersection(voters))
        return full if len(voters) - len(full) < majority(len(voters)) else []
