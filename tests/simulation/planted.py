"""Bugs to plant: each breaks one rule in a real class, from outside, while its context lasts. The
product has no switch for any of them. `BUGS` names them by the rule that they break; how soon each
is noticed, and by what, `tests.simulation.hunt` measures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from raftlog.comparison import Comparison
from raftlog.core import election, replication
from raftlog.core.election import VoteTally
from raftlog.core.leadership import Leadership
from raftlog.core.log_view import LogView
from raftlog.core.messages import AppendReply, AppendRequest, Replicate, VoteReply, VoteRequest
from raftlog.core.outbox import Outbox
from raftlog.core.progress import Progress
from raftlog.core.quorum import VoteResult, majority
from raftlog.core.raft import Raft
from raftlog.core.reads import ReadRounds
from raftlog.core.ready import Ready
from raftlog.core.types import NO_NODE, HardState, LogIndex, NodeId, Offset
from raftlog.machines import epoch_rules, writers
from raftlog.machines.commands import AbortEpoch, CommitEpoch, Stage
from raftlog.machines.epoch_rules import Publish
from raftlog.machines.extents import ExtentIndex
from raftlog.machines.outcomes import Appended
from raftlog.machines.producers import ProducerTable
from raftlog.machines.topic import TopicMachine
from raftlog.machines.writer_row import WriterRow
from raftlog.machines.writers import WriterTable
from raftlog.multiraft import retention
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.multiraft.retention import Retention
from raftlog.replica import Replica
from raftlog.storage import recovery, reopen
from raftlog.storage.folder import DataFolder
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.read import LogRead
from raftlog.storage.write import FileWrite, LogWrite
from tests.simulation.planted_alterations import ALTERATION_BUGS
from tests.simulation.planted_damage import DAMAGE_BUGS
from tests.simulation.planted_history import HISTORY_BUGS
from tests.simulation.planted_images import IMAGE_BUGS
from tests.simulation.planted_leases import LEASE_BUGS
from tests.simulation.planted_members import MEMBER_BUGS
from tests.simulation.planted_observers import OBSERVER_BUGS
from tests.simulation.planted_overwrites import OVERWRITE_BUGS
from tests.simulation.planted_quiescence import QUIESCENCE_BUGS
from tests.simulation.planted_recovery import RECOVERY_BUGS
from tests.simulation.planted_repairs import REPAIR_BUGS
from tests.simulation.planted_retention import RETENTION_BUGS
from tests.simulation.planted_scrubs import SCRUB_BUGS
from tests.simulation.planted_shipping import SHIPPING_BUGS
from tests.simulation.planting import both, constant, replaced
from tests.storage.memory import MemoryFile

_FOR_EVER = 1 << 60


def acknowledge_before_fsync() -> Any:
    """Messages that wait for the log leave at once."""
    return replaced(Replica, "_write_durable", constant(_FOR_EVER))


def log_never_synced() -> Any:
    """A log's write ends before its sync."""
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if not self.path.endswith(".log"):
            original(self)

    return replaced(MemoryFile, "sync", sync)


def vote_not_synced() -> Any:
    """Votes leave before the journal has them."""
    return replaced(HardStateJournal, "durable_ticket", constant(_FOR_EVER))


def term_and_vote_written_apart() -> Any:
    """A new term is written first, the vote in it with the next write."""
    original = HardStateJournal.take_write

    def take_write(self: HardStateJournal) -> Any:
        terms = self.__dict__.setdefault("terms_written", {})
        late = {}
        for group in self._changed:
            state = self._states.get(group)
            if state is not None and state.vote != NO_NODE and terms.get(group) != state.term:
                terms[group] = state.term
                late[group] = state
        for group, state in late.items():
            self._states[group] = HardState(state.term, NO_NODE)
        write = original(self)
        self._states.update(late)
        self._changed.update(late)
        return write

    return replaced(HardStateJournal, "take_write", take_write)


def journal_renamed_before_its_sync() -> Any:
    """A journal rewritten gets its name while its bytes are not durable."""
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if not self.path.endswith(".journal.new"):
            original(self)

    return replaced(MemoryFile, "sync", sync)


def own_entries_counted_before_fsync() -> Any:
    """A leader counts its own copy of an entry before its disk has it."""
    original = Raft._advance_commit_index

    def advance(self: Raft) -> None:
        durable, self.durable_index = self.durable_index, self.log.last_index
        original(self)
        self.durable_index = durable

    return replaced(Raft, "_advance_commit_index", advance)


def votes_asked_for_before_the_vote_is_durable() -> Any:
    """A candidate's requests leave at once, its term and own vote are written beside them."""
    original = Outbox.drain

    def drain(self: Outbox, **states: Any) -> Ready:
        ready = original(self, **states)
        early = [each for each in ready.messages_after_persist if isinstance(each, VoteRequest)]
        if not early:
            return ready
        late = [each for each in ready.messages_after_persist if each not in early]
        return replace(
            ready,
            messages=(*ready.messages, *early),
            messages_after_persist=tuple(late),
        )

    return replaced(Outbox, "drain", drain)


def two_votes_in_a_term() -> Any:
    """A vote is given to every candidate with a good log."""

    def grants_vote(request: Any, *, term: int, last: Any, **_: Any) -> bool:
        return request.term == term and election.log_is_up_to_date(request, last)

    return replaced(election, "grants_vote", grants_vote)


def vote_for_any_log() -> Any:
    """The election restriction of Raft section 5.4.1 is forgotten."""
    return replaced(election, "log_is_up_to_date", lambda request, last: True)


def duplicated_vote_counted_twice() -> Any:
    """Answers are counted instead of voters."""

    def record(self: VoteTally, reply: VoteReply) -> VoteResult:
        votes = self._pre_votes if reply.pre else self._votes
        if votes is None:
            return VoteResult.PENDING
        place = reply.sender if reply.sender not in votes else NodeId(-len(votes) - 1)
        votes[place] = reply.granted
        needed = majority(len(self._membership.voters))
        return VoteResult.WON if sum(votes.values()) >= needed else VoteResult.PENDING

    return replaced(VoteTally, "record", record)


def stale_vote_accepted() -> Any:
    """A vote of an earlier term counts in the present one."""
    original = Raft._on_vote_reply

    def on_vote_reply(self: Raft, reply: VoteReply) -> None:
        if not reply.pre and reply.term < self.term:
            reply = replace(reply, term=self.term)
        original(self, reply)

    return replaced(Raft, "_on_vote_reply", on_vote_reply)


def stale_acknowledgement_accepted() -> Any:
    """An acknowledgement of an earlier term counts in the present one."""
    original = Raft._on_append_reply

    def on_append_reply(self: Raft, reply: AppendReply) -> None:
        if reply.term < self.term:
            reply = replace(reply, term=self.term)
        original(self, reply)

    return replaced(Raft, "_on_append_reply", on_append_reply)


def old_term_committed_by_counting() -> Any:
    """Any entry that a majority holds is committed (Raft figure 8)."""

    def advance(self: Raft) -> None:
        if self.leadership is not None:
            index = self.leadership.agreed_index(self.durable_index)
            self.commit_index = max(self.commit_index, index)

    return replaced(Raft, "_advance_commit_index", advance)


def commit_index_unverified() -> Any:
    """commit_index = min(leader's, last index): the last may be another term's."""
    original = Raft._on_append_request

    def on_append_request(self: Raft, request: AppendRequest) -> None:
        original(self, request)
        if request.term == self.term:
            self._learn_commit_index(LogIndex(min(request.commit_index, self.log.last_index)))

    return replaced(Raft, "_on_append_request", on_append_request)


def heartbeat_vouches_for_too_much() -> Any:
    """A heartbeat tells commit_index, whether or not the follower's log is known to agree."""
    original = Leadership.heartbeats

    def heartbeats(self: Leadership, log: LogView, commit_index: Any, **others: Any) -> Any:
        told = {"commit_index": commit_index, "commit_term": log.term_at(commit_index)}
        return [replace(each, **told) for each in original(self, log, commit_index, **others)]

    return replaced(Leadership, "heartbeats", heartbeats)


def whole_log_acknowledged() -> Any:
    """A follower acknowledges its last entry, not the last one that the request has verified."""
    original = AppendRequest.accepted

    def accepted(
        self: AppendRequest, term: Any, match_index: Any, last_index: Any, **others: Any
    ) -> Any:
        return original(self, term, last_index, last_index, **others)

    return replaced(AppendRequest, "accepted", accepted)


def previous_entry_unverified() -> Any:
    """A request is taken wherever it follows on some entry, of whatever term."""

    def matches(log: Any, *, prev_index: int, prev_term: int) -> bool:
        return prev_index <= log.last_index

    return replaced(replication, "previous_entry_matches", matches)


def truncate_always() -> Any:
    """What a request brings replaces the log's end, conflict or not."""
    return replaced(replication, "first_difference", lambda log, entries: 0)


def match_index_regresses() -> Any:
    """The last confirmation counts, though an older one may come late."""
    original = Progress.accepted

    def accepted(self: Progress, match_index: LogIndex) -> bool:
        news = original(self, match_index)
        self.match_index = match_index
        return news

    return replaced(Progress, "accepted", accepted)


def read_at_the_mark_plus_one() -> Any:
    """The mark is one record too high."""
    original = TopicMachine.high_water_mark
    assert isinstance(original, property)
    above = property(lambda self: Offset(original.fget(self) + 1))
    return replaced(TopicMachine, "high_water_mark", above)


def read_before_the_noop() -> Any:
    """A new leader answers strong reads by a commit_index that may be old."""
    return replaced(Leadership, "term_start", constant(LogIndex(0)))


def strong_read_without_a_quorum() -> Any:
    """A replica that believes it leads answers strong reads by itself."""
    original = Raft._speak_as_leader

    def speak_as_leader(self: Raft, leadership: Leadership) -> None:
        original(self, leadership)
        self._outbox.reads.extend(leadership.reads.confirm(leadership.reads.latest))

    return replaced(Raft, "_speak_as_leader", speak_as_leader)


def strong_read_joins_a_round_in_flight() -> Any:
    """A read is confirmed by answers to heartbeats that were sent before it was asked."""

    def start(self: ReadRounds, commit_index: LogIndex) -> None:
        if not self._in_flight:
            self.latest += 1
        self._in_flight.append((self.latest, commit_index, tuple(self._waiting)))
        self._waiting.clear()

    return both(
        replaced(ReadRounds, "start", start),
        replaced(ReadRounds, "wants_round", property(lambda self: bool(self._waiting))),
    )


def abort_undoes_an_applied_epoch() -> Any:
    """An abort takes back that the epoch was committed."""
    original = WriterTable.abort_epoch

    def abort_epoch(self: WriterTable, command: AbortEpoch) -> Any:
        row = self._rows.get(command.key.writer)
        if row is not None and row.last_epoch == command.key.epoch:
            row.last_epoch -= 1
        return original(self, command)

    return replaced(WriterTable, "abort_epoch", abort_epoch)


def producers_not_deduplicated() -> Any:
    """A resent append is put behind the log's end again."""
    original = ProducerTable.judge

    def judge(self: ProducerTable, producer: str, sequence: int, crc: int) -> Any:
        answer = original(self, producer, sequence, crc)
        if isinstance(answer, Appended):
            self._producers[producer].next_sequence = sequence
            return None
        return answer

    return replaced(ProducerTable, "judge", judge)


def epochs_not_whole() -> Any:
    """A CommitEpoch publishes all but the last of its attempts."""
    original = writers.judge_commit

    def judge_commit(row: Any, command: CommitEpoch, facts: Any) -> Any:
        verdict = original(row, command, facts)
        if isinstance(verdict, Publish) and len(verdict.attempts) > 1:
            return Publish(verdict.attempts[:-1])
        return verdict

    return replaced(writers, "judge_commit", judge_commit)


def replay_published_again() -> Any:
    """An epoch that is committed already is taken for a new one when another run brings it."""
    original = writers.judge_commit

    def judge_commit(row: Any, command: CommitEpoch, facts: Any) -> Any:
        key = command.key
        if row is None or key.epoch != row.last_epoch or key.run == row.last_run:
            return original(row, command, facts)
        row.last_epoch -= 1
        verdict = original(row, command, facts)
        if not isinstance(verdict, Publish):
            row.last_epoch += 1
        return verdict

    return replaced(writers, "judge_commit", judge_commit)


def plan_not_compared() -> Any:
    """A batch that was planned again is taken for a replay of the batch with its number."""
    original = writers.judge_commit

    def judge_commit(row: Any, command: CommitEpoch, facts: Any) -> Any:
        return original(row, replace(command, plan=""), facts)

    return replaced(writers, "judge_commit", judge_commit)


def rewound_stream_taken_for_a_replay() -> Any:
    """A stream below its last epoch is recognised by number and count."""
    original = epoch_rules._refusal_of_passed

    def refusal(row: WriterRow, key: Any) -> Any:
        return original(row, replace(key, streaming=False, stream="", stream_run=""))

    return replaced(epoch_rules, "_refusal_of_passed", refusal)


def fenced_run_goes_on() -> Any:
    """Of two runs of a query, both may commit."""

    def take_over(self: WriterRow, run: str) -> None:
        self.run = run

    return both(
        replaced(WriterRow, "is_fenced", lambda self, run: False),
        replaced(WriterRow, "take_over", take_over),
        replaced(
            WriterRow,
            "attempt",
            lambda self, run, epoch, attempt: (
                self.open_epochs[epoch].attempts.get(attempt) if epoch in self.open_epochs else None
            ),
        ),
    )


def expiry_overtakes_a_stage() -> Any:
    """An epoch's lease counts from its first stage, although later ones renewed it."""
    original = WriterTable._renew

    def renew(self: WriterTable, row: WriterRow, index: LogIndex, command: Stage) -> None:
        if (row.name, command.key.epoch) not in self._open:
            original(self, row, index, command)

    return replaced(WriterTable, "_renew", renew)


def state_outside_the_log() -> Any:
    """A machine's outcome depends on what it did since its process began."""
    original = ProducerTable.judge
    judged: dict[int, int] = {}

    def judge(self: ProducerTable, producer: str, sequence: int, crc: int) -> Any:
        if sequence > 0 and sequence == judged.get(id(self), 0):
            return Appended(start=Offset(-1), end=Offset(-1), repeated=True)
        judged[id(self)] = sequence
        return original(self, producer, sequence, crc)

    return replaced(ProducerTable, "judge", judge)


def trim_outside_the_log() -> Any:
    """How far a trim goes depends on what else its process did, so it differs over replicas."""
    original = ExtentIndex.trim
    calls = count()

    def trim(self: ExtentIndex, offset: Offset) -> None:
        original(self, Offset(offset - 1) if next(calls) % 5 == 4 else offset)

    return replaced(ExtentIndex, "trim", trim)


def dead_bytes_outside_the_log() -> Any:
    """What a topic counts for people, which no digest covers, depends on its process."""
    original = WriterTable.stage
    calls = count()

    def stage(self: WriterTable, *arguments: Any) -> Any:
        self.dead_bytes += next(calls) % 5 == 4
        return original(self, *arguments)

    return replaced(WriterTable, "stage", stage)


def trim_too_far() -> Any:
    """A trim removes the record at its offset as well, on every replica alike."""
    original = ExtentIndex.trim
    return replaced(ExtentIndex, "trim", lambda self, offset: original(self, offset + 1))


def trim_by_one_clock() -> Any:
    """Records go by age as soon as their leader's own clock says so."""
    original = Retention.look

    def look(self: Retention) -> None:
        self._clock = lambda voters: self._effects.clock_us()
        original(self)

    return replaced(Retention, "look", look)


def stamp_by_one_clock() -> Any:
    """A leader writes its own clock into its entries."""
    return replaced(MultiRaft, "now_us", lambda self, local: self._effects.clock_us())


def retention_keeps_one_less() -> Any:
    """The settings' last record goes as well."""
    original = retention.first_kept
    return replaced(
        retention, "first_kept", lambda local, *rest: Offset(original(local, *rest) + 1)
    )


def divided_extent_dropped() -> Any:
    """A trim within an extent drops the records of that extent above it too."""

    def drop_before(self: ExtentIndex, offset: Offset) -> None:
        self._rows = self._rows.from_row(bisect_left(self._rows.starts, offset))

    return replaced(ExtentIndex, "drop_before", drop_before)


def torn_tail_taken_for_whole() -> Any:
    """The payloads of a log's last frames are not checked when it is opened."""
    return both(
        replaced(recovery, "payload_is_whole", lambda file, frame: True),
        replaced(reopen, "read_tail", recovery.read_tail),
    )


def deleted_group_revived() -> Any:
    """A restarted node replays a topic's creation before it knows again that it was deleted."""
    return replaced(DataFolder, "deletions_index", lambda self: LogIndex(0))


def truncation_not_done_before_the_append() -> Any:
    """After a conflict the old end of the log stays on disk."""
    return replaced(LogWrite, "_run_truncation", lambda self, cut: None)


def late_read_sent_unchecked() -> Any:
    """Entries read for a follower leave under the present term, whatever happened meanwhile."""

    def request(self: Replica, wish: Replicate, read: LogRead) -> AppendRequest:
        return AppendRequest(
            group=wish.group,
            sender=wish.sender,
            to=wish.to,
            term=self.raft.term,
            prev_index=wish.prev_index,
            prev_term=wish.prev_term,
            entries=read.entries(),
            commit_index=wish.commit_index,
        )

    return replaced(Replica, "request", request)


def sealed_where_the_plan_ends_now() -> Any:
    """A write that waited ends its segment as the log plans it by then, not as it was planned."""
    original = LogWrite._run_file

    def run_file(self: LogWrite, planned: FileWrite) -> None:
        if planned.seal_at is not None:
            segment = next(each for each in self.segments if each.path == planned.path)
            planned = replace(planned, seal_at=segment.end)
        original(self, planned)

    return replaced(LogWrite, "_run_file", run_file)


def divergence_unnoticed() -> Any:
    """A replica hears the agreed state, or history, and does not compare its own with it."""
    return replaced(Comparison, "_judge", lambda self: None)


BUGS: dict[str, Callable[[], Any]] = {
    bug.__name__: bug
    for bug in (
        # what is on disk
        acknowledge_before_fsync,
        own_entries_counted_before_fsync,
        log_never_synced,
        truncation_not_done_before_the_append,
        sealed_where_the_plan_ends_now,
        torn_tail_taken_for_whole,
        vote_not_synced,
        votes_asked_for_before_the_vote_is_durable,
        term_and_vote_written_apart,
        journal_renamed_before_its_sync,
        deleted_group_revived,
        # elections
        two_votes_in_a_term,
        vote_for_any_log,
        duplicated_vote_counted_twice,
        stale_vote_accepted,
        # replication
        old_term_committed_by_counting,
        commit_index_unverified,
        heartbeat_vouches_for_too_much,
        previous_entry_unverified,
        truncate_always,
        whole_log_acknowledged,
        stale_acknowledgement_accepted,
        match_index_regresses,
        late_read_sent_unchecked,
        # reads
        read_at_the_mark_plus_one,
        read_before_the_noop,
        strong_read_without_a_quorum,
        strong_read_joins_a_round_in_flight,
        # machines
        producers_not_deduplicated,
        epochs_not_whole,
        replay_published_again,
        plan_not_compared,
        rewound_stream_taken_for_a_replay,
        fenced_run_goes_on,
        abort_undoes_an_applied_epoch,
        expiry_overtakes_a_stage,
        state_outside_the_log,
        trim_outside_the_log,
        dead_bytes_outside_the_log,
        trim_too_far,
        trim_by_one_clock,
        stamp_by_one_clock,
        retention_keeps_one_less,
        divided_extent_dropped,
        divergence_unnoticed,
        *ALTERATION_BUGS,
        *IMAGE_BUGS,
        *SHIPPING_BUGS,
        *HISTORY_BUGS,
        *DAMAGE_BUGS,
        *SCRUB_BUGS,
        *LEASE_BUGS,
        *MEMBER_BUGS,
        *OBSERVER_BUGS,
        *OVERWRITE_BUGS,
        *QUIESCENCE_BUGS,
        *RECOVERY_BUGS,
        *REPAIR_BUGS,
        *RETENTION_BUGS,
    )
}
