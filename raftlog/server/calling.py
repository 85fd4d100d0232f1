"""The call that is being answered, for whatever answers it: who makes it, its count, its span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from raftlog.auth.principals import Caller
from raftlog.metrics.counts import CallCount


class Identity:
    """Who makes one call, for all that answers it."""

    __slots__ = ("_known_now", "caller")

    def __init__(self, caller: Caller | None, known_now: Callable[[], Caller | None]) -> None:
        """`known_now` raises `Unauthenticated` if what the call showed proves nothing any more."""
        self.caller = caller
        """As it was known when that was last looked up; None: authentication is off."""
        self._known_now = known_now

    def look_up(self) -> Caller | None:
        """Who makes it, as it is known now. Raises `Unauthenticated`."""
        self.caller = self._known_now()
        return self.caller


_UNKNOWN = Identity(None, lambda: None)
_identity: ContextVar[Identity] = ContextVar("raftlog_identity", default=_UNKNOWN)
_span: ContextVar[str] = ContextVar("raftlog_span", default="")
_counted: ContextVar[CallCount | None] = ContextVar("raftlog_counted_call", default=None)


def identity() -> Identity:
    """Of the call; the same object until it ends."""
    return _identity.get()


def caller() -> Caller | None:
    """Who makes it; None: authentication is off. Ask again after a wait: a token's groups may be
    other ones then."""
    return identity().caller


def principal() -> str:
    """The principal that makes it; "": authentication is off."""
    who = caller()
    return "" if who is None else who.principal


def begin(who: Caller, known_now: Callable[[], Caller]) -> None:
    """From now on this is who makes the call, in a task of the call's own. `known_now`: see
    `Identity`."""
    _identity.set(Identity(who, known_now))


def span() -> str:
    """Its span, as another process gets it; "": it is not traced."""
    return _span.get()


def begin_span(carried: str) -> None:
    """From now on this is the call's span, in a task of the call's own."""
    _span.set(carried)


@contextmanager
def calling(who: Caller) -> Iterator[None]:
    """While its handler runs, this is who makes the call."""
    before = _identity.set(Identity(who, lambda: who))
    try:
        yield
    finally:
        _identity.reset(before)


def counted_call() -> CallCount | None:
    """Its count; None: no call is being answered, or one that has many answers."""
    return _counted.get()


@contextmanager
def counting(count: CallCount) -> Iterator[CallCount]:
    """Count the call while its handler runs."""
    before = _counted.set(count)
    try:
        with count:
            yield count
    finally:
        _counted.reset(before)
