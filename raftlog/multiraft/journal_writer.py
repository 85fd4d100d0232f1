"""Writes a node's journal of hard states, one write at a time."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.multiraft.disk import NodeDisk
from raftlog.storage.hard_state import HardStateJournal


class JournalWriter:
    """The way of one journal to the disk. `durable` is called after each write of it."""

    def __init__(
        self,
        journal: HardStateJournal,
        disk: NodeDisk,
        *,
        idle_ticks_max: int,
        durable: Callable[[], None],
    ) -> None:
        """A journal not written for `idle_ticks_max` ticks gets its synced marker."""
        self._journal = journal
        self._disk = disk
        self._idle_ticks_max = idle_ticks_max
        self._durable = durable
        self._writing = False
        self._idle_ticks = 0

    def tick(self) -> bool:
        """One tick has passed; is there a marker to `write` because of it?"""
        self._idle_ticks += 1
        return self._idle_ticks == self._idle_ticks_max and self._journal.idle_marker()

    def write(self) -> None:
        """Write what the journal has to write, unless a write is in flight: the next one takes it
        along."""
        if self._writing:
            return
        write = self._journal.take_write()
        if write is None:
            return
        self._writing = True

        def ended() -> None:
            self._writing = False
            self._idle_ticks = 0
            self._journal.written(write)
            self._durable()

        self._disk.run(None, write, ended)
