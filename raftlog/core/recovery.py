"""A member that has lost its log, and so has forgotten what it acknowledged.

It gets the log again from a leader, and until it has it, it is *recovering*: it appends what it is
sent, but does not campaign, and no leader counts it, for no entry and no round of reads. An entry
may have been committed with its lost copy, and a majority with this member in it that lacks the
entry could elect a leader without it.

It may know where the lost log ended, because only something before its end was damaged. Then it
votes for candidates that are at least as up to date as that log was: it rejects those that it
would have rejected before. So any leader has what was committed with its lost copy, and it is as if
it had lost nothing when its log, durably, is at least as up to date again: what a leader wrote in a
later term, or what the leader of the same term wrote so far, comes after all of that.

If it does not know, it does not vote. When is it as if it had lost nothing? When its log holds,
durably, all that a leader had after a round of a majority of all voters *without this member*,
begun after its first contact, confirmed that leader. Its first contact may be a leader that is
deposed and does not know it. A majority that confirms shares a member with each majority that an
entry was committed by, other than this one.

Recoveries are numbered, so that what it said before the loss is not taken for what it holds now:
its count of begun and ended ones stands in its hard state and in each of its replies. It is odd
while one lasts. Where the end of the log was lost unnoticed, and what a leader says shows it, the
count rises by two: no recovery begins, because the leader may lie, but it finds out again what the
member holds, and sends the rest.
"""

from __future__ import annotations

from raftlog.core.log_view import LogView
from raftlog.core.state import Part
from raftlog.core.types import NO_NODE, HardState, LastEntry, LogIndex, Term


def is_recovering(recovery: int) -> bool:
    """Does a recovery last?"""
    return recovery % 2 == 1


def next_recovery(recovery: int) -> int:
    """The number of a recovery that begins now, whether one lasted already or not."""
    return recovery + 2 if is_recovering(recovery) else recovery + 1


def begun(state: HardState, lost: LastEntry | None) -> HardState:
    """The state in which a recovery begins now, of a log that ended with `lost`; None: that is not
    known. Where one lasts already, what was lost before it began counts as well."""
    if is_recovering(state.recovery):
        before = state.lost
        lost = before if lost is None or before is None else max(lost, before)
    if lost is not None and lost.term > state.term:
        # Nothing was answered in that term: see `Raft`.
        state = state._replace(term=lost.term, vote=NO_NODE)
    return state._replace(recovery=next_recovery(state.recovery), lost=lost)


class Recovery(Part):
    """A member's own recovery, if there is one."""

    __slots__ = ("lost", "number")

    def __init__(self, state: HardState) -> None:
        self.number = state.recovery
        """Odd: a recovery lasts."""
        self.lost = state.lost
        """Where the lost log ended; None: unknown, or none is lost."""

    @property
    def lasts(self) -> bool:
        """Has the member lost its log, and not got it again?"""
        return is_recovering(self.number)

    def last_for_votes(self, log: LogView) -> LastEntry | None:
        """How up to date a candidate must be; None: no log suffices."""
        return self.lost if self.lasts else log.last_entry

    def grown(self, log: LogView, durable_index: LogIndex) -> None:
        """The log is durable up to that entry now."""
        if not self.lasts or self.lost is None:
            return
        if LastEntry(log.term_at(durable_index), durable_index) >= self.lost:
            self.end()

    def is_news(self, term: Term, index: LogIndex) -> bool:
        """A leader says that this member acknowledged this entry, which its log lacks: was it not
        in the log that is known to be lost? It may be an older copy that was damaged besides."""
        lost = self.lost
        return not self.lasts or (lost is not None and (index > lost.index or term > lost.term))

    def pass_over(self) -> None:
        """The log lacks what was acknowledged under this number: the leader is to forget what this
        member said before. Whether a recovery lasts stays as it is."""
        self.number += 2

    def end(self) -> None:
        """The member has its log again."""
        self.number, self.lost = self.number + 1, None
