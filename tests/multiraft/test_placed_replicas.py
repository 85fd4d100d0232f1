"""Which replicas a node makes and removes when groups are placed elsewhere, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftlog.core.membership import Membership, MembershipAt, Memberships, encode_membership
from raftlog.core.messages import AppendRequest, GroupDeleted, NodeHeartbeat, VoteRequest
from raftlog.core.recovery import is_recovering
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NO_INDEX,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Term,
)
from raftlog.errors import NodeRemoved, TopicRecreated
from raftlog.machines.commands import (
    AddNode,
    CreateTopic,
    DeleteTopic,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
)
from raftlog.machines.outcomes import Refused
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema
from raftlog.multiraft.effects import GroupKept
from raftlog.multiraft.moves import PlacementReports
from raftlog.storage.posix import PosixFileSystem
from raftlog.wire.codec import encode_command
from tests.golden.one_node import OneNode
from tests.multiraft.leading import first_entries

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))
GROUP = GroupId(1)


class Node(OneNode):
    """Node 1, which is alone and leads the controller. Reports go nowhere: a test makes them."""

    def __init__(self, folder: Path) -> None:
        self.reports: list[ReportPlacement] = []
        self.sent: list[Any] = []
        self.events: list[Any] = []
        super().__init__(PosixFileSystem(folder))
        self._folder = folder
        if not self.multiraft.replicas.controller.nodes:
            for node in (ONE, TWO):
                self.done(
                    RegisterNode(
                        node=node, store_uuid=f"s{node}", address=f"h{node}:1", rules=RULES_LATEST
                    )
                )
            self.done(Rules(version=RULES_LATEST))

    def report(self, report: Any) -> None:
        self.reports.append(report)

    def send(self, peer: Any, messages: Any) -> None:
        self.sent += messages

    def tell(self, event: Any) -> None:
        self.events.append(event)

    def answer(self, limit: Callable[[], int] = lambda: 1 << 62) -> None:
        """Let node 2 answer what it was sent for the group: it holds the log up to that entry, and
        votes for node 1."""
        self.multiraft.tick()
        self.run_pending()
        sent, self.sent = self.sent, []
        for each in sent:
            if isinstance(each, AppendRequest) and each.group == GROUP:
                last = each.prev_index + len(each.entries)
                match = LogIndex(min(last, limit()))
                self.multiraft.receive(TWO, [each.accepted(each.term, match, match)])
            if isinstance(each, VoteRequest) and each.group == GROUP:
                self.multiraft.receive(TWO, [each.reply(each.term, granted=True)])
        self.run_pending()

    def hear(self, leader: NodeId, *memberships: Membership, commit_index: int) -> None:
        """The group's first entries are these, says its leader, and so much is committed."""
        count = len(memberships)
        append = first_entries(GROUP, leader, count=count, commit_index=commit_index)
        entries = [
            replace(each, kind=EntryKind.CONFIGURATION, payload=encode_membership(membership))
            for each, membership in zip(append.entries, memberships, strict=True)
        ]
        self.multiraft.receive(leader, [replace(append, entries=tuple(entries))])
        for _ in range(20):
            self.run_pending()
            self.multiraft.tick()

    def leave(self) -> None:
        """Let the group go to node 2, as it is wished: node 1 leads it until that is committed."""
        for _ in range(100):
            self.answer()
        self.reached(1)

    def done(self, command: Any) -> Any:
        local = self.multiraft.replicas.of_controller
        for _ in range(1_000):
            self.run_pending()
            if local.raft.role.name == "LEADER":
                break
            self.multiraft.tick()
        outcome = self.propose(command)
        assert not isinstance(outcome, Refused), outcome
        return outcome

    def propose(self, command: Any) -> Any:
        answers: list[Any] = []
        local = self.multiraft.replicas.of_controller
        self.multiraft.propose(local, Payload(encode_command(command, None), b""), answers.append)
        for _ in range(100):
            self.run_pending()
            self.multiraft.tick()
        return answers[0]

    def create(self, *voters: NodeId) -> None:
        schema = Schema(version=1, fields=(Field(id=1, name="id", type="long", nullable=True),))
        self.done(
            CreateTopic(
                name="t",
                incarnation="i",
                schema=schema,
                voters=voters,
                if_not_exists=False,
                timestamp_us=1,
            )
        )

    def place(self, *voters: NodeId, generation: int, former: tuple[NodeId, ...]) -> None:
        self.done(PlaceGroup(group=GROUP, voters=voters, generation=generation, former=former))

    def reached(self, generation: int) -> None:
        self.done(ReportPlacement(group=GROUP, generation=generation))

    @property
    def folder(self) -> Path:
        return self._folder / "groups" / str(GROUP)

    @property
    def state(self) -> Any:
        return self.multiraft.replicas._store.journal.get(GROUP)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_replica_goes_only_when_the_change_is_reported(node: Node) -> None:
    """CHECKLIST 75."""
    node.create(ONE)
    node.place(TWO, generation=0, former=(ONE,))
    assert GROUP in node.multiraft.replicas, "its vote may still count"
    node.leave()
    assert GROUP not in node.multiraft.replicas
    assert not node.folder.exists()


def test_a_replica_of_a_group_that_is_still_placed_here_stays(node: Node) -> None:
    node.create(ONE)
    local = node.multiraft.replicas[GROUP]
    node.place(ONE, TWO, generation=0, former=(ONE,))
    node.reached(1)
    assert node.multiraft.replicas[GROUP] is local
    assert node.folder.exists()


def test_a_replica_stays_until_its_own_log_says_that_the_group_left(node: Node) -> None:
    """A report may be the word of one node that lies."""
    node.create(ONE)
    node.place(TWO, generation=0, former=(ONE,))
    node.reached(1)
    for _ in range(3):
        for _ in range(100):
            node.multiraft.tick()
            node.run_pending()
        assert GROUP in node.multiraft.replicas
    assert node.folder.exists()
    kept = GroupKept(group=GROUP, info=node.multiraft.replicas[GROUP].info)
    assert node.events.count(kept) == 1
    for _ in range(100):
        node.answer()
    assert GROUP not in node.multiraft.replicas, "its leader went on with the change"
    assert not node.folder.exists()


def test_what_was_promised_outlives_the_removal_until_the_group_is_deleted(node: Node) -> None:
    node.create(ONE)
    before = node.state
    node.place(TWO, generation=0, former=(ONE,))
    node.leave()
    assert node.state.term >= before.term
    assert is_recovering(node.state.recovery), "it has lost its log, on purpose"
    assert node.state.lost is not None
    node.done(DeleteTopic(name="t", incarnation="i"))
    assert node.state is None


def test_a_replica_that_comes_back_counts_for_nothing_before_it_is_filled(node: Node) -> None:
    """Even the only voter that its group was made with: others have decided since."""
    node.create(ONE)
    node.place(TWO, generation=0, former=(ONE,))
    node.leave()
    node.place(ONE, generation=1, former=(ONE,))
    local = node.multiraft.replicas[GROUP]
    assert local.raft.recovering
    for _ in range(200):
        node.multiraft.tick()
        node.run_pending()
    assert (local.raft.role.name, local.raft.term) == ("FOLLOWER", node.state.term)


def test_a_change_is_reported_only_when_the_new_voters_have_committed_it(node: Node) -> None:
    """The joint membership may be committed, and the new one written: former votes count still."""
    node.create(ONE)
    node.place(ONE, TWO, generation=0, former=(ONE,))
    raft = node.multiraft.replicas[GROUP].raft

    def before_new_voters() -> int:
        before = raft.memberships.latest_index - 1
        return before if raft.membership == new else before + 1

    new = Membership((ONE, TWO), generation=1)
    for limit in (lambda: before_new_voters() - raft.membership.is_joint, before_new_voters):
        for _ in range(100):
            node.answer(limit)
        assert raft.membership.voters == (ONE, TWO)
        assert raft.memberships.latest_index > raft.commit_index
        assert node.reports == []
    assert raft.membership == new, "it is written, and node 2 does not have it"
    for _ in range(100):
        node.answer()
    assert node.reports[0] == ReportPlacement(group=GROUP, generation=1)


def test_a_follower_reports_a_change_that_gives_it_a_vote_when_its_own_log_has_committed_it(
    node: Node,
) -> None:
    """The controller's leader counts on a majority of the new voters, not on the leader alone."""
    node.create(TWO, THREE)
    node.place(ONE, TWO, generation=0, former=(TWO, THREE))
    raft = node.multiraft.replicas[GROUP].raft
    joint = Membership((ONE, TWO), (TWO, THREE), generation=1)
    node.hear(TWO, joint, commit_index=1)
    assert raft.commit_index == 1
    node.hear(TWO, joint, Membership((ONE, TWO), generation=1), commit_index=1)
    assert raft.log.last_index == 2
    assert node.reports == [], "it is joint, or written and not known to be committed"
    node.hear(TWO, joint, Membership((ONE, TWO), generation=1), commit_index=2)
    assert node.reports[0] == ReportPlacement(group=GROUP, generation=1)
    node.reached(1)
    node.reports.clear()
    node.hear(TWO, joint, Membership((ONE, TWO), generation=1), commit_index=2)
    assert node.reports == []


def test_a_former_voter_reports_a_change_when_its_own_log_has_committed_it(node: Node) -> None:
    """It learns then, and its replica stays until the change is reported."""
    node.create(ONE, TWO, THREE)
    node.place(TWO, THREE, generation=0, former=(ONE, TWO, THREE))
    joint = Membership((TWO, THREE), (ONE, TWO, THREE), generation=1)
    left = Membership((TWO, THREE), (), (ONE,), generation=1)
    node.hear(TWO, joint, left, commit_index=1)
    assert node.reports == []
    node.hear(TWO, joint, left, commit_index=2)
    assert node.reports[0] == ReportPlacement(group=GROUP, generation=1)
    assert GROUP in node.multiraft.replicas
    node.reached(1)
    assert GROUP not in node.multiraft.replicas


def test_a_member_that_forges_the_log_of_an_empty_one_moves_no_group(node: Node) -> None:
    """Node 1 is to replace node 2 in a group, and node 3 lies. With the reports of nodes 1 and 3
    the operator would remove node 2, while node 1 holds none of the group's records."""
    controller = node.multiraft.replicas.controller
    node.create(TWO, THREE, FOUR)
    node.place(ONE, THREE, FOUR, generation=0, former=(TWO, THREE, FOUR))
    node.hear(THREE, Membership((ONE, THREE, FOUR), generation=1), commit_index=1)
    [report] = set(node.reports)
    assert report == ReportPlacement(group=GROUP, generation=1), "its own log says so"
    reports, heard = PlacementReports(), (ONE, TWO, THREE, FOUR)
    for reporter in (ONE, THREE) * 2:
        assert not reports.are_enough(report, reporter, controller, heard=heard)
    assert not controller.placements[GROUP].is_reached
    assert reports.are_enough(report, TWO, controller, heard=heard), "once the group has moved"


def test_a_former_voter_learns_until_the_change_is_reported(node: Node) -> None:
    """It may have to report it, though nothing was heard of its replica for long, or though it has
    far more than the change: after a restart it no longer knows that this is committed."""
    node.create(ONE)
    node.place(ONE, TWO, generation=0, former=(ONE,))
    node.leave()
    raft = node.multiraft.replicas[GROUP].raft
    node.place(ONE, generation=1, former=(ONE, TWO))
    for _ in range(500):
        node.answer()

    def pass_time() -> None:
        """Node 2 lives, and its replica does not answer."""
        for _ in range(1_000):
            beat = NodeHeartbeat(sender=TWO, to=ONE, boot_id="b", clock_us=1, disk_full=False)
            node.multiraft.receive(TWO, [beat])
            node.multiraft.tick()
            node.run_pending()

    pass_time()
    assert raft.membership == Membership((ONE,), (), (TWO,), generation=2)
    node.reached(2)
    pass_time()
    assert raft.membership == Membership((ONE,), generation=2)


def test_a_new_leader_takes_no_silent_node_for_alive(node: Node) -> None:
    """A change that only a dead node could commit would stop the group."""
    node.create(ONE, TWO, THREE)
    node.place(TWO, generation=0, former=(ONE, TWO, THREE))
    raft = node.multiraft.replicas[GROUP].raft
    for _ in range(300):
        node.multiraft.tick()
        node.run_pending()
        sent, node.sent = node.sent, []
        for each in sent:
            if each.to != THREE or isinstance(each, NodeHeartbeat):
                continue
            match each:
                case VoteRequest():
                    answer: Any = each.reply(each.term, granted=True)
                case AppendRequest():
                    match_index = LogIndex(each.prev_index + len(each.entries))
                    answer = each.accepted(each.term, match_index, match_index)
                case _:
                    continue
            node.multiraft.receive(THREE, [answer])
        node.run_pending()
        assert not raft.membership.is_joint
    assert raft.commit_index > NO_INDEX, "it led, and node 3 followed"


def tell_deleted(node: Node, *tellers: NodeId) -> None:
    """They say that the group is deleted, while the controller's group has three voters. (Node 1
    leads it alone for what else a test wants.)"""
    raft = node.multiraft.replicas.of_controller.raft
    alone = raft.memberships
    raft.memberships = Memberships(MembershipAt(NO_INDEX, Membership((ONE, TWO, THREE))))
    for teller in tellers:
        node.multiraft.receive(teller, [GroupDeleted(group=GROUP, sender=teller, to=ONE)])
    raft.memberships = alone


def campaigns(node: Node) -> bool:
    """Does it ask node 2 for its vote in the group within some election timeouts?"""
    node.sent.clear()
    for _ in range(200):
        node.multiraft.tick()
        node.run_pending()
    return any(isinstance(each, VoteRequest) and each.group == GROUP for each in node.sent)


def test_who_missed_a_deletion_is_told_and_campaigns_no_more(node: Node) -> None:
    """Else it would ask for ever, and raise the terms of those that do not know it either."""
    node.create(ONE, TWO)
    assert campaigns(node)
    tell_deleted(node, TWO, TWO)
    assert campaigns(node), "one node may lie, however often"
    tell_deleted(node, THREE)
    assert not campaigns(node)
    node.done(DeleteTopic(name="t", incarnation="i"))
    asks = VoteRequest(
        group=GROUP, sender=TWO, to=ONE, term=Term(9), last_index=LogIndex(9), last_term=Term(8),
        pre=True,
    )  # fmt: skip
    node.sent.clear()
    node.multiraft.receive(TWO, [asks])
    assert node.sent == [GroupDeleted(group=GROUP, sender=ONE, to=TWO)]
    node.multiraft.receive(TWO, [replace(asks, group=GroupId(77))])
    assert len(node.sent) == 1, "of a group that nobody has created yet nothing is said"
    assert GroupId(77) not in node.multiraft.replicas


def test_no_group_is_made_before_the_log_is_where_it_was_when_one_was_removed(node: Node) -> None:
    """A restarted node learns step by step again what is committed: a group that it hears of may
    have been deleted since, and its votes are forgotten."""
    replicas = node.multiraft.replicas
    replicas._store.deletions_index = LogIndex(replicas.of_controller.replica.applied_index + 3)
    node.create(ONE)
    assert not node.folder.exists()
    node.done(SetDuty(node=TWO, draining=True, leaving=False))
    assert not node.folder.exists()
    node.done(SetDuty(node=TWO, draining=False, leaving=False))
    assert GROUP in replicas


def test_a_deleted_group_s_votes_are_kept_until_its_files_are_gone(node: Node) -> None:
    """A process that ends in between opens the files again: it must not vote twice."""
    node.create(ONE)
    replicas = node.multiraft.replicas
    local = replicas[GROUP]
    local.writing = True
    node.done(DeleteTopic(name="t", incarnation="i"))
    assert GROUP not in replicas
    assert node.folder.exists()
    assert GROUP in replicas._store.journal.groups
    local.writing = False
    replicas.let_go(local)
    node.run_pending()
    assert not node.folder.exists()
    assert GROUP not in replicas._store.journal.groups


def test_a_former_voter_gets_its_replica_though_it_hears_of_the_change_at_once(node: Node) -> None:
    """Without it the voters that a topic was made with might be too few to make the change."""
    local = node.multiraft.replicas.of_controller
    schema = Schema(version=1, fields=(Field(id=1, name="id", type="long", nullable=True),))
    machine = node.multiraft.replicas.controller
    index = local.replica.applied_index + 1
    create = CreateTopic(
        name="t", incarnation="i", schema=schema, voters=(ONE, TWO), if_not_exists=False,
        timestamp_us=1,
    )  # fmt: skip
    machine.apply(index, create)  # type: ignore[arg-type]
    place = PlaceGroup(group=GROUP, voters=(TWO,), generation=0, former=(ONE, TWO))
    machine.apply(index + 1, place)  # type: ignore[arg-type]
    node.multiraft.replicas.follow_controller()
    node.run_pending()
    assert node.multiraft.replicas[GROUP].raft.membership == Membership((ONE, TWO))


def test_a_group_that_was_made_elsewhere_begins_without_a_vote(node: Node) -> None:
    node.create(TWO)
    assert GROUP not in node.multiraft.replicas
    node.place(ONE, TWO, generation=0, former=(TWO,))
    assert node.multiraft.replicas[GROUP].raft.membership == Membership()


def test_a_topic_that_a_majority_knows_to_be_deleted_is_served_no_more(node: Node) -> None:
    node.create(ONE, TWO)
    replicas = node.multiraft.replicas
    assert replicas.of_topic(GROUP, "i") is replicas[GROUP]
    with pytest.raises(TopicRecreated):
        replicas.of_topic(GROUP, "another")
    tell_deleted(node, TWO)
    assert replicas.of_topic(GROUP, "i") is replicas[GROUP], "one node may lie"
    tell_deleted(node, THREE)
    with pytest.raises(TopicRecreated):
        replicas.of_topic(GROUP, "i")


def test_a_node_that_is_removed_stops(node: Node) -> None:
    node.done(AddNode(node=NodeId(3), address="h3:1"))
    node.done(SetDuty(node=ONE, draining=True, leaving=True))
    with pytest.raises(NodeRemoved):
        node.propose(RetireNode(node=ONE))
    assert CONTROLLER_GROUP in node.multiraft.replicas


def test_all_of_it_is_so_after_a_restart(node: Node, tmp_path: Path) -> None:
    node.create(ONE)
    node.place(TWO, generation=0, former=(ONE,))
    node.leave()
    node.multiraft.stop()
    node.multiraft.close()
    again = Node(tmp_path)
    again.done(SetDuty(node=TWO, draining=False, leaving=False))
    assert GROUP not in again.multiraft.replicas
    assert is_recovering(again.state.recovery)
    again.place(ONE, generation=1, former=(ONE,))
    assert again.multiraft.replicas[GROUP].raft.recovering
