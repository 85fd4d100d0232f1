"""One member of one group: core, log and state machine joined, synchronous and free of threads.

The host loop (the server's, or the simulator) gives messages, ticks, proposals and reads to the
core (`raft`) and says here when a write is durable. Then it calls `advance()` and does what the
output says, and `apply()` for as long as there is something to apply. The rules that make
consensus durable live here and nowhere else:

- what the core wants persisted goes to the log and to the journal of hard states before any
  message that depends on it is handed out;
- the node's own votes and acknowledgements take the same way as everybody else's;
- entries are applied in order, once, and each one's outcome goes into the state hash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

from raftlog.comparison import (
    STATES_COMPARED_EVERY,
    Comparison,
    Trust,
    answering,
    answers,
    asking,
    questions,
)
from raftlog.core import validity
from raftlog.core.log_view import LogView
from raftlog.core.membership import Memberships, decode_membership
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    OutMessage,
    PeerMessage,
    PulledEntries,
    RaftMessage,
    Replicate,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.raft import Raft
from raftlog.core.ready import ReadState, Ready, Role, SoftState
from raftlog.core.timer import Random
from raftlog.core.types import (
    NO_INDEX,
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    Offset,
    RaftTiming,
    Term,
)
from raftlog.damage_table import Trouble, may_lead
from raftlog.errors import (
    LogFromNewerVersion,
    MalformedRequest,
    PeerProtocolViolation,
    ResourceShortage,
)
from raftlog.machines.commands import Append, Command, Rules, Stage
from raftlog.machines.contract import StateMachine
from raftlog.machines.outcomes import Outcome, SnapshotPointApplied
from raftlog.machines.rules import known_rules
from raftlog.machines.topic import TopicMachine
from raftlog.state_hash import STATE_HASH_FIRST, next_state_hash
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import PrefixRemoval
from raftlog.storage.read import LogRead
from raftlog.storage.write import LogWrite
from raftlog.wire.codec import decode_batch_header, decode_command


@dataclass(frozen=True, slots=True)
class Applied:
    """An entry that was applied just now; `outcome` is None for entries without a command."""

    index: LogIndex
    term: Term
    outcome: Outcome | None


@dataclass(slots=True, kw_only=True)
class Output:
    """What one `advance` wants its host loop to do."""

    messages: list[PeerMessage] = field(default_factory=list)
    replicate: list[Replicate] = field(default_factory=list)
    """Append requests to make: `plan_read`, `run` it if it must, then `request`. Those to one
    follower leave in this order."""
    applied: list[Applied] = field(default_factory=list)
    reads: list[ReadState] = field(default_factory=list)
    """Confirmed reads whose index is applied: they may be answered now."""
    reads_dropped: list[int] = field(default_factory=list)
    soft_state: SoftState | None = None
    state_trust: Trust | None = None
    history_trust: Trust | None = None
    """What is known of the replica's state, or of its history, has changed. It must be ticked from
    now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointReached:
    """A snapshot point that was applied and is still to be compacted."""

    index: LogIndex
    term: Term
    state_hash: bytes
    keep_from: LogIndex
    """The first index that the log must keep."""
    log_start: Offset
    mark: Offset
    """The topic's records there are [log_start, mark); the controller has none."""
    entries: int
    """How many came since the point before it."""
    byte_count: int
    """Of their commands and bodies."""


@dataclass(slots=True)
class SincePoint:
    """What was applied after the last snapshot point."""

    point: LogIndex
    """The index of that point, or of the snapshot that was opened; 0: there was none yet."""
    log_start: Offset
    """The topic's first offset there that was not trimmed; 0 for the controller."""
    log_start_before: Offset
    """The same at the point before that one, as far as it is known."""
    entries: int = 0
    commands: int = 0
    """Those of the entries that have one: without any, a snapshot would be the same again."""
    byte_count: int = 0
    """Of their commands and bodies."""

    def add(self, kind: EntryKind, byte_count: int) -> None:
        """Another entry was applied."""
        self.entries += 1
        self.commands += kind is EntryKind.COMMAND
        self.byte_count += byte_count


class Budget:
    """What applying may cost in one turn of a node, over all its groups."""

    __slots__ = ("_clock_us", "_until_us", "bytes", "entries")

    def __init__(
        self, *, entries: int, bytes_max: int, work_us: int, clock_us: Callable[[], int]
    ) -> None:
        """`clock_us` counts the microseconds of work; it never goes back."""
        self.entries = entries
        self.bytes = bytes_max
        self._clock_us = clock_us
        self._until_us = clock_us() + work_us

    def applied(self, command_bytes: int) -> None:
        """An entry was applied whose command has so many bytes."""
        self.entries -= 1
        self.bytes -= command_bytes

    @property
    def spent(self) -> bool:
        """Apply nothing more in this turn."""
        return self.entries <= 0 or self.bytes <= 0 or self._clock_us() >= self._until_us


def check_commands(message: AppendRequest | PulledEntries, kinds: frozenset[type]) -> None:
    """Raises `PeerProtocolViolation` if this program cannot read a command that came, or does not
    know the version of the state machine that it begins: once such an entry is committed every
    replica stops at it. If its leader's program is newer, the log here goes on after this node's
    upgrade. `kinds` are the machine's commands.

    What is found is not kept: the message may be a stale one, which leaves the log as it is. What
    is applied is decoded again (3 us) from the bytes that the log holds.
    """
    for entry in message.entries:
        what = _unreadable(entry, kinds, message.group)
        if what is not None:
            raise PeerProtocolViolation(
                group=message.group,
                peer=message.sender,
                kind=type(message).__name__,
                problem=f"entry {entry.index} comes from a newer version, which this node needs "
                f"too, or from none: {what}",
            )


def _unreadable(entry: Entry, kinds: frozenset[type], group: GroupId) -> str | None:
    """What in the entry's command, or in the header of its batch, this program cannot read; None:
    it can."""
    if entry.kind is not EntryKind.COMMAND:
        return None
    try:
        command = decode_command(entry.payload.command)
        if type(command) not in kinds:
            return f"a {type(command).__name__}"
        if isinstance(command, Append | Stage):
            count = decode_batch_header(entry.payload.command).record_count
            if count != command.batch.record_count:
                return f"a batch of {command.batch.record_count} records with {count}"
        if isinstance(command, Rules):
            known_rules(command.version, group=group, index=entry.index)
        return None
    except MalformedRequest as error:
        return error.what
    except LogFromNewerVersion as error:
        return error.found


class _Held(NamedTuple):
    """Messages that wait until the log and the journal are durable up to this write and ticket."""

    write_number: int
    journal_ticket: int
    messages: tuple[OutMessage, ...]


class Replica:
    """A member of group `group` on node `node`. One thread at a time."""

    def __init__(
        self,
        *,
        node: NodeId,
        group: GroupId,
        memberships: Memberships,
        timing: RaftTiming,
        log: GroupLog,
        journal: HardStateJournal,
        machine: StateMachine[Any, Outcome],
        random: Random,
        applied_index: LogIndex = NO_INDEX,
        state_hash: bytes = STATE_HASH_FIRST,
        histories: Comparison | None = None,
        raft_type: Callable[..., Raft] = Raft,
    ) -> None:
        """`machine` stands where a snapshot has it: it has applied everything up to
        `applied_index`, with this `state_hash`. That is not below the log's base, and not beyond
        its last entry. By default nothing is applied. `memberships` are those of the log after it.
        `histories` is what is known of its history. `raft_type` makes the core: a simulation gives
        its own, which is watched.
        """
        assert applied_index >= log.base_index, "the snapshot reaches the log's first entry"
        assert len(state_hash) == len(STATE_HASH_FIRST), "a state hash has a fixed length"
        self.node = node
        self.group = group
        self.machine = machine
        self.log = log
        self._journal = journal
        hard_state = _recovered_hard_state(journal.get(group), log.last_term)
        if hard_state.term:
            journal.put(group, hard_state)
        self._hard_state_ticket = journal.ticket
        self.raft = raft_type(
            node=node,
            group=group,
            memberships=memberships,
            timing=timing,
            hard_state=hard_state,
            log=LogView.restore(
                base_index=log.base_index,
                base_term=log.base_term,
                terms=log.terms(),
                sizes=log.sizes(),
            ),
            random=random,
            applied_index=applied_index,
        )
        self.applied_index = applied_index
        self.state_hash = state_hash
        self.points: deque[PointReached] = deque()
        """The oldest first. The host loop takes out each one that it has compacted."""
        log_start = self._log_start()
        self.since_point = SincePoint(self.applied_index, log_start, log_start)
        self.states = Comparison(node)
        self.states_compared_every = STATES_COMPARED_EVERY
        self.histories = histories or Comparison(node)
        self._damaged = self._stands_back = False
        self.troubles: frozenset[Trouble] = frozenset()
        """What is known to be wrong with what the replica has."""
        self._apply_to = applied_index
        self._reads: deque[ReadState] = deque()
        self._held: deque[_Held] = deque()
        self._write_asked = 0
        """The core's latest write that is in the log; `_write_running` is being written,
        `_write_durable` is on disk and `_write_told` to the core, each with all before it."""
        self._write_running = self._write_durable = self._write_told = 0
        self._note_fitness()

    def logged_commands(self, after: LogIndex) -> Iterator[tuple[LogIndex, Command]]:
        """Every command in the log after that index that the machine has not applied, with its
        index, in order.

        One that is not committed may yet be truncated: it tells what was proposed, not what is.
        Raises `LogFromNewerVersion`.
        """
        for index in range(max(after, self.applied_index) + 1, self.log.last_index + 1):
            _, kind, command = self.log.command(index)
            if kind is EntryKind.COMMAND:
                yield LogIndex(index), self._decode(LogIndex(index), command)

    # ------------------------------------------------------------ peers

    def step(self, message: RaftMessage, *, term_max: Term = validity.TERM_MAX) -> None:
        """Give the core a message from another member, and read what it says of states.

        `term_max`, and what is raised: see `Raft.step`.
        """
        raft = self.raft
        if isinstance(message, AppendRequest) and message.term >= raft.term:
            check_commands(message, self.machine.commands)
        raft.step(message, term_max=term_max)
        if message.term == raft.term:
            if isinstance(message, Heartbeat):
                states, histories = questions(message)
                self.states.heard(states, message.sender)
                self.histories.heard(histories, message.sender)
                self._note_fitness()
            elif isinstance(message, HeartbeatReply) and raft.role is Role.LEADER:
                state, history = answers(message)
                self.states.answered(message.sender, state, raft.membership)
                self.histories.answered(message.sender, history, raft.membership)
                self._note_fitness()

    def observe(self, pulled: PulledEntries, *, term_max: Term = validity.TERM_MAX) -> None:
        """As `Raft.observe`."""
        check_commands(pulled, self.machine.commands)
        self.raft.observe(pulled, term_max=term_max)

    def can_read(self, entry: Entry) -> bool:
        """Can this program read the entry? A peer gave it for a damaged one, whose checksums it
        has; but these can be forged, and the replica would stop at the entry."""
        if entry.kind is EntryKind.CONFIGURATION:
            try:
                decode_membership(entry.payload.command)
            except ValueError:
                return False
        return _unreadable(entry, self.machine.commands, self.group) is None

    @property
    def diverged(self) -> bool:
        """Does a majority have another state, or another history, than this replica, as far as it
        was told?"""
        return not self.troubles.isdisjoint((Trouble.DIVERGED, Trouble.ACCUSED))

    @property
    def has_news(self) -> bool:
        """Will the next output tell another trust than the last one?"""
        return self.states.has_news or self.histories.has_news

    @property
    def last_durable(self) -> LastEntry:
        """The end of the log as far as it is durable, or what a leader says that was acknowledged
        beyond it: nothing after it was."""
        index = self.log.durable_index
        return max(LastEntry(self.log.term_at(index), index), self.raft.acknowledged)

    def history_reached(self, index: LogIndex, digest: bytes, mark: Offset) -> None:
        """The replica's history up to snapshot point `index` has this digest. Later compactions
        leave the records below `mark` as they are."""
        self.histories.reached(index, digest, mark)
        self._note_fitness()

    def note_damage(self, *, damaged: bool) -> None:
        """Whether an entry that a follower needs was damaged here: then another member should lead,
        which may have it whole. The host loop must tick the replica from now on."""
        self._damaged = damaged
        self._note_fitness()

    def stand_back(self) -> None:
        """Never lead again: the process is about to end. For a member that does not lead."""
        assert self.raft.role is not Role.LEADER, "a leader hands its role over first"
        if not self._stands_back:
            self._stands_back = True
            self._note_fitness()

    def _note_fitness(self) -> None:
        """A comparison went on, or damage was found. A replica that was outvoted stops leading at
        once; one that has diverged by one node's word leads only where no other does."""
        found = set()
        comparisons = (self.states, self.histories)
        trusts = [each.trust for each in comparisons]
        if any(each.outvoted(self.raft.membership) for each in comparisons):
            found.add(Trouble.DIVERGED)
        elif Trust.DIVERGED in trusts:
            found.add(Trouble.ACCUSED)
        elif Trust.DISPUTED in trusts:
            found.add(Trouble.DISPUTED)
        if self._damaged:
            found.add(Trouble.NEEDED_ENTRY)
        self.troubles = frozenset(found)
        self.raft.note_fitness(
            may_lead=may_lead(self.troubles) and not self._stands_back,
            waits=Trouble.ACCUSED in self.troubles,
        )

    # ------------------------------------------------------------ disk

    def take_write(self) -> LogWrite | None:
        """What the log has to write, for the host loop to `run()` anywhere; None: nothing now.

        At most one is in flight; hand it back through `written` once it ran.
        """
        write = self.log.take_write()
        if write is not None:
            self._write_running = self._write_asked
        return write

    def written(self, write: LogWrite) -> None:
        """`write` ran: its bytes are durable."""
        self.log.written(write)
        self._write_durable = max(self._write_durable, self._write_running)
        self._tell_durable()

    def _tell_durable(self) -> None:
        """Tell the core what is durable, but not before its hard state is: a membership counts,
        also for the leader that wrote it, once its voters are known without the log."""
        journal = self._journal
        if self._write_told < self._write_durable and (
            journal.durable_ticket >= self._hard_state_ticket
        ):
            self._write_told = self._write_durable
            self.raft.persisted(self._write_durable)

    @property
    def awaits_disk(self) -> bool:
        """Does anything wait for the log or the journal to be durable?"""
        return bool(self._held) or self._write_told < self._write_durable

    def term_is_durable(self, term: Term) -> bool:
        """Does the journal hold durably that this member has reached the term?

        An image must not be published before: a journal that knows less than an image was
        shortened, and has forgotten votes (`GroupStore.open_all`).
        """
        recorded = self._journal.get(self.group)
        known = recorded.term if recorded is not None else 0
        return known >= term and self._journal.durable_ticket >= self._hard_state_ticket

    def drop_log_to(self, index: LogIndex) -> PrefixRemoval:
        """Drop the log's segments at or below `index`, which an image covers.

        Core and log begin after the new base at once. It may be below `index`, or the old one; what
        it will be, `log.droppable(index)` tells. The caller ensures that `index` is at most
        `applied_index`, and that the base is durable in the manifest before it runs the removal.
        Not between `advance` and what its output asks for: that may name entries that go.
        """
        assert index <= self.applied_index, "only what is applied is dropped"
        removal = self.log.drop_to(index)
        self.raft.drop_log_to(removal.base[0])
        return removal

    # ------------------------------------------------------------ output

    def advance(self) -> Output:
        """Do what the core decided since the last call and say what the host loop must do.

        What became committed is left to `apply`: messages never wait for a long replay.
        """
        output = Output()
        self._tell_durable()
        self._release_held(output)
        while True:
            ready = self.raft.ready()
            if ready:
                self._take(ready, output)
            if not self._release_held(output):
                break
        self._answer(output)
        return output

    @property
    def has_to_apply(self) -> bool:
        """Are there committed entries that were not applied yet?"""
        return self.applied_index < self._apply_to

    def apply(self, budget: Budget, entries_max: int) -> Output:
        """Apply the next committed entry, and more until the budget is spent or `entries_max` are
        applied; the output says who can be answered. Raises `LogFromNewerVersion`: entry
        `applied_index` + 1 cannot be applied by this program. Raises `ResourceShortage` if it
        cannot be read now."""
        output = Output()
        compared = self.applied_index // self.states_compared_every
        for _ in range(min(entries_max, self._apply_to - self.applied_index)):
            try:
                output.applied.append(self._apply_entry(LogIndex(self.applied_index + 1), budget))
            except ResourceShortage:
                if not output.applied:
                    raise
                break  # those before it are answered
            if budget.spent:
                break
        self.raft.applied(self.applied_index)
        if self.applied_index // self.states_compared_every > compared:
            self._note_fitness()
        self._answer(output)
        return output

    def _take(self, ready: Ready, output: Output) -> None:
        """Do what the core decided, but for what must wait for the disk or its turn."""
        if ready.soft_state is not None:
            output.soft_state = ready.soft_state
            if ready.soft_state.role is Role.LEADER:
                self.states.lead()
                self.histories.lead()
                self._note_fitness()
        if ready.truncate_from is not None:
            assert ready.truncate_from > self.applied_index, "an applied entry is never truncated"
            self.log.truncate_from(ready.truncate_from)
        if ready.entries:
            self.log.append(ready.entries)
        if ready.write_number:
            self._write_asked = ready.write_number
        if ready.hard_state is not None:
            self._journal.put(self.group, ready.hard_state)
            self._hard_state_ticket = self._journal.ticket
        for message in ready.messages:
            self._hand_out(message, output)
        if ready.messages_after_persist:
            self._held.append(
                _Held(self._write_asked, self._journal.ticket, ready.messages_after_persist)
            )
        if ready.committed is not None:
            assert ready.committed.first == self._apply_to + 1, "committed entries leave no gap"
            self._apply_to = ready.committed.last
        self._reads.extend(ready.reads)
        output.reads_dropped.extend(ready.reads_dropped)

    def _release_held(self, output: Output) -> bool:
        """Hand out messages whose ground is durable; True if the core got one of its own back."""
        own = False
        while self._held:
            held = self._held[0]
            if held.write_number > self._write_durable:
                break
            if held.journal_ticket > self._journal.durable_ticket:
                break
            self._held.popleft()
            for message in held.messages:
                if message.to == self.node:
                    assert isinstance(message, VoteReply), "only votes are sent to oneself"
                    self.raft.step(message)
                    own = True
                else:
                    self._hand_out(message, output)
        return own

    # ------------------------------------------------------------ append requests

    def plan_read(self, wish: Replicate) -> LogRead:
        """The read that finds the entries of a wish that `stands`."""
        assert self.stands(wish), "what does not stand may name entries that are gone"
        if wish.span is None:
            return self.log.plan_no_read()
        return self.log.plan_read(wish.span.first, wish.span.last)

    def stands(self, wish: Replicate) -> bool:
        """Does this member still lead the term in which the core wished for this request, and hold
        the entries?

        A leader's log was not truncated since, as it only appends to its own (Raft section 5.3,
        Leader Append-Only). But the entries may have been dropped.
        """
        if self.raft.role is not Role.LEADER or self.raft.term != wish.term:
            return False
        return wish.span is None or wish.span.first > self.log.base_index

    def request(self, wish: Replicate, read: LogRead) -> AppendRequest | None:
        """The request with the entries that were read; None if it must not be sent any more.

        While a read was out another leader may have truncated the log, or its beginning may have
        been dropped: the bytes that were found, or found damaged, are then of no entry.
        Raises `CorruptFile` where they count.
        """
        if not self.stands(wish) or read.incarnation != self.log.incarnation:
            return None
        entries = read.entries()
        if wish.span is not None:
            assert (entries[0].index, entries[-1].index) == wish.span, "the whole span is sent"
        return AppendRequest(
            group=wish.group,
            sender=wish.sender,
            to=wish.to,
            term=wish.term,
            prev_index=wish.prev_index,
            prev_term=wish.prev_term,
            entries=entries,
            commit_index=wish.commit_index,
        )

    # ------------------------------------------------------------ the state machine

    def _apply_entry(self, index: LogIndex, budget: Budget) -> Applied:
        assert index == self.applied_index + 1, "entries are applied in order, once"
        term, kind, command = self.log.command(index)
        budget.applied(len(command))
        outcome = None
        if kind is EntryKind.COMMAND:
            outcome = self.machine.apply(index, self._decode(index, command))
        self.applied_index = index
        self.state_hash = next_state_hash(self.state_hash, index, term, kind, command, outcome)
        self.since_point.add(kind, self.log.size_at(index))
        if isinstance(outcome, SnapshotPointApplied):
            since, log_start = self.since_point, self._log_start()
            self.since_point = SincePoint(index, log_start, since.log_start)
            # What comes next need not stay with what the next points let go, also where no more
            # than those comes.
            self.log.seal()
            point = PointReached(
                index=index,
                term=term,
                state_hash=self.state_hash,
                keep_from=outcome.keep_from,
                log_start=log_start,
                mark=self._mark(),
                entries=since.entries,
                byte_count=since.byte_count,
            )
            self.points.append(point)
        if index % self.states_compared_every == 0:
            self.states.reached(index, self.state_hash, self._mark())
        return Applied(index, term, outcome)

    def _log_start(self) -> Offset:
        machine = self.machine
        return machine.log_start_offset if isinstance(machine, TopicMachine) else Offset(0)

    def _mark(self) -> Offset:
        machine = self.machine
        return machine.high_water_mark if isinstance(machine, TopicMachine) else Offset(0)

    def _decode(self, index: LogIndex, command: bytes) -> Command:
        """The command of entry `index`. The log's checks found its bytes whole, so one that cannot
        be read is none of this program's: to guess, or to go on after it, would part the replicas.
        """
        try:
            return decode_command(command)
        except MalformedRequest as error:
            raise LogFromNewerVersion(group=self.group, index=index, found=error.what) from None

    def _answer(self, output: Output) -> None:
        """The reads that may be answered now, and a change of trust."""
        if self.diverged:
            output.reads_dropped.extend(read.request_id for read in self._reads)
            self._reads.clear()
        while self._reads and self._reads[0].index <= self.applied_index:
            output.reads.append(self._reads.popleft())
        output.state_trust = self.states.news()
        output.history_trust = self.histories.news()

    def _hand_out(self, message: OutMessage, output: Output) -> None:
        match message:
            case Replicate():
                output.replicate.append(message)
            case Heartbeat():
                asked = asking(message, self.states.ask(), self.histories.ask())
                output.messages.append(asked)
            case HeartbeatReply():
                answered = answering(message, self.states.answer(), self.histories.answer())
                output.messages.append(answered)
            case VoteRequest() | VoteReply() | TimeoutNow() | AppendReply():
                output.messages.append(message)
            case _:
                assert_never(message)


def _recovered_hard_state(recorded: HardState | None, last_term: Term) -> HardState:
    """The term and vote to start with.

    The log may hold an entry of a later term than the journal when a crash fell between their
    writes. Nothing was answered in that term then, so taking it up without a vote is safe.
    """
    if recorded is None:
        return HardState(last_term, NO_NODE)
    if recorded.term < last_term:
        return recorded._replace(term=last_term, vote=NO_NODE)
    return recorded
