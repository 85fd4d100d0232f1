"""The log view compared with a plain list of entries, over random histories."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.log_view import LogView
from raftlog.core.types import Entry, EntryKind, LogIndex, Payload, Term
from tests.core.member import entries_of, log_of


def _same(log: LogView, entries: list[Entry], base: int = 0) -> None:
    held = entries[base:]
    base_term = entries[base - 1].term if base else 0
    assert (log.base_index, log.base_term) == (base, base_term)
    assert log.last_index == len(entries)
    assert log.last_term == (entries[-1].term if entries else 0)
    assert log.term_at(base) == base_term
    for entry in held:
        assert log.term_at(entry.index) == entry.term
        first = next(each for each in held if each.term == entry.term)
        assert log.first_index_of_term_at(entry.index) == first.index
        size = entry.payload.size
        assert log.fit(entry.index, entries_max=9, bytes_max=size) == (entry.index, entry.index)
    for term in range(8):
        earlier = [entry.index for entry in held if entry.term <= term]
        assert log.last_index_of_terms_to(term) == (earlier[-1] if earlier else base)
    if held:
        total = sum(entry.payload.size for entry in held)
        whole = (base + 1, len(entries))
        assert log.fit(base + 1, entries_max=10**6, bytes_max=total) == whole


def test_the_view_answers_like_a_list_of_entries() -> None:
    """CHECKLIST 1."""
    for seed in range(20):
        _answers_like_a_list(seed)


def _answers_like_a_list(seed: int) -> None:
    random = Random(seed)
    entries: list[Entry] = []
    log = LogView()
    for _ in range(30):
        if entries and random.random() < 0.3:
            cut = random.randrange(1, len(entries) + 1)
            del entries[cut - 1 :]
            log.truncate_from(cut)
        term = (entries[-1].term if entries else 0) + random.choice([0, 0, 0, 1])
        more = entries_of([max(term, 1)] * random.randrange(1, 4), first=len(entries) + 1)
        entries.extend(more)
        log.append(more)
        _same(log, entries)
        restored = log_of(entries)
        _same(restored, entries)
        assert restored.fingerprint() == log.fingerprint()


def test_the_view_answers_like_a_list_whatever_is_dropped() -> None:
    for seed in range(20):
        _answers_like_a_list_with_drops(seed)


def _answers_like_a_list_with_drops(seed: int) -> None:
    random = Random(seed)
    entries: list[Entry] = []
    log, base = LogView(), 0
    for _ in range(60):
        action = random.randrange(4)
        if action == 0 and len(entries) > base:
            cut = random.randrange(base + 1, len(entries) + 1)
            del entries[cut - 1 :]
            log.truncate_from(cut)
        elif action == 1:
            base = random.randrange(base, len(entries) + 1)
            log.drop_to(base)
        else:
            term = max(1, (entries[-1].term if entries else 0) + random.choice([0, 0, 1]))
            more = entries_of([term] * random.randrange(1, 4), first=len(entries) + 1)
            entries.extend(more)
            log.append(more)
        _same(log, entries, base)
        _same(log_of(entries, base=base), entries, base)
        _same(log.clone(), entries, base)


def test_a_span_fits_both_limits_and_always_holds_one_entry() -> None:
    log = LogView.restore(terms=[(1, 1)], sizes=[10, 10, 100, 10, 10])
    assert log.fit(1, entries_max=10, bytes_max=20) == (1, 2)
    assert log.fit(1, entries_max=10, bytes_max=19) == (1, 1)
    assert log.fit(3, entries_max=10, bytes_max=50) == (3, 3)
    assert log.fit(1, entries_max=1, bytes_max=1000) == (1, 1)
    assert log.fit(2, entries_max=3, bytes_max=1000) == (2, 4)
    assert log.fit(4, entries_max=9, bytes_max=1000) == (4, 5)


def test_a_gap_and_a_falling_term_are_refused() -> None:
    """CHECKLIST 1: before and after reopening."""
    log = log_of(entries_of([1, 2]))
    empty = Payload(b"", b"")
    with pytest.raises(AssertionError, match="no gap"):
        log.append([Entry(LogIndex(4), Term(2), EntryKind.COMMAND, empty)])
    with pytest.raises(AssertionError, match="never fall"):
        log.append([Entry(LogIndex(3), Term(1), EntryKind.COMMAND, empty)])
    with pytest.raises(AssertionError, match="terms rise"):
        LogView.restore(terms=[(1, 2), (2, 1)], sizes=[1, 1])
    with pytest.raises(AssertionError, match="every entry has a term"):
        LogView.restore(terms=[(2, 1)], sizes=[1, 1])


def test_a_log_may_start_above_a_base() -> None:
    log = LogView.restore(base_index=10, base_term=3, terms=[(11, 3), (13, 4)], sizes=[1, 1, 1])
    assert (log.base_index, log.last_index, log.last_term) == (10, 13, 4)
    assert [log.term_at(index) for index in range(10, 14)] == [3, 3, 3, 4]
    assert log.last_index_of_terms_to(2) == 10
    assert log.fit(12, entries_max=9, bytes_max=9) == (12, 13)
    with pytest.raises(AssertionError, match="no such entry"):
        log.term_at(9)


def test_a_clone_is_independent() -> None:
    log = log_of(entries_of([1, 1, 2]))
    other = log.clone()
    other.truncate_from(2)
    assert (log.last_index, other.last_index) == (3, 1)
    assert log.fingerprint() != other.fingerprint()
