"""How a leader hands its role to one follower (Raft dissertation section 3.10).

The leader takes no more writes, so the follower can catch up. Once it holds the whole log the
leader tells it to campaign at once (`TimeoutNow`). Voters grant that vote although they still hear
a leader, and the leader steps down by the higher term that it is asked in. A transfer that has not
ended after an election timeout is given up, and writes are taken again. Nothing is lost either way:
a leader elected so is elected like any other.
"""

from __future__ import annotations

from raftlog.core.state import Part
from raftlog.core.types import NodeId, RaftTiming


class Transfer(Part):
    """One attempt, within one leadership. Mutable."""

    __slots__ = ("_again_ticks", "_heartbeat_ticks", "_left_ticks", "to", "wished")

    def __init__(self, to: NodeId, timing: RaftTiming, *, wished: bool) -> None:
        self.to = to
        self.wished = wished
        """A caller asked for this follower: see `TimeoutNow`."""
        self._left_ticks = timing.election_ticks_min
        self._heartbeat_ticks = timing.heartbeat_ticks
        self._again_ticks = 0

    def tick(self) -> None:
        """One tick has passed."""
        self._left_ticks -= 1
        self._again_ticks -= 1

    @property
    def is_over(self) -> bool:
        """Has it taken too long?"""
        return self._left_ticks <= 0

    def tells_now(self) -> bool:
        """Whether to tell the follower, which holds the whole log, now. It is told again after each
        heartbeat interval, since messages get lost."""
        if self._again_ticks > 0:
            return False
        self._again_ticks = self._heartbeat_ticks
        return True
