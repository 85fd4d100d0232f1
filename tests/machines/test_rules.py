"""Which version of the rules a machine applies: raised only by the log, and never lowered.

There is one version so far. These tests add one that changes nothing, `NEXT`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import LogFromNewerVersion
from raftlog.machines import rules
from raftlog.machines.commands import CreateKv, CreateTopic, RegisterNode, Rules, Trim
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.outcomes import (
    KvCreated,
    NodeRegistered,
    Refused,
    RulesApplied,
    TopicCreated,
)
from raftlog.machines.rules import RULES_FIRST, RULES_LATEST, rules_needed
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import TOPIC

NEXT = RULES_LATEST + 1
NODES = (NodeId(1), NodeId(2), NodeId(3))
KV = KvInfo(group=GroupId(2), voters=NODES, created_us=1, rules=RULES_FIRST)

MACHINES: list[Callable[[], TopicMachine | ControllerMachine | KvMachine]] = [
    lambda: TopicMachine(TOPIC),
    ControllerMachine,
    lambda: KvMachine(KV),
]
every_machine = pytest.mark.parametrize("new", MACHINES, ids=["topic", "controller", "kv"])


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """This program knows the next version."""
    monkeypatch.setattr(rules, "RULES_LATEST", NEXT)


def node(number: int, known: int) -> RegisterNode:
    return RegisterNode(
        node=NodeId(number), store_uuid=f"store-{number}", address=f"h{number}:1", rules=known
    )


@pytest.mark.usefixtures("upgraded")
@every_machine
def test_only_an_applied_entry_raises_the_rules_and_none_lowers_them(
    new: Callable[[], TopicMachine],
) -> None:
    machine = new()
    assert machine.rules == RULES_FIRST
    before = machine.fingerprint()
    assert machine.apply(LogIndex(1), Rules(version=NEXT)) == RulesApplied(version=NEXT)
    assert machine.rules == NEXT
    assert machine.fingerprint() != before
    late = machine.apply(LogIndex(2), Rules(version=RULES_FIRST))
    assert late == RulesApplied(version=NEXT)
    assert machine.rules == machine.state().rules == NEXT


@every_machine
def test_an_entry_of_a_version_that_the_program_does_not_know_is_not_applied(
    new: Callable[[], TopicMachine],
) -> None:
    machine = new()
    before = machine.fingerprint()
    with pytest.raises(LogFromNewerVersion, match=f"rules version {NEXT}"):
        machine.apply(LogIndex(1), Rules(version=NEXT))
    assert (machine.rules, machine.fingerprint()) == (RULES_FIRST, before)


@every_machine
def test_a_state_keeps_its_rules_and_one_of_a_newer_version_is_not_guessed_at(
    new: Callable[[], TopicMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new()

    def restored() -> TopicMachine | ControllerMachine | KvMachine:
        match machine:
            case TopicMachine():
                return TopicMachine.restore(TOPIC, machine.state())
            case ControllerMachine():
                return ControllerMachine.restore(machine.state())
            case KvMachine():
                return KvMachine.restore(KV, machine.state())

    with monkeypatch.context() as patch:
        patch.setattr(rules, "RULES_LATEST", NEXT)
        machine.apply(LogIndex(1), Rules(version=NEXT))
        assert restored().rules == NEXT
    with pytest.raises(LogFromNewerVersion) as caught:
        restored()
    assert caught.value.index == 1


@pytest.mark.usefixtures("upgraded")
def test_a_group_starts_under_the_rules_that_the_controller_permits() -> None:
    machine = ControllerMachine()
    create = CreateTopic(
        name="before", incarnation="1" * 32, schema=TOPIC.schema, voters=NODES,
        if_not_exists=False, timestamp_us=0,
    )  # fmt: skip
    before = machine.apply(LogIndex(1), create)
    machine.apply(LogIndex(2), Rules(version=NEXT))
    after = machine.apply(
        LogIndex(3), dataclasses.replace(create, name="after", incarnation="2" * 32)
    )
    store = machine.apply(LogIndex(4), CreateKv(voters=NODES, timestamp_us=0))
    assert isinstance(before, TopicCreated)
    assert isinstance(after, TopicCreated)
    assert isinstance(store, KvCreated)
    assert (before.topic.rules, after.topic.rules, store.kv.rules) == (RULES_FIRST, NEXT, NEXT)
    assert TopicMachine(after.topic).rules == KvMachine(store.kv).rules == NEXT


def test_a_group_of_newer_rules_is_not_opened() -> None:
    with pytest.raises(LogFromNewerVersion):
        TopicMachine(dataclasses.replace(TOPIC, rules=NEXT))
    with pytest.raises(LogFromNewerVersion):
        KvMachine(dataclasses.replace(KV, rules=NEXT))


@pytest.mark.usefixtures("upgraded")
def test_the_controller_permits_a_version_once_every_node_knows_it() -> None:
    machine = ControllerMachine()
    machine.apply(LogIndex(1), node(1, NEXT))
    machine.apply(LogIndex(2), node(2, RULES_FIRST))
    assert machine.behind_rules(NODES, NEXT) == (2, 3), "node 3 has not registered"
    before = machine.fingerprint()
    refused = machine.apply(LogIndex(3), Rules(version=NEXT))
    assert refused == RulesApplied(version=RULES_FIRST)
    assert machine.fingerprint() == before
    machine.apply(LogIndex(4), node(2, NEXT))
    assert machine.behind_rules(NODES[:2], NEXT) == ()
    permitted = machine.apply(LogIndex(5), Rules(version=NEXT))
    assert permitted == RulesApplied(version=NEXT)


def test_what_a_node_knows_is_part_of_the_state() -> None:
    one, other = ControllerMachine(), ControllerMachine()
    one.apply(LogIndex(1), node(1, RULES_FIRST))
    other.apply(LogIndex(1), node(1, NEXT))
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("known", [0, -1])
def test_a_node_that_knows_no_version_is_refused(known: int) -> None:
    machine = ControllerMachine()
    outcome = machine.apply(LogIndex(1), node(1, known))
    assert isinstance(outcome, Refused)
    assert outcome.code == "MalformedRequest"
    assert isinstance(machine.apply(LogIndex(2), node(1, 1)), NodeRegistered)


def test_a_command_needs_the_version_that_brought_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rules_needed(Trim(offset=0)) == RULES_FIRST
    monkeypatch.setitem(rules.BROUGHT_BY, Trim, NEXT)
    assert rules_needed(Trim(offset=0)) == NEXT
