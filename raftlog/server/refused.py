"""An outcome that may be a refusal: what a call answers, or the error that it raises."""

from __future__ import annotations

from typing import TypeVar

from raftlog import errors
from raftlog.config_hosts import is_address
from raftlog.errors import MalformedRequest, RaftlogError
from raftlog.machines.outcomes import Outcome, Refused

Accepted = TypeVar("Accepted", bound=Outcome)


def accepted(kind: type[Accepted], outcome: Outcome) -> Accepted:
    """The outcome of a command that was not refused; else raise the error that it names."""
    if isinstance(outcome, kind):
        return outcome
    assert isinstance(outcome, Refused), f"an outcome of another command: {outcome}"
    raise error_of(outcome)


def error_of(refused: Refused) -> RaftlogError:
    """The error of the same name, with the same values."""
    kind: type[RaftlogError] = getattr(errors, refused.code)
    assert issubclass(kind, RaftlogError)
    return kind(**dict(refused.values))


def check_address(call: str, address: str) -> None:
    """Reject an address that no node could connect to, before it is in the log."""
    if not is_address(address):
        raise MalformedRequest(call=call, what="address is not host:port")


def check_sense(call: str, problem: str | None) -> None:
    """Refuse here what every replica would refuse at apply, before its bytes are replicated."""
    if problem is not None:
        raise MalformedRequest(call=call, what=problem)
