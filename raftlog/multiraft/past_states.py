"""States of this node's key-value store that its machine does not keep any more, made again.

The nearest snapshot at or below the index is restored on another thread, and the log is replayed up
to the index. One is made at a time on a node, and the last one is kept for a while: a scan of many
pages asks for the same state again and again, and reads close below it are told by the changes that
its machine keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raftlog.core.types import LogIndex
from raftlog.errors import (
    CorruptFile,
    IndexOverflow,
    IndexUnderflow,
    NotLeader,
    RaftlogError,
)
from raftlog.image.manifest import SnapshotInfo
from raftlog.image.past_state import PastStateRead
from raftlog.machines.kv import KvMachine
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.image_sender import gives_images_of
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.replica import Replica
from raftlog.storage.contract import FileSystem

Done = Callable[[KvMachine | RaftlogError], None]


@dataclass(slots=True)
class _Made:
    replica: Replica
    """Of which it was. Once another image took the place of what was here, it is another one."""
    index: LogIndex
    machine: KvMachine
    idle_ticks: int = 0


class PastStates:
    """Those of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        fs: FileSystem,
        effects: Effects,
        idle_ticks_max: int,
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """The last state is dropped after `idle_ticks_max` ticks without a request for it.

        `damaged` is called with each file that cannot be read, `ended` after each read."""
        self._fs = fs
        self._effects = effects
        self._idle_ticks_max = idle_ticks_max
        self._damaged = damaged
        self._ended = ended
        self._making: PastStateRead | None = None
        self._made: _Made | None = None

    def stop(self) -> None:
        """What is being made is not wanted any more: the node ends, or the call that asked."""
        if self._making is not None:
            self._making.abandon()

    def tick(self) -> None:
        """One tick of the clock has passed."""
        if self._made is not None:
            self._made.idle_ticks += 1
            if self._made.idle_ticks > self._idle_ticks_max:
                self._made = None

    def forget(self) -> None:
        """The store is gone from here, or its files are."""
        self.stop()
        self._made = None

    def known(self, local: LocalReplica, index: LogIndex) -> KvMachine | None:
        """The last machine that was made, if it knows the state after entry `index`."""
        made = self._made
        if made is None or made.replica is not local.replica or not _knows(made, index):
            return None
        made.idle_ticks = 0
        return made.machine

    def make(self, local: LocalReplica, index: LogIndex, done: Done) -> None:
        """Tell `done` of a machine that knows the state after entry `index`, which is applied; or
        why there is none. The one that was asked for before must be made.

        Raises `IndexUnderflow` if neither snapshots nor log reach back to it, `IndexOverflow`,
        `NotLeader` where the replica tells none now.
        """
        assert self._making is None, "one is made at a time"
        if local.mending or not gives_images_of(local):
            raise local.not_leader()
        durable = local.replica.log.durable_index
        if index > durable:
            raise IndexOverflow(requested=index, latest=durable)
        replica, snapshot = local.replica, _nearest(local, index)
        read = PastStateRead(self._fs, local.image.folder, local.info, snapshot, index)
        self._made = None  # two of them would be as large as the store each
        self._making = read
        number = local.begin_read()

        def ran() -> None:
            self._making = None
            local.end_read(number)
            if read.error is not None:
                if isinstance(read.error, CorruptFile):
                    self._damaged(local, read.error)
                # The read knows neither the node nor who leads.
                abandoned = isinstance(read.error, NotLeader)
                done(local.not_leader() if abandoned else read.error)
            else:
                assert isinstance(read.machine, KvMachine), "no other machine tells past states"
                self._made = _Made(replica, index, read.machine)
                done(read.machine)
            self._ended(local)

        self._effects.run_read(read, ran)


def _knows(made: _Made, index: LogIndex) -> bool:
    return index <= made.index and made.machine.knows(index)


def _nearest(local: LocalReplica, index: LogIndex) -> SnapshotInfo | None:
    """The snapshot from which the log leads to the index, or which is at it; None: the log has
    everything. Raises `IndexUnderflow`."""
    base = local.replica.log.base_index
    snapshots = [
        each for each in local.image.manifest.snapshots if each.name not in local.damaged_files
    ]
    for each in reversed(snapshots):
        if each.index == index or base <= each.index < index:
            return each
    if base == 0:
        return None
    above = (each.index for each in snapshots if each.index > index)
    earliest = min(above, default=local.kv_machine.changes_after)
    raise IndexUnderflow(requested=index, earliest=earliest)
