"""Nodes that come and go and groups that are placed elsewhere: what the controller's log says."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.machines.commands import (
    AddNode,
    ControllerCommand,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    SetDuty,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import (
    DutySet,
    GroupPlaced,
    NodeAdded,
    NodeRegistered,
    NodeRetired,
    PlacementReported,
    Refused,
    refused,
)
from raftlog.machines.placements import Placement
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema

SCHEMA = Schema(version=1, fields=(Field(id=1, name="id", type="long", nullable=True),))
GROUP = GroupId(1)
ABC = (NodeId(1), NodeId(2), NodeId(3))


class Cluster:
    """A controller with nodes 1 to 3 and a topic on them."""

    def __init__(self) -> None:
        self.machine = ControllerMachine()
        self._index = 0
        for node in ABC:
            self.register(node)
        self.apply(
            CreateTopic(
                name="t",
                incarnation="i",
                schema=SCHEMA,
                voters=ABC,
                if_not_exists=False,
                timestamp_us=1,
            )
        )

    def apply(self, command: ControllerCommand) -> Any:
        self._index += 1
        before = self.machine.fingerprint()
        outcome = self.machine.apply(LogIndex(self._index), command)
        if isinstance(outcome, Refused):
            assert self.machine.fingerprint() == before, "what is refused changes nothing"
        return outcome

    def register(self, node: int, rack: str = "") -> Any:
        return self.apply(
            RegisterNode(
                node=NodeId(node),
                store_uuid=f"store-{node}",
                address=f"host-{node}:1",
                rules=RULES_LATEST,
                rack=rack,
            )
        )

    def add(self, node: int, address: str | None = None) -> Any:
        return self.apply(AddNode(node=NodeId(node), address=address or f"host-{node}:1"))

    def leave(self, node: int) -> Any:
        return self.apply(SetDuty(node=NodeId(node), draining=False, leaving=True))

    def place(self, *voters: int, generation: int = 0, group: GroupId = GROUP) -> Any:
        nodes = tuple(map(NodeId, voters))
        return self.apply(PlaceGroup(group=group, voters=nodes, generation=generation, former=ABC))

    def report(self, generation: int, group: GroupId = GROUP) -> Any:
        return self.apply(ReportPlacement(group=group, generation=generation))

    def placement(self, group: GroupId = GROUP) -> Placement:
        return self.machine.placements[group]


def code(outcome: Any) -> str:
    assert isinstance(outcome, Refused), outcome
    return outcome.code


# ---------------------------------------------------------------- nodes


def test_a_node_that_is_added_comes_and_is_bound_to_its_store() -> None:
    cluster = Cluster()
    assert cluster.add(4) == NodeAdded(known_before=False)
    assert cluster.add(4) == NodeAdded(known_before=True)
    assert cluster.machine.nodes[NodeId(4)].store_uuid == ""
    assert cluster.machine.behind_rules([NodeId(4)], RULES_LATEST) == (), "nobody waits for it"
    assert isinstance(cluster.register(4, rack="b"), NodeRegistered)
    known = cluster.machine.nodes[NodeId(4)]
    assert (known.store_uuid, known.rack) == ("store-4", "b")
    assert isinstance(cluster.register(4), NodeRegistered)


def test_an_id_and_an_address_are_given_once() -> None:
    cluster = Cluster()
    assert code(cluster.add(2, "elsewhere:1")) == "NodeExists"
    assert code(cluster.add(4, "host-2:1")) == "AddressTaken"
    for address in ("", "host", "host:", ":1", "ho st:1", "unix:///x", "host:1\n", "h:123456"):
        assert code(cluster.add(4, address or "x" * 2000)) == "MalformedRequest"


def test_a_node_is_removed_for_ever_once_it_leaves_and_holds_nothing() -> None:
    cluster = Cluster()
    cluster.add(4)
    cluster.register(4)
    retire = RetireNode(node=NodeId(3))
    assert code(cluster.apply(retire)) == "NodeInUse"
    assert cluster.leave(3) == DutySet(draining=False, leaving=True)
    assert code(cluster.apply(retire)) == "NodeInUse", "the topic is on it"
    assert cluster.place(1, 2, 4) == GroupPlaced(generation=1)
    assert code(cluster.apply(retire)) == "NodeInUse", "the change is not reported"
    assert cluster.report(1) == PlacementReported(done=True)
    assert cluster.apply(retire) == NodeRetired(known_before=True)
    assert cluster.apply(retire) == NodeRetired(known_before=False), "a resend"
    assert NodeId(3) not in cluster.machine.nodes
    assert code(cluster.add(3)) == code(cluster.register(3)) == "NodeRemoved"
    assert code(cluster.leave(3)) == "NodeRemoved"
    assert (
        code(cluster.leave(9)) == code(cluster.apply(RetireNode(node=NodeId(9)))) == "NodeUnknown"
    )


# ---------------------------------------------------------------- placements


def test_a_wish_is_reached_when_it_is_reported() -> None:
    cluster = Cluster()
    cluster.add(4)
    assert cluster.place(1, 2, 4) == GroupPlaced(generation=1)
    assert cluster.place(1, 2, 4) == GroupPlaced(generation=1), "a resend"
    assert not cluster.placement().is_reached
    assert list(cluster.machine.placements.under_way()) == [GROUP]
    topic = cluster.machine.info_of(GROUP)
    assert topic is not None
    assert cluster.machine.voters_of(topic) == (1, 2, 4)
    assert cluster.report(7) == cluster.report(2) == PlacementReported(done=False)
    assert cluster.report(1) == PlacementReported(done=True)
    assert cluster.report(1) == PlacementReported(done=False)
    assert cluster.placement() == Placement((1, 2, 4), 1, 1, (1, 2, 4))  # type: ignore[arg-type]


def test_one_change_at_a_time_which_can_only_be_taken_back() -> None:
    cluster = Cluster()
    cluster.add(4)
    cluster.place(1, 2, 4)
    assert code(cluster.place(1, 4, generation=1)) == "PlacementUnderWay"
    assert code(cluster.place(1, 2, 3)) == "PlacementOutdated"
    assert cluster.place(1, 2, 3, generation=1) == GroupPlaced(generation=2)
    assert cluster.report(1) == PlacementReported(done=False), "of the wish that was taken back"
    assert cluster.report(2) == PlacementReported(done=True)
    assert cluster.placement().former == (1, 2, 3)


def test_a_group_is_placed_only_on_nodes_that_stay() -> None:
    cluster = Cluster()
    cluster.add(4)
    assert code(cluster.place(1, 2, 9)) == "NodeUnknown"
    cluster.leave(4)
    assert code(cluster.place(1, 2, 4)) == "NodeUnknown"
    cluster.leave(3)
    assert cluster.place(1, 2) == GroupPlaced(generation=1)
    assert cluster.place(1, 2, 3, generation=1) == GroupPlaced(generation=2), "taken back"


def test_two_nodes_that_leave_at_once_go_by_a_change_each() -> None:
    """As two replacements do that begin together: what is still there counts as no stranger."""
    cluster = Cluster()
    for node in (4, 5):
        cluster.register(node)
    for node in (1, 2):
        cluster.leave(node)
    assert cluster.place(2, 3, 4) == GroupPlaced(generation=1)
    cluster.report(1)
    assert code(cluster.place(1, 3, 4, generation=1)) == "NodeUnknown", "one that left comes back"
    assert cluster.place(3, 4, 5, generation=1) == GroupPlaced(generation=2)
    cluster.report(2)
    for node in (1, 2):
        assert cluster.apply(RetireNode(node=NodeId(node))) == NodeRetired(known_before=True)


def test_a_node_leaves_only_if_the_others_have_room_for_its_topics() -> None:
    """Two removals that were planned without each other: the second one is refused at once."""
    cluster = Cluster()
    assert code(cluster.leave(1)) == "TooFewNodes", "the topic needs three nodes"
    cluster.add(4)
    assert code(cluster.leave(1)) == "TooFewNodes", "node 4 has not come"
    cluster.register(4)
    assert cluster.leave(1) == cluster.leave(1) == DutySet(draining=False, leaving=True)
    refusal = cluster.leave(2)
    assert refusal == refused("TooFewNodes", what="topic 't'", needed=3, found=2)
    assert code(cluster.leave(4)) == "TooFewNodes", "the topic of node 1 has to go there"
    stay = SetDuty(node=NodeId(1), draining=False, leaving=False)
    assert cluster.apply(stay) == DutySet(draining=False, leaving=False)
    assert cluster.leave(4) == DutySet(draining=False, leaving=True)


def test_a_drain_changes_nothing_of_whether_a_node_leaves() -> None:
    """It may have been on its way while a removal was taken back."""
    cluster = Cluster()
    for draining in (True, False):
        stale = SetDuty(node=NodeId(2), draining=draining, leaving=True, keeps_leaving=True)
        assert cluster.apply(stale) == DutySet(draining=draining, leaving=False)
    cluster.register(4)
    cluster.leave(2)
    for draining in (True, False):
        stale = SetDuty(node=NodeId(2), draining=draining, leaving=False, keeps_leaving=True)
        assert cluster.apply(stale) == DutySet(draining=draining, leaving=True)


def test_no_group_is_made_on_a_node_that_was_removed() -> None:
    """A leader that has not applied the removal yet may have chosen it."""
    cluster = Cluster()
    cluster.register(4)
    cluster.leave(4)
    cluster.apply(RetireNode(node=NodeId(4)))
    topic = CreateTopic(
        name="u", incarnation="j", schema=SCHEMA, voters=(NodeId(1), NodeId(4)),
        if_not_exists=False, timestamp_us=2,
    )  # fmt: skip
    for command in (topic, CreateKv(voters=(NodeId(1), NodeId(4)), timestamp_us=2)):
        assert code(cluster.apply(command)) == "NodeRemoved"


def test_no_node_is_removed_while_a_group_goes_back_from_anywhere() -> None:
    """Where it was to go, nobody knows any more: its replica there may still have a vote."""
    cluster = Cluster()
    for node in (4, 5):
        cluster.register(node)
    cluster.place(2, 3, 4)
    cluster.place(1, 2, 3, generation=1)
    cluster.leave(4)
    assert code(cluster.apply(RetireNode(node=NodeId(4)))) == "NodeInUse"
    cluster.report(2)
    assert cluster.apply(RetireNode(node=NodeId(4))) == NodeRetired(known_before=True)


@pytest.mark.parametrize("voters", [(), (0, 1), (2, 1), (1, 1), tuple(range(1, 9))])
def test_what_is_no_placement_is_refused(voters: tuple[int, ...]) -> None:
    assert code(Cluster().place(*voters)) == "MalformedRequest"


def test_a_deleted_group_has_no_placement() -> None:
    cluster = Cluster()
    cluster.place(1, 2)
    cluster.apply(DeleteTopic(name="t", incarnation="i"))
    assert GROUP not in cluster.machine.placements
    assert code(cluster.place(1, 2)) == "GroupUnknown"
    assert cluster.report(1) == PlacementReported(done=False)
    assert cluster.place(1, 2, group=CONTROLLER_GROUP) == GroupPlaced(generation=1)


def test_a_state_is_restored_as_it_was_and_goes_on_alike() -> None:
    for seed in range(20):
        _goes_on_alike(seed)


def _goes_on_alike(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster()

    def some_command() -> ControllerCommand:
        node = NodeId(random.randrange(1, 8))
        voters = tuple(sorted(random.sample([NodeId(each) for each in range(1, 8)], 3)))
        placement = cluster.machine.placements.get(GROUP)
        generation = placement.generation if placement is not None else 0
        return random.choice(
            [
                AddNode(node=node, address=f"host-{node}:1"),
                RegisterNode(
                    node=node,
                    store_uuid=f"store-{node}",
                    address=f"host-{node}:1",
                    rules=RULES_LATEST,
                ),
                SetDuty(node=node, draining=False, leaving=random.random() < 0.3),
                RetireNode(node=node),
                PlaceGroup(group=GROUP, voters=voters, generation=generation, former=ABC),
                ReportPlacement(group=GROUP, generation=generation),
            ]
        )

    for _ in range(60):
        cluster.apply(some_command())
    again = ControllerMachine.restore(cluster.machine.state())
    assert again.fingerprint() == cluster.machine.fingerprint()
    assert again.state() == cluster.machine.state()
    for index in range(1_000, 1_040):
        command = some_command()
        assert again.apply(LogIndex(index), command) == cluster.machine.apply(
            LogIndex(index), command
        )
    assert again.fingerprint() == cluster.machine.fingerprint()
