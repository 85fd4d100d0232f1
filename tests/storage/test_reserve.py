"""The reserve of a data folder: made whole or not at all, and gone when its room is needed."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.storage.contract import FileSystem
from raftlog.storage.reserve import RESERVE_NAME, Reserve
from tests.storage.memory import MemoryFileSystem

BYTES = 4_000


def test_a_reserve_is_made_once_and_removed_for_its_room(empty_disk: FileSystem) -> None:
    reserve = Reserve(empty_disk, BYTES)
    for _ in range(2):
        assert reserve.make()
        assert reserve.make()
        assert empty_disk.open(RESERVE_NAME, create=False).size() == BYTES
        reserve.free()
        assert not empty_disk.exists(RESERVE_NAME)
        reserve.free()


def test_a_part_that_a_crash_left_is_made_whole(empty_disk: FileSystem) -> None:
    file = empty_disk.open(RESERVE_NAME, create=True)
    file.reserve(BYTES - 1)
    file.close()
    assert Reserve(empty_disk, BYTES).make()
    assert empty_disk.open(RESERVE_NAME, create=False).size() == BYTES


@pytest.mark.parametrize(("room", "is_made"), [(4_999, False), (5_000, True)])
def test_a_reserve_needs_a_quarter_of_it_besides(room: int, is_made: bool) -> None:
    fs = MemoryFileSystem(Random(1))
    fs.room = room
    assert Reserve(fs, BYTES).make() == is_made
    assert fs.exists(RESERVE_NAME) == is_made


def test_a_reserve_survives_a_power_loss_and_stays_gone_after_one() -> None:
    fs = MemoryFileSystem(Random(1))
    reserve = Reserve(fs, BYTES)
    assert reserve.make()
    fs.crash()
    assert fs.open(RESERVE_NAME, create=False).size() == BYTES
    reserve.free()
    fs.crash()
    assert not fs.exists(RESERVE_NAME)
