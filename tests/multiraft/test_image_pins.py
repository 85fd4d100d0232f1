"""What nodes fetch and clients copy: it stays while they take it, and there is a bound."""

from __future__ import annotations

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.image.manifest import Image, SnapshotInfo
from raftlog.multiraft.image_pins import COPIED_MAX, ImagePins

GROUP = GroupId(1)
IDLE_TICKS = 3


def at(index: int) -> SnapshotInfo:
    return SnapshotInfo(index=LogIndex(index), term=Term(1), mark=Offset(0), state_hash=b"")


@pytest.fixture
def pins() -> ImagePins:
    return ImagePins(IDLE_TICKS)


def test_a_snapshot_stays_while_its_parts_are_asked_for(pins: ImagePins) -> None:
    for _ in range(10):
        assert pins.copied(GROUP, at(5))
        for _ in range(IDLE_TICKS):
            pins.tick(disk_full=False)
        assert pins.names(GROUP) == {at(5).name}
        assert pins.copied_at(GROUP, LogIndex(5)) == at(5)
    pins.tick(disk_full=False)
    assert pins.names(GROUP) == frozenset()
    assert pins.copied_at(GROUP, LogIndex(5)) is None
    assert pins.index(GROUP) is None, "it keeps nothing of the log"


def test_a_full_disk_and_a_group_that_is_gone_keep_nothing(pins: ImagePins) -> None:
    pins.copied(GROUP, at(5))
    pins.tick(disk_full=True)
    assert pins.names(GROUP) == frozenset()
    pins.copied(GROUP, at(5))
    pins.forget(GROUP)
    assert pins.names(GROUP) == frozenset()


def test_so_many_snapshots_are_copied_at_a_time_and_no_more(pins: ImagePins) -> None:
    assert all(pins.copied(GROUP, at(index)) for index in range(1, COPIED_MAX + 1))
    assert not pins.copied(GROUP, at(99))
    assert pins.copied(GROUP, at(1)), "others may copy one of these"
    assert pins.copied(GroupId(2), at(99)), "another group has its own"
    for _ in range(IDLE_TICKS + 1):
        pins.tick(disk_full=False)
    assert pins.copied(GROUP, at(99))


def test_a_pin_lapses_by_its_age_whatever_progress_its_peer_makes(pins: ImagePins) -> None:
    """It may ask for one byte at a time."""
    peer, image = NodeId(2), Image(generation=1, snapshots=(at(5),))
    pins.pin(GROUP, peer, image)
    for end in range(1, 30 * IDLE_TICKS + 1):
        pins.tick(disk_full=False)
        assert pins.names_for(GROUP, peer) == {at(5).name}
        pins.gave(GROUP, peer, at(5).name, end)
    pins.tick(disk_full=False)
    assert pins.names_for(GROUP, peer) == frozenset()
    assert pins.index(GROUP) is None
