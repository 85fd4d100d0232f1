"""Both copies of the journal cut off alike: no crash, if an image proves that they knew more."""

from __future__ import annotations

import pytest

from raftlog.core.types import Term
from raftlog.errors import CorruptFile
from raftlog.machines.commands import TopicInfo
from raftlog.multiraft.groups import OpenedGroup
from raftlog.storage.hard_state import JOURNAL_COPIES
from tests.multiraft.compaction_scene import EVERY, Scene


def copies(scene: Scene) -> dict[str, bytes]:
    """What the copies of a node's journal hold."""
    found = {}
    for name in JOURNAL_COPIES:
        file = scene.fs.open(name, create=False)
        found[name] = file.read_at(0, file.size())
        file.close()
    return found


EMPTY = copies(Scene(topics=0))
"""The copies of a node that has voted for nobody."""


def shortened(scene: Scene) -> None:
    """The copies as they were when the node was new; then the power fails."""
    for name, data in EMPTY.items():
        scene.fs.remove(name)
        file = scene.fs.open(name, create=True)
        file.write_at(0, [data])
        file.sync()
        file.close()
    scene.fs.sync_folder("")
    scene.fs.crash()
    scene.open()


def test_a_journal_that_knows_less_than_an_image_has_lost_votes_and_the_node_does_not_run() -> None:
    scene = Scene()
    scene.write(EVERY + 1)
    scene.compact_all()
    assert scene.topics[1].image.manifest.snapshots[-1].term == 1
    shortened(scene)
    with pytest.raises(CorruptFile, match=r"ends too early, in both copies: .* up to term 0"):
        scene.store.open_all()


def test_a_term_that_only_the_log_knows_is_in_the_journal_before_an_image_is_published() -> None:
    """A crash came between the writes of log and journal: no vote was given in that term."""
    scene = Scene()
    scene.write(EVERY - 2)
    shortened(scene)
    (found,) = (
        each
        for each in scene.store.open_all()
        if isinstance(each, OpenedGroup) and isinstance(each.info, TopicInfo)
    )
    assert found.replica.raft.term == 1
    assert not found.replica.term_is_durable(Term(1))
    scene.add(found)
    scene.write(2 * EVERY)
    scene.compact_all()
    assert scene.topics[1].image.manifest.snapshots
    scene.restart()
    assert scene.topics[1].image.manifest.snapshots
