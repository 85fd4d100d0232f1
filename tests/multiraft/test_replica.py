"""One replica by itself: what it answers, and when, with a log and a journal in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.comparison import Comparison
from raftlog.core.election import PATIENCE
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import AppendRequest, PulledEntries, Replicate
from raftlog.core.ready import Role
from raftlog.core.types import (
    NO_INDEX,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Span,
    Term,
    VotersAt,
)
from raftlog.damage_table import Trouble
from raftlog.errors import AcknowledgedEntriesLost, PeerProtocolViolation
from raftlog.machines.commands import RegisterNode, SnapshotPoint
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.refusals import beginnings
from raftlog.replica import Budget, Output, Replica, check_commands
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.transport.outbox import FRAME_BYTES_MAX, Outbox
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import decode_command, encode_command
from raftlog.wire.codec_commands import COMMAND_BYTES_MAX
from tests.core.member import GROUP, TIMING, Shortest, heartbeat
from tests.storage.memory import MemoryFileSystem

COMMAND = Payload(encode_command(SnapshotPoint(keep_from=NO_INDEX), None), b"")


class Alone:
    """A replica on a disk in memory; by default the only voter."""

    def __init__(
        self,
        voters: int = 1,
        fs: MemoryFileSystem | None = None,
        histories: Comparison | None = None,
    ) -> None:
        limits = LogLimits()
        self.fs = fs or MemoryFileSystem(Random(1))
        is_new = not self.fs.exists("log")
        self.fs.make_folder("log")
        make = GroupLog.create if is_new else GroupLog.open
        self.journal = HardStateJournal.open(self.fs, ROOT)
        nodes = tuple(NodeId(node) for node in range(1, voters + 1))
        self.replica = Replica(
            node=NodeId(1),
            group=GROUP,
            memberships=Memberships(MembershipAt(NO_INDEX, Membership(nodes))),
            timing=TIMING,
            log=make(self.fs, "log", GROUP, limits),
            journal=self.journal,
            machine=ControllerMachine(),
            random=Shortest(),
            histories=histories,
        )

    def write(self) -> None:
        """Make what waits durable."""
        journal = self.journal.take_write()
        if journal is not None:
            journal.run()
            self.journal.written(journal)
        log = self.replica.take_write()
        if log is not None:
            log.run()
            self.replica.written(log)

    def apply(self, entries_max: int = 100) -> Output:
        budget = Budget(entries=100, bytes_max=1 << 20, work_us=1, clock_us=lambda: 0)
        return self.replica.apply(budget, entries_max)

    def lead(self) -> None:
        while self.replica.raft.role is not Role.LEADER:
            self.replica.raft.tick()
            self.settle()
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            self.replica.advance()
            self.write()
        self.replica.advance()


@pytest.fixture
def leader() -> Alone:
    alone = Alone()
    alone.lead()
    alone.apply()
    return alone


def test_a_read_at_what_is_applied_is_answered_at_once(leader: Alone) -> None:
    leader.replica.raft.read_index(7)
    assert [read.request_id for read in leader.replica.advance().reads] == [7]


def test_a_read_waits_until_the_machine_stands_at_its_index(leader: Alone) -> None:
    leader.replica.raft.propose([COMMAND])
    leader.replica.raft.propose([COMMAND])
    leader.settle()
    leader.replica.raft.read_index(7)
    assert leader.replica.advance().reads == []
    assert leader.apply(1).reads == []
    assert [read.request_id for read in leader.apply(1).reads] == [7]


def test_a_wish_stands_while_its_term_is_led_and_the_log_holds_its_entries(leader: Alone) -> None:
    replica = leader.replica
    base = replica.log.base_index
    wish = Replicate(
        group=GROUP,
        sender=NodeId(1),
        to=NodeId(2),
        term=replica.raft.term,
        prev_index=base,
        prev_term=Term(0),
        span=Span(LogIndex(base + 1), LogIndex(base + 1)),
        commit_index=NO_INDEX,
    )
    assert replica.stands(wish)
    assert replica.stands(replace(wish, span=None))
    assert not replica.stands(replace(wish, span=Span(base, LogIndex(base + 1)))), "it was dropped"
    assert not replica.stands(replace(wish, term=Term(wish.term + 1)))


def test_a_leader_s_own_membership_counts_once_its_voters_are_known_without_the_log(
    leader: Alone,
) -> None:
    replica, journal = leader.replica, leader.journal
    learner = Membership((NodeId(1),), learners=(NodeId(2),))
    at = replica.raft.change_membership(learner).last
    replica.advance()
    log, states = replica.take_write(), journal.take_write()
    assert log is not None
    assert states is not None
    log.run()
    replica.written(log)
    replica.advance()
    assert replica.raft.commit_index == at - 1
    assert replica.awaits_disk, "the end of the journal's write must lead to another turn"
    states.run()
    journal.written(states)
    replica.advance()
    assert replica.raft.commit_index == at
    journal.close()
    known = HardStateJournal.open(leader.fs, ROOT).get(GROUP)
    assert known is not None
    assert known.voters == VotersAt(at, (NodeId(1),), held=True, term=Term(1))


def test_a_marker_is_written_without_news_for_the_core(leader: Alone) -> None:
    again = Alone(fs=leader.fs)
    index = again.replica.raft.durable_index
    assert again.replica.log.idle_marker()
    again.write()
    assert again.replica.raft.durable_index == index


def test_a_dispute_is_a_trouble_while_the_leader_tells_of_it() -> None:
    alone = Alone(voters=3)
    for disputed in (True, False):
        told = replace(heartbeat(alone.replica, 2, term=1), disputed=disputed)
        alone.replica.step(told)
        assert alone.replica.troubles == ({Trouble.DISPUTED} if disputed else set())


def test_a_replica_that_had_diverged_before_its_restart_tries_later_than_others() -> None:
    """It serves nothing until a majority agrees with it, which it may have to ask as a leader."""
    alone = Alone(voters=3, histories=Comparison(NodeId(1), diverged=True))
    assert alone.replica.troubles == {Trouble.ACCUSED}
    ticks = 0
    while alone.replica.raft.role is Role.FOLLOWER:
        alone.replica.raft.tick()
        ticks += 1
    assert ticks >= PATIENCE
    assert alone.replica.diverged


def test_a_change_of_the_role_is_told_once() -> None:
    alone, told = Alone(), []
    while alone.replica.raft.role is not Role.LEADER:
        alone.replica.raft.tick()
        for _ in range(3):
            told.append(alone.replica.advance().soft_state)
            alone.write()
    roles = [each.role for each in told if each is not None]
    assert roles[-1] is Role.LEADER
    assert len(roles) == len(set(roles))


@pytest.mark.parametrize(
    ("entries", "bytes_max", "passes_us", "command_bytes"),
    [(2, 100, 0, 1), (9, 20, 0, 10), (9, 100, 5, 1)],
    ids=["entries", "bytes", "time"],
)
def test_a_turn_stops_at_any_bound_of_its_budget(
    entries: int, bytes_max: int, passes_us: int, command_bytes: int
) -> None:
    clock = count(0, passes_us)
    budget = Budget(entries=entries, bytes_max=bytes_max, work_us=10, clock_us=lambda: next(clock))
    spent = []
    for _ in range(2):
        budget.applied(command_bytes)
        spent.append(budget.spent)
    assert spent == [False, True]


def test_states_are_compared_every_so_many_entries(leader: Alone) -> None:
    leader.replica.states_compared_every = 2
    for _ in range(5):
        leader.replica.raft.propose([COMMAND])
    leader.settle()
    leader.apply()
    assert leader.replica.applied_index == 6
    assert leader.replica.states.ask().point == 6
    assert leader.replica.log.command(LogIndex(6)) == (
        Term(1), EntryKind.COMMAND, COMMAND.command,
    )  # fmt: skip


# ------------------------------------------------------------ what is applied


def registered(index: int, term: int, port: int) -> Entry:
    """By it a node listens at the port."""
    node = NodeId(1 + index % 3)
    command = RegisterNode(node=node, store_uuid="s", address=f"127.0.0.1:{port}", rules=1)
    payload = Payload(encode_command(command, None), b"")
    return Entry(LogIndex(index), Term(term), EntryKind.COMMAND, payload)


def appended(sender: int, term: int, *entries: Entry, commit_index: int = 0) -> AppendRequest:
    """The entries, which begin at index 1 or follow on one of term 1."""
    prev_index = LogIndex(entries[0].index - 1)
    return AppendRequest(
        group=GROUP,
        sender=NodeId(sender),
        to=NodeId(1),
        term=Term(term),
        prev_index=prev_index,
        prev_term=Term(1 if prev_index else 0),
        entries=entries,
        commit_index=LogIndex(commit_index),
    )


def pulled(sender: int, term: int, *entries: Entry, commit_index: int = 0) -> PulledEntries:
    """The same for an observer."""
    request = appended(sender, term, *entries)
    return PulledEntries(
        group=GROUP,
        sender=request.sender,
        to=request.to,
        term=request.term,
        leader=NodeId(2),
        held=True,
        base_index=NO_INDEX,
        commit_index=LogIndex(commit_index),
        prev_index=request.prev_index,
        prev_term=request.prev_term,
        entries=entries,
    )


def take(replica: Replica, message: AppendRequest | PulledEntries) -> None:
    """What the message says, if it is not refused."""
    with suppress(PeerProtocolViolation, AcknowledgedEntriesLost):
        if isinstance(message, AppendRequest):
            replica.step(message)
        else:
            replica.observe(message)


@pytest.mark.parametrize(
    ("frame", "taken"),
    [
        ([[1], [1]], [1, 1]),
        ([[1, 1, 1], [1]], [2]),
        ([[9, 1], [1], [0]], [1]),
        ([[], [2], [0], []], [0, 1, 0]),
        ([[1], [2, 1], [0]], [1, 1]),
    ],
)
@pytest.mark.parametrize("came", [appended, pulled])
def test_of_a_frame_so_many_bytes_of_commands_are_checked_at_once(
    came: Callable[..., AppendRequest | PulledEntries], frame: list[list[int]], taken: list[int]
) -> None:
    first = came(2, 1, Entry(LogIndex(1), Term(1), EntryKind.COMMAND, Payload(b"", b"")))
    messages = [
        replace(
            first,
            entries=tuple(
                Entry(LogIndex(at), Term(1), EntryKind.COMMAND, Payload(bytes(mib << 20), b"body"))
                for at, mib in enumerate(sizes, 1)
            ),
        )
        for sizes in frame
    ]
    kept = [message for message in beginnings(messages) if isinstance(message, type(first))]
    assert [len(message.entries) for message in kept] == taken


@pytest.mark.parametrize("last", [[COMMAND_BYTES_MAX], [TIMING.append_bytes_max // 2] * 2])
def test_all_entries_of_the_frame_of_an_outbox_are_checked(last: list[int]) -> None:
    """Otherwise a long one would be lost each time that it comes behind those of other groups."""
    outbox = Outbox(bulk_bytes_max=1 << 30)
    lengths = [[FRAME_BYTES_MAX // 8]] * 7 + [[1000]] * 50 + [last]
    for group, each in enumerate(lengths):
        entries = [
            Entry(LogIndex(at), Term(1), EntryKind.COMMAND, Payload(bytes(length), b""))
            for at, length in enumerate(each, 1)
        ]
        assert outbox.put(replace(appended(2, 1, *entries), group=GroupId(group)))
    frame = outbox.take_frame()
    assert not outbox
    assert list(beginnings(frame)) == frame


def check_applied(replica: Replica) -> None:
    """The machine is what the log makes of a new one."""
    replayed = ControllerMachine()
    for index in range(1, replica.applied_index + 1):
        _, kind, command = replica.log.command(index)
        if kind is EntryKind.COMMAND:
            replayed.apply(LogIndex(index), decode_command(command))
    assert replica.machine.fingerprint() == replayed.fingerprint()


@pytest.mark.parametrize(("sender", "term"), [(3, 1), (2, 1), (3, 2), (2, 2)])
def test_other_commands_under_an_index_and_term_of_the_log_are_not_applied(
    sender: int, term: int
) -> None:
    """Of an earlier term and of the present one, of its leader and of a node that leads nothing."""
    alone = Alone(voters=3)
    alone.replica.step(appended(2, 1, *(registered(index, 1, 7000) for index in (1, 2, 3))))
    alone.settle()
    alone.replica.step(heartbeat(alone.replica, 2, term=2))
    take(alone.replica, appended(sender, term, *(registered(at, 1, 6000) for at in (1, 2, 3))))
    alone.replica.step(appended(2, 2, registered(4, 2, 7000), commit_index=4))
    alone.settle()
    alone.apply()
    assert alone.replica.applied_index == 4
    assert "6000" not in str(alone.replica.machine.state())
    check_applied(alone.replica)


SOUND = pb.BatchHeader(record_count=1)
KEY = pb.EpochKey(writer="w", query_id="q", run="r")


@pytest.mark.parametrize(
    "header",
    [
        b"\xff",
        b"",
        pb.BatchHeader(record_count=2).SerializeToString(),
        pb.BatchHeader(record_count=1, columns=[{"minimum": {}}]).SerializeToString(),
    ],
    ids=["no message", "none", "another count", "an unknown bound"],
)
@pytest.mark.parametrize("came", [appended, pulled])
@pytest.mark.parametrize("name", ["append", "stage"])
def test_an_entry_with_a_batch_that_cannot_be_read_is_refused(
    name: str, came: Callable[..., AppendRequest | PulledEntries], header: bytes
) -> None:
    """Once it is committed, retention and compaction of its topic would stop at it."""

    def with_header(header: bytes) -> AppendRequest | PulledEntries:
        batch = {"batch": pb.BatchSummary(record_count=1), "batch_header": header}
        if name == "stage":
            batch["key"] = KEY
        command = b"\1" + pb.Command(**{name: batch}).SerializeToString()
        return came(2, 1, Entry(LogIndex(1), Term(1), EntryKind.COMMAND, Payload(command, b"")))

    check_commands(with_header(SOUND.SerializeToString()), TopicMachine.commands)
    with pytest.raises(PeerProtocolViolation, match="entry 1 comes from a newer version"):
        check_commands(with_header(header), TopicMachine.commands)


def test_other_commands_of_a_late_answer_to_an_observer_are_not_applied() -> None:
    alone = Alone(voters=0)
    alone.replica.observe(pulled(2, 1, registered(1, 1, 7000), commit_index=1))
    take(alone.replica, pulled(3, 1, registered(1, 1, 6000), commit_index=1))
    alone.settle()
    alone.apply()
    assert alone.replica.applied_index == 1
    assert "6000" not in str(alone.replica.machine.state())
    check_applied(alone.replica)


@st.composite
def batches(draw: st.DrawFn) -> Any:
    """A sender, its term, entries of terms up to it, and a commit index."""
    sender, term, first = draw(st.tuples(st.sampled_from([2, 3]), *[st.integers(1, 3)] * 2))
    terms = sorted(draw(st.lists(st.integers(1, term), min_size=1, max_size=3)))
    port = draw(st.integers(6000, 6003))
    entries = [registered(index, each, port) for index, each in enumerate(terms, first)]
    return sender, term, entries, draw(st.integers(0, 5))


@pytest.mark.slow
@pytest.mark.parametrize("observes", [False, True])
@settings(deadline=None)
@given(steps=st.lists(st.tuples(batches(), st.booleans()), min_size=2, max_size=12))
def test_what_is_applied_is_what_the_log_holds(observes: bool, steps: Any) -> None:
    alone = Alone(voters=0 if observes else 3)
    message = pulled if observes else appended
    for (sender, term, entries, commit_index), settles in steps:
        take(alone.replica, message(sender, term, *entries, commit_index=commit_index))
        if settles:
            alone.settle()
            alone.apply(1)
            check_applied(alone.replica)
    alone.settle()
    alone.apply()
    check_applied(alone.replica)
