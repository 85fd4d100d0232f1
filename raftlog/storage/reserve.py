"""Room that is kept on the disk for when it is full: a file of zeros, removed to be used.

What a full disk must still take then finds room: small entries, hard states, snapshots after a
trim. It is made again once there is room enough besides.
"""

from __future__ import annotations

from raftlog.errors import DiskFull
from raftlog.storage.contract import ROOT, FileSystem

RESERVE_NAME = "reserve"


class Reserve:
    """The reserve of one data folder. Its methods block on disk: any thread, one at a time."""

    def __init__(self, fs: FileSystem, byte_count: int) -> None:
        """It has `byte_count` bytes; 0: there is none."""
        self._fs = fs
        self.byte_count = byte_count

    def make(self) -> bool:
        """Make it, unless it is there; whether it is there now.

        Not if the disk would have less than a quarter of it left: it would be needed at once.
        Raises `CorruptFile` where something else has its place.
        """
        if self._is_there():
            return True
        if self._fs.free_bytes() < self.byte_count + self.byte_count // 4:
            return False
        self.free()
        try:
            file = self._fs.open(RESERVE_NAME, create=True)
        except DiskFull:
            return False
        try:
            file.reserve(self.byte_count)
            file.sync()
        finally:
            file.close()
        if self._is_there():
            self._fs.sync_folder(ROOT)
            return True
        self.free()
        return False

    def free(self) -> None:
        """Remove it, so that its room can be used."""
        if self._fs.exists(RESERVE_NAME):
            self._fs.remove(RESERVE_NAME)
            self._fs.sync_folder(ROOT)

    def _is_there(self) -> bool:
        """Whether it is there in full: a crash, or a full disk, may have left a part."""
        if not self._fs.exists(RESERVE_NAME):
            return False
        file = self._fs.open(RESERVE_NAME, create=False)
        try:
            return file.size() >= self.byte_count
        finally:
            file.close()
