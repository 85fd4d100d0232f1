"""Which full disks keep a leader from taking records."""

from __future__ import annotations

from raftlog.core.membership import Membership
from raftlog.core.types import NodeId
from raftlog.multiraft.full_disks import FullDisks

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))
THREE_VOTERS = Membership((ONE, TWO, THREE))
FOUR_VOTERS = Membership((ONE, TWO, THREE, FOUR))


def test_records_are_taken_while_a_majority_has_room() -> None:
    disks = FullDisks()
    assert disks.hindering(THREE_VOTERS) == []
    disks.heard(THREE, full=True)
    disks.heard(FOUR, full=True)
    assert disks.hindering(THREE_VOTERS) == []
    disks.heard(TWO, full=True)
    assert disks.hindering(THREE_VOTERS) == [TWO, THREE]
    assert not disks.has_room(THREE)
    disks.heard(THREE, full=False)
    assert disks.has_room(THREE)
    assert disks.hindering(THREE_VOTERS) == []


def test_half_of_an_even_number_of_voters_is_no_majority() -> None:
    disks = FullDisks()
    disks.heard(THREE, full=True)
    assert disks.hindering(FOUR_VOTERS) == []
    disks.heard(FOUR, full=True)
    assert disks.hindering(FOUR_VOTERS) == [THREE, FOUR]
