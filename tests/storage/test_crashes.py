"""Power lost, or the process killed, at every operation on the disk: nothing acknowledged is lost.

Acknowledged is what `LogWrite.run` returned for. A log that opens after a crash holds all of it,
except what a truncation in flight drops; then possibly a beginning of what was being written, and
nothing else. What lies below the base that the manifest durably names is not there. Each seed is
one test: the number in brackets replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from raftlog.core.types import Entry, HardState, LogIndex, NodeId, Term
from raftlog.errors import DiskFailed
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import NO_BASE, Base
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


def write_manifest(disk: MemoryFileSystem, base: Base) -> None:
    """Name the log's base durably, as an image's manifest does."""
    path = f"{FOLDER}/base"
    if disk.exists(f"{path}.new"):
        disk.remove(f"{path}.new")
    file = disk.open(f"{path}.new", create=True)
    file.write_at(0, [b"%d %d" % base])
    file.sync()
    disk.rename(f"{path}.new", path)
    disk.sync_folder(FOLDER)


def read_manifest(disk: MemoryFileSystem) -> Base:
    """The base that the manifest names."""
    path = f"{FOLDER}/base"
    if not disk.exists(path):
        return NO_BASE
    index, term = disk.open(path, create=False).read_at(0, 100).split()
    return LogIndex(int(index)), Term(int(term))


class Model:
    """A log beside a plain list: what is durable, and what it is after the write in flight. The
    list begins with entry 1 and keeps what the log has dropped."""

    def __init__(self, disk: MemoryFileSystem, limits: LogLimits = SMALL) -> None:
        self.disk = disk
        self.limits = limits
        self.log = GroupLog.create(disk, FOLDER, GROUP, limits)
        self.durable: list[Entry] = []
        self.wanted: list[Entry] = []
        self.kept = 0
        """So many durable entries, from the first, are truncated by nothing pending."""
        self.in_image = 0
        """So many entries, from the first, are in an image: nothing may truncate them."""

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

    def drop_to(self, index: int, *, in_flight: bool = False, manifest_first: bool = False) -> None:
        """Drop what an image at `index` covers; perhaps while a write is in flight."""
        self.in_image = max(self.in_image, index)
        before = self.log.base_index
        work = self.log.take_write() if in_flight else None
        planned = self.log.droppable(index)
        if manifest_first:
            write_manifest(self.disk, planned)
        removal = self.log.drop_to(index)
        assert removal.base == planned == (self.log.base_index, self.log.base_term)
        assert before <= removal.base[0] <= index
        assert content(self.log) == self.wanted[removal.base[0] :]
        if work is not None:
            work.run()
            self.log.written(work)
            self.durable, self.kept = list(self.wanted), len(self.wanted)
        if not manifest_first:
            write_manifest(self.disk, removal.base)
        removal.run()
        assert self.segments()[0] == f"{removal.base[0] + 1:020d}.log"

    def segments(self) -> list[str]:
        """The names of the log's files."""
        return [name for name in self.disk.list(FOLDER) if name.endswith(".log")]

    def reopen(self, *, power_lost: bool) -> None:
        """Crash, open, and compare."""
        self.disk.interrupt = None
        if power_lost:
            self.disk.crash()
        base = read_manifest(self.disk)
        self.log = GroupLog.open(self.disk, FOLDER, GROUP, self.limits, base=base)
        assert self.segments()[0] == f"{base[0] + 1:020d}.log", "what a crash left is removed"
        assert self.log.term_at(base[0]) == base[1]
        before, after = self.durable, self.wanted
        found = before[: base[0]] + content(self.log)
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
    model.drop_to(5)
    model.truncate_from(13)
    model.write()
    model.drop_to(11, manifest_first=True)
    model.append([entry(13, term=4, body=b"large" * 200), *entries(14, 15, term=4)])
    model.drop_to(12, in_flight=True)
    model.drop_to(15)
    model.mark()


def operations_of(script: Callable[[Model], None]) -> int:
    """How many operations on the disk the script makes without a fault."""
    model = Model(new_disk())
    seen: list[str] = []
    model.disk.interrupt = lambda operation, path: seen.append(operation)
    script(model)
    return len(seen)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))]
)
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
            GroupLog.open(model.disk, FOLDER, GROUP, SMALL, base=read_manifest(model.disk))
        except Killed:
            model.reopen(power_lost=True)
            number += 1
        else:
            break
    assert number >= 2, "opening syncs the segment and its folder"


@pytest.mark.slow
def test_a_log_with_random_crashes_agrees_with_a_list() -> None:
    for seed in range(40):
        _agrees_with_a_list(seed)


def _agrees_with_a_list(seed: int) -> None:
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
        action = random.randrange(12)
        if action < 4:
            last = len(model.wanted)
            count = random.randrange(1, 6)
            bodies = [random.randbytes(random.randrange(120)) for _ in range(count)]
            model.append([entry(last + 1 + n, term, body) for n, body in enumerate(bodies)])
        elif action < 6 and last_of(model) > model.in_image:
            term += 1
            lowest = max(model.in_image + 1, last_of(model) - 8)
            model.truncate_from(random.randrange(lowest, 1 + last_of(model)))
        elif action < 8:
            model.write()
        elif action == 8:
            model.mark()
        elif action == 9:
            drop(model, random)
        else:
            crash(model, random)
        assert content(model.log) == model.wanted[model.log.base_index :]
    model.write()
    model.reopen(power_lost=True)


def last_of(model: Model) -> int:
    return len(model.wanted)


def drop(model: Model, random: Random) -> None:
    """Drop to an entry that nothing may truncate any more."""
    model.drop_to(
        random.randrange(model.log.base_index, model.kept + 1),
        in_flight=random.random() < 0.5,
        manifest_first=random.random() < 0.5,
    )


def crash(model: Model, random: Random) -> None:
    """Let a write or a removal begin, die somewhere in it, and open again."""
    kill_at(model.disk, random.randrange(8))
    try:
        if random.random() < 0.4:
            drop(model, random)
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


@pytest.mark.slow
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
