"""What a leader tells a follower of the spans that its entries belong to."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import GroupId, LogIndex, Term

CARRIED_MAX = 64
"""Characters of a span as it is carried (W3C, Trace Context: 55 in its version 00)."""


TRACED_MAX = 256
"""At most so many of a frame's entries are announced; the others are not traced."""


@dataclass(frozen=True, slots=True)
class TracedEntry:
    """An entry that is on its way, and a span."""

    group: GroupId
    index: LogIndex
    term: Term
    carried: str
    """The span, as `raftlog.tracing` writes it."""
