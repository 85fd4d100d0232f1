"""Which version of the rules a machine applies: raised only by the log, and never lowered."""

from __future__ import annotations

import dataclasses

from raftlog.core.types import LogIndex, NodeId
from raftlog.machines.commands import RegisterNode, Rules
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import RulesApplied
from raftlog.machines.rules import RULES_FIRST, RULES_LATEST
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import OLD_TOPIC, TOPIC


def test_a_topic_starts_under_the_rules_that_it_was_created_with() -> None:
    assert TopicMachine(OLD_TOPIC).rules == RULES_FIRST
    assert TopicMachine(dataclasses.replace(TOPIC, rules=RULES_LATEST)).rules == RULES_LATEST


def test_only_an_applied_entry_raises_the_rules_and_none_lowers_them() -> None:
    for machine in (TopicMachine(OLD_TOPIC), ControllerMachine()):
        before = machine.fingerprint()
        raised = machine.apply(LogIndex(1), Rules(version=RULES_LATEST))
        assert raised == RulesApplied(version=RULES_LATEST)
        assert machine.rules == RULES_LATEST
        assert machine.fingerprint() != before
        late = machine.apply(LogIndex(2), Rules(version=RULES_FIRST))
        assert late == RulesApplied(version=RULES_LATEST)
        assert machine.rules == RULES_LATEST


def _node(number: int, rules: int) -> RegisterNode:
    return RegisterNode(
        node=NodeId(number), store_uuid=f"store-{number}", address="127.0.0.1:1", rules=rules
    )


def test_the_controller_permits_a_version_once_every_node_knows_it() -> None:
    machine = ControllerMachine()
    machine.apply(LogIndex(1), _node(1, RULES_LATEST))
    machine.apply(LogIndex(2), _node(2, rules=0))
    assert machine.nodes[NodeId(2)].rules == RULES_FIRST, "a program that does not say"
    nodes = [NodeId(1), NodeId(2), NodeId(3)]
    assert machine.behind_rules(nodes, RULES_LATEST) == (2, 3), "node 3 has not registered"
    before = machine.fingerprint()
    refused = machine.apply(LogIndex(3), Rules(version=RULES_LATEST))
    assert refused == RulesApplied(version=RULES_FIRST)
    assert machine.fingerprint() == before
    machine.apply(LogIndex(4), _node(2, RULES_LATEST))
    assert machine.behind_rules(nodes[:2], RULES_LATEST) == ()
    permitted = machine.apply(LogIndex(5), Rules(version=RULES_LATEST))
    assert permitted == RulesApplied(version=RULES_LATEST)


def test_under_the_first_rules_what_nodes_know_is_no_part_of_the_state() -> None:
    """A node of the first release leaves it out, and runs beside newer ones during an upgrade."""
    said, silent = ControllerMachine(), ControllerMachine()
    said.apply(LogIndex(1), _node(1, RULES_LATEST))
    silent.apply(LogIndex(1), _node(1, rules=0))
    assert said.fingerprint() == silent.fingerprint()
