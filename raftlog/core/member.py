"""What a member decides in its roles: how it moves between them, and how it answers messages.

`raftlog.core.raft` is what a host loop sees of it. Roles and what moves between them
(`tests.core.invariants` checks it):

    follower ------ no leader heard for a timeout, or its process died ------> pre-candidate
    pre-candidate - a majority would vote for it ----------------------------> candidate
    candidate ----- a majority voted for it, however late in its term --------> leader
    any ----------- a higher term, or a leader of its own -------------------> follower
    follower ------ the leader has handed its role over ----------------------> candidate
    leader -------- a majority not heard for a timeout ----------------------> follower
    leader -------- its disk is slow, and a majority of others is ahead of it ---> follower

A member's own vote and its own entries count like any others, only once they are durable: the vote
is a message to itself that waits for persistence, the entries count through `persisted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import assert_never

from raftlog.core import election, replication
from raftlog.core.leadership import Leadership
from raftlog.core.log_view import LogView
from raftlog.core.membership import (
    Membership,
    Memberships,
    completed,
    encode_membership,
)
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.outbox import Outbox
from raftlog.core.quorum import VoteResult
from raftlog.core.ready import Role, SoftState
from raftlog.core.recovery import Recovery
from raftlog.core.state import Part
from raftlog.core.timer import ElectionTimer, Random
from raftlog.core.types import (
    EMPTY_PAYLOAD,
    NO_INDEX,
    NO_LAST,
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Span,
    Term,
    VotersAt,
)
from raftlog.errors import AcknowledgedEntriesLost


class Durability(Enum):
    """How far something is on its way to the disk."""

    DECIDED = 0
    HANDED_OUT = 1
    """An output has it."""
    DURABLE = 2


class Member(Part):
    """The state of a member, and its conduct. Mutable; `Raft` is the way to it."""

    __slots__ = (
        "_disk_keeps_up", "_may_lead", "_outbox", "_renumbered", "_timing", "_waits",
        "acknowledged", "commit_index", "durable_index", "group", "last_applied", "leader",
        "leadership", "log", "memberships", "node", "quiesced", "recovery", "role", "tally", "term",
        "timer", "vote",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node: NodeId,
        group: GroupId,
        memberships: Memberships,
        timing: RaftTiming,
        hard_state: HardState,
        log: LogView,
        random: Random,
        applied_index: LogIndex = NO_INDEX,
    ) -> None:
        """A member as it stands after reading its disk: a follower that knows no leader.

        `hard_state` and everything in `log` are durable; the view belongs to the core from now on,
        and so do `memberships`: those that the log holds, and the one before it. The state machine
        has applied everything up to `applied_index`, as a snapshot has it.
        Nothing counts as committed beyond that; a leader's word, or its own, brings more back.
        """
        assert applied_index <= log.last_index, "what was applied is gone from this log"
        self.group = group
        self.node = node
        self.memberships = memberships
        self._timing = timing
        self.timer = ElectionTimer(timing, random)
        self.log = log
        self.role = Role.FOLLOWER
        self.term = hard_state.term
        self.vote = hard_state.vote
        """The node that this member voted for in its term; NO_NODE: none yet."""
        if log.last_term > hard_state.term:
            # The entries became durable and the term they came with did not. No vote of that
            # term can have left this member, because votes wait for the hard state.
            self.term, self.vote = log.last_term, NO_NODE
        self.recovery = Recovery(hard_state)
        """Whether it lost its log and is copying it."""
        memberships.date_base(log)
        self.acknowledged = self._recall(hard_state.voters)
        """A leader, or the hard state, says that this member acknowledged as much; its log may be
        less up to date. By what is left of it others may have decided, or this member alone."""
        self.leader = NO_NODE
        """Who leads this term, as far as this member knows; NO_NODE: unknown or lost."""
        self.commit_index = self.last_applied = max(log.base_index, applied_index)
        """The highest index known committed, and applied. Neither falls while the member runs."""
        self.durable_index = log.last_index
        """The log is durable up to here at least, as `persisted` said."""
        self._disk_keeps_up = True
        self._may_lead = True
        self._waits = False
        """Should others lead, if they can?"""
        self._renumbered = Durability.DURABLE
        """Whether the number of its recovery is. Told before, it would be above that of the next
        process, which the leader would take for one from before a loss."""
        memberships.persisted(log.last_index)
        self.tally: election.VoteTally | None = None
        self.leadership: Leadership | None = None
        self.quiesced = False
        """Nothing is to do and nothing is waited for: do not tick (`raftlog.core.quiescence`)."""
        self._outbox = Outbox(
            soft_state=SoftState(self.role, self.term, self.leader),
            hard_state=hard_state,
            commit_index=self.commit_index,
            last_index=log.last_index,
        )
        self.recovery.grown(self.log, self.durable_index)
        self._reset_timer()
        self.timer.withhold()

    def _recall(self, since: VotersAt | None) -> LastEntry:
        """What the latest voters in the hard state say that this member acknowledged, if its log
        lacks their entry. They decide until it is there."""
        if since is None or not since.lacks(self.log.last_entry):
            return NO_LAST
        if self.recovering or since.held:
            self.memberships.lost(since)
        if since.held and self.recovery.is_news(since.term, since.since):
            return LastEntry(since.term, since.since)
        return NO_LAST

    @property
    def membership(self) -> Membership:
        """Who decides: as the log's last entry about it says, committed or not."""
        return self.memberships.latest

    @property
    def incomplete(self) -> bool:
        """Did this member acknowledge more than its log holds, as a leader or its hard state says?
        Then it gives no vote."""
        return self.log.last_entry < self.acknowledged

    @property
    def recovering(self) -> bool:
        """Has it lost its log, and not got it again? Then what it holds does not count."""
        return self.recovery.lasts

    # ------------------------------------------------------------ roles

    def _enter_term(self, term: Term, vote: NodeId = NO_NODE) -> None:
        assert term > self.term, "terms only rise"
        led = self.leadership is not None
        self._become_follower()
        self.term = term
        self.vote = vote
        # Promises of an older term that have not left yet are void.
        self._outbox.after_persist.clear()
        if led:
            self._reset_timer()

    def _step_down(self, leadership: Leadership) -> None:
        """Give up the role in this term without knowing another leader. Tell the follower that has
        most of the log to campaign.

        A last heartbeat wakes followers that are quiesced. They still hear this process, so they
        would wait for it; but it may not try again for several timeouts, or at all. (A leader that
        a higher term deposes sends none: it tries itself after a timeout, and that wakes them.)
        """
        messages = self._outbox.messages
        messages.extend(leadership.heartbeats(self.log, self.commit_index, all_committed=None))
        if (handed_over := leadership.hand_over()) is not None:
            messages.append(handed_over)
        self.quiesced = False
        self._become_follower()
        self._reset_timer()

    def _become_follower(self) -> None:
        """Follow no leader yet, in the present term; a leader gives up its reads."""
        if self.leadership is not None:
            self._outbox.reads_dropped.extend(self.leadership.reads.drop())
        self.leadership = None
        self.tally = None
        self.role = Role.FOLLOWER
        self.leader = NO_NODE

    def _follow(self, leader: NodeId) -> None:
        """A message of this term's leader has come: yield to it, and wait again."""
        assert self.role is not Role.LEADER, "two leaders in one term"
        assert self.leader in (NO_NODE, leader), "two leaders in one term"
        self.timer.withhold()
        if self.role is Role.FOLLOWER and self.leader == leader:
            self.timer.elapsed_ticks = 0
            return
        self._become_follower()
        self.leader = leader
        self._reset_timer()

    def _start_campaign(self) -> None:
        """Try to lead: by an election, or first by asking whether one could be won."""
        if self._timing.pre_vote:
            self._start_pre_vote()
        else:
            self._start_election()

    def _start_pre_vote(self) -> None:
        """Ask whether an election could be won, without changing any member's term."""
        tally = self.tally or election.VoteTally(self.membership, election=False)
        self._become_follower()
        self.role = Role.PRE_CANDIDATE
        self._reset_timer()
        tally.start_pre_vote()
        self.tally = tally
        self._ask_for_votes(Term(self.term + 1), pre=True)

    def _start_election(self, handed_over: TimeoutNow | None = None) -> None:
        """Raft section 5.2. It follows on a pre-vote, unless members are told to leave those out,
        or a leader has handed its role over."""
        asked = self.role is Role.PRE_CANDIDATE or not self._timing.pre_vote
        assert asked or handed_over is not None, "there is a reason"
        self._enter_term(Term(self.term + 1), vote=self.node)
        self.role = Role.CANDIDATE
        self._reset_timer()
        self.tally = election.VoteTally(self.membership, election=True, handed_over=handed_over)
        self._ask_for_votes(self.term, pre=False, transfer=handed_over is not None)

    def _ask_for_votes(self, term: Term, *, pre: bool, transfer: bool = False) -> None:
        """Ask every voter; this member answers itself with yes, once that is durable.

        The requests of an election wait for the new term to be durable, too. A candidate that
        forgot its term in a crash could otherwise be elected by the answers to what it asked
        before, with a shorter log than it had then.
        """
        own = election.vote_request(
            self.group, self.node, term, self.log, pre=pre, transfer=transfer
        )
        voters = self.membership.all_voters
        waiting = self._outbox.messages if pre else self._outbox.after_persist
        waiting.extend(replace(own, to=voter) for voter in voters if voter != self.node)
        self._outbox.after_persist.append(own.reply(term, granted=True))

    def _become_leader(self) -> None:
        """Begin a term with an entry of it: only such can be committed by counting."""
        assert self.role in (Role.CANDIDATE, Role.PRE_CANDIDATE), "an election was won"
        assert self.vote == self.node, "a leader voted for itself"
        assert self.tally is not None, "votes were counted"
        handed_over = self.tally.handed_over
        self.role = Role.LEADER
        self.leader = self.node
        self.tally = None
        self.timer.withheld_ticks = 0
        self.leadership = Leadership(
            group=self.group,
            node=self.node,
            term=self.term,
            membership=self.membership,
            last_index=self.log.last_index,
            timing=self._timing,
            wished=handed_over is not None and handed_over.wished,
        )
        self._append_own((EMPTY_PAYLOAD,), EntryKind.NOOP)

    def _hears_leader(self) -> bool:
        """Does this member lead, or did its leader speak within the shortest timeout?

        With leases, so long after any leader spoke, whatever has become of it meanwhile.
        """
        if self.role is Role.LEADER or self._withholds_vote:
            return True
        return self.leader != NO_NODE and self.timer.elapsed_ticks < self._timing.election_ticks_min

    @property
    def _withholds_vote(self) -> bool:
        """May a leader hold a lease that this member granted?"""
        return self.timer.withheld_ticks > 0

    def _would_lead(self) -> bool:
        """May this member campaign at all, and may its election be needed?"""
        fit = self._may_lead and not self.recovering and not self.incomplete
        return fit and self.memberships.needs(self.node, self.commit_index)

    @property
    def _is_eager(self) -> bool:
        """Would it lead as well as any other?"""
        return self._disk_keeps_up and not self._waits

    def _reset_timer(self) -> None:
        alone = self.membership.all_voters == (self.node,)
        self.timer.wait(alone=alone, term=self.term)

    def _last_for_votes(self) -> LastEntry | None:
        """How up to date a candidate must be; None: no log suffices. A member that nothing has
        named yet may have had another log before, and does not vote."""
        votes = bool(self.membership.voters) and not self.incomplete
        return self.recovery.last_for_votes(self.log) if votes else None

    # ------------------------------------------------------------ elections

    def _on_vote_request(self, request: VoteRequest) -> None:
        last = self._last_for_votes()
        granted = election.grants_vote(
            request,
            term=self.term,
            vote=self.vote,
            leader=self.leader,
            last=last,
            withheld=self._withholds_vote,
        )
        if granted and self.vote == NO_NODE:
            self.vote = request.sender
            self._reset_timer()
        self._outbox.after_persist.append(request.reply(self.term, granted=granted))

    def _on_pre_vote_request(self, request: VoteRequest) -> None:
        last, hears_leader = self._last_for_votes(), self._hears_leader()
        granted = election.grants_pre_vote(
            request, term=self.term, vote=self.vote, hears_leader=hears_leader, last=last
        )
        just_tried = self.timer.elapsed_ticks <= self._timing.heartbeat_ticks
        if granted and self.role is Role.PRE_CANDIDATE and just_tried:
            granted = election.outranks(request, node=self.node, log=self.log)
            if granted:
                self._become_follower()
                self._reset_timer()
        term = request.term if granted else self.term
        self._outbox.after_persist.append(request.reply(term, granted=granted))

    def _on_vote_reply(self, reply: VoteReply) -> None:
        if self.tally is None or not election.answers(reply, role=self.role, term=self.term):
            return
        match self.tally.record(reply):
            case VoteResult.WON if reply.pre:
                self._start_election()
            case VoteResult.WON:
                self._become_leader()
            case VoteResult.LOST if reply.pre or self.role is Role.CANDIDATE:
                self._become_follower()
            case VoteResult.PENDING | VoteResult.LOST:
                pass
            case unknown:
                assert_never(unknown)

    def _on_timeout_now(self, message: TimeoutNow) -> None:
        """The leader hands its role over; one that cannot take it has said so, and waits."""
        follows = message.term == self.term and self.leader == message.sender
        if follows and self._would_lead() and self._is_eager:
            self._start_election(message)

    # ------------------------------------------------------------ a follower's side

    def _on_append_request(self, request: AppendRequest) -> None:
        """Raft figure 2, AppendEntries, receiver: verify first, then write, then acknowledge."""
        log, answers, recovery = self.log, self._outbox.after_persist, self.recovery.number
        if request.term < self.term:
            answers.append(request.rejected(self.term, log.last_index, recovery=recovery))
            return
        self._follow(request.sender)
        if not replication.previous_entry_matches(
            log, prev_index=request.prev_index, prev_term=request.prev_term
        ):
            hint = replication.conflict_hint(log, prev_index=request.prev_index)
            end = log.last_index
            answers.append(request.rejected(self.term, end, conflict=hint, recovery=recovery))
            return
        held = replication.first_difference(log, request.entries)
        if held < len(request.entries):
            self._write(request.entries[held:])
        # What was dropped is committed, so the leader's log has it too, whatever the request holds.
        verified = LogIndex(max(request.prev_index + len(request.entries), log.base_index))
        assert verified <= log.last_index, "what was verified is here"
        self._learn_commit_index(LogIndex(min(request.commit_index, verified)))
        answers.append(request.accepted(self.term, verified, log.last_index, recovery=recovery))

    def _write(self, entries: Sequence[Entry]) -> None:
        """Make the log end with `entries`, truncating what conflicts with the first of them."""
        first = entries[0].index
        if first <= self.log.last_index:
            assert first > self.commit_index, "what is committed never conflicts"
            self.log.truncate_from(first)
            self.memberships.truncate_from(first)
            self.durable_index = LogIndex(min(self.durable_index, first - 1))
            self._outbox.truncate(first)
        self.log.append(entries)
        self._outbox.append(entries)
        self.memberships.grown(entries)

    def _on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Raises `AcknowledgedEntriesLost`, once it has answered, if our log lacks what the leader
        says that we acknowledged."""
        quiesce_round, lost = 0, False
        if heartbeat.term == self.term:
            self._follow(heartbeat.sender)
            if self.recovering and heartbeat.recovered == self.recovery.number:
                self.recovery.end()
            if replication.previous_entry_matches(
                self.log, prev_index=heartbeat.commit_index, prev_term=heartbeat.commit_term
            ):
                self._learn_commit_index(heartbeat.commit_index)
            else:
                lost = self._lacks_acknowledged(heartbeat)
            # Its whole log must be here, durable, and known to be committed.
            ends = {self.commit_index, self.durable_index, self.log.last_index}
            settled = ends == {heartbeat.commit_index} and not self.recovering
            if heartbeat.quiesce_round and settled and self._timing.quiesce_after_ticks > 0:
                self.quiesced = True
                quiesce_round = heartbeat.quiesce_round
        answer = heartbeat.reply(
            self.term,
            last_index=self.log.last_index,
            quiesce_round=quiesce_round,
            disk_keeps_up=self._disk_keeps_up,
            may_lead=self._would_lead() and self._is_eager,
            recovery=self.recovery.number,
            lease_us=self._timing.lease_us,
        )
        outbox = self._outbox
        is_durable = self._renumbered is Durability.DURABLE
        (outbox.messages if is_durable else outbox.after_persist).append(answer)
        if lost:
            raise AcknowledgedEntriesLost(
                group=self.group,
                peer=heartbeat.sender,
                last=self.log.last_index,
                committed=heartbeat.commit_index,
            )

    def _lacks_acknowledged(self, heartbeat: Heartbeat) -> bool:
        """Our log lacks the entry that the leader heard us acknowledge; is that news?

        Our vote could elect a leader that lacks it as well, so we give none and do not campaign
        until our log is as up to date: all that was committed comes before what a leader of that
        term, or a later one, has written so far. The leader that has not heard of our recovery yet
        will, and otherwise is to forget what it heard.
        """
        if heartbeat.recovery >= self.recovery.number:
            self.recovery.pass_over()
            self._renumbered = Durability.DECIDED
        news = self.recovery.is_news(heartbeat.commit_term, heartbeat.commit_index)
        if news:
            told = LastEntry(heartbeat.term, heartbeat.commit_index)
            self.acknowledged = max(self.acknowledged, told)
        return news

    def _learn_commit_index(self, commit_index: LogIndex) -> None:
        """The leader vouches that our log is its own up to here, and that this is committed."""
        assert commit_index <= self.log.last_index, "what is vouched for is here"
        self.commit_index = max(self.commit_index, commit_index)

    # ------------------------------------------------------------ a leader's side

    def _append_own(self, payloads: Sequence[Payload], kind: EntryKind) -> Span:
        """Extend the log at its end: the only thing a leader ever does to its own log."""
        first = self.log.last_index + 1
        entries = [
            Entry(LogIndex(index), self.term, kind, payload)
            for index, payload in enumerate(payloads, first)
        ]
        self.log.append(entries)
        self.memberships.grown(entries)
        self._outbox.append(entries)
        return Span(LogIndex(first), self.log.last_index)

    def _change(self, leadership: Leadership, membership: Membership) -> Span:
        """Let the membership hold from here on."""
        span = self._append_own((encode_membership(membership),), EntryKind.CONFIGURATION)
        leadership.reconfigure(membership, self.log.last_index)
        return span

    def _on_append_reply(self, reply: AppendReply) -> None:
        leadership = self._led(reply)
        if leadership is not None and leadership.append_answered(reply, self.log):
            self._advance_commit_index()

    def _on_heartbeat_reply(self, reply: HeartbeatReply) -> None:
        leadership = self._led(reply)
        if leadership is None:
            return
        self._outbox.reads.extend(leadership.heartbeat_answered(reply, self.log))
        if reply.quiesce_round:
            self.quiesced = leadership.all_agreed() and self._all_committed() is not None

    def _led(self, reply: AppendReply | HeartbeatReply) -> Leadership | None:
        """The leadership that the reply belongs to, if it lasts; a member that was removed may
        answer late."""
        leadership = self.leadership if reply.term == self.term else None
        followed = leadership is not None and reply.sender in leadership.followers
        return leadership if followed else None

    def _all_committed(self) -> LogIndex | None:
        """The last index, if all is committed. Applying needs no messages."""
        last_index = self.log.last_index
        return last_index if last_index == self.commit_index else None

    def _advance_commit_index(self) -> None:
        """Raft section 5.4.2: count copies of entries of this term only.

        Those of earlier terms become committed with the first of this one, never by themselves.
        """
        if self.leadership is None:
            return
        index = self.leadership.agreed_index(self.durable_index)
        if index > self.commit_index and self.log.term_at(index) == self.term:
            self.commit_index = index
            if self.memberships.latest_index <= index:
                self._membership_committed(self.leadership)

    def _membership_committed(self, leadership: Leadership) -> None:
        """Complete a joint membership, whichever leader began it; a leader that is out leaves."""
        if self.membership.is_joint:
            self._change(leadership, completed(self.membership))
        elif self.node not in self.membership.voters:
            self._step_down(leadership)

    def _speak_as_leader(self, leadership: Leadership) -> None:
        """Send what has accumulated: read rounds, heartbeats, entries."""
        messages = self._outbox.messages
        leadership.start_reads(self.commit_index)
        if leadership.decides_alone:
            self._outbox.reads.extend(leadership.reads.confirm(leadership.agreed_round()))
        if leadership.heartbeat_due:
            all_committed = self._all_committed()
            messages.extend(
                leadership.heartbeats(self.log, self.commit_index, all_committed=all_committed)
            )
            self.quiesced = leadership.all_agreed()
        messages.extend(leadership.requests(self.log, self.commit_index))
        if leadership.transfer_goes_on():
            handed_over = leadership.timeout_now(self.log.last_index)
            messages.extend([handed_over] if handed_over is not None else [])
