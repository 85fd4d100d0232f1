"""What exists only while a member leads: its followers' progress, its reads, its heartbeat clock.

It begins with an election won and is thrown away at step-down, so nothing of one term can leak
into another. What a leader says to its followers is made here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from raftlog.core import replication
from raftlog.core.lease import Lease
from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership, Memberships, changed
from raftlog.core.messages import (
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Replicate,
    TimeoutNow,
)
from raftlog.core.progress import Progress
from raftlog.core.quiescence import Quiescence
from raftlog.core.quorum import agreed, is_quorum
from raftlog.core.reads import ReadRounds
from raftlog.core.ready import ReadState
from raftlog.core.recovery import is_recovering
from raftlog.core.state import Part
from raftlog.core.transfer import Transfer
from raftlog.core.types import NO_TERM, GroupId, LogIndex, NodeId, RaftTiming, Span, Term
from raftlog.errors import ChangeUnderWay, MemberBehind, TransferRefused


class FollowerView(NamedTuple):
    """One member as its leader sees it."""

    node: NodeId
    match_index: LogIndex
    """Its log equals the leader's up to here, durably, as far as the leader knows."""
    contact_ticks: int
    """Ticks since its last answer; 0 for the leader itself."""
    next_index: LogIndex
    """The first entry that the leader has not sent to it."""
    probing: bool
    """The logs are not known to agree: one check at a time is sent, and no entries."""
    behind_base: bool
    """It has rejected the entry at the leader's base, and accepted nothing as late since: as far as
    the leader knows, it lacks entries that were dropped, and cannot be sent them."""
    recovery: int = 0
    """The number in its latest durable answer (`raftlog.core.recovery`): with another one, what it
    holds is found out again."""
    votes: bool = True
    """False: it is a learner, or a leader that has taken itself out."""
    may_lead: bool = False
    """It has said that it would campaign if it was asked to; of the leader itself nothing is said.
    """

    @property
    def recovering(self) -> bool:
        """It lost its log and is copying it: it counts for nothing yet."""
        return is_recovering(self.recovery)


class Leadership(Part):
    """Mutable; one per term led. Followers are all members but the leader, in their order."""

    __slots__ = (
        "_group",
        "_heartbeat_ticks",
        "_membership",
        "_node",
        "_silent",
        "_term",
        "_timing",
        "decides_alone",
        "followers",
        "heartbeat_due",
        "lease",
        "quiescence",
        "reads",
        "term_start",
        "transfer",
        "wished",
    )

    def __init__(
        self,
        *,
        group: GroupId,
        node: NodeId,
        term: Term,
        membership: Membership,
        last_index: LogIndex,
        timing: RaftTiming,
        wished: bool,
    ) -> None:
        """Right after an election, before the term's first entry: next_index is one past the log.

        The first heartbeat is due at once, so that other candidates yield.
        """
        self._group = group
        self._node = node
        self._term = term
        self.followers = {
            member: Progress(last_index + 1) for member in membership.members if member != node
        }
        self._timing = timing
        self.lease = Lease(timing.lease_us)
        self._decide(membership)
        self.reads = ReadRounds()
        self.quiescence = Quiescence(timing.quiesce_after_ticks)
        self.term_start = LogIndex(last_index + 1)
        """The index of this term's first entry; reads wait until it is committed."""
        self.transfer: Transfer | None = None
        """The role is being handed to a follower: no more is written."""
        self.wished = wished
        """A caller asked for this leader (`TimeoutNow.wished`)."""
        self.heartbeat_due = True
        self._heartbeat_ticks = 0
        self._silent: frozenset[NodeId] = frozenset()

    def reconfigure(self, membership: Membership, last_index: LogIndex) -> None:
        """The membership is another one from now on. Members that are new are asked whether they
        hold the log up to `last_index`."""
        known, self.followers = self.followers, {}
        for member in membership.members:
            if member in known:
                self.followers[member] = known[member]
            elif member != self._node:
                new = self.followers[member] = Progress(last_index + 1)
                new.ask()
        self._decide(membership)

    def _decide(self, membership: Membership) -> None:
        self._membership = membership
        self.decides_alone = is_quorum(membership, {self._node})
        """Does nothing depend on any follower?"""
        self.lease.forget()

    def tick(self, silent: Collection[NodeId]) -> None:
        """One tick for the heartbeat clock and for every follower's.

        The processes of the nodes in `silent` are not heard by this one at all.
        """
        self._silent = frozenset(silent)
        self.quiescence.tick()
        self._heartbeat_ticks += 1
        if self._heartbeat_ticks >= self._timing.heartbeat_ticks:
            self.heartbeat_due = True
        for progress in self.followers.values():
            progress.tick(self._timing.resend_ticks)
        if self.transfer is not None:
            self.transfer.tick()

    @property
    def something_due(self) -> bool:
        """Is there a heartbeat or a check to send, or a transfer to go on with?"""
        return (
            self.heartbeat_due
            or self.transfer is not None
            or any(each.check_due for each in self.followers.values())
        )

    def hears_quorum(self) -> bool:
        """Has a majority, this member included, answered within the shortest election timeout?

        A member that is copying its lost log counts like any other: if this leader stepped down
        because nothing can be committed without it, it could never finish.
        """
        heard = {node for node, each in self.followers.items() if self._hears(each)}
        return is_quorum(self._membership, heard | {self._node})

    def others_can_lead(self, durable_index: LogIndex) -> bool:
        """Could a majority go on without this member, whose own disk holds `durable_index`?

        A follower counts if it has answered lately, holds more of the log durably than this member,
        and has said for half an election timeout that its disk keeps up. Holding as much is not
        enough: nodes that share a slow or full disk would pass the leadership of an idle group on
        without end, and each election costs that disk a write. Being ahead is not enough either:
        of nodes that share a full disk some are ahead by the last write that found room, and they
        notice a moment later.
        """
        ahead = {
            node
            for node, each in self.followers.items()
            if each.counts
            and self._hears(each)
            and each.match_index > durable_index
            and each.disk_ticks * 2 >= self._timing.election_ticks_min
        }
        return is_quorum(self._membership, ahead)

    def begin_transfer(self, to: NodeId, *, wished: bool) -> None:
        """Hand the role to this follower. Raises as `Raft.transfer_leadership`."""
        if self.transfer is not None and self.transfer.to == to:
            return
        problem = self._problem_of_transfer(to)
        if problem is not None:
            raise TransferRefused(group=self._group, node=to, problem=problem)
        self.transfer = Transfer(to, self._timing, wished=wished)
        self.heartbeat_due = True  # its answer says whether it would lead, as of now

    def _problem_of_transfer(self, to: NodeId) -> str | None:
        """Why this member cannot be given the role now; None: it can."""
        if self.transfer is not None:
            return f"node {self.transfer.to} is being given it at the moment"
        if self._membership.is_joint:
            return "its members are changing"
        if to == self._node:
            return "it leads already"
        if to not in self._membership.voters:
            return f"of its voters, {', '.join(map(str, self._membership.voters))}, it is none"
        progress = self.followers[to]
        if not self._hears(progress):
            return "it does not answer"
        if not progress.may_lead or not progress.counts:
            return "it could not lead now: it stops, is unhealthy, or its disk is slow or full"
        return None

    def transfer_goes_on(self) -> bool:
        """Does the transfer last? It ends with its time, or when its follower would not lead."""
        if self.transfer is None:
            return False
        follower = self.followers.get(self.transfer.to)
        if self.transfer.is_over or follower is None or not follower.may_lead:
            self.transfer = None
        return self.transfer is not None

    def retime(self, timing: RaftTiming) -> None:
        """Go by these numbers from now on; a transfer that has begun keeps its own."""
        self._timing = timing

    def snapshot_reported(self, node: NodeId, *, installed: bool) -> None:
        """A follower that is behind the base was given a snapshot, or was not."""
        progress = self.followers.get(node)
        if progress is not None and progress.behind_base:
            progress.check_due = installed
            progress.unanswered_ticks = 0

    def unreachable(self, node: NodeId) -> None:
        """The process of that follower is gone."""
        if node in self.followers:
            self.followers[node].may_lead = False

    def timeout_now(self, last_index: LogIndex) -> TimeoutNow | None:
        """What tells the follower that is given the role to campaign, once it holds everything;
        None: nothing does now."""
        transfer = self.transfer
        if transfer is None or self.followers[transfer.to].match_index < last_index:
            return None
        return self._tell(transfer.to, transfer.wished) if transfer.tells_now() else None

    def hand_over(self) -> TimeoutNow | None:
        """Tells the best follower to campaign, as this leader leaves at once; None: no follower
        could be elected. It may lack entries that are not committed."""
        if not self.hears_quorum():
            return None  # it would only raise the term where no majority is
        able = {
            node: each.match_index
            for node, each in self.followers.items()
            if node in self._membership.voters
            and each.may_lead
            and each.counts
            and self._hears(each)
        }
        return self._tell(max(able, key=lambda n: (able[n], -n)), wished=False) if able else None

    def _tell(self, to: NodeId, wished: bool) -> TimeoutNow:
        self.lease.end()
        return TimeoutNow(
            group=self._group, sender=self._node, to=to, term=self._term, wished=wished
        )

    def ask_for_disks(self) -> None:
        """What followers said of their disks before this one's fell behind counts no more: they
        may share a disk."""
        for each in self.followers.values():
            each.disk(keeps_up=False)
        self.heartbeat_due = True

    def _hears(self, progress: Progress) -> bool:
        return progress.contact_ticks < self._timing.election_ticks_min

    def heartbeats(
        self, log: LogView, commit_index: LogIndex, *, all_committed: LogIndex | None
    ) -> list[Heartbeat]:
        """One to each follower; the clock restarts.

        No heartbeat's commit_index exceeds what its follower is known to hold. A follower that may
        lack something is not asked to quiesce: from such a commit_index it could not tell.
        """
        self.heartbeat_due = False
        self._heartbeat_ticks = 0
        quiesce_round = self._quiesce_round(all_committed)
        if self.lease.wants_rounds:
            self.lease.sent(self.reads.start_empty())
        known = {node: min(commit_index, each.match_index) for node, each in self.followers.items()}
        told = {node: LogIndex(at if at >= log.base_index else 0) for node, at in known.items()}
        return [
            Heartbeat(
                group=self._group,
                sender=self._node,
                to=node,
                term=self._term,
                commit_index=told[node],
                commit_term=log.term_at(told[node]) if told[node] else NO_TERM,
                recovery=each.recovery,
                read_round=self.reads.latest,
                quiesce_round=quiesce_round if each.match_index >= commit_index else 0,
                recovered=each.recovered,
            )
            for node, each in self.followers.items()
        ]

    def _quiesce_round(self, all_committed: LogIndex | None) -> int:
        """The round in which a heartbeat asks followers to quiesce; 0: it does not.

        `all_committed` is the log's last index if all of the log is committed. Every follower must
        hold it too, except those whose process is silent: a node that is down must not keep a
        thousand groups awake. The host loop wakes this leader when they are back. While the
        membership is joint something is to be committed: it is completed as soon as it is.
        """
        is_idle = (
            all_committed is not None
            and self.transfer is None
            and self.quiescence.due
            and not self.reads.pending
            and all(
                (each.match_index == all_committed and each.counts) or self._is_excused(node, each)
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
        self._silent -= {node}
        self.quiescence.disagrees(node)

    def _is_excused(self, node: NodeId, progress: Progress) -> bool:
        return node in self._silent and not self._hears(progress)

    def wake(self, silent_ticks: Mapping[NodeId, int]) -> None:
        """After a quiesced time in which nothing was ticked: take each follower for as silent as
        its process was, and have heartbeats wake those that are quiesced."""
        self.lease.forget()
        for node, progress in self.followers.items():
            progress.contact_ticks = silent_ticks.get(node, 0)
        self.heartbeat_due = True

    def append_answered(self, reply: AppendReply, log: LogView) -> bool:
        """A follower has answered in this term; does more of the `log` count there than before?

        After a rejection the next check goes further back, where the logs can still agree, but
        not behind the base.
        """
        progress = self.followers[reply.sender]
        counted = progress.counts
        if reply.recovery != progress.recovery:
            if reply.recovery < progress.recovery:
                return False  # said before it lost its log
            progress = self._recovery_changed(reply.sender, reply.recovery, log.last_index)
        progress.contact_ticks = 0
        if reply.accepted:
            assert reply.match_index <= log.last_index, "it confirms what was never sent"
            rose = progress.accepted(reply.match_index)
            return rose or progress.counts is not counted
        if not progress.is_stale_rejection(reply.prev_index):
            match_index = progress.match_index
            if reply.prev_index == log.base_index:
                progress.rejected_base(log.base_index)
            else:
                progress.rejected(replication.next_index_after(log, reply, match_index=match_index))
        return False

    def _recovery_changed(self, node: NodeId, recovery: int, last_index: LogIndex) -> Progress:
        """The follower's recovery is durably another now: the one that was known has ended, or else
        it has lost its log, or had lost it before it was heard in this term."""
        progress = self.followers[node]
        if not progress.counts and recovery == progress.recovery + 1:
            progress.recovery = recovery
            return progress
        progress = self.followers[node] = Progress(last_index + 1)
        proof_round = self.reads.start_empty() if is_recovering(recovery) else 0
        progress.lost_log(recovery, proof_round)
        self.heartbeat_due = True
        return progress

    def plan_change(
        self, memberships: Memberships, commit_index: LogIndex, goal: Membership
    ) -> Membership:
        """The membership to write to come to `goal`. Raises as `Raft.change_membership`."""
        begun = max(memberships.latest_index, self.term_start)
        if memberships.latest.is_joint or begun > commit_index:
            raise ChangeUnderWay(group=self._group, index=begun)
        new = changed(memberships.latest, goal)
        for voter in new.voters:
            if voter not in memberships.latest.voters:
                held = self.followers.get(voter)
                if held is None or not held.counts or held.match_index < memberships.latest_index:
                    raise MemberBehind(group=self._group, node=voter)
        return new

    def log_dropped(self, base_index: LogIndex) -> None:
        """The leader's log begins after `base_index` now: nothing at or below it is sent."""
        for each in self.followers.values():
            each.log_dropped(base_index)

    def heartbeat_answered(self, reply: HeartbeatReply, log: LogView) -> list[ReadState]:
        """A follower has answered in this term; the reads that are confirmed by it.

        That its recovery has ended counts only once an answer to a check says so, durably.
        """
        progress = self.followers[reply.sender]
        if reply.recovery < progress.recovery:
            return []  # said before it lost its log
        if reply.recovery > progress.recovery:
            if is_recovering(reply.recovery):
                progress = self._recovery_changed(reply.sender, reply.recovery, log.last_index)
            else:
                progress.check_due = True
        progress.contact_ticks = 0
        progress.disk(keeps_up=reply.disk_keeps_up)
        progress.may_lead = reply.may_lead
        patience_ticks = 2 * self._timing.heartbeat_ticks
        progress.heard(last_index=reply.last_index, patience_ticks=patience_ticks)
        if reply.quiesce_round:
            self.quiescence.agreed(reply.sender, reply.quiesce_round)
        else:
            self.quiescence.disagrees(reply.sender)
        if reply.lease_us >= self._timing.lease_us > 0 and reply.read_round > progress.lease_round:
            progress.lease_round = reply.read_round
            self.lease.answered(self._quorum_of({n: p.lease_round for n, p in self._counting()}))
        if reply.read_round <= progress.read_round:
            return []
        progress.read_round = reply.read_round
        agreed_round = self.agreed_round()
        for each in self.followers.values():
            if not each.counts and each.recovery_end is None and agreed_round >= each.proof_round:
                each.recovery_end = log.last_index
        return self.reads.confirm(agreed_round)

    def agreed_index(self, durable_index: LogIndex) -> LogIndex:
        """What a quorum holds durably; this member counts with its own `durable_index`."""
        matches = {n: each.match_index for n, each in self._counting()}
        matches[self._node] = durable_index
        return LogIndex(agreed(self._membership, matches))

    def agreed_round(self) -> int:
        """The latest read round that a quorum has answered, this member among it if it votes."""
        return self._quorum_of({node: each.read_round for node, each in self._counting()})

    def _quorum_of(self, rounds: dict[NodeId, int]) -> int:
        """The latest round that a quorum has reached, if followers have reached these."""
        rounds[self._node] = self.reads.latest
        return agreed(self._membership, rounds)

    def _counting(self) -> Iterator[tuple[NodeId, Progress]]:
        """The followers whose acknowledgements count, if they vote."""
        return ((node, each) for node, each in self.followers.items() if each.counts)

    def views(self, log: LogView, durable_index: LogIndex) -> tuple[FollowerView, ...]:
        """Every member by id; this one itself holds `durable_index` of its own `log`."""
        voters = self._membership.all_voters
        views = [
            FollowerView(
                node=node,
                match_index=LogIndex(each.match_index),
                contact_ticks=each.contact_ticks,
                next_index=LogIndex(each.next_index),
                probing=each.probing,
                behind_base=each.behind_base,
                recovery=each.recovery,
                votes=node in voters,
                may_lead=each.may_lead,
            )
            for node, each in self.followers.items()
        ]
        own = FollowerView(
            node=self._node,
            match_index=durable_index,
            contact_ticks=0,
            next_index=LogIndex(log.last_index + 1),
            probing=False,
            behind_base=False,
            votes=self._node in voters,
        )
        return tuple(sorted([own, *views]))

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

    def requests(self, log: LogView, commit_index: LogIndex) -> Iterator[Replicate]:
        """The append requests to send now; each is counted as sent when it is taken."""
        last_index = log.last_index
        for node, progress in self.followers.items():
            if progress.check_due or progress.next_index <= last_index:
                for first, span in self._spans_for(progress, log):
                    yield Replicate(
                        group=self._group,
                        sender=self._node,
                        to=node,
                        term=self._term,
                        prev_index=LogIndex(first - 1),
                        prev_term=log.term_at(first - 1),
                        span=span,
                        commit_index=commit_index,
                    )

    def _spans_for(self, progress: Progress, log: LogView) -> Iterator[tuple[int, Span | None]]:
        """What to send to one follower: where each request starts, and its entries; None: only
        the check of the entry before."""
        if progress.check_due:
            progress.checked()
            yield progress.next_index, None
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
            yield first, span
