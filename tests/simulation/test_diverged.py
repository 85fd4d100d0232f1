"""Replicas whose states differ so that none has a majority."""

from __future__ import annotations

import pytest

from raftlog.comparison import Trust
from raftlog.core.types import Offset
from raftlog.errors import ReplicaDiverged, StateDisputed
from tests.simulation.calm import VOTERS
from tests.simulation.diverged import Scene
from tests.simulation.node import Failed
from tests.simulation.watched import COMPARED_EVERY


@pytest.mark.parametrize("seed", [0, 3])
def test_a_diverged_leader_s_quiesced_group_elects_another(seed: int) -> None:
    """A node that was away settles a dispute against the leader, which may not campaign. It wakes
    the others as it steps down: they hear its process and know of nothing to wait for."""
    scene = Scene(seed)
    changed = scene.change_one(leads=True)
    away = next(node for node in VOTERS if node != changed)
    scene.cluster.nodes[away].end(power=False)
    scene.append(2 * COMPARED_EVERY)
    raft = scene.cluster.local(changed, scene.group).raft
    scene.cluster.wait(lambda: raft.quiesced)
    scene.cluster.nodes[away].start()
    scene.cluster.wait(lambda: scene.leader != changed)
    others = [local for local in scene.cluster.replicas(scene.group) if local.raft is not raft]
    assert all(local.raft.quiesced for local in others), "choose another seed"
    scene.cluster.wait(lambda: scene.leader is not None, timeouts=2)
    assert scene.leader != changed


def test_without_a_majority_new_records_are_refused_and_writes_continue() -> None:
    scene = Scene()
    scene.append(2 * COMPARED_EVERY)
    leader = scene.leader
    replicas = scene.cluster.replicas(scene.group)
    newest = {2 * COMPARED_EVERY}
    scene.cluster.wait(lambda: {each.replica.states.agreed_index for each in replicas} == newest)
    agreed = replicas[0].replica.states.agreed_mark
    assert agreed > 0
    changed = [node for node in VOTERS if node != leader]
    for by, node in enumerate(changed, 1):
        scene.change(node, by=by)
    scene.append(2 * COMPARED_EVERY)
    scene.cluster.wait(lambda: scene.doubted() == list(VOTERS))
    assert scene.leader == leader, "only reads stop"
    scene.append(1)
    for local in replicas:
        node = local.replica.node
        assert len(scene.rows(node, agreed)) == agreed
        assert isinstance(scene.rows(node, agreed + 1), Failed)
        with pytest.raises(StateDisputed, match=f"from offset {agreed} on are not served"):
            local.require_agreed(Offset(0), Offset(scene.mark(node)))
    # One of them starts again: two of three agree, and the third learns that it is wrong.
    healed, other = changed
    scene.restart(healed)
    scene.append(COMPARED_EVERY)
    scene.cluster.wait(lambda: scene.doubted() == [other])
    assert leader is not None
    scene.cluster.wait(lambda: scene.mark(healed) == scene.mark(leader))
    assert scene.rows(healed) == scene.rows(leader)
    diverged = scene.cluster.local(other, scene.group)
    scene.cluster.wait(lambda: diverged.replica.states.trust is Trust.DIVERGED)
    with pytest.raises(ReplicaDiverged, match=f"Restart node {other}"):
        diverged.require_agreed(Offset(0), agreed)
