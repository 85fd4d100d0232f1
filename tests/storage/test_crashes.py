"""Power lost, or the process killed, at every operation on the disk: nothing acknowledged is lost.

Acknowledged is what `LogWrite.run` returned for. A log that opens after a crash holds all of it,
except what a truncation in flight drops; then possibly a beginning of what was being written, and
nothing else. Each seed is one test: the number in brackets replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from raftlog.core.types import Entry, HardState, NodeId, Term
from raftlog.errors import DiskFailed
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from tests.storage.disks import FOLDER, GROUP, SMALL, content, entries, entry, new_disk, write
from tests.storage.memory import MemoryFileSystem


class Killed(BaseException):
    """The process died here; no code of ours may catch it."""


def kill_at(disk: MemoryFileSystem, operation_number: int) -> None:
    """Die before the n-th operation on the disk from now, counted from 0."""
    left = [operation_number]

    def count(operation: str, path: str) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1

    disk.interrupt = count


class Model:
    """A log beside a plain list: what is durable, and what it is after the write in flight."""

    def __init__(self, disk: MemoryFileSystem, limits: LogLimits = SMALL) -> None:
        self.disk = disk
        self.limits = limits
        self.log = GroupLog.create(disk, FOLDER, GROUP, limits)
        self.durable: list[Entry] = []
        self.wanted: list[Entry] = []
        self.kept = 0
        """So many durable entries, from the first, are truncated by nothing pending."""

    def append(self, items: list[Entry]) -> None:
        self.log.append(items)
        self.wanted += items

    def truncate_from(self, index: int) -> None:
        self.log.truncate_from(index)
        del self.wanted[index - 1 :]
        self.kept = min(self.kept, index - 1)

    def write(self) -> None:
        work = self.log.take_write()
        if work is not None:
            work.run()
            self.log.written(work)
        self.durable = list(self.wanted)
        self.kept = len(self.durable)
        assert self.log.durable_index == self.kept

    def mark(self) -> None:
        if self.log.idle_marker():
            self.write()

    def reopen(self, *, power_lost: bool) -> None:
        """Crash, open, and compare."""
        self.disk.interrupt = None
        if power_lost:
            self.disk.crash()
        self.log = GroupLog.open(self.disk, FOLDER, GROUP, self.limits)
        found = content(self.log)
        before, after = self.durable, self.wanted
        assert len(found) >= self.kept, "an acknowledged entry is lost"
        assert found in (before[: len(found)], after[: len(found)]), "never something else"
        assert self.log.durable_index == len(found)
        self.durable, self.wanted, self.kept = found, list(found), len(found)


def scripted(model: Model) -> None:
    """Every kind of write: small, batched, over a segment's end, truncations in and across
    segments."""
    for index in range(1, 5):
        model.append([entry(index)])
        model.write()
    model.append(entries(5, 22))
    model.write()
    model.mark()
    model.truncate_from(21)
    model.append(entries(21, 23, term=2))
    model.write()
    model.truncate_from(7)
    model.append(entries(7, 16, term=3))
    model.write()
    model.truncate_from(13)
    model.write()
    model.append([entry(13, term=4, body=b"large" * 200), *entries(14, 15, term=4)])
    model.write()
    model.mark()


def operations_of(script: Callable[[Model], None]) -> int:
    """How many operations on the disk the script makes without a fault."""
    model = Model(new_disk())
    seen: list[str] = []
    model.disk.interrupt = lambda operation, path: seen.append(operation)
    script(model)
    return len(seen)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("power_lost", [True, False], ids=["power-lost", "killed"])
def test_nothing_acknowledged_is_lost_at_any_crash(power_lost: bool, seed: int) -> None:
    for number in range(operations_of(scripted)):
        model = Model(new_disk(seed=1000 * seed + number))
        kill_at(model.disk, number)
        with pytest.raises(Killed):
            scripted(model)
        model.reopen(power_lost=power_lost)
        model.append(entries(len(model.wanted) + 1, len(model.wanted) + 3, term=9))
        model.write()
        model.reopen(power_lost=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_while_opening_changes_nothing_that_counts(seed: int) -> None:
    number = 0
    while True:
        model = Model(new_disk(seed=1000 * seed + number))
        scripted(model)
        model.append(entries(16, 24, term=5))
        work = model.log.take_write()
        assert work is not None
        kill_at(model.disk, 3)  # the segment was begun, but not all of it is written
        with pytest.raises(Killed):
            work.run()
        model.disk.crash()
        kill_at(model.disk, number)
        try:
            GroupLog.open(model.disk, FOLDER, GROUP, SMALL)
        except Killed:
            model.reopen(power_lost=True)
            number += 1
        else:
            break
    assert number >= 2, "opening syncs the segment and its folder"


@pytest.mark.parametrize("seed", range(40))
def test_a_log_with_random_crashes_agrees_with_a_list(seed: int) -> None:
    random = Random(seed)
    segment_bytes = random.choice([200, 500, 2000, 1 << 20])
    limits = LogLimits(
        segment_bytes_max=segment_bytes,
        preallocate_bytes=random.choice([0, 100, 3000]),
        payload_cache_bytes_max=random.choice([0, 2_000, 1 << 20]),
    )
    model = Model(new_disk(seed), limits)
    term = 1
    for _ in range(60):
        action = random.randrange(10)
        if action < 4:
            last = len(model.wanted)
            count = random.randrange(1, 6)
            bodies = [random.randbytes(random.randrange(120)) for _ in range(count)]
            model.append([entry(last + 1 + n, term, body) for n, body in enumerate(bodies)])
        elif action < 6 and model.wanted:
            term += 1
            model.truncate_from(random.randrange(max(1, len(model.wanted) - 8), 1 + last_of(model)))
        elif action < 8:
            model.write()
        elif action == 8:
            model.mark()
        else:
            crash(model, random)
        assert content(model.log) == model.wanted
    model.write()
    model.reopen(power_lost=True)


def last_of(model: Model) -> int:
    return len(model.wanted)


def crash(model: Model, random: Random) -> None:
    """Let a write begin, die somewhere in it, and open again, perhaps dying once more."""
    kill_at(model.disk, random.randrange(8))
    try:
        model.write()
    except Killed:
        assert model.log.durable_index <= model.kept, "what was not synced counted as durable"
    model.reopen(power_lost=random.randrange(4) > 0)


def test_a_failed_sync_proves_nothing_durable_even_after_a_restart() -> None:
    """The pages are readable and clean; only writing them again makes them durable."""
    model = Model(new_disk())
    model.append(entries(1, 2))
    model.write()

    def fail(operation: str, path: str) -> None:
        if operation == "sync":
            raise DiskFailed(file=path, problem="injected")

    model.disk.interrupt = fail
    model.append(entries(3, 4))
    with pytest.raises(DiskFailed):
        model.write()
    model.reopen(power_lost=False)
    assert content(model.log) == entries(1, 4), "the page cache still had them"
    model.reopen(power_lost=True)
    assert content(model.log) == entries(1, 4), "what opening called durable is"


def test_what_a_killed_process_had_not_synced_is_synced_when_opening() -> None:
    model = Model(new_disk())
    model.append(entries(1, 3))
    kill_at(model.disk, 2)
    with pytest.raises(Killed):
        model.write()
    model.reopen(power_lost=False)
    assert content(model.log) == entries(1, 3)
    model.reopen(power_lost=True)
    assert content(model.log) == entries(1, 3)


# ---------------------------------------------------------------- the journal


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("power_lost", [True, False], ids=["power-lost", "killed"])
def test_no_acknowledged_vote_is_lost_at_any_crash(power_lost: bool, seed: int) -> None:
    number = 0
    finished = False
    while not finished:
        disk = new_disk(seed=1000 * seed + number)
        durable: dict[int, HardState] = {}
        wanted: dict[int, HardState] = {}
        kill_at(disk, number)
        try:
            journal = HardStateJournal.open(disk, FOLDER)
            for term in range(1, 7):
                for group in range(term % 3, 4):
                    wanted[group] = HardState(Term(term), NodeId(1 + (group + term) % 3))
                    journal.put(group, wanted[group])
                write(journal)
                durable = dict(wanted)
                if term == 4:
                    journal.close()
                    journal = HardStateJournal.open(disk, FOLDER)
            finished = True
        except Killed:
            number += 1
        disk.interrupt = None
        if power_lost:
            disk.crash()
        journal = HardStateJournal.open(disk, FOLDER)
        found = {group: journal.get(group) for group in range(4) if journal.get(group)}
        assert found in (durable, wanted), "all states of one write, or none"
        disk.crash()
        again = HardStateJournal.open(disk, FOLDER)
        assert {g: again.get(g) for g in range(4) if again.get(g)} == found
    assert number > 20
