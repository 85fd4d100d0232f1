"""Who makes the call that is being answered, for whatever answers it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from raftlog.auth.caller import Caller

_caller: ContextVar[Caller | None] = ContextVar("raftlog_caller", default=None)


def caller() -> Caller | None:
    """Who makes it; None: the node asks nobody who they are."""
    return _caller.get()


@contextmanager
def calling(who: Caller) -> Iterator[None]:
    """While its handler runs, this is who makes the call."""
    before = _caller.set(who)
    try:
        yield
    finally:
        _caller.reset(before)
