"""One member under test: its core, a disk that syncs when told, a state machine that records.

A `Member` does what `raftlog.core.ready` asks of a driver, and checks the invariants around every
event. What it wants to send is kept in `outgoing`; a test or a `Network` carries it. Its lists
begin with entry 1, also where the core's log begins after a base: so they can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    RaftMessage,
    Replicate,
    VoteReply,
    VoteRequest,
)
from raftlog.core.raft import Raft
from raftlog.core.ready import ReadState, Ready
from raftlog.core.recovery import begun
from raftlog.core.types import (
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    HardState,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Span,
    Term,
)
from tests.core import invariants

GROUP = GroupId(7)
NOBODY_DECIDES = Membership()
TICK_US = 1_000
"""A tick by a member's own clock, for leases."""
TIMING = RaftTiming(election_ticks_min=10, heartbeat_ticks=2, resend_ticks=6, quiesce_after_ticks=0)
"""Groups quiesce only in the tests that are about it."""


class Shortest:
    """A generator whose every choice is the smallest."""

    def randrange(self, start: int, stop: int) -> int:
        assert start < stop
        return start


class Longest:
    """A generator whose every choice is the largest."""

    def randrange(self, start: int, stop: int) -> int:
        assert start < stop
        return stop - 1


def node_ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(node) for node in nodes)


def payload(text: str) -> Payload:
    return Payload(text.encode(), b"")


def entries_of(terms: Sequence[int], *, first: int = 1) -> list[Entry]:
    """One entry per term, as its leader would write it: the content says term and index."""
    return [
        Entry(LogIndex(index), Term(term), EntryKind.COMMAND, payload(f"{term}.{index}"))
        for index, term in enumerate(terms, first)
    ]


def log_of(entries: Sequence[Entry], *, base: int = 0) -> LogView:
    """The view of a log of these entries, from 1 on, that has dropped those up to `base`."""
    held = entries[base:]
    runs = [next(run) for _, run in groupby(held, key=lambda entry: entry.term)]
    return LogView.restore(
        base_index=base,
        base_term=entries[base - 1].term if base else 0,
        terms=[(entry.index, entry.term) for entry in runs],
        sizes=[entry.payload.size for entry in held],
    )


class Member:
    """Drives one `Raft`. With `sync` false its disk waits for `persist()`."""

    def __init__(
        self,
        node: int,
        *,
        voters: int = 3,
        terms: Sequence[int] = (),
        term: int | None = None,
        vote: int = NO_NODE,
        timing: RaftTiming = TIMING,
        random: object | None = None,
        sync: bool = True,
        applies: bool = True,
        base: int = 0,
        snapshot: int = 0,
        membership: Membership | None = None,
    ) -> None:
        """`snapshot` is up to where the state machine's snapshot on disk reaches, not below the
        log's `base`. `membership` came with the group; by default it has `voters` voters."""
        self.node = NodeId(node)
        first = membership or Membership(node_ids(*range(1, voters + 1)))
        self.disk_membership = MembershipAt(LogIndex(0), first)
        """What the snapshot at the log's base says."""
        self.timing = timing
        self.random = random if random is not None else Shortest()
        self.sync = sync
        self.applies = applies
        self.disk_log = entries_of(terms)
        present = term if term is not None else max([0, *terms])
        self.disk_hard_state = HardState(Term(present), NodeId(vote))
        self.disk_base = base
        self.disk_snapshot = max(base, snapshot)
        self.clock_us = 0
        """Its clock runs on while it is paused or down; ticks do not come then."""
        self.changes = 0
        """How often what it logged or applied has changed."""
        self.start()

    def start(self) -> None:
        """Start, or start again, from the disk: everything else is forgotten."""
        self.log = list(self.disk_log)
        assert [e.index for e in self.log] == list(range(1, len(self.log) + 1))
        self.applied = self.log[: self.disk_snapshot]
        self.changes += 1
        self.reads: list[ReadState] = []
        self.reads_dropped: list[int] = []
        self.outgoing: list[RaftMessage] = []
        self.unsynced: list[Ready] = []
        self.outputs: list[Ready] = []
        memberships = Memberships(self.disk_membership)
        memberships.grown(self.log[self.disk_base :])
        self.raft = Raft(
            node=self.node,
            group=GROUP,
            memberships=memberships,
            timing=self.timing,
            hard_state=self.disk_hard_state,
            log=log_of(self.log, base=self.disk_base),
            random=self.random,
            applied_index=LogIndex(self.disk_snapshot),
        )
        self.observed = self.raft.status()

    def lose_log(self, *, knows_end: bool = False) -> None:
        """Its log is gone while it does not run: it starts again empty, and recovers. Does it know
        where the log ended?"""
        last = log_of(self.disk_log, base=self.disk_base).last_entry
        self.disk_hard_state = begun(self.disk_hard_state, last if knows_end else None)
        self.disk_log = []
        self.disk_base = self.disk_snapshot = 0
        self.start()

    # ------------------------------------------------------------ events

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock_us += TICK_US
            self._event(lambda: self.raft.tick(now_us=self.clock_us))

    def pause(self, ticks: int) -> None:
        """Its process stands still for so long."""
        self.clock_us += ticks * TICK_US

    def step(self, *messages: RaftMessage) -> None:
        for message in messages:
            self._event(lambda message=message: self.raft.step(message))

    def propose(self, *texts: str) -> Span:
        spans: list[Span] = []
        payloads = [payload(text) for text in texts]
        self._event(lambda: spans.append(self.raft.propose(payloads)))
        return spans[0]

    def change(self, *voters: int, learners: Iterable[int] = ()) -> Span:
        spans: list[Span] = []
        goal = Membership(node_ids(*sorted(voters)), learners=node_ids(*sorted(learners)))
        self._event(lambda: spans.append(self.raft.change_membership(goal)))
        return spans[0]

    def transfer(self, to: int, *, wished: bool = False) -> None:
        self._event(lambda: self.raft.transfer_leadership(NodeId(to), wished=wished))

    def campaign(self) -> bool:
        answers: list[bool] = []
        self._event(lambda: answers.append(self.raft.campaign()))
        return answers[0]

    def report_snapshot(self, node: int, *, installed: bool) -> None:
        self._event(lambda: self.raft.report_snapshot(NodeId(node), installed=installed))

    def read_index(self, request: int) -> None:
        self._event(lambda: self.raft.read_index(request, now_us=self.clock_us))

    @property
    def holds_lease(self) -> bool:
        return self.raft.holds_lease(self.clock_us)

    def leader_lost(self, leader: int, term: int) -> None:
        self._event(lambda: self.raft.leader_lost(NodeId(leader), Term(term)))

    def candidate_lost(self, node: int) -> None:
        self._event(lambda: self.raft.candidate_lost(NodeId(node)))

    def drop_log_to(self, index: int, *, snapshot: int | None = None) -> None:
        """Drop the log's beginning; a snapshot of `snapshot`, or of `index`, is on disk."""
        self.disk_snapshot = max(self.disk_snapshot, index if snapshot is None else snapshot)
        self.disk_base = index
        self.disk_membership = self.raft.memberships.at(LogIndex(index))
        self._event(lambda: self.raft.drop_log_to(LogIndex(index)))

    def _event(self, event: Callable[[], None]) -> None:
        event()
        self._check()
        self.settle()

    def settle(self) -> None:
        """Carry out outputs until there are none; syncs too if `sync`."""
        while ready := self.raft.ready():
            self._carry_out(ready)
            if self.sync:
                self.persist()

    def persist(self, outputs: int | None = None) -> None:
        """Everything asked for so far becomes durable (or the first so many outputs), then what
        waited for it leaves."""
        count = len(self.unsynced) if outputs is None else outputs
        unsynced, self.unsynced = self.unsynced[:count], self.unsynced[count:]
        for ready in unsynced:
            if ready.hard_state is not None:
                self.disk_hard_state = ready.hard_state
            if ready.truncate_from is not None:
                del self.disk_log[ready.truncate_from - 1 :]
            self.disk_log.extend(ready.entries)
        written = max((ready.write_number for ready in unsynced), default=0)
        if written:
            self.raft.persisted(written)
            self._check()
        for ready in unsynced:
            for message in ready.messages_after_persist:
                if message.to == self.node:
                    assert isinstance(message, VoteReply)
                    self.raft.step(message)
                    self._check()
                else:
                    self._send(message)
        self.settle()

    def _check(self) -> None:
        self.observed = invariants.check(self.observed, self.raft)

    def _carry_out(self, ready: Ready) -> None:
        self.outputs.append(ready)
        if ready.entries or ready.truncate_from is not None or ready.committed is not None:
            self.changes += 1
        if ready.truncate_from is not None:
            assert ready.truncate_from <= len(self.log), "nothing there to truncate"
            del self.log[ready.truncate_from - 1 :]
        first = len(self.log) + 1
        self.log.extend(ready.entries)
        assert [e.index for e in ready.entries] == list(range(first, len(self.log) + 1))
        for message in ready.messages:
            self._send(message)
        self.unsynced.append(ready)
        if ready.committed is not None:
            first, last = ready.committed
            assert first == len(self.applied) + 1, "applied in order, each once"
            self.applied.extend(self.log[first - 1 : last])
            if self.applies:
                self.raft.applied(last)
        self.reads.extend(ready.reads)
        self.reads_dropped.extend(ready.reads_dropped)
        self._check()

    def _send(self, message: object) -> None:
        if isinstance(message, Replicate):
            span = message.span
            assert message.prev_index >= self.raft.log.base_index, "it asks for what was dropped"
            entries = tuple(self.log[span.first - 1 : span.last]) if span is not None else ()
            message = AppendRequest(
                group=message.group,
                sender=message.sender,
                to=message.to,
                term=message.term,
                prev_index=message.prev_index,
                prev_term=message.prev_term,
                entries=entries,
                commit_index=message.commit_index,
            )
        self.outgoing.append(message)

    # ------------------------------------------------------------ questions of a test

    def take(self, kind: type | None = None, to: int | None = None) -> list[RaftMessage]:
        """What it sent since the last `take`; only of `kind` and to `to` if these are given."""
        sent, self.outgoing = self.outgoing, []
        return [
            message
            for message in sent
            if (kind is None or isinstance(message, kind)) and (to is None or message.to == to)
        ]

    @property
    def terms(self) -> list[int]:
        return [entry.term for entry in self.log]

    @property
    def next_index(self) -> dict[int, int]:
        """A leader's next_index of each follower."""
        views = self.raft.followers()
        return {view.node: view.next_index for view in views if view.node != self.node}

    @property
    def match_index(self) -> dict[int, int]:
        return {view.node: view.match_index for view in self.raft.followers()}

    # ------------------------------------------------------------ a leader by itself

    def lead(self, *, votes: Iterable[int] | None = None) -> Member:
        """Make it lead the next term by the votes of `votes` (default: all others), and commit
        nothing. What it sent before it led is dropped; what it sent as a leader is in `outgoing`.
        """
        others = [voter for voter in self.raft.membership.all_voters if voter != self.node]
        voters = list(votes) if votes is not None else others
        self.tick(2 * self.timing.election_ticks_min)
        for pre in (True, False):
            term = Term(self.raft.term + 1) if pre else self.raft.term
            self.take()
            self.step(*[vote_reply(self, voter, term=term, pre=pre) for voter in voters])
        return self


# ------------------------------------------------------------ messages to a member


def vote_request(
    to: Member,
    sender: int,
    *,
    term: int,
    last: tuple[int, int],
    pre: bool = False,
    transfer: bool = False,
):
    """`last` is the candidate's (last term, last index)."""
    return VoteRequest(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term),
        last_term=Term(last[0]),
        last_index=LogIndex(last[1]),
        pre=pre,
        transfer=transfer,
    )


def vote_reply(
    to: Member, sender: int, *, term: int, granted: bool = True, pre: bool = False
) -> VoteReply:
    return VoteReply(
        group=GROUP, sender=NodeId(sender), to=to.node, term=Term(term), granted=granted, pre=pre
    )


def append_request(
    to: Member,
    sender: int,
    *,
    term: int,
    prev: tuple[int, int] = (0, 0),
    terms: Sequence[int] = (),
    commit_index: int = 0,
) -> AppendRequest:
    """`prev` is (term, index); `terms` are those of the entries that follow it."""
    return AppendRequest(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term),
        prev_term=Term(prev[0]),
        prev_index=LogIndex(prev[1]),
        entries=tuple(entries_of(terms, first=prev[1] + 1)),
        commit_index=LogIndex(commit_index),
    )


def acceptance(to: Member, sender: int, match_index: int, *, term: int | None = None):
    return AppendReply(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term if term is not None else to.raft.term),
        accepted=True,
        prev_index=LogIndex(0),
        match_index=LogIndex(match_index),
        conflict_term=Term(0),
        conflict_index=LogIndex(0),
        last_index=LogIndex(match_index),
    )


def rejection(
    to: Member, sender: int, prev_index: int, *, conflict: tuple[int, int], term: int | None = None
):
    """`conflict` is (term, first index of that term)."""
    return AppendReply(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term if term is not None else to.raft.term),
        accepted=False,
        prev_index=LogIndex(prev_index),
        match_index=LogIndex(0),
        conflict_term=Term(conflict[0]),
        conflict_index=LogIndex(conflict[1]),
        last_index=LogIndex(conflict[1]),
    )


def heartbeat(
    to: Member,
    sender: int,
    *,
    term: int,
    commit_index: int = 0,
    commit_term: int | None = None,
    recovery: int = 0,
    read_round: int = 0,
    quiesce_round: int = 0,
):
    """`commit_term`: without it that of the receiver's entry, or else of the heartbeat."""
    if commit_term is None:
        held = commit_index <= to.raft.log.last_index
        commit_term = min(to.raft.log.term_at(commit_index) if held else term, term)
    return Heartbeat(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term),
        commit_index=LogIndex(commit_index),
        commit_term=Term(commit_term),
        recovery=recovery,
        read_round=read_round,
        quiesce_round=quiesce_round,
    )


def heartbeat_reply(
    to: Member,
    sender: int,
    *,
    read_round: int = 0,
    last_index: int = 0,
    term: int | None = None,
    quiesce_round: int = 0,
    disk_keeps_up: bool = True,
    may_lead: bool = True,
    lease_us: int | None = None,
):
    """By default it promises what the leader asks of others."""
    return HeartbeatReply(
        group=GROUP,
        sender=NodeId(sender),
        to=to.node,
        term=Term(term if term is not None else to.raft.term),
        read_round=read_round,
        last_index=LogIndex(last_index),
        quiesce_round=quiesce_round,
        disk_keeps_up=disk_keeps_up,
        may_lead=may_lead,
        lease_us=to.raft.timing.lease_us if lease_us is None else lease_us,
    )
