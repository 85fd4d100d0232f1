"""What a node answers an observer that pulls: at once from memory, from disk once it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raftlog.core.membership import Membership, encode_membership
from raftlog.core.messages import (
    AppendRequest,
    EntryReply,
    EntryRequest,
    Heartbeat,
    ImageChunk,
    ImageChunkRequest,
    ImageRequest,
    PeerMessage,
    PullDone,
    PulledEntries,
    PullRequest,
    PullRow,
    RaftMessage,
    TimeoutNow,
    VoteRequest,
)
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NO_INDEX,
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Term,
)
from raftlog.machines.commands import AddNode, RegisterNode
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.effects import PeerMessagesRefused
from tests.multiraft.leading import first_entries
from tests.multiraft.resting import RESTING
from tests.multiraft.test_placed_replicas import GROUP, ONE, TWO, Node

OBSERVER = NodeId(9)
NUMBER = 5


class Parent(Node):
    """A node whose reads end when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[PeerMessage] = []
        self.reads: list[tuple[Any, Callable[[], None]]] = []
        super().__init__(folder)

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        if peer == OBSERVER:
            self.sent.extend(messages)

    def run_read(self, read: Any, ran: Callable[[], None]) -> None:
        self.reads.append((read, ran))

    def queued_bytes(self, peer: NodeId) -> int:
        return 0

    def create(self, *voters: NodeId) -> None:
        """The topic's group, in a cluster with the observer."""
        super().create(*voters)
        self.done(AddNode(node=OBSERVER, address="h9:1", observer=True))

    def end_read(self) -> None:
        read, ran = self.reads.pop(0)
        read.run()
        ran()
        self.run_pending()

    def pull(self, *groups: int) -> None:
        """The observer has nothing of these groups, and asks."""
        row = {"index": LogIndex(0), "term": Term(0), "leader_term": Term(0), "leader": NO_NODE}
        rows = tuple(PullRow(group=group, **row) for group in groups)
        request = PullRequest(sender=OBSERVER, to=ONE, number=NUMBER, rows=rows)
        self.multiraft.receive(OBSERVER, [request])
        self.run_pending()


def test_an_answer_ends_when_all_that_had_to_be_read_is_sent(tmp_path: Path) -> None:
    before = Parent(tmp_path)
    before.create(ONE)
    before.multiraft.stop()
    before.multiraft.close()
    parent = Parent(tmp_path)
    while parent.multiraft.replicas[GROUP].raft.commit_index < 2:
        parent.run_pending()
        parent.multiraft.tick()
    parent.pull(GROUP, 0)
    assert len(parent.reads) == 2, "what the log holds of its last run is not in memory"
    parent.end_read()
    assert [type(each) for each in parent.sent] == [PulledEntries]
    parent.end_read()
    *answers, done = parent.sent
    assert {each.group for each in answers if isinstance(each, PulledEntries)} == {GROUP, 0}
    assert done == PullDone(sender=ONE, to=OBSERVER, number=NUMBER, more=False)


def test_what_is_in_memory_is_answered_at_once(tmp_path: Path) -> None:
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    parent.pull(0)
    entries, done = parent.sent
    assert isinstance(entries, PulledEntries)
    assert entries.entries[-1].index == parent.multiraft.replicas.of_controller.raft.commit_index
    assert isinstance(done, PullDone)
    assert parent.reads == []


def test_an_observer_is_told_of_no_entry_that_is_not_known_to_be_committed(
    tmp_path: Path,
) -> None:
    """It may be ahead of a node that has started again: what that has there may be replaced."""
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    parent.multiraft.receive(TWO, [first_entries(GROUP, TWO, count=1, commit_index=NO_INDEX)])
    parent.run_pending()
    assert parent.multiraft.replicas[GROUP].raft.log.last_term == 1
    row = PullRow(group=GROUP, index=LogIndex(1), term=Term(2), leader_term=Term(0), leader=NO_NODE)
    request = PullRequest(sender=OBSERVER, to=ONE, number=NUMBER, rows=(row,))
    parent.multiraft.receive(OBSERVER, [request])
    parent.run_pending()
    answer, _ = parent.sent
    assert isinstance(answer, PulledEntries)
    assert (answer.leader, answer.prev_index, answer.prev_term) == (TWO, 0, 0)


def test_an_observer_is_given_no_more_than_is_known_to_be_committed(tmp_path: Path) -> None:
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    parent.multiraft.receive(TWO, [first_entries(GROUP, TWO, count=3, commit_index=LogIndex(1))])
    parent.run_pending()
    parent.pull(GROUP)
    answer, _ = parent.sent
    assert isinstance(answer, PulledEntries)
    assert [each.index for each in answer.entries] == [answer.commit_index] == [1]


def test_of_the_requests_of_one_frame_only_the_last_is_answered(tmp_path: Path) -> None:
    """Two bytes make a row, so a frame may have more than can be answered in a turn."""
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    row = PullRow(group=GROUP, index=NO_INDEX, term=Term(0), leader_term=Term(0), leader=NO_NODE)
    requests = [
        PullRequest(sender=OBSERVER, to=ONE, number=number, rows=(row,)) for number in range(9)
    ]
    parent.multiraft.receive(OBSERVER, requests)
    parent.run_pending()
    assert [each.number for each in parent.sent if isinstance(each, PullDone)] == [8]


def test_of_the_rows_for_one_group_only_one_is_answered(tmp_path: Path) -> None:
    """4,096 of them, in 16 KB, took half a second of the loop."""
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    parent.pull(*[CONTROLLER_GROUP] * 100, GROUP, *[CONTROLLER_GROUP] * 100)
    pulled = [each for each in parent.sent if isinstance(each, PulledEntries)]
    assert [each.group for each in pulled if each.entries] == [CONTROLLER_GROUP]
    assert isinstance(parent.sent[-1], PullDone)


def test_requests_for_entries_are_answered_in_turns_within_the_budget(tmp_path: Path) -> None:
    """Each took a checksum of all of an entry on the loop, also while the peer read no answer."""
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    log = parent.multiraft.replicas.of_controller.raft.log
    index, term = log.last_index, log.last_term
    its: dict[str, Any] = {"group": CONTROLLER_GROUP, "sender": OBSERVER, "to": ONE, "term": term}
    last = EntryRequest(**its, index=index)
    for _ in range(300):
        requests = [EntryRequest(**its, index=LogIndex(each)) for each in range(1, index)]
        parent.multiraft.receive(OBSERVER, [*requests, last])
        parent.run_pending()
    most = RESTING.catch_up.peer_bytes_max // 4096
    assert (parent.sent, len(parent.reads)) == ([], most), "also what is in memory is read"
    while parent.reads:
        parent.end_read()
    replies = [each for each in parent.sent if isinstance(each, EntryReply)]
    assert {(each.index, each.held) for each in replies} == {(index, True)}
    assert len(replies) == most + 1, "the latest request has waited for its turn"
    assert parent.multiraft.catch_up_budget.used == 0


STRANGER = OBSERVER
"""The same id, where it is no observer's."""


class Holder(Parent):
    """A node that holds the topic, in a cluster with another node that does not."""

    def create(self, *voters: NodeId) -> None:
        Node.create(self, *voters)
        self.done(RegisterNode(node=STRANGER, store_uuid="s9", address="h9:1", rules=RULES_LATEST))

    def ask_for_files(self) -> None:
        local = self.multiraft.replicas[GROUP]
        its: dict[str, Any] = {"group": GROUP, "sender": STRANGER, "to": ONE}
        index, term = local.raft.log.last_index, local.raft.log.last_term
        chunk = ImageChunkRequest(**its, name="no-file", position=0, length=1)
        entry = EntryRequest(**its, index=index, term=term)
        self.multiraft.receive(STRANGER, [entry, ImageRequest(**its), chunk])
        self.run_pending()
        while self.reads:
            self.end_read()


def holding(folder: Path) -> Holder:
    """One that has entries of the topic's group."""
    holder = Holder(folder)
    holder.create(ONE, TWO)
    holder.multiraft.receive(TWO, [first_entries(GROUP, TWO, count=2, commit_index=LogIndex(2))])
    holder.run_pending()
    return holder


def test_a_node_that_holds_no_part_of_a_group_gets_none_of_its_entries_and_files(
    tmp_path: Path,
) -> None:
    """A member reads no topic that it does not store: its word that it lacks one is no proof. Nor
    is its request one of a lie: this node may be the last to hear where the group is."""
    holder = holding(tmp_path)
    holder.sent.clear()
    holder.pull(GROUP, CONTROLLER_GROUP)
    assert [each.group for each in holder.sent if isinstance(each, PulledEntries)] == [0]
    assert isinstance(holder.sent[-1], PullDone), "the observer goes on with the other groups"
    holder.sent.clear()
    holder.ask_for_files()
    assert holder.sent == []
    assert not [each for each in holder.events if isinstance(each, PeerMessagesRefused)]


def test_a_node_gets_entries_and_files_of_a_group_that_it_is_to_hold_or_held(
    tmp_path: Path,
) -> None:
    holder = holding(tmp_path)

    def gives() -> bool:
        holder.sent.clear()
        holder.pull(GROUP)
        holder.ask_for_files()
        given = {PulledEntries, EntryReply, ImageChunk}
        kinds = given & {type(each) for each in holder.sent}
        assert kinds in (given, set())
        return bool(kinds)

    assert not gives()
    holder.place(ONE, STRANGER, generation=0, former=(ONE, TWO))
    assert gives()
    holder.place(ONE, TWO, generation=1, former=(ONE, TWO))
    assert not gives()
    holder.reached(2)
    holder.place(ONE, STRANGER, generation=2, former=(ONE, TWO))
    holder.reached(3)
    holder.place(ONE, TWO, generation=3, former=(ONE, STRANGER))
    assert gives(), "it may still be the only node with the records"
    holder.reached(4)
    assert not gives()


def claim_of_leading(sender: NodeId) -> AppendRequest:
    """It claims to lead, and that a node that holds no part of the group learns from it."""
    membership = Membership((ONE, TWO), (), (STRANGER,), 0)
    entry = Entry(LogIndex(1), Term(1), EntryKind.CONFIGURATION, encode_membership(membership))
    return replace(first_entries(GROUP, sender, count=1, commit_index=0), entries=(entry,))


def test_an_entry_in_one_replicas_log_gives_a_node_no_records(tmp_path: Path) -> None:
    """A member that lies may have put it there."""
    holder = Holder(tmp_path)
    holder.create(ONE, TWO)
    holder.multiraft.receive(TWO, [claim_of_leading(TWO)])
    holder.run_pending()
    assert STRANGER in holder.multiraft.replicas[GROUP].raft.membership.members
    holder.sent.clear()
    holder.pull(GROUP)
    holder.ask_for_files()
    assert [type(each) for each in holder.sent] == [PullDone]


def test_a_node_that_holds_no_part_of_a_group_cannot_lead_it(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    holder.create(ONE, TWO)
    raft = holder.multiraft.replicas[GROUP].raft
    for message in claims(STRANGER, GROUP):
        holder.multiraft.receive(STRANGER, [message])
        holder.run_pending()
    assert (raft.term, raft.leader, raft.log.last_index) == (0, NO_NODE, 0)
    holder.place(ONE, STRANGER, generation=0, former=(ONE, TWO))
    holder.multiraft.receive(STRANGER, [claim_of_leading(STRANGER)])
    holder.run_pending()
    assert (raft.term, raft.leader, raft.log.last_index) == (1, STRANGER, 1)


def test_an_observer_neither_votes_nor_leads(tmp_path: Path) -> None:
    """Also not in the controller's group, which every node has."""
    parent = Parent(tmp_path)
    parent.create(ONE, TWO)
    for group in (GROUP, CONTROLLER_GROUP):
        raft = parent.multiraft.replicas[group].raft
        before = raft.term, raft.leader, raft.log.last_index
        for message in claims(OBSERVER, group):
            parent.multiraft.receive(OBSERVER, [message])
            parent.run_pending()
        assert (raft.term, raft.leader, raft.log.last_index) == before
    assert parent.multiraft.refusals.counts[OBSERVER] == 2 * 4
    told = [str(each.latest) for each in parent.events if isinstance(each, PeerMessagesRefused)]
    assert "an observer neither votes nor leads" in told[0]


def claims(sender: NodeId, group: GroupId) -> list[RaftMessage]:
    """By which it would lead, or bring others to another term."""
    its: dict[str, Any] = {"group": group, "sender": sender, "to": ONE, "term": Term(9)}
    log: dict[str, Any] = {"last_index": LogIndex(50), "last_term": Term(9)}
    return [
        VoteRequest(**its, **log, pre=False, transfer=True),
        Heartbeat(**its, commit_index=NO_INDEX, read_round=0, quiesce_round=0),
        replace(claim_of_leading(sender), group=group, term=Term(9)),
        TimeoutNow(**its),
    ]
