"""A group's machine as it was after an earlier entry: a snapshot, and the log from there on."""

from __future__ import annotations

import time

from raftlog.core.types import NO_NODE, EntryKind, LogIndex
from raftlog.errors import NotLeader, RaftlogError
from raftlog.image.machine import Machine, new_machine, restored
from raftlog.image.manifest import SnapshotInfo
from raftlog.image.pace import Pace
from raftlog.image.snapshot_file import read_snapshot
from raftlog.machines.group_info import GroupInfo
from raftlog.storage.contract import FileSystem
from raftlog.storage.scan import scan
from raftlog.wire.codec import decode_command

SHARE = 0.5
"""Of the time, the thread works so much and rests otherwise: it is the node's own process, whose
loop has to serve all others meanwhile. No setting: an entry takes 20 us of work."""


class PastStateRead:
    """Makes the machine again that there was after entry `index`. `run` once, on any thread."""

    __slots__ = ("_abandoned", "_folder", "_fs", "_index", "_info", "_snapshot", "error", "machine")

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        info: GroupInfo,
        snapshot: SnapshotInfo | None,
        index: LogIndex,
    ) -> None:
        """The log must hold the entries after `snapshot` (None: all) up to `index`, durable and
        committed, and none of them is removed meanwhile."""
        self._fs = fs
        self._folder = folder
        self._info = info
        self._snapshot = snapshot
        self._index = index
        self._abandoned = False
        self.machine: Machine | None = None
        self.error: RaftlogError | None = None
        """Why there is no machine."""

    def run(self) -> None:
        """Restore the snapshot and replay the log."""
        try:
            self.machine = self._replayed()
        except RaftlogError as error:
            self.error = error

    def abandon(self) -> None:
        """The machine is not wanted any more: end soon, with `NotLeader`. From any thread."""
        self._abandoned = True

    def _replayed(self) -> Machine:
        fs, folder, info = self._fs, self._folder, self._info
        machine, after = new_machine(info), 0
        if self._snapshot is not None:
            state = read_snapshot(fs, folder, info.group, self._snapshot)
            machine = restored(info, self._snapshot, state).machine
            after = self._snapshot.index
        pace = Pace(SHARE, clock_s=time.thread_time)
        for place, command in pace.over(
            scan(fs, folder, info.group, LogIndex(after + 1), self._index)
        ):
            if self._abandoned:
                raise NotLeader(group=info.group, leader=NO_NODE)
            if place.kind is EntryKind.COMMAND:
                machine.apply(LogIndex(place.frame.entry_index), decode_command(command))
        return machine
