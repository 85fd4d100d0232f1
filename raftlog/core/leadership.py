"""What exists only while a member leads: its followers' progress, its reads, its heartbeat clock.

It begins with an election won and is thrown away at step-down, so nothing of one term can leak
into another. It decides what is to be sent; the messages themselves are made by `raft`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from raftlog.core.log_view import LogView
from raftlog.core.progress import Progress
from raftlog.core.quiescence import Quiescence
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

    __slots__ = (
        "_heartbeat_ticks",
        "_silent",
        "_timing",
        "followers",
        "heartbeat_due",
        "quiescence",
        "reads",
        "term_start",
    )  # fmt: skip

    def __init__(
        self, *, followers: Sequence[NodeId], last_index: LogIndex, timing: RaftTiming
    ) -> None:
        """Right after an election, before the term's first entry: next_index is one past the log.

        The first heartbeat is due at once, so that other candidates yield.
        """
        self.followers = {follower: Progress(last_index + 1) for follower in followers}
        self.reads = ReadRounds()
        self.quiescence = Quiescence(timing.quiesce_after_ticks)
        self.term_start = LogIndex(last_index + 1)
        """The index of this term's first entry; reads wait until it is committed."""
        self.heartbeat_due = True
        self._heartbeat_ticks = 0
        self._silent: Collection[NodeId] = ()
        self._timing = timing

    def tick(self, silent: Collection[NodeId]) -> None:
        """One tick for the heartbeat clock and for every follower's.

        The processes of the nodes in `silent` are not heard by this one at all.
        """
        self._silent = silent
        self.quiescence.tick()
        self._heartbeat_ticks += 1
        if self._heartbeat_ticks >= self._timing.heartbeat_ticks:
            self.heartbeat_due = True
        for progress in self.followers.values():
            progress.tick(self._timing.resend_ticks)

    def heartbeats_sent(self) -> None:
        """Every follower was sent one: the clock restarts."""
        self.heartbeat_due = False
        self._heartbeat_ticks = 0

    @property
    def something_due(self) -> bool:
        """Is there a heartbeat or a check to send?"""
        return self.heartbeat_due or any(each.check_due for each in self.followers.values())

    def hears_quorum(self) -> bool:
        """Has a majority, this member included, answered within the shortest election timeout?"""
        heard = sum(1 for each in self.followers.values() if self._hears(each))
        return heard + 1 >= majority(len(self.followers) + 1)

    def others_can_lead(self, durable_index: LogIndex) -> bool:
        """Could a majority go on without this member, whose own disk holds `durable_index`?

        Counted is who has answered lately, has shown a disk that is ahead of this one, and has said
        for half an election timeout that it keeps up. To hold as much shows nothing: nodes that
        share a slow or full disk would hand an idle group round for ever, each time with an
        election that the disk must bear. Nor is it enough to be ahead: of those that share a full
        disk some are, by what found room last, and they notice a moment after this one.
        """
        ahead = sum(
            1
            for each in self.followers.values()
            if self._hears(each)
            and each.match_index > durable_index
            and each.disk_ticks * 2 >= self._timing.election_ticks_min
        )
        return ahead >= majority(len(self.followers) + 1)

    def ask_for_disks(self) -> None:
        """What followers said of their disks before this one's fell behind counts no more: they
        may share a disk."""
        for each in self.followers.values():
            each.disk(keeps_up=False)
        self.heartbeat_due = True

    def _hears(self, progress: Progress) -> bool:
        return progress.contact_ticks < self._timing.election_ticks_min

    def quiesce_round(self, *, all_committed: LogIndex | None) -> int:
        """The attempt to quiesce that a heartbeat asks followers to agree to; 0: none.

        `all_committed` is the log's last index if all of the log is committed. Every follower must
        hold it too, except those whose process is silent: a node that is down must not keep a
        thousand groups awake. The driver wakes this leader when they are back.
        """
        is_idle = (
            all_committed is not None
            and self.quiescence.due
            and not self.reads.pending
            and all(
                each.match_index == all_committed or self._is_excused(node, each)
                for node, each in self.followers.items()
            )
        )
        if is_idle:
            return self.quiescence.ask()
        self.quiescence.give_up()
        return 0

    def all_agreed(self) -> bool:
        """Have all followers agreed to quiesce, but those whose process is silent?"""
        quiescence = self.quiescence
        return quiescence.asking and all(
            quiescence.has_agreed(node) or self._is_excused(node, each)
            for node, each in self.followers.items()
        )

    def node_is_back(self, node: NodeId) -> None:
        """The process of `node` is heard again, or is another one now.

        On the way to quiesce it is left out no longer, though nothing came of this group yet,
        and what it agreed to before counts no more: it may have missed something since.
        """
        self._silent = [each for each in self._silent if each != node]
        self.quiescence.disagrees(node)

    def _is_excused(self, node: NodeId, progress: Progress) -> bool:
        return node in self._silent and not self._hears(progress)

    def wake(self, silent_ticks: Mapping[NodeId, int]) -> None:
        """After a quiesced time in which nothing was ticked: take each follower for as silent as
        its process was, and have heartbeats wake those that are quiesced."""
        for node, progress in self.followers.items():
            progress.contact_ticks = silent_ticks.get(node, 0)
        self.heartbeat_due = True

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

        A heartbeat that leaves anyway takes new reads along even while a round is in flight, so
        that a lost round does not hold up the next.
        """
        if commit_index < self.term_start or not self.reads.has_waiting:
            return
        if self.reads.wants_round or self.heartbeat_due:
            self.reads.start(commit_index)
            self.heartbeat_due = True

    def requests(self, log: LogView) -> Iterator[Request]:
        """The append requests to send now; each is counted as sent when it is taken."""
        last_index = log.last_index
        for node, progress in self.followers.items():
            if progress.check_due or progress.next_index <= last_index:
                yield from self._requests_to(node, progress, log)

    def _requests_to(self, node: NodeId, progress: Progress, log: LogView) -> Iterator[Request]:
        if progress.check_due:
            progress.checked()
            yield Request(node, LogIndex(progress.next_index - 1), None)
        if progress.probing:
            return
        timing = self._timing
        while (
            progress.next_index <= log.last_index
            and progress.requests_in_flight < timing.inflight_requests_max
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
        other.quiescence = self.quiescence.clone()
        other.term_start = self.term_start
        other.heartbeat_due = self.heartbeat_due
        other._silent = self._silent
        other._heartbeat_ticks = self._heartbeat_ticks
        return other

    def state(self) -> object:
        """All that is in it as plain values."""
        return (
            [(node, each.state()) for node, each in self.followers.items()],
            self.reads.state(),
            self.quiescence.state(),
            self.term_start,
            self.heartbeat_due,
            self._heartbeat_ticks,
            tuple(sorted(self._silent)),
        )
