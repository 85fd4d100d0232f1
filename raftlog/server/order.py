"""Puts the numbered calls of one sender back in order.

A client keeps several calls in flight, and large ones overtake one another on one connection. A
call that is proposed before its predecessor is refused as a gap when it is applied. That is safe,
but its bytes are replicated for nothing. So a call that comes too early waits briefly until its
predecessor is proposed. Nothing here decides what is in the log: after the wait the call goes on
as it is, and the state machine judges it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class SenderOrder:
    """The turns of all senders (producers and tasks' attempts) on one node's loop.

    A call waits at most `wait_max_s`. The senders that proposed last are remembered, `senders_max`
    of them.
    """

    def __init__(self, *, wait_max_s: float, senders_max: int) -> None:
        self._wait_max_s = wait_max_s
        self._senders_max = senders_max
        self._due: OrderedDict[str, int] = OrderedDict()
        """By sender, the number that is due next; the sender that proposed last comes last."""
        self._waiting: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def turn(self, sender: str, number: int) -> None:
        """Return once the sender's call `number` is due or overdue, or has waited `wait_max_s`."""
        if number <= self._due.get(sender, 0):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[sender, number] = turn
        try:
            async with asyncio.timeout(self._wait_max_s):
                await turn
        except TimeoutError:
            pass  # the predecessor went to another node or is lost: the state machine knows
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
