"""Is a history of one key linearizable? Decided by search, and proven on planted histories.

Every operation lies between its call and its answer. The history is linearizable if there is one
order of all operations, none before its call or after its answer, in which each has the outcome
that it had (Herlihy and Wing, 1990). The search goes through calls and answers in time. It keeps
every state in which the key may be, with the open operations that have taken effect on the way
there; at an answer only those stay in which that operation has (as in Lowe, 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Step = Callable[[int], int | None]
"""The key's version after the operation, from the one before it; None: it cannot have had this
outcome there."""


class Operation(NamedTuple):
    """An operation that was answered. No two moments of a history are the same."""

    called: int
    answered: int
    step: Step
    text: str


def read(version: int) -> Step:
    """A read that found this version; 0: the key was absent."""
    return lambda state: state if state == version else None


def written(version: int, previous: int, expected: int) -> Step:
    """A put or delete that was done: the versions after and before it, and the expected one."""
    return lambda state: (
        version if state == previous and expected in (-1, state) and version != state else None
    )


def deleted_nothing(expected: int) -> Step:
    """A delete of an absent key."""
    return lambda state: 0 if state == 0 and expected in (-1, 0) else None


def conflicted(found: int, expected: int) -> Step:
    """A write that was refused, because the key had another version."""
    return lambda state: state if state == found != expected else None


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Whether the operations on one key, absent at first, are linearizable."""
    moments = sorted(
        [(each.called, True, each) for each in operations]
        + [(each.answered, False, each) for each in operations],
        key=lambda moment: moment[0],
    )
    open_: set[Operation] = set()
    reached: set[tuple[int, frozenset[Operation]]] = {(0, frozenset())}
    for _, begins, operation in moments:
        if begins:
            open_.add(operation)
            continue
        reached = {
            (state, done - {operation})
            for state, done in _reachable(reached, open_)
            if operation in done
        }
        open_.discard(operation)
        if not reached:
            return False
    return True


def _reachable(
    reached: set[tuple[int, frozenset[Operation]]], open_: set[Operation]
) -> set[tuple[int, frozenset[Operation]]]:
    """What comes of these when any of the open operations take effect, in any order."""
    found, waiting = set(reached), list(reached)
    while waiting:
        state, done = waiting.pop()
        for operation in open_ - done:
            after = operation.step(state)
            if after is not None and (following := (after, done | {operation})) not in found:
                found.add(following)
                waiting.append(following)
    return found
