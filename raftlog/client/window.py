"""Several calls in flight, answered in order: one writer fills the wire and keeps its order.

The calls of a window carry consecutive numbers. If one is lost or overtaken on its way, the server
refuses its successors as gaps. The window sends them again, one after another, once the lost one is
answered. A number that the log already has is answered without effect, so resending is safe.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple

from raftlog.client.connection import Connection, Sent
from raftlog.client.retries import Deadline
from raftlog.core.types import GroupId
from raftlog.errors import RaftlogError, SequenceGap, StageGap, UnknownProducer
from raftlog.wire.calls import BodyCall, Reply, Request

_RESENT = (StageGap, SequenceGap, UnknownProducer)
"""Refusals that a lost predecessor explains. They count only once all predecessors are answered."""


class _Pending(NamedTuple, Generic[Request, Reply]):
    request: Request
    body: bytes
    deadline: Deadline
    sent: Sent[Reply] | None

    @property
    def is_done(self) -> bool:
        """Whether waiting for its reply takes no time."""
        return self.sent is None or self.sent.future.done()


class Window(Generic[Request, Reply]):
    """At most `max_in_flight` unanswered requests of `call` at the leader of `group`.

    One thread at a time.
    """

    def __init__(
        self,
        connection: Connection,
        group: GroupId,
        call: BodyCall[Request, Reply],
        max_in_flight: int,
    ) -> None:
        assert max_in_flight >= 1
        self._connection = connection
        self._group = group
        self._call = call
        self._max_in_flight = max_in_flight
        self._pending: deque[_Pending[Request, Reply]] = deque()
        self._sent_again = False
        """A call was lost or refused: those behind it may have been refused as gaps."""
        self.answered = 0
        """How many calls are answered: the first so many of those pushed."""
        self.refused_at_once = False
        """Whether a call failed for good when it was tried for the first time: then the log has
        neither it nor any behind it."""

    def push(self, request: Request, body: bytes, deadline: Deadline | None = None) -> list[Reply]:
        """Send a call. Returns the replies that it had to wait for to make room, oldest first.

        `deadline` is the call's; by default it begins now. Raises the error of an earlier call that
        failed for good; the window is then unusable.
        """
        replies: list[Reply] = []
        while self.is_full:
            replies.append(self._settle_oldest())
            if self._sent_again:
                # A new call would be a gap as well, and go into the log in vain, as would all
                # after it: those that are pending come first.
                replies.extend(self.drain())
        self._sent_again = False
        deadline = deadline or self._connection.deadline(self._call.name)
        sent = self._connection.send_leader(self._group, self._call, request, body, deadline)
        self._pending.append(_Pending(request, body, deadline, sent))
        if sent is None:
            # No leader is known. Find it with this call before sending more.
            replies.extend(self.drain())
        return replies

    def push_last(
        self, request: Request, body: bytes, deadline: Deadline | None = None
    ) -> list[Reply]:
        """Send the last call of a series and wait for all. Returns the replies that were still due.

        With nothing else in flight this is one blocking call, which costs less than a future.
        """
        if self._pending:
            replies = self.push(request, body, deadline)
            return replies + self.drain()
        failed: list[RaftlogError] = []
        try:
            reply = self._connection.call_leader(
                self._group, self._call, request, body, deadline, judge=failed.append
            )
        except RaftlogError as error:
            self.refused_at_once = failed == [error]  # not where it came after other tries
            raise
        self.answered += 1
        return [reply]

    def drain(self) -> list[Reply]:
        """Wait for all calls. Returns their replies in order."""
        replies: list[Reply] = []
        while self._pending:
            replies.append(self._settle_oldest())
        return replies

    @property
    def is_empty(self) -> bool:
        """Whether no call is unanswered."""
        return not self._pending

    @property
    def is_full(self) -> bool:
        """Whether the next call has to wait for the reply to an earlier one."""
        return len(self._pending) >= self._max_in_flight

    def settle(self) -> list[Reply]:
        """Take the replies that have come, oldest first. Waits only to send again what failed."""
        replies: list[Reply] = []
        while self._pending and self._pending[0].is_done:
            replies.append(self._settle_oldest())
            if self._sent_again:
                replies.extend(self.drain())
        return replies

    @property
    def pending_bytes(self) -> int:
        """Bytes of the bodies that it holds, of calls whose replies it has not taken yet."""
        return sum(len(pending.body) for pending in self._pending)

    def cancel(self) -> None:
        """Give up the calls in flight. The log may do them all the same."""
        while self._pending:
            sent = self._pending.popleft().sent
            if sent is not None:
                sent.cancel()

    def _settle_oldest(self) -> Reply:
        reply = self._reply_to(self._pending.popleft())
        self.answered += 1
        return reply

    def _reply_to(self, oldest: _Pending[Request, Reply]) -> Reply:
        earlier = None
        if oldest.sent is not None:
            try:
                return self._connection.receive(oldest.sent, self._group)
            except RaftlogError as error:
                if not (error.retriable or isinstance(error, _RESENT)):
                    self.refused_at_once = True
                    raise
                earlier = error
        self._sent_again, self.refused_at_once = True, False
        span = None if oldest.sent is None else oldest.sent.span
        with self._connection.traces.following(span):
            return self._connection.call_leader(
                self._group, self._call, oldest.request, oldest.body, oldest.deadline, earlier
            )
