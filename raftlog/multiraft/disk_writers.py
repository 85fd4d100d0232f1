"""Write a node's logs and its journal of hard states, each with one write at a time."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import GroupId
from raftlog.errors import ResourceShortage
from raftlog.multiraft.admission import Admission
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.replicas import NodeReplicas
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
        try:
            write = self._journal.take_write()
        except ResourceShortage as short:
            self._disk.wait(None, short, self.write)
            return
        if write is None:
            return
        self._writing = True

        def ended() -> None:
            self._writing = False
            self._idle_ticks = 0
            self._journal.written(write)
            self._durable()

        self._disk.run(None, write, ended)


class LogWriter:
    """The way of all logs to the disk."""

    def __init__(
        self,
        replicas: NodeReplicas,
        disk: NodeDisk,
        admission: Admission,
        mark_dirty: Callable[[GroupId], None],
    ) -> None:
        """`mark_dirty` is called with a group whose log is written, or may be written again."""
        self._replicas = replicas
        self._disk = disk
        self._admission = admission
        self._mark_dirty = mark_dirty

    def write(self, local: LocalReplica) -> None:
        """Write what the replica's log has to write, unless a write is in flight."""
        if local.writing or local.mending:
            return
        try:
            write = local.replica.take_write()
        except ResourceShortage as short:
            local.abandon_writes(self._admission.own(short))
            self._disk.wait(local.group, short, lambda: self._mark_dirty(local.group))
            return
        if write is None:
            return
        local.writing = True

        def ended() -> None:
            local.writing = False
            local.idle_ticks = 0
            if write.done:
                local.replica.written(write)
            if local.group in self._replicas:
                self._mark_dirty(local.group)
            else:
                self._replicas.let_go(local)

        def no_room(short: ResourceShortage) -> bool:
            local.abandon_writes(self._admission.own(short))
            # What a deleted topic had to write is not waited for: its end may make room.
            return local.group in self._replicas

        self._disk.run(local.group, write, ended, no_room=no_room)
