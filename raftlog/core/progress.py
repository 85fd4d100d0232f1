"""A leader's view of one follower: what it holds for certain, what is in flight, when to ask.

Two states. *Replicating*: requests leave one after another without waiting, `next_index` moves
when they are sent, `match_index` when they are confirmed. *Probing*: after a rejection, one check
of the previous entry at a time and no entries, until the logs are found to agree. What was lost is
found by a check, too: it is small, it says what the follower holds, and it is repeated without end,
so a follower that was gone for hours is picked up where it is (Raft section 5.3).

Probing goes no further back than the log's base. A follower that rejects the base lacks entries
that the leader has dropped: it stays in probing, is asked at the usual pace, and is sent nothing,
until it has got them from elsewhere.
"""

from __future__ import annotations

from collections import deque

from raftlog.core.recovery import is_recovering
from raftlog.core.state import Part
from raftlog.core.types import LogIndex


class Progress(Part):
    """Mutable; one per follower and leadership. Ticks count up, requests are last indexes."""

    __slots__ = (
        "_disk_keeps_up",
        "_inflight",
        "behind_base",
        "check_due",
        "contact_ticks",
        "disk_ticks",
        "lease_round",
        "match_index",
        "may_lead",
        "next_index",
        "probing",
        "proof_round",
        "read_round",
        "recovery",
        "recovery_end",
        "unanswered_ticks",
    )

    def __init__(self, next_index: int) -> None:
        self.match_index = 0
        """The follower's log equals ours up to here, durably. Never falls."""
        self.next_index = next_index
        """The first entry not sent yet. Above `match_index` and the log's base."""
        self.probing = False
        self.behind_base = False
        """It has rejected the log's base, and has not accepted anything as late since."""
        self.check_due = False
        """The next output must carry a check of the entry before `next_index`."""
        self.unanswered_ticks = 0
        """Ticks since an answer moved us on, while something is unanswered."""
        self.contact_ticks = 0
        """Ticks since the follower's last answer of any kind."""
        self.read_round = 0
        """The latest read round it answered."""
        self.lease_round = 0
        """The latest that it answered with a promise for as long as a lease lasts."""
        self.disk_ticks = 0
        """For how many ticks it has said without a break that its disk keeps up."""
        self.may_lead = False
        """It has said last that it would campaign if it was asked to."""
        self.recovery = 0
        """The number in its latest durable answer (`raftlog.core.recovery`)."""
        self.proof_round = 0
        """The read round, begun since it reported its recovery, that is to prove that we lead."""
        self.recovery_end: int | None = None
        """Once it holds everything up to here its recovery may end; None: no proof yet."""
        self._disk_keeps_up = False
        self._inflight: deque[int] = deque()

    @property
    def requests_in_flight(self) -> int:
        return len(self._inflight)

    @property
    def counts(self) -> bool:
        """Does what it acknowledges count for commit and read rounds?"""
        return not is_recovering(self.recovery)

    @property
    def recovered(self) -> int:
        """The number of its recovery, if that may end now; 0: there is none, or it lasts."""
        ends = self.recovery_end is not None and self.match_index >= self.recovery_end
        return self.recovery if ends and not self.counts else 0

    def tick(self, resend_ticks: int) -> None:
        """One tick of the clock; after `resend_ticks` without an answer, ask."""
        self.contact_ticks += 1
        self.disk_ticks += self._disk_keeps_up
        if self.probing or self._inflight:
            self.unanswered_ticks += 1
            if self.unanswered_ticks >= resend_ticks:
                self.check_due = True

    def sent(self, last: int) -> None:
        """Entries `next_index` to `last` were sent."""
        assert not self.probing, "no entries leave before the logs are known to agree"
        assert last >= self.next_index, "a request moves on"
        if not self._inflight:
            self.unanswered_ticks = 0
        self._inflight.append(last)
        self.next_index = last + 1

    def checked(self) -> None:
        """A check of the entry before `next_index` was sent."""
        self.check_due = False
        self.unanswered_ticks = 0

    def heard(self, *, last_index: LogIndex, patience_ticks: int) -> None:
        """A heartbeat was answered by a follower whose log ends at `last_index`.

        If it lacks the oldest request in flight, or did not answer a check, for longer than
        `patience_ticks`, that was lost. If it has the entries, its disk may be slow: no repeat.
        """
        if self.unanswered_ticks >= patience_ticks and (
            self.probing or (self._inflight and last_index < self._inflight[0])
        ):
            self.check_due = True

    def disk(self, *, keeps_up: bool) -> None:
        """The follower says whether its disk keeps up; or, with False, it is asked again."""
        self._disk_keeps_up = keeps_up
        if not keeps_up:
            self.disk_ticks = 0

    def accepted(self, match_index: int) -> bool:
        """The follower confirmed everything up to `match_index`; is that news?

        Confirmations may come twice or out of order: each stands for all before it, and an old
        one changes nothing.
        """
        news = match_index > self.match_index
        if news:
            self.match_index = match_index
            self.unanswered_ticks = 0
            while self._inflight and self._inflight[0] <= match_index:
                self._inflight.popleft()
        if self.probing and match_index >= self.next_index - 1:
            self.probing = False
            self.behind_base = False
            self.check_due = False
        self.next_index = max(self.next_index, match_index + 1)
        return news

    def is_stale_rejection(self, prev_index: int) -> bool:
        """Does a rejection answer anything that we still ask?"""
        if prev_index <= self.match_index or prev_index >= self.next_index:
            return True
        return self.probing and prev_index != self.next_index - 1

    def rejected(self, next_index: int) -> None:
        """The logs differ before the old `next_index`; probe from this one, at once."""
        assert self.match_index < next_index <= self.next_index, "probing goes back, to the match"
        self._probe_from(next_index)
        self.check_due = True

    def rejected_base(self, base_index: int) -> None:
        """It does not hold the entry at the log's base: ask again, but only after a while."""
        assert self.match_index < base_index < self.next_index, "the base was checked"
        self._probe_from(base_index + 1)
        self.behind_base = True
        self.check_due = False

    def log_dropped(self, base_index: int) -> None:
        """The leader's log begins after `base_index` now.

        A follower that was not sent all entries up to it yet is asked whether it holds them. It may
        have them from an earlier leader.
        """
        if self.next_index <= base_index:
            self._probe_from(base_index + 1)
            self.check_due = True

    def lost_log(self, recovery: int, proof_round: int) -> None:
        """Right after it was made: the follower has lost its log, or had lost it before this term,
        and is asked what it holds."""
        assert self.match_index == 0, "what it confirmed before counts no more"
        self.recovery = recovery
        self.proof_round = proof_round
        self.ask()

    def ask(self) -> None:
        """Nothing is known of what the follower holds: ask until it answers."""
        self._probe_from(self.next_index)
        self.check_due = True

    def _probe_from(self, next_index: int) -> None:
        self.next_index = next_index
        self.probing = True
        self._inflight.clear()
