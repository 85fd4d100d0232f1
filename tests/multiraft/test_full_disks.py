"""Which full disks keep a leader from taking records."""

from __future__ import annotations

from raftlog.core.types import NodeId
from raftlog.multiraft.full_disks import FullDisks

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))


def test_records_are_taken_while_a_majority_has_room() -> None:
    disks = FullDisks()
    assert disks.hindering([ONE, TWO, THREE]) == []
    disks.heard(THREE, full=True)
    disks.heard(FOUR, full=True)
    assert disks.hindering([ONE, TWO, THREE]) == []
    disks.heard(TWO, full=True)
    assert disks.hindering([ONE, TWO, THREE]) == [TWO, THREE]
    disks.heard(THREE, full=False)
    assert disks.hindering([ONE, TWO, THREE]) == []


def test_half_of_an_even_number_of_voters_is_no_majority() -> None:
    disks = FullDisks()
    disks.heard(THREE, full=True)
    assert disks.hindering([ONE, TWO, THREE, FOUR]) == []
    disks.heard(FOUR, full=True)
    assert disks.hindering([ONE, TWO, THREE, FOUR]) == [THREE, FOUR]
