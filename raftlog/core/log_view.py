"""What the core knows of its group's log: terms as runs, sizes as sums, never the entries.

Terms change seldom, so they are kept as runs (first index, term); an entry costs 8 bytes here. All
indexes are positions in Raft's sense, from 1; the entry at `base_index` and those before it are
not in the log (0: none is missing).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from raftlog.core.state import Part
from raftlog.core.types import Entry, LastEntry, LogIndex, Span, Term


class LogView(Part):
    """The terms and sizes of entries `base_index + 1` to `last_index`.

    Appending and truncating cost what changes, dropping a copy of what stays, everything else the
    logarithm of it at most.
    """

    __slots__ = (
        "_base_index", "_base_term", "_dropped_bytes", "_ends", "_run_firsts", "_run_terms"
    )  # fmt: skip

    def __init__(self) -> None:
        """An empty log from index 1; `restore` makes any other."""
        self._base_index = 0
        self._base_term = 0
        self._run_firsts: list[int] = []
        self._run_terms: list[int] = []
        # The bytes of all entries up to and including each one: a range's size is a difference.
        self._ends = array("Q")
        self._dropped_bytes = 0
        """What they counted up to the base: sums are not written again when entries are dropped."""

    @classmethod
    def restore(
        cls,
        *,
        base_index: int = 0,
        base_term: int = 0,
        terms: Iterable[tuple[int, int]] = (),
        sizes: Iterable[int] = (),
    ) -> LogView:
        """The view of a log read back from storage.

        `terms` are the runs as (first index, term), rising in both; `sizes` the payload bytes of
        each entry from `base_index + 1` on.
        """
        log = cls()
        log._base_index = base_index
        log._base_term = base_term
        log._ends = array("Q", accumulate(sizes))
        for first, term in terms:
            assert first > (log._run_firsts[-1] if log._run_firsts else base_index), "runs rise"
            assert term > (log._run_terms[-1] if log._run_terms else base_term - 1), "terms rise"
            assert first <= log.last_index, "a run holds at least one entry"
            log._run_firsts.append(first)
            log._run_terms.append(term)
        covered = not log._ends or (bool(log._run_firsts) and log._run_firsts[0] == base_index + 1)
        assert covered, "every entry has a term"
        return log

    @property
    def base_index(self) -> LogIndex:
        return LogIndex(self._base_index)

    @property
    def base_term(self) -> Term:
        return Term(self._base_term)

    @property
    def first_index(self) -> LogIndex:
        """Of the first entry that the log holds; of an empty one, where it would be."""
        return LogIndex(self._base_index + 1)

    @property
    def last_index(self) -> LogIndex:
        return LogIndex(self._base_index + len(self._ends))

    @property
    def last_term(self) -> Term:
        return Term(self._run_terms[-1] if self._run_terms else self._base_term)

    @property
    def last_entry(self) -> LastEntry:
        """Where the log ends."""
        return LastEntry(self.last_term, self.last_index)

    def term_at(self, index: int) -> Term:
        """The term of the entry at `index`, from `base_index` (its own term) to `last_index`."""
        above_base = index - self._base_index
        assert 0 <= above_base <= len(self._ends), "no such entry in this log"
        firsts = self._run_firsts
        if firsts and index >= firsts[-1]:
            return Term(self._run_terms[-1])
        run = bisect_right(firsts, index) - 1
        return Term(self._run_terms[run] if run >= 0 else self._base_term)

    def first_index_of_term_at(self, index: int) -> LogIndex:
        """The first entry here of the term that the entry at `index` has, which is above the base.

        Entries of the term that were dropped do not count.
        """
        assert self._base_index < index <= self.last_index, "no such entry in this log"
        return LogIndex(self._run_firsts[bisect_right(self._run_firsts, index) - 1])

    def last_index_of_terms_to(self, term: int) -> LogIndex:
        """The last entry whose term is at most `term`; `base_index` if there is none."""
        run = bisect_right(self._run_terms, term)
        return LogIndex(
            self._run_firsts[run] - 1 if run < len(self._run_firsts) else self.last_index
        )

    def fit(self, first: int, *, entries_max: int, bytes_max: int) -> Span:
        """The longest span from `first` within both limits; it always holds one entry."""
        assert self._base_index < first <= self.last_index, "no such entry in this log"
        ends = self._ends
        start = first - self._base_index - 1
        before = ends[start - 1] if start else self._dropped_bytes
        stop = min(start + entries_max, len(ends))
        fitting = bisect_right(ends, before + bytes_max, start, stop)
        return Span(LogIndex(first), LogIndex(max(first, self._base_index + fitting)))

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries that follow directly on the last; their terms never fall."""
        ends = self._ends
        index = self._base_index + len(ends)
        term = self.last_term
        total = ends[-1] if ends else self._dropped_bytes
        for entry in entries:
            index += 1
            assert entry.index == index, "entries have no gap"
            assert entry.term >= term, "terms never fall along the log"
            if entry.term > term or not self._run_firsts:
                term = entry.term
                self._run_firsts.append(index)
                self._run_terms.append(term)
            total += entry.payload.size
            ends.append(total)

    def drop_to(self, index: int) -> None:
        """Drop the entries up to `index`, which becomes the base and keeps its term."""
        assert self._base_index <= index <= self.last_index, "no such entry in this log"
        count = index - self._base_index
        if not count:
            return
        self._base_term = self.term_at(index)
        self._dropped_bytes = self._ends[count - 1]
        self._base_index = index
        del self._ends[:count]
        # The runs that end at or before the base go; the one that reaches over it begins after it.
        gone = bisect_right(self._run_firsts, index + 1) - 1 if self._ends else None
        del self._run_firsts[:gone]
        del self._run_terms[:gone]
        if self._run_firsts:
            self._run_firsts[0] = index + 1

    def truncate_from(self, index: int) -> None:
        """Truncate the entry at `index` and all after it."""
        assert self._base_index < index <= self.last_index, "no such entry in this log"
        del self._ends[index - self._base_index - 1 :]
        while self._run_firsts and self._run_firsts[-1] >= index:
            self._run_firsts.pop()
            self._run_terms.pop()
