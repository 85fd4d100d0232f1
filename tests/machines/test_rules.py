"""Which version of the rules a machine applies: raised by the log alone, and never lowered."""

from __future__ import annotations

import dataclasses

from raftlog.core.types import LogIndex
from raftlog.machines.commands import Rules
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
