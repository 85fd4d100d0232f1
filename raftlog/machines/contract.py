"""What a replica asks of a state machine, and the one rule a machine must keep.

The rule: `apply` is a function of the machine's state and the command alone. No clock, no chance,
no I/O; times travel in the command. So the same entries give the same state hash on every node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

from raftlog.core.types import LogIndex

CommandT = TypeVar("CommandT", contravariant=True)
OutcomeT = TypeVar("OutcomeT", bound=Hashable, covariant=True)


class StateMachine(Protocol[CommandT, OutcomeT]):
    """One group's state, changed by committed commands alone, in log order."""

    rules: int
    """The version of the rules that the next entry is applied under (`raftlog.machines.rules`)."""

    def apply(self, index: LogIndex, command: CommandT) -> OutcomeT:
        """Apply the command of entry `index`; indexes only rise (entries without a command skip).

        Returns a frozen value that says what happened, a refusal included: a command is never an
        exception. Raises `LogFromNewerVersion` for rules that this program does not know: the
        replica must stop before it. Raises AssertionError only for a defect.
        """
        ...

    def fingerprint(self) -> bytes:
        """A digest of the whole state: at one index equal on all nodes. O(state): for checks."""
        ...
