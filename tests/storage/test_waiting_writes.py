"""A write may wait for a thread while its log moves on: it does what was planned, no more, no less.

A process that is killed at any such moment leaves the log as its last write planned it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from raftlog.core.types import Entry
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.write import LogWrite
from tests.storage.disks import FOLDER, GROUP, SMALL, content, entries, new_disk, write
from tests.storage.memory import MemoryFileSystem
from tests.storage.test_log import open_files

SEEDS = 150


def killed(disk: MemoryFileSystem) -> GroupLog:
    """The log that another process finds after this one was killed."""
    disk.unlock()
    return GroupLog.open(disk, FOLDER, GROUP, SMALL)


def test_a_write_that_waited_through_a_truncation_seals_its_segment_as_planned() -> None:
    """The next segment's header names the end that was planned, not the one of the truncation."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, SMALL)
    log.append(entries(1, 6))
    write(log)
    log.append(entries(7, 12))
    waiting = log.take_write()
    assert waiting is not None
    assert len(waiting.segments) > 1, "it ends a segment and begins another"
    log.truncate_from(7)
    log.append(entries(7, 7, term=2))
    waiting.run()
    assert content(killed(disk)) == entries(1, 12)
    log.written(waiting)
    write(log)
    assert content(killed(disk)) == entries(1, 6) + entries(7, 7, term=2)


class Life:
    """One log in one process, with writes that wait. `on_disk` is what a kill now would leave."""

    def __init__(self, disk: MemoryFileSystem, random: Random) -> None:
        self.log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
        self.on_disk = content(self.log)
        self._planned: list[Entry] = []
        self._waiting: LogWrite | None = None
        self._ran = False
        self._random = random
        self._term = self.log.last_term + 1

    def step(self) -> None:
        random, log = self._random, self.log
        match random.randrange(5):
            case 0 | 1:
                first = log.last_index + 1
                log.append(entries(first, first + random.randrange(8), term=self._term))
            case 2 if log.last_index:
                log.truncate_from(random.randrange(max(1, log.last_index - 9), log.last_index + 1))
                self._term += 1
            case 3 if self._waiting is None:
                planned = content(log)
                self._waiting = log.take_write()
                self._planned, self._ran = planned, False
            case 4 if self._waiting is not None and not self._ran:
                self._waiting.run()
                self._ran = True
                self.on_disk = self._planned
            case 4 if self._waiting is not None:
                log.written(self._waiting)
                self._waiting = None


@pytest.mark.slow
def test_a_kill_leaves_the_log_as_the_last_write_planned_it() -> None:
    for seed in range(SEEDS):
        random, disk = Random(seed), new_disk(seed)
        GroupLog.create(disk, FOLDER, GROUP, SMALL)
        for _ in range(4):
            life = Life(disk, random)
            for _ in range(random.randrange(60)):
                life.step()
            found = content(killed(disk))
            assert found == life.on_disk, f"seed {seed}"


@pytest.mark.slow
def test_a_power_loss_leaves_the_log_as_its_last_write_planned_it() -> None:
    for seed in range(SEEDS):
        random, disk = Random(seed), new_disk(seed)
        GroupLog.create(disk, FOLDER, GROUP, SMALL)
        for _ in range(4):
            life = Life(disk, random)
            for _ in range(random.randrange(60)):
                life.step()
            disk.crash()
            log = GroupLog.open(disk, FOLDER, GROUP, SMALL)
            assert content(log) == life.on_disk, f"seed {seed}"


@pytest.mark.slow
def test_files_of_segments_that_are_truncated_away_while_a_write_waits_are_closed(
    tmp_path: Path,
) -> None:
    limits = LogLimits(segment_bytes_max=700, preallocate_bytes=0, payload_cache_bytes_max=0)
    disk = PosixFileSystem(tmp_path)
    disk.make_folder(FOLDER)
    log = GroupLog.create(disk, FOLDER, GROUP, limits)
    for turn in range(1, 30):
        log.append(entries(log.last_index + 1, log.last_index + 12, term=turn))
        waiting = log.take_write()
        assert waiting is not None
        if log.last_index > 12:
            assert content(log)
        log.truncate_from(6)
        waiting.run()
        log.written(waiting)
    write(log)
    assert content(log) == entries(1, 5)
    assert open_files(tmp_path) <= 1 + limits.sealed_files_max
    log.close()
    assert open_files(tmp_path) == 0
