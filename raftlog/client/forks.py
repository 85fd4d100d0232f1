"""What a forked child must not share with its parent: locks, channels, sequences.

Spark forks its Python workers. In the child, a lock that another thread held at that moment would
stay held. And if two processes used one producer's sequence, the log would take one's
records for the other's, resent.
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
    """Call `begin_again(owner)` in every child forked from now on, as long as the owner lives.

    The child then has one thread.
    """
    _begin_again[owner] = begin_again


def leave_alone(*objects: object) -> None:
    """Keep the parent's objects for as long as this process lives.

    Releasing grpc's objects in a child can hang it.
    """
    _left_alone.extend(objects)


def _in_child() -> None:
    for owner, begin_again in list(_begin_again.items()):
        begin_again(owner)


os.register_at_fork(after_in_child=_in_child)
