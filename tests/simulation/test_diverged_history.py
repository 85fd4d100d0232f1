"""Replicas whose compactions write different records into history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from raftlog.comparison import Trust
from raftlog.core.types import GroupId, Offset
from raftlog.errors import HistoryDisputed, ReplicaDiverged
from raftlog.image.job import CompactionJob
from tests.simulation.calm import VOTERS
from tests.simulation.diverged_history import POINT, HistoryScene, other_records_in_history
from tests.simulation.node import Failed, SimulatedNode
from tests.simulation.planting import replaced


@pytest.mark.slow
def test_the_minority_is_fenced_and_rebuilt_at_most_twice_a_day() -> None:
    other_records_in_history()


@pytest.mark.slow
def test_a_refusal_names_the_range_that_came_after_the_last_agreement() -> None:
    scene = HistoryScene()
    wrong = next(node for node in VOTERS if node != scene.leader)
    scene.goes_wrong_once(wrong)
    scene.is_fenced(wrong)
    local = scene.cluster.local(wrong, scene.group)
    start, end = local.doubtful_history
    assert start < end == local.image.manifest.history_end
    what = rf"history of records \[{start}, {end}\)"
    with pytest.raises(ReplicaDiverged, match=what):
        local.require_agreed(Offset(0), Offset(1))


@pytest.mark.slow
def test_without_a_majority_the_range_is_refused_everywhere_and_nothing_else_stops() -> None:
    scene = HistoryScene()
    leader = scene.leader
    wrong = [node for node in VOTERS if node != leader]
    scene.goes_wrong_once(*wrong)
    scene.cluster.wait(lambda: scene.in_doubt() == list(VOTERS))
    assert {scene.trust(node) for node in VOTERS} == {Trust.DISPUTED}
    assert scene.leader == leader, "only reads stop"
    scene.append(2)
    for node in VOTERS:
        local = scene.cluster.local(node, scene.group)
        start, end = local.doubtful_history
        mark = scene.mark(node)
        assert 0 <= start < end < mark
        assert isinstance(scene.rows(node), Failed)
        local.require_agreed(Offset(0), start)
        local.require_agreed(end, Offset(mark))
        with pytest.raises(HistoryDisputed, match=rf"records \[{start}, {end}\) are not served"):
            local.require_agreed(Offset(end - 1), end)
        assert not scene.rebuilt


@pytest.mark.slow
def test_a_replica_whose_state_changed_in_memory_is_rebuilt_too() -> None:
    scene = HistoryScene()
    changed = next(node for node in VOTERS if node != scene.leader)
    scene.change(changed)
    scene.append(2 * POINT)
    scene.cluster.wait(lambda: scene.rebuilt == 1)
    scene.append(POINT)
    scene.cluster.wait(scene.compacted_alike)
    leader = scene.leader
    assert leader is not None
    scene.cluster.wait(lambda: scene.mark(changed) == scene.mark(leader))
    assert not scene.doubted()
    assert scene.rows(changed) == scene.rows(leader)


@pytest.mark.slow
def test_an_idle_topic_is_compared_though_all_replicas_quiesced_before_they_had_compacted() -> None:
    scene = HistoryScene()
    point = scene.cluster.local(VOTERS[0], scene.group).image.manifest.index
    held: list[Callable[[], None]] = []
    with ExitStack() as stack:
        for node in scene.cluster.nodes.values():
            stack.enter_context(replaced(node, "run_compaction", _held(node, scene.group, held)))
        scene.append(POINT)
        replicas = scene.cluster.replicas(scene.group)
        scene.cluster.wait(lambda: all(local.raft.quiesced for local in replicas))
        assert len(held) == len(VOTERS)
    for compact in held:
        compact()
    scene.cluster.wait(lambda: all(local.image.manifest.index > point for local in replicas))
    scene.cluster.wait(scene.agreed, timeouts=1)


def _held(
    node: SimulatedNode, group: GroupId, held: list[Callable[[], None]]
) -> Callable[..., None]:
    """Asked to compact the group, keep that for later."""
    compact = node.run_compaction

    def hold(job: CompactionJob, *others: Any) -> None:
        if job.group == group:
            held.append(partial(compact, job, *others))
        else:
            compact(job, *others)

    return hold
