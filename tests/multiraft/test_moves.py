"""How a group's leader comes from what the group has to what is wished, one step at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from raftlog.core.membership import Membership, changed, completed
from raftlog.core.quorum import is_quorum
from raftlog.core.types import CONTROLLER_GROUP, LastEntry, LogIndex, NodeId, Term
from raftlog.machines.commands import (
    AddNode,
    Command,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Refused
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.state import NodeState
from raftlog.multiraft.known_nodes import KnownNodes
from raftlog.multiraft.moves import PlacementReports, next_step
from tests.stores import founders


def ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


ABC = Membership(ids(1, 2, 3))
EVERYBODY = ids(*range(1, 8))


def enumerated(*commands: Command, start: int = 1) -> list[tuple[LogIndex, Command]]:
    return [(LogIndex(index), command) for index, command in enumerate(commands, start)]


def step(
    now: Membership,
    wanted: Membership,
    *,
    caught_up: tuple[NodeId, ...] = EVERYBODY,
    heard: tuple[NodeId, ...] = EVERYBODY,
    gone: tuple[NodeId, ...] = EVERYBODY,
) -> Membership | None:
    return next_step(now, wanted, caught_up=caught_up, heard=heard, gone=gone)


def test_those_that_come_learn_first_and_vote_when_they_have_the_log() -> None:
    wanted = Membership(ids(2, 3, 4), generation=1)
    learning = step(ABC, wanted, caught_up=ids(1, 2, 3))
    assert learning == Membership(ids(1, 2, 3), learners=ids(4), generation=1)
    assert step(learning, wanted, caught_up=ids(1, 2, 3)) is None, "it is still behind"
    assert step(learning, wanted) == wanted


def test_nothing_is_changed_that_could_not_be_committed() -> None:
    wanted = Membership(ids(1, 4), generation=1)
    now = Membership(ids(1, 2, 3), learners=ids(4), generation=1)
    assert step(now, wanted, heard=ids(1, 2, 3)) is None
    assert step(now, wanted, heard=ids(1, 4)) == wanted


def test_one_that_has_the_log_and_is_gone_takes_nobody_s_place() -> None:
    wanted = Membership(ids(1, 2, 4), generation=1)
    now = Membership(ids(1, 2, 3), learners=ids(4), generation=1)
    assert step(now, wanted, heard=ids(1, 2, 3)) is None


def test_those_that_leave_learn_until_they_are_gone() -> None:
    """Their nodes remove them when their own logs say that they have no vote."""
    wanted = Membership(ids(3, 4), generation=1)
    now = Membership(ids(1, 2, 3), learners=ids(4), generation=1)
    left = step(now, wanted, gone=())
    assert left == Membership(ids(3, 4), learners=ids(1, 2), generation=1)
    assert step(left, wanted, gone=()) is None
    assert step(left, wanted, gone=ids(1)) == Membership(ids(3, 4), learners=ids(2), generation=1)
    again = Membership(ids(3, 5), generation=2)
    learning = step(left, again, caught_up=ids(3, 4), gone=())
    assert learning == Membership(ids(3, 4), learners=ids(1, 2, 5), generation=2)
    back = step(now, Membership(ids(1, 2, 3), generation=2), gone=())
    assert back == Membership(ids(1, 2, 3), learners=ids(4), generation=2), "it was to come"


def test_an_older_wish_never_undoes_a_newer() -> None:
    now = Membership(ids(2, 3, 4), generation=2)
    assert step(now, Membership(ids(1, 2, 3), generation=1)) is None
    assert step(now, Membership(ids(2, 3, 4), generation=3)) == Membership(
        ids(2, 3, 4), generation=3
    ), "the newer generation is written though the voters are the same"
    assert step(now, now) is None


def test_a_change_under_way_is_completed_first() -> None:
    assert step(Membership(ids(2, 3), ids(1, 2), generation=1), ABC) is None


def test_the_steps_always_arrive() -> None:
    """Whatever the wishes were before, and however late the members are."""
    for seed in range(100):
        _arrives(seed)


def _arrives(seed: int) -> None:
    random = Random(seed)
    now, generation = Membership(ids(1, 2, 3)), 0
    for _ in range(20):
        generation += 1
        voters = sorted(random.sample(EVERYBODY, random.randrange(1, 6)))
        others = [node for node in EVERYBODY if node not in voters]
        learners = sorted(random.sample(others, random.randrange(len(others) + 1)))
        wanted = Membership(tuple(voters), (), tuple(learners), generation)
        for _ in range(random.randrange(1, 5) if random.random() < 0.3 else 10):
            caught_up = EVERYBODY if random.random() < 0.7 else now.members
            found = step(now, wanted, caught_up=caught_up)
            if found is None:
                continue
            assert is_quorum(found, set(EVERYBODY))
            coming = set(found.voters) - set(now.voters)
            assert coming <= set(now.learners) | set(caught_up)
            now = changed(now, found)
            now = completed(now) if now.is_joint else now
        assert now.generation <= generation
    for _ in range(10):
        now = step(now, wanted) or now
    assert now == wanted


def test_a_node_whose_address_is_none_is_left_out_however_it_came_into_the_state() -> None:
    known = KnownNodes({NodeId(1): "a:1"})
    register = RegisterNode(node=NodeId(9), store_uuid="s", address="nowhere", rules=RULES_LATEST)
    add = AddNode(node=NodeId(8), address="%%%:00001")
    known.read_log(enumerated(register, add), LastEntry(Term(1), LogIndex(2)))
    machine = ControllerMachine()
    assert not known.follow(machine, LogIndex(0), ())
    for index, command in enumerate((register, add), 1):
        assert isinstance(machine.apply(LogIndex(index), command), Refused)
    nodes = tuple(
        NodeState(node=NodeId(node), store_uuid="s", address=address, rules=RULES_LATEST)
        for node, address in ((9, "nowhere"), (8, "h:99999"), (2, "b:1"))
    )
    machine = ControllerMachine.restore(replace(machine.state(), nodes=nodes))
    assert known.follow(machine, LogIndex(3), ())
    assert dict(known) == {1: "a:1", 2: "b:1"}


def test_a_founder_s_store_is_known_before_it_registers() -> None:
    known = KnownNodes({NodeId(1): "a:1"}, founders((1, 2)))
    machine = ControllerMachine()
    assert known.store_of(NodeId(2), machine, LogIndex(0)) == "store-2"
    assert known.registered_store(NodeId(2), machine, LogIndex(0)) is None
    assert known.store_of(NodeId(3), machine, LogIndex(0)) is None
    register = RegisterNode(node=NodeId(2), store_uuid="s2", address="b:1", rules=RULES_LATEST)
    machine.apply(LogIndex(1), register)
    assert known.store_of(NodeId(2), machine, LogIndex(1)) == "s2", "by the log of all nodes"


def test_where_a_node_says_that_it_listens_is_newer_than_log_and_settings() -> None:
    known = KnownNodes({NodeId(1): "a:1", NodeId(2): "configured:1"})
    machine = ControllerMachine()
    register = RegisterNode(node=NodeId(2), store_uuid="s2", address="b:1", rules=RULES_LATEST)
    machine.apply(LogIndex(1), register)
    known.follow(machine, LogIndex(1), ())
    assert known[NodeId(2)] == "configured:1"
    assert known.greeted(NodeId(2), "moved:1")
    assert known.follow(machine, LogIndex(1), ())
    assert known[NodeId(2)] == "moved:1"
    assert not known.greeted(NodeId(2), "moved:1"), "that is no news"
    assert not known.greeted(NodeId(2), "nowhere")
    assert not known.greeted(NodeId(9), "c:1"), "it is none of the nodes"
    known.follow(machine, LogIndex(1), ())
    assert dict(known) == {1: "a:1", 2: "moved:1"}


def test_a_node_speaks_to_those_that_its_log_names_until_it_knows_more() -> None:
    """What is configured counts where it differs: a person wrote it when machines moved."""
    known = KnownNodes({NodeId(1): "a:1", NodeId(2): "moved:1"})
    register = RegisterNode(node=NodeId(2), store_uuid="s2", address="b:1", rules=RULES_LATEST)
    add = AddNode(node=NodeId(4), address="d:1")
    known.read_log(enumerated(register, add), LastEntry(Term(1), LogIndex(2)))
    machine = ControllerMachine()
    assert known.follow(machine, LogIndex(0), ())
    assert dict(known) == {1: "a:1", 2: "moved:1", 4: "d:1"}
    assert known.store_of(NodeId(2), machine, LogIndex(0)) == "s2"
    assert known.store_of(NodeId(4), machine, LogIndex(0)) is None
    assert known.follow(machine, LogIndex(2), ()), "the entries were truncated"
    assert dict(known) == {1: "a:1", 2: "moved:1"}
    assert known.store_of(NodeId(2), machine, LogIndex(2)) is None
    commands = [
        register, Rules(version=RULES_LATEST), add,
        SetDuty(node=NodeId(2), draining=True, leaving=True), RetireNode(node=NodeId(2)),
    ]  # fmt: skip
    for index, command in enumerate(commands, 3):
        machine.apply(LogIndex(index), command)
    assert known.follow(machine, LogIndex(7), ())
    assert dict(known) == {1: "a:1", 4: "d:1"}, "a removed node is none, configured or not"
    assert not known.follow(machine, LogIndex(8), ())


def test_a_node_that_only_the_log_removes_is_spoken_to_no_more_if_the_others_can_decide() -> None:
    """Its certificate may be stolen. A removal that the machine would refuse removes nobody."""
    register = RegisterNode(node=NodeId(2), store_uuid="s2", address="b:1", rules=RULES_LATEST)
    leave = SetDuty(node=NodeId(2), draining=True, leaving=True)
    retire = RetireNode(node=NodeId(2))
    known = KnownNodes({NodeId(1): "a:1", NodeId(2): "b:1"})
    machine = ControllerMachine()
    known.read_log(enumerated(register, retire), LastEntry(Term(1), LogIndex(2)))
    assert not known.follow(machine, LogIndex(0), ids(1)), "it is not leaving"
    known.read_log(enumerated(leave, retire, start=3), LastEntry(Term(1), LogIndex(4)))
    assert not known.follow(machine, LogIndex(0), ids(1, 2)), "it votes on that entry"
    assert known.follow(machine, LogIndex(0), ids(1))
    assert dict(known) == {1: "a:1"}, "configured or not"
    assert known.follow(machine, LogIndex(4), ids(1)), "the machine has refused it"
    assert dict(known) == {1: "a:1", 2: "b:1"}


class Reports:
    """The reports of the controller's group, which had nodes 1 to 3, to the controller's leader."""

    def __init__(self) -> None:
        self._controller, self._reports = ControllerMachine(), PlacementReports()
        for index, node in enumerate(EVERYBODY, start=1):
            add = AddNode(node=node, address=f"h{node}:1")
            assert not isinstance(self._controller.apply(LogIndex(index), add), Refused)

    def place(self, *voters: int, generation: int) -> None:
        placed = self._controller.apply(
            LogIndex(100 + generation),
            PlaceGroup(
                group=CONTROLLER_GROUP,
                voters=ids(*voters),
                generation=generation,
                former=ids(1, 2, 3),
            ),
        )
        assert not isinstance(placed, Refused), placed

    def are_enough(
        self, reporter: int, generation: int = 1, *, heard: tuple[NodeId, ...] = EVERYBODY
    ) -> bool:
        report = ReportPlacement(group=CONTROLLER_GROUP, generation=generation)
        reports = self._reports
        return reports.are_enough(report, NodeId(reporter), self._controller, heard=heard)

    def done(self, generation: int) -> None:
        report = ReportPlacement(group=CONTROLLER_GROUP, generation=generation)
        self._controller.apply(LogIndex(200), report)


def test_a_change_is_reported_by_a_majority_of_those_that_are_to_vote() -> None:
    """One of them may lie, and by these reports a node that the group needs could be removed."""
    reports = Reports()
    enough = reports.are_enough
    assert not enough(1, 0), "nothing is under way"
    reports.place(2, 3, 4, generation=0)
    assert not any(enough(3) for _ in range(9)), "one node's word, however often"
    assert not any(enough(node, 0) or enough(node, 2) for node in (2, 4))
    assert not enough(1), "of the new voters that is one"
    reports.place(1, 2, 3, generation=1)
    assert not enough(2, 2), "what was reported of the change before counts for nothing"
    assert not enough(2, 1)
    assert not enough(2, 2)
    assert enough(1, 2)
    reports.done(2)
    assert not enough(3, 2), "it is done"


def test_a_majority_of_the_former_voters_that_are_heard_reports_a_change_too() -> None:
    """Those that come may be empty, and report whatever a log that one of them forged says."""
    reports = Reports()
    enough = reports.are_enough
    reports.place(1, 3, 5, generation=0)
    assert not enough(5)
    assert not enough(3)
    assert not enough(3, heard=ids(3, 4, 5, 1)), "node 2 is lost: the other two must both report"
    assert enough(1, heard=ids(3, 4, 5, 1))

    reports = Reports()
    enough = reports.are_enough
    reports.place(4, 5, 6, generation=0)
    assert not any(enough(node) for node in (4, 5, 6)), "it keeps none of its voters"
    assert not enough(1)
    assert enough(2)


def test_former_voters_that_are_silent_hold_no_change_up() -> None:
    reports = Reports()
    enough = reports.are_enough
    reports.place(4, 5, 6, generation=0)
    assert not enough(4, heard=ids(2, 4, 5, 6))
    assert not enough(5, heard=ids(2, 4, 5, 6)), "one is heard"
    assert enough(5, heard=ids(4, 5, 6)), "all are lost"

    reports = Reports()
    enough = reports.are_enough
    reports.place(4, 5, 6, generation=0)
    assert not any(enough(node) for node in (1, 2, 4))
    assert enough(5, heard=ids(3, 4, 5, 6)), "what had reported before it fell silent counts"


def test_a_registration_counts_against_copies_before_it_is_applied() -> None:
    """A node that has just started has applied nothing again, and could elect the copy."""
    nodes, machine = KnownNodes({}, ()), ControllerMachine()
    register = RegisterNode(
        node=NodeId(2), store_uuid="s2", address="b:1", rules=RULES_LATEST, boot_id="later"
    )
    nodes.read_log([(LogIndex(5), register)], LastEntry(Term(1), LogIndex(5)))
    known = nodes.latest(NodeId(2), machine, LogIndex(0))
    assert known is not None
    assert (known.boot_id, known.registered_at) == ("later", 5)
    assert known.has_other_copy(replace(register, boot_id="copy"))
    assert nodes.latest(NodeId(2), machine, LogIndex(5)) is None, "the machine knows better then"
