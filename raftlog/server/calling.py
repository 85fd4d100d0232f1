"""The call that is being answered, for whatever answers it: who makes it, its count, its span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from raftlog.auth.principals import Caller
from raftlog.metrics.counts import CallCount

_caller: ContextVar[Caller | None] = ContextVar("raftlog_caller", default=None)
_again: ContextVar[Callable[[], Caller | None]] = ContextVar("raftlog_again", default=lambda: None)
_span: ContextVar[str] = ContextVar("raftlog_span", default="")
_counted: ContextVar[CallCount | None] = ContextVar("raftlog_counted_call", default=None)


def caller() -> Caller | None:
    """Who makes it; None: authentication is off."""
    return _caller.get()


def principal() -> str:
    """The principal that makes it; "": authentication is off."""
    who = caller()
    return "" if who is None else who.principal


def caller_again() -> Callable[[], Caller | None]:
    """Says who makes it, as it is known whenever that is asked; None: authentication is off. Raises
    `Unauthenticated` if what the call showed proves nothing any more."""
    return _again.get()


def begin(who: Caller, again: Callable[[], Caller]) -> None:
    """From now on this is who makes the call, in a task of the call's own. `again`: see
    `caller_again`."""
    _caller.set(who)
    _again.set(again)


def span() -> str:
    """Its span, as another process gets it; "": it is not traced."""
    return _span.get()


def begin_span(carried: str) -> None:
    """From now on this is the call's span, in a task of the call's own."""
    _span.set(carried)


@contextmanager
def calling(who: Caller) -> Iterator[None]:
    """While its handler runs, this is who makes the call."""
    before, again_before = _caller.set(who), _again.set(lambda: who)
    try:
        yield
    finally:
        _caller.reset(before)
        _again.reset(again_before)


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
