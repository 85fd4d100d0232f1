"""Snapshots of this node that clients copy, part by part: the state of a group's machine.

A copy is known by its snapshot only. Nothing else is remembered here of who copies it, so a client
goes on with it at any node that has this snapshot, and after a restart of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from raftlog.core.types import LogIndex
from raftlog.errors import CorruptFile, IndexUnderflow, NoSnapshot, Overloaded
from raftlog.image.manifest import SnapshotInfo
from raftlog.image.snapshot_file import SnapshotRead
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.image_pins import COPIED_MAX, ImagePins
from raftlog.multiraft.image_sender import CHUNK_BYTES_MAX, gives_images_of
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.contract import FileSystem


class StateCopies:
    """What one node gives of its snapshots. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        fs: FileSystem,
        effects: Effects,
        pins: ImagePins,
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """`damaged` is called with each file that cannot be read, `ended` after each read."""
        self._fs = fs
        self._effects = effects
        self._pins = pins
        self._damaged = damaged
        self._ended = ended

    def read(
        self,
        local: LocalReplica,
        index: LogIndex,
        offset: int,
        done: Callable[[SnapshotRead], None],
    ) -> SnapshotInfo:
        """Begin to read up to `CHUNK_BYTES_MAX` bytes of the snapshot at `index` (0: the newest);
        `done` is called with what was found. The snapshot stays while its parts are asked for.

        Raises `NoSnapshot`, `IndexUnderflow`, `NotLeader` where the replica gives none now,
        `Overloaded`.
        """
        if not gives_images_of(local):
            raise local.not_leader()
        snapshot = self._snapshot(local, index)
        if snapshot.name in local.damaged_files:
            raise local.not_leader()
        if not self._pins.copied(local.group, snapshot):
            holder = f"{COPIED_MAX} other snapshots of the group are being copied"
            raise Overloaded(queue="Snapshots being copied", limit=COPIED_MAX, holder=holder)
        path = f"{local.image.folder}/{snapshot.name}"
        read = SnapshotRead(self._fs, path, offset, CHUNK_BYTES_MAX)
        number = local.begin_read()

        def ran() -> None:
            local.end_read(number)
            if read.damage is not None:
                self._damaged(local, read.damage)
            done(read)
            self._ended(local)

        self._effects.run_read(read, ran)
        return snapshot

    def _snapshot(self, local: LocalReplica, index: LogIndex) -> SnapshotInfo:
        snapshots = local.image.manifest.snapshots
        latest = local.image.manifest.index
        if not snapshots or index > latest:
            raise NoSnapshot(requested=index, latest=latest)
        found = {each.index: each for each in snapshots}.get(index or latest)
        found = found or self._pins.copied_at(local.group, index)
        if found is None:
            raise IndexUnderflow(requested=index, earliest=snapshots[0].index)
        return found
