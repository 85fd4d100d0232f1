"""What exists only while a member leads: its followers' progress, its reads, its heartbeat clock.

It begins with an election won and is thrown away at step-down, so nothing of one term can leak
into another. It decides what is to be sent; the messages themselves are made by `raft`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raftlog.core.log_view import LogView
from raftlog.core.progress import Progress
from raftlog.core.quorum import agreed, majority
from raftlog.core.reads import ReadRounds
from raftlog.core.types import LogIndex, NodeId, RaftTiming, Span


class FollowerView(NamedTuple):
    """One voter as its leader sees it."""

    node: NodeId
    match_index: LogIndex
    """Its log equals the leader's up to here, durably, as far as the leader knows."""
    contact_ticks: int
    """Ticks since its last answer; 0 for the leader itself."""


class Request(NamedTuple):
    """An append request to make: entries of `span` after `prev_index`; None: only the check."""

    to: NodeId
    prev_index: LogIndex
    span: Span | None


class Leadership:
    """Mutable; one per term led. Followers are kept in the order of the voters."""

    __slots__ = ("_heartbeat_ticks", "_timing", "followers", "heartbeat_due", "reads", "term_start")

    def __init__(
        self, *, followers: Sequence[NodeId], last_index: LogIndex, timing: RaftTiming
    ) -> None:
        """Right after an election, before the term's first entry: next_index is one past the log.

        The first heartbeat is due at once, so that other candidates yield.
        """
        self.followers = {follower: Progress(last_index + 1) for follower in followers}
        self.reads = ReadRounds()
        self.term_start = LogIndex(last_index + 1)
        """The index of this term's first entry; reads wait until it is committed."""
        self.heartbeat_due = True
        self._heartbeat_ticks = 0
        self._timing = timing

    def tick(self) -> None:
        """One tick for the heartbeat clock and for every follower's."""
        self._heartbeat_ticks += 1
        if self._heartbeat_ticks >= self._timing.heartbeat_ticks:
            self.heartbeat_due = True
        for progress in self.followers.values():
            progress.tick(self._timing.resend_ticks)

    def heartbeats_sent(self) -> None:
        """Every follower was sent one: the clock starts anew."""
        self.heartbeat_due = False
        self._heartbeat_ticks = 0

    def hears_quorum(self) -> bool:
        """Has a majority, this member included, answered within the shortest election timeout?"""
        window = self._timing.election_ticks_min
        heard = sum(1 for each in self.followers.values() if each.contact_ticks < window)
        return heard + 1 >= majority(len(self.followers) + 1)

    def others_can_lead(self, durable_index: LogIndex, last_index: LogIndex) -> bool:
        """Could a majority go on without this member, whose own disk holds `durable_index`?

        Counted is who has answered lately and has shown a disk that is ahead of this one, or holds
        all there is: where every disk lags alike, nobody gains from another leader.
        """
        window = self._timing.election_ticks_min
        able = sum(
            1
            for each in self.followers.values()
            if each.contact_ticks < window
            and (each.match_index > durable_index or each.match_index == last_index)
        )
        return able >= majority(len(self.followers) + 1)

    def agreed_index(self, durable_index: LogIndex) -> LogIndex:
        """What a majority holds durably; this member counts with its own `durable_index`."""
        matches = [each.match_index for each in self.followers.values()]
        return LogIndex(agreed([durable_index, *matches]))

    def agreed_round(self) -> int:
        """The latest read round that a majority, this member included, has answered."""
        rounds = [each.read_round for each in self.followers.values()]
        return agreed([self.reads.latest, *rounds])

    def views(self) -> list[FollowerView]:
        """Every follower, in the order of the voters."""
        return [
            FollowerView(node, LogIndex(each.match_index), each.contact_ticks)
            for node, each in self.followers.items()
        ]

    def start_reads(self, commit_index: LogIndex) -> None:
        """Begin a read round if reads wait for one, and have heartbeats ask for it at once.

        A heartbeat that leaves anyway takes new reads along even while a round is under way, so
        that a lost round does not hold up the next.
        """
        if commit_index < self.term_start or not self.reads.has_gathered:
            return
        if self.reads.wants_round or self.heartbeat_due:
            self.reads.start(commit_index)
            self.heartbeat_due = True

    def requests(self, log: LogView) -> Iterator[Request]:
        """The append requests to send now; each is counted as sent when it is taken."""
        for node, progress in self.followers.items():
            yield from self._requests_to(node, progress, log)

    def _requests_to(self, node: NodeId, progress: Progress, log: LogView) -> Iterator[Request]:
        if progress.check_due:
            progress.checked()
            yield Request(node, LogIndex(progress.next_index - 1), None)
        if progress.searching:
            return
        timing = self._timing
        while (
            progress.next_index <= log.last_index
            and progress.requests_under_way < timing.inflight_requests_max
        ):
            first = progress.next_index
            span = log.fit(
                first, entries_max=timing.append_entries_max, bytes_max=timing.append_bytes_max
            )
            progress.sent(span.last)
            yield Request(node, LogIndex(first - 1), span)

    def clone(self) -> Leadership:
        """An independent copy."""
        other = Leadership(followers=(), last_index=LogIndex(0), timing=self._timing)
        other.followers = {node: each.clone() for node, each in self.followers.items()}
        other.reads = self.reads.clone()
        other.term_start = self.term_start
        other.heartbeat_due = self.heartbeat_due
        other._heartbeat_ticks = self._heartbeat_ticks
        return other

    def state(self) -> object:
        """All that is in it as plain values."""
        return (
            [(node, each.state()) for node, each in self.followers.items()],
            self.reads.state(),
            self.term_start,
            self.heartbeat_due,
            self._heartbeat_ticks,
        )
