"""Do the replicas of a group have the same state? They compare state hashes while they run.

Replicas apply the same entries, so their states can differ only by a defect: a rule that depends on
more than the log, a program that was changed, memory that lies. Every `COMPARED_EVERY` entries each
replica keeps its state hash, and the leader asks for it in its heartbeats. The hash that a majority
of all voters holds is the agreed one, and every heartbeat tells it, so each replica judges itself:

- trusted: nothing is known against it;
- diverged: a majority agrees on another hash. It votes and acknowledges, because its log is as good
  as any, but does not lead and serves no read;
- disputed: hashes differ and none has a majority. Records above the last agreed point are not
  served until one has.

The hash is chained over all entries, so replicas that once differed differ at every later point.
Nothing here is on disk: a replica that starts again replays its log, and is compared again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from raftlog.core.messages import Heartbeat, HeartbeatReply
from raftlog.core.quorum import majority
from raftlog.core.types import NO_INDEX, LogIndex, NodeId, Offset

COMPARED_EVERY = 1024
"""Entries from one point of comparison to the next. Nodes need not have the same number: what a
node is asked and does not have, it does not answer."""

_POINTS_KEPT_MAX = 16
_QUESTION_POINTS_MAX = 4
"""A question that is open for so many points gives way to a newer one: a follower that was away may
have passed its point already."""


class StateTrust(Enum):
    """What a replica knows of its own state."""

    TRUSTED = "trusted"
    DIVERGED = "diverged"
    DISPUTED = "disputed"


class _Point(NamedTuple):
    state_hash: bytes
    high_water_mark: Offset


class StateComparison:
    """One replica's part in it: it answers as a follower and asks as a leader."""

    def __init__(self, node: NodeId, every: int = COMPARED_EVERY) -> None:
        """`every` so many entries is a point of comparison."""
        self._node = node
        self._every = every
        self._patience = _QUESTION_POINTS_MAX * every
        self._points: dict[LogIndex, _Point] = {}
        """The latest ones, in order."""
        self._asked = NO_INDEX
        """Whose hash the leader asks for; 0: none."""
        self._question = NO_INDEX
        """What this replica asks for, or asked for last, as a leader; open above `agreed_index`."""
        self._answers: dict[NodeId, bytes] = {}
        self._outvoted: set[NodeId] = set()
        """The followers that say that they have diverged."""
        self._agreed_hash = b""
        self._diverged = False
        self._disputed = False
        self.agreed_index = NO_INDEX
        """The latest point at which a majority agrees, as far as is known here; 0: none."""
        self.agreed_mark = Offset(0)
        """The high-water mark at the latest point at which this replica agreed with a majority."""

    @property
    def trust(self) -> StateTrust:
        """What is known now of this replica's state."""
        if self._diverged:
            return StateTrust.DIVERGED
        return StateTrust.DISPUTED if self._disputed else StateTrust.TRUSTED

    def is_point(self, index: LogIndex) -> bool:
        """Are states compared at this entry?"""
        return index % self._every == 0

    def reached(self, index: LogIndex, state_hash: bytes, high_water_mark: Offset) -> None:
        """The replica has applied the entry at a point of comparison."""
        self._points[index] = _Point(state_hash, high_water_mark)
        if len(self._points) > _POINTS_KEPT_MAX:
            del self._points[next(iter(self._points))]
        if index == self.agreed_index:
            self._judge()

    # ------------------------------------------------------------ as a leader

    def ask(self, heartbeat: Heartbeat) -> Heartbeat:
        """The heartbeat with what this leader asks and tells."""
        latest = next(reversed(self._points), NO_INDEX)
        is_open = self._question > self.agreed_index
        if latest > self.agreed_index and (
            not is_open or latest >= self._question + self._patience
        ):
            self._question = latest
            self._answers = {self._node: self._points[latest].state_hash}
            is_open = True
        if not (is_open or self.agreed_index):
            return heartbeat
        return replace(
            heartbeat,
            hash_index=self._question if is_open else NO_INDEX,
            agreed_index=self.agreed_index,
            agreed_hash=self._agreed_hash,
            disputed=self._disputed,
        )

    def answered(self, reply: HeartbeatReply, voters: Collection[NodeId]) -> None:
        """A follower has answered this leader; it says nothing if it is older or not there yet.

        Those that know themselves outvoted dispute nothing: they differ at every later point, which
        says nothing about the others.
        """
        if reply.diverged:
            self._outvoted.add(reply.sender)
        else:
            self._outvoted.discard(reply.sender)
        if reply.hash_index != self._question or self._question <= self.agreed_index:
            return
        self._answers[reply.sender] = reply.state_hash
        answers = {voter: self._answers[voter] for voter in voters if voter in self._answers}
        state_hash, holders = Counter(answers.values()).most_common(1)[0]
        if holders >= majority(len(voters)):
            self._disputed = False
            self._learn(self._question, state_hash)
        elif len({answers[voter] for voter in answers if voter not in self._outvoted}) > 1:
            self._disputed = True

    # ------------------------------------------------------------ as a follower

    def heard(self, heartbeat: Heartbeat) -> None:
        """The leader has spoken. One that is older asks and tells nothing."""
        self._asked = heartbeat.hash_index
        self._disputed = heartbeat.disputed
        if heartbeat.agreed_index:
            self._learn(heartbeat.agreed_index, heartbeat.agreed_hash)

    def answer(self, reply: HeartbeatReply) -> HeartbeatReply:
        """The reply with the hash that the leader asks for, if this replica has it."""
        point = self._points.get(self._asked)
        if point is not None:
            reply = replace(reply, hash_index=self._asked, state_hash=point.state_hash)
        return replace(reply, diverged=True) if self._diverged else reply

    # ------------------------------------------------------------ trust

    def _learn(self, index: LogIndex, state_hash: bytes) -> None:
        if index >= self.agreed_index:
            self.agreed_index = index
            self._agreed_hash = state_hash
            self._judge()

    def _judge(self) -> None:
        """Compare with what is agreed, once this replica has got there."""
        point = self._points.get(self.agreed_index)
        if point is not None:
            self._diverged = point.state_hash != self._agreed_hash
            if not self._diverged:
                self.agreed_mark = point.high_water_mark
