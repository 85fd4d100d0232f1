"""What a node refuses before it reaches the log."""

from __future__ import annotations

import dataclasses

import pytest

from raftlog.errors import OffsetTrimmed, RulesTooOld
from raftlog.machines.commands import Trim
from raftlog.machines.topic import TopicMachine
from raftlog.server.services import _check_not_trimmed, _check_rules
from tests.machines.scenes import TOPIC, Scene


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_a_command_of_newer_rules_is_refused_by_name(rules: int) -> None:
    """Logged, it would stop every replica whose program does not know it."""
    machine = TopicMachine(dataclasses.replace(TOPIC, rules=rules))
    _check_rules("Anything", machine, needed=rules)
    with pytest.raises(RulesTooOld, match=rf"Trimming needs rules {rules + 1}; topic 'flights'"):
        _check_rules("Trimming", machine, needed=rules + 1)


def test_a_read_below_the_log_start_names_the_range_that_exists() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(10))
    scene.apply(Trim(offset=4))
    _check_not_trimmed(scene.machine, 4)
    with pytest.raises(OffsetTrimmed) as caught:
        _check_not_trimmed(scene.machine, 3)
    error = caught.value
    assert (error.topic, error.requested, error.earliest, error.end) == ("flights", 3, 4, 10)
