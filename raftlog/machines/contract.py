"""What a replica requires of a state machine, and the one rule that a machine must keep.

The rule: `apply` depends only on the machine's state and the command. It uses no clock, no
randomness and no I/O; times travel in the command. So the same entries give the same state hash on
every node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Protocol, TypeVar

from raftlog.core.types import LogIndex
from raftlog.machines.state import MachineState

CommandT = TypeVar("CommandT", contravariant=True)
OutcomeT = TypeVar("OutcomeT", bound=Hashable, covariant=True)


class StateMachine(Protocol[CommandT, OutcomeT]):
    """One group's state. Only committed commands change it, in log order."""

    commands: ClassVar[frozenset[type]]
    """The kinds of commands that it takes."""
    rules: int
    """The version of the rules that the next entry is applied under (`raftlog.machines.rules`)."""

    def apply(self, index: LogIndex, command: CommandT) -> OutcomeT:
        """Apply the command of entry `index`. Indexes rise; entries without a command are skipped.

        Returns a frozen value that says what happened. A refusal is such a value too: a command
        never raises for one. Raises `LogFromNewerVersion` for rules that this program does not
        know: the replica must stop before that entry. Raises AssertionError only for a defect.
        """
        ...

    def state(self) -> MachineState:
        """The whole state as a value, of which the same machine can be made. O(state)."""
        ...

    def progress(self) -> dict[str, int]:
        """Numbers of the state, by name, that no command lowers. O(1)."""
        ...

    def fingerprint(self) -> bytes:
        """A digest of the whole state, equal on all nodes at one index. O(state): for checks."""
        ...
