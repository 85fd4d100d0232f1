"""Lets the numbered calls of one sender through in their order, when they come out of it.

A client keeps several calls in flight, and large ones overtake one another on their way through
one connection. Proposed as they came, an early one would be refused as a gap when it is applied:
safe, but its bytes would have been replicated for nothing. So a call that is ahead of its turn is
held back, briefly, until its predecessor was proposed. That is all: nothing here decides what is
in the log; after the wait the call goes on as it is, and the state machine judges it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class SenderOrder:
    """The turns of all senders (a producer, or a task's attempt) on one node's loop."""

    def __init__(self, *, wait_max_s: float, senders_max: int) -> None:
        self._wait_max_s = wait_max_s
        self._senders_max = senders_max
        self._due: OrderedDict[str, int] = OrderedDict()
        """The number due next of each sender that proposed here lately, oldest first."""
        self._waiting: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def turn(self, sender: str, number: int) -> None:
        """Return when the sender's call `number` is due, was due before, or has waited enough."""
        if number <= self._due.get(sender, 0):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[sender, number] = turn
        try:
            async with asyncio.timeout(self._wait_max_s):
                await turn
        except TimeoutError:
            pass  # its predecessor went elsewhere, or is lost: the state machine says which
        finally:
            if self._waiting.get((sender, number)) is turn:
                del self._waiting[sender, number]

    def proposed(self, sender: str, number: int) -> None:
        """The sender's call `number` has its place in the log: its successor may follow."""
        following = max(number + 1, self._due.get(sender, 0))
        self._due[sender] = following
        self._due.move_to_end(sender)
        if len(self._due) > self._senders_max:
            self._due.popitem(last=False)
        turn = self._waiting.get((sender, following))
        if turn is not None and not turn.done():
            turn.set_result(None)
