"""Raft for one group at one member: plain values in, one `Ready` out. Deterministic, no I/O.

The rules of Raft sections 5.1 to 5.4 and 8, with pre-vote (dissertation section 9.6), check-quorum
(6.2) and ReadIndex (6.4). Time is `tick()`, chance is the generator that is passed in. What is
decided here is done by someone else, by the rules in `raftlog.core.ready`. Not for two threads.

Here is what a host loop calls; `raftlog.core.member` is what a member decides in its roles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from raftlog.core import election, validity
from raftlog.core.leadership import FollowerView, Leadership
from raftlog.core.member import Durability, Member
from raftlog.core.membership import Membership
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    PulledEntries,
    RaftMessage,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.quiescence import keeps_quiesced
from raftlog.core.reads import PendingRead
from raftlog.core.ready import ReadState, Ready, Role, SoftState
from raftlog.core.status import RaftStatus, status_of
from raftlog.core.types import (
    NO_NODE,
    EntryKind,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Span,
    Term,
)
from raftlog.errors import NotLeader, Overloaded, TransferUnderWay


class Raft(Member):
    """One member of one group. Every method decides; nothing happens before `ready()`.

    Its attributes are read from outside, and set only here.
    """

    __slots__ = ()

    # ------------------------------------------------------------ what it is

    def followers(self) -> tuple[FollowerView, ...]:
        """Every member as this leader sees it, itself included, by id; () at any other member."""
        if self.leadership is None:
            return ()
        return self.leadership.views(self.log, self.durable_index)

    @property
    def transferring_to(self) -> NodeId:
        """Who is being given the role of this leader; NO_NODE: none is."""
        transfer = self.leadership.transfer if self.leadership is not None else None
        return transfer.to if transfer is not None else NO_NODE

    @property
    def is_wished(self) -> bool:
        """Does this member lead because a caller asked for it?"""
        return self.leadership is not None and self.leadership.wished

    @property
    def timing(self) -> RaftTiming:
        """The numbers and switches that it goes by."""
        return self._timing

    def pending_reads(self) -> tuple[PendingRead, ...]:
        """The reads that this leader was asked for and has not confirmed, in the order in which
        they came; () at any other member."""
        return self.leadership.reads.views() if self.leadership is not None else ()

    def status(self) -> RaftStatus:
        """Everything about this member that someone outside may want to see, as it is now."""
        return status_of(self)

    # ------------------------------------------------------------ what may happen to it

    def holds_lease(self, now_us: int) -> bool:
        """Would this leader answer a read that came now without a round (`raftlog.core.lease`)?"""
        leadership = self.leadership
        return (
            leadership is not None
            and not self.quiesced
            and self.commit_index >= leadership.term_start
            and leadership.lease.holds(now_us)
        )

    def tick(
        self,
        silent: Collection[NodeId] = (),
        *,
        now_us: int | None = None,
        may_campaign: bool = True,
    ) -> bool:
        """One tick of the clock has passed; may `ready` have something because of it?

        Nothing was heard of the processes of the nodes in `silent` for an election timeout.
        `now_us`: what the driver's clock shows; without it no lease begins. Without `may_campaign`
        a member whose election timeout has passed waits until the driver calls `campaign`.
        """
        assert not self.quiesced, "a quiesced member has no timer"
        leadership = self.leadership
        if leadership is not None:
            leadership.tick(silent)
            if now_us is not None:
                leadership.lease.clock(now_us)
            others_can = leadership.others_can_lead(self.durable_index)
            # Cut off from the majority: another may lead by now, so promise nothing more.
            cut_off = self._timing.check_quorum and not leadership.hears_quorum()
            if (not self._disk_keeps_up and others_can) or cut_off:
                self._step_down(leadership)
                return True
            return leadership.something_due
        self.timer.tick()
        return may_campaign and self.campaign_due and self._try_to_lead()

    @property
    def campaign_due(self) -> bool:
        """Has this member waited for a leader, or for answers to its last campaign, for long enough
        to campaign?"""
        patience = 1 if self._is_eager else election.PATIENCE
        return self.leadership is None and self.timer.is_over(patience) and self._can_campaign

    def campaign(self) -> bool:
        """Try to lead now instead of after a timeout; returns whether this member does so.

        Not one that leads already, or that must not lead or is no voter, or that withholds its vote
        for a lease. Those that hear a leader refuse, as always: to take over from one, use
        `transfer_leadership` there.
        """
        if self.leadership is not None:
            return False
        return self._try_to_lead()

    @property
    def _can_campaign(self) -> bool:
        return self._would_lead() and not self.timer.withheld_ticks

    def _try_to_lead(self) -> bool:
        if not self._can_campaign:
            return False
        self.quiesced = False
        self._start_campaign()
        return True

    def set_election_timeout(self, ticks_min: int) -> None:
        """Wait for a leader `ticks_min` to twice as many ticks from now on. The present wait begins
        again. With leases it only gets longer: other members' are made for the present one."""
        shorter = ticks_min < self._timing.election_ticks_min
        assert not shorter or not self._timing.lease_us, "a lease may last longer than that"
        self._timing = replace(self._timing, election_ticks_min=ticks_min)
        self.timer.retime(self._timing)
        if self.leadership is not None:
            self.leadership.retime(self._timing)
        else:
            self._reset_timer()

    def step(self, message: RaftMessage, *, term_max: Term = validity.TERM_MAX) -> None:
        """A message to this member has arrived: lost, repeated, late or early ones do no harm.

        `term_max` is what `validity.term_max` makes of the driver's clock.

        Raises `PeerProtocolViolation` for one that no honest peer sends: then nothing has changed.
        Raises `AcknowledgedEntriesLost` if this member's disk has, or the leader lies: it neither
        votes nor campaigns until its log is as up to date again, and asks the leader for the rest.
        There may be something to do, as after any message.
        """
        assert message.group == self.group, "a message for another group"
        assert message.to == self.node, "a message for another member"
        validity.check(message, self, self.log, self.leadership, term_max=term_max)
        if self.quiesced and not self.stays_quiesced_through(message):
            self.wake({})
        needs_no_other = self._timing.check_quorum and self._hears_leader()
        if message.term > self.term and election.moves_term(message, needs_no_other=needs_no_other):
            self._enter_term(message.term)
        match message:
            case AppendRequest():
                self._on_append_request(message)
            case AppendReply():
                self._on_append_reply(message)
            case Heartbeat():
                self._on_heartbeat(message)
            case HeartbeatReply():
                self._on_heartbeat_reply(message)
            case VoteRequest(pre=True):
                self._on_pre_vote_request(message)
            case VoteRequest():
                self._on_vote_request(message)
            case VoteReply():
                self._on_vote_reply(message)
            case TimeoutNow():
                self._on_timeout_now(message)
            case _:
                assert_never(message)

    def observe(self, pulled: PulledEntries, *, term_max: Term = validity.TERM_MAX) -> None:
        """Take entries that another node says are committed, where they follow on this member's
        last one; and who leads, as that node knows it. For one that is no member of its group: it
        neither votes nor counts, and its log holds nothing but what is committed.

        Raises `PeerProtocolViolation` for what no honest node sends: then nothing has changed.
        """
        assert self.leadership is None, "a leader takes no entries"
        validity.check_pulled(pulled, self, self.log, term_max=term_max)
        if pulled.term > self.term:
            self._enter_term(pulled.term)
        if pulled.term == self.term and pulled.leader != NO_NODE:
            self._follow(pulled.leader)
        if (pulled.prev_index, pulled.prev_term) != (self.log.last_index, self.log.last_term):
            return  # an answer that came late
        if pulled.entries:
            self._write(pulled.entries)
        if pulled.commit_index >= self.log.last_index:
            self._learn_commit_index(self.log.last_index)

    def observe_log(self) -> None:
        """All that this member's log holds is committed, as it holds only what was pulled. It has
        promised nothing, so it has nothing to make good either."""
        self._learn_commit_index(self.log.last_index)
        if self.recovering:
            self.recovery.end()

    def propose(self, payloads: Sequence[Payload], kind: EntryKind = EntryKind.COMMAND) -> Span:
        """Append one entry per payload (at least one), all or none, and say where.

        Raises `NotLeader` with a hint, `TransferUnderWay`, or `Overloaded` when more than
        `unapplied_entries_max` would await commit and apply. Acceptance promises nothing: the
        entries are safe once committed, and may be gone if the term changes first.
        """
        assert payloads, "a proposal proposes something"
        leadership = self._writing()
        limit = self._timing.unapplied_entries_max
        if self.log.last_index - self.last_applied + len(payloads) > limit:
            raise Overloaded(queue="raft.unapplied_entries_max", limit=limit)
        self._disturb(leadership)
        return self._append_own(payloads, kind)

    def change_membership(self, goal: Membership) -> Span:
        """Give the group this membership (Raft section 6), which is not joint, and say where that
        begins. Its generation is at least the present one's.

        It holds at once. Where the voters are others it is completed once both majorities have
        committed it, by the leader of that time; a leader that is not among them leaves after that.

        Raises `NotLeader`; `TransferUnderWay`; `ChangeUnderWay` as long as an earlier change or
        this leader's first entry is not committed; `MemberBehind` if a new voter is no learner that
        holds the log up to where it was named. Others would not vote, and their votes may be
        needed to go on.
        """
        leadership = self._writing()
        new = leadership.plan_change(self.memberships, self.commit_index, goal)
        self._disturb(leadership)
        return self._change(leadership, new)

    def transfer_leadership(self, to: NodeId, *, wished: bool = False) -> None:
        """Hand the leader's role to this voter (Raft dissertation section 3.10).

        From now on nothing is written, until another member leads or `transferring_to` is NO_NODE
        again: that is after an election timeout at the latest, and then it has failed. `wished`:
        see `TimeoutNow`. To ask again for the same one changes nothing.

        Raises `NotLeader`, or `TransferRefused` if this member cannot be given the role now.
        """
        leadership = self._leading()
        leadership.begin_transfer(to, wished=wished)
        self._disturb(leadership)

    def read_index(self, request_id: int, *, now_us: int | None = None) -> None:
        """Ask for a linearizable read; `Ready.reads` or `Ready.reads_dropped` answers.

        Before the term's first entry is committed a leader may not know all that is, so the read
        waits for it (Raft section 8). Raises `NotLeader`, or `Overloaded` beyond
        `pending_reads_max`. `now_us` is what the driver's clock shows, read after the request came:
        if this leader holds a lease then, the read needs no round.
        """
        leadership = self._leading()
        if now_us is not None:
            leadership.lease.clock(now_us)
            if self.holds_lease(now_us):
                self._disturb(leadership)
                self._outbox.reads.append(ReadState(request_id, self.commit_index))
                return
        limit = self._timing.pending_reads_max
        if leadership.reads.pending >= limit:
            raise Overloaded(queue="raft.pending_reads_max", limit=limit)
        self._disturb(leadership)
        leadership.reads.add(request_id)

    def _leading(self) -> Leadership:
        if self.leadership is None:
            raise NotLeader(group=self.group, node=self.node, leader=self.leader)
        return self.leadership

    def _writing(self) -> Leadership:
        leadership = self._leading()
        if leadership.transfer is not None:
            raise TransferUnderWay(group=self.group, to=leadership.transfer.to)
        return leadership

    def _disturb(self, leadership: Leadership) -> None:
        """Something is asked of this leader."""
        if self.quiesced:
            self.wake({})
        leadership.quiescence.disturbed()

    def stays_quiesced_through(self, message: RaftMessage) -> bool:
        """Does the message leave this quiesced member quiesced?"""
        leadership = self.leadership
        return keeps_quiesced(
            message,
            leader=self.leader,
            term=self.term,
            commit_index=self.commit_index,
            own_round=leadership.quiescence.round if leadership is not None else 0,
        )

    def wake(self, silent_ticks: Mapping[NodeId, int], *, ask_again: bool = False) -> None:
        """End the quiesced time. For how many ticks was nothing heard of each other node's process?

        So a follower's timer stands where it would stand had that process spoken for the group,
        and a leader that cannot reach a majority steps down at its next tick. Its heartbeat wakes
        its followers. With `ask_again` it asks them instead whether they are as quiesced as it
        believes.
        """
        assert self.quiesced, "a member that is awake is not woken"
        self.quiesced = False
        if self.leadership is None:
            self.timer.silent(silent_ticks.get(self.leader, 0))
            return
        self.leadership.wake(silent_ticks)
        if ask_again:
            self.leadership.quiescence.ask_again()
        else:
            self.leadership.quiescence.disturbed()

    def node_is_back(self, node: NodeId) -> None:
        """The process of `node` is heard again, or is another one; no quiesced leader wakes."""
        if self.leadership is not None:
            self.leadership.node_is_back(node)

    def persisted(self, write_number: int) -> None:
        """The write of that number (`Ready.write_number`) and all before it are durable.

        What was truncated since does not count; the same entries, come again, are a later write's.
        """
        index = LogIndex(self._outbox.persisted(write_number))
        if self._renumbered is Durability.HANDED_OUT:
            self._renumbered = Durability.DURABLE
        if index > self.durable_index:
            self.durable_index = index
            self.recovery.grown(self.log, self.durable_index)
            self.memberships.persisted(self.durable_index)
            self._advance_commit_index()

    def applied(self, index: LogIndex) -> None:
        """The state machine has applied everything up to `index`."""
        assert self.last_applied <= index, "applying goes forward"
        assert index <= self._outbox.committed_to, "only what was handed out can be applied"
        self.last_applied = index

    def drop_log_to(self, index: LogIndex) -> None:
        """The log begins after `index` now: what was there is durable in a snapshot.

        A leader can no longer send it. A follower that lacks some of it stays `behind_base` until
        it has got that from elsewhere.
        """
        assert self.log.base_index <= index, "the base never falls"
        assert index <= min(self.last_applied, self.durable_index), "a snapshot holds what it drops"
        self.log.drop_to(index)
        self.memberships.drop_to(index)
        if self.leadership is not None:
            self.leadership.log_dropped(index)

    def leader_lost(self, leader: NodeId, term: Term) -> None:
        """The process of `leader`, which led `term`, is gone (its connection was reset).

        At once this member hears no leader, so it grants votes and pre-votes; soon, by chance, it
        tries to lead. Old news changes nothing. Where leases are on, the process may live and hold
        one, as a reset only says so: a quiesced member wakes, and waits for an election timeout.
        """
        known = self.role is Role.FOLLOWER and self.leader != NO_NODE
        if not known or leader != self.leader or term != self.term:
            return
        if self._timing.lease_us:
            if self.quiesced:
                self.wake({})
            return
        self.quiesced = False
        self.leader = NO_NODE
        self._try_soon()

    def candidate_lost(self, node: NodeId) -> None:
        """The process of `node` is gone (its connection was reset). A member that has voted for it,
        and knows no leader since, tries soon: there may have been no other candidate."""
        voted = self.role is Role.FOLLOWER and self.vote == node
        if voted and self.leader == NO_NODE:
            self._try_soon()

    def report_unreachable(self, node: NodeId) -> None:
        """The process of the follower `node` is gone (its connection was reset): a leader hands it
        nothing until it says again that it would lead."""
        if self.leadership is not None:
            self.leadership.unreachable(node)

    def report_snapshot(self, node: NodeId, *, installed: bool) -> None:
        """The follower `node`, which is `behind_base`, was given a snapshot; or that has failed.

        A leader asks at once what it holds now, and goes on from there; after a failure it asks at
        the usual pace. Without any report it does so too, so this only saves time.
        """
        if self.leadership is not None:
            self.leadership.snapshot_reported(node, installed=installed)

    def note_acknowledged(self, last: LastEntry) -> None:
        """The member that this one takes the place of in its process had acknowledged as much."""
        self.acknowledged = max(self.acknowledged, last)

    def note_disk(self, *, keeps_up: bool) -> None:
        """Whether this member's disk writes in time. One that is slow lets others lead.

        A leader steps down at a tick at which a majority without it is heard, holds more of its
        log, durably, and has said since that its disks keep up. A follower waits several timeouts
        before it tries: longer than a member that could lead better, but not without end, as there
        may be no other.
        """
        if self._disk_keeps_up and not keeps_up and self.leadership is not None:
            self.leadership.ask_for_disks()
        self._disk_keeps_up = keeps_up

    def note_fitness(self, *, may_lead: bool, waits: bool = False) -> None:
        """Whether this member may lead: not if its state machine is known to differ from the
        majority's, or if it cannot read what its followers lack.

        Otherwise it votes and acknowledges as usual. A leader steps down, and wakes its followers:
        one of them must try. The host loop must tick this member even if it was quiesced.

        With `waits` it campaigns only after others had time to, as with a slow disk.
        """
        self._may_lead, self._waits = may_lead, waits
        if not may_lead and self.leadership is not None:
            self._step_down(self.leadership)
        elif not may_lead and self.role is not Role.FOLLOWER:
            self._become_follower()
            self._reset_timer()

    def voters_reachable(self) -> None:
        """The way to a majority has opened: a member that knows no leader tries soon, as its
        pre-vote may be among what was lost. Where there is a leader it is refused."""
        if self.role in (Role.FOLLOWER, Role.PRE_CANDIDATE) and self.leader == NO_NODE:
            self._try_soon()

    def _try_soon(self) -> None:
        if self._is_eager:
            self.timer.wait_briefly()

    def ready(self) -> Ready:
        """Everything decided since the last call, once; false as a condition if nothing is."""
        if self.leadership is not None:
            self._speak_as_leader(self.leadership)
        if self._renumbered is Durability.DECIDED:
            self._renumbered = Durability.HANDED_OUT
        return self._outbox.drain(
            soft_state=SoftState(self.role, self.term, self.leader),
            hard_state=HardState(
                self.term,
                self.vote,
                self.recovery.number,
                self.recovery.lost,
                self.memberships.voters_at,
            ),
            commit_index=self.commit_index,
        )
