"""Who decides in a group is found again on disk: in its log, or in its newest snapshot."""

from __future__ import annotations

import pytest

from raftlog.core.membership import Membership, MembershipAt
from raftlog.core.types import GroupId, NodeId
from raftlog.machines.commands import TopicInfo
from raftlog.multiraft.groups import Quarantine
from tests.multiraft.compaction_scene import EVERY, Scene
from tests.storage.disks import files_of

GROUP = GroupId(1)
ONE, TWO, THREE = map(NodeId, (1, 2, 3))


def learn(scene: Scene, *learners: NodeId) -> MembershipAt:
    """Let these learn from the node, which goes on to decide alone."""
    local = scene.topics[GROUP]
    goal = Membership((ONE,), (), learners)
    span = local.raft.change_membership(goal)
    scene.settle(local)
    assert local.raft.commit_index >= span.first
    return MembershipAt(span.first, goal)


def found(scene: Scene) -> MembershipAt:
    memberships = scene.topics[GROUP].raft.memberships
    return MembershipAt(memberships.latest_index, memberships.latest)


@pytest.mark.parametrize("entries", [1, 2 * EVERY], ids=["in the log", "in a snapshot"])
def test_the_latest_membership_is_found_after_a_restart(entries: int) -> None:
    """CHECKLIST 76."""
    scene = Scene()
    changed = learn(scene, TWO)
    scene.write(entries)
    scene.compact_all()
    image = scene.topics[GROUP].image.manifest
    assert (image.index > changed.index) == (entries > 1)
    scene.restart()
    assert found(scene) == changed
    later = learn(scene, TWO, THREE)
    scene.restart()
    assert found(scene) == later, "that of the log is later than that of the snapshot"


def test_an_older_snapshot_and_the_log_tell_the_same() -> None:
    scene = Scene()
    changed = []
    for learners in ((TWO,), (TWO, THREE), (THREE,)):
        changed.append(learn(scene, *learners))
        scene.write(EVERY)
        scene.compact_all()
    path = f"{scene.store.folder_of(GROUP)}/{scene.topics[GROUP].image.manifest.snapshots[-1].name}"
    file = scene.fs.open(path, create=False)
    file.write_at(file.size() - 1, [b"\xff"])
    file.sync()
    scene.restart()
    assert found(scene) == changed[-1]


def test_a_group_whose_membership_cannot_be_read_is_quarantined() -> None:
    """It must not vote by a membership that holds no more."""
    scene = Scene()
    scene.write(2)
    learn(scene, TWO)
    scene.write(2)
    folder = scene.store.folder_of(GROUP)
    logged = b'{"voters"'
    [name] = [name for name, data in files_of(scene.fs, folder).items() if logged in data]
    position = files_of(scene.fs, folder)[name].index(logged)
    file = scene.fs.open(f"{folder}/{name}", create=False)
    file.write_at(position + len(logged) + 2, [b"9"])
    file.sync()
    scene.fs.crash()
    scene.open()
    [opened] = [each for each in scene.store.open_all() if isinstance(each.info, TopicInfo)]
    assert isinstance(opened, Quarantine)
    assert name in opened.damage.file
