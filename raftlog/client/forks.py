"""What a forked child must not share with its parent: locks, channels, sequences of numbers.

Spark forks its Python workers. A lock that another thread held at that moment would be held in the
child for ever, and two processes that go on with one producer's sequence would take each other's
records for their own, resent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_left_alone: list[object] = []
_begin_again: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def in_each_child(owner: T, begin_again: Callable[[T], None]) -> None:
    """Call `begin_again(owner)` in every process that is forked from now on, for as long as the
    owner lives. The child has one thread then."""
    _begin_again[owner] = begin_again


def leave_alone(*objects: object) -> None:
    """Keep what is the parent's for as long as this process lives: to take grpc's objects down in
    a child can hang it."""
    _left_alone.extend(objects)


def _in_child() -> None:
    for owner, begin_again in list(_begin_again.items()):
        begin_again(owner)


os.register_at_fork(after_in_child=_in_child)
