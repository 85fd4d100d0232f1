"""What every error of `raftlog.errors` is: plain values, with a cause and a remedy made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from raftlog.exit_code import ExitCode


@dataclass(kw_only=True, eq=False)
class RaftlogError(Exception):
    """Base of the tree. Subclasses are keyword-only dataclasses of plain values."""

    retriable: ClassVar[bool] = False
    """True: the same request may succeed later or at another node, unchanged."""
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    grpc_status: ClassVar[str] = "UNKNOWN"
    """The name of the grpc status code it travels under."""

    cause_text: ClassVar[str]
    """What is wrong, a format of the error's own values; a subclass has it or overrides `cause`."""
    remedy_text: ClassVar[str]
    """What to do about it, in the same way."""

    @property
    def cause(self) -> str:
        """What is wrong, in one or two sentences."""
        return self.cause_text.format_map(vars(self))

    @property
    def remedy(self) -> str:
        """What to do about it, naming the option that matters."""
        return self.remedy_text.format_map(vars(self))

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)}))

    def to_wire(self) -> tuple[str, dict[str, str]]:
        """The error's code (its class name) and its values as text."""
        return type(self).__name__, {f.name: str(getattr(self, f.name)) for f in fields(self)}


def _rebuild(kind: type[RaftlogError], values: dict[str, object]) -> RaftlogError:
    return kind(**values)
