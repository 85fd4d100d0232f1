"""A node's simulated disk: what is durable, writes that end half-way, syncs that fail.

`Disk.image` is the disk as it would be if the power failed now and nothing unsynced came through:
the truth against which acknowledgements and votes are checked.
"""

from __future__ import annotations

from random import Random

from raftlog.core.types import NO_NODE, GroupId, HardState, Term
from raftlog.errors import DiskFailed, DiskFull
from raftlog.image.manifest import read_image
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import read_states
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.write import LogWrite
from tests.storage.memory import MemoryFileSystem

NEED_ROOM = ("write", "create", "rename", "make_folder")
"""What a full disk refuses."""


class ProcessEnds(Exception):
    """The process dies before its next change of the disk."""


class Disk:
    """A file system that a simulation can interrupt."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.fs = MemoryFileSystem(random, interrupt=self._interrupt)
        self._ends_in: int | None = None
        self._fails = False
        self._full = False

    def fill(self) -> None:
        """Refuse room for anything more, until `make_room` or until the process ends."""
        self._full = True

    def make_room(self) -> None:
        self._full = False

    def end_after(self, changes: int | None) -> None:
        """Let the process die after so many changes, before the next; None: not at all."""
        self._ends_in = changes

    def fail_next_sync(self) -> None:
        self._fails = True

    def flip(self, path: str, position: int, count: int = 1) -> None:
        """Change so many bytes at rest, durably. Nothing else of the file may be unsynced."""
        interrupt, self.fs.interrupt = self.fs.interrupt, None
        file = self.fs.open(path, create=False)
        data = file.read_at(position, count)
        file.write_at(position, [bytes(byte ^ 1 for byte in data)])
        file.sync()
        file.close()
        self.fs.interrupt = interrupt

    def behave(self) -> None:
        """Stop failing, refusing and ending from now on."""
        self._fails = False
        self._full = False
        self._ends_in = None

    def power_fails(self) -> None:
        """Unsynced changes come through wholly, torn or not at all."""
        self._ends_in = None
        self._fails = False
        self._full = False
        self.fs.crash()

    def process_dies(self) -> None:
        """What was written stays readable; the lock goes."""
        self._ends_in = None
        self._full = False
        self.fs.unlock()

    def run_partly(self, write: LogWrite) -> bool:
        """Run a write during which the process may end; return whether it was done."""
        self._ends_in = self._random.randrange(5)
        try:
            write.run()
        except (ProcessEnds, DiskFailed):
            return False
        finally:
            self._ends_in = None
        return write.done

    def image(self, folder: str) -> MemoryFileSystem:
        """A copy with only what is durable now in this folder, and of files on the way to it."""
        return self.fs.durable_copy(Random(0), only=folder)

    def _interrupt(self, operation: str, path: str) -> None:
        if self._ends_in is not None:
            if self._ends_in == 0:
                raise ProcessEnds(operation)
            self._ends_in -= 1
        if self._full and operation in NEED_ROOM:
            raise DiskFull(file=path)
        if self._fails and operation == "sync":
            self._fails = False
            raise DiskFailed(file=path, problem="the simulation failed this sync")


class DurableLog:
    """What is known to be on a disk of a group's log: its terms by index, as spans.

    Entries up to `base_index` were dropped for an image.
    """

    __slots__ = ("_terms", "base_index", "last_index")

    def __init__(
        self, last_index: int = 0, terms: tuple[tuple[int, int], ...] = (), base_index: int = 0
    ) -> None:
        self.last_index = last_index
        self.base_index = base_index
        self._terms = terms

    @classmethod
    def of(cls, log: GroupLog) -> DurableLog:
        """The log as it is now: what is on disk once a write taken now has run."""
        runs = tuple(log.terms())
        if log.base_index:
            runs = ((log.base_index, log.base_term), *runs)
        return cls(log.last_index, runs, log.base_index)

    def term_at(self, index: int) -> int:
        """0 where there is no entry, or where only the image knows it."""
        if index > self.last_index:
            return 0
        return next((term for first, term in reversed(self._terms) if first <= index), 0)

    def dropped_to(self, base_index: int) -> DurableLog:
        """The same log without the entries up to `base_index`."""
        return DurableLog(self.last_index, self._terms, max(base_index, self.base_index))

    def shared_with(self, other: DurableLog) -> DurableLog:
        """The entries that both have: what survives a write that may be half done."""
        base_index = max(self.base_index, other.base_index)
        last = min(self.last_index, other.last_index)
        while last > base_index and self.term_at(last) != other.term_at(last):
            last -= 1
        terms = tuple(run for run in self._terms if run[0] <= last)
        return DurableLog(last, terms, base_index)


def durable_log(disk: Disk, folder: str, group: GroupId) -> DurableLog:
    """Read the group's log from what is durable now."""
    fs = disk.image(folder)
    log = GroupLog.open(fs, folder, group, LogLimits(), base=read_image(fs, folder).image.base)
    return DurableLog.of(log)


def durable_state(disk: Disk, group: GroupId) -> HardState:
    """Read the group's term and vote from what is durable now."""
    states, _ = read_states(disk.image(ROOT), ROOT)
    return states.get(group, HardState(Term(0), NO_NODE))
