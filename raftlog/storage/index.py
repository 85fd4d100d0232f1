"""The positions and sizes of a log's entries, in arrays: 17 bytes per entry and no objects.

Entries count from index 1. The first `placed` of them have a position on disk, written or planned.
The others are so far only in memory; of them kind, term and lengths are known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from raftlog.core.types import Entry, EntryKind, LogIndex, Term
from raftlog.storage.frames import FRAME_HEADER_BYTES


class EntryTable:
    """Grows and is truncated at its end. Positions are those within the entry's segment."""

    __slots__ = (
        "_body_lengths", "_chains", "_command_lengths", "_kinds", "_positions", "_term_starts",
        "_term_values",
    )  # fmt: skip

    def __init__(self) -> None:
        self._kinds = array("B")
        self._command_lengths = array("I")
        self._body_lengths = array("I")
        self._positions = array("I")
        self._chains = array("I")
        self._term_starts: list[int] = []
        self._term_values: list[int] = []

    @property
    def last_index(self) -> LogIndex:
        return LogIndex(len(self._kinds))

    @property
    def placed(self) -> LogIndex:
        """The last index that has a position on disk; 0 if none has."""
        return LogIndex(len(self._positions))

    @property
    def last_term(self) -> Term:
        return Term(self._term_values[-1] if self._term_values else 0)

    def add(self, index: int, term: int, kind: int, command_length: int, body_length: int) -> None:
        """Add the next entry: `index` follows the last, `term` does not fall (Raft, figure 2)."""
        assert index == self.last_index + 1, f"entry {index} after {self.last_index}: a gap"
        assert term >= self.last_term, f"term {term} after {self.last_term}: it never falls"
        if not self._term_values or term > self._term_values[-1]:
            self._term_starts.append(index)
            self._term_values.append(term)
        self._kinds.append(kind)
        self._command_lengths.append(command_length)
        self._body_lengths.append(body_length)

    def add_entry(self, entry: Entry) -> None:
        """Add the next entry, like `add`."""
        payload = entry.payload
        self.add(entry.index, entry.term, entry.kind, len(payload.command), len(payload.body))

    def place(self, position: int, chain: int) -> None:
        """Give the first entry without a position its position and the chain that includes it."""
        assert self.placed < self.last_index
        self._positions.append(position)
        self._chains.append(chain)

    def truncate(self, index: int) -> None:
        """Forget the entries at and after `index`."""
        assert 1 <= index <= self.last_index
        keep = index - 1
        for column in (self._kinds, self._command_lengths, self._body_lengths):
            del column[keep:]
        del self._positions[keep:]
        del self._chains[keep:]
        runs = bisect_right(self._term_starts, keep)
        del self._term_starts[runs:]
        del self._term_values[runs:]

    def term_at(self, index: int) -> Term:
        """The entry's term; 0 for index 0, before the first entry."""
        assert 0 <= index <= self.last_index, f"index {index} is not in [0, {self.last_index}]"
        run = bisect_right(self._term_starts, index) - 1
        return Term(self._term_values[run] if run >= 0 else 0)

    def terms(self) -> list[tuple[LogIndex, Term]]:
        """Each term with its first index, ascending."""
        return [
            (LogIndex(start), Term(term))
            for start, term in zip(self._term_starts, self._term_values, strict=True)
        ]

    def sizes(self) -> list[int]:
        """Payload bytes of every entry, from the first on."""
        pairs = zip(self._command_lengths, self._body_lengths, strict=True)
        return [command + body for command, body in pairs]

    def kind_at(self, index: int) -> EntryKind:
        return EntryKind(self._kinds[index - 1])

    def lengths_at(self, index: int) -> tuple[int, int]:
        """Bytes of the entry's command and body."""
        return self._command_lengths[index - 1], self._body_lengths[index - 1]

    def size_at(self, index: int) -> int:
        return self._command_lengths[index - 1] + self._body_lengths[index - 1]

    def position_at(self, index: int) -> int:
        return self._positions[index - 1]

    def chain_at(self, index: int) -> int:
        """The chain of the entry's segment up to and including the entry."""
        return self._chains[index - 1]

    def end_at(self, index: int) -> int:
        """The position after the entry's frame."""
        return self._positions[index - 1] + FRAME_HEADER_BYTES + self.size_at(index)
