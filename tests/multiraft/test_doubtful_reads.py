"""Which records a replica serves while its state or its history is outvoted or in dispute."""

from __future__ import annotations

import pytest

from raftlog.comparison import Comparison, Question
from raftlog.core.types import GroupId, NodeId, Offset
from raftlog.errors import HistoryDisputed, ReplicaDiverged, StateDisputed
from raftlog.multiraft.local_replica import LocalReplica
from tests.multiraft.compaction_scene import EVERY, Scene

HERE = NodeId(1)
DISPUTED = Question(disputed=True)


@pytest.fixture(scope="module")
def local() -> LocalReplica:
    """A topic of some records, of which the first ones are in history."""
    scene = Scene()
    scene.write(3 * EVERY)
    scene.compact_all()
    scene.write(2)
    local = scene.topics[GroupId(1)]
    assert 2 < local.image.manifest.history_end < local.topic_machine.high_water_mark
    return local


def judge(
    local: LocalReplica,
    *,
    states: Comparison | None = None,
    histories: Comparison | None = None,
    disputed: Question | None = None,
) -> None:
    local.replica.states = states or Comparison(HERE)
    local.replica.histories = histories or Comparison(HERE)
    for each in (states, histories):
        if each is not None and disputed is not None:
            each.heard(disputed, NodeId(2))
    local.replica.note_damage(damaged=False)


def test_a_replica_that_is_outvoted_serves_nothing(local: LocalReplica) -> None:
    for what, states, histories in (
        ("state", Comparison(HERE, diverged=True), None),
        ("history", None, Comparison(HERE, diverged=True)),
    ):
        judge(local, states=states, histories=histories)
        with pytest.raises(ReplicaDiverged, match=what):
            local.require_agreed(Offset(0), Offset(1))


def test_records_above_the_agreed_mark_are_not_served_while_states_are_in_dispute(
    local: LocalReplica,
) -> None:
    judge(local, states=Comparison(HERE, agreed_mark=Offset(5)), disputed=DISPUTED)
    local.require_agreed(Offset(0), Offset(5))
    with pytest.raises(StateDisputed):
        local.require_agreed(Offset(0), Offset(6))


def test_only_records_of_the_doubtful_history_are_not_served_while_it_is_in_dispute(
    local: LocalReplica,
) -> None:
    end = local.image.manifest.history_end
    judge(local, histories=Comparison(HERE, agreed_mark=Offset(2)), disputed=DISPUTED)
    local.require_agreed(Offset(0), Offset(2))
    local.require_agreed(end, local.topic_machine.high_water_mark)
    for start, stop in ((0, 3), (2, 3), (end - 1, end + 1)):
        with pytest.raises(HistoryDisputed):
            local.require_agreed(Offset(start), Offset(stop))
