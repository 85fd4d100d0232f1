"""Watching through one node after another, for as long as the caller takes what comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from raftlog.client.connection import Connection, Judge
from raftlog.errors import RaftlogError
from raftlog.wire.calls import Reply, Request, WatchCall
from raftlog.wire.group_calls import WATCH_SECONDS_MAX


def watch_seconds(connection: Connection) -> int:
    """How long one call should watch: well within a request's time, so that a node which hangs is
    left in time."""
    return max(1, min(WATCH_SECONDS_MAX, round(connection.settings.request_timeout_s / 3)))


def replies(
    connection: Connection,
    call: WatchCall[Request, Reply],
    request: Callable[[], Request],
    judge: Judge,
) -> Iterator[Reply | None]:
    """What nodes tell, without end; None when a call ended by its time.

    `request` is asked before each call: it says from where on. Raises what is not retriable, what
    `judge` says is final, and `DeadlineExceeded` when no node answers within
    `client.request_timeout_s`.
    """
    seconds = watch_seconds(connection)

    def begin(try_s: float) -> tuple[Iterator[tuple[Reply, memoryview]], Reply | None]:
        address = connection.next_address(connection.addresses())
        stream = connection.stream(address, call, request(), seconds + try_s)
        first = next(stream, None)
        return stream, first[0] if first is not None else None

    while True:
        stream, reply = connection.retry(begin, connection.deadline(call.name), judge=judge)
        try:
            while reply is not None:
                yield reply
                following = next(stream, None)
                reply = following[0] if following is not None else None
        except RaftlogError as error:
            if not error.retriable:
                raise
            # What came so far is good; it goes on at another node.
        yield None
