"""A leader's lease: for how long it may answer reads without a round of heartbeats. Off by default.

A member that answers a heartbeat, and whose settings say so, gives no vote for an election timeout
after it, whatever it hears or becomes meanwhile: only a vote that the leader itself has asked for,
by `TimeoutNow`. A member that starts may have answered one just before, so it gives none for an
election timeout either. So if a quorum has answered a round of heartbeats, no other is elected
within an election timeout *after that round was sent*, and until then what this leader knows to be
committed is all that is. (When the answers came says nothing: they may have been under way
for long.)

What could break this, and what keeps it whole:

- Clocks differ: the lease is shorter than the timeout, by the drift that the setting allows and by
  two ticks, since a tick may come late and the next one in time (`lease_length_us` in
  `raftlog.core.types`).
- A leader that was paused has missed ticks: the lease goes by a clock that the driver reads, and
  passes in when a read is asked for. The timeout of a paused *voter* only gets longer.
- A `TimeoutNow` is under way: votes go round the promise. A leader that has sent one takes no lease
  again in its term.
- `Raft.leader_lost` would let voters forget their leader: it does nothing while leases are on.
- The membership changes: rounds that were sent under another one do not count.
- Nodes have other settings: an answer says for how long a lease it makes room (`lease_us`), and one
  that says less than the leader's own does not count.

A quiesced leader has none: it asks its followers again first.
"""

from __future__ import annotations

from collections import deque

from raftlog.core.state import Part


class Lease(Part):
    """What a leader knows of its lease, within one leadership. Mutable.

    Times are microseconds of the driver's clock, which never goes back and counts time in which the
    process was paused; only their differences mean something.
    """

    __slots__ = ("_ended", "_from_us", "_length_us", "_now_us", "_sent")

    def __init__(self, length_us: int) -> None:
        """It lasts `length_us` after a round was sent; 0: leases are off."""
        self._length_us = length_us
        self._now_us: int | None = None
        """What the clock showed last; it may be later by now. None: no driver has said so."""
        self._sent: deque[tuple[int, int]] = deque()
        """Rounds that were sent under the present membership, each with a time not after that."""
        self._from_us: int | None = None
        """When the latest round was sent that a quorum has answered; None: there is none."""
        self._ended = False

    def clock(self, now_us: int) -> None:
        """The clock shows this now."""
        if self._length_us:
            assert now_us >= (self._now_us or 0), "the clock of a lease goes forward"
            self._now_us = now_us

    @property
    def wants_rounds(self) -> bool:
        """Are heartbeats to have a round of their own each time?"""
        return self._now_us is not None and not self._ended

    @property
    def in_flight(self) -> int:
        """So many rounds were sent that no quorum has answered."""
        return len(self._sent)

    def sent(self, read_round: int) -> None:
        """Heartbeats of this round are about to leave."""
        assert self._now_us is not None, "rounds are for drivers with a clock"
        while self._sent and self._now_us - self._sent[0][1] >= self._length_us:
            self._sent.popleft()
        self._sent.append((read_round, self._now_us))

    def answered(self, read_round: int) -> None:
        """A quorum has answered rounds not before this one, and holds to what that promises."""
        while self._sent and self._sent[0][0] <= read_round:
            _, self._from_us = self._sent.popleft()

    def holds(self, now_us: int) -> bool:
        """Whether no other can have been elected, if it is not later than this."""
        began_us = self._from_us
        return began_us is not None and not self._ended and now_us - began_us < self._length_us

    def forget(self) -> None:
        """Rounds up to now do not count: the membership is another one, or all were quiesced."""
        self._sent.clear()
        self._from_us = None

    def end(self) -> None:
        """A follower is told to campaign: from now on there is no lease in this term."""
        self._ended = True
        self.forget()
