"""Where two logs agree: the read-only questions of Raft section 5.3, apart from what is done.

A follower asks the first three before it touches its log, a leader the last one before it moves
its view of a follower.
"""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.core.log_view import LogView
from raftlog.core.messages import AppendReply
from raftlog.core.types import Entry, LogIndex, Term


def previous_entry_matches(log: LogView, *, prev_index: int, prev_term: int) -> bool:
    """Does `log` hold the entry that a request builds on?

    What the log has dropped was committed, so it is the same everywhere: it counts as held.
    """
    if prev_index > log.last_index:
        return False
    return prev_index < log.base_index or log.term_at(prev_index) == prev_term


def conflict_hint(log: LogView, *, prev_index: int) -> tuple[Term, LogIndex]:
    """What a rejection tells the leader: our term at `prev_index` and that term's first index.

    Term 0 and one past our last entry if the log is too short. An entry that does not match is
    above the base.
    """
    if prev_index > log.last_index:
        return Term(0), LogIndex(log.last_index + 1)
    return log.term_at(prev_index), log.first_index_of_term_at(prev_index)


def first_difference(log: LogView, entries: Sequence[Entry]) -> int:
    """How many of `entries` the log holds already (0 to their number), counted from the first.

    What was dropped below the base counts as held. The next one conflicts if its index is in the
    log, or its base, and follows the log's end otherwise.
    """
    last_index = log.last_index
    for position, entry in enumerate(entries):
        if entry.index > last_index:
            return position
        if entry.index >= log.base_index and log.term_at(entry.index) != entry.term:
            return position
    return len(entries)


def next_index_after(log: LogView, rejection: AppendReply, *, match_index: int) -> LogIndex:
    """The leader's next index after a rejection: past no entry that can still agree.

    `log` is the leader's. The result is above `match_index` and at most the rejected previous
    index, so the probing ends; each step leaves a whole term of the follower behind (Raft
    section 5.3, last part). It is above the log's base in any case: a leader cannot check, or
    send, what it has dropped.
    """
    assert match_index < rejection.prev_index, "an entry that matched cannot conflict"
    lowest = max(match_index, log.base_index) + 1
    if rejection.prev_index <= log.base_index:
        return LogIndex(lowest)
    term, first = rejection.conflict_term, rejection.conflict_index
    ours = min(log.last_index_of_terms_to(term), rejection.prev_index - 1)
    if term > 0 and ours >= first and log.term_at(ours) == term:
        # The follower holds this term from `first` to the rejected index, so also here.
        candidate = ours + 1
    elif term > 0:
        candidate = min(ours + 1, first)
    else:
        candidate = first
    return LogIndex(max(lowest, min(candidate, rejection.prev_index)))
