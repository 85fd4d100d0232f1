"""Linearizable reads without the log: rounds of heartbeats (Raft dissertation section 6.4).

A read notes the commit index at the start of its round and is correct at that index once a
majority has answered a heartbeat of that round or a later one: no other member can have led since.
All reads that arrive while a round is in flight share the next one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from raftlog.core.ready import ReadState
from raftlog.core.state import Part
from raftlog.core.types import LogIndex


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A read that was asked for and not confirmed yet."""

    request_id: int
    read_round: int
    """The round that is to confirm it; 0: it waits for the next one."""
    index: LogIndex | None
    """At which index it will be correct; None: its round has not begun."""


class ReadRounds(Part):
    """The reads of one leadership, in the order in which they came."""

    __slots__ = ("_in_flight", "_pending", "_waiting", "latest")

    def __init__(self) -> None:
        self.latest = 0
        """The number of the latest round started; 0: none."""
        self._waiting: list[int] = []
        self._in_flight: deque[tuple[int, LogIndex, tuple[int, ...]]] = deque()
        self._pending = 0

    @property
    def pending(self) -> int:
        """Reads that wait, waiting or in flight."""
        return self._pending

    def views(self) -> tuple[PendingRead, ...]:
        """Every pending read, in the order in which they came."""
        in_flight = [
            PendingRead(request, read_round, index)
            for read_round, index, requests in self._in_flight
            for request in requests
        ]
        waiting = [PendingRead(request, 0, None) for request in self._waiting]
        return tuple(in_flight + waiting)

    @property
    def wants_round(self) -> bool:
        """Reads wait and no round is in flight that they would have to wait for."""
        return bool(self._waiting) and not self._in_flight

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, request_id: int) -> None:
        """Take a read in; it waits for the next round."""
        self._waiting.append(request_id)
        self._pending += 1

    def start(self, commit_index: LogIndex) -> None:
        """Begin a round for all waiting reads, correct at `commit_index`."""
        assert self._waiting, "a round serves at least one read"
        self.latest += 1
        self._in_flight.append((self.latest, commit_index, tuple(self._waiting)))
        self._waiting.clear()

    def start_empty(self) -> int:
        """Begin a round that serves no read, and return its number."""
        self.latest += 1
        return self.latest

    def confirm(self, read_round: int) -> list[ReadState]:
        """The reads that a majority's answers up to `read_round` have confirmed."""
        confirmed: list[ReadState] = []
        while self._in_flight and self._in_flight[0][0] <= read_round:
            _, index, requests = self._in_flight.popleft()
            confirmed.extend(ReadState(request, index) for request in requests)
        self._pending -= len(confirmed)
        return confirmed

    def drop(self) -> tuple[int, ...]:
        """Give up all reads, in their order: this member leads no more."""
        dropped = [request for _, _, requests in self._in_flight for request in requests]
        dropped.extend(self._waiting)
        self._in_flight.clear()
        self._waiting.clear()
        self._pending = 0
        return tuple(dropped)
