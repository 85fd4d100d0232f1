"""The positions and sizes of a log's entries, in arrays: 17 bytes per entry and no objects.

The table holds the entries after its base, which is the entry before the first one still in the
log (0 if none is missing). Those up to `placed` have a position on disk, written or planned. The
others are so far only in memory; of them kind, term and lengths are known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from raftlog.core.types import Entry, EntryKind, LogIndex, Term
from raftlog.storage.frames import FRAME_HEADER_BYTES


class EntryTable:
    """Grows and is truncated at its end, and is dropped at its beginning. Positions are those
    within the entry's segment."""

    __slots__ = (
        "_base_term", "_body_lengths", "_chains", "_command_lengths", "_first", "_kinds",
        "_positions", "_term_starts", "_term_values",
    )  # fmt: skip

    def __init__(self, base_index: int = 0, base_term: int = 0) -> None:
        self._first = base_index + 1
        """The index of the first entry here: entry i is at i - `_first` in every column."""
        self._base_term = base_term
        self._kinds = array("B")
        self._command_lengths = array("I")
        self._body_lengths = array("I")
        self._positions = array("I")
        self._chains = array("I")
        self._term_starts: list[int] = []
        self._term_values: list[int] = []

    @property
    def base_index(self) -> LogIndex:
        return LogIndex(self._first - 1)

    @property
    def base_term(self) -> Term:
        return Term(self._base_term)

    @property
    def last_index(self) -> LogIndex:
        """The last entry's index; `base_index` if there is no entry."""
        return LogIndex(self._first - 1 + len(self._kinds))

    @property
    def placed(self) -> LogIndex:
        """The last index that has a position on disk; `base_index` if none has."""
        return LogIndex(self._first - 1 + len(self._positions))

    @property
    def last_term(self) -> Term:
        return Term(self._term_values[-1] if self._term_values else self._base_term)

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
        assert self._first <= index <= self.last_index
        keep = index - self._first
        for column in self._columns():
            del column[keep:]
        runs = bisect_right(self._term_starts, index - 1)
        del self._term_starts[runs:]
        del self._term_values[runs:]

    def drop_to(self, index: int) -> None:
        """Forget the entries up to `index`, which becomes the base. They must have positions.

        Costs a copy of what stays, and gives back the memory of what does not.
        """
        assert self.base_index <= index <= self.placed, "only what is on disk is dropped"
        self._base_term = self.term_at(index)
        for column in self._columns():
            del column[: index + 1 - self._first]
        self._first = index + 1
        ended = bisect_right(self._term_starts, self._first) - 1  # runs before that of `_first`
        if ended >= 0:
            del self._term_starts[:ended]
            del self._term_values[:ended]
            self._term_starts[0] = self._first
        if not self._kinds:
            self._term_starts.clear()
            self._term_values.clear()

    def part(self, first: int, last: int) -> EntryTable:
        """A copy of the entries [first, last], which have positions; none if `last` is below
        `first`."""
        assert self._first <= first <= last + 1 <= self.placed + 1, "what is on disk"
        part = EntryTable(first - 1, self.term_at(first - 1))
        low, high = first - self._first, last + 1 - self._first
        for ours, its in zip(self._columns(), part._columns(), strict=True):
            its.extend(ours[low:high])
        for start, term in self.terms():
            if start <= first <= last:
                part._term_starts, part._term_values = [first], [term]
            elif first < start <= last:
                part._term_starts.append(start)
                part._term_values.append(term)
        return part

    def _columns(self) -> tuple[array[int], ...]:
        return (
            self._kinds, self._command_lengths, self._body_lengths, self._positions, self._chains
        )  # fmt: skip

    def term_at(self, index: int) -> Term:
        """The term of an entry in [`base_index`, `last_index`]; that of index 0 is 0."""
        assert self._first - 1 <= index <= self.last_index, (
            f"index {index} is not in [{self.base_index}, {self.last_index}]"
        )
        run = bisect_right(self._term_starts, index) - 1
        return Term(self._term_values[run] if run >= 0 else self._base_term)

    def terms(self) -> list[tuple[LogIndex, Term]]:
        """Each term with its first index here, ascending. The first may have begun earlier."""
        return [
            (LogIndex(start), Term(term))
            for start, term in zip(self._term_starts, self._term_values, strict=True)
        ]

    def sizes(self) -> list[int]:
        """Payload bytes of every entry, from the one after the base on."""
        pairs = zip(self._command_lengths, self._body_lengths, strict=True)
        return [command + body for command, body in pairs]

    def indexes_of(self, kind: EntryKind, after: int) -> list[LogIndex]:
        """The entries of that kind after `after`, which is not below the base."""
        first = after + 1
        kinds = self._kinds[first - self._first :]
        return [LogIndex(index) for index, each in enumerate(kinds, first) if each == kind]

    def kind_at(self, index: int) -> EntryKind:
        return EntryKind(self._kinds[index - self._first])

    def lengths_at(self, index: int) -> tuple[int, int]:
        """Bytes of the entry's command and body."""
        return self._command_lengths[index - self._first], self._body_lengths[index - self._first]

    def size_at(self, index: int) -> int:
        return self._command_lengths[index - self._first] + self._body_lengths[index - self._first]

    def position_at(self, index: int) -> int:
        return self._positions[index - self._first]

    def chain_at(self, index: int) -> int:
        """The chain of the entry's segment up to and including the entry."""
        return self._chains[index - self._first]

    def end_at(self, index: int) -> int:
        """The position after the entry's frame."""
        return self._positions[index - self._first] + FRAME_HEADER_BYTES + self.size_at(index)
