"""Private to `raftlog.wire`: single values of columns, as bounds and as what is compared with."""

from __future__ import annotations

from typing import assert_never

from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.framing import Unreadable


def put_bound(message: pb.Bound, bound: bool | int | float | str | bytes) -> None:
    """Write a bound that is known into its message."""
    match bound:
        case bool():  # before int: True is an int to Python
            message.truth = bound
        case int():
            message.integer = bound
        case float():
            message.real = bound
        case str():
            message.text = bound
        case bytes():
            message.binary = bound
        case _:
            assert_never(bound)


def get_bound(message: pb.Bound) -> bool | int | float | str | bytes:
    """The bound; raises `Unreadable` for one of an unknown kind, or longer than any name."""
    kind = message.WhichOneof("value")
    if kind is None:
        raise Unreadable("a bound is of an unknown kind")
    bound: bool | int | float | str | bytes = getattr(message, kind)
    if isinstance(bound, str | bytes) and len(bound) > TEXT_CHARACTERS_MAX:
        raise Unreadable(f"a bound of {len(bound)} characters; {TEXT_CHARACTERS_MAX} are allowed")
    return bound
